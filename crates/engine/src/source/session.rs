//! The state of the source's end: the protocol's state machine behind a lock, and the notifications of its threads.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use haul_base::copy::account::{WorkDone, WorkKind};
use haul_base::sys::cancel::Cancel;
use haul_proto::entry::{Entry, EntryContent, EntryLocation, EntryMetadata};
use haul_proto::entry_extras::EntryExtras;
use haul_proto::error::ProtocolError;
use haul_proto::ids::{EntryId, PathId, StreamId};
use haul_proto::mode_rules::ModeRule;
use haul_proto::path::escape;
use haul_proto::ranges::RangeSet;
use haul_proto::session::source::SourceSession;
use haul_proto::wire::list_batch::SourceBatch;
use haul_proto::wire::message::{SourceMessage, TargetMessage};
use haul_proto::wire::pipe::PipeKind;
use haul_proto::wire::preserve::HolePolicy;
use haul_proto::wire::ranges::{PlannedVersion, SourceRange};
use haul_proto::wire::report::{SourceChange, WorkerMessage};
use haul_proto::wire::request::{SourceRequest, TargetOperand};
use haul_proto::wire::storage::CacheUse;

use crate::fs::{FileIdentity, FileStat, WalkFilter};
use crate::io::program::InheritedPipe;
use crate::io::storage::cold;
use crate::io::storage::policy::StoragePolicy;
use crate::metrics::counter::add;
use crate::metrics::reporter::Reporter;
use crate::net::rate_limiter::RateLimiter;
use crate::net::stream::DataStream;
use crate::net::stream::compress::CompressingStream;
use crate::policy::HostPolicy;
use crate::source::entry::SourceEntry;
use crate::source::input_file::InputFile;
use crate::source::list_batches::PendingBatches;
use crate::source::operands::{self, OperandRoot, origin};
use crate::source::own_unlinks::OwnUnlinkRecords;
use crate::source::owners::SourceOwners;
use crate::source::path::SourceFileError;
use crate::source::source_removal::SourceRemovals;
use crate::source::state::FileChange;
use crate::sys::confine::{ConfineBounds, ConfineRights};
use crate::sys::notify::Notify;

/// What threads wait for.
#[derive(Default)]
pub(super) struct SourceSignals {
    /// Work for streams.
    pub(super) work: Notify,
    /// Room in the window for the walk.
    pub(super) window: Notify,
    /// Messages for the target.
    pub(super) outbox: Notify,
    /// Files to be removed, or the end of removals.
    pub(super) removals: Notify,
}

/// The source's end of a copy.
pub struct Source {
    pub(super) request: SourceRequest,
    pub(super) operands: SourceOperands,
    pub(super) walk: WalkBounds,
    pub(super) state: Mutex<State>,
    /// Number of entries that the target has refused or failed to complete.
    pub(super) rejected: AtomicU64,
    /// Read policy.
    pub(super) policy: StoragePolicy,
    /// Wakes threads.
    pub(super) signals: SourceSignals,
    /// Rate limit of all streams.
    pub(super) limiter: RateLimiter,
    /// Number of files with flags that are not preserved.
    pub(super) flagged: AtomicU64,
    /// Hard links that haul has removed itself.
    pub(super) own_unlinks: OwnUnlinkRecords,
    /// Owner names to send to the target, if any.
    pub(super) owners: Option<SourceOwners>,
    /// Reports to the controller.
    pub reporter: Reporter,
}

/// The opened source arguments.
pub(super) struct SourceOperands {
    pub(super) roots: Vec<Option<OperandRoot>>,
    /// Further source arguments, in copies that receive them while running.
    pub(super) listed: Option<PendingBatches>,
}

/// What the walk skips, and its end.
pub(super) struct WalkBounds {
    pub(super) filter: Option<WalkFilter>,
    /// The destination directory, if it is on this host: the walk skips it.
    pub(super) target_directory: OnceLock<FileIdentity>,
    /// The target refused a directory, so the walk skips its contents.
    pub(super) has_refused: AtomicBool,
    /// Ends the walk early.
    pub(super) cancel: Cancel,
}

