//! Time series of a copy: transferred bytes, connections, bottlenecks.

use std::time::Duration;

use haul_base::copy::event::{Bottleneck, Event, Progress, Sockets};

use super::track::{Additive, Track, TrackSample};

/// Most remembered events.
const HAPPENED_MAX: usize = 64;
/// Most streams drawn separately, replaced ones included.
const STREAMS_MAX: usize = 512;

/// Transferred files and bytes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Moved {
    /// Written or compared bytes.
    pub bytes: u64,
    /// Streams in use at the end.
    pub streams: u16,
    /// The bottleneck at the end.
    pub limit: Option<Bottleneck>,
}

/// Figures of the connections.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Met {
    /// The kernel's figures of all connections together.
    pub sockets: Sockets,
    /// Acknowledged bytes of each stream, in the order of [`Series::streams`].
    pub bytes: Vec<u64>,
}

impl Additive for Moved {
    fn add(&mut self, next: Self) {
        *self = Self { bytes: self.bytes.saturating_add(next.bytes), ..next };
    }
}

impl Additive for Met {
    fn add(&mut self, next: Self) {
        self.sockets.add(&next.sockets);
        self.bytes.resize(self.bytes.len().max(next.bytes.len()), 0);
        self.bytes.iter_mut().zip(next.bytes).for_each(|(sum, more)| *sum = sum.saturating_add(more));
    }
}

impl Met {
    /// The mean round trip in seconds, if any was measured.
    pub fn round_trip(&self) -> Option<f64> {
        let Sockets { looks, rtt_us, .. } = self.sockets;
        (looks > 0).then(|| rtt_us as f64 / looks as f64 / 1e6)
    }
}

/// Progress over time.
#[derive(Debug, Default)]
pub struct Series {
    moved: Track<Moved>,
    met: Track<Met>,
    before: Progress,
    streams: Vec<u64>,
    happened: Vec<(Duration, String)>,
    begun: Option<Duration>,
}

impl Series {
    /// Records an event at this time since the start of the command.
    pub fn event(&mut self, now: Duration, event: &Event) {
        match event {
            Event::Connected { .. } => self.begin(now),
            Event::Progress(progress) => self.sample(now, progress),
            Event::Restarted { reason, .. } => {
                // Each attempt counts from zero, and has other streams.
                self.before = Progress::default();
                self.happens(now, format!("reconnected: {}", reason.lines().next().unwrap_or_default()));
            }
            Event::PathChanged { because, .. } => {
                let because = because.as_deref().map(|because| format!(": {because}")).unwrap_or_default();
                self.happens(now, format!("another path{because}"));
            }
            Event::RateLimit { bytes_per_s } => {
                let limit = bytes_per_s.map_or("none".to_owned(), crate::units::limit);
                self.happens(now, format!("rate limit {limit}"));
            }
            Event::Pause { is_paused } => {
                self.happens(now, if *is_paused { "paused" } else { "resumed" }.to_owned());
            }
            Event::Streams { wanted } => {
                self.happens(now, crate::units::counted((*wanted).into(), "stream", "streams"));
            }
            _ => {}
        }
    }

    /// Ends the series: the rest becomes a sample.
    pub fn end(&mut self) {
        self.moved.end();
        self.met.end();
    }

    /// Returns transferred files and bytes, in samples without gaps.
    pub fn moved(&self) -> &[TrackSample<Moved>] {
        self.moved.samples()
    }

    /// Returns figures of the connections, in samples without gaps.
    pub fn met(&self) -> &[TrackSample<Met>] {
        self.met.samples()
    }

    /// The numbers of the streams, in the order of [`Met::bytes`].
    pub fn streams(&self) -> &[u64] {
        &self.streams
    }

    /// Events and their times.
    pub fn happened(&self) -> &[(Duration, String)] {
        &self.happened
    }

    /// The first time with data streams.
    pub fn first_stream_time(&self) -> Option<Duration> {
        self.begun
    }

    /// The mean round trip of the whole time in seconds, if any was measured.
    pub fn round_trip(&self) -> Option<f64> {
        let mut all = Met::default();
        self.met().iter().for_each(|sample| all.sockets.add(&sample.figures.sockets));
        all.round_trip()
    }

    fn begin(&mut self, now: Duration) {
        self.begun.get_or_insert(now);
        // The time before the connection is a sample of its own.
        self.moved.close(now);
        self.met.close(now);
    }

    fn sample(&mut self, now: Duration, progress: &Progress) {
        let bytes = progress.moved().saturating_sub(self.before.moved());
        let limit = progress.limited_by.map(|now| now.limit);
        self.moved.record(now, Moved { bytes, streams: progress.streams, limit }, bytes > 0);
        let sockets = progress.sockets.since(&self.before.sockets);
        let is_new = sockets.acknowledged_bytes > 0;
        let bytes = self.by_stream(progress);
        self.met.record(now, Met { sockets, bytes }, is_new);
        self.before = progress.clone();
    }

