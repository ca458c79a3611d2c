//! Events of a running copy. The library never prints; callers observe these.

use std::time::Duration;

pub use haul_proto::diagnose::watch::CurrentBottleneck;
pub use haul_proto::diagnose::{Bottleneck, BottleneckDetail, BottleneckShare, Fact, FactUnit, Figure, Verdict};
pub use haul_proto::entry::{DeviceNumber, EntryKind, SpecialFile};
pub use haul_proto::sync::{ChangeKind, ChangeReasons, ItemChange, SyncCounters};
pub use haul_proto::wire::counters::ReadBackBytes;
pub use haul_proto::wire::difference::{AttributeEnd, Difference};
pub use haul_proto::wire::report::{FileReport, ItemReport, ResumeReport, SkipReport, SlowFile, SourceChange};
pub use haul_proto::wire::resource_metrics::{ResourceMetrics, Sockets, Stage, StreamFigures};
pub use haul_proto::wire::sandbox::{Confinement, SandboxReport};
pub use haul_proto::wire::source_activity::{SourceActivity, StreamPath};

use crate::copy::spec::{ChecksumAlgorithm, Cipher};
use crate::copy::summary::Summary;
pub use crate::copy::transport_path::{NetworkPath, TransportPath};

impl Event {
    /// Approximate bytes of its paths and texts.
    pub fn text_bytes(&self) -> usize {
        match self {
            Self::FileDone(FileReport { path, .. })
            | Self::Resumed(ResumeReport { path, .. })
            | Self::SourceChanged { path, .. } => path.len(),
            Self::Item(ItemReport { path, first_name, .. }) => path.len() + first_name.as_ref().map_or(0, Vec::len),
            Self::Checksum { path, digest, .. } => path.len() + digest.len(),
            Self::FileFailed { path, host, message } => path.len() + host.len() + message.len(),
            Self::Skipped(SkipReport { path, reason }) => path.len() + reason.len(),
            Self::Differs { path, host, differences } => path.len() + host.len() + DIFFERENCE_BYTES * differences.len(),
            Self::Warning(text) => text.len(),
            Self::Connecting { .. }
            | Self::Deployed { .. }
            | Self::Connected { .. }
            | Self::PathChanged { .. }
            | Self::Restarted { .. }
            | Self::Progress(_)
            | Self::Stopped(_)
            | Self::RateLimit { .. }
            | Self::Pause { .. }
            | Self::Streams { .. } => 0,
        }
    }
}

/// Why a source argument is skipped that does not exist.
pub const MISSING: &str = "does not exist";
/// Why a directory of its name is skipped.
pub const NOT_EMPTY: &str = "is not empty, so it is kept";

/// Most bytes of a difference: names of attributes, ranges.
const DIFFERENCE_BYTES: usize = 16 << 10;

/// Receives events, in order, from the controller's thread. It must not block for long: the copy waits for it.
pub trait Observer {
    /// Called for each event.
    fn event(&mut self, event: &Event);
}

