//! What can be done about a verdict: derived from what this run met with, and from nothing else. Where nothing is known
//! that would help, nothing is said.

use super::{Bottleneck, BottleneckDetail, JobMeasurements, Verdict};
use crate::advice::{WindowAdvice, windows};
use crate::compression::{CompressionMethod, CompressionPolicy};
use crate::wire::counters::PathFigures;
use crate::wire::report::WindowLimits;

/// Below this many bytes for one on the wire, compression was in vain.
const RATIO_MIN: f64 = 1.05;
/// Of a policed rate, so much is asked for: what goes just below it is not dropped.
const POLICED_PART: f64 = 0.95;
/// From this share on, putting files on the disk is worth a word.
const SYNC_MIN: f64 = 0.3;

/// An end of the copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdviceEnd {
    /// Where it is read.
    Source,
    /// Where it is written.
    Target,
}

/// What the job was told, as far as it could be told something else.
#[derive(Debug, Clone, Copy)]
pub struct AdviceTerms {
    /// The number of streams, where the user chose it.
    pub streams: Option<u16>,
    /// How contents are compressed.
    pub compression: CompressionPolicy,
    /// Bytes of contents for one on the wire; 1 where nothing was compressed.
    pub ratio: f64,
    /// Whether the user chose a cipher that is slower here than the one that haul would choose.
    pub slow_cipher: bool,
    /// Whether the user chose the size of windows.
    pub own_windows: bool,
    /// How far the kernels let windows grow: the source's and the target's.
    pub windows: [WindowLimits; 2],
    /// What the path was like.
    pub path: PathFigures,
    /// Whether the user chose the congestion control.
    pub own_congestion: bool,
    /// Whether it is waited for until files are on the disk.
    pub waits_for_disk: bool,
    /// Whether the target hashes what it writes, which it would not have to.
    pub hashes_twice: bool,
    /// Speed in Mbit/s of an interface that both ends have, and that is faster than the one in use; 0 for none.
    pub faster_mbit_per_s: u32,
}

/// What can be done.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Advice {
    /// A kernel's limit on windows can be raised.
    Window(WindowAdvice),
    /// The kernel's own windows would be larger than those that were asked for.
    OwnWindows,
    /// More streams.
    Streams {
        /// So many.
        streams: u16,
    },
    /// Compression takes time and saves nothing.
    Incompressible,
    /// A method that takes less time.
    LighterCompression,
    /// Compression was turned off, and the path is the limit.
    Compress,
    /// A cipher that takes less time.
    Cipher,
    /// A congestion control that does not take every loss for congestion.
    Congestion,
    /// The limit can be raised.
    RaiseRate,
    /// What is sent below this rate is not dropped.
    KeepBelow {
        /// Bytes a second.
        bytes_per_s: u64,
    },
    /// Nobody waits for the disk, and nothing is promised.
    NoSync,
    /// The target need not hash.
    HashOnce,
    /// Another interface is faster.
    Interface {
        /// Its speed.
        mbit_per_s: u32,
    },
    /// The quota of a control group.
    Quota {
        /// Whose.
        end: AdviceEnd,
    },
    /// Other programs have most of the processors.
    Others {
        /// Where.
        end: AdviceEnd,
    },
    /// Interrupts of one interface go to one processor.
    SpreadInterrupts,
}

