//! The source's session: it offers entries, takes the target's decisions, assigns work and completes entries.

mod batch;
mod delta;
mod flow;
mod loss;
mod needs;
mod verified;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use self::batch::OfferBatch;
use self::delta::PeerBase;
use self::flow::{Flow, Flows};
use self::loss::Losses;
use crate::entry::{Entry, EntryContent, EntryLocation, Timestamp};
use crate::error::ProtocolError;
use crate::file_range::{FileRange, frames_of};
use crate::ids::{ByEntry, EntryId, PathId, StreamId};
use crate::integrity::{Digest, FrameLen, FrameTree};
use crate::limits::{
    ENTRY_WINDOW, OPEN_DIRECTORIES_BYTES_MAX, OPEN_DIRECTORIES_MAX, RESENDS_PER_FILE_MAX, RESENDS_PER_FRAME_MAX,
    UNSETTLED_BYTES_MAX,
};
use crate::path::{MAX_NAME, Name};
use crate::ranges::RangeSet;
use crate::scheduler::{Scheduler, WorkItem};
use crate::session::digest_state::DigestState;
use crate::session::source::verified::VerifiedFiles;
use crate::session::window::EntryWindow;
use crate::wire::message::{Exclusion, ListingEnd, SourceMessage, TargetMessage};

/// Reserve of the byte limit for incomplete entries. With less room, the window is closed. It fits any entry, and files
/// offered anew with more attributes.
const ROOM_BYTES: usize = 4 << 20;

/// The source's side of a copy. `H` is the engine's handle of an entry.
///
/// It has five kinds of methods that change it, and queries, which take `&self`:
///
/// - **Settings**, before the first offer: [`Self::send_range`], [`Self::await_sums`], [`Self::await_proof`],
///   [`Self::track_chunks`], [`Self::spread_by`].
/// - **Offers**, by the thread that walks: [`Self::offer`] while [`Self::window`] is not 0; [`Self::exclude`],
///   [`Self::tell_vanished`] and [`Self::send_patterns`] in a directory, then [`Self::end_directory`]. A directory ends
///   after those in it. Last comes [`Self::end_offers`].
/// - **Input.** [`Self::handle`] takes messages in the order of the control channel. After a [`ProtocolError`] the
///   session is over.
/// - **Work of streams.** [`Self::next_work`] or [`Self::next_double`] gives a stream its work. [`Self::frames_read`]
///   follows for frames, [`Self::flow_read`] for a flow's next frame, then [`Self::chunk_done`] for a tracked chunk.
///   Instead: [`Self::fail`], [`Self::vanish`] or [`Self::offer_again`] for a file that cannot be read or has changed,
///   [`Self::put_back`] for a small file that has grown, [`Self::lose_stream`] with all that a broken stream had.
/// - **Output**, after every call above: [`Self::poll_message`] until it returns `None`, [`Self::take_rejected`], and
///   with [`Self::await_proof`] also [`Self::take_verified`].
///
/// Where [`Self::frames_read`] or [`Self::flow_read`] returns a digest, [`Self::summed`] or [`Self::fail`] follows.
/// Late calls about a complete entry have no effect. The session ends when [`Self::is_finished`] is true.
#[derive(Debug)]
pub struct SourceSession<H> {
    settings: SourceSettings,
    plan: Scheduler<H>,
    entries: ByEntry<OfferedEntry<H>>,
    batch: OfferBatch,
    outbox: VecDeque<SourceMessage>,
    losses: Losses,
    flows: Flows,
    window: EntryWindow,
    /// Bytes used by the rolling signatures of base files.
    sums_bytes: u64,
    proven: VerifiedFiles<H>,
    /// Whether any directory was refused.
    has_refused: bool,
    /// Files and links that the target refused or failed to complete, until [`Self::take_rejected`].
    rejected: Vec<Arc<H>>,
}

