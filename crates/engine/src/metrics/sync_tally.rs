//! Changes besides copies, counted by each end.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_base::sys::sync::lock;
use haul_proto::sync::SyncCounters;

/// [`SyncCounters`] of a running copy.
#[derive(Debug, Default)]
pub struct SyncTally {
    /// Entries removed at the target.
    pub removed: AtomicU64,
    /// Entries moved to the backup directory.
    pub backed_up: AtomicU64,
    /// Files linked to an earlier copy.
    pub linked: AtomicU64,
    /// Entries with changes of metadata only.
    pub adjusted: AtomicU64,
    /// Files and links removed at the source.
    pub removed_at_source: AtomicU64,
    /// Files and links kept at the source instead of removed.
    pub left_at_source: AtomicU64,
    reported: Mutex<SyncCounters>,
}

impl SyncTally {
    /// Returns the counters, if they changed since the last call.
    pub fn take_if_changed(&self) -> Option<SyncCounters> {
        let figures = self.figures()?;
        let mut reported = lock(&self.reported);
        (std::mem::replace(&mut *reported, figures) != figures).then_some(figures)
    }

    /// Returns the counters; `None` if all are zero.
    pub fn figures(&self) -> Option<SyncCounters> {
        let now = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let figures = SyncCounters {
            removed: now(&self.removed),
            backed_up: now(&self.backed_up),
            linked: now(&self.linked),
            adjusted: now(&self.adjusted),
            removed_at_source: now(&self.removed_at_source),
            left_at_source: now(&self.left_at_source),
        };
        (figures != SyncCounters::default()).then_some(figures)
    }
}
