//! The target's end of a job: looks at what is there, says what is needed, proves and writes what comes.
//!
//! [`TargetReceiver`] holds the protocol's machine behind a lock. One thread answers offers ([`examine`]), one sends what the
//! machine has to say, one for each stream delivers frames ([`deliver`]), and one has whole files put on the disk before
//! they get their names ([`settle`]). [`landing`] says where it all goes. In a job that only compares ([`compare`]), files
//! are read instead ([`reread`]).

mod commit;
mod compare;
mod decide;
mod delete;
pub(crate) mod delta;
pub(crate) mod file;
mod metadata;
pub(crate) mod place;
#[cfg(test)]
mod race_tests;
mod receive;

pub use self::place::destination::RefusedRequest;
pub use self::place::tree_memory::made_by;
pub use self::receive::deliver::DirectSink;
use crate::receiver::metadata::rights;
use crate::receiver::place::in_order_sink::InOrderSink;

use haul_proto::entry::EntryKind as Kinds;
use haul_proto::error::ProtocolError;
use haul_proto::expected_digests::ExpectedDigests;
use haul_proto::ids::{PathId, StreamId};
use haul_proto::path::{Name, escape};
use haul_proto::scheduler::Chunk;
use haul_proto::session::step::{FinishedEntry, TargetStep};
use haul_proto::session::target::TargetSession as Machine;
use haul_proto::sync::{ChangeKind, EqualityTest};
use haul_proto::wire::list_batch::{DestinationBatch, ListedKinds};
use haul_proto::wire::message::SourceMessage;
use haul_proto::wire::owners::OwnerOptions;
use haul_proto::wire::pipe::PipeKind;
use haul_proto::wire::report::WorkerMessage;
use haul_proto::wire::request::TargetRequest;
use haul_proto::wire::storage::Verify;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use self::compare::entries::Compared;
use self::file::ReceivingFile;
use crate::fs::{Dir, FileStat, mode_without_preserve};
use crate::io::storage::policy::StoragePolicy;
use crate::io::storage::read::FrameReader;
use crate::job::account::{WorkDone, WorkKind};
use crate::job::allowance::Allowance;
use crate::metrics::counter::add;
use crate::metrics::reporter::Reporter;
use crate::net::rate_limiter::RateLimiter;
use crate::policy::HostPolicy;
use crate::receiver::commit::commit_queue::CommitQueue;
use crate::receiver::compare::metadata::ComparedNames;
use crate::receiver::decide::filter::TargetFilter;
use crate::receiver::decide::hard_link_guard::HardLinkGuard;
use crate::receiver::decide::hard_links::HardLinks;
use crate::receiver::decide::link_dests::LinkDests;
use crate::receiver::decide::list_batches::ListedBatches;
use crate::receiver::decide::merged_sources::MergedSources;
use crate::receiver::decide::rename_detection::RenameDetector;
use crate::receiver::decide::wrong_digests::WrongDigests;
use crate::receiver::delete::backup::BackupDirectory;
use crate::receiver::delete::removal::ExtraneousRemoval;
use crate::receiver::delete::source_names::{NameBudget, SourceNames};
use crate::receiver::delta::block_signatures::SignatureTask;
use crate::receiver::delta::delta_apply::DeltaFrameBuild;
use crate::receiver::metadata::owners::TargetOwners;
use crate::receiver::metadata::timestamps::TargetTimestamps;
use crate::receiver::metadata::widened_directories::WidenedDirectories;
use crate::receiver::place::case_folding::CaseFolding;
use crate::receiver::place::destination::Destination;
use crate::receiver::place::job_locks::JobLocks;
use crate::receiver::place::job_quota::JobQuota;
use crate::receiver::place::journal::JournalLocation;
use crate::receiver::place::parent_directories::Below;
use crate::receiver::place::temp_files::TempFiles;
use crate::receiver::receive::bounded_queue::BoundedQueue;
use crate::receiver::receive::frame_writer::WriteBuffers;
use crate::receiver::receive::partial_verification::VerificationQueue;
use crate::receiver::receive::reflink::ReflinkSupport;
use crate::sys::confine::{ConfineBounds, ConfineRights};
use crate::sys::describe::describe;
use crate::sys::notify::Notify;
use haul_proto::entry::EntryMetadata;
use haul_proto::entry_extras::{ExtendedAttribute, ExtrasFilter};

