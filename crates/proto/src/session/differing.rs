//! Frames of a file that differ between both ends.

use std::ops::Range;

use crate::ranges::RangeSet;

/// Most runs of differing frames kept for one file; the others are only counted.
const DIFFERING_RUNS_MAX: usize = 4096;

/// Differing frames of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Differing {
    frames: RangeSet,
    /// Number of further differing frames.
    others: u64,
}

impl Differing {
    pub(super) fn add(&mut self, frames: Range<u64>) {
        for index in frames {
            let goes_on = index.checked_sub(1).is_some_and(|before| self.frames.contains(before));
            if goes_on || self.frames.runs() < DIFFERING_RUNS_MAX {
                self.frames.insert(index);
            } else {
                self.others += 1;
            }
        }
    }

    /// Returns the number of differing frames.
    pub fn len(&self) -> u64 {
        self.frames.len() + self.others
    }

    /// Whether no frame differs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the differing frames in ascending order; of very many scattered runs, not all.
    pub fn frames(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.frames.iter()
    }
}
