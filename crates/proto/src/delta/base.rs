//! Base files: existing files that frames are built from.
//!
//! A delta may only copy blocks that the target advertised. Otherwise a source could choose offset and length freely,
//! learn whether the frame has its value, and so read the base file byte by byte.

use super::DeltaMethod;
use super::blocks::BLOCK;
use super::instructions::DeltaInstruction;
use crate::error::ProtocolError;

/// A base file as advertised to the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BaseFile {
    /// Size in bytes.
    pub size: u64,
    /// Kind of the advertised blocks.
    pub method: DeltaMethod,
}

/// Position of a frame in the new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FramePosition {
    /// Offset of the frame in bytes.
    pub offset: u64,
    /// Length of the frame in bytes.
    pub len: usize,
    /// Size of the whole file in bytes.
    pub file_size: u64,
}

/// Identity of a base file, independent of its name: device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BaseId {
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
}

impl BaseFile {
    /// Checks that the instructions of a frame copy only whole blocks, or the part of a block that lies in this frame.
    pub fn check(self, steps: &[DeltaInstruction<'_>], frame: FramePosition) -> Result<(), ProtocolError> {
        let mut start = 0;
        for step in steps {
            let (old, len) = match *step {
                DeltaInstruction::New(bytes) => (None, bytes.len()),
                DeltaInstruction::Old { offset, len } => (Some(offset), len),
            };
            let end = start + len;
            if let Some(offset) = old {
                let old_end = offset.checked_add(len as u64).filter(|end| *end <= self.size).ok_or(BEYOND_END)?;
                let is_told = match self.method {
                    DeltaMethod::Blocks => self.is_in_place(offset..old_end, start, end, frame),
                    DeltaMethod::Rolling(block) => self.is_of_blocks(block, offset..old_end, start, end, frame),
                };
                if !is_told {
                    return Err(UNTOLD);
                }
            }
            start = end;
        }
        Ok(())
    }

    /// Whether a copy keeps blocks at their offsets. Only the last block of the base file may be shorter, and then it
    /// ends the frame.
    fn is_in_place(self, old: std::ops::Range<u64>, start: usize, end: usize, frame: FramePosition) -> bool {
        let is_whole = end.is_multiple_of(BLOCK) || end == frame.len && old.end == self.size;
        old.start == frame.offset.saturating_add(start as u64) && start.is_multiple_of(BLOCK) && is_whole
    }

    /// Whether a copy consists of whole blocks. A partial block must cross the frame's edge and lie within the new
    /// file.
    fn is_of_blocks(
        self,
        block: u32,
        old: std::ops::Range<u64>,
        start: usize,
        end: usize,
        frame: FramePosition,
    ) -> bool {
        let block = u64::from(block.max(1));
        let (cut_off, behind) = (old.start % block, old.end.next_multiple_of(block) - old.end);
        let left = frame.file_size.saturating_sub(frame.offset.saturating_add(frame.len as u64));
        let begins = cut_off == 0 || start == 0 && cut_off <= frame.offset;
        let ends = behind == 0 || end == frame.len && behind <= left;
        // The bytes after the last whole block have no signature.
        begins && ends && old.end <= self.size / block * block
    }
}

const BEYOND_END: ProtocolError = ProtocolError::Invalid("bytes beyond the end of a base file");
const UNTOLD: ProtocolError = ProtocolError::Unasked("bytes of a base file outside its announced blocks");

#[cfg(test)]
mod tests {
    use super::*;

    const B: u64 = BLOCK as u64;
    const F: u64 = 256 << 10;

    fn old(offset: u64, len: u64) -> DeltaInstruction<'static> {
        DeltaInstruction::Old { offset, len: usize::try_from(len).unwrap() }
    }

    /// Returns a frame in a file with `left` bytes after it.
    fn frame(offset: u64, len: u64, left: u64) -> FramePosition {
        FramePosition { offset, len: usize::try_from(len).unwrap(), file_size: offset + len + left }
    }

    #[test]
    fn blocks_in_place_are_copied_completely() {
        let base = BaseFile { size: 2 * F + 100, method: DeltaMethod::Blocks };
        let new: &[u8] = &[7; 10];
        for (steps, place, is_right) in [
            (&[old(F, F)][..], frame(F, F, 5), true),
            (&[old(2 * F, 100)], frame(2 * F, 100, 0), true),
            (&[old(F, B), DeltaInstruction::New(&[7; 3 * BLOCK]), old(F + 4 * B, F - 4 * B)], frame(F, F, 0), true),
            (&[old(F, B - 1), DeltaInstruction::New(&[7; 1]), old(F + B, F - B)], frame(F, F, 0), false),
            (&[DeltaInstruction::New(&[7; 1]), old(F + 1, F - 1)], frame(F, F, 0), false),
            (&[old(F, 24)], frame(F, 24, 0), false),
            (&[old(2 * F, 99)], frame(2 * F, 99, 0), false),
            (&[old(2 * F, 100), DeltaInstruction::New(new)], frame(2 * F, 110, 0), false),
            (&[old(2 * F, 101)], frame(2 * F, 101, 0), false),
            (&[old(F + B, F)], frame(F, F, 0), false),
            (&[old(0, F)], frame(F, F, 0), false),
            (&[old(u64::MAX, 2)], frame(F, 2, 0), false),
        ] {
            assert_eq!(base.check(steps, place).is_ok(), is_right, "{steps:?} {place:?}");
        }
    }

    #[test]
    fn moved_blocks_are_copied_completely_or_cut_at_a_frame_boundary() {
        const R: u64 = 2048;
        let base = BaseFile { size: 100 * R + 7, method: DeltaMethod::Rolling(2048) };
        let new: &[u8] = &[7; 5];
        for (steps, place, is_right) in [
            (&[DeltaInstruction::New(new), old(3 * R, R), DeltaInstruction::New(new)][..], frame(F, R + 10, 0), true),
            (&[old(3 * R + 9, 2 * R - 9), DeltaInstruction::New(new)], frame(F, 2 * R - 4, 0), true),
            (&[DeltaInstruction::New(new), old(3 * R, R + 1)], frame(F, R + 6, R - 1), true),
            (&[old(99 * R, R)], frame(F, R, 0), true),
            (&[DeltaInstruction::New(new), old(3 * R, R + 1)], frame(F, R + 6, R - 2), false),
            (&[old(3 * R + 9, 2 * R - 9)], frame(0, 2 * R - 9, R), false),
            (&[old(3 * R, 24), DeltaInstruction::New(new)], frame(F, 29, R), false),
            (&[DeltaInstruction::New(new), old(3 * R + 1, R - 1)], frame(F, R + 4, R), false),
            (&[DeltaInstruction::New(new), old(3 * R, R - 1), DeltaInstruction::New(new)], frame(F, R + 9, R), false),
            (&[old(99 * R, R + 7)], frame(F, R + 7, R), false),
            (&[old(100 * R, 7)], frame(F, 7, R), false),
            (&[old(101 * R, R)], frame(F, R, R), false),
            (&[old(u64::MAX - 3, 4)], frame(F, 4, R), false),
        ] {
            assert_eq!(base.check(steps, place).is_ok(), is_right, "{steps:?} {place:?}");
        }
    }
}
