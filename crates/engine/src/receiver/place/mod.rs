//! Names and directories below the target.

pub mod case_folding;
pub mod destination;
pub mod directories;
pub mod entry_position;
pub mod existing_entry;
pub mod in_order_sink;
pub mod job_locks;
pub mod job_quota;
pub mod journal;
pub mod parent_directories;
pub mod target_path;
pub mod temp_files;
pub mod tree_memory;

use crate::receiver::Below;
use crate::receiver::CaseFolding;
use crate::receiver::JobLocks;
use crate::receiver::JobQuota;
use crate::receiver::JournalLocation;
use crate::receiver::ListedBatches;
use crate::receiver::MergedSources;
use crate::receiver::TempFiles;
use crate::receiver::delete::Removals;
use crate::receiver::job::ReceiverJob;
use crate::receiver::metadata::MetadataWriter;
use crate::receiver::session::ReceiverSession;
use std::sync::Arc;

/// Finds the place of each entry below the destination, and owns the unfinished files there.
pub struct TargetPlaces {
    pub(super) job: Arc<ReceiverJob>,
    pub(super) metadata: Arc<MetadataWriter>,
    pub(super) session: Arc<ReceiverSession>,
    pub(super) removals: Arc<Removals>,
    /// Directories between the destination and the operands.
    pub(super) below: Below,
    /// Operands of a list.
    pub(super) listed: ListedBatches,
    /// Which of several sources fills each name.
    pub(super) merged: MergedSources,
    /// Unfinished files.
    pub(super) unfinished: TempFiles,
    /// Locks against other jobs on the same files.
    pub(super) rivals: JobLocks,
    /// Where journals are kept.
    pub(super) journals: JournalLocation,
    /// Names that differ from existing ones by case alone.
    pub(super) spellings: CaseFolding,
    /// Bytes and names that the job may still create.
    pub(super) quota: Arc<JobQuota>,
}
