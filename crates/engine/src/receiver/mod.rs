//! The target's end of a job: looks at what is there, says what is needed, proves and writes what comes.
//!
//! [`Target`] holds the protocol's machine behind a lock. One thread answers offers ([`examine`]), one sends what the
//! machine has to say, one for each stream delivers frames ([`deliver`]), and one has whole files put on the disk before
//! they get their names ([`settle`]). [`landing`] says where it all goes. In a job that only compares ([`compare`]), files
//! are read instead ([`reread`]).

mod again;
mod attributes;
mod backup;
mod basis;
mod below;
mod checkpoint;
mod clear;
mod compare;
mod compared;
mod deliver;
mod directories;
mod dry;
mod durable;
mod earlier;
mod examine;
mod exchange;
pub(crate) mod file;
mod filtered;
mod first_names;
mod guesses;
pub(crate) mod in_place;
mod items;
pub(crate) mod journal;
mod landing;
mod links;
mod listed;
mod made;
mod memory;
mod merged;
mod modes;
mod names;
mod needed;
mod nodes;
mod order;
mod owners;
mod proof;
mod queue;
mod quota;
#[cfg(test)]
mod race_tests;
mod readback;
mod removal;
mod renames;
mod reread;
mod rights;
pub(crate) mod rivals;
mod same;
mod settle;
mod several;
mod share;
mod sign;
mod sink;
mod spelling;
mod standing;
mod sum;
mod sweep;
pub(crate) mod temporary;
mod timestamps;
mod waiting;
mod whole;
mod widened;
mod writer;

pub use self::deliver::Direct;
use haul_proto::entry::EntryKind as Kinds;
use haul_proto::error::ProtocolError;
use haul_proto::expected_digests::Expected;
use haul_proto::ids::{PathId, StreamId};
use haul_proto::path::{Name, escape};
use haul_proto::scheduler::Piece;
use haul_proto::session::step::{Finish, Step};
use haul_proto::session::target::Target as Machine;
use haul_proto::sync::{Change, Equal};
use haul_proto::wire::list_batch::{ListedKinds, Places};
use haul_proto::wire::message::SourceMessage;
use haul_proto::wire::owners::OwnerRules;
use haul_proto::wire::pipe::Pipe;
use haul_proto::wire::report::WorkerMessage;
use haul_proto::wire::request::TargetRequest;
use haul_proto::wire::storage::Verify;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use self::backup::Backup;
use self::below::Below;
use self::compare::Compared;
use self::compared::ComparedNames;
use self::earlier::Earlier;
use self::file::Incoming;
use self::filtered::Filtered;
use self::guesses::WrongDigests;
use self::journal::Journals;
use self::landing::Landing;
pub use self::landing::Refused;
use self::links::HardLinks;
use self::listed::Listed;
use self::made::Making;
pub use self::memory::made_by;
use self::merged::Merged;
use self::names::{Kept, Names};
use self::owners::Owners;
use self::proof::Claims;
use self::queue::Settling;
use self::quota::Quota;
use self::removal::Removal;
use self::renames::Renames;
use self::rivals::Rivals;
use self::several::Several;
use self::share::Sharing;
use self::sign::Signing;
use self::spelling::Spellings;
use self::temporary::Unfinished;
use self::timestamps::Timestamps;
use self::waiting::Waiting;
use self::widened::Widened;
use self::writer::Buffers;
use crate::fs::{Dir, Look, mode_without_preserve};
use crate::io::storage::policy::Policy;
use crate::io::storage::read::Reader;
use crate::job::account::{Did, What};
use crate::job::allowance::Allowance;
use crate::metrics::reporter::{Reporter, add};
use crate::net::rate_limiter::Pace;
use crate::policy::HostPolicy;
use crate::sys::confine::{Bounds, Rights};
use crate::sys::describe::describe;
use crate::sys::notify::Signal;
use haul_proto::entry::Meta;
use haul_proto::entry_extras::{Attribute, Extras};

