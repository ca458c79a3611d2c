//! A caller's changes of a running copy's rate.

use std::cmp::Ordering;
use std::sync::{Arc, Mutex};

use haul_proto::limits::RATE_MIN;

use crate::sys::sync::lock;

/// Highest rate that a user may set, in bytes per second.
pub const RATE_MAX: u64 = 1 << 40;

/// Changes the limit of a running copy ([`crate::copy::spec::StreamOptions::rate_bytes_per_s`]). Clones are the same handle.
#[derive(Debug, Clone, Default)]
pub struct RateHandle(Arc<Mutex<RequestedRate>>);

/// A limit that replaces another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewRateLimit {
    /// In bytes per second; `None` removes the limit.
    pub bytes_per_s: Option<u64>,
}

#[derive(Debug, Default)]
struct RequestedRate {
    set: Option<NewRateLimit>,
    /// Number of doublings after that; of halvings, if negative.
    doublings: i32,
    /// A change of the limit's share: from one part in so many to one in so many.
    share: Option<(u64, u64)>,
}

impl RateHandle {
    /// No change.
    pub fn new() -> Self {
        Self::default()
    }

    /// Doubles the limit, if any.
    pub fn double(&self) {
        self.step(1);
    }

    /// Halves the limit; without one, half of the present rate becomes the limit.
    pub fn halve(&self) {
        self.step(-1);
    }

    /// Sets the limit in bytes per second, or removes it.
    pub fn set(&self, bytes_per_s: Option<u64>) {
        *lock(&self.0) = RequestedRate { set: Some(NewRateLimit { bytes_per_s }), ..RequestedRate::default() };
    }

    /// Gives one of `from` equal shares of the limit, if any, the size of one of `to`.
    pub fn reshare(&self, from: u64, to: u64) {
        let share = &mut lock(&self.0).share;
        *share = Some((share.map_or(from, |(first, _)| first), to));
    }

    fn step(&self, doublings: i32) {
        let mut wish = lock(&self.0);
        wish.doublings = wish.doublings.saturating_add(doublings);
    }

    /// The limit after all requests since the last call; `None` without a change.
    /// `limit` is the present one, `present` the measured rate, both in bytes per second.
    pub fn changed(&self, limit: Option<u64>, present: impl FnOnce() -> u64) -> Option<NewRateLimit> {
        let RequestedRate { set, doublings, share } = std::mem::take(&mut *lock(&self.0));
        let before = limit;
        let limit = set.map_or(limit, |set| set.bytes_per_s);
        let factor = |steps: u32| 1u64.checked_shl(steps).unwrap_or(u64::MAX);
        let new = match (doublings.cmp(&0), limit) {
            (Ordering::Equal, limit) => limit,
            (Ordering::Greater, limit) => limit.map(|limit| limit.saturating_mul(factor(doublings.unsigned_abs()))),
            (Ordering::Less, _) => Some(limit.unwrap_or_else(present) / factor(doublings.unsigned_abs())),
        };
        let (from, to) = share.unwrap_or((1, 1));
        let new = new.map(|new| new.saturating_mul(from) / to.max(1));
        let bytes_per_s = new.map(|new| new.max(RATE_MIN));
        (bytes_per_s != before).then_some(NewRateLimit { bytes_per_s })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(bytes_per_s: Option<u64>) -> Option<NewRateLimit> {
        Some(NewRateLimit { bytes_per_s })
    }

    #[test]
    fn steps_are_summed_and_applied_once() {
        let handle = RateHandle::new();
        let never = || panic!("there is a limit");
        assert_eq!(handle.changed(Some(8 << 20), never), None);
        handle.clone().double();
        handle.double();
        assert_eq!(handle.changed(Some(8 << 20), never), to(Some(32 << 20)));
        assert_eq!(handle.changed(Some(32 << 20), never), None);
        handle.halve();
        handle.double();
        handle.halve();
        assert_eq!(handle.changed(Some(32 << 20), never), to(Some(16 << 20)));
    }

    #[test]
    fn without_a_limit_halving_sets_one_and_doubling_does_nothing() {
        let handle = RateHandle::new();
        handle.double();
        assert_eq!(handle.changed(None, || 1 << 30), None);
        handle.halve();
        assert_eq!(handle.changed(None, || 1 << 30), to(Some(1 << 29)));
    }

    #[test]
    fn an_absolute_limit_overrides_earlier_steps() {
        let handle = RateHandle::new();
        handle.double();
        handle.set(Some(5 << 20));
        assert_eq!(handle.changed(Some(8 << 20), || 0), to(Some(5 << 20)));
        handle.set(Some(0));
        assert_eq!(handle.changed(None, || 0), to(Some(RATE_MIN)));
        handle.set(None);
        assert_eq!(handle.changed(Some(8 << 20), || 0), to(None));
        handle.set(None);
        assert_eq!(handle.changed(None, || 0), None, "there was none");
    }

    #[test]
    fn shares_grow_as_others_end() {
        let handle = RateHandle::new();
        handle.reshare(4, 3);
        handle.reshare(3, 2);
        handle.double();
        assert_eq!(handle.changed(Some(5 << 20), || 0), to(Some(20 << 20)));
        handle.reshare(2, 1);
        assert_eq!(handle.changed(None, || 0), None, "there is no limit to share");
    }

    #[test]
    fn limits_stay_within_a_useful_range() {
        let handle = RateHandle::new();
        (0..100).for_each(|_| handle.halve());
        assert_eq!(handle.changed(Some(1 << 30), || 0), to(Some(RATE_MIN)));
        handle.halve();
        assert_eq!(handle.changed(Some(RATE_MIN), || 0), None, "it is not said again");
        (0..100).for_each(|_| handle.double());
        assert_eq!(handle.changed(Some(1 << 30), || 0), to(Some(u64::MAX)));
    }
}
