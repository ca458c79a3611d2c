//! Limits of a run: deletions that nobody may have meant.

use super::ReplicaSide;
use super::plan::{ActionKind, TwowayAction};

/// Most deletions at a side that need no confirmation, whatever its size.
const DELETIONS_MAX: u64 = 1000;
/// Fewer deletions never need one.
const DELETIONS_FREE: u64 = 10;

/// Why a plan needs a confirmation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DeletionDoubt {
    /// A root that had entries has none: a disk may not be mounted.
    #[error("root {side:?} is empty, and had {entries} entries at the last run")]
    RootEmptied {
        /// The empty side.
        side: ReplicaSide,
        /// Its entries in the base.
        entries: u64,
    },
    /// The plan removes much.
    #[error("the plan removes {deletions} entries at side {side:?}; more than {limit} need a confirmation")]
    ManyDeletions {
        /// The side that would lose entries.
        side: ReplicaSide,
        /// Number of deletions.
        deletions: u64,
        /// Most deletions without a confirmation.
        limit: u64,
    },
}

/// Returns the most deletions at a side with this number of entries that need no confirmation: half of them or 1,000,
/// whichever is less, but at least 10.
pub fn deletion_limit(entries: u64) -> u64 {
    (entries / 2).clamp(DELETIONS_FREE, DELETIONS_MAX)
}

/// Refuses an emptied root. `base` is the number of entries in the base, `found` in the scan.
pub fn check_root(side: ReplicaSide, base: u64, found: u64) -> Result<(), DeletionDoubt> {
    if base > 0 && found == 0 { Err(DeletionDoubt::RootEmptied { side, entries: base }) } else { Ok(()) }
}

/// Counts the deletions of a plan against the limit: `allowed`, or [`deletion_limit`] of what each side has. A move is
/// no deletion.
pub fn check_deletions(actions: &[TwowayAction], entries: [u64; 2], allowed: Option<u64>) -> Result<(), DeletionDoubt> {
    for side in ReplicaSide::BOTH {
        let is_deletion = |action: &&TwowayAction| action.side == side && action.kind == ActionKind::Delete;
        let deletions = actions.iter().filter(is_deletion).count() as u64;
        let limit = allowed.unwrap_or_else(|| deletion_limit(entries[side.index()]));
        if deletions > limit {
            return Err(DeletionDoubt::ManyDeletions { side, deletions, limit });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::attributes::ActionAttributes;
    use super::super::samples::path;
    use super::*;

    #[test]
    fn half_of_a_side_or_a_thousand_but_at_least_ten() {
        assert_eq!([0, 12, 30, 2000, 1 << 40].map(deletion_limit), [10, 10, 15, 1000, 1000]);
    }

    #[test]
    fn more_deletions_than_the_limit_need_a_confirmation_at_the_side_that_loses() {
        let delete = |number: u64| TwowayAction {
            path: path(&number.to_string()),
            side: ReplicaSide::B,
            kind: ActionKind::Delete,
            entry: None,
            expected: None,
            keep_as: None,
            attributes: ActionAttributes::Kept,
        };
        let actions: Vec<_> = (0..16).map(delete).collect();
        assert_eq!(check_deletions(&actions[..15], [0, 30], None), Ok(()));
        let doubt = DeletionDoubt::ManyDeletions { side: ReplicaSide::B, deletions: 16, limit: 15 };
        assert_eq!(check_deletions(&actions, [100, 30], None), Err(doubt));
        assert_eq!(check_deletions(&actions, [100, 30], Some(16)), Ok(()));
    }

    #[test]
    fn an_emptied_root_is_refused() {
        assert!(check_root(ReplicaSide::A, 1, 0).is_err());
        assert!(check_root(ReplicaSide::A, 0, 0).is_ok() && check_root(ReplicaSide::A, 9, 1).is_ok());
    }
}
