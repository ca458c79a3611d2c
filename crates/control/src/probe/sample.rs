//! One part of a probe: an ordinary copy, observed, and stopped once enough samples exist.

use std::time::{Duration, Instant};

use haul_base::copy::error::Error;
use haul_base::copy::event::{Bottleneck, Event, Observer, Progress, Sockets, TransportPath, Verdict};
use haul_base::copy::runtime_control::RuntimeControl;
use haul_base::copy::spec::{CopySpec, WorkerProgram};
use haul_base::copy::summary::Summary;
use haul_base::sys::cancel::Cancel;

use crate::controller;

/// Bounds of a part.
#[derive(Debug, Clone, Copy)]
pub struct SampleBounds {
    /// Duration of a part. A part that is expected to end soon may take up to three times as long.
    pub time: Duration,
    /// Most bytes to write.
    pub bytes: u64,
}

/// Results of a part.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProbeSample {
    /// Bytes per second in its second half. A complete part includes the time to flush to the disk.
    pub rate: f64,
    /// Bytes written.
    pub bytes: u64,
    /// From the start of the copy to the first connection.
    pub start: Duration,
    /// From the first connection to the end.
    pub elapsed: Duration,
    /// Streams in use at the end.
    pub streams: u16,
    /// The shortest round-trip time and the usual one under load; `None` without socket figures.
    pub round_trips: Option<[Duration; 2]>,
    /// Mean send buffer of a stream in bytes; 0 without socket figures.
    pub buffer_bytes: u64,
    /// Fraction of retransmitted segments.
    pub resent: f64,
    /// The bottleneck, if one stood out.
    pub limit: Option<Bottleneck>,
    /// Whether the copy completed, including its final waits.
    pub is_complete: bool,
    /// Whether all data is on the disk.
    pub is_durable: bool,
    /// Transport path of the data.
    pub transport: TransportPath,
}

impl ProbeSample {
    /// The bottleneck of a network part. Within one host, there is no link to blame.
    pub fn limit_of_network(&self) -> Option<Bottleneck> {
        self.limit.or(self.transport.is_within_host().then_some(Bottleneck::None))
    }
}

/// Measures a part.
pub fn measure(
    copy: CopySpec,
    program: &WorkerProgram,
    cancel: &Cancel,
    bounds: SampleBounds,
) -> Result<ProbeSample, Error> {
    let own = cancel.of_part();
    let mut witness = SampleWitness {
        own: own.clone(),
        started: Instant::now(),
        bounds,
        begun: None,
        seen: Vec::new(),
        last: Progress::default(),
        enough: false,
        verdict: None,
        transport: TransportPath::None,
        has_moved: false,
        failure: None,
    };
    let outcome = controller::run(copy, program.clone(), &own, &RuntimeControl::new(), &mut witness);
    match outcome {
        _ if cancel.is_cancelled() => Err(Error::Interrupted),
        _ if let Some(failure) = witness.failure.take() => Err(Error::Failed(failure)),
        Ok(summary) => Ok(witness.sample(Some(&summary))),
        Err(Error::Interrupted) if witness.enough => Ok(witness.sample(None)),
        Err(error) => Err(error),
    }
}

struct SampleWitness {
    own: Cancel,
    started: Instant,
    bounds: SampleBounds,
    /// Time of the first connection.
    begun: Option<Instant>,
    /// Samples of elapsed time and bytes written.
    seen: Vec<(Duration, u64)>,
    last: Progress,
    enough: bool,
    verdict: Option<Verdict>,
    transport: TransportPath,
    /// The data changed its path: round trips are those of both.
    has_moved: bool,
    failure: Option<String>,
}

impl Observer for SampleWitness {
    fn event(&mut self, event: &Event) {
        match event {
            Event::Connected { transport, .. } => {
                self.begun = Some(Instant::now());
                self.transport = transport.clone();
            }
            Event::PathChanged { transport, .. } => {
                self.transport = transport.clone();
                self.has_moved = true;
            }
            Event::Progress(progress) => self.progress(progress),
            Event::Stopped(summary) => self.verdict.clone_from(&summary.diagnosis.verdict),
            Event::FileFailed { host, path, message } => {
                let text = format!("{host}: {}: {message}", haul_proto::path::escape(path));
                self.failure = self.failure.take().or(Some(text));
                self.own.cancel();
            }
            _ => {}
        }
    }
}

impl SampleWitness {
    fn progress(&mut self, progress: &Progress) {
        let Some(elapsed) = self.begun.map(|begun| begun.elapsed()) else { return };
        self.last = progress.clone();
        let has_grown = self.seen.last().is_none_or(|(_, bytes)| *bytes < progress.bytes_written);
        if has_grown {
            self.seen.push((elapsed, progress.bytes_written));
        }
        if is_enough(elapsed, progress, self.bounds) {
            self.enough = true;
            self.own.cancel();
        }
    }

