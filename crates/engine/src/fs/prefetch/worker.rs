//! A prefetch worker: a thread that runs tasks for the walk.

use std::sync::Arc;

use crate::fs::WalkOptions;
use crate::fs::listing_buffer::ListingBuffer;
use crate::fs::lookup_waits::LookupWaits;
use crate::fs::prefetch::budget::ByteCharge;
use crate::fs::prefetch::{GroupId, PrefetchShared, PrefetchedBytes};

/// The state of a prefetch worker.
pub(in crate::fs) struct PrefetchWorker<'s> {
    pub shared: &'s PrefetchShared,
    pub buffer: ListingBuffer,
    pub waits: LookupWaits,
    pub group: GroupId,
    pub depth: u8,
    pub held: Arc<PrefetchedBytes>,
}

impl PrefetchWorker<'_> {
    /// The walk's options.
    pub fn options(&self) -> &WalkOptions {
        &self.shared.options
    }

    /// Whether the walk was stopped.
    pub fn is_stopped(&self) -> bool {
        self.shared.is_stopped()
    }

    /// Counts fetched entries.
    pub fn charge(&self, bytes: usize) -> ByteCharge {
        ByteCharge::new(&self.held, bytes)
    }
}
