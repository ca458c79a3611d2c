//! Options of the source's walk, of entries created at the target, and of partial files.

use crate::codec::{FieldCodec, wire_enum, wire_struct};
use crate::encoding::{Decoded, Reader, Writer};
use crate::error::ProtocolError;
use crate::field_codecs::{DefaultIsNone, PATH};
use crate::overwrite_policy::OverwritePolicy;
use crate::striping::StripingPolicy;

/// Mask of valid permission bits.
const MODE_MAX: u16 = 0o7777;
/// Marker of a mode that was not requested.
const NO_MODE: u16 = u16::MAX;

wire_struct! {
    /// Entries that the walk skips with a report, instead of a failure or a useless copy.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
    pub struct SkipOptions {
        /// Unreadable entries below a source argument.
        pub unreadable: bool,
        /// Directories without anything to copy, below a source argument.
        pub empty_directories: bool,
        /// Other file systems below a source argument: their mount points count as empty directories.
        pub other_file_systems: bool,
        /// Source arguments that do not exist.
        pub missing: bool,
        /// Create special files that are source arguments, instead of reading them.
        pub device_contents: bool,
        /// Contents of directories. Of a source argument that means contents (`dir/.`), those one level down are
        /// copied.
        pub contents: bool,
    }
}

wire_struct! {
    /// Treatment of source entries that change while they are copied.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
    pub struct LiveSourceOptions {
        /// Fail a file that grows.
        pub refuse_growing: bool,
        /// Start a small file over once if it grows before it is read.
        pub restart_growing: bool,
        /// Listed arguments were found by an earlier walk below the base: one that is gone has vanished.
        pub is_planned: bool,
    }
}

wire_struct! {
    /// Treatment of existing entries and creation of new ones at a target.
    #[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
    pub struct WriteOptions {
        /// Policy for existing entries.
        pub overwrite: OverwritePolicy,
        /// Modes of new entries.
        pub modes: ModeOptions,
        /// Refuse a large file without enough space before its first byte is sent.
        pub check_space: bool,
        /// Striping of large files.
        pub striping: StripingPolicy,
    }
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            overwrite: OverwritePolicy::default(),
            modes: ModeOptions::default(),
            check_space: true,
            striping: StripingPolicy::default(),
        }
    }
}

wire_struct! {
    /// Creation of the target directory.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
    pub struct DirectoryOptions {
        /// Create it.
        pub create: bool,
        /// Copy a directory only into an existing one: refuse a missing path.
        pub must_exist: bool,
        /// What the directories between it and the source arguments get.
        pub parents: ParentMetadata,
        /// Of a single file's target, create the directories above it alone.
        pub only_parents: bool,
        /// Replace a device, FIFO or socket that is the target, instead of writing to it.
        pub replaces_special: bool,
        /// Device and inode number of the only directory that may be the target.
        #[serde(skip)]
        pub identity: Option<(u64, u64)>,
    }
}

impl ParentMetadata {
    /// Whether existing directories get all metadata of the source.
    pub fn is_all(self) -> bool {
        matches!(self, Self::All | Self::AllFromBase)
    }
}

wire_enum! {
    /// Metadata of the directories between the target and the source arguments.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
    pub enum ParentMetadata: "metadata of parent directories" {
        /// New ones get the source's modes.
        #[default]
        Modes = 0,
        /// All get all metadata of the source.
        All = 1,
        /// New ones get the default mode. A link to a directory in the place of one is followed.
        Nothing = 2,
        /// As All, and the target gets the metadata of the base directory.
        AllFromBase = 3,
    }
}

wire_struct! {
    /// Partial files and their journals.
    #[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
    pub struct PartialOptions {
        /// Resume those of an earlier run, and keep the journals that the next one needs.
        pub resume: bool,
        /// Keep journals of files from 1 MiB on, not only where much would be sent again.
        pub small_journals: bool,
        /// Keep partial files when the copy fails.
        pub keep: bool,
        /// Directory of journals; `None`: beside the partial files.
        pub journal_dir: Option<Vec<u8>> as DefaultIsNone(PATH),
        /// Directory of another program's partial files, in each directory: a complete file's is removed, with the
        /// directory once that is empty. Empty: none.
        pub foreign_dir: Vec<u8> as PATH,
        /// Directory of temporary files, relative to the destination. Empty, or for files on another file system: beside
        /// their final names.
        pub temp_dir: Vec<u8> as PATH,
        /// Create a missing `temp_dir`.
        pub make_temp_dir: bool,
    }
}

/// The smallest file with a journal, unless the request asks for more of them.
pub const JOURNAL_FILE_MIN: u64 = 16 << 20;
/// The smallest one if it does.
pub const SMALL_JOURNAL_FILE_MIN: u64 = 1 << 20;

impl PartialOptions {
    /// Options of a copy without partial files.
    pub const NONE: Self = Self {
        resume: false,
        small_journals: false,
        keep: false,
        journal_dir: None,
        foreign_dir: Vec::new(),
        temp_dir: Vec::new(),
        make_temp_dir: false,
    };

    /// Size in bytes of the smallest file with a journal. Smaller ones are quickly resent.
    pub fn journal_file_min(&self) -> u64 {
        if self.small_journals { SMALL_JOURNAL_FILE_MIN } else { JOURNAL_FILE_MIN }
    }
}

impl Default for PartialOptions {
    fn default() -> Self {
        Self { resume: true, keep: true, ..Self::NONE }
    }
}

wire_struct! {
    /// Permission bits of new entries, where they are not the source's.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
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
    use crate::codec::tests::{check_round_trip, refuses};

    #[test]
    fn all_rules_round_trip() {
        let modes = ModeOptions { file: Some(0o640), directory: None, less_umask: true };
        for overwrite in
            [OverwritePolicy::Report, OverwritePolicy::Replace, OverwritePolicy::Omit, OverwritePolicy::ReportEqual]
        {
            let striping = StripingPolicy::Directory;
            check_round_trip(&WriteOptions { overwrite, modes, check_space: false, striping });
        }
        let journal_dir = Some(b"/j".to_vec());
        check_round_trip(&PartialOptions { journal_dir, small_journals: true, ..PartialOptions::default() });
        check_round_trip(&DirectoryOptions {
            create: false,
            must_exist: true,
            parents: ParentMetadata::Nothing,
            only_parents: true,
            replaces_special: true,
            identity: Some((1, 2)),
        });
    }

    #[test]
    fn an_unknown_rule_or_mode_is_a_fault() {
        let good = check_round_trip(&WriteOptions::default());
        assert!(refuses::<WriteOptions>(&good, &[(0, 5), (1, 0x10)]));
    }
}
