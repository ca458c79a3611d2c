//! Copies that only compare.

pub mod entries;
pub mod metadata;
pub mod reread;

use std::sync::Arc;

use haul_proto::scheduler::Chunk;

use crate::receiver::bounded_queue::BoundedQueue;
use crate::receiver::compare::metadata::ComparedNames;
use crate::receiver::copy::ReceiverCopy;
use crate::receiver::delete::Removals;
use crate::receiver::entry::ReceiverEntry;
use crate::receiver::links::LinkTracker;
use crate::receiver::metadata::MetadataWriter;
use crate::receiver::session::ReceiverSession;
use crate::receiver::tree::TargetTree;

/// Compares offered entries with those at the target, in copies that change nothing.
pub struct EntryComparer {
    pub(super) copy: Arc<ReceiverCopy>,
    pub(super) metadata: Arc<MetadataWriter>,
    pub(super) session: Arc<ReceiverSession>,
    pub(super) links: Arc<LinkTracker>,
    pub(super) removals: Arc<Removals>,
    pub(super) tree: Arc<TargetTree>,
    /// Chunks of files to read.
    pub(super) chunks: BoundedQueue<Chunk<ReceiverEntry>>,
    pub(super) compared_names: ComparedNames,
}

impl EntryComparer {
    pub(super) fn new(links: &Arc<LinkTracker>, tree: &Arc<TargetTree>) -> Self {
        Self {
            copy: Arc::clone(&tree.copy),
            metadata: Arc::clone(&tree.metadata),
            session: Arc::clone(&tree.session),
            links: Arc::clone(links),
            removals: Arc::clone(&tree.removals),
            tree: Arc::clone(tree),
            chunks: BoundedQueue::default(),
            compared_names: ComparedNames::default(),
        }
    }
}