/// Settings common to all files of a copy.
#[derive(Debug)]
struct SourceSettings {
    frame: FrameLen,
    /// Whether the copy only compares and sends nothing.
    compares: bool,
    /// Whether a requested digest delays the end of a file.
    sums: bool,
    /// The range that is sent of the only file.
    range: Option<FileRange>,
}

#[derive(Debug)]
struct OfferedEntry<H> {
    handle: Arc<H>,
    state: OfferState,
    /// Bytes counted for this entry.
    bytes: usize,
}

#[derive(Debug)]
enum OfferState {
    /// From Offer to Want. `is_comparable`: the Offer had all that an equal entry is known by. Next: Small, Large,
    /// complete.
    Offered { kind: EntryContent, modified: Timestamp, is_comparable: bool },
    /// A directory, from its Offer until it has ended and is complete.
    Directory { ended: bool, refused: bool },
    /// Wanted, and created at the target from existing data. Next: complete.
    Awaited,
    /// Wanted in a pack. `handed`: a stream has it, without a later request to resend; `begun`: a stream has ever had
    /// it. Next: complete.
    Small { size: u64, handed: bool, begun: bool, asked: u16 },
    /// Wanted, frame by frame. Next: complete.
    Large(LargeOffer),
    /// Wanted, frame by frame, from a source that can be read only once. Next: complete.
    Flow(Flow),
}

impl OfferState {
    fn offered(entry: &Entry) -> Self {
        let has_digest = entry.more.as_ref().is_some_and(|more| more.digest.is_some());
        let is_comparable = has_digest || !matches!(entry.kind, EntryContent::File { size: 1.. });
        Self::Offered { kind: entry.kind.clone(), modified: entry.meta.modified, is_comparable }
    }
}

#[derive(Debug)]
struct LargeOffer {
    size: u64,
    modified: Timestamp,
    tree: FrameTree,
    ended: bool,
    /// The target may advertise a partial file or all of the file.
    rest: bool,
    /// Frames that the target has and this end compares, each only once. So a guessing target has one guess.
    held: RangeSet,
    /// State of the base file that the target may advertise.
    old: Option<Box<PeerBase>>,
    /// Frames given to streams and not requested again since.
    handed: RangeSet,
    summing: DigestState,
    /// Number of frames that the target has requested, repeats included.
    asked: u64,
}

impl<H> SourceSession<H> {
    /// Creates a copy without offers.
    pub fn new(frame: FrameLen, streams: u16) -> Self {
        Self {
            settings: SourceSettings { frame, compares: false, sums: false, range: None },
            plan: Scheduler::new(frame, streams),
            entries: ByEntry::default(),
            batch: OfferBatch::default(),
            outbox: VecDeque::new(),
            losses: Losses::default(),
            flows: Flows::default(),
            window: EntryWindow::default(),
            sums_bytes: 0,
            proven: VerifiedFiles::default(),
            has_refused: false,
            rejected: Vec::new(),
        }
    }

    /// Creates a copy that only compares both ends.
    pub fn comparing(frame: FrameLen, threads: u16) -> Self {
        let mut session = Self::new(frame, threads);
        session.settings.compares = true;
        session
    }

    /// Sends this range of each file alone. Every offered file must have it.
    pub fn send_range(&mut self, range: FileRange) {
        self.settings.range = Some(range);
    }

    /// Returns the frames of a file that are sent.
    fn frames_of(&self, size: u64) -> Range<u64> {
        frames_of(self.settings.range, self.settings.frame, size)
    }

    /// Delays the end of each large file until the engine has its requested digest: see [`Self::frames_read`]. The
    /// target must have all its existing frames compared, so that this end reads all frames.
    pub fn await_sums(&mut self) {
        self.settings.sums = true;
    }

    /// Records that the digest requested by [`Self::frames_read`] or [`Self::flow_read`] is available, and sends
    /// FileEnd.
    ///
    /// State: Large or Flow, which stays until Done.
    pub fn summed(&mut self, entry: EntryId) {
        match self.entries.get_mut(&entry).map(|tracked| &mut tracked.state) {
            Some(OfferState::Large(LargeOffer { summing, .. })) => *summing = DigestState::Done,
            Some(OfferState::Flow(flow)) => flow.summing = DigestState::Done,
            _ => return,
        }
        self.end_if_read(entry);
        self.end_flow(entry);
    }

