//! A caller's control of a running copy: rate, number of streams, pauses.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

use crate::copy::rate::RateHandle;

/// Controls a running copy. Clones are the same handle.
#[derive(Debug, Clone, Default)]
pub struct RuntimeControl {
    rate: RateHandle,
    requested: Arc<RequestedControls>,
}

#[derive(Debug, Default)]
struct RequestedControls {
    /// 0 without a request.
    streams: AtomicU16,
    is_paused: AtomicBool,
}

impl RuntimeControl {
    /// No change.
    pub fn new() -> Self {
        Self::default()
    }

    /// The control of the rate limit.
    pub fn rate(&self) -> &RateHandle {
        &self.rate
    }

    /// Fixes the number of streams, between one and the copy's maximum.
    pub fn fix_streams(&self, streams: u16) {
        self.requested.streams.store(streams.max(1), Ordering::Relaxed);
    }

    /// Stops sending until the copy resumes.
    pub fn pause(&self, is_paused: bool) {
        self.requested.is_paused.store(is_paused, Ordering::Relaxed);
    }

    /// The requested number of streams, if any.
    pub fn streams(&self) -> Option<u16> {
        Some(self.requested.streams.load(Ordering::Relaxed)).filter(|streams| *streams > 0)
    }

    /// Whether the copy is paused.
    pub fn is_paused(&self) -> bool {
        self.requested.is_paused.load(Ordering::Relaxed)
    }
}
