//! State shared by all parts of the receiver: the request, the destination, and the reporter.

use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use haul_base::copy::account::{WorkDone, WorkKind};
use haul_base::copy::allowance::Allowance;
use haul_base::sys::describe::describe;
use haul_proto::entry::{Entry, EntryKind, EntryMetadata, Timestamp};
use haul_proto::entry_extras::{EntryExtras, ExtrasFilter};
use haul_proto::error::ProtocolError;
use haul_proto::ids::CopyNumber;
use haul_proto::overwrite_policy::{OverwriteRefusal, OverwriteRules};
use haul_proto::path::escape;
use haul_proto::session::step::EntryAnswer;
use haul_proto::striping::{Striping, StripingPolicy};
use haul_proto::sync::{ChangeKind, ChangeReasons, EqualityTest, ItemChange};
use haul_proto::timestamps::is_within;
use haul_proto::wire::list_batch::ListedKinds;
use haul_proto::wire::report::{ItemReport, WorkerMessage};
use haul_proto::wire::request::{TargetOperand, TargetRequest};
use haul_proto::wire::storage::Verify;
use rustix::io::Errno;

use crate::fs::{Dir, FileIdentity, FileStat, attributes};
use crate::io::program::ProgramError;
use crate::io::storage::policy::StoragePolicy;
use crate::io::storage::read::FrameReader;
use crate::metrics::counter::add;
use crate::metrics::reporter::Reporter;
use crate::policy::audit::AuditAction;
use crate::policy::{HostPolicy, PolicyRule};
use crate::receiver::entry::ReceiverEntry;
use crate::receiver::file::{ReceivingFile, size_of};
use crate::receiver::place::copy_locks::LockEvent;
use crate::receiver::place::destination::{Destination, DestinationKind};
use crate::receiver::place::entry_position::{EntryDecision, EntryPosition};
use crate::receiver::place::error::FileError;
use crate::receiver::place::full_disk::FullDisk;
use crate::receiver::place::in_order_sink::InOrderSink;
use crate::receiver::place::target_path::TargetPath;

/// The environment of the worker process.
#[derive(Debug, Default)]
pub struct WorkerContext {
    /// The file mode creation mask.
    pub umask: u16,
    /// The directory of remembered trees; `None` if there is none.
    pub state_dir: Option<PathBuf>,
    /// Restrictions by the host's policy.
    pub policy: HostPolicy,
    /// Rate limit, in bytes per second.
    pub rate: Option<u64>,
    /// A server's limit for all its clients.
    pub allowance: Option<Arc<Allowance>>,
    /// Symbolic links that lead out of the working directory are refused.
    pub links_inside: bool,
    /// Existing entries keep their metadata.
    pub creates_only: bool,
}

/// Constant properties of one copy at the target.
pub struct ReceiverCopy {
    /// The controller's request.
    pub(super) request: TargetRequest,
    /// The destination.
    pub(super) destination: Destination,
    /// The file mode creation mask of the worker.
    pub(super) umask: u16,
    /// Symbolic links that lead out of the working directory are refused.
    pub(super) links_inside: bool,
    /// Existing directories keep their metadata.
    pub(super) creates_only: bool,
    /// Whether the host's policy permits block signatures for sources.
    pub(super) allows_deltas: bool,
    /// An entry failed, so the target is incomplete.
    pub(super) has_failed_entries: AtomicBool,
    /// A file system refused a striping.
    has_refused_striping: AtomicBool,
    /// Detects a full file system.
    pub(super) full_disk: FullDisk,
    /// Source and target share this process.
    pub(super) is_both_ends: AtomicBool,
    /// Write policy.
    pub(super) policy: StoragePolicy,
    /// Reports to the controller.
    pub(crate) reporter: Reporter,
}

impl ReceiverCopy {
    pub(super) fn new(
        request: TargetRequest,
        destination: Destination,
        context: &WorkerContext,
        reporter: Reporter,
    ) -> Self {
        // Directories that the copy creates inherit the list.
        let mask = destination.dir().and_then(|dir| attributes::default_acl_mask(&*dir.fd().ok()?));
        let umask = mask.unwrap_or(context.umask);
        Self {
            allows_deltas: policy_allows_deltas(&request, &context.policy, &reporter),
            policy: StoragePolicy::new(request.storage),
            request,
            destination,
            umask,
            links_inside: context.links_inside,
            creates_only: context.creates_only,
            has_failed_entries: AtomicBool::new(false),
            has_refused_striping: AtomicBool::new(false),
            full_disk: FullDisk::default(),
            is_both_ends: AtomicBool::new(false),
            reporter,
        }
    }

    /// Reports a failed entry. Must precede its completion.
    pub(super) fn fail_entry(&self, path: Vec<u8>, error: impl Display) {
        self.note_failed_entry();
        self.fail(path, error);
    }

