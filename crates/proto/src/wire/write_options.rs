//! Options of the source's walk and of entries created at the target.

use crate::codec::{FieldCodec, list, wire_struct};
use crate::encoding::{Decoded, Reader, Writer};
use crate::error::ProtocolError;
use crate::limits::NAMES_MAX;
use crate::limits::OPERANDS_MAX;
use crate::overwrite_policy::OverwritePolicy;
use crate::path::Name;
use crate::wire::names::names;

/// Mask of valid permission bits.
const MODE_MAX: u16 = 0o7777;
/// Marker of a mode that was not requested.
const NO_MODE: u16 = u16::MAX;

wire_struct! {
    /// Entries that the walk skips with a report, instead of a failure or a useless copy.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct SkipOptions {
        /// Unreadable entries below a source argument.
        pub unreadable: bool,
        /// Directories without anything to copy, below a source argument.
        pub empty_directories: bool,
    }
}

wire_struct! {
    /// Treatment of existing entries and creation of new ones at a target.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct WriteOptions {
        /// Policy for existing entries.
        pub overwrite: OverwritePolicy,
        /// Modes of new entries.
        pub modes: ModeOptions,
        /// Refuse a large file without enough space before its first byte is sent.
        pub check_space: bool,
        /// For each source argument, the directories to create below the target; then the target has to be a directory.
        /// Empty: arguments go where cp(1) would put them.
        pub below: Vec<Vec<Name>> as list(names(NAMES_MAX), OPERANDS_MAX, "operands"),
    }
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            overwrite: OverwritePolicy::default(),
            modes: ModeOptions::default(),
            check_space: true,
            below: Vec::new(),
        }
    }
}

wire_struct! {
    /// Permission bits of new entries, where they are not the source's.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct ModeOptions {
        /// Mode of files.
        pub file: Option<u16> as OptionalMode,
        /// Mode of directories.
        pub directory: Option<u16> as OptionalMode,
        /// Apply the umask to them, as to the source's modes.
        pub less_umask: bool,
    }
}

/// A mode; [`NO_MODE`] stands for `None`.
struct OptionalMode;

impl FieldCodec<Option<u16>> for OptionalMode {
    fn encode(&self, mode: &Option<u16>, out: &mut Writer) {
        out.u16(mode.unwrap_or(NO_MODE));
    }

    fn decode(&self, reader: &mut Reader<'_>) -> Decoded<Option<u16>> {
        match reader.u16()? {
            NO_MODE => Ok(None),
            mode if mode <= MODE_MAX => Ok(Some(mode)),
            _ => Err(ProtocolError::OverLimit("bits of a mode")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::tests::{comes_back, refuses};

    #[test]
    fn every_rule_comes_back() {
        let name = |text: &str| Name::new(text.as_bytes()).unwrap();
        let modes = ModeOptions { file: Some(0o640), directory: None, less_umask: true };
        for overwrite in
            [OverwritePolicy::Report, OverwritePolicy::Replace, OverwritePolicy::Omit, OverwritePolicy::ReportEqual]
        {
            let below = vec![vec![], vec![name("a"), name("b")]];
            comes_back(&WriteOptions { overwrite, modes, check_space: false, below });
        }
        comes_back(&WriteOptions::default());
    }

    #[test]
    fn what_is_no_rule_mode_or_name_is_a_fault() {
        let below = vec![vec![Name::new(b"a").unwrap()]];
        let good = comes_back(&WriteOptions { below, ..WriteOptions::default() });
        assert!(refuses::<WriteOptions>(&good, &[(0, 5), (1, 0x10), (good.len() - 1, b'/')]));
    }
}
