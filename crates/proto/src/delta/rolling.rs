//! Blocks of an old file, wherever they are in the new one: what rsync's algorithm finds (Tridgell, "Efficient Algorithms
//! for Sorting and Synchronization", chapter 3), frame by frame, so that any stream can take any frame.
//!
//! A sum that can be rolled on byte by byte says where to look, a part of a BLAKE3 value whether it is so. A frame is
//! searched with a block's length of the file on both sides: a block that lies across its edge is found in both frames,
//! and each takes its part.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use super::instructions::FrameSpan;
use crate::encoding::{Decoded, Reader, Writer};
use crate::error::ProtocolError;
use crate::limits::{ROLLING_BLOCK_MAX, ROLLING_BLOCK_MIN, ROLLING_BLOCKS_MAX, VAIN_HASHES_PER_BYTE};

/// What is told of a block of the old file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RollingSignature {
    /// The sum that is rolled.
    pub weak: u32,
    /// The beginning of its BLAKE3.
    pub strong: u64,
}

impl RollingSignature {
    /// Bytes on the wire.
    pub const BYTES: usize = 12;

    /// Of a block.
    pub fn of(block: &[u8]) -> Self {
        Self { weak: RollingSum::of(block).sum(), strong: strong(block) }
    }

    pub(crate) fn encode(self, out: &mut Writer) {
        out.u32(self.weak).u64(self.strong);
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self { weak: reader.u32()?, strong: reader.u64()? })
    }
}

fn strong(block: &[u8]) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *blake3::hash(block).as_bytes();
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

/// A sum over some bytes, and one in which each counts as often as it is far from the end.
#[derive(Debug, Clone, Copy)]
struct RollingSum {
    plain: u32,
    weighted: u32,
    len: u32,
}

/// Bytes that are summed at a time.
const PIECE_LEN: u32 = 64;
const PIECE: usize = PIECE_LEN as usize;
/// How often each of them counts.
const WEIGHTS: [i16; PIECE] = {
    let (mut weights, mut at) = ([0; PIECE], PIECE);
    let mut weight = 0;
    while at > 0 {
        (at, weight) = (at - 1, weight + 1);
        weights[at] = weight;
    }
    weights
};

impl RollingSum {
    fn of(block: &[u8]) -> Self {
        let len = u32::try_from(block.len()).unwrap_or(u32::MAX);
        let (mut plain, mut weighted) = (0u32, 0u32);
        // In pieces of which the compiler makes vectors.
        let (pieces, rest) = block.as_chunks::<PIECE>();
        for piece in pieces {
            let sum: u32 = piece.iter().map(|byte| u32::from(*byte)).sum();
            let far = piece.iter().zip(WEIGHTS).map(|(byte, weight)| i32::from(weight) * i32::from(i16::from(*byte)));
            let far = far.sum::<i32>().cast_unsigned();
            weighted = weighted.wrapping_add(plain.wrapping_mul(PIECE_LEN)).wrapping_add(far);
            plain = plain.wrapping_add(sum);
        }
        for byte in rest {
            plain = plain.wrapping_add(u32::from(*byte));
            weighted = weighted.wrapping_add(plain);
        }
        Self { plain, weighted, len }
    }

    fn roll(&mut self, out: u8, into: u8) {
        let out = u32::from(out);
        self.plain = self.plain.wrapping_sub(out).wrapping_add(into.into());
        self.weighted = self.weighted.wrapping_sub(self.len.wrapping_mul(out)).wrapping_add(self.plain);
    }

    fn sum(self) -> u32 {
        self.weighted.wrapping_add(self.plain.wrapping_mul(0x9e37_79b1))
    }
}

/// The sums of an old file's blocks, as they come.
#[derive(Debug)]
pub struct SignatureBuilder {
    block: u32,
    blocks: u64,
    sums: Vec<RollingSignature>,
}

impl SignatureBuilder {
    /// Of an old file of `size` bytes; the rest behind its last whole block counts as nothing.
    pub fn new(size: u64, block: u32) -> Decoded<Self> {
        let blocks = size / u64::from(block.max(1));
        if !(ROLLING_BLOCK_MIN..=ROLLING_BLOCK_MAX).contains(&block) || blocks > ROLLING_BLOCKS_MAX {
            return Err(ProtocolError::OverLimit("blocks of an old file"));
        }
        Ok(Self { block, blocks, sums: Vec::new() })
    }