    /// Records a failed entry that is reported elsewhere.
    pub(super) fn note_failed_entry(&self) {
        self.has_failed_entries.store(true, Ordering::Relaxed);
    }

    /// Reports a file that could not be written.
    pub(super) fn fail_file(&self, file: &ReceivingFile, error: &FileError) {
        if let Some(dir) = file.dir() {
            self.full_disk.record_failure(dir.identity().device, error);
        }
        self.fail_entry(file.display_path(&self.destination), error);
    }

    /// Refuses a new file without an attempt if its file system is full.
    pub(super) fn check_full_disk(&self, dir: &Dir, size: u64) -> Result<(), FileError> {
        // An empty file takes no block.
        let is_checked = self.request.write.check_space && size > 0;
        let refusal = is_checked.then(|| self.full_disk.refusal(dir.identity().device)).flatten();
        refusal.map_or(Ok(()), Err)
    }

    /// Whether the only source argument, a directory, is created under a new name.
    pub fn begins_tree(&self) -> bool {
        let is_directory = matches!(&self.request.operands[..], [TargetOperand { directory: true, .. }]);
        is_directory && matches!(self.destination.kind, DestinationKind::As(..))
    }

    /// Reports another run in the same destination. If that ends this attempt, the controller starts the next one.
    pub(super) fn report_lock(&self, event: LockEvent) {
        self.reporter.send(&match event {
            LockEvent::Waits(text) => WorkerMessage::Warning { text },
            LockEvent::Lost(text) => WorkerMessage::Fatal { fault: false, text },
        });
    }

    /// Identity of the destination directory; `None` for a device, FIFO or socket.
    pub fn landing_identity(&self) -> Option<FileIdentity> {
        self.destination.dir().map(Dir::identity)
    }

    /// Whether the copy only compares.
    pub fn compares(&self) -> bool {
        self.request.compare.is_some()
    }

    /// Whether directories of source arguments are created or filled.
    pub(super) fn writes_trees(&self) -> bool {
        let has_trees =
            self.request.listed == ListedKinds::Trees || self.request.operands.iter().any(|operand| operand.directory);
        has_trees && !self.compares() && !self.is_dry()
    }

    /// Whether the source is in this process.
    pub(super) fn is_within_process(&self) -> bool {
        self.is_both_ends.load(Ordering::Relaxed)
    }

    /// Totals for a server's log.
    pub fn did(&self) -> WorkDone {
        let counters = self.reporter.tally.counters();
        let (what, files, bytes) = match self.compares() {
            true => (WorkKind::Compared, counters.files_compared, counters.bytes_compared),
            false => (WorkKind::Received, counters.files_copied, counters.bytes_written),
        };
        WorkDone { what, files, bytes, failed: counters.failed, path: escape(&self.request.path) }
    }

    /// The negotiated settings.
    pub fn settings(&self) -> &haul_proto::wire::request::SessionSettings {
        &self.request.settings
    }

    /// The preserved extras of entries, by the Request.
    pub(super) fn extras_filter(&self) -> ExtrasFilter {
        let kept = self.request.metadata.preserve;
        ExtrasFilter {
            names: kept.hard_links,
            attributes: kept.attributes,
            acls: kept.acls,
            digest: self.request.sync.equal == EqualityTest::Digest,
            striping: self.request.write.striping == StripingPolicy::Source,
            parents: self.request.listed != ListedKinds::No || !self.request.below.is_empty(),
        }
    }

    /// The striping of a new file of `size` bytes (unknown for a stream); `None` leaves it to the directory.
    pub(super) fn striping_of(&self, size: Option<u64>, more: Option<&EntryExtras>) -> Option<Striping> {
        self.request.write.striping.striping_of(size, more.and_then(|more| more.striping))
    }

    /// Reports, once, that a file has not got the striping of an option.
    pub(super) fn report_refused_striping(&self, path: &TargetPath, error: Errno) {
        let is_asked = matches!(self.request.write.striping, StripingPolicy::Fixed(_));
        if is_asked && !self.has_refused_striping.swap(true, Ordering::Relaxed) {
            let shown = escape(&self.destination.path(&path.dir.path_of(path.name.as_bytes())));
            let text = format!("{shown}: the directory's striping, not the requested one: {}", describe(&error.into()));
            self.reporter.send(&WorkerMessage::Warning { text });
        }
    }

    /// Declares that source and target share this process. Must precede the first offer.
    pub fn joins_source(&self) {
        self.is_both_ends.store(true, Ordering::Relaxed);
    }

    /// A reader for files at the target.
    pub(super) fn reader(&self) -> FrameReader {
        let frame_bytes = self.request.settings.frame.bytes();
        FrameReader::new(frame_bytes, self.policy.depth(frame_bytes))
    }

