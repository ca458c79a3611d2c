//! Several sources whose contents go into one directory (`b/ c/ target`): for equal names the first source counts, and
//! the others are skipped with a report. Directories are merged, with the first one's metadata.
//!
//! It keeps a hash of each path, with a secret key.

use crate::receiver::tree::TargetTree;
use haul_proto::entry::EntryMetadata;
use haul_proto::wire::list_batch::ListedKinds;
use haul_proto::wire::request::TargetOperand;
use std::collections::HashMap;
use std::collections::hash_map;
use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use crate::sys::sync::lock;

/// Most paths that are remembered: what a source offers is not to fill the memory.
const PATHS_MAX: usize = 1 << 22;
/// Reported for a skipped entry.
pub(crate) const TAKEN: &str = "an earlier source has this name";
/// Said once, where more would be remembered than may be.
pub(crate) const TOO_MANY: &str =
    "too many entries in these sources to remember: of equal names, the last one may win\ncopy the sources separately";

/// What the sources have offered so far, where that can be the same paths.
pub struct MergedSources {
    /// Whether it can.
    is_wanted: bool,
    hasher: RandomState,
    /// By its path; of a directory, its metadata.
    paths: Mutex<HashMap<u64, Option<EntryMetadata>>>,
    pub(crate) told: AtomicBool,
}

/// What becomes of an entry.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum MergeDecision {
    /// It is the first one.
    First,
    /// It is a directory, and so was the first one: the same, with these metadata.
    Same(EntryMetadata),
    /// An earlier source has its name.
    Taken,
    /// It is not known.
    TooMany,
}

impl MergedSources {
    /// For these operands, in a job whose list is of this kind.
    pub fn new(operands: &[TargetOperand], listed: ListedKinds) -> Self {
        let may_meet = operands.len() > 1 && operands.iter().any(|operand| operand.name.is_none());
        let is_wanted = may_meet && listed == ListedKinds::No;
        Self { is_wanted, hasher: RandomState::new(), paths: Mutex::default(), told: AtomicBool::new(false) }
    }

    pub(crate) fn turn(&self, path: &[u8], is_directory: bool, meta: &EntryMetadata) -> MergeDecision {
        let mut paths = lock(&self.paths);
        let is_full = paths.len() >= PATHS_MAX;
        match paths.entry(self.hasher.hash_one(path)) {
            hash_map::Entry::Occupied(first) => match first.get() {
                Some(meta) if is_directory => MergeDecision::Same(*meta),
                _ => MergeDecision::Taken,
            },
            hash_map::Entry::Vacant(_) if is_full => MergeDecision::TooMany,
            hash_map::Entry::Vacant(place) => {
                place.insert(is_directory.then_some(*meta));
                MergeDecision::First
            }
        }
    }
}

impl TargetTree {
    /// Whether several sources go into one directory.
    pub(crate) fn merges(&self) -> bool {
        self.merged_sources.is_wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_proto::path::Name;
    use haul_proto::wire::request::TargetOperand;

    fn operand(name: Option<&str>) -> TargetOperand {
        let name = name.and_then(|name| Name::new(name.as_bytes()).ok());
        TargetOperand { name, directory: true, device: 0, inode: 0 }
    }

    #[test]
    fn the_first_of_a_name_counts_and_directories_become_one() {
        let merged = MergedSources::new(&[operand(None), operand(None)], ListedKinds::No);
        let meta = |mode| EntryMetadata { mode, ..EntryMetadata::default() };
        let turns = [
            (&b"d"[..], true, 1),
            (b"d/x", false, 2),
            (b"d", true, 3),
            (b"d/x", false, 4),
            (b"d/x", true, 5),
            (b"d", false, 6),
            (b"x", false, 7),
        ];
        let turns = turns.map(|(path, is_directory, mode)| merged.turn(path, is_directory, &meta(mode)));
        let (first, taken) = (|| MergeDecision::First, || MergeDecision::Taken);
        assert_eq!(turns, [first(), first(), MergeDecision::Same(meta(1)), taken(), taken(), taken(), first()]);
    }

    #[test]
    fn nothing_is_remembered_where_nothing_can_meet() {
        let is_wanted = |operands: &[TargetOperand], listed| MergedSources::new(operands, listed).is_wanted;
        let (own, contents) = (operand(Some("a")), operand(None));
        assert!(!is_wanted(std::slice::from_ref(&contents), ListedKinds::No));
        assert!(!is_wanted(&[own.clone(), own.clone()], ListedKinds::No));
        assert!(is_wanted(&[own.clone(), contents.clone()], ListedKinds::No));
        assert!(!is_wanted(&[own, contents], ListedKinds::Trees));
    }
}
