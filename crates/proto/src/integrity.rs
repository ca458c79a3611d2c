//! Integrity checks: one over each frame's plain bytes and, with BLAKE3, subtree values. These merge in any order of
//! frames into the file's ordinary BLAKE3.
//!
//! The length of a full frame is a power of two, and the frame is aligned to it. So each full frame is a whole subtree
//! of the file's BLAKE3 tree (BLAKE3 paper, section 2.1; the crate's `hazmat` module). Only the last frame is shorter.
//! The only frame of a file is its own root.

use std::collections::BTreeMap;
use std::ops::Range;

use blake3::hazmat::{ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};
use twox_hash::XxHash3_64;

use crate::error::ProtocolError;
use crate::limits::{FLOW_AHEAD, FRAME_MAX, FRAME_MIN, PACK_FILE_PART};
use crate::ranges::RangeSet;

/// Most runs of frames with values kept by [`FrameTree::keeping`]: about half a MiB of memory per file.
const VALUES_KEPT_MAX: u64 = 4096;
/// Marker of an unknown number of frames.
const OPEN: u64 = u64::MAX;

/// BLAKE3 of a whole file.
pub type Digest = [u8; 32];

/// Marker of a digest that is not needed.
pub const NO_VALUE: Digest = [0; 32];

/// Returns the check of a frame's plain bytes: XXH3 with 64 bits and seed 0 (the xxHash specification, version 0.2.0).
///
/// It detects errors of memory, software and disks. It gives no protection against an adversary: see SECURITY.md.
pub fn frame_check(payload: &[u8]) -> u64 {
    XxHash3_64::oneshot(payload)
}

/// Payload of a full frame in bytes: a power of two from 256 KiB to 1 MiB, the same for a whole session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameLen(u32);

impl FrameLen {
    /// The default.
    pub const DEFAULT: FrameLen = FrameLen(512 << 10);

    /// Checks that `bytes` is a power of two in range.
    pub fn new(bytes: u32) -> Result<Self, ProtocolError> {
        if bytes.is_power_of_two() && (FRAME_MIN..=FRAME_MAX).contains(&bytes) {
            Ok(Self(bytes))
        } else {
            Err(ProtocolError::OverLimit("the payload of a frame"))
        }
    }

    /// Returns the length in bytes.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Returns the length in bytes, as a length in memory.
    pub fn bytes(self) -> usize {
        self.0 as usize
    }

    /// Returns the size of the largest file sent in a pack.
    pub fn pack_file_max(self) -> u64 {
        u64::from(self.0 / PACK_FILE_PART)
    }

    /// Returns the number of frames of a file of `size` bytes.
    pub fn frames(self, size: u64) -> u64 {
        size.div_ceil(u64::from(self.0))
    }

    /// Returns the length of frame `index` of a file of `size` bytes; `None` where there is no such frame.
    pub fn frame_len(self, size: u64, index: u64) -> Option<usize> {
        let start = index.checked_mul(u64::from(self.0))?;
        let rest = size.checked_sub(start)?;
        (rest > 0).then(|| usize::try_from(rest).unwrap_or(usize::MAX).min(self.bytes()))
    }

    /// Returns the index of the frame at `offset`, if one begins there and has exactly `len` bytes in a file of `size`
    /// bytes.
    ///
    /// This check keeps misaligned ranges away from blake3, which would panic on them.
    pub fn index_of(self, size: u64, offset: u64, len: usize) -> Result<u64, ProtocolError> {
        let index = offset / u64::from(self.0);
        let aligned = offset.is_multiple_of(u64::from(self.0));
        if aligned && self.frame_len(size, index) == Some(len) { Ok(index) } else { Err(ProtocolError::Misplaced) }
    }

    /// Returns the number of frames that a flow may be ahead of the target's writes.
    pub fn frames_ahead(self) -> u64 {
        FLOW_AHEAD / u64::from(self.0)
    }

    /// Returns the BLAKE3 value of frame `index` of a file of `size` bytes; for an only frame, of the root.
    ///
    /// # Panics
    /// If `payload` does not have the length of that frame: a programmer's error, see [`Self::index_of`].
    pub fn hash(self, size: u64, index: u64, payload: &[u8]) -> ChainingValue {
        assert_eq!(self.frame_len(size, index), Some(payload.len()), "frame {index} of {size} bytes");
        self.hash_in(index, payload, self.frames(size) == 1)
    }