    /// Delays the end of a file that has changed while being read, until the engine has read it a second time: as after
    /// [`Self::await_sums`], for this file. Returns `false` if its end was sent, or if the file is not wanted any more.
    pub fn await_second_reading(&mut self, entry: EntryId) -> bool {
        let summing = match self.entries.get_mut(&entry).map(|tracked| &mut tracked.state) {
            Some(OfferState::Large(LargeOffer { ended: false, summing, .. })) => summing,
            Some(OfferState::Flow(flow)) if !flow.is_told() => &mut flow.summing,
            _ => return false,
        };
        if summing.is_done() {
            *summing = DigestState::Awaited;
        }
        true
    }

    /// Sets the number of streams that share the work.
    pub fn set_streams(&mut self, streams: u16) {
        self.plan.set_streams(streams);
    }

    /// Tracks chunks from now on, as [`Self::next_double`] requires.
    pub fn track_chunks(&mut self) {
        self.plan.track_chunks();
    }

    /// Records that a stream has read and sent a chunk.
    pub fn chunk_done(&mut self, ticket: u64) {
        self.plan.done(ticket);
    }

    /// Returns the oldest chunk in flight for another stream, when there is no other work. The target takes the first
    /// copy.
    pub fn next_double(&mut self) -> Option<WorkItem<H>> {
        loop {
            let chunk = self.plan.take_double()?;
            if self.entries.contains_key(&chunk.entry) {
                return Some(WorkItem::Frames(chunk));
            }
        }
    }

    /// Asks a connecting target to open more streams over this path.
    pub fn ask_for_streams(&mut self, count: u16, path: PathId) {
        self.outbox.push_back(SourceMessage::Streams { count, path });
    }

    /// Asks a connecting target to open later streams over this path with small segments.
    pub fn ask_for_small_segments(&mut self, path: PathId) {
        self.outbox.push_back(SourceMessage::SmallSegments { path });
    }

    /// Returns how many more entries may be offered now.
    pub fn window(&self) -> usize {
        let directories = OPEN_DIRECTORIES_MAX.saturating_sub(self.window.open_directories);
        // Files that the target wanted and then gave up stay in the scheduler until a stream takes them.
        let unsettled = self.window.entries.max(self.plan.waiting()) + self.proven.under_way();
        if self.window.bytes > UNSETTLED_BYTES_MAX - ROOM_BYTES {
            return 0;
        }
        ENTRY_WINDOW.saturating_sub(unsettled).min(directories)
    }

    /// Whether the target accepts the attributes of one more directory while those above it are open. Room for the
    /// names of directories remains in any case.
    pub fn has_room_for_attributes(&self, directory: &Entry) -> bool {
        self.window.open_bytes + directory.held_bytes() <= OPEN_DIRECTORIES_BYTES_MAX - OPEN_DIRECTORIES_MAX * MAX_NAME
    }

    /// Offers an entry. It is sent by [`Self::flush_offers`], in a full batch or when the window closes.
    ///
    /// Adds an entry in Offered, or in Directory.
    ///
    /// # Panics
    /// If the window is closed or offers have ended: programmer's errors.
    pub fn offer(&mut self, entry: Entry, handle: Arc<H>) -> EntryId {
        assert!(self.window() > 0 && !self.window.has_ended, "an offer that may not be made");
        let id = self.batch.take_id();
        let state = match &entry.kind {
            EntryContent::Directory => OfferState::Directory { ended: false, refused: false },
            _ => OfferState::offered(&entry),
        };
        let bytes = self.window.add(&entry);
        self.entries.insert(id, OfferedEntry { handle, state, bytes });
        self.batch.push(entry, bytes);
        if self.batch.is_full() || self.window() == 0 {
            self.flush_offers();
        }
        id
    }

