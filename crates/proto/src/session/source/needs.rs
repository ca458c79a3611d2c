//! The target's messages about entries: wants, existing frames, missing ranges and completion.

use std::ops::Range;
use std::sync::Arc;

use super::{DigestState, LargeOffer, OfferState, OfferedEntry, SourceSession, check_frames, count_requested_frames};
use crate::delta::blocks::BLOCK;
use crate::entry::{EntryContent, Timestamp};
use crate::error::ProtocolError;
use crate::ids::EntryId;
use crate::integrity::{Digest, FrameTree};
use crate::limits::{COMPARES_MAX, RESENDS_MAX};
use crate::ranges::RangeSet;
use crate::scheduler::Chunk;
use crate::wire::message::TransferNeed;

impl<H> SourceSession<H> {
    pub(super) fn handle_need(&mut self, entry: EntryId, need: TransferNeed) -> Result<(), ProtocolError> {
        self.check_offered(entry)?;
        let tracked =
            self.entries.get_mut(&entry).ok_or(ProtocolError::Unasked("an entry without a pending answer"))?;
        // A directory may be refused in a copy that only removes.
        if need == TransferNeed::Refused && matches!(tracked.state, OfferState::Offered { .. }) {
            self.rejected.push(Arc::clone(&tracked.handle));
        }
        match &mut tracked.state {
            OfferState::Directory { refused, ended } => match need {
                TransferNeed::All => {}
                TransferNeed::Refused => {
                    (*refused, self.has_refused) = (true, true);
                    if *ended {
                        self.settle_entry(entry);
                    }
                }
                TransferNeed::Nothing
                | TransferNeed::Same
                | TransferNeed::InOrder
                | TransferNeed::Rest
                | TransferNeed::Compare
                | TransferNeed::Delta => {
                    return Err(ProtocolError::Invalid("a need that a directory cannot have"));
                }
            },
            OfferState::Offered { kind, modified, is_comparable } => {
                let (content, modified, is_comparable) = (kind.clone(), *modified, *is_comparable);
                if need == TransferNeed::Same && !(is_comparable && self.proven.is_wanted()) {
                    return Err(ProtocolError::Unasked("a file known to be equal, without a digest to compare"));
                }
                self.check_need(need, &content)?;
                self.begin_transfer(entry, need, &content, modified);
            }
            OfferState::Awaited | OfferState::Small { .. } | OfferState::Large(_) | OfferState::Flow(_) => {
                return Err(ProtocolError::OutOfTurn("a second answer"));
            }
        }
        Ok(())
    }

    /// Checks that an offered entry with this content can have this need in this copy.
    fn check_need(&self, need: TransferNeed, content: &EntryContent) -> Result<(), ProtocolError> {
        let is_needless = matches!(need, TransferNeed::Nothing | TransferNeed::Same | TransferNeed::Refused);
        let is_forbidden = !is_needless && (need == TransferNeed::Compare) != self.settings.compares;
        let error = match (need, content) {
            (TransferNeed::Nothing | TransferNeed::Same, EntryContent::Stream) => "a need that a stream cannot have",
            (TransferNeed::InOrder | TransferNeed::Delta, _) if self.settings.range.is_some() => {
                "a need that a range forbids"
            }
            _ if is_forbidden => "a need that this copy forbids",
            (TransferNeed::Rest, EntryContent::File { size }) if *size <= self.settings.frame.pack_file_max() => {
                "a need that a small file cannot have"
            }
            (TransferNeed::Delta, EntryContent::File { size }) if *size <= BLOCK as u64 => {
                "a need that a small file cannot have"
            }
            (TransferNeed::Compare, EntryContent::File { size: 0 }) => "a need that an empty file cannot have",
            (TransferNeed::Nothing | TransferNeed::Same | TransferNeed::Refused, _)
            | (TransferNeed::All, EntryContent::HardLink { .. })
            | (TransferNeed::All | TransferNeed::InOrder, EntryContent::Stream)
            | (_, EntryContent::File { .. }) => return Ok(()),
            _ => "a need that the entry cannot have",
        };
        Err(ProtocolError::Invalid(error))
    }

