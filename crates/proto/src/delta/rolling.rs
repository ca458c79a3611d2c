//! Search for blocks of a base file at any offset of the new file. It uses rsync's algorithm (Tridgell, "Efficient
//! Algorithms for Sorting and Synchronization", chapter 3). It works frame by frame, so that any stream can take any
//! frame.
//!
//! A rolling checksum finds candidates, and a prefix of the keyed BLAKE3 verifies them. A frame is searched with one block
//! length of context on both sides. A block across its edge is found in both frames, and each takes its part.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use super::instructions::FrameSpan;
use crate::codec::{FieldCodec, wire_struct};
use crate::encoding::{Decoded, Reader, Writer};
use crate::error::ProtocolError;
use crate::field_codecs::{ListOf, list};
use crate::limits::{
    ROLLING_BLOCK_MAX, ROLLING_BLOCK_MIN, ROLLING_BLOCKS_MAX, STRONG_BYTES_MAX, STRONG_BYTES_MIN, SUMS_MAX,
    VAIN_HASHES_PER_BYTE,
};

/// Signature of a base file's block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RollingSignature {
    /// Rolling checksum.
    pub weak: u32,
    /// Prefix of the keyed BLAKE3.
    pub strong: u64,
}

wire_struct! {
    /// How the blocks of a base file are signed.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct SignatureFormat {
        /// Length of a block in bytes.
        pub block: u32,
        /// Key of the strong hashes, chosen by the target at random. Nobody can prepare files with blocks of equal hashes.
        pub key: u64,
        /// Length of the strong hashes in bytes.
        pub strong_bytes: u8,
    } checked by check_strong_bytes
}

/// The chance of one false match in a search of random data is at most one in 2 to the power of this number. Rolling sums
/// of text collide more often; a false match is found by the file's digest.
const CHANCE_BITS: u32 = 28;
const WEAK_BYTES: u8 = 4;

impl SignatureFormat {
    /// Returns the format for a base file of `size` bytes. A search for all its blocks makes `size` comparisons with
    /// each of them.
    pub fn new(size: u64, block: u32, key: u64) -> Self {
        let blocks = size / u64::from(block.max(1));
        let bits = size.max(1).ilog2() + blocks.max(1).ilog2() + 2 + CHANCE_BITS;
        let bytes = u8::try_from(bits.div_ceil(8)).unwrap_or(u8::MAX);
        let strong_bytes = bytes.saturating_sub(WEAK_BYTES).clamp(STRONG_BYTES_MIN, STRONG_BYTES_MAX);
        Self { block, key, strong_bytes }
    }

    /// Signs a block.
    pub fn sign(&self, block: &[u8]) -> RollingSignature {
        RollingSignature { weak: RollingSum::of(block).sum(), strong: self.strong(block) }
    }

    fn strong(&self, block: &[u8]) -> u64 {
        let mut key = [0; blake3::KEY_LEN];
        key[..8].copy_from_slice(&self.key.to_le_bytes());
        let [a, b, c, d, e, f, g, h, ..] = *blake3::keyed_hash(&key, block).as_bytes();
        let unused = 64 - 8 * u32::from(self.strong_bytes);
        u64::from_le_bytes([a, b, c, d, e, f, g, h]) << unused >> unused
    }

    /// Returns the length of a signature on the wire.
    pub fn signature_bytes(&self) -> usize {
        usize::from(WEAK_BYTES + self.strong_bytes)
    }

    /// Returns the codec of signatures in this format.
    pub(crate) fn signatures(self) -> ListOf<Self> {
        list(self, SUMS_MAX, "sums of blocks")
    }
}

impl FieldCodec<RollingSignature> for SignatureFormat {
    fn encode(&self, signature: &RollingSignature, out: &mut Writer) {
        let strong = signature.strong.to_le_bytes();
        out.u32(signature.weak).raw(&strong[..usize::from(self.strong_bytes)]);
    }

    fn decode(&self, reader: &mut Reader<'_>) -> Decoded<RollingSignature> {
        let weak = reader.u32()?;
        let mut strong = [0; 8];
        let len = usize::from(self.strong_bytes);
        strong[..len].copy_from_slice(reader.take_bytes(len)?);
        Ok(RollingSignature { weak, strong: u64::from_le_bytes(strong) })
    }
}

fn check_strong_bytes(format: &SignatureFormat) -> Decoded<()> {
    match format.strong_bytes {
        STRONG_BYTES_MIN..=STRONG_BYTES_MAX => Ok(()),
        _ => Err(ProtocolError::Invalid("length of a strong hash")),
    }
}

/// A sum of bytes, and one weighted by each byte's distance from the end.
#[derive(Debug, Clone, Copy)]
struct RollingSum {
    plain: u32,
    weighted: u32,
    len: u32,
}

/// Number of bytes summed at a time.
const PIECE_LEN: u32 = 64;
const PIECE: usize = PIECE_LEN as usize;
/// Weight of each of them.
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
        // In chunks of fixed size, so that the compiler vectorizes the loop.
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

/// Collects the signatures of a base file's blocks as they arrive.
#[derive(Debug)]
pub struct SignatureBuilder {
    format: SignatureFormat,
    blocks: u64,
    sums: Vec<RollingSignature>,
}