    /// Returns the BLAKE3 value of frame `index` of a file of unknown size. `is_only` marks the only frame of a file.
    ///
    /// # Panics
    /// If `payload` is empty or longer than a frame: a programmer's error.
    pub fn hash_in(self, index: u64, payload: &[u8], is_only: bool) -> ChainingValue {
        assert!(payload.len() <= self.bytes() && !payload.is_empty(), "frame {index} of {} bytes", payload.len());
        if is_only {
            return *blake3::hash(payload).as_bytes();
        }
        blake3::Hasher::new().set_input_offset(index * u64::from(self.0)).update(payload).finalize_non_root()
    }
}

/// Merges the values of a file's frames, in any order, into the file's BLAKE3.
///
/// It holds at most one value for each gap and each level of the tree: some dozens for frames roughly in order.
#[derive(Debug, Clone)]
pub struct FrameTree {
    /// Number of frames; [`OPEN`] while it is unknown.
    frames: u64,
    /// The frames whose values are merged: all, or those of a range of the file.
    range: Range<u64>,
    /// Highest level of a merged value: one of 2^`level_max` frames.
    level_max: u32,
    seen: RangeSet,
    /// Values by (level, index at that level), each of 2^level frames.
    nodes: BTreeMap<(u32, u64), ChainingValue>,
}

impl FrameTree {
    /// Creates the tree of a file of `frames` frames.
    pub fn new(frames: u64) -> Self {
        Self { frames, range: 0..frames, level_max: u32::MAX, seen: RangeSet::new(), nodes: BTreeMap::new() }
    }

    /// Creates a tree for a later comparison with another one. Of a full tree, it keeps one value for each run of
    /// frames, with at most 4096 runs.
    pub fn keeping(frames: u64) -> Self {
        Self::new(frames).keeping_values()
    }

    /// As [`Self::keeping`], for an empty tree.
    pub fn keeping_values(self) -> Self {
        let run = (self.range.end - self.range.start).div_ceil(VALUES_KEPT_MAX).next_power_of_two();
        Self { level_max: run.trailing_zeros(), ..self }
    }

    /// Restricts an empty tree to a range of the file: see [`crate::file_range::FileRange`]. Its digest is the value of
    /// that subtree.
    pub fn within(self, range: Range<u64>) -> Self {
        Self { range, ..self }
    }

    /// Creates a tree for a file of unknown length; [`Self::close`] sets its number of frames.
    pub fn open() -> Self {
        Self::new(OPEN)
    }

    /// Sets the number of frames of an open tree; `false` where it holds more already.
    pub fn close(&mut self, frames: u64) -> bool {
        let is_true = self.frames == OPEN && self.seen.end() <= frames;
        if is_true {
            self.frames = frames;
            self.range = 0..frames;
            // The first frame's value could have been the root until now, so it was not merged.
            if let Some(value) = self.nodes.remove(&(0, 0)) {
                self.push_subtree(0, value);
            }
        }
        is_true
    }

    /// Returns the frames with values.
    pub fn seen(&self) -> &RangeSet {
        &self.seen
    }

    /// Adds the value of frame `index`; `false` if it is there already or there is no such frame.
    pub fn insert(&mut self, index: u64, value: ChainingValue) -> bool {
        if !self.range.contains(&index) || !self.seen.insert(index) {
            return false;
        }
        self.push_subtree(index, value);
        true
    }

    /// Stores a frame's value, merged with its siblings where possible.
    fn push_subtree(&mut self, mut index: u64, mut value: ChainingValue) {
        let mut level = 0;
        while self.may_merge(level, index) {
            let Some(sibling) = self.nodes.remove(&(level, index ^ 1)) else { break };
            value = if index & 1 == 0 { merge(&value, &sibling) } else { merge(&sibling, &value) };
            level += 1;
            index /= 2;
        }
        self.nodes.insert((level, index), value);
    }

    /// Whether frame `index` was added.
    pub fn contains(&self, index: u64) -> bool {
        self.seen.contains(index)
    }

    /// Whether every frame was added.
    pub fn is_full(&self) -> bool {
        self.seen.len() == self.range.end - self.range.start
    }

