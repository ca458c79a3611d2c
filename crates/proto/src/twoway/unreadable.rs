//! Paths that a scan could not read: both sides leave them, and all below them, as they are.

use std::collections::BTreeSet;

use super::detect::ReplicaUpdate;
use super::entry::TreePath;
use crate::codec::wire_struct;
use crate::field_codecs::TEXT;

wire_struct! {
    /// A file or directory that a scan could not read.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct UnreadablePath {
        /// The path.
        pub path: TreePath,
        /// Reason.
        pub text: String as TEXT,
    }
}

/// Removes from both sides' updates what is at or below an unreadable path. Where a side removed or replaced a directory
/// above one, nothing in that directory changes either.
pub fn leave_unreadable<'p>(updates: &mut [Vec<ReplicaUpdate>; 2], unreadable: impl IntoIterator<Item = &'p TreePath>) {
    let mut left: BTreeSet<TreePath> = unreadable.into_iter().cloned().collect();
    if left.is_empty() {
        return;
    }
    let gone = updates.iter().flatten().filter(|update| {
        let is_directory = update.found.as_ref().is_some_and(|found| found.content.is_directory());
        !is_directory && left.range(&update.path..).next().is_some_and(|next| next.is_below(&update.path))
    });
    let gone: Vec<_> = gone.map(|update| update.path.clone()).collect();
    left.extend(gone);
    let is_left = |path: &TreePath| left.contains(path) || path.directories().any(|above| left.contains(&above));
    updates.iter_mut().for_each(|updates| updates.retain(|update| !is_left(&update.path)));
}

#[cfg(test)]
mod tests {
    use super::super::entry::PathEntry;
    use super::super::samples::{directory, file, path};
    use super::*;

    fn update(archived: Option<PathEntry>, found: Option<PathEntry>) -> ReplicaUpdate {
        let path = archived.as_ref().or(found.as_ref()).expect("an entry").path.clone();
        ReplicaUpdate { path, archived: archived.map(|one| one.entry), found: found.map(|one| one.entry) }
    }

    fn left(a: Vec<ReplicaUpdate>, b: Vec<ReplicaUpdate>, unreadable: &[&str]) -> [Vec<String>; 2] {
        let mut updates = [a, b];
        leave_unreadable(&mut updates, &unreadable.iter().map(|text| path(text)).collect::<Vec<_>>());
        updates.map(|updates| updates.iter().map(|update| update.path.to_string()).collect())
    }

    #[test]
    fn what_is_at_or_below_an_unreadable_path_is_no_update_of_either_side() {
        let gone = |entry: PathEntry| update(Some(entry), None);
        let new = |entry: PathEntry| update(None, Some(entry));
        let a = vec![gone(directory("d")), gone(file("d/f", 1)), new(file("d.x", 1))];
        let b = vec![new(file("d/new", 1)), new(file("e", 1))];
        assert_eq!(left(a.clone(), b.clone(), &["d"]), [vec!["d.x"], vec!["e"]]);
        assert_eq!(left(a, b, &[]), [vec!["d", "d/f", "d.x"], vec!["d/new", "e"]]);
    }

    #[test]
    fn a_directory_above_an_unreadable_path_is_not_removed_or_replaced() {
        let (d, f) = (directory("d"), file("d/f", 1));
        let removed = vec![update(Some(d.clone()), None), update(Some(f), None), update(None, Some(file("e", 1)))];
        assert_eq!(left(removed, vec![update(None, Some(file("d/g", 1)))], &["d/u"]), [vec!["e"], vec![]]);
        let replaced = vec![update(Some(d.clone()), Some(file("d", 1)))];
        assert_eq!(left(vec![], replaced, &["d/u/v"]), [vec![""; 0], vec![]]);
        // A new mode of it is no harm.
        let changed = vec![update(Some(d.clone()), Some(d))];
        assert_eq!(left(changed, vec![], &["d/u"]), [vec!["d"], vec![]]);
    }
}
