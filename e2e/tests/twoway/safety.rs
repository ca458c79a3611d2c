//! What is refused, what is kept, and what a failure leaves.

use std::fs;
use std::os::unix::fs::symlink;

use haul_e2e::{is_root_or_skip, listing};

use super::{Pair, UNION, actions};

#[test]
fn many_deletions_are_refused_and_the_named_option_permits_them() {
    let names: Vec<String> = (0..30).map(|number| format!("f{number}")).collect();
    let pair = Pair::with(&names.iter().map(String::as_str).collect::<Vec<_>>());
    names[..20].iter().for_each(|name| pair.remove(&format!("a/{name}")));
    pair.run(&[]).ends(1).says(["20 entries", "more than 15", "--max-delete=20"]);
    pair.run(&["--max-delete=19"]).ends(1).says(["--max-delete=20"]);
    assert_eq!(pair.names()[1].len(), 30);
    pair.run(&["--max-delete=20"]).succeeds();
    assert_eq!(pair.names().map(|names| names.len()), [10, 10]);
    // Moves are no deletions.
    fs::create_dir(pair.path("a/d")).unwrap();
    names[20..].iter().for_each(|name| {
        fs::rename(pair.path(format!("a/{name}")), pair.path(format!("a/d/{name}"))).unwrap();
    });
    pair.run(&["--max-delete=0"]).succeeds();
    pair.is_equal();
}

#[test]
fn an_emptied_root_is_refused() {
    let pair = Pair::with(&["f", "d/g"]);
    pair.remove("b/f");
    fs::remove_dir_all(pair.path("b/d")).unwrap();
    pair.run(&[]).ends(1).says(["is empty", "mounted?", "--allow-empty-source"]);
    assert!(pair.path("a/d/g").exists());
    pair.run(&["--max-delete=3"]).ends(1);
    pair.run(&["--allow-empty-source"]).succeeds();
    assert_eq!(pair.names(), [[""; 0]; 2]);
    // Two empty roots agree.
    pair.is_settled();
}

#[test]
fn replaced_and_deleted_files_go_to_the_backup_directory_which_is_never_synchronised() {
    let pair = Pair::with(&["d/changed", "deleted", "theirs"]);
    pair.put("a/d/changed", "new at A");
    pair.remove("a/deleted");
    pair.remove("b/theirs");
    pair.run(&["--backup-dir", "backups"]).succeeds();
    assert_eq!(
        (pair.text("b/backups/d/changed"), pair.text("b/backups/deleted")),
        ("d/changed".into(), "deleted".into())
    );
    assert_eq!(
        (pair.text("a/backups/theirs"), pair.both("d/changed")),
        ("theirs".into(), ["new at A", "new at A"].map(Into::into))
    );
    let lines = pair.json(&["--backup-dir", "backups"]);
    assert!(actions(&lines).is_empty(), "{lines:?}");
    // The backup of a later run takes the place of an earlier one.
    pair.put("a/d/changed", "newer still");
    pair.run(&["--backup-dir", "backups"]).succeeds();
    assert_eq!(pair.text("b/backups/d/changed"), "new at A");
    assert_eq!(listing(&pair.path("a/backups")), ["theirs"]);
}

#[test]
fn a_backup_directory_above_the_replica_is_refused() {
    let pair = Pair::with(&["f"]);
    pair.remove("a/f");
    for directory in [".", ".."] {
        pair.run(&["--backup-dir", directory, "--max-delete=1"]).ends(1).says(["the replica lies in", "hint"]);
    }
    assert_eq!(pair.text("b/f"), "f");
}

#[test]
fn a_failed_file_is_reported_once_and_goes_before_conflicts_in_the_status() {
    if !is_root_or_skip("a small file system") {
        return;
    }
    let pair = Pair::new();
    let small = pair.sandbox.tmpfs("b", "size=2m,mode=755");
    pair.sandbox.big_file("a/big", 8_000_000);
    pair.put("a/both", "of A");
    pair.put("b/both", "of B!");
    pair.put("a/little", "fits");
    let run = pair.run(&[]).ends(1).says(["big: no space"]).does_not_say("changed since the scan");
    assert!(run.stdout.contains("1 failure, 1 conflict"), "{}", run.account());
    assert_eq!((pair.text("b/little"), pair.both("both")), ("fits".into(), ["of A", "of B!"].map(Into::into)));
    assert!(!pair.path("b/big").exists() && pair.path("a/big").exists());
    small.remount("size=64m");
    pair.run(&["--prefer", "b"]).succeeds();
    pair.is_equal();
}