    /// Sends the batched entries.
    pub fn flush_offers(&mut self) {
        self.outbox.extend(self.batch.take_offer());
    }

    /// Ends the offers in this directory.
    ///
    /// Previous state: Directory. Next: the same until Done, or complete if it was refused.
    pub fn end_directory(&mut self, entry: EntryId, listing: impl Into<ListingEnd>) {
        self.flush_offers();
        let Some(OfferedEntry { state: OfferState::Directory { ended, refused }, bytes, .. }) =
            self.entries.get_mut(&entry)
        else {
            return;
        };
        if !std::mem::replace(ended, true) {
            self.window.close_directory(*bytes);
            self.outbox.push_back(SourceMessage::DirectoryEnd { entry, listing: listing.into() });
            if *refused {
                self.settle_entry(entry);
            }
        }
    }

    /// Excludes these names in a directory that has not ended.
    pub fn exclude(&mut self, entry: EntryId, names: Vec<Name>) {
        self.flush_offers();
        self.outbox.push_back(SourceMessage::Excluded { entry, what: Exclusion::Names(names) });
    }

    /// Sends names that were listed in a directory and are gone, before its end.
    pub fn tell_vanished(&mut self, entry: EntryId, names: Vec<Name>) {
        self.flush_offers();
        self.outbox.push_back(SourceMessage::Excluded { entry, what: Exclusion::Vanished(names) });
    }

    /// Sends a filter file of a directory before the first offer in it.
    pub fn send_patterns(&mut self, entry: EntryId, file: u8, text: Vec<u8>) {
        self.flush_offers();
        self.outbox.push_back(SourceMessage::Excluded { entry, what: Exclusion::Patterns { file, text } });
    }

    /// Sends the name of a user or group before the first offer with it.
    pub fn send_owner(&mut self, is_group: bool, id: u32, name: Vec<u8>) {
        self.outbox.push_back(SourceMessage::Owner { is_group, id, name });
    }

    /// Returns the number of messages waiting for the target.
    pub fn messages_waiting(&self) -> usize {
        self.outbox.len()
    }

    /// Reports that the listed source arguments before this number are fully offered.
    pub fn finish_operands(&mut self, before: u32) {
        self.flush_offers();
        self.outbox.push_back(SourceMessage::ListAck { before });
    }

    /// Ends all offers.
    ///
    /// # Panics
    /// If a directory is open: a programmer's error.
    pub fn end_offers(&mut self) {
        assert!(self.window.open_directories == 0, "the end of offers with open directories");
        self.flush_offers();
        self.window.has_ended = true;
        self.outbox.push_back(SourceMessage::OffersEnd);
        self.assert_invariants();
    }

    /// Takes the files and links that the target has refused or failed to complete since the last call.
    pub fn take_rejected(&mut self) -> Vec<Arc<H>> {
        std::mem::take(&mut self.rejected)
    }

    /// Whether the target has refused any directory.
    pub fn has_refused(&self) -> bool {
        self.has_refused
    }

    /// Whether the target refused this directory, so that walking it is useless.
    pub fn is_refused(&self, directory: EntryId) -> bool {
        matches!(
            self.entries.get(&directory),
            Some(OfferedEntry { state: OfferState::Directory { refused: true, .. }, .. })
        )
    }

    /// Handles a message from the target.
    ///
    /// Want leads from Offered to Awaited, Small, Large, Flow or complete; Done and TargetFailed from any state after
    /// Offered to complete.
    pub fn handle(&mut self, message: TargetMessage) -> Result<(), ProtocolError> {
        self.handle_message(message)?;
        self.assert_invariants();
        Ok(())
    }

