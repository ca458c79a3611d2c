//! What is refused, what is kept, and what a failure leaves.

use std::fs;
use std::os::unix::fs::symlink;

use haul_e2e::{is_root_or_skip, listing};

use super::{Pair, actions};

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
fn an_unreadable_directory_ends_the_run_before_anything_changes() {
    let pair = Pair::with(&["d/f", "g"]);
    if rustix::process::geteuid().is_root() {
        println!("SKIPPED: root reads every directory");
        return;
    }
    pair.put("a/g", "changed");
    pair.set_mode("b/d", 0);
    pair.run(&[]).ends(1).says(["d: ", "exclude it"]);
    pair.set_mode("b/d", 0o755);
    assert_eq!(pair.both("g"), ["changed", "g"]);
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
