//! Evidence for a bottleneck as numbers: each has a name for programs, and a text and unit for users.

use super::network::{PathConditions, line_share};
use super::{Bottleneck, BottleneckDetail, BottleneckShare, CopyMeasurements};
use crate::diagnose::part;
use crate::wire::resource_metrics::{ResourceMetrics, Stage};

/// A number with its value in its unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fact {
    /// The number.
    pub figure: Figure,
    /// The value.
    pub value: f64,
}

/// Unit of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FactUnit {
    /// A share from 0 to 1.
    Share,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerS,
    /// Microseconds.
    Us,
    /// A count, or a count per second.
    Number,
}

/// Defines one table: name for programs, unit, and text with `{}` for the value.
macro_rules! figures {
    ($($figure:ident $name:literal $unit:ident $words:literal,)*) => {
        /// Numbers that can be evidence.
        #[allow(missing_docs, reason = "the words say what each is")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Figure { $($figure,)* }

        impl Figure {
            /// All numbers.
            pub const ALL: &[Self] = &[$(Self::$figure,)*];

            /// Returns the name for programs.
            pub fn name(self) -> &'static str {
                match self { $(Self::$figure => $name,)* }
            }

            /// Returns the unit.
            pub fn unit(self) -> FactUnit {
                match self { $(Self::$figure => FactUnit::$unit,)* }
            }

            /// Returns the text; `{}` stands for the value.
            pub fn words(self) -> &'static str {
                match self { $(Self::$figure => $words,)* }
            }
        }
    };
}

figures! {
    ReadWait "read_wait" Share "reading waited {} of the time",
    WriteWait "write_wait" Share "writing waited {} of the time",
    SyncWait "sync_wait" Share "putting it on the disk took {} of the time",
    SourceComputing "source_computing" Share "the source's streams computed {} of the time",
    TargetComputing "target_computing" Share "the target's streams computed {} of the time",
    SourceMachine "source_machine_busy" Share "the source's processors were busy {} of the time",
    TargetMachine "target_machine_busy" Share "the target's processors were busy {} of the time",
    SourceQuota "source_quota_spent" Share "its quota of CPU time was used up in {} of all periods",
    TargetQuota "target_quota_spent" Share "its quota of CPU time was used up in {} of all periods",
    QuotaCores "quota_cores" Number "the quota is {} processors",
    Streams "streams" Number "streams: {}",
    Cores "cores" Number "processors: {}",
    SendWait "send_wait" Share "sending waited {} of the time",
    ReceiverLimited "receiver_limited" Share "the receiver's window was full {} of that",
    BufferLimited "buffer_limited" Share "the send buffer was too small {} of that",
    RoundTrip "round_trip_us" Us "RTT {}",
    RoundTripMin "round_trip_min_us" Us "at least {}",
    Retransmitted "retransmitted" Share "{} of all segments sent again",
    RateVariation "rate_variation" Share "the rate varied by {}",
    Window "window_bytes" Bytes "at most {} in flight",
    LineShare "line_share" Share "the interface at {} of its speed",
    RateLimit "rate_limit_bytes_per_s" BytesPerS "the limit is {}",
    PaceWait "pace_wait" Share "the limit held streams back {} of the time",
    InterruptsTop "interrupts_top" Share "one processor had interrupts {} of its time",
    SourceFiles "source_files" Share "finding and opening files took {} of the time",
    TargetFiles "target_files" Share "making and naming files took {} of the time",
    FilesPerS "files_per_s" Number "{} files a second",
    PipeWait "pipe_wait" Share "the pipe was waited for {} of the time",
    DiskBusy "disk_busy" Share "the disk was busy {} of the time",
    DiskQueue "disk_queue" Number "{} requests in its queue",
    Rate "bytes_per_s" BytesPerS "{}",
}

/// Returns the evidence for this candidate.
pub fn facts(case: &CopyMeasurements, candidate: BottleneckShare) -> Vec<Fact> {
    let share = |figure| Fact { figure, value: candidate.share };
    let rate = Fact { figure: Figure::Rate, value: case.rate() };
    let mut facts = match candidate.limit {
        Bottleneck::SourceDisk => vec![share(Figure::ReadWait), rate],
        Bottleneck::TargetDisk => {
            let is_sync = case.target.spent(Stage::Write).wall_us < case.target.spent(Stage::Sync).wall_us / 2;
            vec![share(if is_sync { Figure::SyncWait } else { Figure::WriteWait }), rate]
        }
        Bottleneck::SourceCpu => {
            cpu(&case.source, candidate, [Figure::SourceComputing, Figure::SourceMachine, Figure::SourceQuota])
        }
        Bottleneck::TargetCpu => {
            cpu(&case.target, candidate, [Figure::TargetComputing, Figure::TargetMachine, Figure::TargetQuota])
        }
        Bottleneck::RateLimit if candidate.detail == Some(BottleneckDetail::Own) => {
            let limit = case.rate_limit_bytes_per_s.map(|rate| Fact { figure: Figure::RateLimit, value: rate as f64 });
            [share(Figure::PaceWait)].into_iter().chain(limit).collect()
        }
        Bottleneck::SourceProgram | Bottleneck::TargetProgram => vec![share(Figure::PipeWait), rate],
        Bottleneck::SmallFiles => {
            let of = if candidate.detail == Some(BottleneckDetail::Source) {
                Figure::SourceFiles
            } else {
                Figure::TargetFiles
            };
            let per_s = case.files as f64 / case.seconds().max(1e-6);
            vec![share(of), Fact { figure: Figure::FilesPerS, value: per_s }, rate]
        }
        Bottleneck::ReceiverWindow
        | Bottleneck::SenderBuffer
        | Bottleneck::Congestion
        | Bottleneck::Link
        | Bottleneck::RateLimit
        | Bottleneck::Interrupts => path(case, candidate),
        Bottleneck::None => vec![rate],
    };
    let disk = match candidate.limit {
        Bottleneck::SourceDisk => Some((&case.source, 0)),
        Bottleneck::TargetDisk => Some((&case.target, 1)),
        _ => None,
    };
    facts.extend(disk.into_iter().flat_map(|(load, index)| disk_facts(load, index)));
    facts
}

