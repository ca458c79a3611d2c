//! Tests of the plan.

use super::super::archive::ArchiveError;
use super::super::prefer::{ConflictRules, KeepBoth, KeptName};
use super::super::reconcile::tests::decisions;
use super::super::renames::find_renames;
use super::super::samples::{at, directory, file, path, with_mode};
use super::*;

const RULES: MetadataRules = MetadataRules::ALL;

fn plan(base: &[PathEntry], a: &[PathEntry], b: &[PathEntry]) -> TwowayPlan {
    let mut decided = decisions(base, a, b);
    find_renames(&mut decided);
    TwowayPlan::new(decided, &RULES)
}

fn drawn(plan: &TwowayPlan) -> Vec<String> {
    let one = |action: &TwowayAction| {
        let kind = match &action.kind {
            ActionKind::MakeDirectory => "mkdir",
            ActionKind::Copy { .. } => "copy",
            ActionKind::Move { .. } => "move",
            ActionKind::SetMetadata => "set",
            ActionKind::Delete => "delete",
            ActionKind::Link { .. } => "link",
        };
        let keep = if action.keep_as.is_some() { "keep and " } else { "" };
        format!("{:?} {keep}{kind} {}", action.side, action.path)
    };
    plan.actions.iter().map(one).collect()
}

#[test]
fn parents_are_made_first_and_removed_last() {
    let a = [directory("new"), directory("new/sub"), file("new/sub/f", 1)];
    let b = [directory("old"), directory("old/sub"), file("old/sub/g", 2)];
    let expected = [
        "B mkdir new",
        "B mkdir new/sub",
        "B copy new/sub/f",
        "B delete old/sub/g",
        "B delete old/sub",
        "B delete old",
    ];
    assert_eq!(drawn(&plan(&b, &a, &b)), expected);
}

#[test]
fn a_directory_that_becomes_a_file_is_emptied_first() {
    let base = [directory("p"), file("p/x", 1)];
    assert_eq!(drawn(&plan(&base, &[file("p", 9)], &base)), ["B delete p/x", "B copy p"]);
    assert_eq!(drawn(&plan(&[file("p", 9)], &[file("p", 9)], &base)), ["A mkdir p", "A copy p/x"]);
}

#[test]
fn a_file_is_moved_out_of_a_directory_before_its_removal() {
    let base = [directory("d"), file("d/f", 1)];
    let plan = plan(&base, &[file("f", 1)], &base);
    assert_eq!(drawn(&plan), ["B move f", "B delete d"]);
    let results = RunResults { unfinished: BTreeSet::from([path("f")]), ..RunResults::default() };
    let changes = plan.archive_changes(ReplicaSide::B, at(100), &results, []);
    assert_eq!(changes.iter().map(|change| &change.path).collect::<Vec<_>>(), [&path("d")]);
}

#[test]
fn a_read_only_directory_gets_its_mode_after_its_contents() {
    let a = [with_mode(directory("d"), 0o555), file("d/f", 1)];
    assert_eq!(drawn(&plan(&[], &a, &[])), ["B mkdir d", "B copy d/f", "B set d"]);
}

#[test]
fn merged_metadata_goes_both_ways() {
    let base = [file("f", 1)];
    let plan = plan(&base, &[file("f", 2)], &[with_mode(file("f", 1), 0o600)]);
    assert_eq!(drawn(&plan), ["B copy f", "A set f"]);
}

#[test]
fn equal_updates_only_mark_the_archive() {
    let plan = plan(&[file("f", 1)], &[file("f", 2)], &[file("f", 2)]);
    assert_eq!(drawn(&plan), [""; 0]);
    assert_eq!(plan.agreements[0].entry, Some(file("f", 2).entry.without_stamp()));
}

#[test]
fn a_kept_loser_is_copied_after_it_has_its_name() {
    let hosts = [b"a".to_vec(), b"b".to_vec()];
    let keep_both = Some(KeepBoth { hosts, date: b"1".to_vec() });
    let rules = ConflictRules { keep_both, ..ConflictRules::default() };
    let mut decided = decisions(&[], &[file("f.x", 1), file("g", 1)], &[file("f.x", 2)]);
    rules.apply(&mut decided, &mut |_, _, _| KeptName::Free);
    let copied = drawn(&TwowayPlan::new(decided, &RULES));
    assert_eq!(copied, ["B keep and copy f.x", "B copy g", "A copy f.conflict-b-1.x"]);
    let mut decided = decisions(&[], &[directory("f")], &[file("f", 2)]);
    rules.apply(&mut decided, &mut |_, _, _| KeptName::Free);
    assert_eq!(drawn(&TwowayPlan::new(decided, &RULES)), ["B keep and mkdir f", "A copy f.conflict-b-1"]);
}

#[test]
fn a_conflict_has_no_action_and_stays_out_of_the_archive() {
    let plan = plan(&[file("f", 1)], &[file("f", 2)], &[file("f", 3)]);
    assert!(plan.actions.is_empty() && plan.agreements.is_empty());
    assert_eq!(plan.conflicts.len(), 1);
}

#[test]
fn the_next_archive_is_the_base_with_what_was_done() {
    let base = [file("done", 1), file("gone", 1), file("kept", 1), file("skipped", 1)];
    let a = [file("done", 2), file("kept", 1), file("skipped", 2)];
    let plan = plan(&base, &a, &base);
    let stamp = FileStamp { inode: 99, ..FileStamp::default() };
    let made = BTreeMap::from([(path("done"), MadeFile { stamps: [None, Some(stamp)], digest: None })]);
    let results = RunResults { unfinished: BTreeSet::from([path("skipped")]), made };
    let mut restamped = file("kept", 1);
    restamped.entry.stamp = Some(FileStamp { inode: 50, ..stamp });
    let changes = plan.archive_changes(ReplicaSide::B, at(100), &results, [restamped.clone()]);
    let next = next_archive::<ArchiveError>(base.clone().into_iter().map(Ok), changes.into_iter().map(Ok));
    let next: Vec<_> = next.map(Result::unwrap).collect();
    let mut done = file("done", 2);
    done.entry.stamp = Some(stamp);
    assert_eq!(next, [done, restamped, file("skipped", 1)]);
}

#[test]
fn attributes_come_from_the_side_that_has_them() {
    let with = |mut entry: PathEntry| {
        entry.entry.metadata.attributes = [7; 32];
        entry
    };
    let drawn = |a: PathEntry, b: PathEntry| {
        let plan = plan(&[file("f", 1)], &[a], &[b]);
        let attributes = plan.actions.iter().map(|action| action.attributes.clone());
        drawn(&plan).into_iter().zip(attributes).collect::<Vec<_>>()
    };
    let of = |text: &str, side| (text.to_owned(), ActionAttributes::Of(side));
    let (old, new) = (file("f", 1), file("f", 2));
    assert_eq!(drawn(with(old.clone()), old.clone()), [of("B set f", ReplicaSide::A)]);
    assert_eq!(drawn(with(new.clone()), old.clone()), [of("B copy f", ReplicaSide::A)]);
    let merged = [of("B copy f", ReplicaSide::B), of("A set f", ReplicaSide::B)];
    assert_eq!(drawn(new, with(old.clone())), merged);
    let mode = drawn(with_mode(old.clone(), 0o600), with(old));
    assert_eq!(mode, [("B set f".to_owned(), ActionAttributes::Kept), of("A set f", ReplicaSide::B)]);
}
