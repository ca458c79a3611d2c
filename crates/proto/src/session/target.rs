//! The target's session: it takes offers, replies with decisions, admits frames, and detects whole files and
//! directories.
//!
//! It accepts only messages and frames that match earlier offers and wants. A
//! [`ProtocolError`] ends the session after an id out of order, a child of a
//! non-directory, a misaligned frame or an unwanted one. Late input about a complete entry is discarded.

mod bases;
mod compare;
mod delta;
mod flow;
mod frames;
mod loss;
mod offers;
mod outbox;
mod retransmit;

use std::collections::HashSet;
use std::sync::Arc;

use self::bases::LostBases;
pub use self::bases::Rebuilt;
use self::compare::{UnansweredDigests, comparing};
use self::delta::AdvertisedBase;
use self::flow::{FlowLength, FlowProgress, tree_of};
use self::outbox::Outbox;
use super::step::{EntryAnswer, FileEnd, FinishedEntry, ParentDirectory, TargetStep};
use crate::delta::blocks::BLOCK;
use crate::entry::{EntryContent, EntryLocation, Timestamp};
use crate::error::ProtocolError;
use crate::file_range::FileRange;
use crate::ids::{ByEntry, EntryId};
use crate::integrity::{Digest, FrameLen, FrameTree};
use crate::session::differing::Differing;
use crate::session::digest_state::DigestState;
use crate::session::window::EntryWindow;
use crate::wire::message::{Exclusion, ListingEnd, SourceMessage, TargetMessage, TransferNeed};

/// The target's side of a copy. `H` is the engine's handle of an entry.
///
/// It has four kinds of methods that change it, and queries, which take `&self`:
///
/// - **Settings**, before the first message: [`Self::keep_values`], [`Self::receive_range`], [`Self::await_sums`],
///   [`Self::begin_with_wrong_deltas`].
/// - **Input.** [`Self::handle`] takes messages in the order of the control channel. [`Self::admit_frame`],
///   [`Self::admit_delta`] and [`Self::admit_pack`] take what streams deliver, in any order. After a [`ProtocolError`]
///   the session is over: only queries may follow, and calls for work begun before.
/// - **Results** of the caller's work, in the order below.
/// - **Output.** [`Self::poll_message`] until it returns `None`, after each call that leaves [`Self::has_output`]
///   true.
///
/// The caller takes each returned step, and a returned [`FinishedEntry`] like [`TargetStep::Finish`]:
///
/// | returned | the caller's next call about it |
/// |---|---|
/// | [`TargetStep::Examine`] | [`Self::answer`] for each entry in order, before the next [`Self::handle`] |
/// | [`EntryAnswer::Partial`], [`EntryAnswer::Compare`] | [`Self::holds`] and [`Self::lacks`], after the whole Offer |
/// | [`EntryAnswer::Delta`] | [`Self::mark`]; or [`Self::begin_sums`], [`Self::send_signatures`], [`Self::lacks`] |
/// | a handle from [`Self::admit_frame`] | [`Self::frame_written`], [`Self::release_frame`] or [`Self::resend_frame`] |
/// | a handle from [`Self::admit_delta`] | [`Self::conclude_delta`], then as above if the frame is to be written |
/// | a handle from [`Self::admit_pack`] | [`Self::settle_entry`] or [`Self::lost`] |
/// | [`TargetStep::Sum`] | [`Self::summed`] or [`Self::settle_entry`] |
/// | [`TargetStep::Finish`] | [`Self::settle_entry`] or, for a file, [`Self::lost`] |
/// | [`TargetStep::Mismatch`], [`TargetStep::Differs`] | [`Self::settle_entry`] |
/// | [`TargetStep::Abandon`] | [`Self::abandoned`] |
///
/// A file that cannot be written is settled at any time after its answer. Late calls about a complete entry have no
/// effect. The session ends when [`Self::is_finished`] is true.
#[derive(Debug)]
pub struct TargetSession<H> {
    settings: TargetSettings,
    entries: ByEntry<ReceivedEntry<H>>,
    next: u64,
    decisions: OfferDecisions,
    /// Files offered anew, still without a decision: the old entries by the new ids.
    again: ByEntry<(EntryId, Arc<H>)>,
    outbox: Outbox,
    /// Whether the reply to a QueryMissing is not fully sent.
    answering: bool,
    /// Frames that the source has to compare.
    unsure: UnansweredDigests,
    /// Advertised hashes of base files.
    advertised: AdvertisedBase,
    lost_bases: LostBases,
    window: EntryWindow,
    runs: FrameRuns,
}

