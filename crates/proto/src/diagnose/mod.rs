//! Diagnosis of a transfer's bottleneck from the counters of both ends.
//!
//! A transfer is a pipeline of stages with small buffers: read, prepare, send, the network, receive, check, write. The
//! slowest stage is busy while the stages before it are blocked and those after it are idle.
//!
//! So each stage has a *share* of the streams' time: work on it, or waits for it, with nothing else to block them
//! (`shares`). Socket statistics break the network's share down (`network`).
//!
//! The largest share is the bottleneck, if it is at least [`SHARE_MIN`]. `docs/DIAGNOSIS.md` explains the same for
//! users.

pub mod advice;
mod facts;
mod network;
pub mod path_parts;
pub mod pauses;
mod shares;
pub mod watch;

use self::facts::facts;
pub use self::facts::{Fact, FactUnit, Figure};
use self::shares::TimeShares;
use crate::wire::resource_metrics::ResourceMetrics;

/// Shortest time of a diagnosis in microseconds: start and end dominate a shorter one.
pub const ELAPSED_MIN_US: u64 = 1_000_000;
/// Least share of a bottleneck: with less, other parts or none in particular had more of the time.
pub const SHARE_MIN: f64 = 0.5;
/// The same for programs. A pipe holds little, so its reader sometimes waits even for an equally fast writer.
pub const PROGRAM_SHARE_MIN: f64 = 0.75;
/// Least share of a second bottleneck worth a report.
const NEXT_MIN: f64 = 0.02;

/// A possible bottleneck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bottleneck {
    /// Reads at the source.
    SourceDisk,
    /// Computation at the source.
    SourceCpu,
    /// Too small a send buffer at the source.
    SenderBuffer,
    /// The congestion window.
    Congestion,
    /// Too small a receive window at the target.
    ReceiverWindow,
    /// A saturated link of the path.
    Link,
    /// A rate limit.
    RateLimit,
    /// Writes at the target.
    TargetDisk,
    /// Computation at the target.
    TargetCpu,
    /// Packet handling on one CPU.
    Interrupts,
    /// Metadata operations of small files: lookup, creation and rename.
    SmallFiles,
    /// The program that writes the source's pipe.
    SourceProgram,
    /// The program that reads the target's pipe.
    TargetProgram,
    /// No clear bottleneck, or too little data.
    None,
}

impl Bottleneck {
    /// All bottlenecks.
    pub const ALL: [Self; 14] = [
        Self::SourceDisk,
        Self::SourceCpu,
        Self::SenderBuffer,
        Self::Congestion,
        Self::ReceiverWindow,
        Self::Link,
        Self::RateLimit,
        Self::TargetDisk,
        Self::TargetCpu,
        Self::Interrupts,
        Self::SmallFiles,
        Self::SourceProgram,
        Self::TargetProgram,
        Self::None,
    ];

    fn share_min(self) -> f64 {
        match self {
            Self::SourceProgram | Self::TargetProgram => PROGRAM_SHARE_MIN,
            _ => SHARE_MIN,
        }
    }

    /// Returns the name for programs.
    pub fn id(self) -> &'static str {
        match self {
            Self::SourceDisk => "source-disk",
            Self::SourceCpu => "source-cpu",
            Self::SenderBuffer => "sender-buffer",
            Self::Congestion => "congestion",
            Self::ReceiverWindow => "receiver-window",
            Self::Link => "link",
            Self::RateLimit => "rate-limit",
            Self::TargetDisk => "target-disk",
            Self::TargetCpu => "target-cpu",
            Self::Interrupts => "interrupts",
            Self::SmallFiles => "small-files",
            Self::SourceProgram => "source-program",
            Self::TargetProgram => "target-program",
            Self::None => "none",
        }
    }
}

/// Detail of a bottleneck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BottleneckDetail {
    /// Stream threads are busy while CPUs are idle, with one thread per stream.
    Thread,
    /// All CPUs are busy.
    Machine,
    /// The CPU quota of a control group is exhausted.
    Quota,
    /// Loss is treated as congestion.
    Loss,
    /// The window has not grown to the bandwidth-delay product.
    RoundTrip,
    /// The interface is at its reported speed.
    Interface,
    /// A queue on the path is full.
    Queue,
    /// The user's own limit.
    Own,
    /// A policer on the path drops excess traffic.
    Policer,
    /// At the source.
    Source,
    /// At the target.
    Target,
    /// The copy was too short.
    Short,
    /// No part had most of the time.
    Even,
}

