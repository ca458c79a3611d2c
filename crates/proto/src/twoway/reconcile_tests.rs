//! Tests of the reconciliation.

use super::super::archive::ArchiveError;
use super::super::detect::{DetectUpdates, DetectedChange};
use super::super::entry::PathEntry;
use super::super::samples::{at, directory, file, path, symlink, with_mode};
use super::*;

fn updates(base: &[PathEntry], found: &[PathEntry]) -> Vec<Result<ReplicaUpdate, ArchiveError>> {
    let list = |entries: &[PathEntry]| {
        let mut entries = entries.to_vec();
        entries.sort_by(|one, two| one.path.cmp(&two.path));
        entries.into_iter().map(Ok::<_, ArchiveError>)
    };
    let changes = DetectUpdates::new(list(base), list(found), MetadataRules::ALL);
    let updated = changes.map(|change| match change.unwrap() {
        DetectedChange::Updated(update) | DetectedChange::Unsure(update) => Ok(update),
        DetectedChange::Restamped(entry) => panic!("{entry:?}"),
    });
    updated.collect()
}

/// Decisions about a base and what is found at A and B.
pub(in super::super) fn decisions(base: &[PathEntry], a: &[PathEntry], b: &[PathEntry]) -> Vec<PathDecision> {
    let (a, b) = (updates(base, a), updates(base, b));
    Reconcile::new(a.into_iter(), b.into_iter(), MetadataRules::ALL).map(Result::unwrap).collect()
}

/// For each path: `=` equal, `<` or `>` towards A or B, `-` removed, `!` conflict, `m` conflict of metadata, `.` within.
fn drawn(base: &[PathEntry], a: &[PathEntry], b: &[PathEntry]) -> String {
    let decided = decisions(base, a, b);
    let one = |decision: &PathDecision| {
        let sign = match &decision.verdict {
            PathVerdict::Agreed { entry: None, .. } => '-',
            PathVerdict::Agreed { .. } if decision.sides.iter().all(|side| side.is_updated) => '=',
            PathVerdict::Agreed { from: ReplicaSide::A, .. } => '>',
            PathVerdict::Agreed { from: ReplicaSide::B, .. } => '<',
            PathVerdict::Conflict(ConflictKind::Contents) => '!',
            PathVerdict::Conflict(ConflictKind::Metadata) => 'm',
            PathVerdict::WithinConflict => '.',
        };
        format!("{sign}{}", decision.path)
    };
    decided.iter().map(one).collect::<Vec<_>>().join(" ")
}

#[test]
fn an_update_of_one_side_goes_to_the_other() {
    let base = [file("f", 1)];
    assert_eq!(drawn(&base, &[file("f", 2)], &base), ">f");
    assert_eq!(drawn(&base, &base, &[file("f", 2)]), "<f");
    assert_eq!(drawn(&base, &base, &[file("f", 1), file("g", 1)]), "<g");
    assert_eq!(drawn(&base, &[], &base), "-f");
}

#[test]
fn equal_updates_are_agreed_and_others_are_conflicts() {
    let base = [file("f", 1)];
    assert_eq!(drawn(&base, &[file("f", 2)], &[file("f", 2)]), "=f");
    assert_eq!(drawn(&base, &[], &[]), "-f");
    assert_eq!(drawn(&base, &[file("f", 2)], &[file("f", 3)]), "!f");
    assert_eq!(drawn(&base, &[], &[file("f", 3)]), "!f");
    assert_eq!(drawn(&base, &[], &[with_mode(file("f", 1), 0)]), "!f");
    assert_eq!(drawn(&base, &[symlink("f", "x")], &[file("f", 2)]), "!f");
}

#[test]
fn without_a_base_nothing_is_removed() {
    assert_eq!(drawn(&[], &[file("a", 1), file("c", 1)], &[file("b", 1), file("c", 2)]), ">a <b !c");
}

