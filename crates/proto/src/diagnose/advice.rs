//! Advice about a bottleneck, derived only from this run's measurements. Where no remedy is known, there is no advice.

use super::{Bottleneck, BottleneckDetail, CopyMeasurements, Verdict};
use crate::advice::{WindowAdvice, windows};
use crate::compression::{CompressionMethod, CompressionPolicy};
use crate::wire::counters::PathFigures;
use crate::wire::report::WindowLimits;

/// Fewest bytes that show what compression does.
const JUDGED_BYTES_MIN: u64 = 1 << 20;
/// Compression ratio below which compression was in vain.
const RATIO_MIN: f64 = 1.05;
/// Share of a policer's rate to stay below, so that nothing is dropped.
const POLICED_PART: f64 = 0.95;
/// Share of time spent syncing files above which it is worth advice.
const SYNC_MIN: f64 = 0.3;
/// Shortest copy, in seconds, of which that is said: a short one gains too little for the files that it may lose.
const SYNC_ADVICE_MIN_S: f64 = 10.0;

/// An end of the copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdviceEnd {
    /// The reading end.
    Source,
    /// The writing end.
    Target,
}

/// Settings and conditions of the copy that advice depends on.
#[derive(Debug, Clone, Copy)]
pub struct AdviceTerms {
    /// Number of streams, where the user chose it.
    pub streams: Option<u16>,
    /// Compression policy.
    pub compression: CompressionPolicy,
    /// Whether the data is zeros, sent to measure the path.
    pub sends_zeros: bool,
    /// Compression ratio: plain bytes per byte on the wire; 1 without compression.
    pub ratio: f64,
    /// Whether the user chose a cipher that is slower here than haul's default.
    pub slow_cipher: bool,
    /// Whether the user chose the window size.
    pub own_windows: bool,
    /// Largest window sizes of the kernels: the source's and the target's.
    pub windows: [WindowLimits; 2],
    /// Network statistics of the path.
    pub path: PathFigures,
    /// Whether the user chose the congestion control.
    pub own_congestion: bool,
    /// Whether the copy waits until files are on disk.
    pub waits_for_disk: bool,
    /// Whether the target hashes what it writes without necessity.
    pub hashes_twice: bool,
    /// Speed in Mbit/s of an interface that both ends have, and that is faster than the one in use; 0 for none.
    pub faster_mbit_per_s: u32,
}

/// A recommendation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Advice {
    /// Raise a kernel limit of windows.
    Window(WindowAdvice),
    /// Leave windows to the kernel, which would make them larger than the user did.
    OwnWindows,
    /// Use more streams.
    Streams {
        /// Number of streams.
        streams: u16,
    },
    /// Turn off compression, which takes time and saves nothing.
    Incompressible,
    /// Use a lighter compression method.
    LighterCompression,
    /// Turn on compression, since the path is the limit.
    Compress,
    /// Use a faster cipher.
    Cipher,
    /// Use a congestion control that does not treat every loss as congestion.
    Congestion,
    /// Set a rate limit below that of the policer.
    KeepBelow {
        /// Bytes per second.
        bytes_per_s: u64,
    },
    /// Do not wait for the disk, which gives up durability.
    NoSync,
    /// Turn off hashing at the target.
    HashOnce,
    /// Use a faster interface.
    Interface {
        /// Speed in Mbit/s.
        mbit_per_s: u32,
    },
    /// Raise the CPU quota of a control group.
    Quota {
        /// End with the quota.
        end: AdviceEnd,
    },
    /// Stop other programs, which use most of the CPUs.
    Others {
        /// End with these programs.
        end: AdviceEnd,
    },
    /// Spread the interrupts of the interface over several CPUs.
    SpreadInterrupts,
}