    /// The next sums, of blocks from `first` on. Whether these were all.
    pub fn add(&mut self, first: u64, sums: &[RollingSignature]) -> Decoded<bool> {
        if first != self.sums.len() as u64 || first + sums.len() as u64 > self.blocks {
            return Err(ProtocolError::Misplaced);
        }
        self.sums.extend_from_slice(sums);
        Ok(self.sums.len() as u64 == self.blocks)
    }

    /// Bytes of memory that the sums take when all are there.
    pub fn bytes(&self) -> u64 {
        bytes(self.blocks)
    }
}

/// Bytes of memory that the sums of so many blocks take, and the index of them.
pub fn bytes(blocks: u64) -> u64 {
    blocks * (size_of::<RollingSignature>() + 4 * SLOTS_PER_BLOCK + FILTER_BITS_PER_BLOCK / 8) as u64
}

/// Slots of the index for each block.
const SLOTS_PER_BLOCK: usize = 2;
/// Bits of the filter for each block: so few bytes get past it.
const FILTER_BITS_PER_BLOCK: usize = 32;
/// Most slots that are looked at: of very many blocks of one sum (zeros, say), some are not found by it.
const PROBES_MAX: usize = 8;
/// An empty slot.
const EMPTY: u32 = u32::MAX;

/// The sums of all whole blocks of an old file, to be looked up.
#[derive(Debug)]
pub struct SignatureIndex {
    block: usize,
    sums: Vec<RollingSignature>,
    /// Numbers of blocks, by a hash of their weak sums.
    slots: Vec<u32>,
    filter: Vec<u64>,
    effort: SearchBudget,
}

/// What searching has cost, in all threads. Sums that are rolled and seem right where the strong ones are not cost a hash
/// each: a target that says false ones on purpose would have a block hashed at every byte.
#[derive(Debug, Default)]
struct SearchBudget {
    /// Bytes that were searched.
    searched: AtomicU64,
    /// Bytes that were hashed in vain.
    vain: AtomicU64,
    #[cfg(test)]
    hashes: AtomicU64,
}

