//! The source's end of a job: walks, offers, reads and sends.
//!
//! [`Source`] holds the protocol's state machine behind a lock, and the notifications of its threads. One thread walks
//! ([`offer`]), one sends messages, and one for each stream reads and sends frames ([`send`]).

mod attributes;
mod checksums;
mod delta;
mod digest;
mod entry;
mod exclusions;
mod flow_feed;
mod flow_frames;
pub mod frame_sink;
mod hard_links;
mod list_batches;
mod offers;
mod operand_parents;
mod operands;
mod own_unlinks;
mod owners;
mod path;
mod removable;
mod removal;
mod small_files;
mod state;
mod stream_sender;
#[cfg(test)]
mod tests;

use crate::io::program::InheritedPipe;
use haul_proto::entry::{Entry, EntryContent, EntryLocation};
use haul_proto::entry_extras::EntryExtras;
use haul_proto::error::ProtocolError;
use haul_proto::ids::{EntryId, PathId, StreamId};
use haul_proto::integrity::Digest;
use haul_proto::path::escape;
use haul_proto::ranges::RangeSet;
use haul_proto::scheduler::WorkItem;
use haul_proto::session::source::SourceSession as Machine;
use haul_proto::wire::list_batch::SourceBatch;
use haul_proto::wire::message::{SourceMessage, TargetMessage};
use haul_proto::wire::pipe::PipeKind;
use haul_proto::wire::preserve::HolePolicy;
use haul_proto::wire::ranges::{PlannedVersion, SourceRange};
use haul_proto::wire::report::WorkerMessage;
use haul_proto::wire::request::{SourceRequest, SymlinkMode, TargetOperand};
use haul_proto::wire::resource_metrics::Stage;
use haul_proto::wire::storage::CacheUse;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use haul_base::job::account::{WorkDone, WorkKind};
use haul_base::sys::cancel::Cancel;

use self::attributes::UnkeptFlags;
use self::owners::SourceOwners;
use self::removal::SourceRemovals;
use crate::fs::{FileIdentity, FileStat, WalkFilter};
use crate::io::storage::cold;
use crate::io::storage::policy::StoragePolicy;
use crate::metrics::counter::add;
use crate::metrics::reporter::Reporter;
use crate::metrics::stage_timer::during;
use crate::net::rate_limiter::RateLimiter;
use crate::net::stream::DataStream;
use crate::net::stream::compress::CompressingStream;
use crate::policy::HostPolicy;
use crate::policy::audit::{AuditAction, AuditRecord};
use crate::source::entry::SourceEntry;
use crate::source::list_batches::PendingBatches;
use crate::source::operands::OperandRoot;
use crate::source::own_unlinks::OwnUnlinkRecords;
use crate::source::path::SourceFileError;
use crate::sys::confine::{ConfineBounds, ConfineRights};
use crate::sys::notify::Notify;

use crate::net::stream::StreamError;
use crate::source::frame_sink::FrameSink;
pub use crate::source::operands::origin;
use crate::source::stream_sender::{NoSink, ReadFrames};

/// The source's end of a job.
pub struct Source {
    request: SourceRequest,
    roots: Vec<Option<OperandRoot>>,
    /// Further source arguments, in jobs that receive them while running.
    listed: Option<PendingBatches>,
    /// The destination directory, if it is on this host: the walk skips it.
    target_directory: OnceLock<FileIdentity>,
    state: Mutex<State>,
    /// Filters of the walk.
    filter: Option<WalkFilter>,
    /// The target refused a directory, so the walk skips its contents.
    has_refused: AtomicBool,
    /// Number of entries that the target has refused or failed to complete.
    rejected: AtomicU64,
    /// Cancels the walk.
    walking: Cancel,
    /// Read policy.
    policy: StoragePolicy,
    /// Signals work for streams.
    work: Notify,
    /// Signals room in the window for the walk.
    window: Notify,
    /// Signals messages for the target.
    outbox: Notify,
    /// Signals files to be removed, or the end of removals.
    removals: Notify,
    /// Rate limit of all streams.
    limiter: RateLimiter,
    /// Flags that are not preserved.
    flagged: UnkeptFlags,
    /// Hard links that haul has removed itself.
    own_unlinks: OwnUnlinkRecords,
    /// Owner names to send to the target, if any.
    owners: Option<SourceOwners>,
    /// Reports to the controller.
    pub reporter: Reporter,
}

