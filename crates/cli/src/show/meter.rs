//! A steady rate from figures that come at uneven times.

use std::time::Duration;

use super::units::bytes_per_s;

/// After this long, two thirds of the shown rate are newer.
const MEMORY_S: f64 = 3.0;

/// An exponentially weighted mean of the rate.
#[derive(Debug, Default)]
pub struct Meter {
    last: Option<(Duration, u64)>,
    rate: Option<f64>,
}

impl Meter {
    /// Takes note that `bytes` were through at `now`, and returns bytes per second.
    pub fn update(&mut self, now: Duration, bytes: u64) -> f64 {
        let (then, before) = self.last.unwrap_or((Duration::ZERO, 0));
        let step = now.saturating_sub(then);
        if step.is_zero() {
            return self.rate.unwrap_or(0.0);
        }
        self.last = Some((now, bytes));
        let latest = bytes_per_s(bytes.saturating_sub(before), step);
        let weight = 1.0 - (-step.as_secs_f64() / MEMORY_S).exp();
        let rate = self.rate.map_or(latest, |rate| rate + weight * (latest - rate));
        *self.rate.insert(rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_a_change_within_seconds_and_not_at_once() {
        let mut meter = Meter::default();
        let mut bytes = 0;
        let mut at = |second: u64, per_second: u64| {
            bytes += per_second;
            meter.update(Duration::from_secs(second), bytes)
        };
        assert!((at(1, 100) - 100.0).abs() < 1e-9);
        assert!((at(2, 100) - 100.0).abs() < 1e-9);
        let first = at(3, 0);
        assert!((60.0..80.0).contains(&first), "{first}");
        let last = (4..20).map(|second| at(second, 0)).last().unwrap();
        assert!(last < 1.0, "{last}");
    }

    #[test]
    fn no_time_is_no_rate() {
        assert_eq!(Meter::default().update(Duration::ZERO, 5), 0.0);
    }
}
