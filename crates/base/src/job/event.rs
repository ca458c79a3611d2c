//! Events of a running job. The library never prints; callers observe these.

pub use haul_proto::diagnose::watch::CurrentBottleneck;
pub use haul_proto::diagnose::{Bottleneck, BottleneckDetail, BottleneckShare, Fact, FactUnit, Figure, Verdict};
pub use haul_proto::entry::EntryKind;
pub use haul_proto::entry::{DeviceNumber, SpecialFile};
pub use haul_proto::sync::{ChangeKind, ChangeReasons, ItemChange, SyncCounters};
pub use haul_proto::wire::counters::ReadBackBytes;
pub use haul_proto::wire::difference::{AttributeEnd, Difference};
pub use haul_proto::wire::report::{FileReport, ItemReport, ResumeReport, SkipReport};
pub use haul_proto::wire::resource_metrics::{ResourceMetrics, Sockets, Stage, StreamFigures};
pub use haul_proto::wire::sandbox::{Confinement, SandboxReport};
pub use haul_proto::wire::slowest_files::SlowFile;
pub use haul_proto::wire::source_activity::{SourceActivity, StreamPath};
use std::time::Duration;

use crate::job::spec::{ChecksumAlgorithm, Cipher};

impl Event {
    /// Bytes of its paths and texts, about.
    pub fn text_bytes(&self) -> usize {
        match self {
            Self::FileDone(FileReport { path, .. })
            | Self::Resumed(ResumeReport { path, .. })
            | Self::Item(ItemReport { path, .. }) => path.len(),
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

/// Bytes of a difference at most: names of attributes, ranges.
const DIFFERENCE_BYTES: usize = 16 << 10;

/// Receives events, in order, from the controller's thread. It must not block for long: the job waits for it.
pub trait Observer {
    /// Called for each event.
    fn event(&mut self, event: &Event);
}

/// Something that a person, a log or a script may want to know.
#[derive(Debug, Clone)]
pub enum Event {
    /// A login takes longer than a second.
    Connecting {
        /// The host, as the user named it.
        host: String,
    },
    /// haul was put on a host: shown as one line.
    Deployed {
        /// The host, as the user named it.
        host: String,
        /// Where it was put, on that host.
        path: String,
    },
    /// The data streams are up.
    Connected {
        /// How they run.
        transport: TransportPath,
        /// How many.
        streams: u16,
        /// How they are sealed; never [`Cipher::Auto`].
        cipher: Cipher,
    },
    /// The data now takes another path, or several.
    PathChanged {
        /// The new path.
        transport: TransportPath,
        /// Why, if it left one.
        because: Option<String>,
    },
    /// A connection was lost. The job restarts after a pause; transferred data is not copied again.
    Restarted {
        /// What was lost, where and why, in one line.
        reason: String,
        /// How long the pause is.
        pause: Duration,
        /// How many times it has been begun again, with this one, since it last came further.
        attempt: u32,
        /// Limit on consecutive restarts, if any.
        attempts: Option<u32>,
        /// After what time it is given up, unless it comes further; if there is such a limit.
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
        /// Which.
        algorithm: ChecksumAlgorithm,
        /// The digest, as long as that has bytes.
        digest: Vec<u8>,
    },
    /// The transfer of an earlier run's partial file resumes.
    Resumed(ResumeReport),
    /// A file could not be copied. Others continue.
    FileFailed {
        /// Path as the user would name it. Bytes, not text.
        path: Vec<u8>,
        /// The host where it failed, as the user named it.
        host: String,
        /// What happened and, after it, what to do: one line each.
        message: String,
    },
    /// Something is made, changed or removed at the target, or would be. Only where the job's options ask for that.
    Item(ItemReport),
    /// Something is not the same at both ends. Only in a job that compares.
    Differs {
        /// Path at the target, as the user would name it. Bytes, not text.
        path: Vec<u8>,
        /// The target's host, as the user named it.
        host: String,
        /// How: at least one.
        differences: Vec<Difference>,
    },
    /// An entry was skipped on purpose (a FIFO, a socket, a device).
    Skipped(SkipReport),
    /// The limit on the rate was changed while the job runs.
    RateLimit {
        /// What holds from now on; `None`: nothing.
        bytes_per_s: Option<u64>,
    },
    /// The caller paused the job, or resumed it.
    Pause {
        /// Whether it is.
        is_paused: bool,
    },
    /// The caller wants another number of streams.
    Streams {
        /// Number of streams from now on, once they are connected.
        wanted: u16,
    },
    /// The caller stopped the job: what limited it until then.
    Stopped(Verdict),
    /// Anything else worth one line.
    Warning(String),
}

/// Figures of a running job.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Progress {
    /// Files found at the source so far.
    pub files_found: u64,
    /// Their bytes.
    pub bytes_found: u64,
    /// Directories created or found at the target so far.
    pub directories: u64,
    /// Whether the source has been walked to its end, so that the two above are totals.
    pub walk_complete: bool,
    /// Completed files: copied, skipped or failed.
    pub files_settled: u64,
    /// Bytes verified and written at the target in this attempt.
    pub bytes_written: u64,
    /// Bytes of files that were there already.
    pub bytes_skipped: u64,
    /// Bytes that both ends have read and compared, in a job that only compares.
    pub bytes_compared: u64,
    /// Streams in use.
    pub streams: u16,
    /// How many there may be.
    pub streams_max: u16,
    /// Whether the caller has it paused.
    pub is_paused: bool,
    /// The limit on the rate that is set now, bytes a second.
    pub rate_limit_bytes_per_s: Option<u64>,
    /// The present bottleneck; `None` while unknown.
    pub limited_by: Option<CurrentBottleneck>,
    /// The verdict over the last seconds, without pauses.
    pub verdict: Option<Verdict>,
    /// What the source is at.
    pub work: SourceActivity,
    /// The files that took longest so far, the slowest first.
    pub slowest: Vec<SlowFile>,
    /// What the source's kernel says of all its connections so far; all zero without TCP.
    pub sockets: Sockets,
    /// Figures of each stream so far, replaced ones included; empty without TCP.
    pub per_stream: Vec<StreamFigures>,
}

impl Progress {
    /// Bytes that this attempt has read at both ends: written there, or compared.
    pub fn moved(&self) -> u64 {
        self.bytes_written.saturating_add(self.bytes_compared)
    }

    /// Bytes that nothing is left to be done for.
    pub fn done(&self) -> u64 {
        self.moved().saturating_add(self.bytes_skipped)
    }
}

/// How data travels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum TransportPath {
    /// It did not: nothing had to be moved.
    #[default]
    None,
    /// Within one process, no socket.
    Local {
        /// The host that it is on, as the user named it; `None` for this one.
        host: Option<String>,
    },
    /// TCP.
    Tcp {
        /// The path of the data; the first path with `--paths all`.
        path: NetworkPath,
        /// The others, where several are used at once.
        others: Vec<NetworkPath>,
        /// Why the first choice was not taken, if it was not.
        instead_of: Option<String>,
    },
    /// Through ssh's own connection.
    Ssh {
        /// Why no TCP connection could be had.
        because: String,
    },
}

/// A path between two hosts; `from` connected to `to`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkPath {
    /// Address and port of the end that connected.
    pub from: String,
    /// Address and port of the end that accepted.
    pub to: String,
    /// The interface of the end that connected, where it said which one has that address.
    pub interface: Option<String>,
    /// What the systems say of its speed: of both ends' interfaces, the slower one.
    pub mbit_per_s: Option<u32>,
}

impl TransportPath {
    /// Whether data travels over TCP without leaving its host.
    pub fn is_within_host(&self) -> bool {
        matches!(self, Self::Tcp { path, .. } if path.is_within_host())
    }
}

impl NetworkPath {
    /// Whether both ends have one address.
    pub fn is_within_host(&self) -> bool {
        let [from, to] = [&self.from, &self.to].map(|end| end.rsplit_once(':').map(|(address, _)| address));
        from.is_some() && from == to
    }
}