    fn begin_transfer(&mut self, entry: EntryId, need: TransferNeed, content: &EntryContent, modified: Timestamp) {
        match (need, content) {
            (TransferNeed::Nothing | TransferNeed::Same | TransferNeed::Refused, _) => {
                if let Some(tracked) = self.entries.get(&entry) {
                    self.proven.answered(need, &tracked.handle);
                }
                self.settle_entry(entry);
            }
            (_, EntryContent::File { size }) => self.need_file(entry, *size, modified, need),
            (_, EntryContent::Stream) => self.begin_flow(entry),
            (_, EntryContent::HardLink { .. }) => {
                if let Some(tracked) = self.entries.get_mut(&entry) {
                    tracked.state = OfferState::Awaited;
                }
            }
            // `check_need` permits them no transfer.
            (_, EntryContent::Directory | EntryContent::Symlink { .. } | EntryContent::Node(_)) => {}
        }
    }

    fn need_file(&mut self, entry: EntryId, size: u64, modified: Timestamp, need: TransferNeed) {
        let sent = self.frames_of(size);
        let Some(tracked) = self.entries.get_mut(&entry) else { return };
        tracked.state = if size <= self.settings.frame.pack_file_max()
            && !matches!(need, TransferNeed::Compare | TransferNeed::Delta)
        {
            OfferState::Small { size, handed: false, begun: false, asked: 0 }
        } else if need == TransferNeed::InOrder {
            return self.begin_flow(entry);
        } else {
            let tree = FrameTree::new(self.settings.frame.frames(size)).within(sent.clone());
            let rest = matches!(need, TransferNeed::Rest | TransferNeed::Compare | TransferNeed::Delta);
            let old = matches!(need, TransferNeed::Rest | TransferNeed::Delta).then(Box::default);
            let summing = DigestState::when(self.settings.sums);
            let (held, handed) = (RangeSet::new(), RangeSet::new());
            OfferState::Large(LargeOffer {
                size,
                modified,
                tree,
                ended: false,
                rest,
                held,
                old,
                handed,
                summing,
                asked: 0,
            })
        };
        // For Rest, Compare and Delta, the frames follow in messages of their own.
        if !matches!(need, TransferNeed::Rest | TransferNeed::Compare | TransferNeed::Delta) {
            let handle = Arc::clone(&tracked.handle);
            match self.settings.range {
                Some(_) => self.plan.add_frames(Chunk { entry, handle, size, frames: sent, ticket: 0 }),
                None => self.plan.add(entry, handle, size),
            }
        }
    }

    pub(super) fn handle_done(&mut self, first: EntryId, count: u64) -> Result<(), ProtocolError> {
        let end = first.0.checked_add(count).filter(|end| *end <= self.batch.sent());
        let end = end.ok_or(ProtocolError::Unasked("an entry that was never offered"))?;
        for entry in (first.0..end).map(EntryId) {
            self.check_sent(entry)?;
            self.remember_verified(entry);
            self.settle_entry(entry);
        }
        Ok(())
    }

    /// Checks that all of an entry was sent: before that, no target can know that it is complete.
    fn check_sent(&self, entry: EntryId) -> Result<(), ProtocolError> {
        let is_sent = match self.entries.get(&entry).map(|tracked| &tracked.state) {
            Some(OfferState::Offered { .. }) => false,
            Some(OfferState::Directory { ended, .. }) => *ended,
            Some(OfferState::Small { begun, .. }) => *begun,
            Some(OfferState::Large(large)) => large.ended,
            Some(OfferState::Flow(flow)) => flow.is_told(),
            None | Some(OfferState::Awaited) => true,
        };
        if is_sent { Ok(()) } else { Err(ProtocolError::OutOfTurn("completion of an entry that cannot be complete")) }
    }

