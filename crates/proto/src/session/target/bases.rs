//! Base files lost to deltas: a delta of one of them gave another value than the source sent.
//!
//! Whether a value is right tells a guessing source something of the base file. It learns that only once: no frame is
//! built from a lost base file any more, for any entry. The next wrong value in the copy ends the copy.

use std::collections::BTreeSet;

use super::TargetSession;
use crate::delta::base::BaseId;
use crate::error::ProtocolError;
use crate::ids::EntryId;
use crate::limits::{LOST_BASES_MAX, WRONG_DELTAS_MAX};

/// Result of building a frame from its base file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rebuilt {
    /// The frame has the value that the source sent.
    Right,
    /// The frame has another value.
    Wrong,
    /// The base file cannot be read, or has changed since it was advertised.
    BaseChanged,
}

/// Lost base files.
#[derive(Debug, Default)]
pub(super) struct LostBases {
    lost: BTreeSet<BaseId>,
    /// Number of wrong values, including those of earlier attempts.
    wrong: u32,
}

impl LostBases {
    fn contains(&self, base: BaseId) -> bool {
        self.lost.len() >= LOST_BASES_MAX || self.lost.contains(&base)
    }
}

impl<H> TargetSession<H> {
    /// Sets the number of wrong values in earlier attempts at this copy.
    pub fn begin_with_wrong_deltas(&mut self, before: u32) {
        self.lost_bases.wrong = before;
    }

    /// Returns the number of wrong values in this copy.
    pub fn wrong_deltas(&self) -> u32 {
        self.lost_bases.wrong
    }

    /// Whether frames may be built from this base file.
    pub fn may_use_base(&self, base: BaseId) -> bool {
        !self.lost_bases.contains(base)
    }

    /// Concludes a frame admitted by [`Self::admit_delta`]; whether to write it. Otherwise the frame itself is
    /// requested from the source. This includes a right frame of a base file lost meanwhile.
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
