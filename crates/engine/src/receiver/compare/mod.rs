//! Copies that only compare.

pub mod entries;
pub mod metadata;
pub mod reread;

use std::sync::Arc;

use haul_proto::scheduler::Chunk;

use crate::receiver::bounded_queue::BoundedQueue;
use crate::receiver::compare::metadata::ComparedNames;
use crate::receiver::entry::ReceiverEntry;
use crate::receiver::parts::ReceiverParts;

/// Compares offered entries with those at the target, in copies that change nothing.
pub struct EntryComparer {
    pub(super) parts: Arc<ReceiverParts>,
    /// Chunks of files to read.
    pub(super) chunks: BoundedQueue<Chunk<ReceiverEntry>>,
    pub(super) compared_names: ComparedNames,
}

impl EntryComparer {
    pub(super) fn new(parts: &Arc<ReceiverParts>) -> Self {
        Self { parts: Arc::clone(parts), chunks: BoundedQueue::default(), compared_names: ComparedNames::default() }
    }
}
