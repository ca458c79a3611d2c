//! Outcomes of entries, collected for the session.

use haul_proto::ids::EntryId;

use crate::receiver::durability::complete_file::CompleteFile;
use crate::receiver::place::error::FileError;

/// Outcomes of several entries, reported to the session together.
#[derive(Default)]
pub struct EntryOutcomes {
    pub settled: Vec<(EntryId, bool)>,
    /// Files with their contents and names, which lack metadata that were asked for.
    pub lacking: Vec<EntryId>,
    /// Files to be sent again.
    pub lost: Vec<FileLoss>,
}

/// A file whose data on disk differs from the sent data.
pub struct FileLoss {
    pub whole: CompleteFile,
    /// Its error if it happens again.
    pub error: FileError,
    pub extent: DamagedExtent,
}

/// The extent of a retransmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DamagedExtent {
    /// The whole file, into a new one: the kernel's copy cannot be trusted.
    All,
    /// The frames missing in its hash tree, into the same file.
    Damage,
}
