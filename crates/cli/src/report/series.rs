//! What a job's progress was, moment by moment, in memory that does not grow with the job: when there are too many
//! samples, two become one, and from then on each takes twice as long.

use std::time::Duration;

use haul_engine::event::{Event, Progress};

/// Most samples. A chart is not much wider.
const SAMPLES_MAX: usize = 480;
/// How long a sample takes at first: workers tell of themselves about as often.
const FIRST_STEP: Duration = Duration::from_millis(500);
/// After so many times that, a sample ends although nothing was moved.
const PATIENCE: u32 = 4;
/// Most happenings that are remembered.
const HAPPENED_MAX: usize = 64;

/// Progress over time.
#[derive(Debug, Default)]
pub struct Series {
    samples: Vec<Sample>,
    open: Sample,
    step: Option<Duration>,
    before: u64,
    happened: Vec<(Duration, String)>,
    begun: Option<Duration>,
}

/// What was moved within a stretch of time. Times are since the command began.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample {
    /// When it begins.
    pub from: Duration,
    /// When it ends.
    pub to: Duration,
    /// Bytes that were written, or compared.
    pub bytes: u64,
    /// Streams in use at its end.
    pub streams: u16,
}

impl Sample {
    /// Its length in seconds.
    pub fn seconds(&self) -> f64 {
        self.to.saturating_sub(self.from).as_secs_f64()
    }

    /// Bytes a second.
    pub fn rate(&self) -> f64 {
        match self.seconds() {
            seconds if seconds > 0.0 => self.bytes as f64 / seconds,
            _ => 0.0,
        }
    }

    /// The middle of it, in seconds.
    pub fn middle(&self) -> f64 {
        f64::midpoint(self.from.as_secs_f64(), self.to.as_secs_f64())
    }

    /// Both in one; `next` follows.
    fn joined(self, next: Self) -> Self {
        Self { to: next.to, bytes: self.bytes.saturating_add(next.bytes), streams: next.streams, from: self.from }
    }
}

impl Series {
    /// Takes note of an event at this time since the command began.
    pub fn event(&mut self, now: Duration, event: &Event) {
        match event {
            Event::Connected { .. } => self.begin(now),
            Event::Progress(progress) => self.take(now, progress),
            Event::Again { reason, .. } => {
                self.before = 0;
                self.happens(now, format!("begun again: {}", reason.lines().next().unwrap_or_default()));
            }
            Event::Moved { because, .. } => {
                let because = because.as_deref().map(|because| format!(": {because}")).unwrap_or_default();
                self.happens(now, format!("another path{because}"));
            }
            Event::RateLimit { bytes_per_s } => {
                self.happens(now, format!("rate limit {}", crate::show::units::limit(*bytes_per_s)));
            }
            _ => {}
        }
    }

    /// The job has ended: what was not yet a sample becomes one.
    pub fn end(&mut self) {
        self.close();
    }

    /// The samples, in their order, without gaps.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// What happened, and when.
    pub fn happened(&self) -> &[(Duration, String)] {
        &self.happened
    }

    /// When data streams were up for the first time.
    pub fn begun(&self) -> Option<Duration> {
        self.begun
    }

    fn begin(&mut self, now: Duration) {
        self.begun.get_or_insert(now);
        // What went before carried nothing, and is not mixed with what did.
        self.open.to = now;
        self.close();
    }

    fn take(&mut self, now: Duration, progress: &Progress) {
        let bytes = progress.moved();
        // An attempt counts from zero.
        let new = bytes.checked_sub(self.before).unwrap_or(bytes);
        self.before = bytes;
        self.open.to = now.max(self.open.from);
        self.open.bytes = self.open.bytes.saturating_add(new);
        self.open.streams = progress.streams;
        // Workers tell of themselves now and then: a sample that ended between two reports would have too few bytes.
        let length = self.open.to - self.open.from;
        if length >= self.step() && new > 0 || length >= self.step() * PATIENCE {
            self.close();
        }
    }