#[test]
fn what_cannot_be_read_stays_at_both_sides_and_the_rest_is_synchronised() {
    let pair = Pair::of_user(&["d/f", "d/gone", "file", "g", "up/closed/f", "up/f"]);
    pair.set_mode("b/d", 0);
    pair.set_mode("b/up/closed", 0);
    pair.set_mode("a/file", 0);
    pair.put("a/d/f", "changed at A");
    pair.put("a/d/new", "of A");
    pair.remove("a/d/gone");
    fs::remove_dir_all(pair.path("a/up")).unwrap();
    pair.put("b/file", "changed at B");
    pair.put("b/g", "changed");
    for options in [&["--plan"][..], &[], &["--prefer", "a"]] {
        let run = pair.run_of_user(options).ends(1);
        run.says(["d: Permission denied", "up/closed: Permission denied", "file: Permission denied", "exclude it"]);
    }
    for path in ["b/d", "b/up/closed"] {
        pair.set_mode(path, 0o755);
    }
    pair.set_mode("a/file", 0o644);
    assert_eq!(
        (pair.both("g"), pair.both("d/f")),
        (["changed"; 2].map(Into::into), ["changed at A", "d/f"].map(Into::into))
    );
    assert_eq!(
        (pair.text("b/d/gone"), pair.text("b/up/f"), pair.text("b/up/closed/f")),
        ("d/gone".into(), "up/f".into(), "up/closed/f".into())
    );
    assert_eq!(pair.both("file"), ["file", "changed at B"]);
    assert!(!pair.path("b/d/new").exists());
    // Nothing was forgotten.
    pair.run_of_user(&["--max-delete=10"]).succeeds();
    assert_eq!(pair.names(), [["d", "file", "g"]; 2]);
    assert_eq!(
        (pair.both("d/f"), pair.both("file")),
        (["changed at A"; 2].map(Into::into), ["changed at B"; 2].map(Into::into))
    );
    assert!(pair.path("b/d/new").exists() && !pair.path("b/d/gone").exists());
}

#[test]
fn a_new_file_that_cannot_be_read_fails_alone() {
    let pair = Pair::of_user(&["f"]);
    pair.put("a/closed", "closed");
    pair.set_mode("a/closed", 0);
    pair.put("a/f", "changed");
    let run = pair.run_of_user(&[]).ends(1).says(["closed: Permission denied"]);
    assert!(run.stdout.contains("1 failure"), "{}", run.account());
    assert_eq!((pair.both("f"), pair.path("b/closed").exists()), (["changed"; 2].map(Into::into), false));
}

#[test]
fn a_removed_directory_with_excluded_entries_stays_and_is_named() {
    let pair = Pair::with(&["d/f", "g"]);
    pair.put("b/d/excluded", "of B");
    fs::remove_dir_all(pair.path("a/d")).unwrap();
    let run = pair.run(&["--exclude", "excluded"]).ends(1).says(["d: it still has entries that the filters exclude"]);
    assert!(run.stdout.contains("1 failure"), "{}", run.account());
    assert_eq!(pair.text("b/d/excluded"), "of B");
}

#[test]
fn a_read_only_replica_is_named_and_nothing_changes() {
    if !is_root_or_skip("a read-only file system") {
        return;
    }
    let pair = Pair::new();
    let disk = pair.sandbox.tmpfs("b", "size=2m,mode=755");
    pair.put("a/f", "f");
    disk.remount("ro");
    pair.run(&[]).ends(1).says(["b: on a read-only file system", "haul sync"]);
    disk.remount("rw");
    pair.run(&[]).succeeds();
    pair.put("a/f", "changed");
    pair.put("b/g", "of B");
    disk.remount("ro");
    pair.run(&[]).ends(1).says(["b: on a read-only file system", "haul sync"]);
    assert_eq!((pair.both("f"), pair.path("a/g").exists()), (["changed", "f"].map(Into::into), false));
    disk.remount("rw");
    pair.run(&[]).succeeds();
    pair.is_equal();
    pair.is_settled();
}

#[test]
fn a_full_disk_of_the_archive_loses_nothing_and_the_next_run_ends_as_usual() {
    if !is_root_or_skip("a small file system") {
        return;
    }
    let pair = Pair::new();
    let _disk = pair.sandbox.tmpfs("state", "size=1m,mode=700");
    let names: Vec<String> = (0..300).map(|number| format!("{number:0>60}")).collect();
    names.iter().for_each(|name| drop(pair.put(format!("a/{name}"), name)));
    pair.run(&[]).succeeds();
    pair.remove(&format!("a/{}", names[0]));
    pair.put(format!("b/{}", names[1]), "changed");
    let filled = fs::write(pair.path("state/fill"), vec![1; 2 << 20]);
    assert!(filled.is_err());
    pair.run(&[]).ends(1).says(["archive in the state directory", "no space"]);
    fs::remove_file(pair.path("state/fill")).unwrap();
    pair.run(&[]).succeeds().does_not_say(UNION);
    pair.is_equal();
    assert!(!pair.path(format!("b/{}", names[0])).exists());
    assert_eq!(pair.both(&names[1]), ["changed", "changed"]);
    pair.is_settled();
}

#[test]
fn roots_that_are_one_in_each_other_missing_or_files_are_refused() {
    let pair = Pair::with(&["d/f"]);
    symlink("a", pair.path("link")).unwrap();
    pair.put("file", "no directory");
    let run = |a: &str, b: &str| pair.command(&["--batch", a, b]).run();
    for (a, b) in [("a", "a"), ("a", "link"), ("link", "a/"), ("a", "./a/d/..")] {
        run(a, b).ends(2).says(["same directory"]);
    }
    run("a", "a/d").ends(2).says(["lies in the other"]);
    run("link/d", "a").ends(2).says(["lies in the other"]);
    run("a", "missing").ends(1).says(["missing", "make the directory first"]);
    run("file", "a").ends(1).says(["file: not a directory"]).does_not_say("make the directory first");
    run("a", "-").ends(2);
    pair.command(&["a/"]).run().ends(2).says(["haul twoway A B"]);
    pair.command(&["a", "b", "link"]).run().ends(2);
    assert!(!pair.path("missing").exists());
    pair.is_settled();
}
