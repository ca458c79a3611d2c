//! From the last frame to the final name: finalization, fsync and read-back.

pub mod checkpoints;
pub mod commit_queue;
pub mod finalize;
pub mod fsync;
pub mod group_commit;
pub mod outcomes;
pub mod read_back;
pub mod retransmit;

use crate::receiver::CommitQueue;
use crate::receiver::delete::Removals;
use crate::receiver::job::ReceiverJob;
use crate::receiver::metadata::MetadataWriter;
use crate::receiver::place::TargetPlaces;
use crate::receiver::receive::digest_checks::DigestChecks;
use crate::receiver::session::ReceiverSession;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Makes complete files durable, reads them back where asked, and gives them their names and metadata.
pub struct Committer {
    pub(super) job: Arc<ReceiverJob>,
    pub(super) digests: Arc<DigestChecks>,
    pub(super) metadata: Arc<MetadataWriter>,
    pub(super) session: Arc<ReceiverSession>,
    pub(super) removals: Arc<Removals>,
    pub(super) places: Arc<TargetPlaces>,
    /// Complete files that wait for fsync before they get their names.
    pub(super) settling: CommitQueue,
    /// Cleared once the file system refuses files without a name.
    pub(super) nameless_files: AtomicBool,
}
