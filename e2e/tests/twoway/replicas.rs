//! Replicas and archives that are not as the last run left them: nothing is lost, and nothing comes back.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use haul_lab::find_program;

use super::{Pair, UNION, actions};

/// Copies a tree with its extended attributes, the replica's id among them.
fn copy(from: PathBuf, to: PathBuf) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(copied.success());
}

/// The archives in the state directory: one for each end, if both ends are here.
fn archives(pair: &Pair) -> Vec<PathBuf> {
    let pairs = fs::read_dir(pair.path("state/haul/twoway")).unwrap().flatten();
    let pairs = pairs.filter(|entry| entry.file_name() != "roots");
    pairs.flat_map(|entry| fs::read_dir(entry.path()).unwrap().flatten().map(|file| file.path())).collect()
}

#[test]
fn a_moved_root_is_known_again() {
    let pair = Pair::with(&["f", "gone"]);
    fs::rename(pair.path("b"), pair.path("elsewhere")).unwrap();
    pair.remove("a/gone");
    pair.command(&["--batch", "a", "elsewhere"]).run().succeeds().does_not_say(UNION);
    assert!(!pair.path("elsewhere/gone").exists());
    // The sides may be named in the other order.
    pair.remove("elsewhere/f");
    pair.command(&["--batch", "--allow-empty-source", "elsewhere", "a"]).run().succeeds().does_not_say(UNION);
    assert!(!pair.path("a/f").exists());
}

#[test]
fn a_copied_root_is_a_new_replica() {
    let pair = Pair::with(&["f", "g"]);
    copy(pair.path("a"), pair.path("copy"));
    pair.remove("copy/f");
    pair.put("copy/new", "of the copy");
    pair.command(&["--batch", "copy", "b"]).run().succeeds().says(["is a copy of another replica", UNION]);
    assert!(pair.path("copy/f").exists() && pair.path("b/new").exists());
    // The original is what it was.
    pair.remove("a/g");
    pair.run(&[]).succeeds().does_not_say(UNION);
    assert_eq!(pair.names(), [["f", "new"], ["f", "new"]]);
}

#[test]
fn a_restored_backup_loses_nothing() {
    if find_program("rsync").is_none() {
        println!("SKIPPED: restoring a backup needs rsync");
        return;
    }
    let pair = Pair::with(&["changed", "gone", "stays"]);
    let rsync = |words: &[&str]| {
        let copied = Command::new("rsync").args(["-aX"]).args(words).current_dir(pair.path("")).status().unwrap();
        assert!(copied.success());
    };
    rsync(&["a/", "backup/"]);
    pair.remove("b/gone");
    pair.put("a/changed", "after the backup");
    pair.put("a/new", "after the backup");
    pair.run(&[]).succeeds();
    rsync(&["--delete", "backup/", "a/"]);
    pair.run(&[]).ends(6).says(["older than the last run", UNION]);
    // What the restored side lacks comes from the other; what differs is a conflict.
    assert_eq!(pair.names(), [["changed", "gone", "new", "stays"]; 2]);
    assert_eq!(pair.both("changed"), ["changed", "after the backup"]);
    pair.run(&["--prefer", "b"]).succeeds();
    pair.is_equal();
    pair.is_settled();
}

#[test]
fn without_the_archive_nothing_is_deleted() {
    for damage in ["lost", "truncated", "changed", "of a later version"] {
        let pair = Pair::with(&["changed", "gone", "same"]);
        for file in archives(&pair) {
            let mut bytes = fs::read(&file).unwrap();
            let middle = bytes.len() / 2;
            match damage {
                "truncated" => bytes.truncate(middle),
                "changed" => bytes[middle] ^= 1,
                _ => bytes[8] = 99,
            }
            fs::write(&file, bytes).unwrap();
        }
        if damage == "lost" {
            fs::remove_dir_all(pair.path("state")).unwrap();
        }
        pair.remove("a/gone");
        pair.put("a/changed", "at A");
        pair.put("b/new", "of B");
        pair.run(&[]).ends(6).says([UNION]);
        assert_eq!(pair.both("gone"), ["gone", "gone"], "{damage}");
        assert_eq!(
            (pair.both("changed"), pair.both("new")),
            (["at A", "changed"].map(Into::into), ["of B", "of B"].map(Into::into))
        );
        // From here on it is a pair as any other.
        pair.remove("b/same");
        pair.run(&["--prefer", "a"]).succeeds().does_not_say(UNION);
        assert_eq!(pair.names(), [["changed", "gone", "new"]; 2], "{damage}");
        pair.is_settled();
    }
}

/// Each end keeps the generation before the last, which both have.
#[test]
fn the_generation_before_stands_in_for_a_damaged_one() {
    let pair = Pair::with(&["first", "gone"]);
    pair.put("a/second", "second");
    pair.run(&[]).succeeds();
    let files = archives(&pair);
    let is_newest = |file: &&PathBuf| file.file_name().is_some_and(|name| name == "2");
    assert_eq!((files.len(), files.iter().filter(is_newest).count()), (4, 2));
    fs::write(files.iter().find(is_newest).unwrap(), "damaged").unwrap();
    pair.remove("b/gone");
    pair.put("a/first", "changed");
    let run = pair.run(&["--json"]).succeeds();
    assert_eq!(actions(&run.events()), ["copy b first", "delete a gone"]);
    pair.is_equal();
    pair.is_settled();
}
