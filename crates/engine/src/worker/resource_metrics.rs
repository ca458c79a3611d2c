//! Resource metrics of this worker for its controller: samples its threads, host and sockets several times a second. No
//! decision depends on them.

use std::time::{Duration, Instant};

use haul_base::copy::account::WorkDone;
use haul_proto::diagnose::{Bottleneck, CopyMeasurements, diagnose};
use haul_proto::wire::resource_metrics::{CurrentMetrics, ResourceMetrics, Sockets, StreamFigures, Traffic};

use crate::metrics::stage_timer::StageTimers;
use crate::net::stream_pool::StreamPool;
use crate::sys::gauges::{DiskGauge, ProcessorsGauge, TrafficGauge};
use crate::sys::usage::micros;

/// Sampling interval.
pub const CHECK_EVERY: Duration = Duration::from_millis(250);
/// Samples per report. The samples between reports only supply rates of change.
pub const SAMPLES_PER_REPORT: u32 = 2;
/// Shortest interval of a rate: the last sample may follow right after the one before.
const SPAN_MIN: Duration = Duration::from_millis(200);

/// Gauges of the system, opened before the worker enters its sandbox.
pub struct SystemGauges {
    processors: ProcessorsGauge,
    disks: [DiskGauge; 2],
    traffic: TrafficGauge,
}

impl SystemGauges {
    /// Opens the gauges. `devices` are the device numbers of the source and target file systems of this worker; 0 for
    /// none.
    pub fn open(devices: [u64; 2]) -> Self {
        Self { processors: ProcessorsGauge::open(), disks: devices.map(DiskGauge::open), traffic: TrafficGauge::open() }
    }
}

/// Sampler of a copy's metrics, from its start.
pub struct ResourceMeter {
    gauges: SystemGauges,
    begun: Instant,
    /// Total rate of all streams between samples.
    rates: Sockets,
    last: Option<(Instant, u64)>,
    /// The last known figures of streams: the final sample follows their end.
    streams: u16,
    bears_loss: bool,
    traffic: Traffic,
    mbit_per_s: u32,
}

impl ResourceMeter {
    /// Starts the measurement with the copy.
    pub fn new(gauges: SystemGauges) -> Self {
        let mut meter = Self {
            gauges,
            begun: Instant::now(),
            rates: Sockets::default(),
            last: None,
            streams: 0,
            bears_loss: false,
            traffic: Traffic::default(),
            mbit_per_s: 0,
        };
        meter.gauges.processors.sample();
        for disk in &mut meter.gauges.disks {
            disk.sample();
        }
        meter
    }

    /// Samples the current metrics.
    pub fn sample(&mut self, stages: &StageTimers, pool: &StreamPool) -> ResourceMetrics {
        let mut sockets = pool.sockets();
        self.count_rate(sockets.acknowledged_bytes);
        sockets.add(&self.rates);
        if let Some(address) = pool.own_address() {
            (self.traffic, self.mbit_per_s) = self.gauges.traffic.sample(address);
        }
        if let Some(bears_loss) = pool.bear_loss() {
            self.bears_loss = bears_loss;
        }
        if let streams @ 1.. = stages.streams() {
            self.streams = streams;
        }
        let present = CurrentMetrics {
            streams: self.streams,
            cores: crate::sys::machine::cores(),
            quota_permille: self.gauges.processors.quota_permille(),
            mbit_per_s: self.mbit_per_s,
            bears_loss: self.bears_loss,
        };
        ResourceMetrics {
            elapsed_us: micros(self.begun.elapsed()),
            stages: stages.spent(),
            processors: self.gauges.processors.sample(),
            disks: self.gauges.disks.each_mut().map(DiskGauge::sample),
            traffic: self.traffic,
            sockets,
            present,
        }
    }

    /// Adds the rate since the last sample. An interval without traffic had no data to send and says nothing about the
    /// path.
    fn count_rate(&mut self, acknowledged: u64) {
        let now = Instant::now();
        let Some((since, before)) = self.last else {
            self.last = (acknowledged > 0).then_some((now, acknowledged));
            return;
        };
        let elapsed = now.duration_since(since);
        if elapsed < SPAN_MIN {
            return;
        }
        self.last = Some((now, acknowledged));
        let bytes = acknowledged.saturating_sub(before);
        if bytes > 0 {
            let elapsed_us = micros(elapsed);
            let kib_per_s = bytes.saturating_mul(1_000_000) / elapsed_us / 1024;
            self.rates.spans += 1;
            self.rates.rate_kib += kib_per_s;
            self.rates.rate_kib_squared =
                self.rates.rate_kib_squared.saturating_add(kib_per_s.saturating_mul(kib_per_s));
        }
    }
}

/// Returns the combined figures of each stream's thread and socket.
pub fn stream_figures(stages: &StageTimers, pool: &StreamPool) -> Vec<StreamFigures> {
    let mut all = stages.figures();
    for socket in pool.stream_figures() {
        if let Some(figures) = all.iter_mut().find(|figures| figures.stream == socket.stream) {
            figures.add(&StreamFigures { stream: 0, ..socket });
        }
    }
    all
}

/// Returns what limits the copy, as far as one end shows it alone: its disk, CPUs, small files, rate limit or program.
/// [`Bottleneck::None`] if the other end or the network may limit it.
pub fn own_bottleneck(is_source: bool, load: ResourceMetrics, work: &WorkDone) -> Bottleneck {
    let case = CopyMeasurements { bytes: work.bytes, files: work.files, ..CopyMeasurements::default() };
    let case = match is_source {
        true => CopyMeasurements { source: load, ..case },
        false => CopyMeasurements { target: load, ..case },
    };
    diagnose(&case).limit
}

#[cfg(test)]
mod tests {
    use haul_base::copy::account::WorkKind;
    use haul_proto::wire::resource_metrics::Stage;

    use super::*;

    /// Returns metrics of a copy of 10 s with one stream that waited in these stages.
    fn waiting(stages: &[(Stage, u64)]) -> ResourceMetrics {
        let mut load = ResourceMetrics { elapsed_us: 10_000_000, ..ResourceMetrics::default() };
        for (stage, seconds) in stages {
            load.stages[*stage as usize].wall_us = seconds * 1_000_000;
            load.stages[*stage as usize].sampled_us = seconds * 1_000_000;
        }
        load
    }

    #[test]
    fn an_end_names_only_its_own_part() {
        let work = WorkDone { what: WorkKind::Received, files: 1, bytes: 1 << 30, failed: 0, path: String::new() };
        for (is_source, stages, expected) in [
            (false, [(Stage::Write, 8), (Stage::Receive, 2)], Bottleneck::TargetDisk),
            (false, [(Stage::Write, 2), (Stage::Receive, 8)], Bottleneck::None),
            (true, [(Stage::Read, 8), (Stage::Send, 2)], Bottleneck::SourceDisk),
            (true, [(Stage::Pace, 8), (Stage::Send, 2)], Bottleneck::RateLimit),
            (true, [(Stage::Read, 2), (Stage::Send, 8)], Bottleneck::None),
        ] {
            assert_eq!(own_bottleneck(is_source, waiting(&stages), &work), expected, "{stages:?}");
        }
    }
}
