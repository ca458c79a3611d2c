//! The streams of a copy with their rates, from consecutive reports.

use std::collections::BTreeMap;
use std::time::Duration;

use haul_base::copy::event::{Progress, StreamFigures};

/// The present streams.
#[derive(Debug, Default)]
pub struct Lanes {
    /// The last report.
    reported: Vec<StreamFigures>,
    at: Duration,
    rates: BTreeMap<u64, f64>,
    rows: Vec<StreamRow>,
}

/// A stream.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamRow {
    /// Its number.
    pub stream: u64,
    /// Bytes per second.
    pub rate: f64,
    /// In microseconds.
    pub round_trip_us: f64,
    /// Retransmitted segments.
    pub sent_again: u64,
    /// Segments sent.
    pub segments: u64,
    /// Both ends' addresses; empty if unknown.
    pub path: (String, String),
    /// Whether it is in use.
    pub in_use: bool,
}

impl Lanes {
    /// Starts another attempt, with new streams.
    pub fn begin_again(&mut self) {
        *self = Self::default();
    }

    /// Records figures at this time.
    pub fn sample(&mut self, now: Duration, progress: &Progress) {
        if progress.per_stream != self.reported {
            let elapsed = now.saturating_sub(self.at).as_secs_f64().max(1e-3);
            let before = |stream| self.reported.iter().find(|figures| figures.stream == stream);
            self.rates = progress
                .per_stream
                .iter()
                .map(|figures| {
                    let before = before(figures.stream).map_or(0, |before| before.acknowledged_bytes);
                    (figures.stream, figures.acknowledged_bytes.saturating_sub(before) as f64 / elapsed)
                })
                .collect();
            (self.reported, self.at) = (progress.per_stream.clone(), now);
        }
        let transport = |transport: &haul_base::copy::event::StreamPath| {
            let figures = self.reported.iter().find(|figures| figures.stream == u64::from(transport.stream))?;
            Some(StreamRow {
                stream: figures.stream,
                rate: self.rates.get(&figures.stream).copied().unwrap_or(0.0),
                round_trip_us: figures.rtt_us as f64,
                sent_again: figures.retransmitted,
                segments: figures.segments,
                path: progress.work.paths.get(usize::from(transport.path)).cloned().unwrap_or_default(),
                in_use: transport.in_use,
            })
        };
        self.rows = progress.work.streams.iter().filter_map(transport).collect();
    }

    /// The present streams.
    pub fn rows(&self) -> &[StreamRow] {
        &self.rows
    }
}

#[cfg(test)]
mod tests {
    use haul_base::copy::event::{SourceActivity, StreamPath};

    use super::*;

    fn progress(megabytes: u64, streams: &[u16]) -> Progress {
        let of = |stream: u64| StreamFigures {
            stream,
            acknowledged_bytes: megabytes * 1_000_000 * (stream + 1),
            rtt_us: 50_400,
            ..StreamFigures::default()
        };
        let transport = |stream: &u16| StreamPath { stream: *stream, path: 0, in_use: *stream < 2 };
        let work = SourceActivity {
            files_in_progress: 1,
            paths: vec![("a:1".into(), "b:2".into())],
            streams: streams.iter().map(transport).collect(),
        };
        Progress { per_stream: (0..3).map(of).collect(), work, ..Progress::default() }
    }

    #[test]
    fn a_rate_is_the_increase_since_the_last_figures() {
        let mut lanes = Lanes::default();
        let ms = Duration::from_millis;
        lanes.sample(ms(500), &progress(1, &[0, 1, 2]));
        lanes.sample(ms(700), &progress(1, &[0, 1, 2]));
        lanes.sample(ms(1000), &progress(4, &[0, 2]));
        // The same figures once more are no standstill.
        lanes.sample(ms(1200), &progress(4, &[0, 2]));
        let rows: Vec<_> = lanes.rows().iter().map(|row| (row.stream, row.rate.round(), row.in_use)).collect();
        assert_eq!(rows, [(0, 6e6, true), (2, 18e6, false)], "the one that was given up is not shown");
        assert_eq!(lanes.rows()[0].path.1, "b:2");
    }
}