impl SearchBudget {
    fn search(&self, bytes: usize) {
        self.searched.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn hash_in_vain(&self, bytes: usize) {
        self.vain.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Whether the old file's sums are not worth what they cost.
    fn is_too_much(&self) -> bool {
        let most = self.searched.load(Ordering::Relaxed).saturating_mul(VAIN_HASHES_PER_BYTE);
        self.vain.load(Ordering::Relaxed) > most
    }
}

/// Where the file's bytes were found last, against where they are: most of the next ones will be as far.
pub type OffsetHint = Option<i64>;

impl From<SignatureBuilder> for SignatureIndex {
    fn from(SignatureBuilder { block, sums, .. }: SignatureBuilder) -> Self {
        let slots = vec![EMPTY; (sums.len() * SLOTS_PER_BLOCK).next_power_of_two().max(2)];
        let filter = vec![0; (sums.len() * FILTER_BITS_PER_BLOCK / 64).next_power_of_two().max(2)];
        let mut index = Self { block: block as usize, sums, slots, filter, effort: SearchBudget::default() };
        for number in 0..index.sums.len() {
            index.insert(number);
        }
        index
    }
}

impl SignatureIndex {
    /// Bytes of a block: so much of the file has to stand on both sides of a frame that is searched, where there is any.
    pub fn block(&self) -> usize {
        self.block
    }

    fn insert(&mut self, number: usize) {
        let Some(sum) = self.sums.get(number).copied() else { return };
        let (word, bit) = self.filter_place(sum.weak);
        self.filter[word] |= bit;
        for slot in self.probes(sum.weak) {
            match self.sums.get(self.slots[slot] as usize) {
                None => {
                    self.slots[slot] = u32::try_from(number).unwrap_or(EMPTY);
                    return;
                }
                Some(other) if *other == sum => return,
                Some(_) => {}
            }
        }
    }

    fn filter_place(&self, weak: u32) -> (usize, u64) {
        let hash = mix(weak);
        ((hash >> 6) as usize & (self.filter.len() - 1), 1 << (hash & 63))
    }

    fn probes(&self, weak: u32) -> impl Iterator<Item = usize> + use<> {
        let (first, mask) = (mix(weak) as usize, self.slots.len() - 1);
        (0..PROBES_MAX).map(move |step| (first >> 8).wrapping_add(step) & mask)
    }

    /// The block that these bytes are.
    fn find(&self, weak: u32, bytes: &[u8]) -> Option<usize> {
        let mut known = None;
        for slot in self.probes(weak) {
            let number = self.slots[slot] as usize;
            let Some(sum) = self.sums.get(number) else { break };
            if sum.weak == weak && sum.strong == *known.get_or_insert_with(|| self.strong(bytes)) {
                return Some(number);
            }
        }
        known.iter().for_each(|_| self.effort.hash_in_vain(bytes.len()));
        None
    }

    fn strong(&self, bytes: &[u8]) -> u64 {
        #[cfg(test)]
        self.effort.hashes.fetch_add(1, Ordering::Relaxed);
        strong(bytes)
    }

    /// Whether these bytes are that block.
    fn is_block(&self, number: usize, bytes: &[u8]) -> bool {
        let Some(sum) = self.sums.get(number).filter(|sum| sum.weak == RollingSum::of(bytes).sum()) else {
            return false;
        };
        let is_same = sum.strong == self.strong(bytes);
        if !is_same {
            self.effort.hash_in_vain(bytes.len());
        }
        is_same
    }

    /// What of a frame the old file has. `window` begins at `offset` in the file and has the frame at `frame`, and a
    /// block's length of what stands around it, as far as there is any. Nothing is found any more once too much was hashed
    /// in vain.
    pub fn search(&self, window: &[u8], offset: u64, frame: Range<usize>, shift: &mut OffsetHint) -> Vec<FrameSpan> {
        let mut spans = Vec::new();
        if !self.effort.is_too_much() {
            self.effort.search(window.len());
        }
        // Up to here, the frame's parts are known.
        let mut done = frame.start;
        let mut at = 0;
        while let Some((place, number)) = self.next(window, offset, at, frame.end, *shift) {
            let old = number as u64 * self.block as u64;
            *shift = Some(old.cast_signed().wrapping_sub((offset + place as u64).cast_signed()));
            let (start, end) = (place.max(done), (place + self.block).min(frame.end));
            if start < end {
                FrameSpan::push(&mut spans, None, done - frame.start..start - frame.start);
                let within = (start - place) as u64;
                FrameSpan::push(&mut spans, Some(old + within), start - frame.start..end - frame.start);
                done = end;
            }
            at = place + self.block;
        }
        FrameSpan::push(&mut spans, None, done - frame.start..frame.len());
        spans
    }

    /// The next block in the window, from `at` on, that begins before `end`: its place, and its number.
    fn next(&self, window: &[u8], offset: u64, at: usize, end: usize, shift: OffsetHint) -> Option<(usize, usize)> {
        if self.effort.is_too_much() {
            return None;
        }
        self.expected(window, offset, at, end, shift).or_else(|| self.roll(window, at, end))
    }

    /// The next one that is as far from its place as the last was.
    fn expected(&self, window: &[u8], offset: u64, at: usize, end: usize, shift: OffsetHint) -> Option<(usize, usize)> {
        let old = (offset + at as u64).cast_signed().checked_add(shift?)?;
        let number = u64::try_from(old).ok()?.div_ceil(self.block as u64);
        let gap = usize::try_from(number * self.block as u64 - old.cast_unsigned()).ok()?;
        let place = at.checked_add(gap).filter(|place| *place < end)?;
        let bytes = window.get(place..place + self.block)?;
        let number = usize::try_from(number).ok()?;
        self.is_block(number, bytes).then_some((place, number))
    }

    fn roll(&self, window: &[u8], at: usize, end: usize) -> Option<(usize, usize)> {
        let last = window.len().checked_sub(self.block)?.min(end.checked_sub(1)?);
        let mut weak = RollingSum::of(window.get(at..at + self.block)?);
        let mut place = at;
        loop {
            let sum = weak.sum();
            let (word, bit) = self.filter_place(sum);
            if self.filter[word] & bit != 0 {
                let found = self.find(sum, &window[place..place + self.block]);
                if found.is_some() || self.effort.is_too_much() {
                    return found.map(|number| (place, number));
                }
            }
            if place >= last {
                return None;
            }
            weak.roll(window[place], window[place + self.block]);
            place += 1;
        }
    }
}

/// Spreads what differs in any bits of a sum over all (a step of MurmurHash3).
fn mix(weak: u32) -> u32 {
    let mixed = (weak ^ (weak >> 16)).wrapping_mul(0x85eb_ca6b);
    mixed ^ (mixed >> 13)
}

#[cfg(test)]
#[path = "rolling_tests.rs"]
mod tests;