pub(super) struct State {
    pub(super) machine: SourceSession<SourceEntry>,
    pub(super) stopped: bool,
    /// Ids of streams that get work; `None` for all.
    pub(super) in_use: Option<RangeSet>,
    /// Abandoned streams whose threads have not ended.
    pub(super) given_up: HashSet<StreamId>,
    /// Idle time after which a stream duplicates another stream's unfinished work; `None` for never.
    pub(super) double_after: Option<Duration>,
    /// Files to be removed.
    pub(super) removals: SourceRemovals,
}

impl State {
    pub(super) fn is_over(&self) -> bool {
        self.stopped || self.machine.is_finished()
    }

    pub(super) fn is_in_use(&self, StreamId(id): StreamId) -> bool {
        self.in_use.as_ref().is_none_or(|in_use| in_use.contains(id.into()))
    }
}

/// Moves the caller's offset in standard input behind the data, once these messages say that all of it was read.
fn consume_input(machine: &SourceSession<SourceEntry>, messages: &[SourceMessage]) {
    for message in messages {
        if let SourceMessage::FileEnd { entry, .. } = message
            && let Some(item) = machine.handle_of(*entry)
        {
            item.input_file().into_iter().for_each(InputFile::consume);
        }
    }
}

fn new_session(request: &SourceRequest) -> SourceSession<SourceEntry> {
    let (frame, streams) = (request.settings.frame, request.settings.streams);
    let mut machine =
        if request.compare { SourceSession::comparing(frame, streams) } else { SourceSession::new(frame, streams) };
    if request.settings.checksum.as_ref().is_some_and(|checksum| checksum.at_source) && !request.compare {
        machine.await_sums();
    }
    if request.remove_files && !request.compare {
        machine.await_proof();
    }
    if let Some(SourceRange { range, .. }) = request.range {
        machine.send_range(range);
    }
    machine.spread_by(SourceEntry::device);
    machine
}

impl Source {
    /// Checks the source arguments and reports invalid ones at once. `inherited` is standard input or the
    /// pipe of a server, if this worker received it; `policy` permits or forbids programs.
    pub fn prepare(
        request: SourceRequest,
        reporter: Reporter,
        inherited: Option<InheritedPipe>,
        policy: &HostPolicy,
    ) -> Self {
        let roots = match request.pipe {
            PipeKind::No => {
                if request.storage.cache == CacheUse::Cold {
                    // A missing file is reported with the arguments.
                    let paths = request.operands.iter().map(|path| Path::new(OsStr::from_bytes(path)));
                    paths.for_each(|path| drop(cold::evict_pages(path)));
                }
                operands::resolve_operands(&request, &reporter)
            }
            PipeKind::Standard | PipeKind::Named | PipeKind::Growing(_) => {
                operands::open_pipe(&request, inherited, policy, &reporter)
            }
        };
        let state = Mutex::new(State {
            machine: new_session(&request),
            stopped: false,
            in_use: None,
            given_up: HashSet::new(),
            double_after: None,
            removals: SourceRemovals::new(),
        });
        let limiter = RateLimiter::new(request.rate_bytes_per_s);
        let policy = StoragePolicy::new(request.storage);
        let operands = SourceOperands { roots, listed: request.listed.then(PendingBatches::new) };
        let walk = WalkBounds {
            // The decoder has bounded the length of patterns.
            filter: WalkFilter::new(&request.filters).unwrap_or_else(|error| panic!("{error}")),
            target_directory: OnceLock::new(),
            has_refused: AtomicBool::new(false),
            cancel: Cancel::new(),
        };
        let flagged = AtomicU64::new(0);
        let owners = request.tell_owners.then(SourceOwners::new);
        Self {
            request,
            operands,
            walk,
            state,
            rejected: AtomicU64::new(0),
            policy,
            signals: SourceSignals::default(),
            limiter,
            flagged,
            own_unlinks: OwnUnlinkRecords::default(),
            owners,
            reporter,
        }
    }

    /// The source arguments as sent to the target.
    pub fn operands(&self) -> Vec<Option<TargetOperand>> {
        self.operands.roots.iter().map(|root| root.as_ref().map(OperandRoot::operand)).collect()
    }

    /// Adds source arguments received while the copy runs.
    pub fn add_listed(&self, batch: SourceBatch) -> Result<(), ProtocolError> {
        self.operands.listed.as_ref().ok_or(ProtocolError::Unasked("a listed source argument"))?.add(batch)
    }

