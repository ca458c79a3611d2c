//! What a target tells of old files that stand in the places of new ones. The source has to keep what it is told: so it
//! is told of few frames, and of few files' sums, at a time.

use std::collections::BTreeMap;

use super::TargetSession;
use crate::delta::blocks::BlockHash;
use crate::delta::rolling::{self, RollingSignature};
use crate::error::ProtocolError;
use crate::ids::EntryId;
use crate::limits::{MARKED_FRAMES_MAX, SUMS_BYTES_MAX};
use crate::ranges::RangeSet;
use crate::wire::message::TargetMessage;

/// What the source was told and may still have.
#[derive(Debug, Default)]
pub(super) struct AdvertisedBase {
    /// Frames that were marked and have not come.
    marked: BTreeMap<EntryId, RangeSet>,
    marked_frames: u64,
    /// Bytes that the sums of each file take.
    sums: BTreeMap<EntryId, u64>,
    sums_bytes: u64,
}

impl AdvertisedBase {
    fn mark(&mut self, entry: EntryId, frames: std::ops::Range<u64>) {
        let marked = self.marked.entry(entry).or_default();
        self.marked_frames += frames.filter(|index| marked.insert(*index)).count() as u64;
    }

    /// Whether the source was told what the old file has of this frame, or anywhere.
    fn has(&self, entry: EntryId, index: u64) -> bool {
        self.sums.contains_key(&entry) || self.marked.get(&entry).is_some_and(|marked| marked.contains(index))
    }

    /// A frame has come.
    pub fn came(&mut self, entry: EntryId, index: u64) {
        if let Some(marked) = self.marked.get_mut(&entry) {
            let taken = marked.take_within(&(index..index + 1));
            self.marked_frames -= taken.iter().map(|run| run.end - run.start).sum::<u64>();
        }
    }

    /// An entry is settled.
    pub fn forget(&mut self, entry: EntryId) {
        self.marked_frames -= self.marked.remove(&entry).map_or(0, |marked| marked.len());
        self.sums_bytes -= self.sums.remove(&entry).unwrap_or(0);
    }
}

impl<H> TargetSession<H> {
    /// Whether the source can be told of so many frames now: else others have to come first.
    pub fn may_mark(&self, frames: u64) -> bool {
        self.told.marked_frames + frames <= MARKED_FRAMES_MAX as u64
    }

    /// What the old file has at the places of `frames` frames of a file that was answered by [`crate::session::step::EntryAnswer::Delta`] or
    /// [`crate::session::step::EntryAnswer::Partial`]; [`Self::may_mark`] has to be asked before.
    pub fn mark(&mut self, entry: EntryId, first: u64, frames: u64, marks: Vec<BlockHash>) {
        if self.large_mut(entry).is_some() {
            self.told.mark(entry, first..first + frames);
            self.outbox.push(TargetMessage::BlockHashes { entry, first, marks });
        }
    }

    /// Whether the source can be told of the sums of so many blocks: else other files have to be settled first.
    pub fn may_sum(&self, blocks: u64) -> bool {
        self.told.sums_bytes + rolling::bytes(blocks) <= SUMS_BYTES_MAX
    }

    /// The source is going to be told of the sums of so many blocks.
    pub fn begin_sums(&mut self, entry: EntryId, blocks: u64) {
        if self.large_mut(entry).is_some() {
            let bytes = rolling::bytes(blocks);
            self.told.sums_bytes += bytes;
            self.told.sums_bytes -= self.told.sums.insert(entry, bytes).unwrap_or(0);
        }
    }

    /// The next sums of an old file of `size` bytes.
    pub fn tell_sums(&mut self, entry: EntryId, size: u64, block: u32, first: u64, sums: Vec<RollingSignature>) {
        if self.large_mut(entry).is_some() {
            self.outbox.push(TargetMessage::RollingSignatures { entry, size, block, first, sums });
        }
    }

    /// A frame as a delta record says it is made is `plain` bytes long: whether it may be made, as
    /// [`Self::admit_frame`]. One of which the source was told nothing is a fault. [`Self::conclude_delta`] follows.
    pub fn admit_delta(
        &mut self,
        entry: EntryId,
        offset: u64,
        plain: usize,
    ) -> Result<Option<std::sync::Arc<H>>, ProtocolError> {
        let admitted = self.admit_frame(entry, offset, plain)?;
        if admitted.is_some() && !self.told.has(entry, offset / u64::from(self.frame.get())) {
            return Err(ProtocolError::Unasked("a frame to be made of no old file"));
        }
        Ok(admitted)
    }
}
