//! The serialised last line of a copy.

use std::collections::BTreeMap;
use std::time::Duration;

use haul_base::copy::event::{ReadBackBytes, SandboxReport, SlowFile};
use haul_base::copy::spec::DeltaCounters;
use haul_base::copy::summary::{ComparisonResult, CompressionResult, Summary};
use haul_proto::wire::counters::PathFigures;
use serde::Serialize;

use super::transport::TransportFields;
use super::{JsonName, sorted};
use crate::load::LoadFields;
use crate::names;
use crate::parts::{self, PartFields};
use crate::units::bytes_per_s;
use crate::verdict::VerdictFields;

/// The result of a copy.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema), schemars(inline))]
pub struct CopySummaryFields<'a> {
    files_copied: u64,
    files_skipped: u64,
    failed: u64,
    #[serde(flatten)]
    walked: WalkedFields,
    bytes: u64,
    bytes_skipped: u64,
    seconds: f64,
    paused_s: f64,
    bytes_per_s: f64,
    restarts: u32,
    #[serde(serialize_with = "sorted")]
    transport: TransportFields<'a>,
    streams: u16,
    cipher: Option<&'static str>,
    path: Option<PathFiguresFields>,
    verdict: Option<VerdictFields<'a>>,
    parts: BTreeMap<&'static str, PartFields>,
    load: LoadFields,
    rate_limit_bytes_per_s: Option<u64>,
    frames_resent: u64,
    bytes_on_wire: u64,
    compression: Option<CompressionFields>,
    #[serde(flatten)]
    workers: WorkerFields,
    #[serde(serialize_with = "sorted")]
    slowest: Vec<SlowFileFields>,
    target_written_bytes: u64,
    cloned_bytes: u64,
    durable: bool,
    delta: Option<DeltaFields>,
    deleted: u64,
    backed_up: u64,
    linked: u64,
    adjusted: u64,
    deleted_at_source: u64,
    left_at_source: u64,
    dry_run: bool,
    files_planned: u64,
    bytes_planned: u64,
    read_back: Option<ReadBackFields>,
    #[serde(flatten)]
    sandboxes: SandboxesFields<'a>,
    status: u8,
}

/// Entries besides files, and entries excluded by the walk.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
struct WalkedFields {
    directories: u64,
    symlinks: u64,
    vanished: u64,
    left_out: u64,
    filtered: u64,
}

/// The sandboxes of both workers.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
struct SandboxesFields<'a> {
    source_sandbox: Option<SandboxFields<'a>>,
    target_sandbox: Option<SandboxFields<'a>>,
}

/// The result of a comparison.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema), schemars(inline))]
pub struct VerifySummaryFields<'a> {
    files_compared: u64,
    bytes_compared: u64,
    differences: u64,
    failed: u64,
    #[serde(flatten)]
    walked: WalkedFields,
    seconds: f64,
    bytes_per_s: f64,
    restarts: u32,
    #[serde(flatten)]
    workers: WorkerFields,
    #[serde(flatten)]
    sandboxes: SandboxesFields<'a>,
    status: u8,
}

/// Resources used by the workers of both ends.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
struct WorkerFields {
    source_cpu_s: f64,
    target_cpu_s: f64,
    source_system_s: f64,
    target_system_s: f64,
    source_peak_bytes: u64,
    target_peak_bytes: u64,
    source_direct_bytes: u64,
    target_direct_bytes: u64,
}

/// TCP's figures of all connections.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
struct PathFiguresFields {
    buffer_limited_us: u64,
    busy_us: u64,
    receiver_limited_us: u64,
    retransmitted: u64,
    round_trip_ms: f64,
    segments: u64,
}

/// A compression method and its gain.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
struct CompressionFields {
    codec: &'static str,
    level: Option<u8>,
    ratio: f64,
}

/// Savings by deltas.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
struct DeltaFields {
    bytes: u64,
    carried_bytes: u64,
    files: u64,
    old_bytes: u64,
    speedup: f64,
    told_bytes: u64,
}

/// Bytes that the target read back.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
struct ReadBackFields {
    cache_bytes: u64,
    disk_bytes: u64,
    memory_bytes: u64,
}

/// The sandbox of a worker.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
struct SandboxFields<'a> {
    confinement: &'static str,
    reason: Option<&'a str>,
}

/// One of the slowest files.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
struct SlowFileFields {
    #[serde(flatten)]
    name: JsonName,
    bytes: u64,
    seconds: f64,
}

