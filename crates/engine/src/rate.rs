//! A caller's wish to have a running job go faster or slower.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use haul_proto::wire::limits::RATE_MIN;

/// Changes the limit of a running job ([`crate::spec::Options::rate_bytes_per_s`]). Clones are the same handle.
#[derive(Debug, Clone, Default)]
pub struct RateHandle(Arc<AtomicI32>);

impl RateHandle {
    /// Nothing is to be changed.
    pub fn new() -> Self {
        Self::default()
    }

    /// Doubles the limit; where there is none, nothing happens.
    pub fn double(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Halves the limit; where there is none, half of what is reached at present becomes one.
    pub fn halve(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// The limit after all that was asked for since it was last looked at; `None` if it stays as it is. `limit` is
    /// the one there is, `present` what is reached, both in bytes a second.
    pub(crate) fn changed(&self, limit: Option<u64>, present: impl FnOnce() -> u64) -> Option<u64> {
        let doublings = self.0.swap(0, Ordering::Relaxed);
        let factor = |steps: u32| 1u64.checked_shl(steps).unwrap_or(u64::MAX);
        let new = match (doublings.cmp(&0), limit) {
            (std::cmp::Ordering::Equal, _) | (std::cmp::Ordering::Greater, None) => return None,
            (std::cmp::Ordering::Greater, Some(limit)) => limit.saturating_mul(factor(doublings.unsigned_abs())),
            (std::cmp::Ordering::Less, _) => limit.unwrap_or_else(present) / factor(doublings.unsigned_abs()),
        };
        Some(new.max(RATE_MIN)).filter(|new| Some(*new) != limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_add_up_and_are_taken_once() {
        let handle = RateHandle::new();
        let never = || panic!("there is a limit");
        assert_eq!(handle.changed(Some(8 << 20), never), None);
        handle.clone().double();
        handle.double();
        assert_eq!(handle.changed(Some(8 << 20), never), Some(32 << 20));
        assert_eq!(handle.changed(Some(32 << 20), never), None);
        handle.halve();
        handle.double();
        handle.halve();
        assert_eq!(handle.changed(Some(32 << 20), never), Some(16 << 20));
    }

    #[test]
    fn without_a_limit_halving_makes_one_and_doubling_does_nothing() {
        let handle = RateHandle::new();
        handle.double();
        assert_eq!(handle.changed(None, || 1 << 30), None);
        handle.halve();
        assert_eq!(handle.changed(None, || 1 << 30), Some(1 << 29));
    }

    #[test]
    fn no_limit_is_so_low_that_nothing_moves_or_too_high_for_its_number() {
        let handle = RateHandle::new();
        (0..100).for_each(|_| handle.halve());
        assert_eq!(handle.changed(Some(1 << 30), || 0), Some(RATE_MIN));
        handle.halve();
        assert_eq!(handle.changed(Some(RATE_MIN), || 0), None, "it is not said again");
        (0..100).for_each(|_| handle.double());
        assert_eq!(handle.changed(Some(1 << 30), || 0), Some(u64::MAX));
    }
}
