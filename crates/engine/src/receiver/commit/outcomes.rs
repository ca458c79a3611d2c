//! Outcomes of entries, collected for the session.

use haul_proto::ids::EntryId;

use crate::receiver::durability::complete_file::CompleteFile;

/// Results of some entries, to be reported to the session at once.
#[derive(Default)]
pub struct EntryOutcomes {
    pub settled: Vec<(EntryId, bool)>,
    /// Those with their names, but without some of their attributes.
    pub lacking: Vec<EntryId>,
    /// Those that are to come again.
    pub lost: Vec<FileLoss>,
}

/// A file that is not on the disk as it was sent.
pub struct FileLoss {
    pub whole: CompleteFile,
    /// What happened and, on the next line, what to do when it happens again.
    pub text: String,
    pub extent: DamagedExtent,
}

/// How much of it has to come again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DamagedExtent {
    /// All of it, into a new file: what the kernel has of this one is not to be trusted.
    All,
    /// What is not in its tree any more, into the same file.
    Damage,
}
