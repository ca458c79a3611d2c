//! Which part of a transfer is the slow one: a verdict from what both ends counted, and nothing else.
//!
//! A transfer is stages in a row with little room between them: read, prepare, send, the network, receive, check, write. The
//! slowest is the one that is at work while those before it are held up and those behind it have nothing to do. So each
//! part has a *share*: of the time that streams had, the part in which they were at it or waited for it while nothing
//! else held them up (`shares`). What the network's share is made of, its sockets say (`network`). The largest share is the
//! verdict, if it is at least [`SHARE_MIN`]; that is all there is to it. `docs/DIAGNOSIS.md` says the same for users.

pub mod advice;
mod facts;
mod network;
pub mod pauses;
mod shares;
pub mod watch;

use self::facts::facts;
use self::shares::TimeShares;
use crate::wire::resource_metrics::ResourceMetrics;

pub use self::facts::{Fact, FactUnit, Figure};

/// Below this much time, in microseconds, nothing is said: starting and ending are most of it.
pub const ELAPSED_MIN_US: u64 = 1_000_000;
/// With less, a part is not called the limit: others, or nothing in particular, had more of the time.
pub const SHARE_MIN: f64 = 0.5;
/// The same for programs: a pipe holds little, and who reads it waits now and then for one that is as fast.
pub const PROGRAM_SHARE_MIN: f64 = 0.75;
/// With less, the runner-up is not worth a word.
const NEXT_MIN: f64 = 0.02;

/// What can limit a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bottleneck {
    /// Reading.
    SourceDisk,
    /// Computing at the source.
    SourceCpu,
    /// The sockets at the source hold too little.
    SenderBuffer,
    /// The congestion window: what the network is trusted with.
    Congestion,
    /// The sockets at the target have too little room.
    ReceiverWindow,
    /// A link of the path is full.
    Link,
    /// Something lets no more through than it was told to.
    RateLimit,
    /// Writing.
    TargetDisk,
    /// Computing at the target.
    TargetCpu,
    /// One processor has its hands full of packets.
    Interrupts,
    /// Looking up, making and naming files, and not their contents.
    SmallFiles,
    /// Whatever writes the pipe that is read.
    SourceProgram,
    /// Whatever reads the pipe that is written.
    TargetProgram,
    /// Nothing stands out, or there was too little to be seen.
    None,
}

impl Bottleneck {
    /// All of them.
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

    /// What programs know it by.
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

/// What kind of a limit it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BottleneckDetail {
    /// Each stream has one thread, and these are busy while processors are idle.
    Thread,
    /// All processors are busy.
    Machine,
    /// The quota of a control group is used up.
    Quota,
    /// What is lost is taken for congestion.
    Loss,
    /// The window has not grown to what the distance takes.
    RoundTrip,
    /// The interface is at the speed that its system says.
    Interface,
    /// A queue somewhere on the path is full.
    Queue,
    /// The limit that was asked for.
    Own,
    /// Something on the path drops what is too fast.
    Policer,
    /// At the source.
    Source,
    /// At the target.
    Target,
    /// The job was too short to tell.
    Short,
    /// No part had most of the time.
    Even,
}

impl BottleneckDetail {
    /// What programs know it by.
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

/// What happened over some time.
#[derive(Debug, Clone, Copy, Default)]
pub struct JobMeasurements {
    /// At the source.
    pub source: ResourceMetrics,
    /// At the target; where one worker is both ends, the same.
    pub target: ResourceMetrics,
    /// Whether one worker is both ends.
    pub is_one_worker: bool,
    /// Whether both ends are on one machine, and share its processors.
    pub is_one_machine: bool,
    /// Whether the streams do not leave it: both of their ends have one address.
    pub is_within_host: bool,
    /// Bytes that were written.
    pub bytes: u64,
    /// Files that were settled.
    pub files: u64,
    /// The limit that the user set, in bytes a second.
    pub rate_limit_bytes_per_s: Option<u64>,
}

impl JobMeasurements {
    /// Seconds, as the end saw them that saw more.
    pub fn seconds(&self) -> f64 {
        self.source.elapsed_us.max(self.target.elapsed_us) as f64 / 1e6
    }

    /// Bytes a second.
    pub fn rate(&self) -> f64 {
        self.bytes as f64 / self.seconds().max(1e-6)
    }
}

/// A part and its share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BottleneckShare {
    /// Which part.
    pub limit: Bottleneck,
    /// Of what kind.
    pub detail: Option<BottleneckDetail>,
    /// Of the time that streams had, 0 to 1.
    pub share: f64,
}

/// What limited it.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// Which part.
    pub limit: Bottleneck,
    /// Of what kind.
    pub detail: Option<BottleneckDetail>,
    /// Its share, 0 to 1; where the limit is none, that of the part that had most.
    pub share: f64,
    /// Both ends are on one machine, whose processors they share.
    pub is_one_machine: bool,
    /// What it rests on, the most telling first.
    pub facts: Vec<Fact>,
    /// What would limit next.
    pub next: Option<BottleneckShare>,
}

/// Says what limited it.
pub fn diagnose(case: &JobMeasurements) -> Verdict {
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

/// 0 of nothing.
fn part(part: f64, all: f64) -> f64 {
    if all > 0.0 { (part / all).clamp(0.0, 1.0) } else { 0.0 }
}