    fn handle_message(&mut self, message: TargetMessage) -> Result<(), ProtocolError> {
        match message {
            TargetMessage::Want { first, needs } => {
                for (at, need) in (0..).zip(needs) {
                    let entry =
                        first.0.checked_add(at).ok_or(ProtocolError::Unasked("an entry that was never offered"))?;
                    self.handle_need(EntryId(entry), need)?;
                }
            }
            TargetMessage::Done { runs } => {
                let total = runs.iter().fold(0u64, |total, (_, count)| total.saturating_add(*count));
                if total > (ENTRY_WINDOW + OPEN_DIRECTORIES_MAX) as u64 {
                    return Err(ProtocolError::OverLimit("entries that are done"));
                }
                runs.into_iter().try_for_each(|(first, count)| self.handle_done(first, count))?;
            }
            TargetMessage::TargetFailed { entry } => {
                self.check_offered(entry)?;
                if matches!(self.entries.get(&entry), Some(OfferedEntry { state: OfferState::Offered { .. }, .. })) {
                    return Err(ProtocolError::OutOfTurn("failure of an entry without an answer"));
                }
                let handle = self.entries.get(&entry).map(|tracked| Arc::clone(&tracked.handle));
                let is_first = self.settle_entry(entry);
                self.rejected.extend(handle.filter(|_| is_first));
            }
            TargetMessage::MissingRanges { entry, frames } => self.handle_lacks(entry, frames)?,
            TargetMessage::HaveRanges { entry, first, values, compare } => {
                self.handle_holds(entry, first, values, compare)?;
            }
            TargetMessage::BlockHashes { entry, first, marks } => self.handle_marks(entry, first, marks)?,
            TargetMessage::RollingSignatures { entry, size, format, first, sums } => {
                self.handle_sums(entry, size, format, first, &sums)?;
            }
            TargetMessage::ResendPacked { entries } => {
                entries.into_iter().try_for_each(|entry| self.handle_resend_packed(entry))?;
            }
            TargetMessage::Missing { entry, frames } => self.handle_missing(entry, &frames)?,
            TargetMessage::QueryEnd => self.handle_answered()?,
            TargetMessage::Ack { entry, frames } => self.handle_written(entry, frames)?,
        }
        Ok(())
    }

    /// Returns the next message for the target.
    pub fn poll_message(&mut self) -> Option<SourceMessage> {
        let message = self.outbox.pop_front().or_else(|| self.ask());
        if let Some(SourceMessage::Offer { entries, .. }) = &message {
            self.batch.count_sent(entries.len());
        }
        message
    }

    /// Spreads streams over devices: see [`Scheduler::spread_by`].
    pub fn spread_by(&mut self, device_of: fn(&H) -> u64) {
        self.plan.spread_by(device_of);
    }

    /// Records that a stream rests, so that it counts for no device.
    pub fn rest(&mut self, stream: StreamId) {
        self.plan.release(stream);
    }

    /// Returns the next work item of a stream, with at most `frames_max` frames of a file.
    pub fn next_work(&mut self, stream: StreamId, frames_max: u64) -> Option<WorkItem<H>> {
        if let Some(work) = self.next_of_flows() {
            return Some(work);
        }
        loop {
            let mut work = self.plan.take_work(stream, frames_max)?;
            match &mut work {
                WorkItem::Frames(chunk) | WorkItem::Compare(chunk, _) | WorkItem::Delta(chunk, _)
                    if !self.entries.contains_key(&chunk.entry) =>
                {
                    self.plan.forget(chunk.entry);
                    continue;
                }
                WorkItem::Frames(_)
                | WorkItem::Compare(..)
                | WorkItem::Delta(..)
                | WorkItem::Next(_)
                | WorkItem::Kept(_) => {}
                WorkItem::Pack(files) => {
                    files.retain(|file| self.entries.contains_key(&file.entry));
                    if files.is_empty() {
                        continue;
                    }
                }
            }
            self.hand_out(&work);
            return Some(self.as_delta(work));
        }
    }

    /// Whether there is work for streams now, or may be soon.
    pub fn has_work(&self) -> bool {
        !(self.plan.is_empty() && self.flows.is_empty())
    }

