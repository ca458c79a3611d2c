//! Finds an option by its name or an unambiguous prefix. bbcp's names come first; as in bbcp, some have shorter
//! prefixes.

use super::Dialect;
use super::nearest::nearest;
use super::row::OptionRow;

/// The meaning of a long name.
pub enum Named {
    /// This option.
    One(&'static OptionRow),
    /// The beginning of several.
    Several(Vec<&'static str>),
    /// None; the closest name.
    None(Option<&'static str>),
}

/// Finds an option by its long form or a prefix, `typed`.
pub fn long(table: &'static [OptionRow], dialect: Dialect, typed: &str) -> Named {
    let rows = || table.iter().filter(move |row| dialect.has(row));
    if let Some(row) = rows().find(|row| forms(row, dialect).any(|form| form == typed)) {
        return Named::One(row);
    }
    // Other programs' words begin many names: --tar is not --target-command.
    let is_enough = |form: &str| dialect == Dialect::Bbcp || 2 * typed.len() >= form.len();
    let is_begun = |form: &str| !typed.is_empty() && form.starts_with(typed);
    let mut begun: Vec<_> = rows()
        .flat_map(|row| forms(row, dialect).map(move |form| (form, row)))
        .filter(|(form, _)| is_begun(form))
        .collect();
    if dialect == Dialect::Bbcp {
        let is_bbcps = |row: &OptionRow| bbcp_name(row).is_some_and(|(_, letters)| typed.len() >= letters);
        if let Some((_, row)) = begun.iter().find(|(_, row)| is_bbcps(row)) {
            return Named::One(row);
        }
    }
    // Two forms of one option are not ambiguous.
    begun.dedup_by_key(|(_, row)| row.id);
    match begun.as_slice() {
        [(form, row)] if is_enough(form) => Named::One(row),
        [(form, _)] => Named::None(Some(form)),
        [] => {
            let all: Vec<_> = rows().flat_map(|row| forms(row, dialect)).collect();
            Named::None(nearest(typed, &all))
        }
        several => Named::Several(several.iter().map(|(form, _)| *form).collect()),
    }
}

/// The option of a letter of bbcp.
pub fn bbcp_letter(table: &'static [OptionRow], letter: char) -> Option<&'static OptionRow> {
    table.iter().find(|row| row.has_bbcp_letter(letter))
}

/// The option of haul with exactly this long name.
pub fn exact(table: &'static [OptionRow], name: &str) -> Option<&'static OptionRow> {
    table.iter().find(|row| row.long_forms().any(|form| form == name))
}

/// Its long forms in this dialect.
fn forms(row: &'static OptionRow, dialect: Dialect) -> impl Iterator<Item = &'static str> {
    let bbcps = bbcp_name(row).map(|(name, _)| name).filter(|_| dialect == Dialect::Bbcp);
    row.long_forms().filter(move |_| dialect == Dialect::Haul).chain(bbcps)
}

/// Returns bbcp's long form, and the length of its shortest prefix.
fn bbcp_name(row: &OptionRow) -> Option<(&'static str, usize)> {
    row.bbcp.and_then(|bbcp| bbcp.long)
}

#[cfg(test)]
mod tests {
    use super::super::flags::COPY;
    use super::*;

    fn named(typed: &str, dialect: Dialect) -> String {
        match long(COPY, dialect, typed) {
            Named::One(row) => row.id.to_owned(),
            Named::Several(names) => names.join(" or "),
            Named::None(near) => format!("nothing, but perhaps {near:?}"),
        }
    }

    #[test]
    fn bbcps_names_accept_the_same_abbreviations_as_in_bbcp() {
        for (typed, id) in [
            ("a", "journal-dir"),
            ("b", "buffers"),
            ("buffs", "buffers or buffsz"),
            ("c", "compress"),
            ("f", "force"),
            ("h", "help"),
            ("i", "idfile"),
            ("in", "infiles"),
            ("k", "keep"),
            ("l", "logfile"),
            ("m", "mode"),
            ("n", "nodns"),
            ("o", "order"),
            ("omit", "omit"),
            ("p", "preserve"),
            ("prog", "progress"),
            ("port", "data-ports"),
            ("q", "qos"),
            ("r", "recursive"),
            ("rev", "reverse"),
            ("s", "streams"),
            ("sync", "fsync"),
            ("t", "timelimit"),
            ("u", "unbuffered"),
            ("v", "verbose"),
            ("vv", "vverbose"),
            ("version", "version"),
            ("w", "windowsz"),
            ("x", "xfrrate"),
            ("check", "checksum"),
            ("ipv4", "ipv4"),
            ("sy", "symlinks"),
            ("pt", "ptime"),
        ] {
            let expected = if typed == "buffs" { "buffsz" } else { id };
            assert_eq!(named(typed, Dialect::Bbcp), expected, "--{typed}");
        }
    }

    #[test]
    fn hauls_names_accept_unambiguous_abbreviations_and_bbcps_do_not() {
        assert_eq!(named("verif", Dialect::Haul), "verify");
        assert_eq!(named("checksums", Dialect::Haul), "checksums");
        assert_eq!(
            named("no-", Dialect::Haul),
            "no-times or no-empty-dirs or no-resume or no-keep or no-encrypt or no-ssh-reuse or no-deploy"
        );
        assert_eq!(named("part", Dialect::Haul), "keep");
        for (typed, near) in [("par", "partial"), ("tar", "target-command"), ("use", "usermap"), ("log", "logfile")] {
            assert_eq!(named(typed, Dialect::Haul), format!("nothing, but perhaps Some({near:?})"), "less than half");
        }
        for typed in ["verify", "json", "partial", "fsync", "no-empty-dirs"] {
            assert!(named(typed, Dialect::Bbcp).starts_with("nothing"), "--{typed}");
        }
        assert_eq!(named("recusive", Dialect::Haul), "nothing, but perhaps Some(\"recursive\")");
        assert!(named("", Dialect::Haul).starts_with("nothing"));
    }
}
