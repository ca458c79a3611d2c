//! The target's reply to a QueryMissing after a loss of streams. Records not yet read count as missing, and their
//! frames are then received twice. So the target neither waits for anything nor loses anything.

use std::ops::Range;

use super::{LargeReceive, ReceiveState, TargetSession};
use crate::error::ProtocolError;
use crate::ids::{EntryId, StreamId};
use crate::limits::{ENTRY_WINDOW, FRAME_RUNS_MAX};
use crate::session::step::TargetStep;
use crate::wire::message::TargetMessage;

impl<H> TargetSession<H> {
    pub(super) fn handle_ask(
        &mut self,
        streams: Vec<StreamId>,
        entries: &[(EntryId, u64)],
    ) -> Result<TargetStep<H>, ProtocolError> {
        if self.answering {
            return Err(ProtocolError::OutOfTurn("a question"));
        }
        let mut left = ENTRY_WINDOW as u64;
        let mut packed = Vec::new();
        let mut next = 0;
        for (first, count) in entries {
            // A duplicate entry would get two replies, so one message could cause any number of them.
            if first.0 < next {
                return Err(ProtocolError::Invalid("entries queried twice"));
            }
            next = first.0.saturating_add(*count);
            left = left.checked_sub(*count).ok_or(ProtocolError::OverLimit("queried entries"))?;
            for entry in (first.0..first.0.saturating_add(*count)).map(EntryId) {
                self.answer_for(entry, &mut packed)?;
            }
        }
        self.resend_small(&packed);
        self.answering = true;
        self.outbox.push(TargetMessage::QueryEnd);
        Ok(TargetStep::StreamsLost(streams))
    }

    fn answer_for(&mut self, entry: EntryId, packed: &mut Vec<EntryId>) -> Result<(), ProtocolError> {
        let frame = self.settings.frame;
        match self.tracked(entry)?.map(|tracked| &tracked.state) {
            None | Some(ReceiveState::Finishing) => {}
            Some(ReceiveState::Small { .. }) => packed.push(entry),
            Some(ReceiveState::Large(large)) => {
                let missing = large.missing(large.frames(frame));
                for frames in missing.chunks(FRAME_RUNS_MAX) {
                    self.outbox.push(TargetMessage::Missing { entry, frames: frames.to_vec() });
                }
            }
            Some(ReceiveState::Examining { .. } | ReceiveState::Directory { .. }) => {
                return Err(ProtocolError::Unasked("frames that were not sent"));
            }
        }
        Ok(())
    }
}

impl<H> LargeReceive<H> {
    /// Returns the frames that are neither here nor being written.
    fn missing(&self, frames: u64) -> Vec<Range<u64>> {
        let mut there = self.tree.seen().clone();
        there.extend(self.in_hand.iter().copied());
        // The number of a flow's frames is open.
        let end = if self.flow.is_some() { frames } else { self.tree.range().end };
        there.gaps_within(self.tree.range().start..end).collect()
    }
}
