//! The target's machine: takes offers, answers with needs, admits frames, knows when a file is whole and when a
//! directory is.
//!
//! Nothing that a source sends is believed beyond what was offered and needed: an id out of turn, a child of what
//! is no directory, a frame off its place or of something not needed ends the session with a
//! [`ProtocolError`]. What is merely late (about an entry that is settled) is discarded.

mod bases;
mod compare;
mod delta;
mod flow;
mod frames;
mod loss;
mod offers;
mod outbox;
mod retransmit;

use crate::session::differing::Differing;
use std::collections::HashSet;
use std::sync::Arc;

use self::flow::{FlowLength, FlowProgress, tree_of};
use crate::delta::blocks::BLOCK;
use crate::entry::{EntryContent, EntryLocation, Timestamp};
use crate::error::ProtocolError;
use crate::ids::{ByEntry, EntryId};
use crate::integrity::{Digest, FrameLen, FrameTree};
use crate::limits::ENTRY_WINDOW;
use crate::ranges::RangeSet;
use crate::session::digest_state::DigestState;
use crate::wire::message::{SourceMessage, TargetMessage, TransferNeed};

use self::bases::LostBases;
pub use self::bases::Rebuilt;
use self::compare::{UnansweredDigests, comparing};
use self::delta::AdvertisedBase;
use self::outbox::Outbox;
use super::step::{EntryAnswer, FileEnd, FinishedEntry, ParentDirectory, TargetStep};

/// Most runs in one Done message.
const DONE_RUNS_MAX: usize = 4096;
const _: () = assert!(DONE_RUNS_MAX <= ENTRY_WINDOW);

/// The target's side of a job. `H` is what the engine knows an entry by.
#[derive(Debug)]
pub struct TargetSession<H> {
    frame: FrameLen,
    entries: ByEntry<ReceivedEntry<H>>,
    next: u64,
    /// Answers to the Offer that is being examined.
    needs: Vec<TransferNeed>,
    needs_first: EntryId,
    /// Files that are offered anew and not answered yet, by their new ids: the old ones.
    again: ByEntry<(EntryId, Arc<H>)>,
    done: RangeSet,
    outbox: Outbox,
    /// The source has asked what has not come, and not all of the answer was taken.
    answering: bool,
    /// Frames that the source is to compare.
    unsure: UnansweredDigests,
    /// What it was told of old files.
    told: AdvertisedBase,
    lost_bases: LostBases,
    in_window: usize,
    open_directories: usize,
    /// Bytes that unsettled entries count.
    held_bytes: usize,
    /// Of these, those of open directories.
    open_bytes: usize,
    offers_ended: bool,
    keeps_values: bool,
    sums: bool,
    runs: FrameRuns,
}

/// Runs of frames that have come. Counted anew once so many frames have begun another run, since most of these merge soon.
#[derive(Debug, Default)]
struct FrameRuns {
    begun: usize,
    are_too_many: bool,
}

/// So many frames begin another run before runs are counted.
const RUNS_COUNTED_EVERY: usize = 1 << 14;

#[derive(Debug)]
struct ReceivedEntry<H> {
    parent: Option<EntryId>,
    state: ReceiveState<H>,
    /// What it counts of the bytes of unsettled entries.
    bytes: usize,
    /// Bytes of its name; 0 for an operand.
    name_len: u8,
    /// The source gave it up, and counts it in its window no more.
    released: bool,
    /// It was whole, was lost, and was asked for again.
    again: bool,
}

#[derive(Debug)]
enum ReceiveState<H> {
    /// Offered, the engine looks. Next: any of the others, settled.
    Examining { kind: EntryContent },
    /// Needed, comes in a pack. Next: Finishing, settled.
    Small { handle: Arc<H> },
    /// Needed, comes in frames. Next: Finishing, settled. Boxed, since there are few of these and many of the others.
    Large(Box<LargeReceive<H>>),
    /// Whole; the engine gives it its name. Next: settled; Small or Large, once, if it is not on the disk as it was sent.
    Finishing,
    /// A directory. Next: Finishing, once it has ended and all children are settled.
    Directory { handle: Option<Arc<H>>, children: u64, ended: bool, complete: bool },
}

#[derive(Debug)]
struct LargeReceive<H> {
    handle: Arc<H>,
    extent: FlowLength,
    tree: FrameTree,
    /// Frames that are being checked and written: a second copy of one is discarded, so that nothing is written to a
    /// file that is whole. At most one for each stream.
    in_hand: HashSet<u64>,
    end: Option<(Timestamp, Digest)>,
    /// Of a file that is only compared, what differs.
    differing: Option<Differing>,
    /// It comes in order, and its source reads it once.
    flow: Option<FlowProgress>,
    summing: DigestState,
}