    /// Identifies these source arguments on this host, across runs.
    pub fn origin(&self) -> [u8; 32] {
        origin(&self.request.operands)
    }

    /// Permits reads of the source arguments and everything below, and removals there if requested.
    pub fn allow(&self, bounds: &mut ConfineBounds) {
        self.allow_removal(bounds);
        if self.request.links.follows() {
            return bounds.allow_reading_anything("symbolic links are followed (--symlinks), so all can be read");
        }
        match &self.request.base {
            _ if !self.request.listed => {}
            None => bounds.allow_reading_anything("a list may name any file, so all can be read"),
            Some(base) => operands::allow_base(base, bounds, ConfineRights::ReadTree),
        }
        self.operands.roots.iter().flatten().for_each(|root| root.allow(bounds));
    }

    /// Skips this directory wherever the walk finds it below a source argument. Must precede [`Self::walk`]; only the
    /// first call counts.
    pub fn skip_directory(&self, target_directory: FileIdentity) {
        let _ = self.walk.target_directory.set(target_directory);
    }

    /// A sink for `stream`, with the copy's compression.
    pub fn compressing_stream<'s>(&'s self, stream: &'s mut DataStream) -> CompressingStream<'s> {
        CompressingStream::new(stream, self.request.compression, &self.reporter.tally)
    }

    /// Totals for a server's log.
    pub fn did(&self) -> WorkDone {
        let counters = self.reporter.tally.counters();
        let path = self.request.operands.first().map(|path| escape(path)).unwrap_or_default();
        let (what, bytes) = match self.compares() {
            true => (WorkKind::Compared, counters.bytes_found),
            false => (WorkKind::Sent, counters.bytes_carried),
        };
        let failed = counters.failed + self.rejected.load(Ordering::Relaxed);
        WorkDone { what, files: counters.files_found, bytes, failed, path }
    }

    /// The negotiated settings.
    pub fn settings(&self) -> &haul_proto::wire::request::SessionSettings {
        &self.request.settings
    }

    /// Handles a message from the target.
    pub fn handle_peer(&self, bytes: &[u8]) -> Result<(), ProtocolError> {
        let message = TargetMessage::decode(bytes, self.request.settings.number)?;
        let mut state = self.lock();
        state.machine.handle(message)?;
        self.take_verified(&mut state);
        let mut rejected = state.machine.take_rejected();
        if self.compares() {
            // These differ, and the target counts them.
            rejected.clear();
        }
        if state.machine.has_refused() {
            self.walk.has_refused.store(true, Ordering::Relaxed);
        }
        let concerns_streams = state.machine.has_work() || state.is_over();
        drop(state);
        self.record_rejected(&rejected);
        if concerns_streams {
            self.signals.work.notify_all();
        }
        self.notify_others();
        Ok(())
    }

    /// The device of the first source argument; 0 if there is none.
    pub fn device(&self) -> u64 {
        self.operands.roots.iter().flatten().map(|root| root.operand().device).next().unwrap_or(0)
    }

    /// Waits for messages to the target; `None` after the last.
    pub fn wait_for_messages(&self) -> Option<Vec<Vec<u8>>> {
        let mut state = self.lock();
        loop {
            let messages: Vec<_> = std::iter::from_fn(|| state.machine.poll_message()).collect();
            if !messages.is_empty() {
                let ends = self.ends_of(&state.machine, &messages);
                consume_input(&state.machine, &messages);
                let is_over = state.is_over();
                drop(state);
                self.audit_ends(&ends);
                // Messages make room for others, and the last one may complete the copy.
                self.signals.window.notify_all();
                if is_over {
                    self.notify();
                }
                return Some(messages.iter().map(|message| message.encode(self.request.settings.number)).collect());
            }
            if state.is_over() {
                return None;
            }
            state = self.signals.outbox.wait(state);
        }
    }

    /// Whether the copy only compares, without streams.
    pub fn compares(&self) -> bool {
        self.request.compare
    }

    /// Assigns work to these streams only; others idle once they have finished theirs.
    pub fn use_streams(&self, in_use: RangeSet) {
        let streams = u16::try_from(in_use.len()).unwrap_or(u16::MAX);
        self.lock().in_use = Some(in_use);
        self.share_among(streams);
    }

