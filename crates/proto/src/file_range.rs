//! Ranges of a large file that several runs copy: aligned parts of one length, so that each is a subtree of the file's
//! BLAKE3, whatever the frame length. The last range is the rest of the file.

use std::ops::Range;

use crate::codec::Wire;
use crate::encoding::{Decoded, Reader, Writer};
use crate::error::ProtocolError;
use crate::integrity::FrameLen;
use crate::limits::{FRAME_MAX, RANGES_MAX};

/// Length of the ranges of a file in bytes: a power of two, and at least the longest frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeLen(u64);

impl RangeLen {
    /// The default.
    pub const DEFAULT: Self = Self(64 << 30);
    /// The shortest range.
    pub const MIN: Self = Self(FRAME_MAX as u64);

    /// Checks that `bytes` is a power of two and no less than [`Self::MIN`].
    pub fn new(bytes: u64) -> Result<Self, ProtocolError> {
        if bytes.is_power_of_two() && bytes >= Self::MIN.0 {
            Ok(Self(bytes))
        } else {
            Err(ProtocolError::Invalid("the length of a range"))
        }
    }

    /// Returns the length in bytes.
    pub fn get(self) -> u64 {
        self.0
    }

    /// Returns the number of ranges of a file of `size` bytes.
    pub fn ranges_of(self, size: u64) -> u64 {
        size.div_ceil(self.0)
    }

    /// Whether a file of `size` bytes has ranges: more than one, and at most [`RANGES_MAX`].
    pub fn divides(self, size: u64) -> bool {
        (2..=RANGES_MAX).contains(&self.ranges_of(size))
    }

    /// Returns the shortest length, from this one on, with which a file of `size` bytes has at most `most` ranges.
    pub fn lengthened_for(self, size: u64, most: u64) -> Self {
        let lens = std::iter::successors(Some(self.0), |len| len.checked_mul(2));
        lens.map(Self).find(|len| len.ranges_of(size) <= most).unwrap_or(self)
    }

    /// Returns the range with this number, counted from 0; `None` where its offset overflows.
    pub fn range(self, number: u64) -> Option<FileRange> {
        Some(FileRange { offset: number.checked_mul(self.0)?, len: self })
    }
}

/// A range of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileRange {
    offset: u64,
    len: RangeLen,
}

impl FileRange {
    /// Checks that `offset` is a multiple of `len`.
    pub fn new(offset: u64, len: RangeLen) -> Result<Self, ProtocolError> {
        if offset.is_multiple_of(len.0) {
            Ok(Self { offset, len })
        } else {
            Err(ProtocolError::Invalid("the offset of a range"))
        }
    }

    /// Returns the offset of the first byte.
    pub fn offset(self) -> u64 {
        self.offset
    }

    /// Returns the length of all ranges but the last.
    pub fn len(self) -> RangeLen {
        self.len
    }

    /// Returns its number, counted from 0.
    pub fn number(self) -> u64 {
        self.offset / self.len.0
    }

    /// Whether a file of `size` bytes has this range, and others.
    pub fn is_in(self, size: u64) -> bool {
        self.len.divides(size) && self.offset < size
    }

    /// Returns the number of its bytes in a file of `size` bytes.
    pub fn bytes_in(self, size: u64) -> u64 {
        size.saturating_sub(self.offset).min(self.len.0)
    }

    /// Returns its frames in a file of `size` bytes.
    pub fn frames(self, frame: FrameLen, size: u64) -> Range<u64> {
        let first = self.offset / u64::from(frame.get());
        first..first + frame.frames(self.bytes_in(size))
    }
}

impl Wire for RangeLen {
    fn encode(&self, out: &mut Writer) {
        out.u64(self.0);
    }

    fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        Self::new(reader.u64()?)
    }
}

impl Wire for FileRange {
    fn encode(&self, out: &mut Writer) {
        out.u64(self.offset);
        self.len.encode(out);
    }

    fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        let offset = reader.u64()?;
        Self::new(offset, RangeLen::decode(reader)?)
    }
}

