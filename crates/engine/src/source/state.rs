//! The state of a source file, by which a change is noticed.

use haul_proto::entry::Timestamp;

use crate::fs::FileStat;

/// Properties of a file that stay while its content stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceState {
    /// Bytes.
    pub size: u64,
    /// Time of last modification.
    pub modified: Timestamp,
    /// Time of last change of content or metadata. A write sets it, and no program can put it back.
    pub changed: Timestamp,
}

impl From<&FileStat> for SourceState {
    fn from(look: &FileStat) -> Self {
        Self { size: look.size, modified: look.meta.modified, changed: look.changed }
    }
}