fn cpu(load: &ResourceMetrics, candidate: BottleneckShare, [computing, machine, quota]: [Figure; 3]) -> Vec<Fact> {
    let it = &load.processors;
    let busy = part(it.busy_us as f64, it.all_us as f64);
    let first = match candidate.detail {
        Some(BottleneckDetail::Quota) => [
            Fact { figure: quota, value: candidate.share },
            Fact { figure: Figure::QuotaCores, value: f64::from(load.present.quota_permille) / 1000.0 },
        ],
        Some(BottleneckDetail::Machine) => [
            Fact { figure: machine, value: busy },
            Fact { figure: Figure::Cores, value: f64::from(load.present.cores) },
        ],
        _ => [
            Fact { figure: computing, value: candidate.share },
            Fact { figure: Figure::Streams, value: f64::from(load.present.streams) },
        ],
    };
    let mut facts = first.to_vec();
    if candidate.detail != Some(BottleneckDetail::Machine) {
        facts.push(Fact { figure: machine, value: busy });
    }
    facts
}

fn path(case: &CopyMeasurements, candidate: BottleneckShare) -> Vec<Fact> {
    let (sockets, seen) = (&case.source.sockets, PathConditions::new(case));
    let of_busy = |time_us: u64| part(time_us as f64, sockets.busy_us as f64);
    let fact = |figure, value| Fact { figure, value };
    let wait = fact(Figure::SendWait, candidate.share);
    let round_trip = fact(Figure::RoundTrip, seen.round_trip_us);
    let loss = fact(Figure::Retransmitted, seen.loss);
    let rate = fact(Figure::Rate, case.rate());
    let line = [&case.source, &case.target].into_iter().filter_map(line_share).reduce(f64::max);
    let line = line.map(|share| fact(Figure::LineShare, share));
    let window = fact(Figure::Window, sockets.window_bytes as f64 / sockets.looks.max(1) as f64);
    match (candidate.limit, candidate.detail) {
        (Bottleneck::ReceiverWindow, _) => {
            vec![wait, fact(Figure::ReceiverLimited, of_busy(sockets.receiver_limited_us)), round_trip, rate]
        }
        (Bottleneck::SenderBuffer, _) => {
            vec![wait, fact(Figure::BufferLimited, of_busy(sockets.buffer_limited_us)), round_trip, rate]
        }
        (Bottleneck::Link, Some(BottleneckDetail::Interface)) => line.into_iter().chain([rate, wait]).collect(),
        (Bottleneck::Link, _) => vec![wait, rate, round_trip, fact(Figure::RoundTripMin, seen.shortest_us), loss],
        (Bottleneck::Congestion, Some(BottleneckDetail::Loss)) => vec![loss, rate, round_trip, wait, window],
        (Bottleneck::RateLimit, _) => {
            let variation = seen.variation.map(|variation| fact(Figure::RateVariation, variation));
            [loss, rate].into_iter().chain(variation).chain([round_trip]).collect()
        }
        (Bottleneck::Interrupts, _) => {
            let top = [&case.source, &case.target]
                .map(|load| part(load.processors.top_interrupts_us as f64, load.processors.top_all_us as f64));
            vec![fact(Figure::InterruptsTop, top[0].max(top[1])), rate]
        }
        _ => vec![wait, round_trip, window, rate],
    }
}

/// Returns the evidence about a disk, where the system reports one.
fn disk_facts(load: &ResourceMetrics, index: usize) -> Vec<Fact> {
    let disk = &load.disks[index];
    let of_time = |time_us: u64| time_us as f64 / load.elapsed_us.max(1) as f64;
    if disk.busy_us == 0 {
        return Vec::new();
    }
    vec![
        Fact { figure: Figure::DiskBusy, value: of_time(disk.busy_us).min(1.0) },
        Fact { figure: Figure::DiskQueue, value: of_time(disk.queue_us) },
    ]
}
