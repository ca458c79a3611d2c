//! What a running job tells its caller. The library never prints; whoever runs a job observes these.

use std::time::Duration;

use crate::spec::Cipher;

/// Receives events, in order, from the controller's thread. It must not block for long: the job waits for it.
pub trait Observer {
    /// Called for each event.
    fn event(&mut self, event: &Event);
}

/// Something that a person, a log or a script may want to know.
#[derive(Debug, Clone)]
pub enum Event {
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
        way: Way,
        /// How many.
        streams: u16,
        /// How they are sealed; never [`Cipher::Auto`].
        cipher: Cipher,
    },
    /// Figures so far; sent every `progress_every` and once at the end.
    Progress(Progress),
    /// A file is whole, verified and under its final name. Only with `report_files`.
    FileDone {
        /// Path as the user would name it, from the operand down. Bytes, not text.
        path: Vec<u8>,
        /// Bytes.
        size: u64,
        /// BLAKE3 of the whole file; absent for a file that was there already.
        digest: Option<[u8; 32]>,
    },
    /// A file could not be copied. The others go on.
    FileFailed {
        /// Path as the user would name it. Bytes, not text.
        path: Vec<u8>,
        /// The host where it failed, as the user named it.
        host: String,
        /// What happened and, after it, what to do: one line each.
        message: String,
    },
    /// Something was left out on purpose (a FIFO, a socket, a device).
    Skipped {
        /// Path as the user would name it. Bytes, not text.
        path: Vec<u8>,
        /// Why.
        reason: String,
    },
    /// Anything else worth one line.
    Notice(String),
}

/// Figures of a running job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Files found at the source so far.
    pub files_found: u64,
    /// Their bytes.
    pub bytes_found: u64,
    /// Whether the source has been walked to its end, so that the two above are totals.
    pub walk_complete: bool,
    /// Files that are settled: whole at the target, or there already, or failed.
    pub files_settled: u64,
    /// Bytes proven and written at the target in this run.
    pub bytes_written: u64,
    /// Bytes of files that were there already.
    pub bytes_skipped: u64,
    /// Streams in use.
    pub streams: u16,
}

/// How data travels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// Within one process, no socket.
    Local,
    /// TCP; `from` connected to `to`.
    Tcp {
        /// Address and port of the end that connected.
        from: String,
        /// Address and port of the end that accepted.
        to: String,
        /// Why the first choice was not taken, if it was not.
        instead_of: Option<String>,
    },
    /// Through ssh's own connection.
    Ssh {
        /// Why no TCP connection could be had.
        because: String,
    },
}

/// The result of a job that ran to its end.
#[derive(Debug, Clone)]
pub struct Summary {
    /// Files copied in this run.
    pub files_copied: u64,
    /// Files that were there already.
    pub files_skipped: u64,
    /// Files (and directories and links) that failed; each was reported.
    pub failed: u64,
    /// Directories that exist at the target now.
    pub directories: u64,
    /// Symbolic links made or found equal.
    pub symlinks: u64,
    /// Entries left out on purpose.
    pub left_out: u64,
    /// Bytes written in this run.
    pub bytes: u64,
    /// Bytes of files that were there already.
    pub bytes_skipped: u64,
    /// From the start of the command to the last acknowledgement.
    pub elapsed: Duration,
    /// How data travelled.
    pub way: Way,
    /// Streams used.
    pub streams: u16,
    /// How they were sealed; never [`Cipher::Auto`]. `None` when no socket was used.
    pub cipher: Option<Cipher>,
    /// Frames sent again because what arrived was not what was sent.
    pub frames_resent: u64,
    /// User plus system seconds of the source's worker.
    pub source_cpu: Duration,
    /// User plus system seconds of the target's worker.
    pub target_cpu: Duration,
    /// Peak resident memory of the source's worker, bytes.
    pub source_peak_bytes: u64,
    /// Peak resident memory of the target's worker, bytes.
    pub target_peak_bytes: u64,
}