impl<H> LargeReceive<H> {
    /// Nothing is in hand, and its end has not come.
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
    /// A job with nothing offered yet.
    pub fn new(frame: FrameLen) -> Self {
        Self {
            frame,
            entries: ByEntry::default(),
            next: 0,
            needs: Vec::new(),
            needs_first: EntryId(0),
            again: ByEntry::default(),
            done: RangeSet::new(),
            outbox: Outbox::default(),
            answering: false,
            unsure: UnansweredDigests::default(),
            told: AdvertisedBase::default(),
            lost_bases: LostBases::default(),
            in_window: 0,
            open_directories: 0,
            held_bytes: 0,
            open_bytes: 0,
            offers_ended: false,
            keeps_values: false,
            sums: false,
            runs: FrameRuns::default(),
        }
    }

    /// From now on, the values of a file's frames are kept until it is whole, so that it can be found out where they
    /// differ from what was written: see [`FrameTree::keeping`].
    pub fn keep_values(&mut self) {
        self.keeps_values = true;
    }

    /// From now on, each large file is whole only when the engine has another digest of it: see [`TargetStep::Sum`].
    pub fn await_sums(&mut self) {
        self.sums = true;
    }

    /// What [`TargetStep::Sum`] asked for is there.
    pub fn summed(&mut self, entry: EntryId) -> TargetStep<H> {
        let Some(large) = self.large_mut(entry) else { return TargetStep::None };
        large.summing = DigestState::Done;
        self.finish_if_whole(entry)
    }

    /// Takes a message from the source. An Offer must be answered entry by entry before the next message.
    pub fn handle(&mut self, message: SourceMessage) -> Result<TargetStep<H>, ProtocolError> {
        self.outbox.check()?;
        if self.offers_ended && is_new(&message) {
            return Err(ProtocolError::OutOfTurn("an offer"));
        }
        match message {
            SourceMessage::Offer { first, entries } => self.handle_offer(first, entries),
            SourceMessage::DirectoryEnd { entry, complete } => self.handle_directory_end(entry, complete),
            SourceMessage::Excluded { entry, names } => {
                Ok(self.open_directory(entry)?.map_or(TargetStep::None, |handle| TargetStep::LeftOut(handle, names)))
            }
            SourceMessage::Patterns { entry, file, text } => {
                Ok(self.open_directory(entry)?.map_or(TargetStep::None, |_| TargetStep::Patterns(entry, file, text)))
            }
            SourceMessage::FileEnd { entry, size, modified, digest } => {
                self.handle_file_end(entry, size, modified, digest)
            }
            SourceMessage::SourceFailed { entry, reason } => self.handle_source_failed(entry, reason),
            SourceMessage::Match { entry, frames } => self.handle_same(entry, &frames),
            SourceMessage::Mismatch { entry, frames } => self.handle_differs(entry, &frames),
            SourceMessage::OffersEnd => {
                if self.open_directories > 0 {
                    return Err(ProtocolError::OutOfTurn("the end of all offers"));
                }
                self.offers_ended = true;
                Ok(TargetStep::None)
            }
            SourceMessage::ListAck { before } => Ok(TargetStep::Passed(before)),
            SourceMessage::Owner { is_group, id, name } => Ok(TargetStep::Owner { is_group, id, name }),
            SourceMessage::Streams { count, path } => Ok(TargetStep::Connect(count, path)),
            SourceMessage::QueryMissing { streams, entries } => self.handle_ask(streams, &entries),
        }
    }

    /// Where an entry of the Offer in hand goes.
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

    /// A directory that is open.
    pub fn directory(&self, entry: EntryId) -> Option<Arc<H>> {
        match self.entries.get(&entry) {
            Some(ReceivedEntry { state: ReceiveState::Directory { handle, .. }, .. }) => handle.clone(),
            _ => None,
        }
    }

    /// Answers the next entry of the Offer in hand; returns what the answer finishes.
    ///
    /// # Panics
    /// If `entry` is not the next one, or cannot have this answer: programmer's errors.
    pub fn answer(&mut self, entry: EntryId, answer: EntryAnswer<H>) -> Option<FinishedEntry<H>> {
        let finish = self.answer_entry(entry, answer);
        // A directory in which a file was offered anew is not complete before that is answered.
        let old = self.again.remove(&entry).and_then(|(old, _)| self.forget(old));
        finish.or(old)
    }