/// Decisions about the entries of the current Offer.
#[derive(Debug)]
struct OfferDecisions {
    first: EntryId,
    needs: Vec<TransferNeed>,
}

/// Runs of received frames. They are counted only after many frames have started a new run, since most runs merge soon.
#[derive(Debug, Default)]
struct FrameRuns {
    begun: usize,
    are_too_many: bool,
}

/// Frames with a new run from one count to the next.
const RUNS_COUNTED_EVERY: usize = 1 << 14;

#[derive(Debug)]
struct ReceivedEntry<H> {
    parent: Option<EntryId>,
    state: ReceiveState<H>,
    /// Bytes counted for this entry.
    bytes: usize,
    /// Length of its name; 0 for a source argument.
    name_len: u8,
    /// The source gave it up, and no longer counts it in its window.
    released: bool,
    /// It was whole, was lost and was requested again.
    again: bool,
}

#[derive(Debug)]
enum ReceiveState<H> {
    /// Offered; the engine checks it. Next: any other state, complete.
    Examining { kind: EntryContent },
    /// Wanted in a pack. Next: Finishing, complete.
    Small { handle: Arc<H> },
    /// Wanted in frames. Next: Finishing, complete. Boxed, since these are few among many others.
    Large(Box<LargeReceive<H>>),
    /// Whole; the engine gives it its final name. Next: complete; or, once, Small or Large, if its data on disk is
    /// wrong.
    Finishing,
    /// A directory. Next: Finishing, once it has ended and all its children are complete.
    Directory { handle: Option<Arc<H>>, children: u64, ended: bool, complete: bool },
}

#[derive(Debug)]
struct LargeReceive<H> {
    handle: Arc<H>,
    extent: FlowLength,
    tree: FrameTree,
    /// Frames being checked and written. A second copy of one is discarded, so that nothing is written to a whole file.
    /// At most one for each stream.
    in_hand: HashSet<u64>,
    end: Option<(Timestamp, Digest)>,
    /// Differing frames of a file that is only compared.
    differing: Option<Differing>,
    /// Progress of a file that is sent in order and read only once.
    flow: Option<FlowProgress>,
    summing: DigestState,
}

impl<H> LargeReceive<H> {
    /// Creates the state before the first frame.
    fn new(handle: Arc<H>, extent: FlowLength, tree: FrameTree) -> Self {
        Self {
            handle,
            extent,
            tree,
            in_hand: HashSet::new(),
            end: None,
            differing: None,
            flow: None,
            summing: DigestState::Done,
        }
    }
}

impl<H> TargetSession<H> {
    /// Creates a copy without offers.
    pub fn new(frame: FrameLen) -> Self {
        Self {
            settings: TargetSettings { frame, values: false, sums: false, range: None },
            entries: ByEntry::default(),
            next: 0,
            decisions: OfferDecisions { first: EntryId(0), needs: Vec::new() },
            again: ByEntry::default(),
            outbox: Outbox::default(),
            answering: false,
            unsure: UnansweredDigests::default(),
            advertised: AdvertisedBase::default(),
            lost_bases: LostBases::default(),
            window: EntryWindow::default(),
            runs: FrameRuns::default(),
        }
    }

    /// Keeps the values of a file's frames until it is whole, so that differing frames on disk can be located: see
    /// [`FrameTree::keeping`].
    pub fn keep_values(&mut self) {
        self.settings.values = true;
    }

    /// Receives this range of each file alone. The engine refuses every file without it.
    pub fn receive_range(&mut self, range: FileRange) {
        self.settings.range = Some(range);
    }

    /// Delays the completion of each large file until the engine has its requested digest: see [`TargetStep::Sum`].
    pub fn await_sums(&mut self) {
        self.settings.sums = true;
    }