/// The target's end of a job.
pub struct Target {
    request: TargetRequest,
    landing: Landing,
    /// Where operands go below it.
    below: Below,
    /// Those of a list.
    listed: Listed,
    umask: u16,
    /// Symbolic links that lead out of the working directory are refused.
    links_inside: bool,
    /// What was there before keeps its metadata.
    creates_only: bool,
    state: Mutex<State>,
    outbox: Signal,
    unfinished: Unfinished,
    rivals: Rivals,
    journals: Journals,
    /// What earlier runs left, to be proven.
    claims: Claims,
    /// Files that are to be compared.
    rereads: Waiting<Piece<Item>>,
    /// Old files that are to be told of.
    signings: Waiting<Signing>,
    /// Frames that are to be made of old files.
    makings: Waiting<Making>,
    /// There may be room for what is told of them.
    old_files_room: Signal,
    /// The names that are remembered for that.
    names_kept: Kept,
    /// What the source leaves out.
    filtered: Filtered,
    /// Where what is replaced or removed goes.
    backup: Option<Backup>,
    /// What is removed.
    removal: Removal,
    /// The source is in this process.
    is_both_ends: AtomicBool,
    /// How files are written.
    policy: Policy,
    /// How fast data may come.
    pace: Pace,
    /// How much may come.
    quota: Arc<Quota>,
    /// Room for what streams write past the page cache.
    buffers: Buffers,
    /// Whose blocks files cannot share.
    sharing: Sharing,
    /// Files of which more names may come.
    hard_links: HardLinks,
    compared_names: ComparedNames,
    merged: Merged,
    /// In a dry run: what was answered last would be new in its place.
    dry_new: AtomicBool,
    /// What is there under several names.
    several: Several,
    /// What it has under other names.
    renames: Renames,
    /// Whose what is made becomes.
    owners: Owners,
    /// Earlier copies, whose files this one's may be names of.
    earlier: Earlier,
    /// What is known of names that are spelled otherwise.
    spellings: Spellings,
    /// Whether the host's policy lets sources have hashes of blocks.
    allows_deltas: bool,
    /// Digests of files that are there, as they were offered wrong.
    wrong_digests: WrongDigests,
    /// Directories that their owner could not write to.
    widened: Widened,
    /// How precisely times are kept.
    timestamps: Timestamps,
    /// Whole files that have to be on the disk before they get their names.
    settling: Settling,
    /// Cleared once the file system has refused to make files without a name.
    nameless_files: AtomicBool,
    /// What files are held against, by their names.
    expected: Option<Expected>,
    /// Whoever makes streams and ends them.
    wishes: OnceLock<Wishes>,
    /// Reports to the controller.
    pub reporter: Reporter,
}

/// What the source wants of the streams.
pub enum StreamsWish {
    /// So many more over this path, where this is the end that makes them.
    More(u16, PathId),
    /// Without these: it has given them up.
    Without(Vec<StreamId>),
}

/// Said of a file whose frames are not the file that the source says they are.
const MISMATCH: &str = "what arrived is not what the source read\nrun the same command again";

/// Where owners are not kept, there is nothing to be found out of them.
const NUMERIC: &OwnerRules = &OwnerRules { by_name: false, users: Vec::new(), groups: Vec::new() };

/// Is told what the source wants of the streams.
type Wishes = Box<dyn Fn(StreamsWish) + Send + Sync>;

struct State {
    machine: Machine<Item>,
    stopped: bool,
}

/// What the target knows an entry by.
#[allow(clippy::large_enum_variant, reason = "each lies in an Arc of its own, and most of them are files")]
pub enum Item {
    /// A directory.
    Directory {
        /// Where its children go.
        dir: Dir,
        /// Made in this run and by nobody else, so that nothing can be in it yet.
        fresh: bool,
        /// What the source has in it, where everything else is removed.
        names: Option<Names>,
        /// What it gets when everything in it is settled.
        meta: Meta,
        /// The same, where they are kept.
        attributes: Option<Box<[Attribute]>>,
    },
    /// A file that is needed.
    File(Incoming),
    /// Another name of a file.
    HardLink,
    /// What is there, and is only compared.
    Compared(Compared),
}

