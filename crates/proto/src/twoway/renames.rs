//! Renames: a file that one side removed and a new one with the same fingerprint there become a move at the other side.

use std::collections::HashMap;

use super::ReplicaSide;
use super::entry::{ReplicaEntry, TreePath};
use super::reconcile::{PathDecision, PathVerdict};
use crate::integrity::Digest;

/// Replaces deletions and copies by moves, where the other side still has the file unchanged and nothing at the new
/// path. Of several candidates, one with the same name is taken first.
pub fn find_renames(decisions: &mut [PathDecision]) {
    for side in ReplicaSide::BOTH {
        let mut gone: HashMap<(u64, Digest), Vec<usize>> = HashMap::new();
        for (at, decision) in decisions.iter().enumerate() {
            if let Some(fingerprint) = removed_file(decision, side) {
                gone.entry(fingerprint).or_default().push(at);
            }
        }
        if gone.is_empty() {
            continue;
        }
        for at in 0..decisions.len() {
            let Some(candidates) = new_file(&decisions[at], side).and_then(|found| gone.get_mut(&found)) else {
                continue;
            };
            let name_of = |path: &TreePath| path.split_name().1.to_vec();
            let name = name_of(&decisions[at].path);
            let same_name = candidates.iter().position(|gone| name_of(&decisions[*gone].path) == name);
            if candidates.is_empty() {
                continue;
            }
            let from = candidates.remove(same_name.unwrap_or(0));
            decisions[from].moved_to = Some(decisions[at].path.clone());
            decisions[at].moved_from = Some(decisions[from].path.clone());
        }
    }
}

/// Returns the fingerprint of a file that `side` removed and the other side has as it was.
fn removed_file(decision: &PathDecision, side: ReplicaSide) -> Option<(u64, Digest)> {
    let is_removed = matches!(&decision.verdict, PathVerdict::Agreed { entry: None, .. });
    let other = decision.side(side.other());
    (is_removed && decision.side(side).entry.is_none() && !other.is_updated)
        .then(|| fingerprint(other.entry.as_ref()))
        .flatten()
}

/// Returns the fingerprint of a file that `side` made where the other side has nothing.
fn new_file(decision: &PathDecision, side: ReplicaSide) -> Option<(u64, Digest)> {
    let PathVerdict::Agreed { entry, from } = &decision.verdict else { return None };
    let is_new = *from == side && decision.side(side.other()).entry.is_none() && !decision.is_kept;
    is_new.then(|| fingerprint(entry.as_ref())).flatten()
}

fn fingerprint(entry: Option<&ReplicaEntry>) -> Option<(u64, Digest)> {
    entry?.content.fingerprint().filter(|(size, _)| *size > 0)
}

#[cfg(test)]
mod tests {
    use super::super::reconcile::tests::decisions;
    use super::super::samples::{file, path};
    use super::*;

    fn moves(base: &[(&str, u8)], a: &[(&str, u8)], b: &[(&str, u8)]) -> Vec<(String, String)> {
        let entries = |list: &[(&str, u8)]| list.iter().map(|(path, version)| file(path, *version)).collect::<Vec<_>>();
        let mut decided = decisions(&entries(base), &entries(a), &entries(b));
        find_renames(&mut decided);
        let from =
            |decision: &PathDecision| Some((decision.moved_from.as_ref()?.to_string(), decision.path.to_string()));
        decided.iter().filter_map(from).collect()
    }

    fn pair(from: &str, to: &str) -> (String, String) {
        (from.into(), to.into())
    }

    #[test]
    fn a_renamed_file_is_moved_at_the_other_side() {
        assert_eq!(moves(&[("old", 1)], &[("new", 1)], &[("old", 1)]), [pair("old", "new")]);
        assert_eq!(moves(&[("old", 1)], &[("old", 1)], &[("new", 1)]), [pair("old", "new")]);
    }

    #[test]
    fn other_contents_and_changed_or_removed_files_are_not_moved() {
        assert_eq!(moves(&[("old", 1)], &[("new", 2)], &[("old", 1)]), []);
        assert_eq!(moves(&[("old", 1)], &[("new", 1)], &[("old", 2)]), []);
        assert_eq!(moves(&[("old", 1)], &[("new", 1)], &[]), []);
        assert_eq!(moves(&[("old", 1)], &[("old", 1), ("new", 1)], &[("old", 1)]), []);
    }

    #[test]
    fn each_removed_file_is_moved_once_and_to_its_own_name_first() {
        let base = [("a", 1), ("b", 1)];
        let found = moves(&base, &[("d/b", 1), ("d/x", 1), ("d/y", 1)], &base);
        assert_eq!(found, [pair("b", "d/b"), pair("a", "d/x")]);
        assert_eq!(path("d/b").split_name().1, b"b");
    }
}