    /// Records that the digest requested by [`TargetStep::Sum`] is available.
    ///
    /// Previous state: Large. Next: the same until FileEnd, else Finishing.
    pub fn summed(&mut self, entry: EntryId) -> TargetStep<H> {
        let Some(large) = self.large_mut(entry) else { return TargetStep::None };
        large.summing = DigestState::Done;
        self.finish_if_complete(entry)
    }

    /// Handles a message from the source. All entries of an Offer need a decision before the next message.
    ///
    /// An Offer adds entries in Examining or Directory. FileEnd, Match, Mismatch and SourceFailed lead from Small or
    /// Large to Finishing; DirectoryEnd from Directory to Finishing.
    pub fn handle(&mut self, message: SourceMessage) -> Result<TargetStep<H>, ProtocolError> {
        self.outbox.check()?;
        let step = self.handle_message(message)?;
        self.assert_invariants();
        Ok(step)
    }

    fn handle_message(&mut self, message: SourceMessage) -> Result<TargetStep<H>, ProtocolError> {
        if self.window.has_ended && is_new(&message) {
            return Err(ProtocolError::OutOfTurn("an offer"));
        }
        match message {
            SourceMessage::Offer { first, entries } => self.handle_offer(first, entries),
            SourceMessage::DirectoryEnd { entry, listing } => {
                self.handle_directory_end(entry, listing == ListingEnd::Complete)
            }
            SourceMessage::Excluded { entry, what: Exclusion::Names(names) } => {
                Ok(self.open_directory(entry)?.map_or(TargetStep::None, |handle| TargetStep::LeftOut(handle, names)))
            }
            SourceMessage::Excluded { entry, what: Exclusion::Vanished(names) } => {
                Ok(self.open_directory(entry)?.map_or(TargetStep::None, |handle| TargetStep::Vanished(handle, names)))
            }
            SourceMessage::Excluded { entry, what: Exclusion::Patterns { file, text } } => {
                Ok(self.open_directory(entry)?.map_or(TargetStep::None, |_| TargetStep::Patterns(entry, file, text)))
            }
            SourceMessage::FileEnd { entry, size, modified, digest } => {
                self.handle_file_end(entry, size, modified, digest)
            }
            SourceMessage::SourceFailed { entry, vanished, .. } => self.handle_source_failed(entry, vanished),
            SourceMessage::Match { entry, frames } => self.handle_same(entry, &frames),
            SourceMessage::Mismatch { entry, frames } => self.handle_differs(entry, &frames),
            SourceMessage::OffersEnd => {
                if self.window.open_directories > 0 {
                    return Err(ProtocolError::OutOfTurn("the end of all offers"));
                }
                self.window.has_ended = true;
                Ok(TargetStep::None)
            }
            SourceMessage::ListAck { before } => Ok(TargetStep::Passed(before)),
            SourceMessage::Owner { is_group, id, name } => Ok(TargetStep::Owner { is_group, id, name }),
            SourceMessage::Streams { count, path } => Ok(TargetStep::Connect(count, path)),
            SourceMessage::SmallSegments { path } => Ok(TargetStep::SmallSegments(path)),
            SourceMessage::QueryMissing { streams, entries } => self.handle_ask(streams, &entries),
        }
    }

    /// Returns the parent directory of an entry in the current Offer.
    pub fn parent(&self, place: &EntryLocation) -> ParentDirectory<H> {
        match place {
            EntryLocation::Operand(number) => ParentDirectory::Operand(*number),
            EntryLocation::Child { parent, .. } => match self.entries.get(parent) {
                Some(ReceivedEntry { state: ReceiveState::Directory { handle: Some(handle), .. }, .. }) => {
                    ParentDirectory::Open(Arc::clone(handle))
                }
                _ => ParentDirectory::Refused,
            },
            EntryLocation::Again(entry) => match self.again.values().find(|(old, _)| old == entry) {
                Some((_, handle)) => ParentDirectory::Again(Arc::clone(handle)),
                None => ParentDirectory::Refused,
            },
        }
    }

    /// Returns the handle of an open directory.
    pub fn directory(&self, entry: EntryId) -> Option<Arc<H>> {
        match self.entries.get(&entry) {
            Some(ReceivedEntry { state: ReceiveState::Directory { handle, .. }, .. }) => handle.clone(),
            _ => None,
        }
    }