    /// Whether a program reads the data. If so, [`Self::watch_program`] needs a thread.
    pub fn has_program(&self) -> bool {
        self.destination.sink().is_some_and(InOrderSink::has_program)
    }

    /// Polls a program for failure until `pause` reports the end of the copy, since its source may send nothing for
    /// long. Returns its error.
    pub fn watch_program(&self, pause: impl Fn() -> bool) -> Option<ProgramError> {
        let sink = self.destination.sink()?;
        while pause() {
            let error = sink.has_failed();
            if error.is_some() {
                return error;
            }
        }
        None
    }

    pub(super) fn fail(&self, path: Vec<u8>, error: impl Display) {
        self.reporter.failed(path, error.to_string());
    }

    /// Reports a file that does not support the requested direct I/O.
    pub(crate) fn report_refusal(&self, file: &ReceivingFile) {
        let path = escape(&file.display_path(&self.destination));
        let text = format!("{path}: no O_DIRECT writes, so the page cache is used");
        self.reporter.send(&WorkerMessage::Warning { text });
    }

    /// Whether the target computes BLAKE3 too: with `--verify=memory`, and for an audit log, for which a hostile source
    /// could claim another file's digest.
    pub(super) fn rehashes(&self) -> bool {
        self.request.verify == Verify::Memory || self.reporter.is_audited() && !self.is_within_process()
    }

    pub(crate) fn check_copy(&self, copy: CopyNumber) -> Result<(), ProtocolError> {
        if copy == self.request.settings.number { Ok(()) } else { Err(ProtocolError::Unasked("another copy")) }
    }

    /// Whether this is a dry run.
    pub(super) fn is_dry(&self) -> bool {
        self.request.sync.is_dry
    }

    /// The rules for existing entries.
    pub(super) fn overwrite_rules(&self) -> OverwriteRules {
        OverwriteRules::new(self.request.write.overwrite, &self.request.sync)
    }

    /// Reports a creation, change or removal, or in a dry run its plan. `relative` returns the path below the
    /// destination; it is called only if a report is sent.
    pub(super) fn report_item(
        &self,
        relative: impl FnOnce() -> Vec<u8>,
        ReportedEntry { what, size, modified, first_name }: ReportedEntry,
        change: ChangeKind,
    ) {
        let tally = &self.reporter.sync;
        match change {
            ChangeKind::Adjusted(_) => add(&tally.adjusted, 1),
            ChangeKind::Linked => add(&tally.linked, 1),
            ChangeKind::Removed => add(&tally.removed, 1),
            ChangeKind::Made | ChangeKind::Replaced(_) | ChangeKind::Unchanged | ChangeKind::Kept => {}
        }
        let is_told = self.request.sync.tells_items;
        let audited = audited(what, change).filter(|_| self.reporter.is_audited() && !self.is_dry());
        if !is_told && audited.is_none() {
            return;
        }
        let path = self.destination.path(&relative());
        if let Some(action) = audited {
            self.reporter.audit_change(action, what, &path);
        }
        if is_told {
            self.reporter.send(&WorkerMessage::Item(ItemReport {
                path,
                item: ItemChange { what, change },
                size,
                modified,
                first_name: first_name.map(|first| self.destination.path(&first)),
            }));
        }
    }

    /// Reports a file linked to an earlier copy.
    pub(super) fn report_linked(&self, relative: impl Fn() -> Vec<u8>, entry: &Entry) {
        self.report_item(&relative, entry.into(), ChangeKind::Linked);
        self.reporter.file_existed(&relative, size_of(&entry.kind).unwrap_or(0), None);
    }
}

/// What a report of a change says of an entry.
pub(super) struct ReportedEntry {
    pub what: EntryKind,
    /// Length of a file in bytes.
    pub size: Option<u64>,
    /// Time of last modification at the source.
    pub modified: Option<Timestamp>,
    /// Path of the file's first name below the destination, of a further one.
    pub first_name: Option<Vec<u8>>,
}

impl ReportedEntry {
    /// An entry that the source does not have.
    pub fn without_source(what: EntryKind) -> Self {
        Self { what, size: None, modified: None, first_name: None }
    }
}

impl From<&Entry> for ReportedEntry {
    fn from(Entry { kind, meta, .. }: &Entry) -> Self {
        Self { what: kind.into(), size: size_of(kind), modified: Some(meta.modified), first_name: None }
    }
}

/// Whether the host's policy permits block signatures for sources. Warns if the request asked for more than the
/// default.
fn policy_allows_deltas(request: &TargetRequest, policy: &HostPolicy, reporter: &Reporter) -> bool {
    let Err(refusal) = policy.check(PolicyRule::NoDeltas) else { return true };
    let is_asked_for = request.delta.applies_within_host() || request.sync.detect_renames;
    if is_asked_for && request.compare.is_none() {
        let text = format!("{refusal}; files are sent whole").replace('\n', "; ");
        reporter.send(&WorkerMessage::Warning { text });
    }
    false
}