/// Returns the frames of a file of `size` bytes that a copy copies: those of its range, or all.
pub(crate) fn frames_of(range: Option<FileRange>, frame: FrameLen, size: u64) -> Range<u64> {
    range.map_or(0..frame.frames(size), |range| range.frames(frame, size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::integrity::FrameTree;
    use crate::limits::FRAME_MIN;

    #[test]
    fn only_aligned_powers_of_two_are_ranges() {
        let len = RangeLen::new(4 << 20).unwrap();
        assert_eq!(FileRange::new(8 << 20, len).map(FileRange::number), Ok(2));
        assert!(FileRange::new((8 << 20) + 1, len).is_err());
        assert!([0, 3 << 20, 512 << 10].map(RangeLen::new).iter().all(Result::is_err));
        assert_eq!(len.ranges_of((8 << 20) + 1), 3);
        assert!(len.divides(RANGES_MAX * len.get()) && !len.divides(RANGES_MAX * len.get() + 1));
        let last = len.range(2).unwrap();
        assert!(last.is_in((8 << 20) + 1) && !last.is_in(8 << 20));
        assert!(!len.range(0).unwrap().is_in(4 << 20), "a file of one range has no ranges");
        assert_eq!(last.bytes_in((8 << 20) + 1), 1);
        assert_eq!(last.frames(FrameLen::new(1 << 20).unwrap(), (8 << 20) + 1), 8..9);
        assert_eq!(RangeLen::new(1 << 63).unwrap().range(2), None);
    }

    #[test]
    fn a_length_grows_until_the_ranges_are_few_enough() {
        let len = RangeLen::MIN;
        let most = RANGES_MAX * len.get();
        let lengthened = |size| len.lengthened_for(size, RANGES_MAX).get() / len.get();
        assert_eq!([0, most, most + 1, 2 * most, 2 * most + 1].map(lengthened), [1, 1, 2, 2, 4]);
        assert!(len.lengthened_for(u64::MAX, RANGES_MAX).divides(u64::MAX));
        let longest = RangeLen::new(1 << 63).unwrap();
        assert_eq!(longest.lengthened_for(u64::MAX, RANGES_MAX), longest);
    }

    /// Ranges are merged like frames: the result is what b3sum prints.
    #[test]
    fn values_of_ranges_merge_to_the_digest_of_the_file() {
        let len = RangeLen::MIN;
        let size = 5 * len.get() + 12_345;
        let data: Vec<u8> = (0..size).map(|i| (i.wrapping_mul(2_654_435_761) >> 7).to_le_bytes()[0]).collect();
        for size in [size, 5 * len.get(), 4 * len.get(), len.get() + 1, 2 * len.get()] {
            let data = &data[..usize::try_from(size).unwrap()];
            let mut file = FrameTree::new(len.ranges_of(size));
            for number in (0..len.ranges_of(size)).rev() {
                let range = len.range(number).unwrap();
                // Nodes of one file may use different frame lengths.
                let frame = FrameLen::new(FRAME_MIN << (number % 3)).unwrap();
                let mut tree = FrameTree::new(frame.frames(size)).within(range.frames(frame, size));
                assert_eq!(tree.missing().collect::<Vec<_>>(), [range.frames(frame, size)]);
                for index in range.frames(frame, size) {
                    assert_eq!(tree.digest(), None);
                    let start = usize::try_from(index).unwrap() * frame.bytes();
                    let payload = &data[start..data.len().min(start + frame.bytes())];
                    assert!(tree.insert(index, frame.hash(size, index, payload)));
                }
                assert!(tree.is_full() && !tree.insert(range.frames(frame, size).end, [0; 32]));
                assert!(number == 0 || !tree.insert(0, [0; 32]), "a frame of another range");
                file.insert(number, tree.digest().unwrap());
            }
            assert_eq!(file.digest(), Some(*blake3::hash(data).as_bytes()), "{size}");
        }
    }
}
