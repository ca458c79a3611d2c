//! The controller's view of a running copy's rate limit and its current rate.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use haul_base::copy::rate::{NewRateLimit, RateHandle};

/// Window of the current rate; a shorter copy uses its whole time.
const PRESENT: Duration = Duration::from_secs(2);
/// Minimum interval between samples, however often workers report, to keep the samples few.
const BETWEEN_FIGURES: Duration = Duration::from_millis(50);

/// A copy's limit.
pub struct RateLimit {
    bytes_per_s: Option<u64>,
    /// Limit of the ends, regardless of the caller's limit.
    allowed: Option<u64>,
    handle: RateHandle,
    /// Samples of time and bytes written, the latest last.
    figures: VecDeque<(Instant, u64)>,
}

impl RateLimit {
    /// Creates the limit of a new copy.
    pub fn new(bytes_per_s: Option<u64>, handle: &RateHandle) -> Self {
        Self { bytes_per_s, allowed: None, handle: handle.clone(), figures: VecDeque::new() }
    }

    /// Clears the samples for another attempt; the limit stays.
    pub fn begin_again(&mut self) {
        self.figures.clear();
    }

    /// Sets the limits of the ends in bytes per second; 0 is no limit.
    pub fn allow(&mut self, ends: impl IntoIterator<Item = u64>) {
        self.allowed = ends.into_iter().filter(|limit| *limit > 0).min();
    }

    /// Returns the current limit.
    pub fn bytes_per_s(&self) -> Option<u64> {
        self.bytes_per_s.into_iter().chain(self.allowed).min()
    }

    /// Checks the caller's limit against `bytes_written`. Returns a changed limit once.
    pub fn poll(&mut self, bytes_written: u64) -> Option<NewRateLimit> {
        self.record(Instant::now(), bytes_written);
        let present = present(&self.figures);
        let before = self.bytes_per_s();
        if let Some(wanted) = self.handle.changed(before, || present) {
            self.bytes_per_s = wanted.bytes_per_s;
        }
        let bytes_per_s = self.bytes_per_s();
        (bytes_per_s != before).then_some(NewRateLimit { bytes_per_s })
    }

    fn record(&mut self, now: Instant, bytes_written: u64) {
        if self.figures.back().is_none_or(|(at, _)| *at + BETWEEN_FIGURES <= now) {
            self.figures.push_back((now, bytes_written));
        }
        // Keeps one older sample, so that the window is always covered.
        while self.figures.get(1).is_some_and(|(at, _)| *at + PRESENT <= now) {
            self.figures.pop_front();
        }
    }
}

/// Returns bytes per second between the first and the last sample.
fn present(figures: &VecDeque<(Instant, u64)>) -> u64 {
    let (Some((began, before)), Some((ended, after))) = (figures.front(), figures.back()) else { return 0 };
    let millis = ended.duration_since(*began).as_millis().max(1);
    let bytes = u128::from(after.saturating_sub(*before));
    u64::try_from(bytes.saturating_mul(1000) / millis).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(bytes_per_s: Option<u64>) -> Option<NewRateLimit> {
        Some(NewRateLimit { bytes_per_s })
    }

    #[test]
    fn the_current_rate_forgets_the_past() {
        let mut limit = RateLimit::new(None, &RateHandle::new());
        let began = Instant::now();
        for tick in 0..40u64 {
            // Ten times as fast in the first half.
            let bytes = if tick < 20 { 1_000_000 * tick } else { 20_000_000 + 100_000 * (tick - 20) };
            limit.record(began + Duration::from_millis(200 * tick), bytes);
        }
        assert_eq!(present(&limit.figures), 500_000);
        assert!(limit.figures.len() <= 12);
    }

    #[test]
    fn the_ends_limit_always_holds() {
        let handle = RateHandle::new();
        let mut limit = RateLimit::new(None, &handle);
        limit.allow([0, 3 << 20]);
        assert_eq!(limit.bytes_per_s(), Some(3 << 20));
        handle.double();
        assert_eq!((limit.poll(5), limit.bytes_per_s()), (None, Some(3 << 20)));
        limit.allow([0, 0]);
        assert_eq!(limit.bytes_per_s(), Some(6 << 20));
    }

    #[test]
    fn a_limit_can_be_lifted_except_the_ends_own() {
        let handle = RateHandle::new();
        let mut limit = RateLimit::new(Some(1 << 20), &handle);
        handle.set(None);
        assert_eq!((limit.poll(0), limit.bytes_per_s()), (to(None), None));
        limit.allow([3 << 20]);
        handle.set(Some(2 << 20));
        assert_eq!(limit.poll(0), to(Some(2 << 20)));
        handle.set(None);
        assert_eq!((limit.poll(0), limit.bytes_per_s()), (to(Some(3 << 20)), Some(3 << 20)));
    }

    #[test]
    fn a_change_is_sent_once_and_stays() {
        let handle = RateHandle::new();
        let mut limit = RateLimit::new(Some(1 << 20), &handle);
        assert_eq!(limit.poll(0), None);
        handle.double();
        assert_eq!((limit.poll(5), limit.poll(6), limit.bytes_per_s()), (to(Some(2 << 20)), None, Some(2 << 20)));
    }
}