/// What the process was started with.
#[derive(Debug, Default)]
pub struct Surroundings {
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

fn journals(request: &TargetRequest) -> Result<Journals, Refused> {
    let directory = Path::new(OsStr::from_bytes(&request.journal_dir));
    let directory = (!request.journal_dir.is_empty()).then_some(directory);
    Journals::new(request.resume, directory).map_err(|error| {
        let text = format!("{} cannot hold the journals (-a): {}", escape(&request.journal_dir), describe(&error));
        Refused { usage: true, text }
    })
}

impl Target {
    /// Finds out where the data lands. `standard_output` is that of whoever typed the command, where this worker was given
    /// it.
    pub fn prepare(
        request: TargetRequest,
        reporter: Reporter,
        surroundings: &Surroundings,
        standard_output: Option<OwnedFd>,
    ) -> Result<Self, Refused> {
        let quota = Arc::new(Quota::new(surroundings.allowance.clone()));
        quota.take_names(landing::missing_directories(&request)).map_err(|text| Refused { usage: false, text })?;
        let landing = match request.pipe {
            Pipe::No => landing::find(&request, surroundings.state_dir.as_deref(), &reporter)?,
            Pipe::Standard | Pipe::Named | Pipe::Growing(_) => {
                landing::pipe(&request, standard_output, &surroundings.policy)?
            }
        };
        reporter.set_label(&landing.path(b""));
        let earlier = Earlier::open(&request.sync.link_dests, landing.root(&request), &reporter);
        let owners = Owners::new(if request.preserve { &request.owners } else { NUMERIC })?;
        let storage = request.storage;
        let journals = journals(&request)?;
        let filtered = Filtered::new(&request.filters);
        let backup = Backup::prepare(&request, &landing, &quota)?;
        let kept = earlier.roots().chain(backup.as_ref().map(Backup::identity));
        let removal = Removal::prepare(&request, kept)?;
        let rivals = Rivals::new(request.again);
        let expected = sum::no_lines(&request);
        let settling = Settling::new(request.fsync, &request.settings);
        let mut machine = Machine::new(request.settings.frame);
        if request.verify == Verify::Disk {
            machine.keep_values();
        }
        if sum::waits_for_sums(&request) {
            machine.await_sums();
        }
        machine.begin_with_wrong_deltas(request.delta.wrong_before);
        let allows_deltas = basis::policy_allows_deltas(&request, &surroundings.policy, &reporter);
        let state = Mutex::new(State { machine, stopped: false });
        let target = Self {
            merged: Merged::new(&request.operands, request.listed),
            request,
            landing,
            below: Below::default(),
            listed: Listed::default(),
            umask: surroundings.umask,
            links_inside: surroundings.links_inside,
            creates_only: surroundings.creates_only,
            state,
            outbox: Signal::default(),
            unfinished: Unfinished::default(),
            rivals,
            journals,
            claims: Claims::default(),
            rereads: Waiting::default(),
            signings: Waiting::default(),
            makings: Waiting::default(),
            old_files_room: Signal::default(),
            names_kept: Kept::default(),
            filtered,
            backup,
            removal,
            is_both_ends: AtomicBool::new(false),
            policy: Policy::new(storage),
            pace: Pace::new(surroundings.rate.unwrap_or(0)),
            quota,
            buffers: Buffers::default(),
            sharing: Sharing::default(),
            hard_links: HardLinks::default(),
            compared_names: ComparedNames::default(),
            dry_new: AtomicBool::new(false),
            several: Several::default(),
            renames: Renames::default(),
            earlier,
            owners,
            spellings: Spellings::default(),
            allows_deltas,
            wrong_digests: WrongDigests::default(),
            widened: Widened::default(),
            timestamps: Timestamps::default(),
            settling,
            nameless_files: AtomicBool::new(true),
            expected,
            wishes: OnceLock::new(),
            reporter,
        };
        if target.landing.is_new {
            target.tell_item(Vec::new, Kinds::Directory, Change::Made);
        }
        Ok(target)
    }

    /// What it writes to, or only reads: where the data lands, where journals lie, and what remembers a tree.
    pub fn allow(&self, bounds: &mut Bounds) {
        let kept = self.request.kept;
        // A name of an earlier copy's file is a link from one directory into another, and so is a backup: whatever it is.
        let backs_up = self.backup.is_some();
        let hard_links = kept.hard_links || !self.request.sync.link_dests.is_empty() || backs_up;
        let (devices, specials) = (kept.devices || backs_up, kept.specials || backs_up);
        let rights = match self.compares() || self.is_dry() {
            true => Rights::ReadTree,
            false => Rights::Land(haul_proto::wire::preserve::Kept { hard_links, devices, specials, ..kept }),
        };
        self.landing.allow(bounds, rights);
        self.earlier.allow(bounds, rights);
        self.backup.iter().for_each(|backup| backup.allow(bounds, rights));
        self.journals.allow(bounds);
    }

    /// What it has done, for a server's log.
    pub fn did(&self) -> Did {
        let counters = self.reporter.tally.counters();
        let (what, files, bytes) = match self.compares() {
            true => (What::Compared, counters.files_compared, counters.bytes_compared),
            false => (What::Received, counters.files_copied, counters.bytes_written),
        };
        Did { what, files, bytes, failed: counters.failed, path: escape(&self.request.path) }
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
            Step::Passed(before) => {
                self.listed.passed(before)?;
                self.reporter.send(&WorkerMessage::Passed { before });
            }
            Step::Owner { is_group, id, name } => self.owners.learn(is_group, id, &name)?,
            Step::Patterns(entry, file, text) => self.filtered.add(entry, file, text)?,
            step => {
                if let Step::Examine(first, entries) = &step {
                    self.count_links(*first, entries)?;
                }
                self.take(self.without_reading(step));
            }
        }
        self.outbox.notify_all();
        Ok(())
    }

    /// What the Request keeps of entries' extras.
    fn extras_kept(&self) -> Extras {
        let kept = self.request.kept;
        Extras {
            names: kept.hard_links,
            attributes: kept.attributes,
            acls: kept.acls,
            digest: self.request.sync.equal == Equal::Digest,
            parent_modes: self.request.listed != ListedKinds::No || !self.request.rules.below.is_empty(),
        }
    }