struct State {
    machine: Machine<SourceEntry>,
    stopped: bool,
    /// Ids of streams that get work; `None` for all.
    in_use: Option<RangeSet>,
    /// Abandoned streams whose threads have not ended.
    given_up: HashSet<StreamId>,
    /// Idle time after which a stream duplicates another stream's unfinished work; `None` for never.
    double_after: Option<Duration>,
    /// Files to be removed.
    removals: SourceRemovals,
}

impl State {
    fn is_over(&self) -> bool {
        self.stopped || self.machine.is_finished()
    }

    fn is_in_use(&self, StreamId(id): StreamId) -> bool {
        self.in_use.as_ref().is_none_or(|in_use| in_use.contains(id.into()))
    }
}

fn new_session(request: &SourceRequest) -> Machine<SourceEntry> {
    let (frame, streams) = (request.settings.frame, request.settings.streams);
    let mut machine = if request.compare { Machine::comparing(frame, streams) } else { Machine::new(frame, streams) };
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
                    paths.for_each(|path| drop(cold::let_go(path)));
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
        let [work, window, outbox, removals] = std::array::from_fn(|_| Notify::default());
        let limiter = RateLimiter::new(request.rate_bytes_per_s);
        let policy = StoragePolicy::new(request.storage);
        let walking = Cancel::new();
        let listed = request.listed.then(PendingBatches::new);
        let target_directory = OnceLock::new();
        // The decoder has bounded the length of patterns.
        let filter = WalkFilter::new(&request.filters).unwrap_or_else(|error| panic!("{error}"));
        let flagged = UnkeptFlags::default();
        let owners = request.tell_owners.then(SourceOwners::new);
        Self {
            request,
            filter,
            roots,
            listed,
            target_directory,
            state,
            has_refused: AtomicBool::new(false),
            rejected: AtomicU64::new(0),
            walking,
            policy,
            work,
            window,
            outbox,
            removals,
            limiter,
            flagged,
            own_unlinks: OwnUnlinkRecords::default(),
            owners,
            reporter,
        }
    }

    /// The source arguments as sent to the target.
    pub fn operands(&self) -> Vec<Option<TargetOperand>> {
        self.roots.iter().map(|root| root.as_ref().map(OperandRoot::operand)).collect()
    }

    /// Adds source arguments received while the job runs.
    pub fn add_listed(&self, batch: SourceBatch) -> Result<(), ProtocolError> {
        self.listed.as_ref().ok_or(ProtocolError::Unasked("a listed source argument"))?.add(batch)
    }

    /// Identifies these source arguments on this host, across runs.
    pub fn origin(&self) -> [u8; 32] {
        origin(&self.request.operands)
    }

    /// Permits reads of the source arguments and everything below, and removals there if requested.
    pub fn allow(&self, bounds: &mut ConfineBounds) {
        self.allow_removal(bounds);
        if self.request.links == SymlinkMode::Follow {
            return bounds
                .allow_reading_anything("symbolic links are followed (--symlinks follow), so all can be read");
        }
        match &self.request.base {
            _ if !self.request.listed => {}
            None => bounds.allow_reading_anything("a list may name any file, so all can be read"),
            Some(base) => operands::allow_base(base, bounds, ConfineRights::ReadTree),
        }
        self.roots.iter().flatten().for_each(|root| root.allow(bounds));
    }

    /// Skips this directory wherever the walk finds it below a source argument. Must precede [`Self::walk`]; only the
    /// first call counts.
    pub fn skip_directory(&self, target_directory: FileIdentity) {
        let _ = self.target_directory.set(target_directory);
    }

    /// Walks all source arguments and offers their entries. Returns after the last offer, or when the job is stopped.
    pub fn walk(&self) {
        offers::walk(self);
    }

    /// A sink for `stream`, with the job's compression.
    pub fn outlet<'s>(&'s self, stream: &'s mut DataStream) -> CompressingStream<'s> {
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
        self.take_proven(&mut state);
        let mut rejected = state.machine.take_rejected();
        if self.compares() {
            // These differ, and the target counts them.
            rejected.clear();
        }
        if state.machine.has_refused() {
            self.has_refused.store(true, Ordering::Relaxed);
        }
        let concerns_streams = state.machine.has_work() || state.is_over();
        drop(state);
        self.record_rejected(&rejected);
        if concerns_streams {
            self.work.notify_all();
        }
        self.notify_others();
        Ok(())
    }

    /// Counts and audits entries that the target has refused or failed to complete. The target reports them to the user.
    fn record_rejected(&self, rejected: &[Arc<SourceEntry>]) {
        self.rejected.fetch_add(rejected.len() as u64, Ordering::Relaxed);
        for item in rejected {
            // On failure, the log ends the job.
            let (path, reason) = (item.path(), Some("failed at the target"));
            let _ = self.reporter.audit(&AuditRecord { reason, ..AuditRecord::of(AuditAction::Failed, &path) });
        }
    }

    /// The device of the first source argument; 0 if there is none.
    pub fn device(&self) -> u64 {
        self.roots.iter().flatten().map(|root| root.operand().device).next().unwrap_or(0)
    }

    /// Writes an audit record for each file that these messages complete. They are sent afterwards.
    fn audit_ends(&self, ends: &[(Arc<SourceEntry>, u64, Digest)]) {
        for (item, size, digest) in ends {
            // On failure, the log ends the job.
            let (path, bytes, duration) = (item.path(), Some(*size), item.audited_for());
            let sent = AuditRecord::of(AuditAction::Sent, &path);
            let _ = self.reporter.audit(&AuditRecord { bytes, duration, digest: Some(digest), ..sent });
        }
    }

    /// The files that these messages complete, if there is an audit log.
    fn ends_of(
        &self,
        machine: &Machine<SourceEntry>,
        messages: &[SourceMessage],
    ) -> Vec<(Arc<SourceEntry>, u64, Digest)> {
        let end = |message: &SourceMessage| match message {
            SourceMessage::FileEnd { entry, size, digest, .. } if !self.request.compare => {
                Some((Arc::clone(machine.handle_of(*entry)?), *size, *digest))
            }
            _ => None,
        };
        if self.reporter.is_audited() { messages.iter().filter_map(end).collect() } else { Vec::new() }
    }

    /// Audits the start of a file's transfer.
    fn audit_begin(&self, item: &SourceEntry) -> Result<(), StreamError> {
        if !self.reporter.is_audited() || self.request.compare || !item.begin_audit() {
            return Ok(());
        }
        let (path, bytes) = (item.path(), (!item.is_pipe()).then_some(item.size));
        let begun = AuditRecord { bytes, ..AuditRecord::of(AuditAction::Begun, &path) };
        Ok(self.reporter.audit(&begun).map_err(io::Error::other)?)
    }

    /// Waits for messages to the target; `None` after the last.
    pub fn wait_for_messages(&self) -> Option<Vec<Vec<u8>>> {
        let mut state = self.lock();
        loop {
            let messages: Vec<_> = std::iter::from_fn(|| state.machine.poll_message()).collect();
            if !messages.is_empty() {
                let ends = self.ends_of(&state.machine, &messages);
                drop(state);
                self.audit_ends(&ends);
                // The last message may complete the job, and makes room for others.
                self.work.notify_all();
                self.window.notify_all();
                self.removals.notify_all();
                return Some(messages.iter().map(|message| message.encode(self.request.settings.number)).collect());
            }
            if state.is_over() {
                return None;
            }
            state = self.outbox.wait(state);
        }
    }

    /// Whether the job only compares, without streams.
    pub fn compares(&self) -> bool {
        self.request.compare
    }

    /// Reads and compares the data that the target also has, until all entries are complete. `id` belongs to this
    /// thread alone.
    pub fn run_comparison(&self, id: StreamId) -> Result<(), StreamError> {
        stream_sender::run(self, id, &mut NoSink)
    }

    /// Runs one stream: reads wanted data and writes it to `outlet`, until all entries are complete.
    pub fn run_stream(&self, id: StreamId, outlet: &mut impl FrameSink) -> Result<(), StreamError> {
        stream_sender::run(self, id, outlet)
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
        self.work.notify_all();
    }

    /// Sets the idle time after which a stream duplicates another stream's unfinished work: on a lossy path, a stream
    /// may stall for seconds.
    pub fn double_after(&self, rest: Duration) {
        let mut state = self.lock();
        state.machine.keep_pieces();
        state.double_after = Some(rest);
        drop(state);
        self.work.notify_all();
    }

    /// Records that a chunk was read and sent.
    fn piece_done(&self, ticket: u64) {
        if ticket > 0 {
            self.lock().machine.piece_done(ticket);
        }
    }

    /// Abandons a stream: wakes its thread, and leaves its work to others.
    pub fn give_up_stream(&self, id: StreamId) {
        self.lock().given_up.insert(id);
        self.work.notify_all();
    }

    /// Handles the end of a lost stream's thread. The target is asked which frames in flight have arrived.
    fn lose_stream(&self, id: StreamId, in_hand: impl Iterator<Item = WorkItem<SourceEntry>>) {
        let mut state = self.lock();
        state.given_up.remove(&id);
        state.machine.lose_stream(id, in_hand);
        drop(state);
        self.notify();
    }

    /// Requests more streams from the target.
    pub fn ask_for_streams(&self, count: u16, path: PathId) {
        self.lock().machine.ask_for_streams(count, path);
        self.outbox.notify_all();
    }

    /// Whether all entries are complete.
    pub fn is_finished(&self) -> bool {
        self.lock().machine.is_finished()
    }

    /// Whether no work is left: all entries are complete, or the job is stopped.
    fn is_over(&self) -> bool {
        self.lock().is_over()
    }

    /// Sets the rate limit of all streams together; 0 for none.
    pub fn set_rate(&self, rate_bytes_per_s: u64) {
        self.limiter.set(rate_bytes_per_s);
    }

    /// Pauses or resumes the streams.
    pub fn pause(&self, is_paused: bool) {
        self.limiter.pause(is_paused);
        self.work.notify_all();
    }

    /// The number of pauses and resumptions so far; odd during a pause.
    pub fn pauses(&self) -> u64 {
        self.limiter.pauses()
    }

    /// Incomplete files with data assigned to streams.
    pub fn files_under_way(&self) -> u64 {
        self.lock().machine.under_way() as u64
    }

    /// Stops all threads at their next step.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.walking.cancel();
        self.listed.iter().for_each(PendingBatches::stop);
        // Data in flight no longer waits for the rate limit.
        self.limiter.set(0);
        self.limiter.pause(false);
        self.notify();
    }

    /// The next work for a stream, at most `frames_max` frames; `None` if all entries are complete or the job was
    /// stopped. Fails if the stream was abandoned.
    fn wait_for_work(&self, id: StreamId, frames_max: u64) -> Result<Option<WorkItem<SourceEntry>>, StreamError> {
        let since = Instant::now();
        let mut state = self.lock();
        loop {
            if state.is_over() {
                drop(state);
                self.notify();
                return Ok(None);
            }
            if state.given_up.contains(&id) {
                return Err(io::Error::from(io::ErrorKind::ConnectionAborted).into());
            }
            let work = self.take_work(&mut state, id, frames_max);
            if work.is_some() {
                return Ok(work);
            }
            let stage = if state.is_in_use(id) { Stage::Idle } else { Stage::Rest };
            state = match state.double_after {
                Some(rest) if state.is_in_use(id) => {
                    let left = rest.saturating_sub(since.elapsed());
                    if left.is_zero()
                        && !self.limiter.is_limited()
                        && let Some(double) = state.machine.next_double()
                    {
                        return Ok(Some(double));
                    }
                    // Work ages until it can be duplicated; new work wakes this thread.
                    let pause = if left.is_zero() { rest } else { left };
                    during(stage, || self.work.wait_timeout(state, pause))
                }
                _ => during(stage, || self.work.wait(state)),
            };
        }
    }

    /// The next work for a stream, without waiting.
    fn work_at_hand(&self, id: StreamId, frames_max: u64) -> Option<WorkItem<SourceEntry>> {
        let mut state = self.lock();
        let is_over = state.stopped || state.given_up.contains(&id);
        if is_over { None } else { self.take_work(&mut state, id, frames_max) }
    }

    fn take_work(&self, state: &mut State, id: StreamId, frames_max: u64) -> Option<WorkItem<SourceEntry>> {
        let was_closed = state.machine.window() == 0;
        let gets_work = state.is_in_use(id) && !self.limiter.is_paused();
        let work = if gets_work {
            state.machine.next_work(id, frames_max)
        } else {
            state.machine.rest(id);
            None
        };
        // Dropping obsolete work may reopen the window.
        if was_closed && state.machine.window() > 0 {
            self.window.notify_all();
        }
        work
    }

    /// Records frames as read; those in `same` are equal at both ends.
    fn frames_read(&self, entry: EntryId, item: &SourceEntry, values: &[(u64, [u8; 32])], same: &RangeSet) {
        let last = self.lock().machine.frames_read(entry, values, same);
        if let Some(digest) = last {
            self.sum_up(entry, item, digest);
        }
        self.outbox.notify_all();
    }

    /// Records the frames of several files at once.
    fn all_read(&self, compared: &mut Vec<ReadFrames>) {
        if compared.is_empty() {
            return;
        }
        let mut state = self.lock();
        for ReadFrames { entry, values, same } in compared.drain(..) {
            state.machine.frames_read(entry, &values, &same);
        }
        drop(state);
        self.outbox.notify_all();
    }

    /// Returns a small file that did not fit into its pack to the queue.
    fn requeue_small_file(&self, entry: EntryId, size: u64) {
        self.lock().machine.put_back(entry, size);
        self.work.notify_all();
    }

    /// Fails a file, unless it has changed for the first time: then it is offered again.
    fn fail(&self, entry: EntryId, item: &SourceEntry, error: SourceFileError) {
        if !matches!(error, SourceFileError::Changed) {
            return self.fail_for_good(entry, item, &error);
        }
        if self.request.range.is_some() {
            // Other runs send the other ranges of the planned version.
            return self.fail_for_good(entry, item, &SourceFileError::ChangedSincePlan);
        }
        match item.again(&self.own_unlinks) {
            Ok(Some((again, look))) => self.offer_again(entry, again, &look),
            Ok(None) => self.fail_for_good(entry, item, &error),
            Err(error) => self.fail_for_good(entry, item, &error),
        }
    }

    /// Fails a file. It is not offered again, since some of its data may be lost.
    fn fail_for_good(&self, entry: EntryId, item: &SourceEntry, error: &SourceFileError) {
        let reason = error.to_string();
        let mut state = self.lock();
        if state.machine.fail(entry, &reason) {
            // Under the lock: the job may end with this entry, and its summary counts the failure.
            self.reporter.failed(item.path(), reason);
        }
        drop(state);
        self.notify();
    }

    fn offer_again(&self, entry: EntryId, item: SourceEntry, look: &FileStat) {
        let path = item.path();
        let mut now = self.file_entry(EntryLocation::Again(entry), look);
        self.add_attributes(&mut now, &item);
        if self.lock().machine.offer_again(entry, now, Arc::new(item)).is_some() {
            let text = format!("{} changed while being read; starting it over", escape(&path));
            self.reporter.send(&WorkerMessage::Warning { text });
        }
        self.notify();
    }

    /// A file's entry for the offer.
    fn file_entry(&self, place: EntryLocation, look: &FileStat) -> Entry {
        let is_large = look.size > self.request.settings.frame.pack_file_max();
        let data_bytes = match self.request.preserve.holes {
            HolePolicy::Keep => look.may_have_holes().then_some(look.room),
            HolePolicy::Make => Some(look.size),
            HolePolicy::Fill => None,
        };
        let more = EntryExtras { data_bytes: data_bytes.filter(|_| is_large), ..EntryExtras::default() };
        let (kind, version) = (EntryContent::File { size: look.size }, is_large.then(|| look.version()));
        Entry { place, kind, meta: look.meta, version, more: (!more.is_empty()).then(|| Box::new(more)) }
    }

    /// Whether a file is not the version that the job was planned for.
    fn has_changed_since_plan(&self, look: &FileStat) -> bool {
        self.request.range.is_some_and(|SourceRange { version, .. }| {
            let (size, inode, modified) = (look.size, look.identity.inode, look.meta.modified);
            version != PlannedVersion { size, inode, modified, changed: look.changed }
        })
    }

    fn count_found(&self, size: u64) {
        let size = self.request.range.map_or(size, |SourceRange { range, .. }| range.bytes_in(size));
        add(&self.reporter.tally.files_found, 1);
        add(&self.reporter.tally.bytes_found, size);
    }

    fn notify(&self) {
        self.work.notify_all();
        self.notify_others();
    }

    fn notify_others(&self) {
        self.window.notify_all();
        self.outbox.notify_all();
        self.removals.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
