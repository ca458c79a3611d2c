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

/// How a file differs from an earlier state, from the least change to the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileChange {
    /// Not at all.
    Nothing,
    /// Only its time of change: its mode, owner or names, or contents with their time put back.
    Metadata,
    /// It is longer. A program that appends to a file may also rewrite it.
    Growth,
    /// Any other change.
    Contents,
}

impl SourceState {
    /// How it differs from `earlier`.
    pub fn change_since(&self, earlier: &Self) -> FileChange {
        if self == earlier {
            FileChange::Nothing
        } else if self.size > earlier.size {
            FileChange::Growth
        } else if (self.size, self.modified) == (earlier.size, earlier.modified) {
            FileChange::Metadata
        } else {
            FileChange::Contents
        }
    }
}

impl From<&FileStat> for SourceState {
    fn from(stat: &FileStat) -> Self {
        Self { size: stat.size, modified: stat.meta.modified, changed: stat.changed }
    }
}
