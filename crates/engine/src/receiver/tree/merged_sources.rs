//! Several sources whose contents are merged into one directory (`b/ c/ target`). For equal names the first source has
//! precedence, and the others are skipped with a report. Directories are merged, with the first one's metadata.
//!
//! Stores a keyed hash of each path.

use std::collections::{HashMap, hash_map};
use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use haul_base::sys::sync::lock;
use haul_proto::entry::EntryMetadata;
use haul_proto::wire::list_batch::ListedKinds;
use haul_proto::wire::request::TargetOperand;

use crate::receiver::tree::TargetTree;

/// Most remembered paths, as a limit on a source's use of memory.
const PATHS_MAX: usize = 1 << 22;
/// Reported for a skipped entry.
pub(crate) const TAKEN: &str = "an earlier source has this name";
/// Warning at the limit of remembered paths, sent once.
pub(crate) const TOO_MANY: &str =
    "too many entries in these sources to remember: of equal names, the last one may win\ncopy the sources separately";

/// Paths offered so far, if sources may share paths.
pub struct MergedSources {
    /// Whether sources may share paths.
    is_wanted: bool,
    hasher: RandomState,
    /// Metadata of directories, `None` for other entries, by path hash.
    paths: Mutex<HashMap<u64, Option<EntryMetadata>>>,
    pub(crate) is_reported: AtomicBool,
}

/// The precedence of an entry.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum MergeDecision {
    /// The first with this path.
    First,
    /// A directory, like the first one: merged, with these metadata.
    Same(EntryMetadata),
    /// An earlier source has this path.
    Taken,
    /// Unknown, beyond the limit.
    TooMany,
}

impl MergedSources {
    /// For these source arguments, in a copy with this kind of list.
    pub fn new(operands: &[TargetOperand], listed: ListedKinds) -> Self {
        let may_meet = operands.len() > 1 && operands.iter().any(|operand| operand.name.is_none());
        let is_wanted = may_meet && listed == ListedKinds::No;
        Self { is_wanted, hasher: RandomState::new(), paths: Mutex::default(), is_reported: AtomicBool::new(false) }
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
    /// Whether several sources are merged into one directory.
    pub(crate) fn merges(&self) -> bool {
        self.merged_sources.is_wanted
    }
}

#[cfg(test)]
mod tests {
    use haul_proto::path::Name;
    use haul_proto::wire::request::TargetOperand;

    use super::*;

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
    fn no_names_are_remembered_if_none_can_collide() {
        let is_wanted = |operands: &[TargetOperand], listed| MergedSources::new(operands, listed).is_wanted;
        let (own, contents) = (operand(Some("a")), operand(None));
        assert!(!is_wanted(std::slice::from_ref(&contents), ListedKinds::No));
        assert!(!is_wanted(&[own.clone(), own.clone()], ListedKinds::No));
        assert!(is_wanted(&[own.clone(), contents.clone()], ListedKinds::No));
        assert!(!is_wanted(&[own, contents], ListedKinds::Trees));
    }
}
