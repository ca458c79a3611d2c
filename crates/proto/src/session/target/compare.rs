//! Existing frames for the source to compare. They belong to a partial file that may have changed at the source, or to
//! any file in a copy that only compares.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::flow::FlowLength;
use super::{LargeReceive, ReceiveState, ReceivedEntry, TargetSession};
use crate::error::ProtocolError;
use crate::ids::EntryId;
use crate::integrity::{Digest, FrameLen, FrameTree};
use crate::limits::{COMPARES_MAX, HELD_VALUES_MAX};
use crate::session::differing::Differing;
use crate::session::step::TargetStep;
use crate::wire::message::TargetMessage;

/// Values sent to the source without a reply so far.
#[derive(Debug, Default)]
pub(super) struct UnansweredDigests(BTreeMap<(EntryId, u64), Digest>);

impl UnansweredDigests {
    fn insert(&mut self, entry: EntryId, index: u64, value: Digest) {
        self.0.insert((entry, index), value);
    }

    /// Removes a frame that was received otherwise.
    pub fn remove(&mut self, entry: EntryId, index: u64) {
        self.0.remove(&(entry, index));
    }

    /// Takes frames out; returns `None` without any effect where one of them is not here.
    fn take_values(&mut self, entry: EntryId, frames: &Range<u64>) -> Option<Vec<(u64, Digest)>> {
        let of_entry = self.0.range((entry, frames.start)..(entry, frames.end));
        let taken: Vec<_> = of_entry.map(|((_, index), value)| (*index, *value)).collect();
        if taken.len() as u64 != frames.end - frames.start {
            return None;
        }
        taken.iter().for_each(|(index, _)| self.remove(entry, *index));
        Some(taken)
    }

    /// Removes a complete entry.
    pub fn forget(&mut self, entry: EntryId) {
        while let Some((key, _)) = self.0.range((entry, 0)..=(entry, u64::MAX)).next() {
            let key = *key;
            self.0.remove(&key);
        }
    }
}

impl<H> TargetSession<H> {
    /// Whether `frames` more frames can be sent for comparison now. Otherwise the source has to reply to others first.
    pub fn may_hold(&self, frames: usize) -> bool {
        self.unsure.0.len() + frames <= COMPARES_MAX
    }

    /// Records existing frames of a file under [`crate::session::step::EntryAnswer::Partial`] or
    /// [`crate::session::step::EntryAnswer::Compare`], with their values read from disk. Call it after the decisions
    /// about the whole Offer.
    ///
    /// With `compare`, the source has to read them, too; call [`Self::may_hold`] first.
    pub fn holds(&mut self, entry: EntryId, first: u64, values: &[Digest], compare: bool) -> TargetStep<H> {
        let Some(ReceivedEntry { state: ReceiveState::Large(large), .. }) = self.entries.get_mut(&entry) else {
            return TargetStep::None;
        };
        for (index, value) in (first..).zip(values) {
            if compare {
                self.unsure.insert(entry, index, *value);
            } else {
                large.tree.insert(index, *value);
            }
        }
        for (first, values) in (first..).step_by(HELD_VALUES_MAX).zip(values.chunks(HELD_VALUES_MAX)) {
            self.outbox.push(TargetMessage::HaveRanges { entry, first, values: values.to_vec(), compare });
        }
        self.finish_if_complete(entry)
    }

    /// Handles a Match: frames equal at both ends are verified.
    pub(super) fn handle_same(
        &mut self,
        entry: EntryId,
        frames: &[Range<u64>],
    ) -> Result<TargetStep<H>, ProtocolError> {
        self.handle_compared(entry, frames, |large, _, compared| {
            for (index, value) in compared {
                large.tree.insert(index, value);
            }
            Ok(())
        })
    }

    /// Handles a Mismatch: differing frames are not sent where the copy only compares.
    pub(super) fn handle_differs(
        &mut self,
        entry: EntryId,
        frames: &[Range<u64>],
    ) -> Result<TargetStep<H>, ProtocolError> {
        self.handle_compared(entry, frames, |large, frames, _| {
            let differing =
                large.differing.as_mut().ok_or(ProtocolError::Unasked("differences in a file to be sent"))?;
            differing.add(frames);
            Ok(())
        })
    }

    fn handle_compared(
        &mut self,
        entry: EntryId,
        frames: &[Range<u64>],
        conclude: impl Fn(&mut LargeReceive<H>, Range<u64>, Vec<(u64, Digest)>) -> Result<(), ProtocolError>,
    ) -> Result<TargetStep<H>, ProtocolError> {
        self.tracked(entry)?;
        let large = match self.entries.get_mut(&entry).map(|tracked| &mut tracked.state) {
            Some(ReceiveState::Large(large)) => large,
            Some(ReceiveState::Finishing) | None => return Ok(TargetStep::None),
            Some(_) => return Err(ProtocolError::OutOfTurn("a comparison")),
        };
        for frames in frames {
            let compared = self.unsure.take_values(entry, frames);
            let compared = compared.ok_or(ProtocolError::Unasked("a comparison of other frames"))?;
            conclude(large, frames.clone(), compared)?;
        }
        Ok(self.finish_if_complete(entry))
    }
}

/// Returns the state of a file that is only compared, frame by frame.
pub(super) fn comparing<H>(frame: FrameLen, handle: Arc<H>, size: u64) -> ReceiveState<H> {
    let tree = FrameTree::new(frame.frames(size));
    let differing = Some(Differing::default());
    ReceiveState::Large(Box::new(LargeReceive {
        differing,
        ..LargeReceive::new(handle, FlowLength::Known(size), tree)
    }))
}

impl<H> LargeReceive<H> {
    /// Returns the differing frames, once the source has replied for every frame.
    pub(super) fn take_differences(&mut self, frames: u64) -> Option<Differing> {
        let differing = self.differing.as_mut().filter(|differing| !differing.is_empty())?;
        (self.tree.seen().len() + differing.len() == frames).then(|| std::mem::take(differing))
    }
}