/// The target's end of a job.
pub struct TargetReceiver {
    request: TargetRequest,
    landing: Destination,
    /// Where operands go below it.
    below: Below,
    /// Those of a list.
    listed: ListedBatches,
    umask: u16,
    /// Symbolic links that lead out of the working directory are refused.
    links_inside: bool,
    /// What was there before keeps its metadata.
    creates_only: bool,
    state: Mutex<ReceiverState>,
    outbox: Notify,
    unfinished: TempFiles,
    rivals: JobLocks,
    journals: JournalLocation,
    /// What earlier runs left, to be proven.
    claims: VerificationQueue,
    /// Files that are to be compared.
    rereads: BoundedQueue<Chunk<ReceiverEntry>>,
    /// Old files that are to be told of.
    signings: BoundedQueue<SignatureTask>,
    /// Frames that are to be made of old files.
    makings: BoundedQueue<DeltaFrameBuild>,
    /// There may be room for what is told of them.
    old_files_room: Notify,
    /// The names that are remembered for that.
    names_kept: NameBudget,
    /// What the source leaves out.
    filtered: TargetFilter,
    /// Where what is replaced or removed goes.
    backup: Option<BackupDirectory>,
    /// What is removed.
    removal: ExtraneousRemoval,
    /// The source is in this process.
    is_both_ends: AtomicBool,
    /// How files are written.
    policy: StoragePolicy,
    /// How fast data may come.
    pace: RateLimiter,
    /// How much may come.
    quota: Arc<JobQuota>,
    /// Room for what streams write past the page cache.
    buffers: WriteBuffers,
    /// Whose blocks files cannot share.
    sharing: ReflinkSupport,
    /// Files of which more names may come.
    hard_links: HardLinks,
    compared_names: ComparedNames,
    merged: MergedSources,
    /// In a dry run: what was answered last would be new in its place.
    dry_new: AtomicBool,
    /// What is there under several names.
    several: HardLinkGuard,
    /// What it has under other names.
    renames: RenameDetector,
    /// Whose what is made becomes.
    owners: TargetOwners,
    /// Earlier copies, whose files this one's may be names of.
    earlier: LinkDests,
    /// What is known of names that are spelled otherwise.
    spellings: CaseFolding,
    /// Whether the host's policy lets sources have hashes of blocks.
    allows_deltas: bool,
    /// Digests of files that are there, as they were offered wrong.
    wrong_digests: WrongDigests,
    /// Directories that their owner could not write to.
    widened: WidenedDirectories,
    /// How precisely times are kept.
    timestamps: TargetTimestamps,
    /// Whole files that have to be on the disk before they get their names.
    settling: CommitQueue,
    /// Cleared once the file system has refused to make files without a name.
    nameless_files: AtomicBool,
    /// What files are held against, by their names.
    expected: Option<ExpectedDigests>,
    /// Whoever makes streams and ends them.
    wishes: OnceLock<StreamRequests>,
    /// Reports to the controller.
    pub reporter: Reporter,
}

/// What the source wants of the streams.
pub enum StreamRequest {
    /// So many more over this path, where this is the end that makes them.
    More(u16, PathId),
    /// Without these: it has given them up.
    Without(Vec<StreamId>),
}

/// Said of a file whose frames are not the file that the source says they are.
const MISMATCH: &str = "what arrived is not what the source read\nrun the same command again";

