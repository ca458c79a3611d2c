//! The parts of a transfer's path: source disk, source CPU, network, target CPU and target disk. Each has the share of
//! the time that it held up this copy, the rate through it, and the rate that it would bound if it did so all the time.
//! The shares are those of the verdict, so other programs' work does not count for a part. Their CPU time has rows of its
//! own.

use super::network::LINE_RATE;
use super::shares::TimeShares;
use super::{Bottleneck, BottleneckDetail, BottleneckShare, CopyMeasurements, part};
use crate::wire::resource_metrics::{Disk, ResourceMetrics};

/// A part of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathPart {
    /// Waits for the source's files.
    SourceDisk,
    /// haul's own use of the CPUs at the source.
    SourceCpu,
    /// Waits for the path of the streams.
    Network,
    /// haul's own use of the CPUs at the target.
    TargetCpu,
    /// Waits for the target's files.
    TargetDisk,
    /// Other programs' use of the CPUs at the source.
    SourceOthers,
    /// Other programs' use of the CPUs at the target.
    TargetOthers,
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
            Self::SourceOthers => "source_other_programs",
            Self::TargetOthers => "target_other_programs",
        }
    }

    /// Returns the part that a bottleneck belongs to; `None` for limits beside the path.
    fn with(BottleneckShare { limit, detail, .. }: &BottleneckShare) -> Option<Self> {
        match limit {
            Bottleneck::SourceDisk => Some(Self::SourceDisk),
            Bottleneck::SmallFiles if *detail == Some(BottleneckDetail::Source) => Some(Self::SourceDisk),
            Bottleneck::SourceCpu => Some(Self::SourceCpu),
            Bottleneck::RateLimit if *detail == Some(BottleneckDetail::Own) => None,
            Bottleneck::SenderBuffer
            | Bottleneck::Congestion
            | Bottleneck::ReceiverWindow
            | Bottleneck::Link
            | Bottleneck::RateLimit
            | Bottleneck::Interrupts => Some(Self::Network),
            Bottleneck::TargetCpu => Some(Self::TargetCpu),
            Bottleneck::TargetDisk | Bottleneck::SmallFiles => Some(Self::TargetDisk),
            Bottleneck::SourceProgram | Bottleneck::TargetProgram | Bottleneck::None => None,
        }
    }
}

/// How a part was used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PartUse {
    /// The part.
    pub part: PathPart,
    /// Share of the time that it held up the copy, or that other programs took of all CPUs: 0 to 1.
    pub busy: f64,
    /// The copy's bytes per second through it; `None` for other programs.
    pub bytes_per_s: Option<f64>,
}

impl PartUse {
    /// The rate in bytes per second at which it would be busy all the time; `None` for a part that did nothing.
    pub fn bound_bytes_per_s(&self) -> Option<f64> {
        self.bytes_per_s.filter(|rate| self.busy >= BUSY_MIN && *rate > 0.0).map(|rate| rate / self.busy)
    }
}

/// With less, a bound would be a guess.
const BUSY_MIN: f64 = 0.005;

/// Returns the use of each part with figures. A file system that has no block device, and that nothing waited for, has
/// none, and neither has a network that was not used.
pub fn path_parts(case: &CopyMeasurements) -> Vec<PartUse> {
    let candidates = TimeShares::of(case).candidates();
    let held_up = |part| -> f64 {
        candidates.iter().filter(|of| PathPart::with(of) == Some(part)).map(|of| of.share).sum::<f64>().min(1.0)
    };
    let by_copy = |part, busy| PartUse { part, busy, bytes_per_s: Some(case.rate()) };
    let disk = |part, disk: &Disk| {
        let busy = held_up(part);
        (*disk != Disk::default() || busy >= BUSY_MIN).then(|| by_copy(part, busy))
    };
    let cpu = |part, load: &ResourceMetrics| {
        (load.processors.all_us > 0).then(|| by_copy(part, held_up(part).max(own_share(case, load))))
    };
    let others = |part, load: &ResourceMetrics| {
        (load.processors.all_us > 0).then(|| PartUse { part, busy: others_share(case, load), bytes_per_s: None })
    };
    let (source, target) = (&case.source, &case.target);
    [
        disk(PathPart::SourceDisk, &source.disks[0]),
        cpu(PathPart::SourceCpu, source),
        network(case, held_up(PathPart::Network)),
        cpu(PathPart::TargetCpu, target),
        disk(PathPart::TargetDisk, &target.disks[1]),
        others(PathPart::SourceOthers, source),
        others(PathPart::TargetOthers, target),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// haul's share of the CPU time that it could have had: its own, and what was free. That is at least half of all, since
/// the scheduler shares CPUs. Where haul gets less, waits for a CPU count as the streams' computation.
fn own_share(case: &CopyMeasurements, load: &ResourceMetrics) -> f64 {
    let (own_us, all_us) = (case.own_us(load), load.processors.all_us);
    let free_us = all_us.saturating_sub(load.processors.busy_us);
    part(own_us as f64, own_us.saturating_add(free_us).max(all_us / 2) as f64)
}

/// The share of all CPU time that other programs took. Interrupts may be the work of haul's own packets.
fn others_share(case: &CopyMeasurements, load: &ResourceMetrics) -> f64 {
    let own_us = case.own_us(load).saturating_add(load.processors.interrupts_us);
    part(load.processors.busy_us.saturating_sub(own_us) as f64, load.processors.all_us as f64)
}

/// The use of the network: waits for it, by windows, loss and latency, or the used share of the interface's speed. A
/// rate above that speed means that the speed is wrong.
fn network(case: &CopyMeasurements, held_up: f64) -> Option<PartUse> {
    let (source, sockets) = (&case.source, &case.source.sockets);
    if sockets.segments == 0 {
        return None;
    }
    let bytes_per_s = sockets.acknowledged_bytes as f64 * 1e6 / source.elapsed_us.max(1) as f64;
    let line = 8.0 * bytes_per_s / (f64::from(source.present.mbit_per_s) * 1e6);
    let is_known = line <= *LINE_RATE.end() && !case.is_within_host;
    let busy = if is_known { held_up.max(line.min(1.0)) } else { held_up };
    Some(PartUse { part: PathPart::Network, busy, bytes_per_s: Some(bytes_per_s) })
}

#[cfg(test)]
#[path = "path_parts_tests.rs"]
mod tests;