#[test]
fn a_removed_directory_conflicts_with_updates_below_it_at_any_depth() {
    let base = [directory("d"), directory("d/e"), file("d/e/f", 1), file("d/g", 1)];
    let changed = [directory("d"), directory("d/e"), file("d/e/f", 2), file("d/g", 1)];
    assert_eq!(drawn(&base, &[], &base), "-d -d/e -d/e/f -d/g");
    assert_eq!(drawn(&base, &[], &changed), "!d .d/e .d/e/f .d/g");
    let added = [&base[..], &[file("d/new", 1)]].concat();
    assert_eq!(drawn(&base, &added, &[]), "!d .d/e .d/e/f .d/g .d/new");
    assert_eq!(drawn(&base, &[file("d", 1)], &changed), "!d .d/e .d/e/f .d/g");
    let removed = [directory("d"), directory("d/e"), file("d/e/f", 1)];
    assert_eq!(drawn(&base, &[], &removed), "-d -d/e -d/e/f -d/g");
}

#[test]
fn a_conflict_ends_with_its_subtree() {
    let base = [directory("d"), file("d/f", 1)];
    let a = [file("d-x", 1)];
    let b = [directory("d"), file("d/f", 2), file("e", 1)];
    assert_eq!(drawn(&base, &a, &b), "!d .d/f >d-x <e");
}

#[test]
fn a_directory_and_a_file_of_one_name_are_a_conflict() {
    assert_eq!(drawn(&[], &[directory("p"), file("p/x", 1)], &[file("p", 1)]), "!p .p/x");
    let base = [file("p", 1)];
    assert_eq!(drawn(&base, &[directory("p"), file("p/x", 1)], &base), ">p >p/x");
}

#[test]
fn contents_of_one_side_and_metadata_of_the_other_are_merged() {
    let base = [file("f", 1)];
    let decided = decisions(&base, &[file("f", 2)], &[with_mode(file("f", 1), 0o600)]);
    let expected = with_mode(file("f", 2), 0o600).entry.without_stamp();
    assert_eq!(decided[0].verdict, PathVerdict::Agreed { entry: Some(expected), from: ReplicaSide::A });
}

#[test]
fn a_conflict_of_metadata_leaves_what_is_below_a_directory_free() {
    let base = [directory("d"), file("d/f", 1)];
    let a = [with_mode(directory("d"), 0o700), file("d/f", 1)];
    let b = [with_mode(directory("d"), 0o750), file("d/f", 2)];
    assert_eq!(drawn(&base, &a, &b), "md <d/f");
}

#[test]
fn updates_of_different_bases_are_an_error() {
    let (a, b) = (updates(&[file("f", 1)], &[]), updates(&[file("f", 2)], &[]));
    let mut decided = Reconcile::new(a.into_iter(), b.into_iter(), MetadataRules::ALL);
    assert!(matches!(decided.next(), Some(Err(ArchiveError::Damaged(_)))));
}

#[test]
fn files_of_equal_size_on_both_sides_and_candidates_of_moves_are_hashed() {
    let unread = |text, bytes| {
        let mut entry = file(text, 1);
        entry.entry.content = ReplicaContent::File { size: bytes, digest: None };
        entry
    };
    let base = [file("gone", 1)];
    let a = updates(&base, &[unread("both", 9), unread("differs", 9), unread("moved", 5), unread("new", 6)]);
    let b = updates(&base, &[unread("both", 9), unread("differs", 8), file("gone", 1), unread("other", 5)]);
    let wanted = wanted_digests(a.into_iter(), b.into_iter(), [at(100); 2]).unwrap();
    assert_eq!(wanted, [vec![path("both"), path("moved")], vec![path("both")]]);
}

#[test]
fn of_a_path_that_both_sides_updated_a_file_written_just_before_the_scan_is_hashed() {
    let unread = |text, written, bytes| {
        let mut entry = file(text, written);
        entry.entry.content = ReplicaContent::File { size: bytes, digest: None };
        entry
    };
    let base = [file("changed", 1), file("removed", 1), file("theirs", 1)];
    let a = updates(&base, &[unread("changed", 99, 8), unread("removed", 99, 8), file("theirs", 1)]);
    let b = updates(&base, &[unread("changed", 50, 9), unread("theirs", 99, 8)]);
    let wanted = wanted_digests(a.into_iter(), b.into_iter(), [at(100); 2]).unwrap();
    assert_eq!(wanted, [vec![path("changed"), path("removed")], vec![]]);
}
