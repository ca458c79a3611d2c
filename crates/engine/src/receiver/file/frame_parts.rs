//! Parts of a frame that is rebuilt from a base file. On file systems with reflinks, whole blocks of the base file are
//! cloned, and only the other parts are written.

use std::ops::Range;

use haul_proto::delta::blocks::BLOCK;
use haul_proto::delta::instructions::DeltaInstruction;

/// Fewer bytes are written: that costs less than a clone.
const CLONED_BYTES_MIN: u64 = 4 * BLOCK as u64;

/// A part of a frame: an instruction, or those of its bytes that can be cloned, or the bytes around them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FramePart<'a> {
    /// What its bytes are.
    pub step: DeltaInstruction<'a>,
    /// Where they are in the frame.
    pub bytes: Range<usize>,
    /// Whether the new file shares them with the base file.
    pub is_cloned: bool,
}

/// The parts of a frame, one for each instruction; none is cloned yet.
pub fn parts<'a>(steps: &[DeltaInstruction<'a>]) -> Vec<FramePart<'a>> {
    let mut at = 0;
    let part = |step: &DeltaInstruction<'a>| {
        let len = match step {
            DeltaInstruction::New(bytes) => bytes.len(),
            DeltaInstruction::Old { len, .. } => *len,
        };
        at += len;
        FramePart { step: *step, bytes: at - len..at, is_cloned: false }
    };
    steps.iter().map(part).collect()
}

/// Splits off and clones the copies of whole blocks, up to the first failure. `clone` gets their range in the base file
/// and their offset in the new one.
pub fn clone_parts<'a>(
    parts: Vec<FramePart<'a>>,
    frame_offset: u64,
    mut clone: impl FnMut(Range<u64>, u64) -> bool,
) -> Vec<FramePart<'a>> {
    let (mut split, mut may_clone) = (Vec::with_capacity(parts.len()), true);
    for part in parts {
        let blocks = whole_blocks(&part, frame_offset).filter(|_| may_clone);
        let (Some(blocks), DeltaInstruction::Old { offset, .. }) = (blocks, part.step) else {
            split.push(part);
            continue;
        };
        let old = |bytes: &Range<usize>| offset + (bytes.start - part.bytes.start) as u64;
        let from = old(&blocks);
        may_clone = clone(from..from + blocks.len() as u64, frame_offset + blocks.start as u64);
        let around =
            [(part.bytes.start..blocks.start, false), (blocks.clone(), may_clone), (blocks.end..part.bytes.end, false)];
        split.extend(around.into_iter().filter(|(bytes, _)| !bytes.is_empty()).map(|(bytes, is_cloned)| FramePart {
            step: DeltaInstruction::Old { offset: old(&bytes), len: bytes.len() },
            bytes,
            is_cloned,
        }));
    }
    split
}

/// The whole blocks that a part copies from the base file, if they have the same alignment there.
fn whole_blocks(part: &FramePart<'_>, frame_offset: u64) -> Option<Range<usize>> {
    let DeltaInstruction::Old { offset, .. } = part.step else { return None };
    let block = BLOCK as u64;
    let (start, end) = (frame_offset + part.bytes.start as u64, frame_offset + part.bytes.end as u64);
    let (first, last) = (start.next_multiple_of(block), end / block * block);
    let is_worth_it = offset % block == start % block && last >= first + CLONED_BYTES_MIN;
    let in_frame = |at: u64| usize::try_from(at - frame_offset).ok();
    is_worth_it.then(|| Some(in_frame(first)?..in_frame(last)?)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const B: usize = BLOCK;

    /// Clones that were tried: ranges in the base file, offsets in the new one.
    type Tried = Vec<(Range<u64>, u64)>;

    fn old(offset: usize, len: usize) -> DeltaInstruction<'static> {
        DeltaInstruction::Old { offset: offset as u64, len }
    }

    /// The clones that are tried, and the parts that come of them.
    fn clones(steps: &[DeltaInstruction<'_>], succeed: usize) -> (Tried, Vec<(Range<usize>, bool)>) {
        let mut tried = Vec::new();
        let split = clone_parts(parts(steps), 64 * B as u64, |from, to| {
            tried.push((from, to));
            tried.len() <= succeed
        });
        for part in &split {
            let DeltaInstruction::Old { len, .. } = part.step else { continue };
            assert_eq!(len, part.bytes.len());
        }
        (tried, split.into_iter().map(|part| (part.bytes, part.is_cloned)).collect())
    }

    fn blocks(range: Range<usize>) -> Range<u64> {
        (range.start * B) as u64..(range.end * B) as u64
    }

    #[test]
    fn whole_blocks_of_equal_alignment_are_cloned() {
        let new = [7; 2 * B];
        // At the same offset, around a change of two blocks; the file's last bytes are no whole block.
        let steps = [old(64 * B, 8 * B), DeltaInstruction::New(&new), old(74 * B, 5 * B + 9)];
        let (tried, split) = clones(&steps, 9);
        assert_eq!(tried, [(blocks(64..72), 64 * B as u64), (blocks(74..79), 74 * B as u64)]);
        let expected = [(0..8 * B, true), (8 * B..10 * B, false), (10 * B..15 * B, true), (15 * B..15 * B + 9, false)];
        assert_eq!(split, expected);
        // Moved by whole blocks, from the middle of one.
        let (tried, split) = clones(&[DeltaInstruction::New(&new[..100]), old(3 * B + 100, 6 * B)], 9);
        assert_eq!(tried, [(blocks(4..9), 65 * B as u64)]);
        assert_eq!(split, [(0..100, false), (100..B, false), (B..6 * B, true), (6 * B..6 * B + 100, false)]);
    }

    #[test]
    fn few_blocks_and_other_alignments_are_written() {
        let new = [7; 10];
        for steps in [&[old(64 * B, 3 * B)][..], &[DeltaInstruction::New(&new), old(64 * B, 32 * B)], &[old(1, 32 * B)]]
        {
            let (tried, split) = clones(steps, 9);
            assert!(tried.is_empty() && split.len() == steps.len(), "{tried:?}");
        }
    }

    #[test]
    fn after_a_failed_clone_everything_is_written() {
        let new = [7; B];
        let steps = [old(64 * B, 8 * B), DeltaInstruction::New(&new), old(73 * B, 8 * B), old(0, 8 * B)];
        for (succeed, tries) in [(0, 1), (1, 2)] {
            let (tried, split) = clones(&steps, succeed);
            assert_eq!(tried.len(), tries);
            assert_eq!(split.iter().filter(|(_, is_cloned)| *is_cloned).count(), succeed);
            assert_eq!(split.iter().map(|(bytes, _)| bytes.len()).sum::<usize>(), 25 * B);
        }
    }
}
