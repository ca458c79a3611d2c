//! Memory of prefetched lookups.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
/// Most groups of a walk at a time: for its innermost directories.
pub(in crate::fs) const GROUPS_MAX: usize = 4;

/// Bytes of all groups at which workers rest; active ones may add a chunk each.
pub(in crate::fs) const AHEAD_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Bytes of one group, so that nearer groups have room too.
const GROUP_BYTES_MAX: usize = AHEAD_BYTES_MAX / GROUPS_MAX;

/// Prefetched bytes of a group that were not collected.
pub(in crate::fs) struct PrefetchedBytes {
    bytes: AtomicUsize,
    /// The bytes of all groups.
    all: Arc<AtomicUsize>,
}

/// Bytes counted until this is dropped.
pub(in crate::fs) struct ByteCharge(Arc<PrefetchedBytes>, usize);

impl PrefetchedBytes {
    /// Without bytes. Further ones are also added to `all`.
    pub fn new(all: &Arc<AtomicUsize>) -> Self {
        Self { bytes: AtomicUsize::new(0), all: Arc::clone(all) }
    }

    pub fn has_room(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) < GROUP_BYTES_MAX && self.all.load(Ordering::Relaxed) < AHEAD_BYTES_MAX
    }
}

impl ByteCharge {
    /// Counts bytes until this is dropped.
    pub fn new(held: &Arc<PrefetchedBytes>, bytes: usize) -> Self {
        held.bytes.fetch_add(bytes, Ordering::Relaxed);
        held.all.fetch_add(bytes, Ordering::Relaxed);
        Self(Arc::clone(held), bytes)
    }
}

impl Drop for ByteCharge {
    fn drop(&mut self) {
        let Self(held, bytes) = self;
        held.bytes.fetch_sub(*bytes, Ordering::Relaxed);
        held.all.fetch_sub(*bytes, Ordering::Relaxed);
    }
}
