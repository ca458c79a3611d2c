//! The components of the receiver that several others use.

use std::sync::Arc;

use crate::receiver::copy::ReceiverCopy;
use crate::receiver::delete::Removals;
use crate::receiver::delta::DeltaStage;
use crate::receiver::digest_checks::DigestChecks;
use crate::receiver::durability::commit_queue::CommitQueue;
use crate::receiver::links::LinkTracker;
use crate::receiver::metadata::MetadataWriter;
use crate::receiver::session::ReceiverSession;
use crate::receiver::tree::TargetTree;

/// The components that several others use. Each depends only on those before it.
pub struct ReceiverParts {
    /// The request, the destination, and reports to the controller.
    pub copy: Arc<ReceiverCopy>,
    /// Throttles offers and streams while files wait for fsync.
    pub(super) commit_queue: Arc<CommitQueue>,
    /// The session with the source.
    pub session: Arc<ReceiverSession>,
    /// Expected digests, and the requested checksums.
    pub digests: DigestChecks,
    pub(super) metadata: Arc<MetadataWriter>,
    pub(super) links: LinkTracker,
    pub(super) removals: Arc<Removals>,
    /// Directories and partial files below the destination.
    pub tree: Arc<TargetTree>,
    /// Base files.
    pub deltas: DeltaStage,
}
