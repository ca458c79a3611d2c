//! The state of a source file, for change detection.

use haul_proto::entry::Timestamp;

use crate::fs::FileStat;

/// Properties of a file that are constant while its contents are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceState {
    /// Size in bytes.
    pub size: u64,
    /// Time of last modification.
    pub modified: Timestamp,
    /// Time of last change of contents or metadata. A write sets it, and no program can reset it.
    pub changed: Timestamp,
}

impl From<&FileStat> for SourceState {
    fn from(stat: &FileStat) -> Self {
        Self { size: stat.size, modified: stat.meta.modified, changed: stat.changed }
    }
}