impl<'a> CopySummaryFields<'a> {
    /// The line of a copy with this exit status.
    pub fn new(summary: &'a Summary, status: u8) -> Self {
        let Summary { files, times, connection, diagnosis, counters, sync, integrity, .. } = summary;
        let verdict = diagnosis.verdict.as_ref();
        Self {
            files_copied: files.copied,
            files_skipped: files.skipped,
            failed: files.failed,
            walked: summary.into(),
            bytes: files.bytes,
            bytes_skipped: files.bytes_skipped,
            seconds: times.elapsed.as_secs_f64(),
            paused_s: times.paused.as_secs_f64(),
            bytes_per_s: bytes_per_s(files.bytes, times.elapsed),
            restarts: times.restarts,
            transport: (&connection.transport).into(),
            streams: connection.streams,
            cipher: connection.cipher.map(names::cipher),
            path: PathFiguresFields::of(&connection.path),
            verdict: verdict.map(|verdict| VerdictFields::new(verdict, &diagnosis.advice)),
            parts: parts::fields(summary),
            load: LoadFields::new(&summary.ends),
            rate_limit_bytes_per_s: connection.rate_limit_bytes_per_s,
            frames_resent: counters.frames_resent,
            bytes_on_wire: counters.bytes_on_wire,
            compression: summary.compression.map(CompressionFields::from),
            workers: summary.into(),
            slowest: diagnosis.slowest.iter().map(SlowFileFields::from).collect(),
            target_written_bytes: counters.bytes_stored,
            cloned_bytes: files.cloned_bytes,
            durable: integrity.durable,
            delta: summary.delta.as_ref().map(DeltaFields::from),
            deleted: sync.removed,
            backed_up: sync.backed_up,
            linked: sync.linked,
            adjusted: sync.adjusted,
            deleted_at_source: sync.removed_at_source,
            left_at_source: sync.left_at_source,
            dry_run: summary.is_dry,
            files_planned: summary.planned.files,
            bytes_planned: summary.planned.bytes,
            read_back: integrity.read_back.as_ref().map(ReadBackFields::from),
            sandboxes: summary.into(),
            status,
        }
    }
}

impl<'a> VerifySummaryFields<'a> {
    /// The line of a comparison with this exit status.
    pub fn new(summary: &'a Summary, comparison: &ComparisonResult, status: u8) -> Self {
        let ComparisonResult { files, bytes, differences } = *comparison;
        Self {
            files_compared: files,
            bytes_compared: bytes,
            differences,
            failed: summary.files.failed,
            walked: summary.into(),
            seconds: summary.times.elapsed.as_secs_f64(),
            bytes_per_s: bytes_per_s(bytes, summary.times.elapsed),
            restarts: summary.times.restarts,
            workers: summary.into(),
            sandboxes: summary.into(),
            status,
        }
    }
}

impl From<&Summary> for WalkedFields {
    fn from(Summary { files, counters, .. }: &Summary) -> Self {
        Self {
            directories: counters.directories,
            symlinks: counters.symlinks,
            vanished: files.vanished,
            left_out: files.left_out,
            filtered: counters.filtered,
        }
    }
}

impl<'a> From<&'a Summary> for SandboxesFields<'a> {
    fn from(summary: &'a Summary) -> Self {
        let [source, target] = &summary.ends;
        Self {
            source_sandbox: source.sandbox.as_ref().map(SandboxFields::from),
            target_sandbox: target.sandbox.as_ref().map(SandboxFields::from),
        }
    }
}

impl From<&Summary> for WorkerFields {
    fn from(summary: &Summary) -> Self {
        Self {
            source_cpu_s: summary.ends[0].cpu.as_secs_f64(),
            target_cpu_s: summary.ends[1].cpu.as_secs_f64(),
            source_system_s: summary.ends[0].system.as_secs_f64(),
            target_system_s: summary.ends[1].system.as_secs_f64(),
            source_peak_bytes: summary.ends[0].peak_bytes,
            target_peak_bytes: summary.ends[1].peak_bytes,
            source_direct_bytes: summary.ends[0].direct_bytes,
            target_direct_bytes: summary.ends[1].direct_bytes,
        }
    }
}

impl PathFiguresFields {
    /// The figures of a path; `None` without TCP.
    fn of(path: &PathFigures) -> Option<Self> {
        (*path != PathFigures::default()).then(|| Self {
            buffer_limited_us: path.buffer_limited_us,
            busy_us: path.busy_us,
            receiver_limited_us: path.receiver_limited_us,
            retransmitted: path.retransmitted,
            round_trip_ms: f64::from(u32::try_from(path.round_trip_us).unwrap_or(u32::MAX)) / 1000.0,
            segments: path.segments,
        })
    }
}

impl From<CompressionResult> for CompressionFields {
    fn from(CompressionResult { method, ratio }: CompressionResult) -> Self {
        Self { codec: method.codec().name(), level: method.level(), ratio }
    }
}

impl From<&DeltaCounters> for DeltaFields {
    fn from(delta: &DeltaCounters) -> Self {
        let DeltaCounters { files, bytes, old_bytes, told_bytes, carried_bytes, wrong: _ } = *delta;
        Self { bytes, carried_bytes, files, old_bytes, speedup: delta.speedup(), told_bytes }
    }
}

impl From<&ReadBackBytes> for ReadBackFields {
    fn from(&ReadBackBytes { disk_bytes, cache_bytes, memory_bytes }: &ReadBackBytes) -> Self {
        Self { cache_bytes, disk_bytes, memory_bytes }
    }
}

impl<'a> From<&'a SandboxReport> for SandboxFields<'a> {
    fn from(SandboxReport { confinement, reason }: &'a SandboxReport) -> Self {
        let reason = Some(reason.as_str()).filter(|reason| !reason.is_empty());
        Self { confinement: confinement.word(), reason }
    }
}

impl From<&SlowFile> for SlowFileFields {
    fn from(SlowFile { path, size, took_us }: &SlowFile) -> Self {
        let seconds = Duration::from_micros(*took_us).as_secs_f64();
        Self { name: path.as_slice().into(), bytes: *size, seconds }
    }
}