    /// Takes operands that come while the job runs.
    pub fn add_listed(&self, batch: Places) -> Result<(), ProtocolError> {
        match self.request.listed {
            ListedKinds::No => Err(ProtocolError::Unasked("a listed operand")),
            ListedKinds::Files | ListedKinds::Trees => self.listed.add(batch),
        }
    }

    /// Says what is to be done when the source wants something of the streams. Only the first call counts.
    pub fn when_wished(&self, fulfil: impl Fn(StreamsWish) + Send + Sync + 'static) {
        let _ = self.wishes.set(Box::new(fulfil));
    }

    fn wish(&self, wish: StreamsWish) {
        if let Some(fulfil) = self.wishes.get() {
            fulfil(wish);
        }
    }

    /// Source and target are one process. To be said before anything is offered.
    pub fn joins_source(&self) {
        self.is_both_ends.store(true, Ordering::Relaxed);
    }

    /// Reads what is at the target, as a stream does.
    fn reader(&self) -> Reader {
        let frame_bytes = self.request.settings.frame.bytes();
        Reader::new(frame_bytes, self.policy.depth(frame_bytes))
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
    fn take(&self, step: Step<Item>) {
        match step {
            Step::None | Step::Passed(_) | Step::Owner { .. } | Step::Patterns(..) => {}
            Step::LeftOut(item, names) => match &*item {
                Item::Compared(compared) => compared.not_offered(&names),
                item => self.left_out_there(item, &names),
            },
            Step::Examine(first, mut entries) => {
                self.owners.put(&mut entries);
                self.settling.wait_for_room();
                self.examine(first, &entries);
            }
            Step::Connect(count, path) => self.wish(StreamsWish::More(count, path)),
            Step::StreamsLost(streams) => self.wish(StreamsWish::Without(streams)),
            Step::Finish(finish) => self.finish(Some(finish)),
            Step::Sum(entry, item, size) => self.sum_up(entry, &item, size),
            Step::Abandon(entry, item, _) => {
                if let Item::File(incoming) = &*item {
                    incoming.discard(&self.unfinished);
                }
                let next = self.lock().machine.abandoned(entry);
                self.old_files_room.notify_all();
                self.finish(next);
                self.settle_links(entry, false);
            }
            Step::Mismatch(entry, item) => match &*item {
                Item::Compared(Compared::File(file)) => self.compare_failed(entry, file, MISMATCH),
                Item::File(incoming) => {
                    incoming.discard(&self.unfinished);
                    self.fail(incoming.path(&self.landing), MISMATCH);
                    self.settle(entry, false);
                }
                Item::Directory { .. } | Item::HardLink | Item::Compared(_) => {
                    self.settle(entry, false);
                }
            },
            Step::Differs(entry, item, differing) => self.content_differs(entry, &item, &differing),
        }
    }

    /// Whether a program takes what arrives: then [`Self::watch_program`] needs a thread.
    pub fn has_program(&self) -> bool {
        self.landing.sink().is_some_and(sink::Sink::has_program)
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
    fn finish(&self, mut next: Option<Finish<Item>>) {
        if next.is_none() {
            return;
        }
        while let Some(Finish { entry, handle, end, complete }) = next {
            let scope = self.filtered.leave(entry);
            let done = match (&*handle, end) {
                (Item::Directory { dir, fresh, meta, attributes, names }, _) => {
                    if let Some(names) = names {
                        self.sweep(&handle, dir, names, scope.as_ref());
                    }
                    self.removes_only() && self.leave_unchanged(dir)
                        || self.finish_directory(dir, *fresh, meta, attributes.as_deref())
                }
                (Item::File(_), Some(end)) => return self.finish_file(entry, handle, end),
                (Item::File(_) | Item::HardLink, _) => false,
                (Item::Compared(compared), end) => {
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

    fn finish_directory(&self, dir: &Dir, fresh: bool, meta: &Meta, attributes: Option<&[Attribute]>) -> bool {
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
        meta: &Meta,
        attributes: Option<&[Attribute]>,
    ) -> std::io::Result<Option<String>> {
        if self.creates_only && !fresh {
            return self.settle_directory(dir).map(|()| None);
        }
        let made = dir.fd().and_then(|fd| {
            let wanted = self.directory_mode(meta, fresh);
            let there = Look::at_fd(&*fd)?;
            let mode = wanted.filter(|mode| self.request.preserve || there.meta.mode & 0o777 != *mode);
            // A time that the file system cannot keep more precisely is not set again.
            let meta = match self.is_same_time(dir, meta.modified, &there) {
                true => &Meta { modified: there.meta.modified, ..*meta },
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
    fn directory_mode(&self, meta: &Meta, fresh: bool) -> Option<u16> {
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

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