    /// Assigns work to all of this many streams.
    pub fn share_among(&self, streams: u16) {
        self.lock().machine.set_streams(streams);
        self.reporter.tally.streams.store(streams.into(), Ordering::Relaxed);
        self.signals.work.notify_all();
    }

    /// Sets the idle time after which a stream duplicates another stream's unfinished work: on a lossy path, a stream
    /// may stall for seconds.
    pub fn double_after(&self, rest: Duration) {
        let mut state = self.lock();
        state.machine.track_chunks();
        state.double_after = Some(rest);
        drop(state);
        self.signals.work.notify_all();
    }

    /// Abandons a stream: wakes its thread, and leaves its work to others.
    pub fn give_up_stream(&self, id: StreamId) {
        self.lock().given_up.insert(id);
        self.signals.work.notify_all();
    }

    /// Requests more streams from the target.
    pub fn ask_for_streams(&self, count: u16, path: PathId) {
        self.lock().machine.ask_for_streams(count, path);
        self.signals.outbox.notify_all();
    }

    /// Requests small segments on the target's later streams.
    pub fn ask_for_small_segments(&self, path: PathId) {
        self.lock().machine.ask_for_small_segments(path);
        self.signals.outbox.notify_all();
    }

    /// Whether all entries are complete.
    pub fn is_finished(&self) -> bool {
        self.lock().machine.is_finished()
    }

    /// Whether no work is left: all entries are complete, or the copy is stopped.
    pub(super) fn is_over(&self) -> bool {
        self.lock().is_over()
    }

    /// Sets the rate limit of all streams together; 0 for none.
    pub fn set_rate(&self, rate_bytes_per_s: u64) {
        self.limiter.set(rate_bytes_per_s);
    }

    /// Pauses or resumes the streams.
    pub fn pause(&self, is_paused: bool) {
        self.limiter.pause(is_paused);
        self.signals.work.notify_all();
    }

    /// The number of pauses and resumptions so far; odd during a pause.
    pub fn pauses(&self) -> u64 {
        self.limiter.pauses()
    }

    /// Incomplete files with data assigned to streams.
    pub fn files_in_progress(&self) -> u64 {
        self.lock().machine.under_way() as u64
    }