    /// Takes the decision about the next entry of the current Offer; returns the entry that it finishes.
    ///
    /// Previous state: Examining or Directory. Next: Small, Large, Finishing (a hard link), Directory or complete.
    ///
    /// # Panics
    /// If `entry` is not the next one, or cannot have this decision: programmer's errors.
    pub fn answer(&mut self, entry: EntryId, answer: EntryAnswer<H>) -> Option<FinishedEntry<H>> {
        let finish = self.answer_entry(entry, answer);
        // A directory with a file offered anew is incomplete until the decision about that file.
        let old = self.again.remove(&entry).and_then(|(old, _)| self.forget(old));
        finish.or(old)
    }

    fn answer_entry(&mut self, entry: EntryId, answer: EntryAnswer<H>) -> Option<FinishedEntry<H>> {
        assert_eq!(entry.0, self.decisions.first.0 + self.decisions.needs.len() as u64, "answers in order");
        self.decisions.needs.push(answer.need());
        if entry.0 + 1 == self.next {
            let needs = std::mem::take(&mut self.decisions.needs);
            self.outbox.push(TargetMessage::Want { first: self.decisions.first, needs });
        }
        let settings = self.settings;
        let tracked = self.entries.get_mut(&entry)?;
        match (answer, &mut tracked.state) {
            (EntryAnswer::Needed(directory), ReceiveState::Directory { handle, .. }) => *handle = Some(directory),
            (EntryAnswer::Refused, ReceiveState::Directory { .. }) => {}
            (
                EntryAnswer::Needed(handle) | EntryAnswer::Partial(handle),
                ReceiveState::Examining { kind: EntryContent::File { size } },
            ) => {
                tracked.state = receiving(settings, handle, *size, None);
            }
            (EntryAnswer::Delta(handle), ReceiveState::Examining { kind: EntryContent::File { size } })
                if *size > BLOCK as u64 =>
            {
                tracked.state = receiving_large(settings, handle, FlowLength::Known(*size), None);
            }
            (EntryAnswer::Compare(handle), ReceiveState::Examining { kind: EntryContent::File { size } })
                if *size > 0 =>
            {
                tracked.state = comparing(settings.frame, handle, *size);
            }
            (EntryAnswer::NeededInOrder(handle), ReceiveState::Examining { kind: EntryContent::File { size } }) => {
                tracked.state = receiving(settings, handle, *size, Some(FlowProgress::default()));
            }
            (
                EntryAnswer::Needed(handle) | EntryAnswer::NeededInOrder(handle),
                ReceiveState::Examining { kind: EntryContent::Stream },
            ) => {
                tracked.state =
                    receiving_large(settings, handle, FlowLength::Open(None), Some(FlowProgress::default()));
                // The source cannot read it again.
                tracked.again = true;
            }
            // The engine creates it when the other hard link exists.
            (EntryAnswer::Needed(_), ReceiveState::Examining { kind: EntryContent::HardLink { .. } }) => {
                tracked.state = ReceiveState::Finishing
            }
            (EntryAnswer::Settled | EntryAnswer::Same | EntryAnswer::Refused, ReceiveState::Examining { .. }) => {
                return self.forget(entry);
            }
            _ => panic!("an answer that entry {} cannot have", entry.0),
        }
        None
    }

    /// Completes an entry that has its final name, or has failed with a report. Returns the directory that this
    /// completes.
    ///
    /// Previous state: Small, Large or Finishing. Next: complete.
    ///
    /// # Panics
    /// If there was no decision about it, or if it is a directory that is not to be finished: programmer's errors.
    pub fn settle_entry(&mut self, entry: EntryId, done: bool) -> Option<FinishedEntry<H>> {
        let tracked = self.entries.get(&entry)?;
        let unready = matches!(tracked.state, ReceiveState::Examining { .. } | ReceiveState::Directory { .. });
        assert!(!unready, "entry {} cannot be settled yet", entry.0);
        if done {
            self.outbox.push_done(entry);
        } else {
            self.outbox.push(TargetMessage::TargetFailed { entry });
        }
        self.forget(entry)
    }

    /// Whether an entry was offered and is not complete.
    pub fn is_known(&self, entry: EntryId) -> bool {
        self.entries.contains_key(&entry)
    }

