//! Partial files of earlier runs.

use std::ops::Range;
use std::sync::Arc;

use haul_proto::limits::FRAME_RUNS_MAX;
use haul_proto::ranges::RangeSet;

use crate::io::storage::file::OpenedFile;
use crate::receiver::place::journal::OpenJournal;

/// A partial file, and how to continue it.
pub struct PartialFile {
    /// The partial file, locked.
    pub file: Arc<OpenedFile>,
    /// Its journal.
    pub journal: OpenJournal,
    /// Whether the source compares verified frames.
    pub compare: bool,
}

/// Gaps between recorded frames. Beyond the limit of a request, the last one extends to the end.
pub(crate) fn gaps(recorded: &RangeSet, frames: Range<u64>) -> Vec<Range<u64>> {
    let end = frames.end;
    let mut gaps: Vec<_> = recorded.gaps_within(frames).take(FRAME_RUNS_MAX).collect();
    if gaps.len() == FRAME_RUNS_MAX {
        gaps.iter_mut().last().into_iter().for_each(|last| last.end = end);
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unrecorded_frames_are_missing() {
        let mut recorded = RangeSet::new();
        [2, 3, 7].iter().for_each(|index| assert!(recorded.insert(*index)));
        assert_eq!(gaps(&recorded, 0..10), [0..2, 4..7, 8..10]);
        assert_eq!(gaps(&recorded, 3..8), [4..7]);
        assert_eq!(gaps(&RangeSet::new(), 0..3), [0..3]);
        assert_eq!(gaps(&RangeSet::new(), 0..0), []);
        let mut every_second = RangeSet::new();
        (0..10_000).filter(|index| index % 2 == 1).for_each(|index| assert!(every_second.insert(index)));
        let gaps = gaps(&every_second, 0..10_000);
        assert_eq!((gaps.len(), gaps.last()), (FRAME_RUNS_MAX, Some(&(2 * (FRAME_RUNS_MAX as u64 - 1)..10_000))));
    }
}