/// Where owners are not kept, there is nothing to be found out of them.
const NUMERIC: &OwnerOptions = &OwnerOptions { by_name: false, users: Vec::new(), groups: Vec::new() };

/// Is told what the source wants of the streams.
type StreamRequests = Box<dyn Fn(StreamRequest) + Send + Sync>;

struct ReceiverState {
    machine: Machine<ReceiverEntry>,
    stopped: bool,
}

/// What the target knows an entry by.
#[allow(clippy::large_enum_variant, reason = "each lies in an Arc of its own, and most of them are files")]
pub enum ReceiverEntry {
    /// A directory.
    Directory {
        /// Where its children go.
        dir: Dir,
        /// Made in this run and by nobody else, so that nothing can be in it yet.
        fresh: bool,
        /// What the source has in it, where everything else is removed.
        names: Option<SourceNames>,
        /// What it gets when everything in it is settled.
        meta: EntryMetadata,
        /// The same, where they are kept.
        attributes: Option<Box<[ExtendedAttribute]>>,
    },
    /// A file that is needed.
    File(ReceivingFile),
    /// Another name of a file.
    HardLink,
    /// What is there, and is only compared.
    Compared(Compared),
}

/// What the process was started with.
#[derive(Debug, Default)]
pub struct WorkerContext {
    /// The file mode creation mask.
    pub umask: u16,
    /// Where trees are remembered; `None` where there is no such place.
    pub state_dir: Option<PathBuf>,
    /// What the host's policy forbids.
    pub policy: HostPolicy,
    /// At most so many bytes a second may come.
    pub rate: Option<u64>,
    /// What a server takes from all its clients.
    pub allowance: Option<Arc<Allowance>>,
    /// Symbolic links that lead out of the working directory are refused.
    pub links_inside: bool,
    /// What was there before keeps its metadata.
    pub creates_only: bool,
}

fn journals(request: &TargetRequest) -> Result<JournalLocation, RefusedRequest> {
    let directory = Path::new(OsStr::from_bytes(&request.journal_dir));
    let directory = (!request.journal_dir.is_empty()).then_some(directory);
    JournalLocation::new(request.resume, directory).map_err(|error| {
        let text = format!("{} cannot hold the journals (-a): {}", escape(&request.journal_dir), describe(&error));
        RefusedRequest { usage: true, text }
    })
}

