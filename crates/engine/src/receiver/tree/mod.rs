//! The target's tree: directories, existing entries, partial files, and the precedence of sources.

use crate::receiver::Below;
use crate::receiver::CaseFolding;
use crate::receiver::JobLocks;
use crate::receiver::JobQuota;
use crate::receiver::JournalLocation;
use crate::receiver::ListedBatches;
use crate::receiver::MergedSources;
use crate::receiver::MetadataWriter;
use crate::receiver::ReceiverJob;
use crate::receiver::ReceiverSession;
use crate::receiver::Removals;
use crate::receiver::TempFiles;
use std::sync::Arc;
/// Finds the location of each entry below the destination, and owns the partial files there.
pub struct TargetTree {
    pub(super) job: Arc<ReceiverJob>,
    pub(super) metadata: Arc<MetadataWriter>,
    pub(super) session: Arc<ReceiverSession>,
    pub(super) removals: Arc<Removals>,
    /// Directories between the destination and the source arguments.
    pub(super) parents: Below,
    /// Source arguments from a list.
    pub(super) list_batches: ListedBatches,
    /// Precedence of several sources.
    pub(super) merged_sources: MergedSources,
    /// Partial files.
    pub(super) temp_files: TempFiles,
    /// Locks against other jobs on the same files.
    pub(super) job_locks: JobLocks,
    /// Locations of journals.
    pub(super) journals: JournalLocation,
    /// Names that differ from existing ones by case alone.
    pub(super) case_folding: CaseFolding,
    /// Bytes and names that the job may still create.
    pub(super) quota: Arc<JobQuota>,
}
pub mod case_folding;
pub mod directories;
pub mod existing;
pub mod find_partial;
pub mod list_batches;
pub mod merged_sources;
pub mod parent_directories;
pub mod removal_only;
