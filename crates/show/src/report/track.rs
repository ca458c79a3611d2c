//! A time series in constant memory: beyond a number of samples, pairs are merged, and the sample length doubles.

use std::time::Duration;

/// Most samples, about the width of a chart.
pub const SAMPLES_MAX: usize = 480;
/// Initial length of a sample: about the interval of the workers' reports.
const FIRST_STEP: Duration = Duration::from_millis(500);
/// Number of such intervals after which a sample ends without a report.
const PATIENCE: u32 = 4;

/// Figures that can be summed over time.
pub trait Additive: Default {
    /// Adds the following figures.
    fn add(&mut self, next: Self);
}

/// The figures of a period. Times are since the start of the command.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TrackSample<T> {
    /// Its start.
    pub from: Duration,
    /// Its end.
    pub to: Duration,
    /// Its figures.
    pub figures: T,
}

impl<T> TrackSample<T> {
    /// Its length in seconds.
    pub fn seconds(&self) -> f64 {
        self.to.saturating_sub(self.from).as_secs_f64()
    }

    /// Its middle, in seconds.
    pub fn middle(&self) -> f64 {
        f64::midpoint(self.from.as_secs_f64(), self.to.as_secs_f64())
    }

    /// A count of this period, per second.
    pub fn a_second(&self, count: u64) -> f64 {
        match self.seconds() {
            seconds if seconds > 0.0 => count as f64 / seconds,
            _ => 0.0,
        }
    }
}

/// Samples in their order, without gaps.
#[derive(Debug)]
pub struct Track<T> {
    samples: Vec<TrackSample<T>>,
    open: TrackSample<T>,
    step: Duration,
}

impl<T: Additive> Default for Track<T> {
    fn default() -> Self {
        Self {
            samples: Vec::new(),
            open: TrackSample { from: Duration::ZERO, to: Duration::ZERO, figures: T::default() },
            step: FIRST_STEP,
        }
    }
}

impl<T: Additive> Track<T> {
    /// Records the figures until `now`. A sample ends only with a `new` report, or after a long silence: reports come
    /// at intervals, and a sample between two of them would be too low.
    pub fn record(&mut self, now: Duration, figures: T, new: bool) {
        self.open.to = now.max(self.open.from);
        self.open.figures.add(figures);
        let length = self.open.to - self.open.from;
        if length >= self.step && new || length >= self.step * PATIENCE {
            self.close(self.open.to);
        }
    }

    /// Ends the present sample at `now`, whatever its length.
    pub fn close(&mut self, now: Duration) {
        self.open.to = now.max(self.open.to);
        if self.open.to == self.open.from {
            return;
        }
        let next = TrackSample { from: self.open.to, to: self.open.to, figures: T::default() };
        self.samples.push(std::mem::replace(&mut self.open, next));
        if self.samples.len() >= SAMPLES_MAX {
            self.coarsen();
        }
    }

    /// Ends the present sample at the last report.
    pub fn end(&mut self) {
        self.close(self.open.to);
    }

    /// The samples.
    pub fn samples(&self) -> &[TrackSample<T>] {
        &self.samples
    }

    fn coarsen(&mut self) {
        self.step *= 2;
        let mut all = std::mem::take(&mut self.samples).into_iter();
        while let Some(mut sample) = all.next() {
            if let Some(next) = all.next() {
                sample.to = next.to;
                sample.figures.add(next.figures);
            }
            self.samples.push(sample);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Additive for u64 {
        fn add(&mut self, next: Self) {
            *self += next;
        }
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn samples_take_at_least_half_a_second_and_follow_each_other() {
        let mut track = Track::default();
        (1..=50).for_each(|fifth| track.record(ms(fifth * 200), 2_000_000, true));
        track.end();
        let samples = track.samples();
        assert_eq!((samples.len(), samples.iter().map(|sample| sample.figures).sum()), (17, 100_000_000u64));
        assert!(samples.iter().all(|sample| (sample.a_second(sample.figures) - 1e7).abs() < 1.0), "{samples:?}");
        assert!(samples.windows(2).all(|pair| pair[0].to == pair[1].from), "{samples:?}");
    }

    #[test]
    fn three_days_take_no_more_memory_than_minutes() {
        let mut track = Track::default();
        (1..=3 * 86_400).for_each(|second| track.record(ms(second * 1000), 10, true));
        let samples = track.samples();
        assert!((SAMPLES_MAX / 2..SAMPLES_MAX).contains(&samples.len()), "{}", samples.len());
        assert!(samples.iter().all(|sample| (sample.a_second(sample.figures) - 10.0).abs() < 1e-9));
        assert!(samples.windows(2).all(|pair| pair[0].to == pair[1].from));
    }

    #[test]
    fn a_sample_waits_for_new_data_but_not_for_ever() {
        let mut track = Track::default();
        track.record(ms(600), 0, false);
        track.record(ms(1200), 7, true);
        track.record(ms(3200), 0, false);
        let ends: Vec<_> = track.samples().iter().map(|sample| (sample.to, sample.figures)).collect();
        assert_eq!(ends, [(ms(1200), 7), (ms(3200), 0)]);
        track.end();
        assert_eq!(track.samples().len(), 2, "nothing is open");
    }
}
