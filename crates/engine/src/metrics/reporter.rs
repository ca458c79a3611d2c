//! Reports of a worker to its controller: counters, and lines about single files.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use haul_base::control_channel::ControlWriter;
use haul_base::copy::display_path::below;
use haul_proto::compression::CompressionMethod;
use haul_proto::entry::EntryKind;
use haul_proto::integrity::Digest;
use haul_proto::wire::control_channel::ControlChannel;
use haul_proto::wire::counters::{Counters, FinalReport, PathFigures, ReadBackBytes};
use haul_proto::wire::difference::Difference;
use haul_proto::wire::report::{FileReport, SkipReport, SourceChange, WorkerMessage};

use crate::metrics::counter::{Counter, add};
use crate::metrics::delta_tally::DeltaTally;
use crate::metrics::slowest_files::SlowestFiles;
use crate::metrics::sync_tally::SyncTally;
use crate::policy::audit::{AuditAction, AuditError, AuditLog, AuditRecord};
use crate::sys::usage;
use crate::sys::usage::ProcessStatus;

macro_rules! declare_tally {
    ($($(#[$doc:meta])* $name:ident: $ends:ident, $words:literal, $join:ident;)*) => {
        /// Counters of all threads of a worker. Relaxed: no decision depends on them.
        #[derive(Debug, Default)]
        pub struct CounterTally {
            /// Whether the walk is complete.
            pub walk_complete: AtomicBool,
            $($(#[$doc])* pub $name: Counter,)*
            /// Files copied that are on disk under their names.
            pub files_durable: AtomicU64,
            /// Bytes read or written with O_DIRECT.
            pub bytes_direct: AtomicU64,
            /// Bytes in blocks shared with the source's files.
            pub bytes_cloned: AtomicU64,
            /// Bytes read back with O_DIRECT.
            pub read_back_disk: AtomicU64,
            /// Bytes read back, possibly from the page cache.
            pub read_back_cache: AtomicU64,
            /// Bytes read back from memory.
            pub read_back_memory: AtomicU64,
            /// Payload bytes before compression, by the index of the method.
            pub compressed: [AtomicU64; CompressionMethod::COUNT],
        }

        impl CounterTally {
            /// Returns the present counts.
            pub fn counters(&self) -> Counters {
                Counters {
                    walk_complete: self.walk_complete.load(Ordering::Relaxed),
                    $($name: self.$name.load(Ordering::Relaxed),)*
                }
            }
        }
    };
}

haul_proto::with_counters!(declare_tally);

impl CounterTally {
    fn read_back(&self) -> ReadBackBytes {
        let [disk_bytes, cache_bytes, memory_bytes] =
            [&self.read_back_disk, &self.read_back_cache, &self.read_back_memory]
                .map(|counter| counter.load(Ordering::Relaxed));
        ReadBackBytes { disk_bytes, cache_bytes, memory_bytes }
    }

    /// The method used for most compressed bytes; `None` without compression.
    fn main_method(&self) -> Option<CompressionMethod> {
        let bytes = self.compressed.iter().map(|counter| counter.load(Ordering::Relaxed));
        let (most, index) = bytes.zip(0..).max()?;
        (most > 0).then(|| CompressionMethod::from_index(index))
    }
}

/// Reports to the controller. Write errors are ignored, since the reader of the control channel detects its loss.
pub struct Reporter {
    control: ControlWriter,
    /// The counters.
    pub tally: CounterTally,
    /// The slowest files.
    pub slowest: SlowestFiles,
    /// Results of base files.
    pub delta: DeltaTally,
    /// Other changes.
    pub sync: SyncTally,
    report_files: bool,
    account: ProcessStatus,
    audit: Option<Arc<AuditLog>>,
    /// Prefix of paths in the audit log.
    label: OnceLock<Vec<u8>>,
}

impl Reporter {
    /// A reporter over the worker's control channel.
    pub fn new(control: ControlWriter, report_files: bool) -> Self {
        Self {
            control,
            tally: CounterTally::default(),
            slowest: SlowestFiles::default(),
            delta: DeltaTally::default(),
            sync: SyncTally::default(),
            report_files,
            account: ProcessStatus::open(),
            audit: None,
            label: OnceLock::new(),
        }
    }

    /// Adds an audit log.
    pub fn with_audit(self, audit: Option<Arc<AuditLog>>) -> Self {
        Self { audit, ..self }
    }

    /// Whether there is an audit log.
    pub fn is_audited(&self) -> bool {
        self.audit.is_some()
    }

    /// Sets the prefix of paths.
    pub fn set_label(&self, label: &[u8]) {
        let _ = self.label.set(label.to_vec());
    }

    /// Writes a line to the audit log, if any. An error ends the copy. The path is complete.
    pub fn audit(&self, record: &AuditRecord<'_>) -> Result<(), AuditError> {
        self.audit.as_ref().map_or(Ok(()), |audit| audit.write(record))
    }

    /// Writes a line about a created, changed or removed entry. `path` is complete.
    pub fn audit_change(&self, action: AuditAction, kind: EntryKind, path: &[u8]) {
        // On an error, the log ends the copy.
        let _ = self.audit(&AuditRecord { kind: Some(kind), ..AuditRecord::of(action, path) });
    }

    /// Sets a handler for the first write error of the audit log.
    pub fn on_audit_failure(&self, end: impl Fn(&str) + Send + Sync + 'static) {
        if let Some(audit) = &self.audit {
            audit.on_failure(end);
        }
    }

    fn audit_file(
        &self,
        action: AuditAction,
        path: &impl Fn() -> Vec<u8>,
        size: u64,
        duration: Option<Duration>,
        digest: Option<&Digest>,
    ) {
        if self.is_audited() {
            let path = below(self.label.get().map_or(b"", |label| label), &path());
            let record = AuditRecord { bytes: Some(size), duration, digest, ..AuditRecord::of(action, &path) };
            // On an error, the log ends the copy.
            let _ = self.audit(&record);
        }
    }

    /// Sends a message.
    pub fn send(&self, message: &WorkerMessage) {
        let _ = self.control.send(ControlChannel::Controller, &message.encode());
    }

    /// Reports a copied file, with its BLAKE3 digest if the session has it, and the `duration` of a large file.
    pub fn file_done(&self, path: impl Fn() -> Vec<u8>, size: u64, duration: Option<Duration>, digest: Option<Digest>) {
        self.audit_file(AuditAction::Received, &path, size, duration, digest.as_ref());
        add(&self.tally.files_copied, 1);
        self.file(path, size, true, digest);
    }

    /// A file was present before.
    pub fn file_existed(&self, path: impl Fn() -> Vec<u8>, size: u64, digest: Option<Digest>) {
        self.audit_file(AuditAction::Unchanged, &path, size, None, digest.as_ref());
        add(&self.tally.files_skipped, 1);
        add(&self.tally.bytes_skipped, size);
        self.file(path, size, false, digest);
    }

    /// Reports a compared file, with its digest if both are equal.
    pub fn file_compared(&self, path: impl Fn() -> Vec<u8>, size: u64, digest: Option<Digest>) {
        self.audit_file(AuditAction::Compared, &path, size, None, digest.as_ref());
        add(&self.tally.files_compared, 1);
        if digest.is_some() {
            self.file(path, size, false, digest);
        }
    }

    /// Reports an entry that differs between both ends.
    pub fn differs(&self, path: Vec<u8>, differences: Vec<Difference>) {
        add(&self.tally.differences, 1);
        let _ = self.audit(&AuditRecord::of(AuditAction::Differs, &path));
        self.send(&WorkerMessage::Differs { path, differences });
    }

    fn file(&self, path: impl FnOnce() -> Vec<u8>, size: u64, copied: bool, digest: Option<Digest>) {
        if self.report_files {
            self.send(&WorkerMessage::FileDone(FileReport { path: path(), size, copied, digest }));
        }
    }

    /// Reports a failed entry.
    pub fn failed(&self, path: Vec<u8>, text: impl Into<String>) {
        add(&self.tally.failed, 1);
        let text = text.into();
        let _ = self.audit(&AuditRecord { reason: Some(&text), ..AuditRecord::of(AuditAction::Failed, &path) });
        self.send(&WorkerMessage::FileFailed { path, text });
    }

    /// Reports a source entry that was listed, and is gone.
    pub fn vanished(&self, path: Vec<u8>) {
        add(&self.tally.vanished, 1);
        let _ = self.audit(&AuditRecord { reason: Some("vanished"), ..AuditRecord::of(AuditAction::Failed, &path) });
        self.send(&WorkerMessage::SourceChanged { path, change: SourceChange::Vanished });
    }

    /// Reports an entry skipped on purpose.
    pub fn left_out(&self, path: Vec<u8>, reason: &str) {
        add(&self.tally.left_out, 1);
        self.send(&WorkerMessage::Skipped(SkipReport { path, reason: reason.into() }));
    }

    /// Reports the slowest files so far, if they changed since the last report.
    pub fn report_slowest(&self) {
        if let Some(slowest) = self.slowest.take_if_changed() {
            self.send(&WorkerMessage::Slowest(slowest));
        }
    }

    /// Counts entries excluded by filters, without a report.
    pub fn filtered(&self, entries: u64) {
        add(&self.tally.filtered, entries);
    }

    /// Reports the present counters.
    pub fn progress(&self) {
        self.send(&WorkerMessage::Counters(Box::new(self.tally.counters())));
        self.sync.take_if_changed().into_iter().for_each(|figures| self.send(&WorkerMessage::Synced(figures)));
    }

    /// Sends the final report; `path` has the figures of the source's sockets.
    pub fn finished(&self, path: PathFigures) {
        let counters = self.tally.counters();
        let files_durable = self.tally.files_durable.load(Ordering::Relaxed);
        let slowest = self.slowest.all();
        if !slowest.is_empty() {
            self.send(&WorkerMessage::Slowest(slowest));
        }
        self.delta.figures().into_iter().for_each(|figures| self.send(&WorkerMessage::Delta(figures)));
        self.sync.figures().into_iter().for_each(|figures| self.send(&WorkerMessage::Synced(figures)));
        self.send(&WorkerMessage::Finished(Box::new(FinalReport {
            counters,
            cpu_us: usage::cpu_us(),
            system_us: usage::system_us(),
            peak_bytes: self.account.peak_bytes(),
            direct_bytes: self.tally.bytes_direct.load(Ordering::Relaxed),
            cloned_bytes: self.tally.bytes_cloned.load(Ordering::Relaxed),
            durable: files_durable > 0 && files_durable == counters.files_copied,
            read_back: self.tally.read_back(),
            path,
            compression: self.tally.main_method(),
        })));
    }
}
