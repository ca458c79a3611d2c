//! A smoothed rate from figures at irregular intervals.

use std::time::Duration;

use haul_base::copy::event::Progress;

use crate::progress_line::Pace;
use crate::units::bytes_per_s;

/// The time constant of the average.
const MEMORY_S: f64 = 3.0;
/// A step that is longer than this, and [`GAP_STEPS`] times the step before, is a pause: haul was stopped.
const GAP_S: f64 = 2.0;
/// See [`GAP_S`].
const GAP_STEPS: f64 = 3.0;
/// Shortest interval before the last line with a rate of its own.
const LAST_STEP: Duration = Duration::from_millis(900);

/// Shortest time without any progress that is a stall.
const STALL_MIN: Duration = Duration::from_secs(3);

/// Detects that nothing moves, neither bytes nor files.
#[derive(Debug, Default)]
pub struct StallWatch {
    seen: Option<(Duration, [u64; 5])>,
    now: Duration,
    step_s: f64,
}

impl StallWatch {
    /// Records figures at `now`, and returns for how long they have been the same. A paused or complete copy, and one
    /// that was itself stopped, has not stalled.
    pub fn update(&mut self, now: Duration, progress: &Progress) -> Option<Duration> {
        let Progress { files_settled, files_found, directories, .. } = *progress;
        let figures = [progress.done(), files_settled, files_found, progress.bytes_found, directories];
        let step_s = now.saturating_sub(std::mem::replace(&mut self.now, now)).as_secs_f64();
        let step_before_s = std::mem::replace(&mut self.step_s, step_s);
        let is_over = progress.walk_complete && progress.done() >= progress.bytes_found;
        let is_same = self.seen.is_some_and(|(_, seen)| seen == figures) && !progress.is_paused && !is_over;
        if !is_same || is_gap(step_s, step_before_s) {
            self.seen = Some((now, figures));
        }
        let (since, _) = self.seen?;
        Some(now.saturating_sub(since)).filter(|length| *length >= STALL_MIN)
    }
}

/// Exponentially weighted bytes and seconds, whose quotient is a steady rate.
#[derive(Debug, Default)]
pub struct Meter {
    last: (Duration, u64),
    step_s: f64,
    bytes: f64,
    seconds: f64,
    /// The start of the measurement.
    since: Duration,
}

impl Meter {
    /// Records `bytes` at `now` (both since the start), and returns the rate. A pause restarts the measurement.
    #[allow(clippy::cast_precision_loss, reason = "a rate is shown with three digits")]
    pub fn update(&mut self, now: Duration, bytes: u64) -> Pace {
        let (then, before) = std::mem::replace(&mut self.last, (now, bytes));
        let step_s = now.saturating_sub(then).as_secs_f64();
        if is_gap(step_s, self.step_s) {
            self.forget();
        } else {
            let kept = (-step_s / MEMORY_S).exp();
            self.bytes = self.bytes * kept + bytes.saturating_sub(before) as f64;
            self.seconds = self.seconds * kept + step_s;
            self.step_s = step_s;
        }
        let bytes_per_s = (self.seconds > 0.0).then(|| self.bytes / self.seconds);
        Pace { bytes_per_s, measured: now.saturating_sub(self.since), stalled: None }
    }

    /// Restarts the measurement at the last figures.
    pub fn forget(&mut self) {
        *self = Self { last: self.last, since: self.last.0, ..Self::default() };
    }
}

fn is_gap(step_s: f64, step_before_s: f64) -> bool {
    step_before_s > 0.0 && step_s > GAP_S.max(GAP_STEPS * step_before_s)
}

/// The rate between lines, and the average for the last line.
#[derive(Debug, Default)]
pub struct IntervalMeter {
    last: (Duration, u64),
    step: Duration,
}