impl TargetReceiver {
    /// Finds out where the data lands. `standard_output` is that of whoever typed the command, where this worker was given
    /// it.
    pub fn prepare(
        request: TargetRequest,
        reporter: Reporter,
        surroundings: &WorkerContext,
        standard_output: Option<OwnedFd>,
    ) -> Result<Self, RefusedRequest> {
        let quota = Arc::new(JobQuota::new(surroundings.allowance.clone()));
        quota
            .take_names(place::destination::missing_directories(&request))
            .map_err(|text| RefusedRequest { usage: false, text })?;
        let landing = match request.pipe {
            PipeKind::No => place::destination::find(&request, surroundings.state_dir.as_deref(), &reporter)?,
            PipeKind::Standard | PipeKind::Named | PipeKind::Growing(_) => {
                place::destination::pipe(&request, standard_output, &surroundings.policy)?
            }
        };
        reporter.set_label(&landing.path(b""));
        let earlier = LinkDests::open(&request.sync.link_dests, landing.root(&request), &reporter);
        let owners = TargetOwners::new(if request.preserve { &request.owners } else { NUMERIC })?;
        let storage = request.storage;
        let journals = journals(&request)?;
        let filtered = TargetFilter::new(&request.filters);
        let backup = BackupDirectory::prepare(&request, &landing, &quota)?;
        let kept = earlier.roots().chain(backup.as_ref().map(BackupDirectory::identity));
        let removal = ExtraneousRemoval::prepare(&request, kept)?;
        let rivals = JobLocks::new(request.again);
        let expected = receive::digest_checks::no_lines(&request);
        let settling = CommitQueue::new(request.fsync, &request.settings);
        let mut machine = Machine::new(request.settings.frame);
        if request.verify == Verify::Disk {
            machine.keep_values();
        }
        if receive::digest_checks::waits_for_sums(&request) {
            machine.await_sums();
        }
        machine.begin_with_wrong_deltas(request.delta.wrong_before);
        let allows_deltas = delta::find_base::policy_allows_deltas(&request, &surroundings.policy, &reporter);
        let state = Mutex::new(ReceiverState { machine, stopped: false });
        let target = Self {
            merged: MergedSources::new(&request.operands, request.listed),
            request,
            landing,
            below: Below::default(),
            listed: ListedBatches::default(),
            umask: surroundings.umask,
            links_inside: surroundings.links_inside,
            creates_only: surroundings.creates_only,
            state,
            outbox: Notify::default(),
            unfinished: TempFiles::default(),
            rivals,
            journals,
            claims: VerificationQueue::default(),
            rereads: BoundedQueue::default(),
            signings: BoundedQueue::default(),
            makings: BoundedQueue::default(),
            old_files_room: Notify::default(),
            names_kept: NameBudget::default(),
            filtered,
            backup,
            removal,
            is_both_ends: AtomicBool::new(false),
            policy: StoragePolicy::new(storage),
            pace: RateLimiter::new(surroundings.rate.unwrap_or(0)),
            quota,
            buffers: WriteBuffers::default(),
            sharing: ReflinkSupport::default(),
            hard_links: HardLinks::default(),
            compared_names: ComparedNames::default(),
            dry_new: AtomicBool::new(false),
            several: HardLinkGuard::default(),
            renames: RenameDetector::default(),
            earlier,
            owners,
            spellings: CaseFolding::default(),
            allows_deltas,
            wrong_digests: WrongDigests::default(),
            widened: WidenedDirectories::default(),
            timestamps: TargetTimestamps::default(),
            settling,
            nameless_files: AtomicBool::new(true),
            expected,
            wishes: OnceLock::new(),
            reporter,
        };
        if target.landing.is_new {
            target.tell_item(Vec::new, Kinds::Directory, ChangeKind::Made);
        }
        Ok(target)
    }

    /// What it writes to, or only reads: where the data lands, where journals lie, and what remembers a tree.
    pub fn allow(&self, bounds: &mut ConfineBounds) {
        let kept = self.request.kept;
        // A name of an earlier copy's file is a link from one directory into another, and so is a backup: whatever it is.
        let backs_up = self.backup.is_some();
        let hard_links = kept.hard_links || !self.request.sync.link_dests.is_empty() || backs_up;
        let (devices, specials) = (kept.devices || backs_up, kept.specials || backs_up);
        let rights = match self.compares() || self.is_dry() {
            true => ConfineRights::ReadTree,
            false => ConfineRights::Land(haul_proto::wire::preserve::PreserveOptions {
                hard_links,
                devices,
                specials,
                ..kept
            }),
        };
        self.landing.allow(bounds, rights);
        self.earlier.allow(bounds, rights);
        self.backup.iter().for_each(|backup| backup.allow(bounds, rights));
        self.journals.allow(bounds);
    }

    /// What it has done, for a server's log.
    pub fn did(&self) -> WorkDone {
        let counters = self.reporter.tally.counters();
        let (what, files, bytes) = match self.compares() {
            true => (WorkKind::Compared, counters.files_compared, counters.bytes_compared),
            false => (WorkKind::Received, counters.files_copied, counters.bytes_written),
        };
        WorkDone { what, files, bytes, failed: counters.failed, path: escape(&self.request.path) }
    }

    /// The job is over: what it did not bring is left to other clients.
    pub fn end_quota(&self) {
        self.quota.end(self.reporter.tally.counters().bytes_written);
    }

