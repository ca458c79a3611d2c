//! Jobs that only compare.

pub mod entries;
pub mod metadata;
pub mod reread;

use crate::receiver::ReceiverEntry;
use crate::receiver::compare::metadata::ComparedNames;
use crate::receiver::decide::link_tracker::LinkTracker;
use crate::receiver::delete::Removals;
use crate::receiver::job::ReceiverJob;
use crate::receiver::metadata::MetadataWriter;
use crate::receiver::place::TargetPlaces;
use crate::receiver::receive::bounded_queue::BoundedQueue;
use crate::receiver::session::ReceiverSession;
use haul_proto::scheduler::Chunk;
use std::sync::Arc;

/// Compares offered entries with those at the target, in jobs that change nothing.
pub struct EntryComparer {
    pub(super) job: Arc<ReceiverJob>,
    pub(super) metadata: Arc<MetadataWriter>,
    pub(super) session: Arc<ReceiverSession>,
    pub(super) links: Arc<LinkTracker>,
    pub(super) removals: Arc<Removals>,
    pub(super) places: Arc<TargetPlaces>,
    /// Files whose contents are to be read.
    pub(super) rereads: BoundedQueue<Chunk<ReceiverEntry>>,
    pub(super) compared_names: ComparedNames,
}

impl EntryComparer {
    pub(super) fn new(links: &Arc<LinkTracker>, places: &Arc<TargetPlaces>) -> Self {
        Self {
            job: Arc::clone(&places.job),
            metadata: Arc::clone(&places.metadata),
            session: Arc::clone(&places.session),
            links: Arc::clone(links),
            removals: Arc::clone(&places.removals),
            places: Arc::clone(places),
            rereads: BoundedQueue::default(),
            compared_names: ComparedNames::default(),
        }
    }
}