    pub(super) fn handle_lacks(&mut self, entry: EntryId, frames: Vec<Range<u64>>) -> Result<(), ProtocolError> {
        self.check_offered(entry)?;
        if self.is_flow(entry) {
            return self.resend_flow(entry, &frames, true);
        }
        let Some(OfferedEntry { handle, state, .. }) = self.entries.get_mut(&entry) else { return Ok(()) };
        let OfferState::Large(LargeOffer { size, tree, handed, old, asked, .. }) = state else {
            return Err(ProtocolError::Unasked("frames of an entry without frames"));
        };
        if self.settings.compares {
            return Err(ProtocolError::Unasked("frames that are only compared"));
        }
        if self.plan.waiting_runs() + frames.len() > RESENDS_MAX {
            return Err(ProtocolError::OverLimit("frames to be sent again"));
        }
        for frames in frames {
            check_frames(&tree.range(), &frames)?;
            count_requested_frames(asked, frames.end - frames.start, self.settings.frame.frames(*size))?;
            let came_to_nothing = handed.take_within(&frames);
            old.iter_mut().for_each(|old| old.send_without_delta(came_to_nothing.iter().cloned().flatten()));
            self.plan.add_frames(Chunk { entry, handle: Arc::clone(handle), size: *size, frames, ticket: 0 });
        }
        Ok(())
    }

    pub(super) fn handle_holds(
        &mut self,
        entry: EntryId,
        first: u64,
        values: Vec<Digest>,
        compare: bool,
    ) -> Result<(), ProtocolError> {
        self.check_offered(entry)?;
        let Some(OfferedEntry { handle, state, .. }) = self.entries.get_mut(&entry) else { return Ok(()) };
        let OfferState::Large(large @ LargeOffer { rest: true, .. }) = state else {
            return Err(ProtocolError::Unasked("frames already present of an entry needed whole"));
        };
        let frames = first..first.saturating_add(values.len() as u64);
        check_frames(&large.tree.range(), &frames)?;
        if compare {
            if self.plan.waiting_compares() + values.len() > COMPARES_MAX {
                return Err(ProtocolError::OverLimit("frames to be compared"));
            }
            if !frames.clone().all(|index| large.held.insert(index)) {
                return Err(ProtocolError::Unasked("a frame that is compared twice"));
            }
            let (handle, size) = (Arc::clone(handle), large.size);
            self.plan.add_compare(Chunk { entry, handle, size, frames, ticket: 0 }, values);
            return Ok(());
        }
        // A file that is removed is compared: nobody else could know whether the target has it.
        if self.settings.compares || self.settings.sums || self.proven.is_wanted() {
            return Err(ProtocolError::Unasked("frames that are not compared"));
        }
        for (index, value) in frames.zip(values) {
            if !large.tree.insert(index, value) {
                return Err(ProtocolError::Unasked("a frame listed twice as present"));
            }
        }
        self.end_if_read(entry);
        Ok(())
    }

    pub(super) fn handle_resend_packed(&mut self, entry: EntryId) -> Result<(), ProtocolError> {
        self.check_offered(entry)?;
        match self.entries.get_mut(&entry) {
            // A file already waiting for a stream was requested for two reasons.
            None | Some(OfferedEntry { state: OfferState::Small { handed: false, .. }, .. }) => Ok(()),
            Some(OfferedEntry { state: OfferState::Small { size, handed, asked, .. }, handle, .. }) => {
                let mut times = u64::from(*asked);
                count_requested_frames(&mut times, 1, 1)?;
                *asked = u16::try_from(times).unwrap_or(u16::MAX);
                *handed = false;
                self.plan.add(entry, Arc::clone(handle), *size);
                Ok(())
            }
            Some(_) => Err(ProtocolError::Unasked("a pack for an unpacked entry")),
        }
    }
}
