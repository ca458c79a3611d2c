//! Block-by-block comparison of a frame with a base file at the same offsets.
//!
//! A block is four BLAKE3 chunks, and so a subtree of BLAKE3's tree. The values of a frame's blocks yield the value of
//! the frame. So changed blocks are found without any hashing beyond the file's own.
//!
//! A block hash is a prefix of a value. It is enough to find blocks that are probably equal; the frame's whole value
//! verifies them.

use blake3::hazmat::{ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};

use super::instructions::FrameSpan;
use crate::integrity::FrameLen;

/// Length of a block in bytes: the usual unit of change in databases and file systems.
pub const BLOCK: usize = 4096;

/// Hash of a base file's block: the first eight bytes of its value. 0: no block.
pub type BlockHash = u64;

/// Returns the number of blocks in `bytes`.
pub fn count(bytes: usize) -> usize {
    bytes.div_ceil(BLOCK)
}

/// Returns the values of the blocks of frame `index`.
pub fn values(frame: FrameLen, index: u64, payload: &[u8]) -> Vec<ChainingValue> {
    let start = index * u64::from(frame.get());
    (start..).step_by(BLOCK).zip(payload.chunks(BLOCK)).map(|(offset, block)| value(offset, block)).collect()
}

/// Returns the value of a block at `offset`, a multiple of [`BLOCK`], in its file.
pub fn value(offset: u64, block: &[u8]) -> ChainingValue {
    blake3::Hasher::new().set_input_offset(offset).update(block).finalize_non_root()
}

/// Returns the value of a frame from those of its blocks, or `None` without blocks. `is_only`: it is the whole file, of
/// more than one block.
pub fn frame_value(values: &[ChainingValue], is_only: bool) -> Option<ChainingValue> {
    match values {
        [] => None,
        [one] => Some(*one),
        _ => {
            let (left, right) = values.split_at(values.len().next_power_of_two() / 2);
            let (left, right) = (frame_value(left, false)?, frame_value(right, false)?);
            Some(match is_only {
                true => *merge_subtrees_root(&left, &right, Mode::Hash).as_bytes(),
                false => merge_subtrees_non_root(&left, &right, Mode::Hash),
            })
        }
    }
}

/// Returns the hashes of these blocks.
pub fn marks(values: &[ChainingValue]) -> Vec<BlockHash> {
    values.iter().map(mark).collect()
}

fn mark(value: &ChainingValue) -> BlockHash {
    let [a, b, c, d, e, f, g, h, ..] = *value;
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

/// Returns the spans of a frame at `offset`: those equal to the base file at the same offset by its hashes, and new
/// ones.
pub fn compare(offset: u64, len: usize, values: &[ChainingValue], old: &[BlockHash]) -> Vec<FrameSpan> {
    let mut spans = Vec::new();
    for (at, (value, old)) in (0..len).step_by(BLOCK).zip(values.iter().zip(old)) {
        let bytes = at..(at + BLOCK).min(len);
        let is_same = *old != 0 && mark(value) == *old;
        FrameSpan::push(&mut spans, is_same.then_some(offset + at as u64), bytes);
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::FRAME_MIN;

    const F: usize = FRAME_MIN as usize;

    fn bytes(n: usize) -> Vec<u8> {
        (0..n).map(|i| (i.wrapping_mul(2_654_435_761) >> 9).to_le_bytes()[0]).collect()
    }

    #[test]
    fn the_values_of_blocks_make_the_value_of_their_frame() {
        let frame = FrameLen::new(FRAME_MIN).unwrap();
        for size in [BLOCK + 1, 3 * BLOCK, 131_073, F - 1, F, F + 1, 2 * F + 5 * BLOCK + 77, 3 * F] {
            let data = bytes(size);
            for (index, payload) in (0..).zip(data.chunks(F)) {
                let values = values(frame, index, payload);
                assert_eq!(values.len(), count(payload.len()));
                let value = frame_value(&values, size <= F);
                assert_eq!(value, Some(frame.hash(size as u64, index, payload)), "{size}, frame {index}");
            }
        }
        assert_eq!(frame_value(&[], true), None);
    }

    #[test]
    fn only_differing_blocks_are_found() {
        let frame = FrameLen::new(FRAME_MIN).unwrap();
        let old = bytes(F - 100);
        let mut new = old.clone();
        new[5 * BLOCK] ^= 1;
        new[7 * BLOCK - 1] ^= 1;
        let marks = marks(&values(frame, 3, &old));
        let spans = compare(3 * F as u64, new.len(), &values(frame, 3, &new), &marks);
        let start = 3 * F as u64;
        let same = |bytes: std::ops::Range<usize>| FrameSpan { old: Some(start + bytes.start as u64), bytes };
        let expected =
            [same(0..5 * BLOCK), FrameSpan { old: None, bytes: 5 * BLOCK..7 * BLOCK }, same(7 * BLOCK..new.len())];
        assert_eq!(spans, expected);
        let none = compare(start, new.len(), &values(frame, 3, &new), &vec![0; 64]);
        assert_eq!(none, [FrameSpan { old: None, bytes: 0..new.len() }], "0 is no mark");
        let shorter = compare(start, 100, &values(frame, 3, &new[..100]), &marks);
        assert_eq!(shorter, [FrameSpan { old: None, bytes: 0..100 }], "part of a block is not that block");
    }
}