impl BottleneckDetail {
    /// Returns the name for programs.
    pub fn id(self) -> &'static str {
        match self {
            Self::Thread => "thread",
            Self::Machine => "machine",
            Self::Quota => "quota",
            Self::Loss => "loss",
            Self::RoundTrip => "rtt",
            Self::Interface => "interface",
            Self::Queue => "queue",
            Self::Own => "own",
            Self::Policer => "policer",
            Self::Source => "source",
            Self::Target => "target",
            Self::Short => "short",
            Self::Even => "even",
        }
    }
}

/// Measurements of a copy over some time.
#[derive(Debug, Clone, Copy, Default)]
pub struct CopyMeasurements {
    /// At the source.
    pub source: ResourceMetrics,
    /// At the target; equal to the source's where one worker is both ends.
    pub target: ResourceMetrics,
    /// Whether one worker is both ends.
    pub is_one_worker: bool,
    /// Whether both ends are on one machine and share its CPUs.
    pub is_one_machine: bool,
    /// Whether the streams stay within it: both of their ends have one address.
    pub is_within_host: bool,
    /// Bytes written.
    pub bytes: u64,
    /// Completed files.
    pub files: u64,
    /// The user's rate limit in bytes per second.
    pub rate_limit_bytes_per_s: Option<u64>,
}

impl CopyMeasurements {
    /// Returns the longer of both ends' times, in seconds.
    pub fn seconds(&self) -> f64 {
        self.source.elapsed_us.max(self.target.elapsed_us) as f64 / 1e6
    }

    /// Returns the rate in bytes per second.
    pub fn rate(&self) -> f64 {
        self.bytes as f64 / self.seconds().max(1e-6)
    }

    /// Returns the CPU time of haul's workers on the machine of this end, in microseconds.
    fn own_us(&self, end: &ResourceMetrics) -> u64 {
        let [source, target] = [&self.source, &self.target].map(|end| end.processors.own_us);
        match self.is_one_machine && !self.is_one_worker {
            true => source.saturating_add(target),
            false => end.processors.own_us,
        }
    }
}

/// A candidate bottleneck and its share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BottleneckShare {
    /// The bottleneck.
    pub limit: Bottleneck,
    /// Its detail.
    pub detail: Option<BottleneckDetail>,
    /// Its share of the streams' time, 0 to 1.
    pub share: f64,
}

/// Result of a diagnosis.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The bottleneck.
    pub limit: Bottleneck,
    /// Its detail.
    pub detail: Option<BottleneckDetail>,
    /// Its share, 0 to 1; without a bottleneck, the largest share.
    pub share: f64,
    /// Whether both ends are on one machine and share its CPUs.
    pub is_one_machine: bool,
    /// Evidence, the strongest first.
    pub facts: Vec<Fact>,
    /// The second bottleneck.
    pub next: Option<BottleneckShare>,
}

/// Diagnoses the bottleneck.
pub fn diagnose(case: &CopyMeasurements) -> Verdict {
    let is_short = case.source.elapsed_us.max(case.target.elapsed_us) < ELAPSED_MIN_US;
    let mut candidates = TimeShares::of(case).candidates();
    candidates.sort_by(|a, b| b.share.total_cmp(&a.share));
    let mut candidates = candidates.into_iter();
    let nothing = BottleneckShare { limit: Bottleneck::None, detail: None, share: 0.0 };
    let first = candidates.next().unwrap_or(nothing);
    let is_clear = first.share >= first.limit.share_min() && !is_short;
    let next = match is_clear {
        true => candidates.find(|other| other.limit != first.limit),
        false => Some(first),
    };
    let (limit, detail) = match (is_short, is_clear) {
        (true, _) => (Bottleneck::None, Some(BottleneckDetail::Short)),
        (false, true) => (first.limit, first.detail),
        (false, false) => (Bottleneck::None, Some(BottleneckDetail::Even)),
    };
    Verdict {
        limit,
        detail,
        share: first.share,
        is_one_machine: case.is_one_machine,
        facts: facts(case, first),
        next: next.filter(|next| next.share >= NEXT_MIN && !is_short),
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

/// Returns a share; 0 if `all` is 0.
fn part(part: f64, all: f64) -> f64 {
    if all > 0.0 { (part / all).clamp(0.0, 1.0) } else { 0.0 }
}