    /// Returns the frames whose values are merged: all, or those of a range of the file.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Returns the runs of frames that were not added.
    pub fn missing(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.seen.gaps_within(self.range())
    }

    /// Returns the runs of frames with another value in `found`, or none there.
    pub fn differing(&self, found: &Self) -> Vec<Range<u64>> {
        let nodes = self.nodes.iter().filter(|(place, value)| found.nodes.get(place) != Some(value));
        let mut runs: Vec<_> = nodes.map(|((level, index), _)| self.frames_of(*level, *index)).collect();
        runs.sort_unstable_by_key(|run| run.start);
        runs
    }

    /// Removes frames, and all others with values merged with theirs.
    pub fn forget(&mut self, frames: &Range<u64>) {
        let touches = |run: &Range<u64>| run.start < frames.end && frames.start < run.end;
        let places = self.nodes.keys().copied();
        let forgotten = places.map(|(level, index)| ((level, index), self.frames_of(level, index)));
        let forgotten: Vec<_> = forgotten.filter(|(_, run)| touches(run)).collect();
        for (place, run) in forgotten {
            self.nodes.remove(&place);
            self.seen.take_within(&run);
        }
    }

    /// Returns the number of frames of the file.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    fn frames_of(&self, level: u32, index: u64) -> Range<u64> {
        index << level..((index + 1) << level).min(self.frames)
    }

    /// Returns the BLAKE3 of the file, or the value of its range; `None` until every frame was added.
    pub fn digest(&self) -> Option<Digest> {
        match self.frames {
            _ if self.range != (0..self.frames) => {
                self.is_full().then(|| self.fold(self.range.start, self.range.end - self.range.start))?
            }
            0 => Some(*blake3::hash(b"").as_bytes()),
            _ if !self.is_full() => None,
            1 => self.nodes.get(&(0, 0)).copied(),
            n => {
                let left = n.next_power_of_two() / 2;
                let (a, b) = (self.fold(0, left)?, self.fold(left, n - left)?);
                Some(*merge_subtrees_root(&a, &b, Mode::Hash).as_bytes())
            }
        }
    }

    /// Whether the parent of this node is within the kept levels, lies wholly within the file and is not its root.
    fn may_merge(&self, level: u32, index: u64) -> bool {
        if level >= self.level_max {
            return false;
        }
        let width = 2u64 << level;
        let Some(start) = (index / 2).checked_mul(width) else { return false };
        // In an open tree, a node at the start of the file may prove to be its root.
        let may_be_root = self.frames == OPEN && start == 0;
        start.checked_add(width).is_some_and(|end| end <= self.frames) && width < self.frames && !may_be_root
    }

    /// Returns the value of `count` frames from `start`: a subtree of BLAKE3's left-balanced tree, without its root.
    fn fold(&self, start: u64, count: u64) -> Option<ChainingValue> {
        if count.is_power_of_two()
            && let Some(value) = self.nodes.get(&(count.trailing_zeros(), start / count))
        {
            return Some(*value);
        }
        let left = if count > 1 { count.next_power_of_two() / 2 } else { return None };
        Some(merge(&self.fold(start, left)?, &self.fold(start + left, count - left)?))
    }
}

