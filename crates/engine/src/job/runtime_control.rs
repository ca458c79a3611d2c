//! What a caller wants of a running job: another rate, another number of streams, a pause.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

use crate::job::rate::RateHandle;

/// Steers a running job. Clones are the same handle.
#[derive(Debug, Clone, Default)]
pub struct RuntimeControl {
    rate: RateHandle,
    wishes: Arc<RequestedControls>,
}

#[derive(Debug, Default)]
struct RequestedControls {
    /// 0 as long as nothing is wanted.
    streams: AtomicU16,
    is_paused: AtomicBool,
}

impl RuntimeControl {
    /// Nothing is to be changed.
    pub fn new() -> Self {
        Self::default()
    }

    /// Changes the limit on the rate.
    pub fn rate(&self) -> &RateHandle {
        &self.rate
    }

    /// From now on, so many streams are in use, whatever is measured: one at least, and at most as many as the job may
    /// have.
    pub fn fix_streams(&self, streams: u16) {
        self.wishes.streams.store(streams.max(1), Ordering::Relaxed);
    }

    /// Nothing is sent any more, until it goes on.
    pub fn pause(&self, is_paused: bool) {
        self.wishes.is_paused.store(is_paused, Ordering::Relaxed);
    }

    /// How many streams are wanted, if somebody has said so.
    pub(crate) fn streams(&self) -> Option<u16> {
        Some(self.wishes.streams.load(Ordering::Relaxed)).filter(|streams| *streams > 0)
    }

    /// Whether the job is to be paused.
    pub(crate) fn is_paused(&self) -> bool {
        self.wishes.is_paused.load(Ordering::Relaxed)
    }
}