impl ReceiverCopy {
    pub(crate) fn refuse_operand(&self, refusal: OverwriteRefusal) -> EntryAnswer<ReceiverEntry> {
        self.fail_entry(self.destination.path(b""), refusal.text());
        EntryAnswer::Refused
    }

    /// Reports the decision about an entry that needs no further work.
    pub(crate) fn report_decision(&self, position: &EntryPosition, entry: &Entry, decided: &EntryDecision) {
        if let Some(change) = decided.change {
            self.report_item(|| self.relative(position), entry.into(), change);
        }
    }

    /// As [`Self::report_decision`], for a further name of a file.
    pub(crate) fn report_link(
        &self,
        position: &EntryPosition,
        entry: &Entry,
        decided: &EntryDecision,
        first_name: Vec<u8>,
    ) {
        if let Some(change) = decided.change {
            let reported = ReportedEntry { first_name: Some(first_name), ..ReportedEntry::from(entry) };
            self.report_item(|| self.relative(position), reported, change);
        }
    }

    /// Reports an entry that stays as it is, if that is asked for.
    pub(crate) fn report_unchanged(&self, position: &EntryPosition, entry: &Entry, change: ChangeKind) {
        if self.request.sync.tells_unchanged {
            self.report_item(|| self.relative(position), entry.into(), change);
        }
    }

    /// Reports the target itself, which gets a source's contents, if unchanged entries are to be reported.
    pub(crate) fn report_target(&self, dir: &Dir, entry: &Entry) {
        if !self.request.sync.tells_unchanged || self.destination.is_new || dir.is_absent() || dir.parent().is_some() {
            return;
        }
        let Some(reasons) = self.target_reasons(dir, &entry.meta) else { return };
        let change = if reasons.is_empty() { ChangeKind::Unchanged } else { ChangeKind::Adjusted(reasons) };
        self.report_item(Vec::new, entry.into(), change);
    }

    /// Reports the target itself, if the metadata of the base changes it.
    pub(crate) fn report_base(&self, dir: &Dir, base: &EntryMetadata) {
        if self.destination.is_new || dir.is_absent() {
            return;
        }
        let entry =
            ReportedEntry { modified: Some(base.modified), ..ReportedEntry::without_source(EntryKind::Directory) };
        if let Some(reasons) = self.target_reasons(dir, base).filter(|reasons| !reasons.is_empty()) {
            self.report_item(Vec::new, entry, ChangeKind::Adjusted(reasons));
        }
    }

    fn target_reasons(&self, dir: &Dir, meta: &EntryMetadata) -> Option<ChangeReasons> {
        let there = dir.fd().and_then(|fd| FileStat::at_fd(&*fd)).ok()?.meta;
        let metadata = &self.request.metadata;
        let is_same_time = there.modified == meta.modified
            || self
                .request
                .sync
                .modify_window_s
                .is_some_and(|window_s| is_within(window_s, meta.modified, there.modified));
        let has_time = !metadata.times.directories || is_same_time;
        let has_mode = !metadata.rights.mode || there.mode == meta.mode;
        Some(ChangeReasons::default().and(ChangeReasons::TIME, !has_time).and(ChangeReasons::MODE, !has_mode))
    }

    /// Displayed path of a position, below the destination.
    pub(crate) fn relative(&self, position: &EntryPosition) -> Vec<u8> {
        // A tree with the target's own name is the prefix of all displayed paths.
        let is_label = position.renamed && self.destination.memory.is_some();
        if is_label { Vec::new() } else { position.dir.path_of(position.name.as_bytes()) }
    }

    pub(crate) fn refuse(&self, position: &EntryPosition, error: impl Display) -> EntryAnswer<ReceiverEntry> {
        self.fail_entry(self.destination.path(&self.relative(position)), error);
        EntryAnswer::Refused
    }
}

/// The audit log's term for a change. Received and unchanged files have records of their own.
fn audited(what: EntryKind, change: ChangeKind) -> Option<AuditAction> {
    match (what, change) {
        // Kept files have records of their own.
        (_, ChangeKind::Unchanged | ChangeKind::Kept) => None,
        (_, ChangeKind::Removed) => Some(AuditAction::Removed),
        (_, ChangeKind::Adjusted(_)) => Some(AuditAction::Changed),
        (EntryKind::File, _) => None,
        (_, ChangeKind::Made | ChangeKind::Linked) => Some(AuditAction::Made),
        (_, ChangeKind::Replaced(_)) => Some(AuditAction::Replaced),
    }
}