/// An event for users, logs and scripts.
#[derive(Debug, Clone)]
pub enum Event {
    /// A login takes longer than a second.
    Connecting {
        /// The host, as the user named it.
        host: String,
    },
    /// haul was deployed to a host: displayed as one line.
    Deployed {
        /// The host, as the user named it.
        host: String,
        /// Its path on that host.
        path: String,
    },
    /// The data streams are up.
    Connected {
        /// Their transport path.
        transport: TransportPath,
        /// Their number.
        streams: u16,
        /// Their cipher; never [`Cipher::Auto`].
        cipher: Cipher,
    },
    /// The data takes another path, or several.
    PathChanged {
        /// The new path.
        transport: TransportPath,
        /// The reason, if it left a path.
        because: Option<String>,
    },
    /// A connection was lost. The copy restarts after a pause; transferred data is not copied again.
    Restarted {
        /// The lost connection and the reason, in one line.
        reason: String,
        /// The pause.
        pause: Duration,
        /// The number of restarts since the last progress, including this one.
        attempt: u32,
        /// Limit on consecutive restarts, if any.
        attempts: Option<u32>,
        /// The remaining time for progress, if limited.
        left: Option<Duration>,
    },
    /// Figures so far, of the present attempt; sent every `progress_every` and once at the end.
    Progress(Box<Progress>),
    /// A file is whole, verified and under its final name. Only with `report_files`.
    FileDone(FileReport),
    /// A requested digest of a file besides BLAKE3: of the target's file once it has its name, or of the source's file
    /// once it was read.
    Checksum {
        /// Path as the user would name it: at the source, where it is computed there; else from the operand down.
        /// Bytes, not text.
        path: Vec<u8>,
        /// The algorithm.
        algorithm: ChecksumAlgorithm,
        /// The digest, as long as that has bytes.
        digest: Vec<u8>,
    },
    /// The transfer of an earlier run's partial file resumes.
    Resumed(ResumeReport),
    /// A file could not be copied. Others continue.
    FileFailed {
        /// Path as in the user's terms. Bytes, not text.
        path: Vec<u8>,
        /// The host where it failed, as the user named it.
        host: String,
        /// The error, and remedies: one line each.
        message: String,
    },
    /// An entry is created, changed or removed at the target, or would be. On request only.
    Item(ItemReport),
    /// An entry differs between both ends, in a comparison.
    Differs {
        /// Path at the target, in the user's terms. Bytes, not text.
        path: Vec<u8>,
        /// The target's host, as the user named it.
        host: String,
        /// At least one difference.
        differences: Vec<Difference>,
    },
    /// An entry was skipped on purpose (a FIFO, a socket, a device).
    Skipped(SkipReport),
    /// An entry changed at the source, and did not fail.
    SourceChanged {
        /// Its path, from the source argument down. Bytes, not text.
        path: Vec<u8>,
        /// The change.
        change: SourceChange,
    },
    /// The rate limit was changed during the copy.
    RateLimit {
        /// The new limit; `None` for no limit.
        bytes_per_s: Option<u64>,
    },
    /// The caller paused the copy, or resumed it.
    Pause {
        /// Whether it is paused.
        is_paused: bool,
    },
    /// The caller has changed the number of streams.
    Streams {
        /// Number of streams from now on, once they are connected.
        wanted: u16,
    },
    /// The copy ends with an error: what it had done until then. Only of a copy that had found something to copy.
    Stopped(Box<Summary>),
    /// Anything else worth one line.
    Warning(String),
}

/// Figures of a running copy.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Progress {
    /// Files found at the source so far.
    pub files_found: u64,
    /// Their bytes.
    pub bytes_found: u64,
    /// Directories created or found at the target so far.
    pub directories: u64,
    /// Whether the walk is complete, so that the figures above are totals.
    pub walk_complete: bool,
    /// Completed files: copied, skipped or failed.
    pub files_settled: u64,
    /// Bytes verified and written at the target in this attempt.
    pub bytes_written: u64,
    /// The data among them: no holes, and no blocks shared with the source.
    pub bytes_stored: u64,
    /// Bytes of files present before.
    pub bytes_skipped: u64,
    /// Bytes that both ends have read and compared, in a copy that only compares.
    pub bytes_compared: u64,
    /// Streams in use.
    pub streams: u16,
    /// Most streams.
    pub streams_max: u16,
    /// Whether the copy is paused.
    pub is_paused: bool,
    /// The present rate limit, in bytes per second.
    pub rate_limit_bytes_per_s: Option<u64>,
    /// The present bottleneck; `None` while unknown.
    pub limited_by: Option<CurrentBottleneck>,
    /// The verdict over the last seconds, without pauses.
    pub verdict: Option<Verdict>,
    /// The source's present activity.
    pub work: SourceActivity,
    /// The slowest files so far, slowest first.
    pub slowest: Vec<SlowFile>,
    /// The source's kernel figures of all connections so far; all zero without TCP.
    pub sockets: Sockets,
    /// Figures of each stream so far, replaced ones included; empty without TCP.
    pub per_stream: Vec<StreamFigures>,
}

impl Progress {
    /// Bytes of this attempt: written, or compared.
    pub fn moved(&self) -> u64 {
        self.bytes_written.saturating_add(self.bytes_compared)
    }

    /// Bytes of complete files and frames.
    pub fn done(&self) -> u64 {
        self.moved().saturating_add(self.bytes_skipped)
    }
}