    fn answer_entry(&mut self, entry: EntryId, answer: EntryAnswer<H>) -> Option<FinishedEntry<H>> {
        assert_eq!(entry.0, self.needs_first.0 + self.needs.len() as u64, "answers in order");
        let need = match answer {
            EntryAnswer::Settled => TransferNeed::Nothing,
            EntryAnswer::Same => TransferNeed::Same,
            EntryAnswer::Needed(_) => TransferNeed::All,
            EntryAnswer::Partial(_) => TransferNeed::Rest,
            EntryAnswer::Delta(_) => TransferNeed::Delta,
            EntryAnswer::Compare(_) => TransferNeed::Compare,
            EntryAnswer::NeededInOrder(_) => TransferNeed::InOrder,
            EntryAnswer::Refused => TransferNeed::Refused,
        };
        self.needs.push(need);
        if entry.0 + 1 == self.next {
            let needs = std::mem::take(&mut self.needs);
            self.outbox.push(TargetMessage::Want { first: self.needs_first, needs });
        }
        let (frame, keeps) = (self.frame, LargeFileSettings { values: self.keeps_values, sums: self.sums });
        let tracked = self.entries.get_mut(&entry)?;
        match (answer, &mut tracked.state) {
            (EntryAnswer::Needed(directory), ReceiveState::Directory { handle, .. }) => *handle = Some(directory),
            (EntryAnswer::Refused, ReceiveState::Directory { .. }) => {}
            (
                EntryAnswer::Needed(handle) | EntryAnswer::Partial(handle),
                ReceiveState::Examining { kind: EntryContent::File { size } },
            ) => {
                tracked.state = receiving(frame, handle, *size, None, keeps);
            }
            (EntryAnswer::Delta(handle), ReceiveState::Examining { kind: EntryContent::File { size } })
                if *size > BLOCK as u64 =>
            {
                tracked.state = receiving_large(frame, handle, FlowLength::Known(*size), None, keeps);
            }
            (EntryAnswer::Compare(handle), ReceiveState::Examining { kind: EntryContent::File { size } })
                if *size > 0 =>
            {
                tracked.state = comparing(frame, handle, *size);
            }
            (EntryAnswer::NeededInOrder(handle), ReceiveState::Examining { kind: EntryContent::File { size } }) => {
                tracked.state = receiving(frame, handle, *size, Some(FlowProgress::default()), keeps);
            }
            (
                EntryAnswer::Needed(handle) | EntryAnswer::NeededInOrder(handle),
                ReceiveState::Examining { kind: EntryContent::Stream },
            ) => {
                tracked.state =
                    receiving_large(frame, handle, FlowLength::Open(None), Some(FlowProgress::default()), keeps);
                // Its source cannot read it again.
                tracked.again = true;
            }
            // The engine makes it when what it is a name of is there.
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

    /// An entry has its final name, or has failed (and was reported). Returns the directory that this completes.
    ///
    /// # Panics
    /// If it was not answered, or is a directory that is not to be finished: programmer's errors.
    pub fn settle(&mut self, entry: EntryId, done: bool) -> Option<FinishedEntry<H>> {
        let tracked = self.entries.get(&entry)?;
        let unready = matches!(tracked.state, ReceiveState::Examining { .. } | ReceiveState::Directory { .. });
        assert!(!unready, "entry {} cannot be settled yet", entry.0);
        if done {
            self.done.insert(entry.0);
        } else {
            self.outbox.push(TargetMessage::TargetFailed { entry });
        }
        self.forget(entry)
    }

    /// Whether an entry was offered and is not settled.
    pub fn is_known(&self, entry: EntryId) -> bool {
        self.entries.contains_key(&entry)
    }

    /// Whether there is a message for the source that does not wait for others to gather.
    pub fn has_messages(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// The next message for the source.
    pub fn poll_message(&mut self) -> Option<TargetMessage> {
        if let Some(message) = self.outbox.pop() {
            self.answering &= message != TargetMessage::QueryEnd;
            return Some(message);
        }
        if self.done.is_empty() {
            return None;
        }
        let mut runs = self.done.take().into_iter().map(|run| (EntryId(run.start), run.end - run.start));
        let first: Vec<_> = runs.by_ref().take(DONE_RUNS_MAX).collect();
        for run in runs {
            self.outbox.push(TargetMessage::Done { runs: vec![run] });
        }
        Some(TargetMessage::Done { runs: first })
    }

    /// Whether everything that was offered is settled, and nothing more will be.
    pub fn is_finished(&self) -> bool {
        self.offers_ended && self.entries.is_empty() && self.outbox.is_empty() && self.done.is_empty()
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
        let frame = self.frame;
        match self.entries.get_mut(&entry) {
            Some(ReceivedEntry { state: ReceiveState::Large(large), .. }) if large.end.is_none() => {
                large.close(frame, size)?;
                large.end = Some((modified, digest));
            }
            _ => return Err(ProtocolError::OutOfTurn("the end of a file")),
        }
        Ok(self.finish_if_whole(entry))
    }

    fn handle_source_failed(&mut self, entry: EntryId, reason: String) -> Result<TargetStep<H>, ProtocolError> {
        if self.tracked(entry)?.is_none() {
            return Ok(TargetStep::None);
        }
        let Some(tracked) = self.entries.get_mut(&entry) else { return Ok(TargetStep::None) };
        let handle = match &tracked.state {
            ReceiveState::Small { handle } => Some(Arc::clone(handle)),
            ReceiveState::Large(large) => Some(Arc::clone(&large.handle)),
            // Whole and proven before the source gave it up: what is there is what was sent.
            ReceiveState::Finishing => None,
            _ => return Err(ProtocolError::OutOfTurn("a failure")),
        };
        if !std::mem::replace(&mut tracked.released, true) {
            self.in_window -= 1;
            self.held_bytes -= tracked.bytes;
        }
        let Some(handle) = handle else { return Ok(TargetStep::None) };
        // Frames that come before the engine has removed it are late.
        tracked.state = ReceiveState::Finishing;
        Ok(TargetStep::Abandon(entry, handle, reason))
    }

    /// An entry that the source gave up is removed. Returns the directory that this completes.
    pub fn abandoned(&mut self, entry: EntryId) -> Option<FinishedEntry<H>> {
        self.forget(entry)
    }

    fn finish_if_whole(&mut self, entry: EntryId) -> TargetStep<H> {
        let Some(tracked) = self.entries.get_mut(&entry) else { return TargetStep::None };
        let ReceiveState::Large(large) = &mut tracked.state else { return TargetStep::None };
        if let FlowLength::Known(size) = large.extent
            && large.tree.is_full()
            && large.summing.begin()
        {
            return TargetStep::Sum(entry, Arc::clone(&large.handle), size);
        }
        let Some(end) = large.end else { return TargetStep::None };
        if let Some(differing) = large.take_differences(large.frames(self.frame)) {
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

    /// Finishes a directory that has ended and whose children are all settled; forgets it if it was refused.
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

    /// Forgets an entry and tells its parent.
    fn forget(&mut self, entry: EntryId) -> Option<FinishedEntry<H>> {
        let tracked = self.entries.remove(&entry)?;
        self.unsure.forget(entry);
        self.told.forget(entry);
        if !tracked.released {
            self.in_window -= 1;
            self.held_bytes -= tracked.bytes;
        }
        let mut parent = tracked.parent?;
        // A loop, not a recursion: a chain of refused directories may be as deep as the limit allows.
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
            self.held_bytes -= tracked.bytes;
            self.entries.remove(&parent);
            self.in_window -= 1;
            parent = grandparent?;
        }
    }

    /// An entry that was offered; `None` once it is settled.
    fn tracked(&self, entry: EntryId) -> Result<Option<&ReceivedEntry<H>>, ProtocolError> {
        if entry.0 >= self.next {
            return Err(ProtocolError::Unasked("an entry that was never offered"));
        }
        Ok(self.entries.get(&entry))
    }
}

/// Whether a message offers something that was not offered before.
fn is_new(message: &SourceMessage) -> bool {
    match message {
        SourceMessage::Offer { entries, .. } => {
            entries.iter().any(|entry| !matches!(entry.place, EntryLocation::Again(_)))
        }
        message => matches!(message, SourceMessage::OffersEnd | SourceMessage::ListAck { .. }),
    }
}

/// What all large files of a job have in common.
#[derive(Clone, Copy)]
struct LargeFileSettings {
    values: bool,
    sums: bool,
}

fn receiving<H>(
    frame: FrameLen,
    handle: Arc<H>,
    size: u64,
    flow: Option<FlowProgress>,
    keeps: LargeFileSettings,
) -> ReceiveState<H> {
    if size <= frame.pack_file_max() {
        return ReceiveState::Small { handle };
    }
    receiving_large(frame, handle, FlowLength::Known(size), flow, keeps)
}

fn receiving_large<H>(
    frame: FrameLen,
    handle: Arc<H>,
    extent: FlowLength,
    flow: Option<FlowProgress>,
    keeps: LargeFileSettings,
) -> ReceiveState<H> {
    let (tree, summing) = (tree_of(frame, extent, keeps.values), DigestState::when(keeps.sums));
    ReceiveState::Large(Box::new(LargeReceive { flow, summing, ..LargeReceive::new(handle, extent, tree) }))
}

#[cfg(test)]
#[path = "target_tests.rs"]
mod tests;