    /// Bytes of each stream since the previous progress.
    fn by_stream(&mut self, progress: &Progress) -> Vec<u64> {
        let mut bytes = vec![0; self.streams.len()];
        for figures in &progress.per_stream {
            let place = match self.streams.iter().position(|stream| *stream == figures.stream) {
                Some(place) => place,
                None if self.streams.len() >= STREAMS_MAX => continue,
                None => {
                    self.streams.push(figures.stream);
                    bytes.push(0);
                    bytes.len() - 1
                }
            };
            let before = self.before.per_stream.iter().find(|before| before.stream == figures.stream);
            let before = before.map_or(0, |before| before.acknowledged_bytes);
            bytes[place] = figures.acknowledged_bytes.saturating_sub(before);
        }
        bytes
    }

    fn happens(&mut self, now: Duration, what: String) {
        if self.happened.len() < HAPPENED_MAX {
            self.happened.push((now, what));
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use haul_base::copy::event::{CurrentBottleneck, StreamFigures, TransportPath};
    use haul_base::copy::spec::Cipher;

    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn written(bytes: u64) -> Event {
        Event::Progress(Box::new(Progress { bytes_written: bytes, streams: 4, ..Progress::default() }))
    }

    /// A test series: ten megabytes a second for this many seconds, five reports a second, two streams, the second with
    /// a quarter; limited by the link, then by the target's disk.
    pub fn steady(seconds: u64) -> Series {
        let mut series = Series::default();
        for fifth in 1..=seconds * 5 {
            let stream =
                |stream, part| StreamFigures { stream, acknowledged_bytes: fifth * part, ..Default::default() };
            let limit = if fifth < seconds * 2 { Bottleneck::Link } else { Bottleneck::TargetDisk };
            let progress = Progress {
                bytes_written: fifth * 2_000_000,
                streams: 2,
                limited_by: Some(CurrentBottleneck { limit, share: 0.9 }),
                sockets: Sockets {
                    looks: fifth,
                    rtt_us: fifth * 80_000,
                    acknowledged_bytes: fifth * 2_000_000,
                    segments: fifth * 1000,
                    retransmitted: fifth,
                    ..Default::default()
                },
                per_stream: vec![stream(0, 1_500_000), stream(7, 500_000)],
                ..Progress::default()
            };
            series.event(ms(fifth * 200), &Event::Progress(Box::new(progress)));
        }
        series.end();
        series
    }

    fn total(series: &Series) -> u64 {
        series.moved().iter().map(|sample| sample.figures.bytes).sum()
    }

    #[test]
    fn every_byte_counts_and_streams_are_separate() {
        let series = steady(10);
        assert_eq!((total(&series), series.streams()), (100_000_000, &[0, 7][..]));
        let of_stream = |at: usize| series.met().iter().map(|sample| sample.figures.bytes[at]).sum::<u64>();
        assert_eq!((of_stream(0), of_stream(1)), (75_000_000, 25_000_000));
        assert_eq!(series.round_trip(), Some(0.08));
        let resent: u64 = series.met().iter().map(|sample| sample.figures.sockets.retransmitted).sum();
        assert_eq!(resent, 50);
    }

    #[test]
    fn a_restarted_attempt_counts_from_zero_and_is_marked() {
        let mut series = Series::default();
        series.event(ms(1000), &written(5_000_000));
        let pause = ms(1);
        let again =
            Event::Restarted { reason: "db1: gone\nmore".into(), pause, attempt: 1, attempts: None, left: None };
        series.event(ms(1500), &again);
        series.event(ms(2000), &written(7_000_000));
        series.event(ms(2100), &written(7_000_001));
        series.end();
        assert_eq!(total(&series), 12_000_001);
        assert_eq!(series.happened(), [(ms(1500), "reconnected: db1: gone".to_owned())]);
        (0..1000).for_each(|_| series.event(ms(3000), &again));
        assert_eq!(series.happened().len(), HAPPENED_MAX);
    }

    #[test]
    fn data_before_the_streams_is_a_sample_of_its_own() {
        let mut series = Series::default();
        series.event(
            ms(300),
            &Event::Connected { transport: TransportPath::None, streams: 4, cipher: Cipher::Aes256Gcm },
        );
        series.event(ms(800), &written(5_000_000));
        series.end();
        let samples = series.moved();
        assert_eq!((samples[0].to, samples[0].figures.bytes, samples[1].figures.bytes), (ms(300), 0, 5_000_000));
        assert_eq!(series.first_stream_time(), Some(ms(300)));
    }

    #[test]
    fn a_peer_with_ever_new_streams_fills_no_memory() {
        let mut series = Series::default();
        for at in 0..2000u64 {
            let stream = StreamFigures { stream: at, acknowledged_bytes: 1, ..Default::default() };
            let progress = Progress { per_stream: vec![stream], ..Progress::default() };
            series.event(ms(at * 100), &Event::Progress(Box::new(progress)));
        }
        assert_eq!(series.streams().len(), STREAMS_MAX);
    }
}
