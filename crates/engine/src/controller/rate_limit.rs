//! The limit on a running job's rate, as the controller knows it, and the rate that is reached.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::job::rate::RateHandle;

/// The rate that is reached is that of this time, or of the whole job while that is shorter.
const PRESENT: Duration = Duration::from_secs(2);
/// Figures are at least this far apart, however often workers report: so there are few.
const BETWEEN_FIGURES: Duration = Duration::from_millis(50);

/// A job's limit.
pub struct RateLimit {
    bytes_per_s: Option<u64>,
    /// What the ends allow, whatever the caller wants.
    allowed: Option<u64>,
    handle: RateHandle,
    /// When how many bytes had been written, the latest last.
    figures: VecDeque<(Instant, u64)>,
}

impl RateLimit {
    /// As the job begins.
    pub fn new(bytes_per_s: Option<u64>, handle: &RateHandle) -> Self {
        Self { bytes_per_s, allowed: None, handle: handle.clone(), figures: VecDeque::new() }
    }

    /// Another attempt begins, and counts from nothing; the limit stays.
    pub fn begin_again(&mut self) {
        self.figures.clear();
    }

    /// The ends allow so many bytes a second; 0 is no limit.
    pub fn allow(&mut self, ends: impl IntoIterator<Item = u64>) {
        self.allowed = ends.into_iter().filter(|limit| *limit > 0).min();
    }

    /// What is set now.
    pub fn bytes_per_s(&self) -> Option<u64> {
        self.bytes_per_s.into_iter().chain(self.allowed).min()
    }

    /// Looks whether the caller wants another limit, now that so many bytes have been written: the new one, once;
    /// `Some(None)` where there is none any more.
    pub fn look(&mut self, bytes_written: u64) -> Option<Option<u64>> {
        self.note(Instant::now(), bytes_written);
        let present = present(&self.figures);
        let before = self.bytes_per_s();
        if let Some(wanted) = self.handle.changed(before, || present) {
            self.bytes_per_s = wanted;
        }
        Some(self.bytes_per_s()).filter(|now| before != *now)
    }

    fn note(&mut self, now: Instant, bytes_written: u64) {
        if self.figures.back().is_none_or(|(at, _)| *at + BETWEEN_FIGURES <= now) {
            self.figures.push_back((now, bytes_written));
        }
        // One that is older stays, so that there is always one at least that long ago.
        while self.figures.get(1).is_some_and(|(at, _)| *at + PRESENT <= now) {
            self.figures.pop_front();
        }
    }
}

/// Bytes a second between the first and the last figure.
fn present(figures: &VecDeque<(Instant, u64)>) -> u64 {
    let (Some((began, before)), Some((ended, after))) = (figures.front(), figures.back()) else { return 0 };
    let millis = ended.duration_since(*began).as_millis().max(1);
    let bytes = u128::from(after.saturating_sub(*before));
    u64::try_from(bytes.saturating_mul(1000) / millis).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_present_rate_forgets_what_was_before() {
        let mut limit = RateLimit::new(None, &RateHandle::new());
        let began = Instant::now();
        for tick in 0..40u64 {
            // Ten times as fast in the first half.
            let bytes = if tick < 20 { 1_000_000 * tick } else { 20_000_000 + 100_000 * (tick - 20) };
            limit.note(began + Duration::from_millis(200 * tick), bytes);
        }
        assert_eq!(present(&limit.figures), 500_000);
        assert!(limit.figures.len() <= 12);
    }

    #[test]
    fn the_ends_limit_holds_whatever_is_wanted() {
        let handle = RateHandle::new();
        let mut limit = RateLimit::new(None, &handle);
        limit.allow([0, 3 << 20]);
        assert_eq!(limit.bytes_per_s(), Some(3 << 20));
        handle.double();
        assert_eq!((limit.look(5), limit.bytes_per_s()), (None, Some(3 << 20)));
        limit.allow([0, 0]);
        assert_eq!(limit.bytes_per_s(), Some(6 << 20));
    }

    #[test]
    fn a_limit_can_be_lifted_but_not_that_of_the_ends() {
        let handle = RateHandle::new();
        let mut limit = RateLimit::new(Some(1 << 20), &handle);
        handle.set(None);
        assert_eq!((limit.look(0), limit.bytes_per_s()), (Some(None), None));
        limit.allow([3 << 20]);
        handle.set(Some(2 << 20));
        assert_eq!(limit.look(0), Some(Some(2 << 20)));
        handle.set(None);
        assert_eq!((limit.look(0), limit.bytes_per_s()), (Some(Some(3 << 20)), Some(3 << 20)));
    }

    #[test]
    fn a_change_is_told_once_and_kept() {
        let handle = RateHandle::new();
        let mut limit = RateLimit::new(Some(1 << 20), &handle);
        assert_eq!(limit.look(0), None);
        handle.double();
        assert_eq!((limit.look(5), limit.look(6), limit.bytes_per_s()), (Some(Some(2 << 20)), None, Some(2 << 20)));
    }
}
