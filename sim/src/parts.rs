//! Partial files on the target's disk, each with its journal, and the effects of crashes: writes reach the disk in any
//! order, completely, partly or not at all, and their data may decay.

use std::collections::BTreeSet;

use haul_lab::Rng;
use haul_proto::journal::{
    HEADER_BYTES, JournalHeader, JournalRecord, SLOT_BYTES, decode_slot, encode_slot, slot_offset,
};

use crate::content::{ContentBlock, FileContent, frame_len};

/// A file that has no final name yet.
#[derive(Debug, Clone)]
pub struct PartFile {
    size: u64,
    blocks: Vec<Option<ContentBlock>>,
    /// Its bytes, as they are written and read; none where none is kept.
    journal: Option<Vec<u8>>,
    /// Frames that were written, and perhaps recorded, and that the disk need not have yet.
    fresh: BTreeSet<u64>,
}

impl PartFile {
    /// Of a file of `size` bytes, with a journal that begins with this.
    pub fn new(size: u64, header: Option<&JournalHeader>) -> Self {
        let blocks = vec![None; index(frame_len().frames(size))];
        Self { size, blocks, journal: header.map(|header| header.encode().to_vec()), fresh: BTreeSet::new() }
    }

    /// The version that it belongs to, by its journal.
    pub fn header(&self) -> Option<JournalHeader> {
        JournalHeader::decode(self.journal.as_ref()?.first_chunk::<HEADER_BYTES>()?).ok()
    }

    /// Bytes of the whole file.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether a later run can resume it.
    pub fn has_journal(&self) -> bool {
        self.journal.is_some()
    }

    /// Writes a frame.
    pub fn write(&mut self, frame: u64, block: ContentBlock) {
        if let Some(place) = self.blocks.get_mut(index(frame)) {
            *place = Some(block);
            self.fresh.insert(frame);
        }
    }

    /// Records a frame.
    pub fn record(&mut self, frame: u64, record: &JournalRecord) {
        let Some(journal) = &mut self.journal else { return };
        let start = index(slot_offset(frame));
        journal.resize(journal.len().max(start + SLOT_BYTES), 0);
        journal[start..start + SLOT_BYTES].copy_from_slice(&encode_slot(frame, record));
    }

    /// A frame's journal slot.
    pub fn recorded(&self, frame: u64) -> Option<JournalRecord> {
        let slots = self.journal.as_ref()?.get(index(slot_offset(frame))..)?;
        decode_slot(frame, slots.first_chunk::<SLOT_BYTES>()?)
    }

    /// A frame's content for a reader; zeros where nothing was written.
    pub fn read(&self, frame: u64) -> ContentBlock {
        let len = frame_len().frame_len(self.size, frame).unwrap_or(0);
        let block = self.blocks.get(index(frame)).cloned().flatten();
        block.unwrap_or_else(|| ContentBlock::zeros(len))
    }

    /// All of it.
    pub fn content(&self) -> FileContent {
        FileContent::from_blocks((0..self.blocks.len() as u64).map(|frame| self.read(frame)).collect())
    }

    /// The data is on disk; the journal need not be.
    pub fn sync(&mut self) {
        self.fresh.clear();
    }

    /// The written data did not reach the disk. Its journal entry stays.
    pub fn lose(&mut self, frame: u64) {
        if let Some(place) = self.blocks.get_mut(index(frame)) {
            *place = None;
        }
    }

    /// The writer was killed in the middle of this write.
    pub fn tear(&mut self, frame: u64, block: &ContentBlock) {
        self.write(frame, block.torn());
    }

    /// Power loss: of unsynced data, anything may remain.
    pub fn lose_power(&mut self, rng: &mut Rng) {
        for frame in std::mem::take(&mut self.fresh) {
            let written = self.read(frame);
            match rng.below(4) {
                0 => self.blocks[index(frame)] = None,
                1 => self.blocks[index(frame)] = Some(written.torn()),
                _ => {}
            }
            if rng.chance(500) {
                // Remaining bytes of the slot.
                let kept = rng.index(SLOT_BYTES + 1);
                self.spoil_journal(index(slot_offset(frame)) + kept..index(slot_offset(frame + 1)));
            }
        }
        if rng.chance(50) {
            let kept = rng.index(HEADER_BYTES);
            self.spoil_journal(kept..HEADER_BYTES);
        }
        if let Some(journal) = self.journal.as_mut().filter(|_| rng.chance(100)) {
            journal.truncate(rng.index(journal.len() + 1));
        }
    }

    /// A bit of it flips where it lies.
    pub fn decay(&mut self, rng: &mut Rng) {
        let at = rng.index(self.blocks.len().max(1));
        match (&mut self.journal, self.blocks.get_mut(at)) {
            (Some(journal), _) if !journal.is_empty() && rng.chance(500) => {
                let at = rng.index(journal.len());
                journal[at] ^= 1 << rng.below(8);
            }
            (_, Some(Some(block))) => *block = block.decayed(rng),
            _ => {}
        }
    }

    fn spoil_journal(&mut self, bytes: std::ops::Range<usize>) {
        let Some(journal) = &mut self.journal else { return };
        let end = bytes.end.min(journal.len());
        journal[bytes.start.min(end)..end].fill(0);
    }
}

/// Frames and journals of the simulator are small.
fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
