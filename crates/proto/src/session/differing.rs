//! Frames of a file that differ between both ends.

use std::ops::Range;

use crate::ranges::RangeSet;

/// Most runs of frames that are kept of those that differ in one file; of others it is known how many there are.
const DIFFERING_RUNS_MAX: usize = 4096;

/// Frames of a file that are not the same at both ends.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Differing {
    frames: RangeSet,
    /// How many there are besides.
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

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.frames.len() + self.others
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Which they are, ascending; of very many that are scattered, not all.
    pub fn frames(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.frames.iter()
    }
}