/// What can be done about this verdict.
pub fn advise(verdict: &Verdict, case: &JobMeasurements, terms: &AdviceTerms) -> Vec<Advice> {
    let mut all = match (verdict.limit, verdict.detail) {
        (Bottleneck::SourceCpu, _) => cpu(verdict, case, terms, AdviceEnd::Source),
        (Bottleneck::TargetCpu, _) => cpu(verdict, case, terms, AdviceEnd::Target),
        (Bottleneck::SenderBuffer | Bottleneck::ReceiverWindow, _) if terms.own_windows => vec![Advice::OwnWindows],
        (Bottleneck::SenderBuffer | Bottleneck::ReceiverWindow, _) => {
            window(verdict, case, terms).into_iter().collect()
        }
        (Bottleneck::Congestion, Some(BottleneckDetail::Loss)) if case.source.present.bears_loss => {
            more_streams(case, terms, u16::MAX)
        }
        (Bottleneck::Congestion, Some(BottleneckDetail::Loss)) if !terms.own_congestion => {
            let more = more_streams(case, terms, u16::MAX);
            [Advice::Congestion].into_iter().chain(more).collect()
        }
        (Bottleneck::Congestion, _) => more_streams(case, terms, u16::MAX),
        (Bottleneck::RateLimit, Some(BottleneckDetail::Own)) => vec![Advice::RaiseRate],
        (Bottleneck::RateLimit, _) => vec![Advice::KeepBelow { bytes_per_s: whole(case.rate() * POLICED_PART) }],
        (Bottleneck::Link, _) => {
            let faster = Advice::Interface { mbit_per_s: terms.faster_mbit_per_s };
            let faster = (terms.faster_mbit_per_s > 0).then_some(faster);
            let compress = (terms.compression == CompressionPolicy::Off).then_some(Advice::Compress);
            faster.into_iter().chain(compress).collect()
        }
        (Bottleneck::TargetDisk | Bottleneck::SmallFiles, detail) => {
            let sync = case.target.spent(crate::wire::resource_metrics::Stage::Sync).wall_us as f64
                / 1e6
                / case.seconds().max(1e-6);
            let waits = terms.waits_for_disk && sync >= SYNC_MIN && detail != Some(BottleneckDetail::Source);
            waits.then_some(Advice::NoSync).into_iter().collect()
        }
        (Bottleneck::Interrupts, _) => vec![Advice::SpreadInterrupts],
        (Bottleneck::SourceDisk | Bottleneck::SourceProgram | Bottleneck::TargetProgram | Bottleneck::None, _) => {
            Vec::new()
        }
    };
    // The next limit may be as good as the first, where both are windows.
    let is_window = |limit| matches!(limit, Bottleneck::ReceiverWindow | Bottleneck::SenderBuffer);
    let is_next = !is_window(verdict.limit) && verdict.next.is_some_and(|next| is_window(next.limit));
    if is_next && !terms.own_windows {
        let [source, target] = terms.windows;
        all.extend(windows(&terms.path, whole(case.rate()), source, target).map(Advice::Window));
    }
    let is_forced = matches!(terms.compression, CompressionPolicy::Always(_));
    if is_forced && terms.ratio < RATIO_MIN && !all.contains(&Advice::Incompressible) {
        all.push(Advice::Incompressible);
    }
    all
}

/// A window that limits without the kernel's saying so is treated as if it had said so.
fn window(verdict: &Verdict, case: &JobMeasurements, terms: &AdviceTerms) -> Option<Advice> {
    let limited_us = whole(verdict.share * terms.path.busy_us as f64);
    let (receiver_limited_us, buffer_limited_us) = match verdict.limit {
        Bottleneck::ReceiverWindow => (limited_us.max(terms.path.receiver_limited_us), 0),
        _ => (0, limited_us.max(terms.path.buffer_limited_us)),
    };
    let path = PathFigures { receiver_limited_us, buffer_limited_us, ..terms.path };
    let [source, target] = terms.windows;
    windows(&path, whole(case.rate()), source, target).map(Advice::Window)
}

fn cpu(verdict: &Verdict, case: &JobMeasurements, terms: &AdviceTerms, end: AdviceEnd) -> Vec<Advice> {
    let load = if end == AdviceEnd::Source { &case.source } else { &case.target };
    let mut all = Vec::new();
    match verdict.detail {
        Some(BottleneckDetail::Quota) => all.push(Advice::Quota { end }),
        Some(BottleneckDetail::Machine)
            if !case.is_one_machine && load.processors.own_us < load.processors.busy_us / 2 =>
        {
            all.push(Advice::Others { end });
        }
        Some(BottleneckDetail::Thread) => all.extend(more_streams(case, terms, load.present.cores)),
        _ => {}
    }
    if terms.slow_cipher {
        all.push(Advice::Cipher);
    }
    match terms.compression {
        CompressionPolicy::Always(_) if terms.ratio < RATIO_MIN => all.push(Advice::Incompressible),
        CompressionPolicy::Always(CompressionMethod::Zstd(_)) if end == AdviceEnd::Source => {
            all.push(Advice::LighterCompression)
        }
        _ => {}
    }
    if end == AdviceEnd::Target && terms.hashes_twice {
        all.push(Advice::HashOnce);
    }
    all
}

/// Twice as many, where the user chose the number, and no more than `most`.
fn more_streams(case: &JobMeasurements, terms: &AdviceTerms, most: u16) -> Vec<Advice> {
    let most = most.min(crate::limits::STREAMS_MAX);
    let Some(now) = terms.streams.filter(|now| *now < most && case.source.present.streams > 0) else {
        return Vec::new();
    };
    vec![Advice::Streams { streams: now.saturating_mul(2).min(most) }]
}

/// Without a fraction. What is no number is nothing, and what is too large the largest.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "such a cast stays within the type")]
pub(super) fn whole(value: f64) -> u64 {
    value as u64
}