/// Returns the advice about this bottleneck.
pub fn advise(verdict: &Verdict, case: &CopyMeasurements, terms: &AdviceTerms) -> Vec<Advice> {
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
        (Bottleneck::RateLimit, Some(BottleneckDetail::Own)) => Vec::new(),
        (Bottleneck::RateLimit, _) => vec![Advice::KeepBelow { bytes_per_s: whole(case.rate() * POLICED_PART) }],
        (Bottleneck::Link, _) => {
            let faster = Advice::Interface { mbit_per_s: terms.faster_mbit_per_s };
            let faster = (terms.faster_mbit_per_s > 0).then_some(faster);
            let is_off = terms.compression == CompressionPolicy::Off && !terms.sends_zeros;
            let compress = is_off.then_some(Advice::Compress);
            faster.into_iter().chain(compress).collect()
        }
        (Bottleneck::TargetDisk | Bottleneck::SmallFiles, detail) => {
            let sync = case.target.spent(crate::wire::resource_metrics::Stage::Sync).wall_us as f64
                / 1e6
                / case.seconds().max(1e-6);
            let is_long = case.seconds() >= SYNC_ADVICE_MIN_S;
            let waits = is_long && terms.waits_for_disk && sync >= SYNC_MIN && detail != Some(BottleneckDetail::Source);
            waits.then_some(Advice::NoSync).into_iter().collect()
        }
        (Bottleneck::Interrupts, _) => vec![Advice::SpreadInterrupts],
        (Bottleneck::SourceDisk | Bottleneck::SourceProgram | Bottleneck::TargetProgram | Bottleneck::None, _) => {
            Vec::new()
        }
    };
    // If the second bottleneck is a window, it is worth advice as well.
    let is_window = |limit| matches!(limit, Bottleneck::ReceiverWindow | Bottleneck::SenderBuffer);
    let is_next = !is_window(verdict.limit) && verdict.next.is_some_and(|next| is_window(next.limit));
    if is_next && !terms.own_windows {
        let [source, target] = terms.windows;
        all.extend(windows(&terms.path, whole(case.rate()), source, target).map(Advice::Window));
    }
    if is_compressed_in_vain(case, terms) && !all.contains(&Advice::Incompressible) {
        all.push(Advice::Incompressible);
    }
    all
}

fn is_compressed_in_vain(case: &CopyMeasurements, terms: &AdviceTerms) -> bool {
    let is_forced = matches!(terms.compression, CompressionPolicy::Always(_));
    is_forced && case.bytes >= JUDGED_BYTES_MIN && terms.ratio < RATIO_MIN
}

/// Advises on a window that limits even where the kernel does not report it as limited.
fn window(verdict: &Verdict, case: &CopyMeasurements, terms: &AdviceTerms) -> Option<Advice> {
    let limited_us = whole(verdict.share * terms.path.busy_us as f64);
    let (receiver_limited_us, buffer_limited_us) = match verdict.limit {
        Bottleneck::ReceiverWindow => (limited_us.max(terms.path.receiver_limited_us), 0),
        _ => (0, limited_us.max(terms.path.buffer_limited_us)),
    };
    let path = PathFigures { receiver_limited_us, buffer_limited_us, ..terms.path };
    let [source, target] = terms.windows;
    windows(&path, whole(case.rate()), source, target).map(Advice::Window)
}

fn cpu(verdict: &Verdict, case: &CopyMeasurements, terms: &AdviceTerms, end: AdviceEnd) -> Vec<Advice> {
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
        _ if case.bytes < JUDGED_BYTES_MIN => {}
        CompressionPolicy::Always(_) if is_compressed_in_vain(case, terms) => all.push(Advice::Incompressible),
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

/// Advises twice as many streams, at most `most`, where the user chose the number.
fn more_streams(case: &CopyMeasurements, terms: &AdviceTerms, most: u16) -> Vec<Advice> {
    let most = most.min(crate::limits::STREAMS_MAX);
    let Some(now) = terms.streams.filter(|now| *now < most && case.source.present.streams > 0) else {
        return Vec::new();
    };
    vec![Advice::Streams { streams: now.saturating_mul(2).min(most) }]
}

/// Truncates to an integer. NaN becomes 0, and too large a value becomes the maximum.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "such a cast stays within the type")]
pub(super) fn whole(value: f64) -> u64 {
    value as u64
}