    fn sample(&self, summary: Option<&Summary>) -> ProbeSample {
        let elapsed = self.begun.map_or(Duration::ZERO, |begun| begun.elapsed());
        let bytes = summary.map_or(self.last.bytes_written, |summary| summary.files.bytes);
        let verdict = summary.and_then(|summary| summary.diagnosis.verdict.as_ref()).or(self.verdict.as_ref());
        let sockets = &self.last.sockets;
        ProbeSample {
            rate: rate(&self.seen, bytes, elapsed, summary.is_some()),
            bytes,
            start: self.begun.map_or(Duration::ZERO, |begun| begun - self.started),
            elapsed,
            streams: summary.map_or(self.last.streams, |summary| summary.connection.streams),
            round_trips: round_trips(sockets).filter(|_| !self.has_moved),
            buffer_bytes: sockets.buffer_bytes.checked_div(sockets.looks).unwrap_or(0),
            resent: sockets.retransmitted as f64 / sockets.segments.max(1) as f64,
            limit: verdict.map(|verdict| verdict.limit).filter(|limit| *limit != Bottleneck::None),
            is_complete: summary.is_some(),
            is_durable: summary.is_some_and(|summary| summary.integrity.durable),
            transport: self.transport.clone(),
        }
    }
}

/// Whether the samples suffice, or the byte limit is reached.
fn is_enough(elapsed: Duration, progress: &Progress, bounds: SampleBounds) -> bool {
    let done = progress.bytes_written;
    if elapsed < bounds.time && done < bounds.bytes {
        return false;
    }
    let left = progress.bytes_found.saturating_sub(done) as f64;
    let rate = done as f64 / elapsed.as_secs_f64().max(1e-3);
    let ends_soon =
        progress.walk_complete && progress.bytes_found <= bounds.bytes && left <= rate * bounds.time.as_secs_f64();
    !ends_soon || elapsed >= bounds.time * 3
}

/// Returns the rate of the second half, since connections and caches fill up in the first. A complete part also
/// includes the time to flush to the disk.
fn rate(seen: &[(Duration, u64)], bytes: u64, elapsed: Duration, is_complete: bool) -> f64 {
    let all = bytes as f64 / elapsed.as_secs_f64().max(1e-6);
    let (Some(first), Some(last)) = (seen.first(), seen.last()) else { return all };
    let middle = first.0 + (last.0 - first.0) / 2;
    let Some(half) = seen.iter().find(|(at, _)| *at >= middle).filter(|half| half.0 < last.0 && half.1 < last.1) else {
        return all;
    };
    let steady_s_per_byte = (last.0 - half.0).as_secs_f64() / (last.1 - half.1) as f64;
    let settling_s = if is_complete { elapsed.saturating_sub(last.0).as_secs_f64() } else { 0.0 };
    1.0 / (steady_s_per_byte + settling_s / bytes.max(1) as f64)
}

fn round_trips(sockets: &Sockets) -> Option<[Duration; 2]> {
    let mean = |sum: u64| sum.checked_div(sockets.looks).map(Duration::from_micros);
    Some([mean(sockets.rtt_min_us)?, mean(sockets.rtt_us)?]).filter(|[shortest, _]| !shortest.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(ms: u64, bytes: u64) -> (Duration, u64) {
        (Duration::from_millis(ms), bytes)
    }

    #[test]
    fn only_the_steady_state_counts() {
        let growing = [at(100, 0), at(1000, 100), at(2000, 1000), at(3000, 2000)];
        assert_eq!(rate(&growing, 2000, 3 * SECOND, false), 1000.0);
        // Includes a final second for the disk.
        assert!((rate(&growing, 2000, 4 * SECOND, true) - 1.0 / (0.001 + 1.0 / 2000.0)).abs() < 1e-6);
        assert_eq!(rate(&growing, 2000, 4 * SECOND, false), 1000.0);
        assert_eq!(rate(&[at(500, 70)], 100, SECOND, true), 100.0);
        assert_eq!(rate(&[], 100, SECOND, true), 100.0);
    }

    #[test]
    fn it_ends_after_its_time_unless_its_end_is_near_or_enough_is_written() {
        let bounds = SampleBounds { time: SECOND, bytes: 1000 };
        let progress = |bytes_written, bytes_found| Progress {
            bytes_written,
            bytes_found,
            walk_complete: true,
            ..Progress::default()
        };
        for (ms, done, found, enough) in [
            (900, 999, 10_000, false),
            (900, 1000, 10_000, true),
            (1000, 10, 900, true),
            (1000, 500, 900, false),
            (1500, 900, 900, false),
            (3000, 900, 900, true),
        ] {
            let elapsed = Duration::from_millis(ms);
            assert_eq!(is_enough(elapsed, &progress(done, found), bounds), enough, "{ms} ms, {done} of {found}");
        }
        let walking = Progress { walk_complete: false, ..progress(500, 600) };
        assert!(is_enough(SECOND, &walking, bounds));
    }

    #[test]
    fn a_network_within_one_host_blames_no_link() {
        use haul_base::copy::event::NetworkPath;
        let sample = |to: &str, limit| {
            let path = NetworkPath { from: "127.0.0.1:1".into(), to: to.into(), ..NetworkPath::default() };
            let transport = TransportPath::Tcp { path, others: Vec::new(), instead_of: None };
            ProbeSample { transport, limit, ..ProbeSample::default() }
        };
        assert_eq!(sample("127.0.0.1:2", None).limit_of_network(), Some(Bottleneck::None));
        assert_eq!(sample("10.0.0.1:2", None).limit_of_network(), None);
        let cpu = Some(Bottleneck::SourceCpu);
        assert_eq!(sample("127.0.0.1:2", cpu).limit_of_network(), cpu);
    }

    #[test]
    fn round_trip_times_are_means_over_all_samples() {
        let sockets = Sockets { looks: 4, rtt_us: 4000, rtt_min_us: 2000, ..Sockets::default() };
        assert_eq!(round_trips(&sockets), Some([500, 1000].map(Duration::from_micros)));
        assert_eq!(round_trips(&Sockets::default()), None);
    }
}