    /// What both ends agreed on.
    pub fn settings(&self) -> &haul_proto::wire::request::SessionSettings {
        &self.request.settings
    }

    /// Takes a message of the source. Offers are looked at here and now.
    pub fn handle_peer(&self, bytes: &[u8]) -> Result<(), ProtocolError> {
        let message = SourceMessage::decode_keeping(bytes, self.request.settings.number, self.extras_kept())?;
        let is_incomplete = matches!(message, SourceMessage::DirectoryEnd { complete: false, .. });
        if let SourceMessage::DirectoryEnd { entry, .. } = message {
            self.reserve_removals(entry, is_incomplete);
        }
        let step = self.lock().machine.handle(message)?;
        if is_incomplete {
            self.hinder_removal();
        }
        match step {
            TargetStep::Passed(before) => {
                self.listed.passed(before)?;
                self.reporter.send(&WorkerMessage::ListAck { before });
            }
            TargetStep::Owner { is_group, id, name } => self.owners.learn(is_group, id, &name)?,
            TargetStep::Patterns(entry, file, text) => self.filtered.add(entry, file, text)?,
            step => {
                if let TargetStep::Examine(first, entries) = &step {
                    self.count_links(*first, entries)?;
                }
                self.take(self.without_reading(step));
            }
        }
        self.outbox.notify_all();
        Ok(())
    }

    /// What the Request keeps of entries' extras.
    fn extras_kept(&self) -> ExtrasFilter {
        let kept = self.request.kept;
        ExtrasFilter {
            names: kept.hard_links,
            attributes: kept.attributes,
            acls: kept.acls,
            digest: self.request.sync.equal == EqualityTest::Digest,
            parent_modes: self.request.listed != ListedKinds::No || !self.request.rules.below.is_empty(),
        }
    }

    /// Takes operands that come while the job runs.
    pub fn add_listed(&self, batch: DestinationBatch) -> Result<(), ProtocolError> {
        match self.request.listed {
            ListedKinds::No => Err(ProtocolError::Unasked("a listed operand")),
            ListedKinds::Files | ListedKinds::Trees => self.listed.add(batch),
        }
    }

    /// Says what is to be done when the source wants something of the streams. Only the first call counts.
    pub fn when_wished(&self, fulfil: impl Fn(StreamRequest) + Send + Sync + 'static) {
        let _ = self.wishes.set(Box::new(fulfil));
    }

    fn wish(&self, wish: StreamRequest) {
        if let Some(fulfil) = self.wishes.get() {
            fulfil(wish);
        }
    }

    /// Source and target are one process. To be said before anything is offered.
    pub fn joins_source(&self) {
        self.is_both_ends.store(true, Ordering::Relaxed);
    }

    /// Reads what is at the target, as a stream does.
    fn reader(&self) -> FrameReader {
        let frame_bytes = self.request.settings.frame.bytes();
        FrameReader::new(frame_bytes, self.policy.depth(frame_bytes))
    }

    /// Nothing more is to be proven or compared: everything is settled, or the job is stopped.
    pub fn is_over(&self) {
        self.claims.close();
        self.rereads.close();
        self.signings.close();
        self.makings.close();
        self.old_files_room.notify_all();
    }

    /// Whether everything is settled.
    pub fn is_finished(&self) -> bool {
        self.lock().machine.is_finished()
    }

    /// Waits for messages for the source; `None` when there will be no more.
    pub fn wait_for_messages(&self) -> Option<Vec<Vec<u8>>> {
        let mut state = self.lock();
        loop {
            let messages: Vec<_> = std::iter::from_fn(|| state.machine.poll_message()).collect();
            if !messages.is_empty() {
                drop(state);
                return Some(messages.iter().map(|message| message.encode(self.request.settings.number)).collect());
            }
            if state.stopped {
                return None;
            }
            if state.machine.is_finished() {
                drop(state);
                self.remove_later();
                self.settle_landing();
                return None;
            }
            state = self.outbox.wait(state);
        }
    }

