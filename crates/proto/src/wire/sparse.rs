//! Records of frames with holes: only data blocks are sent, and a map before the trailer gives their offsets.
//!
//! A frame's length, check and BLAKE3 value include zeros in its holes. The engine finds holes and decides about their
//! treatment.

use std::ops::Range;

use super::frame::RecordTrailer;
use crate::encoding::{Decoded, Reader, Writer};
use crate::error::ProtocolError;
use crate::limits::FRAME_MAX;
use crate::wire::compressed_frame;
use crate::wire::compressed_frame::CompressedPayload;

/// Bytes per bit of a map.
pub const BLOCK: usize = 4096;
/// Blocks of the largest frame.
const BLOCKS_MAX: usize = FRAME_MAX as usize / BLOCK;
/// Length of a map on the wire.
const MAP_BYTES: usize = BLOCKS_MAX / 8;

/// Map of the data blocks of a frame. All other blocks are holes and read as zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataMap([u8; MAP_BYTES]);

/// Data map and plain length of a payload with holes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SparsePayload {
    /// Map of its data blocks.
    pub map: DataMap,
    /// Plain length in bytes: 1 to [`FRAME_MAX`].
    pub plain: usize,
}

/// Transformations of a payload before encryption.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PayloadShape {
    /// First step: removal of holes.
    pub sparse: Option<SparsePayload>,
    /// Second step: compression of the rest.
    pub compressed: Option<CompressedPayload>,
}

/// Kind of a trailer with a leading [`SparsePayload`]; the others are those of [`RecordTrailer`] and of
/// [`super::compressed_frame`].
const SPARSE: u8 = 6;

impl DataMap {
    /// A frame that is all hole.
    pub const HOLE: Self = Self([0; MAP_BYTES]);

    /// Marks all blocks that overlap these bytes of the frame as data.
    pub fn add(&mut self, bytes: Range<usize>) {
        for block in bytes.start / BLOCK..bytes.end.div_ceil(BLOCK).min(BLOCKS_MAX) {
            self.0[block / 8] |= 1 << (block % 8);
        }
    }

    /// Whether all blocks of a frame of `len` bytes are data.
    pub fn is_full(&self, len: usize) -> bool {
        (0..len.div_ceil(BLOCK)).all(|block| self.is_data(block))
    }

    /// Returns the runs of data blocks (`true`) and holes (`false`) in a frame of `len` bytes, with their byte ranges.
    pub fn runs(&self, len: usize) -> Vec<(bool, Range<usize>)> {
        let mut runs: Vec<(bool, Range<usize>)> = Vec::new();
        for block in 0..len.div_ceil(BLOCK) {
            let (is_data, end) = (self.is_data(block), ((block + 1) * BLOCK).min(len));
            match runs.last_mut() {
                Some((last, bytes)) if *last == is_data => bytes.end = end,
                _ => runs.push((is_data, block * BLOCK..end)),
            }
        }
        runs
    }

    /// Moves the data of a frame together at its beginning; returns its length.
    pub fn squeeze(&self, frame: &mut [u8]) -> usize {
        let mut used = 0;
        for (_, bytes) in self.runs(frame.len()).into_iter().filter(|(is_data, _)| *is_data) {
            let len = bytes.len();
            frame.copy_within(bytes, used);
            used += len;
        }
        used
    }

    /// Reverses [`Self::squeeze`]: moves the data to its offsets in `frame` and zeroes the holes.
    ///
    /// # Panics
    /// If the frame is not as long as the map says; [`decode_trailer`] ensures that it is.
    pub fn spread(&self, frame: &mut [u8]) {
        let runs = self.runs(frame.len());
        let mut left = self.data_len(frame.len());
        for (is_data, bytes) in runs.into_iter().rev() {
            if is_data {
                left -= bytes.len();
                frame.copy_within(left..left + bytes.len(), bytes.start);
            } else {
                // Unmoved data lies before this hole: as much as the earlier runs hold.
                frame[bytes].fill(0);
            }
        }
    }

    fn is_data(&self, block: usize) -> bool {
        self.0.get(block / 8).is_some_and(|bits| bits & 1 << (block % 8) != 0)
    }

    fn data_len(&self, len: usize) -> usize {
        self.runs(len).iter().filter(|(is_data, _)| *is_data).map(|(_, bytes)| bytes.len()).sum()
    }
}

/// Appends a trailer in its wire form.
pub fn encode_trailer(shape: &PayloadShape, trailer: &RecordTrailer, out: &mut Writer) {
    if let Some(SparsePayload { map, plain }) = &shape.sparse {
        out.u8(SPARSE).count(*plain).raw(&map.0);
    }
    compressed_frame::encode_trailer(shape.compressed, trailer, out);
}

