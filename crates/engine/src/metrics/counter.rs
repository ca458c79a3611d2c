//! Counters that threads share.

use std::sync::atomic::{AtomicU64, Ordering};

/// Adds to a counter of a [`CounterTally`](super::reporter::CounterTally).
pub fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}
