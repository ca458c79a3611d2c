//! A steady rate from figures that come at uneven times.

use std::time::Duration;

/// After this long, two thirds of the shown rate are newer.
const MEMORY_S: f64 = 3.0;

/// Bytes and seconds, the older the lighter: their quotient is a rate that no short step can upset.
#[derive(Debug, Default)]
pub struct Meter {
    last: (Duration, u64),
    bytes: f64,
    seconds: f64,
}

impl Meter {
    /// Takes note that `bytes` were through at `now` (both since the start), and returns bytes per second.
    #[allow(clippy::cast_precision_loss, reason = "a rate is shown with three digits")]
    pub fn update(&mut self, now: Duration, bytes: u64) -> f64 {
        let (then, before) = std::mem::replace(&mut self.last, (now, bytes));
        let step_s = now.saturating_sub(then).as_secs_f64();
        let kept = (-step_s / MEMORY_S).exp();
        self.bytes = self.bytes * kept + bytes.saturating_sub(before) as f64;
        self.seconds = self.seconds * kept + step_s;
        if self.seconds > 0.0 { self.bytes / self.seconds } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_near(rate: f64, expected: f64) {
        assert!((rate - expected).abs() < 0.05 * expected, "{rate} is not about {expected}");
    }

    #[test]
    fn follows_a_change_within_seconds_and_not_at_once() {
        let mut meter = Meter::default();
        assert_near(meter.update(Duration::from_secs(1), 100), 100.0);
        assert_near(meter.update(Duration::from_secs(2), 200), 100.0);
        let first = meter.update(Duration::from_secs(3), 200);
        assert!((50.0..80.0).contains(&first), "{first}");
        let last = (4..30).map(|second| meter.update(Duration::from_secs(second), 200)).last();
        assert!(last.is_some_and(|rate| rate < 1.0), "{last:?}");
    }

    #[test]
    fn a_burst_in_no_time_does_not_stay() {
        let mut meter = Meter::default();
        meter.update(Duration::from_nanos(150), 8_000_000);
        assert_near(meter.update(Duration::from_millis(200), 16_000_000), 80_000_000.0);
    }

    #[test]
    fn no_time_is_no_rate() {
        assert!(Meter::default().update(Duration::ZERO, 5) < f64::MIN_POSITIVE);
    }
}