    /// Returns the number of files in flight: given to a stream in part and not complete.
    pub fn under_way(&self) -> usize {
        let is_under_way = |tracked: &&OfferedEntry<H>| match &tracked.state {
            OfferState::Small { handed, .. } => *handed,
            OfferState::Flow(_) => true,
            // The scheduler counts these.
            OfferState::Offered { .. } | OfferState::Awaited | OfferState::Directory { .. } | OfferState::Large(_) => {
                false
            }
        };
        self.entries.values().filter(is_under_way).count() + self.plan.begun()
    }

    /// Returns the handle of an incomplete entry.
    pub fn handle_of(&self, entry: EntryId) -> Option<&Arc<H>> {
        self.entries.get(&entry).map(|tracked| &tracked.handle)
    }

    /// Whether all offered entries are complete, and offers have ended.
    pub fn is_finished(&self) -> bool {
        self.window.has_ended && self.entries.is_empty() && self.outbox.is_empty()
    }

    /// Records that frames of an unchanged file were read, with their BLAKE3 values.
    ///
    /// Those in `same` were compared and equal the target's. The others were given to the stream, unless the copy only
    /// compares.
    ///
    /// Returns the file's BLAKE3 where these were the last frames and a requested digest is awaited. Then
    /// [`Self::summed`] follows, or [`Self::fail`].
    pub fn frames_read(&mut self, entry: EntryId, values: &[(u64, Digest)], same: &RangeSet) -> Option<Digest> {
        let large = match self.entries.get_mut(&entry).map(|tracked| &mut tracked.state) {
            Some(OfferState::Large(large)) => large,
            Some(OfferState::Flow(flow)) => {
                for (index, value) in values {
                    flow.tree.insert(*index, *value);
                }
                return self.end_flow(entry);
            }
            _ => return None,
        };
        let mut differ = RangeSet::new();
        for (index, value) in values {
            large.tree.insert(*index, *value);
            let others = if self.settings.compares { &mut differ } else { &mut large.handed };
            if large.tree.contains(*index) && !same.contains(*index) {
                others.insert(*index);
            }
        }
        if !same.is_empty() {
            self.outbox.push_back(SourceMessage::Match { entry, frames: same.iter().collect() });
        }
        if !differ.is_empty() {
            self.outbox.push_back(SourceMessage::Mismatch { entry, frames: differ.iter().collect() });
        }
        self.end_if_read(entry)
    }

    fn end_if_read(&mut self, entry: EntryId) -> Option<Digest> {
        let Some(OfferedEntry { state: OfferState::Large(large), .. }) = self.entries.get_mut(&entry) else {
            return None;
        };
        let digest = large.tree.digest().filter(|_| !large.ended)?;
        if !large.summing.is_done() {
            return large.summing.begin().then_some(digest);
        }
        large.ended = true;
        let LargeOffer { size, modified, .. } = *large;
        self.outbox.push_back(SourceMessage::FileEnd { entry, size, modified, digest });
        None
    }

    /// Puts a small file back that did not fit into its pack, since one of the files has grown. It goes into a later
    /// pack, with `size` bytes.
    ///
    /// State: Small, which stays until Done.
    pub fn put_back(&mut self, entry: EntryId, size: u64) {
        let most = self.settings.frame.pack_file_max();
        if let Some(OfferedEntry { state: OfferState::Small { size: planned, handed, .. }, handle, .. }) =
            self.entries.get_mut(&entry)
        {
            (*planned, *handed) = (size.min(most), false);
            self.plan.add(entry, Arc::clone(handle), *planned);
        }
    }

    /// Fails a file that the source cannot deliver. Returns `false` without any effect if the file is not wanted yet or
    /// any more.
    ///
    /// Previous state: Small, Large or Flow. Next: complete.
    pub fn fail(&mut self, entry: EntryId, reason: &str) -> bool {
        self.give_up(entry, reason, false)
    }

    /// As [`Self::fail`], for a file whose name is gone: no failure of the copy.
    pub fn vanish(&mut self, entry: EntryId) -> bool {
        self.give_up(entry, "vanished", true)
    }

