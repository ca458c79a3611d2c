//! The five parts of a transfer's path: source disk, source CPU, network, target CPU and target disk. Each has the share
//! of the time that it was busy, the rate through it, and the rate that it would bound if it were always busy.

use super::{JobMeasurements, part};
use crate::wire::resource_metrics::{Disk, ResourceMetrics};

/// A part of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathPart {
    /// The block device of the source's files.
    SourceDisk,
    /// All CPUs that the source may use.
    SourceCpu,
    /// The interface of the streams, or their windows where its speed is unknown.
    Network,
    /// All CPUs that the target may use.
    TargetCpu,
    /// The block device of the target's files.
    TargetDisk,
}

impl PathPart {
    /// Returns the name for programs.
    pub fn id(self) -> &'static str {
        match self {
            Self::SourceDisk => "source_disk",
            Self::SourceCpu => "source_cpu",
            Self::Network => "network",
            Self::TargetCpu => "target_cpu",
            Self::TargetDisk => "target_disk",
        }
    }
}

/// How a part was used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PartUse {
    /// The part.
    pub part: PathPart,
    /// Share of the time that it was busy, 0 to 1.
    pub busy: f64,
    /// Bytes per second through it.
    pub bytes_per_s: f64,
}

impl PartUse {
    /// The rate in bytes per second at which it would be busy all the time; `None` for a part that did nothing.
    pub fn bound_bytes_per_s(&self) -> Option<f64> {
        (self.busy >= BUSY_MIN && self.bytes_per_s > 0.0).then(|| self.bytes_per_s / self.busy)
    }
}

/// With less, a bound would be a guess.
const BUSY_MIN: f64 = 0.005;

/// Returns the use of each part with figures. A file system without a block device has none, and neither has a network
/// that was not used. The CPUs' rate is that of the job.
pub fn path_parts(case: &JobMeasurements) -> Vec<PartUse> {
    let rate = case.rate();
    let cpu = |part_of, load: &ResourceMetrics| {
        let busy = part(load.processors.busy_us as f64, load.processors.all_us as f64);
        (load.processors.all_us > 0).then_some(PartUse { part: part_of, busy, bytes_per_s: rate })
    };
    let disk = |part_of, load: &ResourceMetrics, disk: &Disk, bytes: u64| {
        let busy = part(disk.busy_us as f64, load.elapsed_us as f64);
        (*disk != Disk::default()).then(|| PartUse { part: part_of, busy, bytes_per_s: per_s(bytes, load.elapsed_us) })
    };
    let (source, target) = (&case.source, &case.target);
    [
        disk(PathPart::SourceDisk, source, &source.disks[0], source.disks[0].read_bytes),
        cpu(PathPart::SourceCpu, source),
        network(source),
        cpu(PathPart::TargetCpu, target),
        disk(PathPart::TargetDisk, target, &target.disks[1], target.disks[1].written_bytes),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The use of the interface's speed. Where that is unknown, the time in which the network, and neither end, held back
/// the streams (tcp(7), `TCP_INFO`).
fn network(source: &ResourceMetrics) -> Option<PartUse> {
    let sockets = &source.sockets;
    if sockets.segments == 0 {
        return None;
    }
    let bytes_per_s = per_s(sockets.acknowledged_bytes, source.elapsed_us);
    let busy = match source.present.mbit_per_s {
        0 => {
            let held_up = sockets.busy_us.saturating_sub(sockets.receiver_limited_us + sockets.buffer_limited_us);
            part(held_up as f64, source.elapsed_us as f64 * f64::from(source.present.streams.max(1)))
        }
        mbit_per_s => part(8.0 * bytes_per_s, f64::from(mbit_per_s) * 1e6),
    };
    Some(PartUse { part: PathPart::Network, busy, bytes_per_s })
}

fn per_s(bytes: u64, elapsed_us: u64) -> f64 {
    bytes as f64 * 1e6 / elapsed_us.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::resource_metrics::{CurrentMetrics, Processors, Sockets};

    fn measured() -> JobMeasurements {
        let elapsed_us = 10_000_000;
        let processors = |busy_us| Processors { all_us: 8 * elapsed_us, busy_us, ..Processors::default() };
        let disk = Disk { busy_us: 9_000_000, read_bytes: 900_000_000, written_bytes: 600_000_000, ..Disk::default() };
        let source = ResourceMetrics {
            elapsed_us,
            processors: processors(elapsed_us),
            disks: [disk, Disk::default()],
            sockets: Sockets { segments: 9, acknowledged_bytes: 1_000_000_000, ..Sockets::default() },
            present: CurrentMetrics { mbit_per_s: 1000, streams: 4, ..CurrentMetrics::default() },
            ..ResourceMetrics::default()
        };
        let target = ResourceMetrics {
            elapsed_us,
            processors: processors(4 * elapsed_us),
            disks: [Disk::default(), disk],
            ..ResourceMetrics::default()
        };
        JobMeasurements { source, target, bytes: 1_000_000_000, ..JobMeasurements::default() }
    }

    #[test]
    fn each_part_has_its_own_time_and_rate() {
        let parts: Vec<_> = path_parts(&measured())
            .into_iter()
            .map(|of| (of.part.id(), of.busy, of.bytes_per_s, of.bound_bytes_per_s().unwrap().round()))
            .collect();
        assert_eq!(
            parts,
            [
                ("source_disk", 0.9, 90e6, 100e6),
                ("source_cpu", 0.125, 100e6, 800e6),
                ("network", 0.8, 100e6, 125e6),
                ("target_cpu", 0.5, 100e6, 200e6),
                ("target_disk", 0.9, 60e6, 66_666_667.0),
            ]
        );
    }

    #[test]
    fn without_a_known_speed_the_windows_say_how_busy_the_network_was() {
        let mut case = measured();
        case.source.present.mbit_per_s = 0;
        case.source.sockets.busy_us = 30_000_000;
        case.source.sockets.receiver_limited_us = 10_000_000;
        let network = path_parts(&case)[2];
        assert_eq!((network.part, network.busy), (PathPart::Network, 0.5));
    }

    #[test]
    fn parts_without_figures_are_omitted() {
        assert_eq!(path_parts(&JobMeasurements::default()), []);
        let idle = PartUse { part: PathPart::Network, busy: 0.001, bytes_per_s: 5.0 };
        assert_eq!(idle.bound_bytes_per_s(), None);
    }
}
