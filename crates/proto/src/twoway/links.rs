//! Hard links: copies of one file under several names, which become names of one file at the other side, too.

use std::collections::BTreeMap;

use super::ReplicaSide;
use super::entry::{FileStamp, ReplicaEntry, ReplicaMetadata};
use super::plan::{ActionKind, TwowayAction};

/// Returns groups of copies to a side, by their places in `actions`, that bring names of one file and give them the same
/// metadata. At least two each.
pub fn link_groups(actions: &[TwowayAction], side: ReplicaSide) -> Vec<Vec<usize>> {
    let mut groups: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (at, action) in actions.iter().enumerate().filter(|(_, action)| action.side == side) {
        if let Some((_, stamp)) = source_identity(action) {
            groups.entry(stamp.inode).or_default().push(at);
        }
    }
    let is_one = |group: &Vec<usize>| {
        let first = &actions[group[0]];
        // Inode numbers of other file systems below the root may be the same.
        let is_same = |other: &TwowayAction| {
            source_identity(other) == source_identity(first) && metadata(other) == metadata(first)
        };
        let is_name = |action: &TwowayAction| action.keep_as.is_none() && is_same(action);
        group.len() > 1 && group.iter().all(|at| is_name(&actions[*at]))
    };
    groups.into_values().filter(is_one).collect()
}

/// Makes links of all copies of a group but the first.
pub fn make_links(actions: &mut [TwowayAction], group: &[usize]) {
    let to = actions[group[0]].path.clone();
    for at in &group[1..] {
        let action = &mut actions[*at];
        if let ActionKind::Copy { source } = &action.kind {
            action.kind = ActionKind::Link { to: to.clone(), source: source.clone() };
        }
    }
}

fn metadata(action: &TwowayAction) -> Option<ReplicaMetadata> {
    action.entry.as_ref().map(|entry| entry.metadata)
}

fn source_identity(action: &TwowayAction) -> Option<(u64, FileStamp)> {
    let ActionKind::Copy { source } = &action.kind else { return None };
    source.quick_identity()
}

/// Whether the side that gets a group has none of its names, or has them as names of one file. `found` are the entries
/// there now.
pub fn agrees_on_group(found: &[Option<ReplicaEntry>]) -> bool {
    let mut there = found.iter().flatten().map(|entry| Some(entry.quick_identity()?.1.inode));
    let first = there.next();
    first.is_none_or(|first| first.is_some() && there.all(|other| other == first))
}

#[cfg(test)]
mod tests {
    use super::super::attributes::ActionAttributes;
    use super::super::samples::{file, path, with_mode};
    use super::*;

    fn copy(name: &str, inode: u64) -> TwowayAction {
        let mut source = file(name, 1).entry;
        source.stamp = source.stamp.map(|stamp| FileStamp { inode, ..stamp });
        let entry = Some(source.without_stamp());
        let kind = ActionKind::Copy { source };
        let (path, attributes) = (path(name), ActionAttributes::Kept);
        TwowayAction { path, side: ReplicaSide::B, kind, entry, expected: None, keep_as: None, attributes }
    }

    #[test]
    fn copies_of_one_inode_are_a_group_and_become_links_to_the_first() {
        let mut actions = [copy("a", 1), copy("b", 2), copy("c", 1), copy("d", 3), copy("e", 3)];
        let groups = link_groups(&actions, ReplicaSide::B);
        assert_eq!(groups, [vec![0, 2], vec![3, 4]]);
        assert!(link_groups(&actions, ReplicaSide::A).is_empty());
        make_links(&mut actions, &groups[0]);
        let is_link = |action: &TwowayAction| matches!(&action.kind, ActionKind::Link { to, .. } if *to == path("a"));
        assert_eq!(actions.each_ref().map(is_link), [false, false, true, false, false]);
    }

    #[test]
    fn names_with_other_results_are_no_group() {
        let mut others = [copy("a", 1), copy("b", 1), copy("c", 2), copy("d", 2)];
        others[1].entry = Some(with_mode(file("b", 1), 0o600).entry.without_stamp());
        others[3].keep_as = Some(path("d.kept"));
        assert!(link_groups(&others, ReplicaSide::B).is_empty());
    }

    #[test]
    fn a_side_agrees_that_has_no_name_or_names_of_one_file() {
        let found = |inode| {
            let ActionKind::Copy { source } = copy("a", inode).kind else { return None };
            Some(source)
        };
        assert!(agrees_on_group(&[None, None]) && agrees_on_group(&[found(1), None, found(1)]));
        assert!(!agrees_on_group(&[found(1), found(2)]));
    }
}
