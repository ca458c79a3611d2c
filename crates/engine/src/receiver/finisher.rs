//! Ends entries: after the last frame, a failure, or the last child of a directory.

use crate::receiver::commit::Committer;
use crate::receiver::compare::EntryComparer;
use crate::receiver::decide::EntryDecider;
use crate::receiver::decide::link_tracker::LinkTracker;
use crate::receiver::delete::Removals;
use crate::receiver::delta::DeltaStage;
use crate::receiver::job::ReceiverJob;
use crate::receiver::metadata::MetadataWriter;
use crate::receiver::session::ReceiverSession;
use std::sync::Arc;

/// Settles entries with the session, upwards to the first directory that is still open, and the hard links that wait
/// for them.
pub struct EntryFinisher {
    pub(super) job: Arc<ReceiverJob>,
    pub(super) metadata: Arc<MetadataWriter>,
    pub(super) session: Arc<ReceiverSession>,
    pub(super) links: Arc<LinkTracker>,
    pub(super) removals: Arc<Removals>,
    pub(super) deltas: Arc<DeltaStage>,
    pub(super) committer: Arc<Committer>,
    pub(super) comparer: Arc<EntryComparer>,
    pub(super) decider: Arc<EntryDecider>,
}

impl EntryFinisher {
    pub(super) fn new(decider: &Arc<EntryDecider>) -> Self {
        Self {
            job: Arc::clone(&decider.job),
            metadata: Arc::clone(&decider.metadata),
            session: Arc::clone(&decider.session),
            links: Arc::clone(&decider.links),
            removals: Arc::clone(&decider.removals),
            deltas: Arc::clone(&decider.deltas),
            committer: Arc::clone(&decider.committer),
            comparer: Arc::clone(&decider.comparer),
            decider: Arc::clone(decider),
        }
    }
}