    /// Whether the thread that sends messages has something to do: messages, or the end of the session.
    pub fn has_output(&self) -> bool {
        !self.outbox.is_empty() || self.window.has_ended && self.entries.is_empty()
    }

    /// Returns the next message for the source; `None` until [`Self::has_output`] is true again.
    pub fn poll_message(&mut self) -> Option<TargetMessage> {
        let message = self.outbox.pop();
        self.answering &= message != Some(TargetMessage::QueryEnd);
        message
    }

    /// Whether all offered entries are complete, and offers have ended.
    pub fn is_finished(&self) -> bool {
        self.window.has_ended && self.entries.is_empty() && self.outbox.is_empty()
    }

    fn handle_file_end(
        &mut self,
        entry: EntryId,
        size: u64,
        modified: Timestamp,
        digest: Digest,
    ) -> Result<TargetStep<H>, ProtocolError> {
        if self.tracked(entry)?.is_none() {
            return Ok(TargetStep::None);
        }
        let frame = self.settings.frame;
        match self.entries.get_mut(&entry) {
            Some(ReceivedEntry { state: ReceiveState::Large(large), .. }) if large.end.is_none() => {
                large.close(frame, size)?;
                large.end = Some((modified, digest));
            }
            _ => return Err(ProtocolError::OutOfTurn("the end of a file")),
        }
        Ok(self.finish_if_complete(entry))
    }

    fn handle_source_failed(&mut self, entry: EntryId, vanished: bool) -> Result<TargetStep<H>, ProtocolError> {
        if self.tracked(entry)?.is_none() {
            return Ok(TargetStep::None);
        }
        let Some(tracked) = self.entries.get_mut(&entry) else { return Ok(TargetStep::None) };
        let handle = match &tracked.state {
            ReceiveState::Small { handle } => Some(Arc::clone(handle)),
            ReceiveState::Large(large) => Some(Arc::clone(&large.handle)),
            // Whole and verified before the source gave it up: the received data is intact.
            ReceiveState::Finishing => None,
            _ => return Err(ProtocolError::OutOfTurn("a failure")),
        };
        if !std::mem::replace(&mut tracked.released, true) {
            self.window.remove(tracked.bytes);
        }
        let Some(handle) = handle else { return Ok(TargetStep::None) };
        // Frames received before the engine has removed it are late.
        tracked.state = ReceiveState::Finishing;
        Ok(TargetStep::Abandon(entry, handle, vanished))
    }

    /// Completes the removal of an entry that the source gave up. Returns the directory that this completes.
    ///
    /// Previous state: Finishing, after [`TargetStep::Abandon`]. Next: complete.
    pub fn abandoned(&mut self, entry: EntryId) -> Option<FinishedEntry<H>> {
        let is_abandoned = |tracked: &ReceivedEntry<H>| tracked.released;
        debug_assert!(self.entries.get(&entry).is_none_or(is_abandoned), "entry {} was not given up", entry.0);
        self.forget(entry)
    }

    fn finish_if_complete(&mut self, entry: EntryId) -> TargetStep<H> {
        let Some(tracked) = self.entries.get_mut(&entry) else { return TargetStep::None };
        let ReceiveState::Large(large) = &mut tracked.state else { return TargetStep::None };
        if let FlowLength::Known(size) = large.extent
            && large.tree.is_full()
            && large.summing.begin()
        {
            return TargetStep::Sum(entry, Arc::clone(&large.handle), size);
        }
        let Some(end) = large.end else { return TargetStep::None };
        if let Some(differing) = large.take_differences(large.frames(self.settings.frame)) {
            let handle = Arc::clone(&large.handle);
            tracked.state = ReceiveState::Finishing;
            return TargetStep::Differs(entry, handle, differing);
        }
        let Some(digest) = large.tree.digest().filter(|_| large.summing.is_done()) else { return TargetStep::None };
        let ReceiveState::Large(large) = std::mem::replace(&mut tracked.state, ReceiveState::Finishing) else {
            return TargetStep::None;
        };
        let LargeReceive { handle, tree, extent, .. } = *large;
        let FlowLength::Known(size) = extent else { unreachable!("a file that has its end has its size") };
        if digest == end.1 {
            let end = Box::new(FileEnd { size, modified: end.0, digest, tree });
            TargetStep::Finish(FinishedEntry { entry, handle, end: Some(end), complete: true })
        } else {
            TargetStep::Mismatch(entry, handle)
        }
    }

