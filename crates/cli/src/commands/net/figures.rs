//! Results of a network measurement.

use std::time::Duration;

use haul_base::copy::event::{Bottleneck, Sockets};
use haul_base::copy::summary::{EndSummary, Summary};
use haul_show::units;
use serde::Serialize;

use crate::echoes::RoundTrips;

/// An interval.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub struct IntervalFigures {
    /// Its end, since the connection.
    pub end_s: f64,
    /// Bytes per second at the target.
    pub bytes_per_s: f64,
    /// Retransmitted segments.
    pub retransmitted: u64,
    /// The kernel's mean round trip of the data's connections, in seconds, if there was a sample.
    pub round_trip_s: Option<f64>,
    /// Streams in use.
    pub streams: u16,
}

impl IntervalFigures {
    /// The figures of `bytes` in a step.
    pub fn new(end: Duration, step: Duration, bytes: u64, sockets: &Sockets, streams: u16) -> Self {
        Self {
            end_s: end.as_secs_f64(),
            bytes_per_s: units::bytes_per_s(bytes, step),
            retransmitted: sockets.retransmitted,
            round_trip_s: mean_s(sockets.rtt_us, sockets.looks),
            streams,
        }
    }
}

/// Longest time between two reports of a connection that carries data.
const REPORTS_MAX: Duration = Duration::from_millis(400);

/// The target's bytes by their reports. A report is of the moment at which the bytes grew; later ones say nothing new.
#[derive(Debug, Default)]
pub struct Growth {
    first: Option<(Duration, u64)>,
    last: (Duration, u64),
    now: Duration,
}

impl Growth {
    /// Adds a report: `bytes` at `now`, since the connection.
    pub fn add(&mut self, now: Duration, bytes: u64) {
        self.now = now;
        if bytes > self.last.1 {
            self.last = (now, bytes);
            self.first.get_or_insert(self.last);
        }
    }

    /// The bytes at the last growth, or now if nothing has grown since.
    pub fn end(&self) -> (Duration, u64) {
        let (then, bytes) = self.last;
        if self.now.saturating_sub(then) <= REPORTS_MAX { self.last } else { (self.now, bytes) }
    }

    /// The rate from the first bytes on: data that is sent and not yet counted is the same at both times, and cancels
    /// out.
    pub fn bytes_per_s(&self) -> f64 {
        let (end, bytes) = self.end();
        match self.first {
            Some((begin, before)) if before < bytes => units::bytes_per_s(bytes - before, end.saturating_sub(begin)),
            _ => units::bytes_per_s(bytes, end),
        }
    }
}

/// Round trips of TCP by the kernel, in seconds.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TcpRoundTrips {
    /// Their mean.
    pub mean: f64,
    /// The shortest.
    pub min: f64,
}

/// CPUs of an end.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CpuFigures {
    /// Available CPUs.
    pub cores: u16,
    /// Used CPUs.
    pub in_use: f64,
}

/// The whole time.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NetFigures {
    /// Bytes that reached the target.
    pub bytes: u64,
    /// Bytes that the source sent on its streams.
    pub bytes_on_wire: u64,
    /// Time since the connection.
    pub seconds: f64,
    /// The mean rate, from the first bytes on.
    pub bytes_per_s: f64,
    /// Streams in use at the end.
    pub streams: u16,
    /// Segments with data, retransmissions included.
    pub segments: u64,
    /// Retransmitted segments.
    pub retransmitted: u64,
    /// By ICMP.
    #[serde(flatten)]
    pub echoes: RoundTrips,
    /// Round trips of the data's connections.
    pub tcp_round_trip_s: Option<TcpRoundTrips>,
    /// CPUs of the source.
    pub source_cpus: CpuFigures,
    /// CPUs of the target.
    pub target_cpus: CpuFigures,
    /// The slowest and the fastest interval.
    #[serde(skip)]
    pub range: Option<[f64; 2]>,
    /// The bottleneck.
    #[serde(skip)]
    pub limit: Bottleneck,
    /// Whether anything was compressed.
    #[serde(skip)]
    pub is_compressed: bool,
}

impl NetFigures {
    /// The figures of all intervals.
    pub fn new(growth: &Growth, intervals: &[f64], summary: &Summary, echoes: RoundTrips) -> Self {
        let slowest = intervals.iter().copied().min_by(f64::total_cmp);
        let fastest = intervals.iter().copied().max_by(f64::total_cmp);
        let sockets = &summary.source().load.sockets;
        let [source_cpus, target_cpus] = summary.ends.each_ref().map(|EndSummary { load, .. }| CpuFigures {
            cores: load.present.cores,
            in_use: mean(load.processors.own_us, load.elapsed_us).unwrap_or_default(),
        });
        Self {
            bytes: growth.last.1,
            bytes_on_wire: summary.counters.bytes_on_wire,
            seconds: growth.now.as_secs_f64(),
            bytes_per_s: growth.bytes_per_s(),
            streams: summary.connection.streams,
            segments: summary.connection.path.segments,
            retransmitted: summary.connection.path.retransmitted,
            echoes,
            tcp_round_trip_s: mean_s(sockets.rtt_min_us, sockets.looks)
                .zip(mean_s(sockets.rtt_us, sockets.looks))
                .map(|(min, mean)| TcpRoundTrips { mean, min }),
            source_cpus,
            target_cpus,
            range: slowest.zip(fastest).map(|(slowest, fastest)| [slowest, fastest]),
            limit: summary.diagnosis.verdict.as_ref().map_or(Bottleneck::None, |verdict| verdict.limit),
            is_compressed: summary.compression.is_some(),
        }
    }
}

/// The mean of times in microseconds, in seconds.
fn mean_s(sum_us: u64, count: u64) -> Option<f64> {
    mean(sum_us, count).map(|mean_us| mean_us / 1e6)
}

#[allow(clippy::cast_precision_loss, reason = "figures are shown with three digits")]
fn mean(sum: u64, count: u64) -> Option<f64> {
    (count > 0).then(|| sum as f64 / count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_counts_its_own_bytes_and_segments() {
        let sockets = Sockets { looks: 4, rtt_us: 8000, retransmitted: 3, ..Sockets::default() };
        let interval = IntervalFigures::new(Duration::from_secs(2), Duration::from_millis(500), 1_000_000, &sockets, 2);
        assert_eq!((interval.bytes_per_s, interval.retransmitted), (2e6, 3));
        assert_eq!(interval.round_trip_s, Some(0.002));
        let silent = IntervalFigures::new(Duration::ZERO, Duration::ZERO, 1, &Sockets::default(), 1);
        assert_eq!((silent.bytes_per_s, silent.round_trip_s), (0.0, None));
    }

    #[test]
    fn a_rate_neither_counts_what_is_under_way_nor_leaves_out_a_stall() {
        let mut growth = Growth::default();
        let mut report = |ms, bytes| {
            growth.add(Duration::from_millis(ms), bytes);
            (growth.bytes_per_s(), growth.end())
        };
        report(100, 0);
        assert_eq!(report(200, 100).0, 500.0, "the only one");
        report(1200, 1100);
        assert_eq!(report(1500, 1100), (1000.0, (Duration::from_millis(1200), 1100)), "a report of the same moment");
        assert_eq!(report(2200, 1100), (500.0, (Duration::from_millis(2200), 1100)), "it has stalled");
    }
}