fn merge(left: &ChainingValue, right: &ChainingValue) -> ChainingValue {
    merge_subtrees_non_root(left, right, Mode::Hash)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(n: usize) -> Vec<u8> {
        (0..n).map(|i| (i.wrapping_mul(2_654_435_761) >> 7).to_le_bytes()[0]).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn frames_in_any_order_give_b3sums_digest(
            frames in 0usize..21, tail in 1usize..(256 << 10), order in any::<proptest::sample::Index>(), seed: u64,
        ) {
            let len = FrameLen::new(FRAME_MIN).unwrap();
            let size = if frames == 0 { 0 } else { (frames - 1) * len.bytes() + tail };
            let data = bytes(size);
            let mut tree = FrameTree::new(len.frames(size as u64));
            let mut indices: Vec<usize> = (0..frames).collect();
            let mut state = seed | 1;
            for i in (1..indices.len()).rev() {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(order.index(1000) as u64);
                indices.swap(i, (state >> 33) as usize % (i + 1));
            }
            for &i in &indices {
                prop_assert_eq!(tree.digest(), None);
                let part = &data[i * len.bytes()..size.min((i + 1) * len.bytes())];
                let value = len.hash(size as u64, i as u64, part);
                prop_assert!(tree.insert(i as u64, value));
                prop_assert!(!tree.insert(i as u64, [0; 32]));
            }
            prop_assert_eq!(tree.digest(), Some(*blake3::hash(&data).as_bytes()));
        }
    }

    #[test]
    fn a_tree_of_unknown_size_gives_the_same_digest_as_one_of_known_size() {
        let len = FrameLen::new(FRAME_MIN).unwrap();
        for frames in [0u64, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17] {
            let (mut open, mut known) = (FrameTree::open(), FrameTree::new(frames));
            let data = bytes(3000);
            for index in (0..frames).rev() {
                let value = len.hash_in(index, &data, frames == 1);
                assert!(open.insert(index, value) && known.insert(index, value));
                assert_eq!(open.digest(), None);
            }
            assert!(frames == 0 || !open.close(frames - 1), "it has more");
            assert!(open.close(frames) && !open.close(frames), "once");
            assert_eq!((open.digest(), &open.nodes), (known.digest(), &known.nodes), "{frames}");
            assert!(open.digest().is_some() && !open.insert(frames, [0; 32]));
        }
    }

    #[test]
    fn in_order_few_values_are_kept() {
        let mut tree = FrameTree::new(1 << 20);
        for i in 0..1 << 16 {
            tree.insert(i, [1; 32]);
            assert!(tree.nodes.len() <= 20);
        }
    }

    /// Builds a tree of `frames` frames; those in `other` have another value.
    fn kept(frames: u64, other: &[u64]) -> FrameTree {
        let mut tree = FrameTree::keeping(frames);
        for index in 0..frames {
            assert!(tree.insert(index, [if other.contains(&index) { 2 } else { 1 }; 32]));
        }
        tree
    }

    #[test]
    fn differing_runs_are_found_and_can_be_resent() {
        for (frames, run) in [(1, 1), (2, 1), (5, 1), (VALUES_KEPT_MAX, 1), (VALUES_KEPT_MAX + 1, 2), (33_333, 16)] {
            let last = frames - 1;
            let (mut tree, whole) = (kept(frames, &[]), FrameTree::new(frames));
            assert!(tree.nodes.len() as u64 <= VALUES_KEPT_MAX + 16 && tree.digest().is_some(), "{frames}");
            assert_eq!(tree.differing(&kept(frames, &[])), [], "{frames}");
            assert_eq!(tree.differing(&whole).iter().map(|run| run.end - run.start).sum::<u64>(), frames);
            let differing = tree.differing(&kept(frames, &[0, last]));
            assert_eq!((differing[0].start, differing.last().unwrap().end), (0, frames));
            assert!(differing.iter().all(|found| found.end - found.start <= run), "{frames}: {differing:?}");
            let digest = tree.digest();
            differing.iter().for_each(|run| tree.forget(run));
            assert!(!tree.contains(0) && !tree.contains(last) && tree.digest().is_none());
            for index in differing.into_iter().flatten() {
                assert!(tree.insert(index, [1; 32]));
            }
            assert_eq!(tree.digest(), digest);
            assert_eq!(tree.differing(&kept(frames, &[])), [], "{frames}");
        }
    }

    #[test]
    fn only_complete_frames_are_frames() {
        let len = FrameLen::new(FRAME_MIN).unwrap();
        let f = u64::from(FRAME_MIN);
        assert_eq!(len.index_of(3 * f + 5, f, len.bytes()), Ok(1));
        assert_eq!(len.index_of(3 * f + 5, 3 * f, 5), Ok(3));
        for (offset, bytes) in
            [(1, len.bytes()), (f, len.bytes() - 1), (3 * f, 6), (4 * f, 1), (f, 0), (u64::MAX - 3, 1)]
        {
            assert_eq!(len.index_of(3 * f + 5, offset, bytes), Err(ProtocolError::Misplaced), "{offset} {bytes}");
        }
        assert!(FrameLen::new(FRAME_MIN + 1).is_err());
        assert!(FrameLen::new(FRAME_MAX * 2).is_err());
    }

    #[test]
    fn the_check_of_no_bytes_matches_the_specification() {
        assert_eq!(frame_check(b""), 0x2d06_8005_38d3_94c2);
    }
}
