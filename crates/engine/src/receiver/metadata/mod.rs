//! Metadata of what is written: owners, modes, times and extended attributes.

pub mod attributes;
pub mod directory_end;
pub mod modes;
pub mod owners;
pub mod rights;
pub mod timestamps;
pub mod widened_directories;

use crate::receiver::CommitQueue;
use crate::receiver::TargetOwners;
use crate::receiver::TargetTimestamps;
use crate::receiver::WidenedDirectories;
use crate::receiver::job::ReceiverJob;
use std::sync::Arc;

/// Gives entries their owners, modes, times and attributes, and widens directories that their owner cannot write to.
pub struct MetadataWriter {
    pub(super) job: Arc<ReceiverJob>,
    /// Owners and groups of the source, as this host knows them.
    pub(super) owners: TargetOwners,
    /// Directories whose modes were widened for the job.
    pub(super) widened: WidenedDirectories,
    /// Where complete directories wait for fsync.
    pub(super) commit_queue: Arc<CommitQueue>,
    /// The precision of the file system's times.
    pub(super) timestamps: TargetTimestamps,
}
