//! Results of base files in a copy, counted at the target.

use std::sync::atomic::{AtomicU64, Ordering};

use haul_proto::delta::options::DeltaCounters;

use crate::metrics::counter::add;

/// Approximate bytes of a record besides its payload.
const RECORD_BYTES: usize = 80;

/// Results of base files so far.
#[derive(Debug, Default)]
pub struct DeltaTally {
    files: AtomicU64,
    bytes: AtomicU64,
    old_bytes: AtomicU64,
    told_bytes: AtomicU64,
    carried_bytes: AtomicU64,
    wrong: AtomicU64,
}

impl DeltaTally {
    /// Counts a complete file with a usable base file, or possibly one.
    pub fn file(&self, bytes: u64) {
        add(&self.files, 1);
        add(&self.bytes, bytes);
    }

    /// Adds bytes of signatures sent.
    pub fn add_signatures(&self, bytes: usize) {
        add(&self.told_bytes, bytes as u64);
    }

    /// Adds a payload for a file with a base file, and the bytes that came from the base file.
    pub fn carried(&self, payload: usize, old: usize) {
        add(&self.carried_bytes, (payload + RECORD_BYTES) as u64);
        add(&self.old_bytes, old as u64);
    }

    /// Sets the number of deltas with a wrong value.
    pub fn wrong(&self, deltas: u32) {
        self.wrong.store(deltas.into(), Ordering::Relaxed);
    }

    /// Returns the counters; `None` if all are zero.
    pub fn figures(&self) -> Option<DeltaCounters> {
        let now = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let figures = DeltaCounters {
            files: now(&self.files),
            bytes: now(&self.bytes),
            old_bytes: now(&self.old_bytes),
            told_bytes: now(&self.told_bytes),
            carried_bytes: now(&self.carried_bytes),
            wrong: now(&self.wrong),
        };
        (figures.files > 0 || figures.wrong > 0).then_some(figures)
    }
}
