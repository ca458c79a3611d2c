//! Metadata of written entries: owners, modes, times and extended attributes.

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

/// Sets owners, modes, times and attributes, and temporarily widens directories that their owner cannot write to.
pub struct MetadataWriter {
    pub(super) job: Arc<ReceiverJob>,
    /// Owners and groups of the source, mapped to this host's.
    pub(super) owners: TargetOwners,
    /// Directories with temporarily widened modes.
    pub(super) widened: WidenedDirectories,
    /// The queue of complete directories that wait for fsync.
    pub(super) commit_queue: Arc<CommitQueue>,
    /// The precision of the file system's timestamps.
    pub(super) timestamps: TargetTimestamps,
}