    /// Stops all threads at their next step.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.walk.cancel.cancel();
        self.operands.listed.iter().for_each(PendingBatches::stop);
        // Data in flight no longer waits for the rate limit.
        self.limiter.set(0);
        self.limiter.pause(false);
        self.notify();
    }

    /// Fails a file, unless it has changed for the first time: then it is offered again.
    pub(super) fn fail(&self, entry: EntryId, item: &SourceEntry, error: SourceFileError) {
        if !matches!(error, SourceFileError::Changed) {
            return self.fail_for_good(entry, item, &error);
        }
        if self.request.range.is_some() {
            // Other runs send the other ranges of the planned version.
            return self.fail_for_good(entry, item, &SourceFileError::ChangedSincePlan);
        }
        match item.again(&self.own_unlinks) {
            Ok(Some((mut again, stat))) => {
                again.tolerates = self.tolerates(&again);
                if !self.offer_again(entry, again, &stat) {
                    self.fail_for_good(entry, item, &error);
                }
            }
            Ok(None) => self.fail_for_good(entry, item, &error),
            Err(error) => self.fail_for_good(entry, item, &error),
        }
    }

    /// The greatest change of a file while it is read that a second reading makes up for.
    pub(super) fn tolerates(&self, item: &SourceEntry) -> FileChange {
        let live = &self.request.live;
        let is_small = item.offered.size <= self.request.settings.frame.pack_file_max();
        match live.refuse_growing || live.restart_growing && is_small && !item.is_again() {
            // Other runs send the other ranges of the planned version.
            _ if self.request.range.is_some() || self.compares() => FileChange::Nothing,
            true => FileChange::Metadata,
            false => FileChange::Growth,
        }
    }

    /// Reports a file that was copied without what was appended meanwhile.
    pub(super) fn report_growth(&self, item: &SourceEntry) {
        if item.has_changed(FileChange::Growth) {
            self.reporter.send(&WorkerMessage::SourceChanged { path: item.path(), change: SourceChange::Grew });
        }
    }

    /// Whether a file that cannot be opened has vanished: its name is gone, and the source argument is still there.
    fn has_vanished(&self, item: &SourceEntry, error: &SourceFileError) -> bool {
        let is_absent = matches!(error, SourceFileError::Io(error) if error.kind() == io::ErrorKind::NotFound);
        let Some(place) = item.place().filter(|_| is_absent) else { return false };
        let is_argument_there =
            if place.is_operand { operands::is_planned(&self.request) } else { place.parent.is_root_there() };
        is_argument_there && place.is_gone()
    }

    /// Fails a file, or counts it as vanished. It is not offered again, since some of its data may be lost.
    pub(super) fn fail_for_good(&self, entry: EntryId, item: &SourceEntry, error: &SourceFileError) {
        let (reason, has_vanished) = (error.to_string(), self.has_vanished(item, error));
        let mut state = self.lock();
        // Reported under the lock: the copy may end with this entry, and its summary counts the failure.
        if has_vanished && state.machine.vanish(entry) {
            self.reporter.vanished(item.path());
        } else if !has_vanished && state.machine.fail(entry, &reason) {
            self.reporter.failed(item.path(), reason);
        }
        drop(state);
        self.notify();
    }

    /// Offers a changed file again. Returns `false` if the target takes no other version of it.
    fn offer_again(&self, entry: EntryId, item: SourceEntry, stat: &FileStat) -> bool {
        let path = item.path();
        let mut now = self.file_entry(EntryLocation::Again(entry), stat);
        self.add_attributes(&mut now, &item);
        self.change_mode(&mut now);
        let is_offered = self.lock().machine.offer_again(entry, now, Arc::new(item)).is_some();
        if is_offered {
            let text = format!("{} changed while being read; starting it over", escape(&path));
            self.reporter.send(&WorkerMessage::Warning { text });
        }
        self.notify();
        is_offered
    }

    /// Sends the names of an entry's owner and group before its offer, once each.
    pub(super) fn report_owners(&self, meta: &EntryMetadata) {
        for (is_group, id, name) in self.owners.iter().flat_map(|owners| owners.unsent(meta)) {
            self.lock().machine.send_owner(is_group, id, name);
        }
    }

    /// Applies the requested changes of modes to an entry, and to the directories above it.
    pub(super) fn change_mode(&self, entry: &mut Entry) {
        let rules = &self.request.modes;
        let is_directory = match entry.kind {
            EntryContent::Symlink { .. } => return,
            EntryContent::Directory => true,
            _ => false,
        };
        entry.meta.mode = ModeRule::apply_all(rules, entry.meta.mode, is_directory);
        for parent in entry.more.iter_mut().flat_map(|more| &mut more.parents) {
            parent.mode = ModeRule::apply_all(rules, parent.mode, true);
        }
    }

    /// A file's entry for the offer.
    pub(super) fn file_entry(&self, place: EntryLocation, stat: &FileStat) -> Entry {
        let is_large = stat.size > self.request.settings.frame.pack_file_max();
        let data_bytes = match self.request.preserve.holes {
            HolePolicy::Keep => stat.may_have_holes().then_some(stat.room),
            HolePolicy::Make => Some(stat.size.min(stat.room)),
            HolePolicy::Fill => None,
        };
        let more = EntryExtras { data_bytes: data_bytes.filter(|_| is_large), ..EntryExtras::default() };
        let (kind, version) = (EntryContent::File { size: stat.size }, is_large.then(|| stat.version()));
        Entry { place, kind, meta: stat.meta, version, more: (!more.is_empty()).then(|| Box::new(more)) }
    }

    /// Whether a file is not the version that the job was planned for.
    pub(super) fn has_changed_since_plan(&self, stat: &FileStat) -> bool {
        self.request.range.is_some_and(|SourceRange { version, .. }| {
            let (size, inode, modified) = (stat.size, stat.identity.inode, stat.meta.modified);
            version != PlannedVersion { size, inode, modified, changed: stat.changed }
        })
    }

    pub(super) fn count_found(&self, size: u64) {
        let size = self.request.range.map_or(size, |SourceRange { range, .. }| range.bytes_in(size));
        add(&self.reporter.tally.files_found, 1);
        add(&self.reporter.tally.bytes_found, size);
    }

    pub(super) fn notify(&self) {
        self.signals.work.notify_all();
        self.notify_others();
    }

    fn notify_others(&self) {
        self.signals.window.notify_all();
        self.signals.outbox.notify_all();
        self.signals.removals.notify_all();
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