    /// Stops all threads at their next step and removes what is not finished.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.outbox.notify_all();
        self.pace.set(0);
        self.settling.stop();
        self.is_over();
        self.rivals.close();
        self.removal.stop();
        self.landing.abandon();
        self.restore_modes();
        self.unfinished.close(self.request.keep_partial);
    }

    /// Does what follows from a message or a frame.
    fn take(&self, step: TargetStep<ReceiverEntry>) {
        match step {
            TargetStep::None | TargetStep::Passed(_) | TargetStep::Owner { .. } | TargetStep::Patterns(..) => {}
            TargetStep::LeftOut(item, names) => match &*item {
                ReceiverEntry::Compared(compared) => compared.not_offered(&names),
                item => self.left_out_there(item, &names),
            },
            TargetStep::Examine(first, mut entries) => {
                self.owners.put(&mut entries);
                self.settling.wait_for_room();
                self.examine(first, &entries);
            }
            TargetStep::Connect(count, path) => self.wish(StreamRequest::More(count, path)),
            TargetStep::StreamsLost(streams) => self.wish(StreamRequest::Without(streams)),
            TargetStep::Finish(finish) => self.finish(Some(finish)),
            TargetStep::Sum(entry, item, size) => self.sum_up(entry, &item, size),
            TargetStep::Abandon(entry, item, _) => {
                if let ReceiverEntry::File(incoming) = &*item {
                    incoming.discard(&self.unfinished);
                }
                let next = self.lock().machine.abandoned(entry);
                self.old_files_room.notify_all();
                self.finish(next);
                self.settle_links(entry, false);
            }
            TargetStep::Mismatch(entry, item) => match &*item {
                ReceiverEntry::Compared(Compared::File(file)) => self.compare_failed(entry, file, MISMATCH),
                ReceiverEntry::File(incoming) => {
                    incoming.discard(&self.unfinished);
                    self.fail(incoming.path(&self.landing), MISMATCH);
                    self.settle(entry, false);
                }
                ReceiverEntry::Directory { .. } | ReceiverEntry::HardLink | ReceiverEntry::Compared(_) => {
                    self.settle(entry, false);
                }
            },
            TargetStep::Differs(entry, item, differing) => self.content_differs(entry, &item, &differing),
        }
    }

    /// Whether a program takes what arrives: then [`Self::watch_program`] needs a thread.
    pub fn has_program(&self) -> bool {
        self.landing.sink().is_some_and(InOrderSink::has_program)
    }

    /// Looks now and then, until `pause` says that the job is over, whether the program has failed: its source may say
    /// nothing for long. Returns how it did.
    pub fn watch_program(&self, pause: impl Fn() -> bool) -> Option<String> {
        let sink = self.landing.sink()?;
        while pause() {
            if let Some(text) = sink.has_failed() {
                return Some(text);
            }
        }
        None
    }

    /// Whether anything is ever waited for before a file gets its name: then [`Self::settle_groups`] needs a thread.
    pub fn has_groups(&self) -> bool {
        self.settling.is_wanted()
    }

    /// Gives a directory its metadata, and those that this completes, upwards. A file gets its own, and then its name at
    /// once or when it is on the disk.
    fn finish(&self, mut next: Option<FinishedEntry<ReceiverEntry>>) {
        if next.is_none() {
            return;
        }
        while let Some(FinishedEntry { entry, handle, end, complete }) = next {
            let scope = self.filtered.leave(entry);
            let done = match (&*handle, end) {
                (ReceiverEntry::Directory { dir, fresh, meta, attributes, names }, _) => {
                    if let Some(names) = names {
                        self.sweep(&handle, dir, names, scope.as_ref());
                    }
                    self.removes_only() && self.leave_unchanged(dir)
                        || self.finish_directory(dir, *fresh, meta, attributes.as_deref())
                }
                (ReceiverEntry::File(_), Some(end)) => return self.finish_file(entry, handle, end),
                (ReceiverEntry::File(_) | ReceiverEntry::HardLink, _) => false,
                (ReceiverEntry::Compared(compared), end) => {
                    let is_left_out =
                        |name: &Name, is_directory| self.filtered.leaves_out(scope.as_ref(), name, is_directory);
                    self.finish_compared(compared, end.map(|end| end.digest), complete, &is_left_out)
                }
            };
            next = self.lock().machine.settle(entry, done);
        }
        self.old_files_room.notify_all();
        self.outbox.notify_all();
    }

    /// Nothing but removal was done in a directory.
    fn leave_unchanged(&self, dir: &Dir) -> bool {
        self.restore_mode(dir);
        true
    }

    fn finish_directory(
        &self,
        dir: &Dir,
        fresh: bool,
        meta: &EntryMetadata,
        attributes: Option<&[ExtendedAttribute]>,
    ) -> bool {
        if self.is_dry() {
            return true;
        }
        let settled = self.complete_directory(dir, fresh, meta, attributes);
        dir.keep_parent_open();
        match settled.and_then(|refused| refused.map_or(Ok(()), |text| Err(std::io::Error::other(text)))) {
            Ok(()) => {
                add(&self.reporter.tally.directories, 1);
                true
            }
            Err(error) => {
                self.fail(self.landing.path(&dir.path_bytes()), describe(&error));
                false
            }
        }
    }

    /// Everything in a directory is there: gives it its metadata, and has it put on the disk. `Some` says which attribute
    /// could not be set.
    fn complete_directory(
        &self,
        dir: &Dir,
        fresh: bool,
        meta: &EntryMetadata,
        attributes: Option<&[ExtendedAttribute]>,
    ) -> std::io::Result<Option<String>> {
        if self.creates_only && !fresh {
            return self.settle_directory(dir).map(|()| None);
        }
        let made = dir.fd().and_then(|fd| {
            let wanted = self.directory_mode(meta, fresh);
            let there = FileStat::at_fd(&*fd)?;
            let mode = wanted.filter(|mode| self.request.preserve || there.meta.mode & 0o777 != *mode);
            // A time that the file system cannot keep more precisely is not set again.
            let meta = match self.is_same_time(dir, meta.modified, &there) {
                true => &EntryMetadata { modified: there.meta.modified, ..*meta },
                false => meta,
            };
            let applied = self.put_on_directory(&*fd, meta, mode, fresh, attributes);
            // A directory that was there before may be somebody else's; what was to go into it is in it.
            let foreign = !fresh && !self.request.preserve && applied.as_ref().is_err_and(rights::is_not_ours);
            if foreign { Ok(None) } else { applied }
        });
        match made {
            Ok(_) => self.is_restored(dir),
            Err(_) => self.restore_mode(dir),
        }
        made.and_then(|refused| self.settle_directory(dir).map(|()| refused))
    }

    /// The mode that a directory is to have in the end; `None` leaves one alone that was there before.
    fn directory_mode(&self, meta: &EntryMetadata, fresh: bool) -> Option<u16> {
        match (self.request.preserve, fresh) {
            (true, _) => Some(meta.mode),
            (false, true) => Some(mode_without_preserve(meta.mode, self.umask)),
            (false, false) => None,
        }
    }

    fn settle(&self, entry: haul_proto::ids::EntryId, done: bool) {
        let next = self.lock().machine.settle(entry, done);
        self.finish(next);
        self.old_files_room.notify_all();
        self.outbox.notify_all();
        self.settle_links(entry, done);
    }

    fn fail(&self, path: Vec<u8>, text: impl Into<String>) {
        self.reporter.failed(path, text);
    }

    fn lock(&self) -> MutexGuard<'_, ReceiverState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
