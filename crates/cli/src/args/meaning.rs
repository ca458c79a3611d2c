//! Meanings of other programs' options in haul.

/// What a letter, or an option of another program, is in haul.
#[derive(Clone, Copy)]
pub enum Meaning {
    /// These options, with arguments after `=`.
    Is(&'static [&'static str]),
    /// This option; its argument is this text and the typed argument.
    With(&'static str, &'static str),
    /// Accepted without effect: haul always does it, or nothing comes of it but speed or layout.
    Nothing,
    /// Refused; what to write instead, one hint a line.
    Refused(&'static str),
}