impl SignatureBuilder {
    /// Starts for a base file of `size` bytes; the rest after its last whole block is ignored.
    pub fn new(size: u64, format: SignatureFormat) -> Decoded<Self> {
        let block = format.block;
        let blocks = size / u64::from(block.max(1));
        if !(ROLLING_BLOCK_MIN..=ROLLING_BLOCK_MAX).contains(&block) || blocks > ROLLING_BLOCKS_MAX {
            return Err(ProtocolError::OverLimit("blocks of a base file"));
        }
        Ok(Self { format, blocks, sums: Vec::new() })
    }

    /// Verifies that further signatures have the same format.
    pub fn of_format(self, format: SignatureFormat) -> Decoded<Self> {
        if format == self.format { Ok(self) } else { Err(ProtocolError::Invalid("another format of signatures")) }
    }

    /// Adds the signatures of the blocks from `first` on; whether all have arrived.
    pub fn add(&mut self, first: u64, sums: &[RollingSignature]) -> Decoded<bool> {
        if first != self.sums.len() as u64 || first + sums.len() as u64 > self.blocks {
            return Err(ProtocolError::Misplaced);
        }
        self.sums.extend_from_slice(sums);
        Ok(self.sums.len() as u64 == self.blocks)
    }

    /// Returns the memory used by all signatures and their index, in bytes.
    pub fn bytes(&self) -> u64 {
        bytes(self.blocks)
    }
}

/// Returns the memory used by the signatures of this number of blocks and their index, in bytes.
pub fn bytes(blocks: u64) -> u64 {
    blocks * (size_of::<RollingSignature>() + 4 * SLOTS_PER_BLOCK + FILTER_BITS_PER_BLOCK / 8) as u64
}

/// Slots of the index for each block.
const SLOTS_PER_BLOCK: usize = 2;
/// Bits of the filter for each block, so that few bytes pass it.
const FILTER_BITS_PER_BLOCK: usize = 32;
/// Most slots probed. With very many blocks of the same checksum (zeros, say), some are not found by it.
const PROBES_MAX: usize = 32;
/// Marker of an empty slot.
const EMPTY: u32 = u32::MAX;

/// Index of the signatures of all whole blocks in a base file.
#[derive(Debug)]
pub struct SignatureIndex {
    format: SignatureFormat,
    block: usize,
    sums: Vec<RollingSignature>,
    /// Block numbers, by a hash of their rolling checksums.
    slots: Vec<u32>,
    filter: Vec<u64>,
    effort: SearchBudget,
}

/// Cost of the search, over all threads. Each false match of a rolling checksum costs one strong hash. A target with
/// deliberately false signatures could cause a hash at every byte.
#[derive(Debug, Default)]
struct SearchBudget {
    /// Bytes searched.
    searched: AtomicU64,
    /// Bytes hashed in vain.
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

    /// Whether the signatures cost more than they are worth.
    fn is_too_much(&self) -> bool {
        let most = self.searched.load(Ordering::Relaxed).saturating_mul(VAIN_HASHES_PER_BYTE);
        self.vain.load(Ordering::Relaxed) > most
    }
}

/// Last distance between a block's offsets in the base file and in the new file. Most following blocks have the same.
pub type OffsetHint = Option<i64>;

impl From<SignatureBuilder> for SignatureIndex {
    fn from(SignatureBuilder { format, sums, .. }: SignatureBuilder) -> Self {
        let slots = vec![EMPTY; (sums.len() * SLOTS_PER_BLOCK).next_power_of_two().max(2)];
        let filter = vec![0; (sums.len() * FILTER_BITS_PER_BLOCK / 64).next_power_of_two().max(2)];
        let (block, effort) = (format.block as usize, SearchBudget::default());
        let mut index = Self { format, block, sums, slots, filter, effort };
        for number in 0..index.sums.len() {
            index.insert(number);
        }
        index
    }
}

impl SignatureIndex {
    /// Returns the block length. This much context has to surround a searched frame, where the file has it.
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

    /// Returns the number of the block equal to these bytes.
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
        self.format.strong(bytes)
    }

    /// Whether these bytes equal that block.
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

    /// Returns the spans of a frame: those found in the base file, and new ones. `window` is at `offset` in the file;
    /// it has the frame at `frame`, surrounded by one block length of context where the file has it. Nothing is found
    /// any more after too much vain hashing.
    pub fn search(&self, window: &[u8], offset: u64, frame: Range<usize>, shift: &mut OffsetHint) -> Vec<FrameSpan> {
        let mut spans = Vec::new();
        if !self.effort.is_too_much() {
            self.effort.search(window.len());
        }
        // The frame's spans are known up to here.
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

    /// Returns the position and number of the next block in the window that begins from `at` on and before `end`.
    fn next(&self, window: &[u8], offset: u64, at: usize, end: usize, shift: OffsetHint) -> Option<(usize, usize)> {
        if self.effort.is_too_much() {
            return None;
        }
        self.expected(window, offset, at, end, shift).or_else(|| self.roll(window, at, end))
    }

    /// Returns the next block with the same distance as the last one.
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

/// Mixes all bits of a checksum (a step of MurmurHash3).
fn mix(weak: u32) -> u32 {
    let mixed = (weak ^ (weak >> 16)).wrapping_mul(0x85eb_ca6b);
    mixed ^ (mixed >> 13)
}

#[cfg(test)]
#[path = "rolling_tests.rs"]
mod tests;
