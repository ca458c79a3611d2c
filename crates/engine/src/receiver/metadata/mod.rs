//! Metadata of written entries: owners, modes, times and extended attributes.

pub mod attributes;
pub mod directory_end;
pub mod modes;
pub mod owners;
pub mod replaced_rights;
pub mod rights;
pub mod timestamps;
pub mod unset;
pub mod widened_directories;

use std::sync::Arc;

use crate::receiver::copy::ReceiverCopy;
use crate::receiver::durability::commit_queue::CommitQueue;
use crate::receiver::metadata::owners::TargetOwners;
use crate::receiver::metadata::rights::ExistingRights;
use crate::receiver::metadata::timestamps::TargetTimestamps;
use crate::receiver::metadata::unset::UnsetMetadata;
use crate::receiver::metadata::widened_directories::WidenedDirectories;

/// Sets owners, modes, times and attributes, and temporarily widens directories that their owner cannot write to.
pub struct MetadataWriter {
    pub(super) copy: Arc<ReceiverCopy>,
    /// Owners and groups of the source, mapped to this host's.
    pub(super) owners: TargetOwners,
    /// Directories with temporarily widened modes.
    pub(super) widened: WidenedDirectories,
    /// The queue of complete directories that wait for fsync.
    pub(super) commit_queue: Arc<CommitQueue>,
    /// The precision of the file system's timestamps.
    pub(super) timestamps: TargetTimestamps,
    /// What the rights of existing files have led to.
    pub(super) rights: ExistingRights,
    /// What could not be set.
    pub(super) unset: UnsetMetadata,
}

impl MetadataWriter {
    pub(super) fn new(copy: &Arc<ReceiverCopy>, owners: TargetOwners, commit_queue: &Arc<CommitQueue>) -> Self {
        Self {
            copy: Arc::clone(copy),
            owners,
            widened: WidenedDirectories::default(),
            commit_queue: Arc::clone(commit_queue),
            timestamps: TargetTimestamps::default(),
            rights: ExistingRights::default(),
            unset: UnsetMetadata::default(),
        }
    }
}