    fn step(&self) -> Duration {
        self.step.unwrap_or(FIRST_STEP)
    }

    fn close(&mut self) {
        if self.open.to <= self.open.from {
            return;
        }
        let next = Sample { from: self.open.to, to: self.open.to, ..Sample::default() };
        self.samples.push(std::mem::replace(&mut self.open, next));
        if self.samples.len() >= SAMPLES_MAX {
            self.coarsen();
        }
    }

    fn coarsen(&mut self) {
        self.step = Some(self.step() * 2);
        let mut all = std::mem::take(&mut self.samples).into_iter();
        while let Some(sample) = all.next() {
            self.samples.push(match all.next() {
                Some(next) => sample.joined(next),
                None => sample,
            });
        }
    }

    fn happens(&mut self, now: Duration, what: String) {
        if self.happened.len() < HAPPENED_MAX {
            self.happened.push((now, what));
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn written(bytes: u64) -> Event {
        Event::Progress(Progress { bytes_written: bytes, streams: 4, ..Progress::default() })
    }

    /// Ten megabytes a second for so many seconds, told of five times a second.
    pub fn steady(seconds: u64) -> Series {
        let mut series = Series::default();
        (1..=seconds * 5).for_each(|fifth| series.event(ms(fifth * 200), &written(fifth * 2_000_000)));
        series.end();
        series
    }

    fn total(series: &Series) -> u64 {
        series.samples().iter().map(|sample| sample.bytes).sum()
    }

    #[test]
    fn samples_take_at_least_half_a_second_and_leave_no_byte_out() {
        let series = steady(10);
        let samples = series.samples();
        assert_eq!((samples.len(), total(&series)), (17, 100_000_000));
        assert!(samples.iter().all(|sample| (sample.rate() - 1e7).abs() < 1.0), "{samples:?}");
        assert!(samples.windows(2).all(|pair| pair[0].to == pair[1].from), "{samples:?}");
    }

    #[test]
    fn a_job_of_days_takes_no_more_memory_than_one_of_minutes() {
        let series = steady(3 * 86_400);
        let samples = series.samples();
        assert!((SAMPLES_MAX / 2..=SAMPLES_MAX).contains(&samples.len()), "{}", samples.len());
        assert_eq!(total(&series), 3 * 86_400 * 10_000_000);
        assert!(samples.iter().all(|sample| (sample.rate() - 1e7).abs() < 1.0));
        assert!(samples.windows(2).all(|pair| pair[0].to == pair[1].from));
    }

    #[test]
    fn an_attempt_that_begins_anew_counts_from_zero_and_is_told_of() {
        let mut series = Series::default();
        series.event(ms(1000), &written(5_000_000));
        let pause = ms(1);
        let again = Event::Again { reason: "db1: gone\nmore".into(), pause, attempt: 1, attempts: None, left: None };
        series.event(ms(1500), &again);
        series.event(ms(2000), &written(7_000_000));
        series.event(ms(2100), &written(7_000_001));
        series.end();
        assert_eq!(total(&series), 12_000_001);
        assert_eq!(series.happened(), [(ms(1500), "begun again: db1: gone".to_owned())]);
        (0..1000).for_each(|_| series.event(ms(3000), &again));
        assert_eq!(series.happened().len(), HAPPENED_MAX);
    }

    #[test]
    fn what_goes_before_the_streams_is_a_sample_of_its_own() {
        use haul_engine::event::Way;
        use haul_engine::spec::Cipher;
        let mut series = Series::default();
        series.event(ms(300), &Event::Connected { way: Way::None, streams: 4, cipher: Cipher::Aes256Gcm });
        series.event(ms(800), &written(5_000_000));
        series.end();
        let samples = series.samples();
        assert_eq!((samples[0].to, samples[0].bytes, samples[1].bytes), (ms(300), 0, 5_000_000));
        assert_eq!(series.begun(), Some(ms(300)));
    }
}
