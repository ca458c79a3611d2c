//! The source's knowledge of base files at the target. It has either block hashes of single frames to be sent, or
//! rolling signatures of all blocks to search frames for.

use std::sync::Arc;

use super::{OfferState, OfferedEntry, SourceSession};
use crate::delta::blocks;
use crate::delta::rolling::{RollingSignature, SignatureBuilder, SignatureFormat, SignatureIndex};
use crate::error::ProtocolError;
use crate::ids::EntryId;
use crate::limits::{MARKED_FRAMES_MAX, SUMS_BYTES_MAX};
use crate::ranges::RangeSet;
use crate::scheduler::{Chunk, DeltaBase, WorkItem};

/// Known state of a base file.
#[derive(Debug, Default)]
pub(super) struct PeerBase {
    sums: PeerSignatures,
    /// Frames rebuilt wrongly at the target: they are sent without delta.
    whole: RangeSet,
}

#[derive(Debug, Default)]
enum PeerSignatures {
    /// Nothing is known. Next: Coming.
    #[default]
    None,
    /// Some signatures have arrived. Next: Complete.
    Coming(SignatureBuilder),
    /// All signatures have arrived, with their size in bytes.
    Complete(Arc<SignatureIndex>, u64),
}

impl PeerBase {
    /// Returns the bytes used by its signatures.
    pub fn bytes(&self) -> u64 {
        match &self.sums {
            PeerSignatures::None => 0,
            PeerSignatures::Coming(gathering) => gathering.bytes(),
            PeerSignatures::Complete(_, bytes) => *bytes,
        }
    }

    /// Sends these frames, which the target requested again, without delta.
    pub fn send_without_delta(&mut self, frames: impl IntoIterator<Item = u64>) {
        self.whole.extend(frames);
    }
}

impl<H> SourceSession<H> {
    pub(super) fn handle_marks(
        &mut self,
        entry: EntryId,
        first: u64,
        marks: Vec<blocks::BlockHash>,
    ) -> Result<(), ProtocolError> {
        self.check_offered(entry)?;
        let Some(OfferedEntry { handle, state, .. }) = self.entries.get_mut(&entry) else { return Ok(()) };
        let OfferState::Large(large) = state else { return Err(NO_OLD_FILE) };
        large.old.as_ref().ok_or(NO_OLD_FILE)?;
        let (mut end, mut left) = (first, marks.len());
        while left > 0 {
            let len = self.settings.frame.frame_len(large.size, end).ok_or(ProtocolError::Misplaced)?;
            left = left.checked_sub(blocks::count(len)).ok_or(ProtocolError::Misplaced)?;
            end += 1;
        }
        if self.plan.waiting_marked().saturating_add(end - first) > MARKED_FRAMES_MAX as u64 {
            return Err(ProtocolError::OverLimit("marked frames"));
        }
        if first < end {
            let chunk = Chunk { entry, handle: Arc::clone(handle), size: large.size, frames: first..end, ticket: 0 };
            self.plan.add_marked(chunk, marks);
        }
        Ok(())
    }

    pub(super) fn handle_sums(
        &mut self,
        entry: EntryId,
        size: u64,
        format: SignatureFormat,
        first: u64,
        sums: &[RollingSignature],
    ) -> Result<(), ProtocolError> {
        self.check_offered(entry)?;
        let Some(OfferedEntry { state, .. }) = self.entries.get_mut(&entry) else { return Ok(()) };
        let OfferState::Large(large) = state else { return Err(NO_OLD_FILE) };
        let old = large.old.as_mut().ok_or(NO_OLD_FILE)?;
        let mut gathering = match std::mem::take(&mut old.sums) {
            PeerSignatures::Coming(gathering) => gathering.of_format(format)?,
            PeerSignatures::None => {
                let gathering = SignatureBuilder::new(size, format)?;
                self.sums_bytes += gathering.bytes();
                if self.sums_bytes > SUMS_BYTES_MAX {
                    return Err(ProtocolError::OverLimit("sums of base files"));
                }
                gathering
            }
            PeerSignatures::Complete(..) => return Err(ProtocolError::Unasked("second sums of a base file")),
        };
        let is_complete = gathering.add(first, sums)?;
        let bytes = gathering.bytes();
        old.sums = match is_complete {
            true => PeerSignatures::Complete(Arc::new(SignatureIndex::from(gathering)), bytes),
            false => PeerSignatures::Coming(gathering),
        };
        Ok(())
    }

    /// Turns frames of a file into delta work, if the base file's signatures are complete.
    pub(super) fn as_delta(&self, work: WorkItem<H>) -> WorkItem<H> {
        let WorkItem::Frames(chunk) = work else { return work };
        let old = match self.entries.get(&chunk.entry).map(|tracked| &tracked.state) {
            Some(OfferState::Large(large)) => large.old.as_deref(),
            _ => None,
        };
        match old {
            Some(PeerBase { sums: PeerSignatures::Complete(index, _), whole })
                if !chunk.frames.clone().any(|frame| whole.contains(frame)) =>
            {
                WorkItem::Delta(chunk, DeltaBase::Sums(Arc::clone(index)))
            }
            _ => WorkItem::Frames(chunk),
        }
    }
}

const NO_OLD_FILE: ProtocolError = ProtocolError::Unasked("a base file of an entry without frames");
