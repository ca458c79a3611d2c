//! The summary of a completed copy, or of what a stopped one had done.

use std::time::Duration;

use haul_proto::diagnose::Verdict;
use haul_proto::diagnose::path_parts::PartUse;
use haul_proto::sync::SyncCounters;
use haul_proto::wire::counters::{Counters, PathFigures, ReadBackBytes};
use haul_proto::wire::report::SlowFile;
use haul_proto::wire::resource_metrics::{ResourceMetrics, StreamFigures};
use haul_proto::wire::sandbox::SandboxReport;

use super::spec::{Cipher, CompressionMethod, DeltaCounters};
use super::transport_path::TransportPath;

/// The result of a copy. After a restart, all but totals and times are those of the last attempt.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// Totals of files and bytes.
    pub files: TransferTotals,
    /// Counters of both ends: of the last attempt, except retransmitted frames and bytes on the wire.
    pub counters: Counters,
    /// Entries left out by reason, the first few reasons.
    pub left_out: Vec<(String, u64)>,
    /// Durations and restarts.
    pub times: CopyTimes,
    /// The connection that carried the data.
    pub connection: ConnectionSummary,
    /// Checks of the data.
    pub integrity: IntegritySummary,
    /// The bottleneck and its remedies.
    pub diagnosis: Diagnosis,
    /// Results of base files; `None` without any.
    pub delta: Option<DeltaCounters>,
    /// Changes that a sync made besides copies.
    pub sync: SyncCounters,
    /// Results of compression; `None` if nothing was compressed.
    pub compression: Option<CompressionResult>,
    /// Dry run: changes were reported, not made.
    pub is_dry: bool,
    /// What a dry run would copy; zero otherwise.
    pub planned: PlannedTotals,
    /// Whether its duration ended it (`--duration`), with data left to send.
    pub is_timed: bool,
    /// Whether the target kept something of a copy that ended early, so that a rerun resumes.
    pub is_resumable: bool,
    /// Resources of source and target; within one process, twice the same metrics.
    pub ends: [EndSummary; 2],
}

impl Summary {
    /// Whether it compared, and found differences.
    pub fn differs(&self) -> bool {
        self.integrity.comparison.is_some_and(|comparison| comparison.differences > 0)
    }

    /// Resources of the source.
    pub fn source(&self) -> &EndSummary {
        &self.ends[0]
    }

    /// Resources of the target.
    pub fn target(&self) -> &EndSummary {
        &self.ends[1]
    }
}

/// Totals of files and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TransferTotals {
    /// Files copied in this run.
    pub copied: u64,
    /// Files present before.
    pub skipped: u64,
    /// Files, directories and links that failed; each was reported.
    pub failed: u64,
    /// Entries that were listed, and were gone before they were read.
    pub vanished: u64,
    /// Entries left out on purpose.
    pub left_out: u64,
    /// Bytes written in this run.
    pub bytes: u64,
    /// Bytes of files present before.
    pub bytes_skipped: u64,
    /// The part of [`Self::bytes`] not copied: the files share their blocks with the source's (reflink).
    pub cloned_bytes: u64,
}

/// Files that a dry run would copy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlannedTotals {
    /// Their number.
    pub files: u64,
    /// Their lengths in bytes.
    pub bytes: u64,
}

/// Durations and restarts of a copy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CopyTimes {
    /// From the start of the command to the last acknowledgement.
    pub elapsed: Duration,
    /// Time in pauses.
    pub paused: Duration,
    /// Number of restarts after a lost connection.
    pub restarts: u32,
}

/// The connection that carried the data.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ConnectionSummary {
    /// Transport of the data.
    pub transport: TransportPath,
    /// Streams used.
    pub streams: u16,
    /// Cipher of the streams, never [`Cipher::Auto`]; `None` without a socket.
    pub cipher: Option<Cipher>,
    /// The path as the source's kernel saw it; all zero without TCP.
    pub path: PathFigures,
    /// Rate limit at the end in bytes per second.
    pub rate_limit_bytes_per_s: Option<u64>,
}

/// Checks of the data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IntegritySummary {
    /// Whether every file has its BLAKE3 from the source, beside the XXH3 of each frame.
    pub blake3: bool,
    /// Whether all files copied in this run are on the target's disk with their names, and survive a loss of power.
    pub durable: bool,
    /// Bytes read back by origin, if the disk was verified.
    pub read_back: Option<ReadBackBytes>,
    /// Result of a copy that only compares. Then nothing was copied.
    pub comparison: Option<ComparisonResult>,
}

/// The bottleneck and its remedies.
#[derive(Debug, Clone, Default)]
pub struct Diagnosis {
    /// The bottleneck; `None` in a copy that only compares.
    pub verdict: Option<Verdict>,
    /// How the parts of the path were used.
    pub parts: Vec<PartUse>,
    /// Remedies for the next transfer.
    pub advice: Vec<Recommendation>,
    /// The slowest files, slowest first.
    pub slowest: Vec<SlowFile>,
}

/// Resources of one end's worker.
#[derive(Debug, Clone, Default)]
pub struct EndSummary {
    /// Time by stage, and resource use.
    pub load: ResourceMetrics,
    /// Statistics of each stream; within one process, the source's alone.
    pub streams: Vec<StreamFigures>,
    /// User plus system time.
    pub cpu: Duration,
    /// System time, a part of [`Self::cpu`].
    pub system: Duration,
    /// Peak resident memory in bytes.
    pub peak_bytes: u64,
    /// Bytes read or written past the page cache (O_DIRECT).
    pub direct_bytes: u64,
    /// Restriction of file access by the kernel; `None` if it was not reported.
    pub sandbox: Option<SandboxReport>,
}

/// Result of a copy that only compares.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ComparisonResult {
    /// Files of the source compared with the target's.
    pub files: u64,
    /// Bytes that both ends read.
    pub bytes: u64,
    /// Entries that differ between the ends; each was reported.
    pub differences: u64,
}

/// Results of compression.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CompressionResult {
    /// Method of most compressed payloads.
    pub method: CompressionMethod,
    /// Bytes of all sent contents, compressed or not, per byte on the wire.
    pub ratio: f64,
}

impl CompressionResult {
    /// From the source's counters.
    pub fn new(method: CompressionMethod, counters: &Counters) -> Self {
        Self { method, ratio: counters.bytes_carried as f64 / counters.bytes_on_wire.max(1) as f64 }
    }
}

/// A remedy for a bottleneck.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recommendation {
    /// The recommendation and its reason: one line, with the host as the user named it.
    pub text: String,
    /// The command or option for it, if there is one.
    pub command: Option<String>,
}