impl IntervalMeter {
    /// The rate since the last line. The last line has the average, since its own interval may be very short.
    pub fn update(&mut self, now: Duration, progress: &Progress) -> Pace {
        let moved = progress.moved();
        let (then, before) = std::mem::replace(&mut self.last, (now, moved));
        let step = now.saturating_sub(then);
        let step_before = std::mem::replace(&mut self.step, step);
        let is_complete = progress.walk_complete && progress.done() >= progress.bytes_found;
        let bytes_per_s = match step {
            _ if is_complete || step < LAST_STEP => Some(bytes_per_s(moved, now)),
            _ if is_gap(step.as_secs_f64(), step_before.as_secs_f64()) => None,
            _ => Some(bytes_per_s(moved.saturating_sub(before), step)),
        };
        Pace { bytes_per_s, measured: step, stalled: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_near(rate: f64, expected: f64) {
        assert!((rate - expected).abs() < 0.05 * expected, "{rate} is not about {expected}");
    }

    /// The rate at `ms` milliseconds with `bytes` through.
    fn rate_at(meter: &mut Meter, ms: u64, bytes: u64) -> f64 {
        meter.update(Duration::from_millis(ms), bytes).bytes_per_s.unwrap()
    }

    fn progress(done: u64) -> Progress {
        Progress { bytes_found: 1000, walk_complete: true, bytes_written: done, ..Progress::default() }
    }

    #[test]
    fn follows_a_change_within_seconds_and_not_at_once() {
        let mut meter = Meter::default();
        assert_near(rate_at(&mut meter, 1000, 100), 100.0);
        assert_near(rate_at(&mut meter, 2000, 200), 100.0);
        let first = rate_at(&mut meter, 3000, 200);
        assert!((50.0..80.0).contains(&first), "{first}");
        let last = (4..30).map(|second| rate_at(&mut meter, second * 1000, 200)).last();
        assert!(last.is_some_and(|rate| rate < 1.0), "{last:?}");
    }

    #[test]
    fn a_burst_in_no_time_does_not_stay() {
        let mut meter = Meter::default();
        meter.update(Duration::from_nanos(150), 8_000_000);
        assert_near(rate_at(&mut meter, 200, 16_000_000), 80_000_000.0);
    }

    #[test]
    fn no_time_is_no_rate() {
        assert_eq!(Meter::default().update(Duration::ZERO, 5).bytes_per_s, None);
    }

    #[test]
    fn after_a_pause_the_rate_is_measured_afresh() {
        let mut meter = Meter::default();
        (1..=50).for_each(|step| _ = rate_at(&mut meter, step * 200, step * 200));
        let stopped = meter.update(Duration::from_secs(40), 10_100);
        assert_eq!((stopped.bytes_per_s, stopped.measured), (None, Duration::ZERO));
        let next = meter.update(Duration::from_millis(40_200), 10_200);
        assert_near(next.bytes_per_s.unwrap(), 500.0);
        assert_eq!(next.measured, Duration::from_millis(200));
    }

    #[test]
    fn long_regular_steps_are_no_pause() {
        let mut meter = Meter::default();
        (1..9).for_each(|step| assert_near(rate_at(&mut meter, step * 60_000, step * 600), 10.0));
    }

    #[test]
    fn the_last_interval_is_replaced_by_the_average() {
        let mut meter = IntervalMeter::default();
        let mut rate = |ms, done| meter.update(Duration::from_millis(ms), &progress(done)).bytes_per_s;
        assert_eq!([rate(1000, 100), rate(2000, 300)], [Some(100.0), Some(200.0)]);
        assert_eq!(rate(30_000, 400), None, "after a pause");
        assert_eq!([rate(31_000, 500), rate(32_000, 512)], [Some(100.0), Some(12.0)]);
        assert_eq!(rate(32_001, 900).map(f64::round), Some(28.0), "a job that ends with failures");
        assert_eq!(rate(40_000, 1000), Some(25.0));
    }

    #[test]
    fn a_copy_that_does_not_move_has_stalled_unless_it_waits_on_purpose() {
        let mut stall = StallWatch::default();
        let mut at = |second, progress: &Progress| stall.update(Duration::from_secs(second), progress);
        let stuck = progress(500);
        assert_eq!([at(0, &stuck), at(1, &stuck), at(2, &stuck)], [None; 3]);
        assert_eq!(at(4, &stuck), Some(Duration::from_secs(4)));
        assert_eq!(at(5, &Progress { files_settled: 1, ..progress(500) }), None, "small files are progress");
        let paused = Progress { is_paused: true, ..progress(500) };
        assert_eq!([at(6, &paused), at(8, &paused), at(10, &paused)], [None; 3]);
        assert_eq!([at(12, &progress(1000)), at(14, &progress(1000)), at(16, &progress(1000))], [None; 3], "complete");
        assert_eq!([at(17, &stuck), at(60, &stuck)], [None; 2], "haul itself was stopped");
    }
}
