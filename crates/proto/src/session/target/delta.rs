//! The target's advertisements of base files. The source holds them in memory, so they cover few frames, and the
//! signatures of few files, at a time.

use std::collections::BTreeMap;

use super::TargetSession;
use crate::delta::blocks::BlockHash;
use crate::delta::rolling::{self, RollingSignature, SignatureFormat};
use crate::error::ProtocolError;
use crate::ids::EntryId;
use crate::limits::{MARKED_FRAMES_MAX, SUMS_BYTES_MAX};
use crate::ranges::RangeSet;
use crate::wire::message::TargetMessage;

/// Advertised hashes that the source may still hold.
#[derive(Debug, Default)]
pub(super) struct AdvertisedBase {
    /// Frames with block hashes sent that have not arrived.
    marked: BTreeMap<EntryId, RangeSet>,
    marked_frames: u64,
    /// Bytes used by the signatures of each file.
    sums: BTreeMap<EntryId, u64>,
    sums_bytes: u64,
}

impl AdvertisedBase {
    fn mark(&mut self, entry: EntryId, frames: std::ops::Range<u64>) {
        let marked = self.marked.entry(entry).or_default();
        self.marked_frames += frames.filter(|index| marked.insert(*index)).count() as u64;
    }

    /// Whether block hashes of this frame, or signatures of its whole base file, were sent.
    fn has(&self, entry: EntryId, index: u64) -> bool {
        self.sums.contains_key(&entry) || self.marked.get(&entry).is_some_and(|marked| marked.contains(index))
    }

    /// Records the arrival of a frame.
    pub fn came(&mut self, entry: EntryId, index: u64) {
        if let Some(marked) = self.marked.get_mut(&entry) {
            let taken = marked.take_within(&(index..index + 1));
            self.marked_frames -= taken.iter().map(|run| run.end - run.start).sum::<u64>();
        }
    }

    /// Removes a complete entry.
    pub fn forget(&mut self, entry: EntryId) {
        self.marked_frames -= self.marked.remove(&entry).map_or(0, |marked| marked.len());
        self.sums_bytes -= self.sums.remove(&entry).unwrap_or(0);
    }
}

impl<H> TargetSession<H> {
    /// Whether block hashes of `frames` more frames can be sent now. Otherwise other frames have to arrive first.
    pub fn may_mark(&self, frames: u64) -> bool {
        self.advertised.marked_frames + frames <= MARKED_FRAMES_MAX as u64
    }

    /// Sends the base file's block hashes at the offsets of `frames` frames. The file is under
    /// [`crate::session::step::EntryAnswer::Delta`] or [`crate::session::step::EntryAnswer::Partial`]. Call
    /// [`Self::may_mark`] first.
    pub fn mark(&mut self, entry: EntryId, first: u64, frames: u64, marks: Vec<BlockHash>) {
        if self.large_mut(entry).is_some() {
            self.advertised.mark(entry, first..first + frames);
            self.outbox.push(TargetMessage::BlockHashes { entry, first, marks });
        }
    }

    /// Whether the signatures of `blocks` more blocks can be sent. Otherwise other files have to be completed first.
    pub fn may_sum(&self, blocks: u64) -> bool {
        self.advertised.sums_bytes + rolling::bytes(blocks) <= SUMS_BYTES_MAX
    }

    /// Reserves memory for the signatures of `blocks` blocks at the source.
    pub fn begin_sums(&mut self, entry: EntryId, blocks: u64) {
        if self.large_mut(entry).is_some() {
            let bytes = rolling::bytes(blocks);
            self.advertised.sums_bytes += bytes;
            self.advertised.sums_bytes -= self.advertised.sums.insert(entry, bytes).unwrap_or(0);
        }
    }

    /// Sends the next signatures of a base file of `size` bytes.
    pub fn send_signatures(
        &mut self,
        entry: EntryId,
        size: u64,
        format: SignatureFormat,
        first: u64,
        sums: Vec<RollingSignature>,
    ) {
        if self.large_mut(entry).is_some() {
            self.outbox.push(TargetMessage::RollingSignatures { entry, size, format, first, sums });
        }
    }

    /// Admits a delta record with a frame of `plain` bytes, as [`Self::admit_frame`] does. A frame without advertised
    /// hashes is a protocol error. [`Self::conclude_delta`] follows.
    pub fn admit_delta(
        &mut self,
        entry: EntryId,
        offset: u64,
        plain: usize,
    ) -> Result<Option<std::sync::Arc<H>>, ProtocolError> {
        let admitted = self.admit_frame(entry, offset, plain)?;
        if admitted.is_some() && !self.advertised.has(entry, offset / u64::from(self.settings.frame.get())) {
            return Err(ProtocolError::Unasked("a delta frame without a base file"));
        }
        Ok(admitted)
    }
}