/// Reads a trailer; `payload` is the length of the payload on the wire.
pub fn decode_trailer(bytes: &[u8], payload: usize) -> Decoded<(PayloadShape, RecordTrailer)> {
    if bytes.first() != Some(&SPARSE) {
        let (compressed, trailer) = compressed_frame::decode_trailer(bytes, payload)?;
        return Ok((PayloadShape { sparse: None, compressed }, trailer));
    }
    let mut reader = Reader::new(bytes);
    reader.u8()?;
    let plain = reader.count(FRAME_MAX as usize, "a payload with its holes")?;
    let map = DataMap(reader.array()?);
    let (compressed, trailer) = compressed_frame::decode_trailer(reader.take_bytes(reader.remaining())?, payload)?;
    if !matches!(trailer, RecordTrailer::Data(_)) {
        return Err(ProtocolError::Invalid("holes outside a frame"));
    }
    let data = compressed.map_or(payload, |compressed| compressed.plain);
    let is_beyond = (plain.div_ceil(BLOCK)..BLOCKS_MAX).any(|block| map.is_data(block));
    if is_beyond || data != map.data_len(plain) || data == plain {
        return Err(ProtocolError::Invalid("holes that do not make up the frame"));
    }
    Ok((PayloadShape { sparse: Some(SparsePayload { map, plain }), compressed }, trailer))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::compression::Codec;
    use crate::ids::{CopyNumber, EntryId};
    use crate::wire::frame::DataFrame;

    fn data() -> RecordTrailer {
        RecordTrailer::Data(DataFrame { copy: CopyNumber(1), entry: EntryId(7), offset: 0, check: 5, value: [9; 32] })
    }

    fn encoded(shape: &PayloadShape, trailer: &RecordTrailer) -> Vec<u8> {
        let mut out = Writer::new();
        encode_trailer(shape, trailer, &mut out);
        out.into_bytes()
    }

    fn sparse(map: DataMap, plain: usize) -> PayloadShape {
        PayloadShape { sparse: Some(SparsePayload { map, plain }), compressed: None }
    }

    proptest! {
        #[test]
        fn squeezed_payloads_are_restored(len in 1usize..=FRAME_MAX as usize, bits: [u8; MAP_BYTES]) {
            let map = DataMap(bits);
            let mut frame: Vec<u8> = (1..=251).cycle().take(len).collect();
            for (_, hole) in map.runs(len).into_iter().filter(|(is_data, _)| !is_data) {
                frame[hole].fill(0);
            }
            let mut squeezed = frame.clone();
            let used = map.squeeze(&mut squeezed);
            prop_assert_eq!(used, frame.iter().filter(|byte| **byte != 0).count());
            squeezed[used..].fill(77);
            map.spread(&mut squeezed);
            prop_assert_eq!(squeezed, frame);
        }
    }

    #[test]
    fn a_map_counts_the_added_zeros() {
        let mut map = DataMap::HOLE;
        assert_eq!(map.runs(BLOCK + 1), [(false, 0..BLOCK + 1)]);
        map.add(BLOCK + 5..BLOCK + 6);
        assert_eq!(map.runs(3 * BLOCK), [(false, 0..BLOCK), (true, BLOCK..2 * BLOCK), (false, 2 * BLOCK..3 * BLOCK)]);
        assert!(!map.is_full(2 * BLOCK));
        map.add(0..1);
        assert!(map.is_full(2 * BLOCK) && map.is_full(BLOCK + 1) && !map.is_full(2 * BLOCK + 1));
        map.add(0..usize::MAX);
        assert!(map.is_full(FRAME_MAX as usize));
    }

    #[test]
    fn trailers_round_trip_with_and_without_a_map() {
        let mut map = DataMap::HOLE;
        map.add(BLOCK..2 * BLOCK);
        let compressed = Some(CompressedPayload { codec: Codec::Lz4, plain: BLOCK });
        let both = PayloadShape { compressed, ..sparse(map, 3 * BLOCK) };
        for (shape, payload) in [
            (PayloadShape::default(), BLOCK),
            (PayloadShape { sparse: None, compressed }, 9),
            (sparse(DataMap::HOLE, FRAME_MAX as usize), 0),
            (sparse(map, 3 * BLOCK), BLOCK),
            (sparse(map, BLOCK + 1), 1),
            (both, 9),
        ] {
            let bytes = encoded(&shape, &data());
            assert_eq!(decode_trailer(&bytes, payload), Ok((shape, data())));
            assert!((0..bytes.len()).all(|cut| decode_trailer(&bytes[..cut], payload).is_err()));
        }
    }

    #[test]
    fn a_map_of_another_payload_is_a_fault() {
        let mut map = DataMap::HOLE;
        map.add(BLOCK..2 * BLOCK);
        for (shape, payload) in [
            (sparse(map, 3 * BLOCK), BLOCK - 1),
            (sparse(map, 3 * BLOCK), 0),
            (sparse(map, BLOCK), 0),
            (sparse(DataMap::HOLE, 0), 0),
            (sparse(DataMap::HOLE, FRAME_MAX as usize + 1), 0),
            (sparse(DataMap([u8::MAX; MAP_BYTES]), FRAME_MAX as usize), FRAME_MAX as usize),
        ] {
            assert!(decode_trailer(&encoded(&shape, &data()), payload).is_err(), "{shape:?}");
        }
        let end = RecordTrailer::End { records: 0 };
        assert!(decode_trailer(&encoded(&sparse(DataMap::HOLE, 5), &end), 0).is_err());
        let nested = encoded(&sparse(DataMap::HOLE, 5), &data());
        let twice = [&encoded(&sparse(DataMap::HOLE, 5), &RecordTrailer::Finished)[..34], &nested].concat();
        assert!(decode_trailer(&twice, 0).is_err());
    }
}