    fn give_up(&mut self, entry: EntryId, reason: &str, vanished: bool) -> bool {
        let state = self.entries.get(&entry).map(|tracked| &tracked.state);
        let needed = matches!(state, Some(OfferState::Small { .. } | OfferState::Large(_) | OfferState::Flow(_)));
        if needed {
            self.settle_entry(entry);
            self.outbox.push_back(SourceMessage::SourceFailed { entry, reason: reason.into(), vanished });
        }
        needed
    }

    /// Offers a changed file anew, in its own location; its received frames are void.
    ///
    /// Returns `None` without any effect if the file is not wanted yet or any more, or is a flow. Data of a flow may
    /// already be where it cannot be withdrawn.
    ///
    /// Previous state: Small or Large. Next: complete; the new offer is in Offered.
    pub fn offer_again(&mut self, entry: EntryId, now: Entry, handle: Arc<H>) -> Option<EntryId> {
        let needed = matches!(self.entries.get(&entry)?.state, OfferState::Small { .. } | OfferState::Large(_));
        if !needed {
            return None;
        }
        self.flush_offers();
        self.settle_entry(entry);
        let id = self.batch.take_id();
        let state = OfferState::offered(&now);
        let now = Entry { place: EntryLocation::Again(entry), ..now };
        let bytes = self.window.add(&now);
        self.entries.insert(id, OfferedEntry { handle, state, bytes });
        self.outbox.push_back(SourceMessage::Offer { first: id, entries: vec![now] });
        Some(id)
    }

    /// Checks what is true after each message and each end of offers.
    fn assert_invariants(&self) {
        let (entries, window) = (&self.entries, &self.window);
        debug_assert_eq!(window.entries + window.open_directories, entries.len(), "the window counts other entries");
        debug_assert!(!entries.is_empty() || window.bytes == 0, "complete entries left bytes in the window");
        debug_assert!(!window.has_ended || window.open_directories == 0, "offers have ended in open directories");
    }

    fn check_offered(&self, entry: EntryId) -> Result<(), ProtocolError> {
        match entry.0 < self.batch.sent() {
            true => Ok(()),
            false => Err(ProtocolError::Unasked("an entry that was never offered")),
        }
    }

    /// Completes an entry and forgets it. An open directory stays until it has ended, since its children name it.
    fn settle_entry(&mut self, entry: EntryId) -> bool {
        if let Some(OfferedEntry { state: OfferState::Directory { ended: false, refused }, .. }) =
            self.entries.get_mut(&entry)
        {
            self.has_refused = true;
            return !std::mem::replace(refused, true);
        }
        let known = self.entries.remove(&entry);
        self.plan.complete_file(entry);
        // The target no longer counts its requests about this file.
        if let Some(OfferedEntry { state: OfferState::Large(LargeOffer { rest: true, ended, old, .. }), .. }) = &known {
            self.sums_bytes -= old.as_ref().map_or(0, |old| old.bytes());
            if !ended {
                self.plan.forget_target_hashes(entry);
            }
        }
        if let Some(OfferedEntry { bytes, .. }) = &known {
            self.window.remove(*bytes);
        }
        known.is_some()
    }
}

/// Checks that these frames of a file are sent.
fn check_frames(sent: &Range<u64>, frames: &Range<u64>) -> Result<(), ProtocolError> {
    let is_sent = sent.start <= frames.start && frames.end <= sent.end;
    if frames.start < frames.end && is_sent { Ok(()) } else { Err(ProtocolError::Misplaced) }
}

/// Counts requested frames. Endless requests for the same frames end the copy.
fn count_requested_frames(asked: &mut u64, frames: u64, of_file: u64) -> Result<(), ProtocolError> {
    *asked = asked.saturating_add(frames);
    let most = of_file.saturating_mul(RESENDS_PER_FRAME_MAX).saturating_add(RESENDS_PER_FILE_MAX);
    if *asked <= most { Ok(()) } else { Err(ProtocolError::OverLimit("too many repeated requests for a frame")) }
}

#[cfg(test)]
#[path = "source_tests.rs"]
mod tests;