    /// Finishes a directory that has ended with all children complete; forgets it if it was refused.
    fn directory_step(&mut self, entry: EntryId) -> Option<FinishedEntry<H>> {
        let tracked = self.entries.get_mut(&entry)?;
        let ReceiveState::Directory { handle, children: 0, ended: true, complete } = &mut tracked.state else {
            return None;
        };
        let complete = *complete;
        match handle.take() {
            Some(handle) => {
                tracked.state = ReceiveState::Finishing;
                Some(FinishedEntry { entry, handle, end: None, complete })
            }
            None => self.forget(entry),
        }
    }

    /// Forgets an entry and updates its parent.
    fn forget(&mut self, entry: EntryId) -> Option<FinishedEntry<H>> {
        let tracked = self.entries.remove(&entry)?;
        self.unsure.forget(entry);
        self.advertised.forget(entry);
        if !tracked.released {
            self.window.remove(tracked.bytes);
        }
        let mut parent = tracked.parent?;
        // A loop instead of recursion: a chain of refused directories may be as deep as the limit allows.
        loop {
            let tracked = self.entries.get_mut(&parent)?;
            let ReceiveState::Directory { handle, children, ended, .. } = &mut tracked.state else { return None };
            *children -= 1;
            if *children > 0 || !*ended {
                return None;
            }
            if handle.is_some() {
                return self.directory_step(parent);
            }
            let grandparent = tracked.parent;
            self.window.remove(tracked.bytes);
            self.entries.remove(&parent);
            parent = grandparent?;
        }
    }

    /// Checks what is true after each message.
    fn assert_invariants(&self) {
        let (entries, window) = (&self.entries, &self.window);
        debug_assert!(!window.has_ended || window.open_directories == 0, "offers have ended in open directories");
        debug_assert!(window.entries + window.open_directories <= entries.len(), "the window counts complete entries");
        debug_assert!(!entries.is_empty() || window.bytes == 0, "complete entries left bytes in the window");
        debug_assert!(self.again.len() <= entries.len(), "an offer anew outlived its decision");
    }

    /// Returns an offered entry; `None` once it is complete.
    fn tracked(&self, entry: EntryId) -> Result<Option<&ReceivedEntry<H>>, ProtocolError> {
        if entry.0 >= self.next {
            return Err(ProtocolError::Unasked("an entry that was never offered"));
        }
        Ok(self.entries.get(&entry))
    }
}

/// Whether a message makes a new offer.
fn is_new(message: &SourceMessage) -> bool {
    match message {
        SourceMessage::Offer { entries, .. } => {
            entries.iter().any(|entry| !matches!(entry.place, EntryLocation::Again(_)))
        }
        message => matches!(message, SourceMessage::OffersEnd | SourceMessage::ListAck { .. }),
    }
}

/// Settings common to all files of a copy.
#[derive(Debug, Clone, Copy)]
struct TargetSettings {
    frame: FrameLen,
    /// Whether frames' values are kept until the file is whole.
    values: bool,
    /// Whether a requested digest delays completion.
    sums: bool,
    /// The range that is received of the only file.
    range: Option<FileRange>,
}

fn receiving<H>(settings: TargetSettings, handle: Arc<H>, size: u64, flow: Option<FlowProgress>) -> ReceiveState<H> {
    if size <= settings.frame.pack_file_max() {
        return ReceiveState::Small { handle };
    }
    receiving_large(settings, handle, FlowLength::Known(size), flow)
}

fn receiving_large<H>(
    settings: TargetSettings,
    handle: Arc<H>,
    extent: FlowLength,
    flow: Option<FlowProgress>,
) -> ReceiveState<H> {
    let (tree, summing) = (tree_of(settings, extent), DigestState::when(settings.sums));
    ReceiveState::Large(Box::new(LargeReceive { flow, summing, ..LargeReceive::new(handle, extent, tree) }))
}

#[cfg(test)]
#[path = "target_tests.rs"]
mod tests;
