//! The source's handling of lost streams. It cannot know which records of a stream arrived. So it asks the target which
//! frames of all assigned work are missing, and assigns those again. Frames in flight on other streams then arrive
//! twice, and the second copy is discarded.

use std::ops::Range;
use std::sync::Arc;

use super::{LargeOffer, OfferState, OfferedEntry, SourceSession, check_frames};
use crate::error::ProtocolError;
use crate::ids::{EntryId, StreamId};
use crate::limits::{RESENDS_MAX, STREAMS_MAX};
use crate::ranges::RangeSet;
use crate::scheduler::{Chunk, WorkItem};
use crate::wire::message::SourceMessage;

/// Lost streams, and the state of their recovery.
#[derive(Debug, Default)]
pub(super) struct Losses {
    /// Streams not yet named in a QueryMissing.
    streams: Vec<StreamId>,
    /// Whether a QueryMissing awaits its reply; the next one is sent only afterwards.
    asking: bool,
}

impl<H> SourceSession<H> {
    /// Records the loss of a stream with everything in flight on it; `in_hand` is the unfinished work of its thread.
    pub fn lose_stream(&mut self, stream: StreamId, in_hand: impl IntoIterator<Item = WorkItem<H>>) {
        self.losses.streams.push(stream);
        self.plan.release(stream);
        for work in in_hand {
            match work {
                WorkItem::Compare(chunk, values) if self.entries.contains_key(&chunk.entry) => {
                    self.plan.add_compare(chunk, values);
                }
                WorkItem::Frames(chunk) | WorkItem::Delta(chunk, _) => self.take_back(chunk),
                WorkItem::Next(next) => self.leave_unread(next.entry),
                // The target reports which of them are missing.
                WorkItem::Compare(..) | WorkItem::Pack(_) | WorkItem::Kept(_) => {}
            }
        }
    }

    /// Takes back a chunk with unread frames. These count as unread even if they were sent, and are sent again.
    fn take_back(&mut self, chunk: Chunk<H>) {
        self.plan.done(chunk.ticket);
        let Some(OfferedEntry { state: OfferState::Large(large), .. }) = self.entries.get_mut(&chunk.entry) else {
            return;
        };
        let mut unread = RangeSet::new();
        unread.extend(chunk.frames.clone().filter(|index| !large.tree.contains(*index)));
        for frames in unread.iter() {
            large.handed.take_within(&frames);
            self.plan.add_frames(Chunk { frames, ticket: 0, ..chunk.clone() });
        }
    }

    /// Records work given to a stream: it may get lost until it is complete.
    pub(super) fn hand_out(&mut self, work: &WorkItem<H>) {
        match work {
            WorkItem::Frames(chunk) | WorkItem::Delta(chunk, _) => {
                let state = self.entries.get_mut(&chunk.entry).map(|tracked| &mut tracked.state);
                if let Some(OfferState::Large(large)) = state {
                    large.handed.extend(chunk.frames.clone());
                }
            }
            // Differing frames count as assigned after their comparison, and those of flows after their read.
            WorkItem::Compare(..) | WorkItem::Next(_) | WorkItem::Kept(_) => {}
            WorkItem::Pack(files) => files.iter().for_each(|file| {
                if let Some(OfferedEntry { state: OfferState::Small { handed, begun, .. }, .. }) =
                    self.entries.get_mut(&file.entry)
                {
                    (*handed, *begun) = (true, true);
                }
            }),
        }
    }

    /// Returns a QueryMissing about lost streams, unless one is unanswered.
    pub(super) fn ask(&mut self) -> Option<SourceMessage> {
        let lost = &mut self.losses.streams;
        if self.losses.asking || lost.is_empty() || self.entries.is_empty() {
            return None;
        }
        self.losses.asking = true;
        let streams = lost.drain(..lost.len().min(STREAMS_MAX.into())).collect();
        let is_out = |state: &OfferState| match state {
            OfferState::Small { handed, .. } => *handed,
            OfferState::Large(large) => !large.handed.is_empty(),
            OfferState::Flow(flow) => !flow.handed.is_empty(),
            OfferState::Offered { .. } | OfferState::Directory { .. } | OfferState::Awaited => false,
        };
        let mut out = RangeSet::new();
        out.extend(self.entries.iter().filter(|(_, tracked)| is_out(&tracked.state)).map(|(entry, _)| entry.0));
        let entries = out.iter().map(|run| (EntryId(run.start), run.end - run.start)).collect();
        Some(SourceMessage::QueryMissing { streams, entries })
    }

    /// Assigns missing frames again that were assigned before.
    pub(super) fn handle_missing(&mut self, entry: EntryId, frames: &[Range<u64>]) -> Result<(), ProtocolError> {
        self.check_offered(entry)?;
        self.check_asking()?;
        if self.is_flow(entry) {
            return self.resend_flow(entry, frames, false);
        }
        let Some(OfferedEntry { handle, state, .. }) = self.entries.get_mut(&entry) else { return Ok(()) };
        let OfferState::Large(LargeOffer { size, tree, handed, .. }) = state else {
            return Err(ProtocolError::Unasked("frames of an entry without frames"));
        };
        for frames in frames {
            check_frames(&tree.range(), frames)?;
            for frames in handed.take_within(frames) {
                if self.plan.waiting_runs() >= RESENDS_MAX {
                    return Err(ProtocolError::OverLimit("frames to be sent again"));
                }
                self.plan.add_frames(Chunk { entry, handle: Arc::clone(handle), size: *size, frames, ticket: 0 });
            }
        }
        Ok(())
    }

    /// Ends a QueryMissing, so that later losses can be queried.
    pub(super) fn handle_answered(&mut self) -> Result<(), ProtocolError> {
        self.check_asking()?;
        self.losses.asking = false;
        Ok(())
    }

    fn check_asking(&self) -> Result<(), ProtocolError> {
        if self.losses.asking { Ok(()) } else { Err(ProtocolError::OutOfTurn("an answer")) }
    }
}
