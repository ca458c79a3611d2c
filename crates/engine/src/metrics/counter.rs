//! Counters that threads share.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

/// A counter with two cache lines of its own (x86-64 fetches lines in pairs): a thread that counts every entry does
/// not slow those that count something else.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counter(AtomicU64);

impl Deref for Counter {
    type Target = AtomicU64;

    fn deref(&self) -> &AtomicU64 {
        &self.0
    }
}

/// Adds to a counter of a [`CounterTally`](super::reporter::CounterTally).
pub fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}
