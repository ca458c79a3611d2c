//! Base files that a source has lost: a delta of one of them gave another value than the source said. Whether a value is
//! right tells a source that guesses something of the base file, so it learns that once: no frame is built from a lost
//! base file any more, whichever entry it belongs to, and the next wrong value in the job ends it.

use std::collections::BTreeSet;

use super::TargetSession;
use crate::delta::base::BaseId;
use crate::error::ProtocolError;
use crate::ids::EntryId;
use crate::limits::{LOST_BASES_MAX, WRONG_DELTAS_MAX};

/// What came of building a frame from its base file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rebuilt {
    /// It has the value that the source said.
    Right,
    /// It has another one.
    Wrong,
    /// The base file cannot be read, or somebody has changed it since the source was told of it.
    BaseChanged,
}

/// Lost base files.
#[derive(Debug, Default)]
pub(super) struct LostBases {
    lost: BTreeSet<BaseId>,
    /// Wrong values, those of earlier attempts included.
    wrong: u32,
}

impl LostBases {
    fn contains(&self, base: BaseId) -> bool {
        self.lost.len() >= LOST_BASES_MAX || self.lost.contains(&base)
    }
}

impl<H> TargetSession<H> {
    /// Counts the wrong values of earlier attempts at this job.
    pub fn begin_with_wrong_deltas(&mut self, before: u32) {
        self.lost_bases.wrong = before;
    }

    /// How many values were wrong in this job.
    pub fn wrong_deltas(&self) -> u32 {
        self.lost_bases.wrong
    }

    /// Whether frames may be built from this base file.
    pub fn may_use_base(&self, base: BaseId) -> bool {
        !self.lost_bases.contains(base)
    }

    /// A frame that [`Self::admit_delta`] admitted is built: whether it is to be written. If not, the source is asked for
    /// the frame itself, also where it is right and the base file was lost meanwhile.
    pub fn conclude_delta(
        &mut self,
        entry: EntryId,
        offset: u64,
        base: BaseId,
        rebuilt: Rebuilt,
    ) -> Result<bool, ProtocolError> {
        if rebuilt == Rebuilt::Right && self.may_use_base(base) {
            return Ok(true);
        }
        if self.may_use_base(base) {
            self.lost_bases.lost.insert(base);
            self.lost_bases.wrong += u32::from(rebuilt == Rebuilt::Wrong);
            if self.lost_bases.wrong > WRONG_DELTAS_MAX {
                return Err(ProtocolError::OverLimit("deltas with a wrong value"));
            }
        }
        self.resend_frame(entry, offset);
        Ok(false)
    }
}
