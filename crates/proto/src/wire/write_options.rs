//! Options of the source's walk and of entries created at the target.

use crate::encoding::{Decoded, Reader, Writer};
use crate::error::ProtocolError;
use crate::limits::NAMES_MAX;
use crate::limits::OPERANDS_MAX;
use crate::overwrite_policy::OverwritePolicy;
use crate::path::Name;
use crate::wire::names::decode_names;
use crate::wire::names::encode_names;

/// Mask of valid permission bits.
const MODE_MAX: u16 = 0o7777;
/// Marker of a mode that was not requested.
const NO_MODE: u16 = u16::MAX;

/// Entries that the walk skips with a report, instead of a failure or a useless copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SkipOptions {
    /// Unreadable entries below a source argument.
    pub unreadable: bool,
    /// Directories without anything to copy, below a source argument.
    pub empty_directories: bool,
}

/// Treatment of existing entries and creation of new ones at a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteOptions {
    /// Policy for existing entries.
    pub in_the_way: OverwritePolicy,
    /// Modes of new entries.
    pub modes: ModeOptions,
    /// Refuse a large file without enough space before its first byte is sent.
    pub check_space: bool,
    /// For each source argument, the directories to create below the target; then the target has to be a directory.
    /// Empty: arguments go where cp(1) would put them.
    pub below: Vec<Vec<Name>>,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            in_the_way: OverwritePolicy::default(),
            modes: ModeOptions::default(),
            check_space: true,
            below: Vec::new(),
        }
    }
}

/// Permission bits of new entries, where they are not the source's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ModeOptions {
    /// Mode of files.
    pub file: Option<u16>,
    /// Mode of directories.
    pub directory: Option<u16>,
    /// Apply the umask to them, as to the source's modes.
    pub less_umask: bool,
}

impl SkipOptions {
    /// Writes the options.
    pub(super) fn encode(self, out: &mut Writer) {
        out.bool(self.unreadable).bool(self.empty_directories);
    }

    /// Reads the options.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self { unreadable: reader.bool()?, empty_directories: reader.bool()? })
    }
}

impl WriteOptions {
    /// Writes the options.
    pub(super) fn encode(&self, out: &mut Writer) {
        let in_the_way = match self.in_the_way {
            OverwritePolicy::Report => 0,
            OverwritePolicy::Replace => 1,
            OverwritePolicy::Omit => 2,
            OverwritePolicy::ReportEqual => 3,
            OverwritePolicy::Follow => 4,
        };
        out.u8(in_the_way);
        self.modes.encode(out);
        out.bool(self.check_space).count(self.below.len());
        self.below.iter().for_each(|names| encode_names(names, out));
    }

    /// Reads the options.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        let in_the_way = match reader.u8()? {
            0 => OverwritePolicy::Report,
            1 => OverwritePolicy::Replace,
            2 => OverwritePolicy::Omit,
            3 => OverwritePolicy::ReportEqual,
            4 => OverwritePolicy::Follow,
            value => return Err(ProtocolError::Unknown { what: "overwrite policy", value: value.into() }),
        };
        let modes = ModeOptions::decode(reader)?;
        let check_space = reader.bool()?;
        let operands = reader.count(OPERANDS_MAX, "operands")?;
        let below = (0..operands).map(|_| decode_names(reader, NAMES_MAX)).collect::<Decoded<_>>()?;
        Ok(Self { in_the_way, modes, check_space, below })
    }
}

impl ModeOptions {
    fn encode(self, out: &mut Writer) {
        out.u16(self.file.unwrap_or(NO_MODE)).u16(self.directory.unwrap_or(NO_MODE)).bool(self.less_umask);
    }

    fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        let mut mode = || match reader.u16()? {
            NO_MODE => Ok(None),
            mode if mode <= MODE_MAX => Ok(Some(mode)),
            _ => Err(ProtocolError::OverLimit("bits of a mode")),
        };
        Ok(Self { file: mode()?, directory: mode()?, less_umask: reader.bool()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(rules: &WriteOptions) -> Vec<u8> {
        let mut out = Writer::new();
        rules.encode(&mut out);
        out.into_bytes()
    }

    #[test]
    fn every_rule_comes_back() {
        let name = |text: &str| Name::new(text.as_bytes()).unwrap();
        let modes = ModeOptions { file: Some(0o640), directory: None, less_umask: true };
        for in_the_way in
            [OverwritePolicy::Report, OverwritePolicy::Replace, OverwritePolicy::Omit, OverwritePolicy::ReportEqual]
        {
            let below = vec![vec![], vec![name("a"), name("b")]];
            let rules = WriteOptions { in_the_way, modes, check_space: false, below };
            let bytes = encoded(&rules);
            assert_eq!(WriteOptions::decode(&mut Reader::new(&bytes)), Ok(rules));
            for cut in 0..bytes.len() {
                assert!(WriteOptions::decode(&mut Reader::new(&bytes[..cut])).is_err());
            }
        }
        assert_eq!(
            WriteOptions::decode(&mut Reader::new(&encoded(&WriteOptions::default()))),
            Ok(WriteOptions::default())
        );
    }

    #[test]
    fn what_is_no_rule_mode_or_name_is_a_fault() {
        let good = encoded(&WriteOptions { below: vec![vec![Name::new(b"a").unwrap()]], ..WriteOptions::default() });
        for (at, value) in [(0, 5), (1, 0x10), (good.len() - 1, b'/')] {
            let mut bad = good.clone();
            bad[at] = value;
            assert!(WriteOptions::decode(&mut Reader::new(&bad)).is_err(), "{value} at {at}");
        }
    }
}
