//! Conflicts: they stay until somebody decides.

use std::fs;

use haul_e2e::mode;

use super::{Pair, actions, event};

#[test]
fn a_conflict_stays_is_named_and_ends_with_status_6() {
    let pair = Pair::with(&["both", "gone-at-a", "d/f", "free"]);
    pair.put("a/both", "of A");
    pair.put("b/both", "of B!");
    pair.remove("a/gone-at-a");
    pair.put("b/gone-at-a", "changed at B");
    fs::remove_dir_all(pair.path("b/d")).unwrap();
    pair.put("a/d/new", "below a directory that is gone");
    pair.put("a/free", "goes on");
    let run = pair.run(&[]).ends(6);
    let text = run.stdout.clone();
    for path in ["both", "gone-at-a", "d"] {
        assert!(text.lines().any(|line| line.trim() == format!("?? conflict  {path}")), "{path}\n{text}");
    }
    assert!(text.contains("3 conflicts"), "{text}");
    assert_eq!(pair.both("both"), ["of A", "of B!"]);
    assert_eq!(pair.both("free"), ["goes on", "goes on"]);
    assert!(pair.path("a/d/f").exists() && !pair.path("b/d").exists() && !pair.path("a/gone-at-a").exists());
    // They are found again, with the same status, until they are resolved by hand.
    let lines = pair.json(&[]);
    assert!(actions(&lines).is_empty(), "{lines:?}");
    assert_eq!(event(&lines, "ended")["conflicts"], 3);
    pair.remove("b/gone-at-a");
    fs::remove_dir_all(pair.path("a/d")).unwrap();
    fs::copy(pair.path("a/both"), pair.path("b/both")).unwrap();
    pair.run(&[]).succeeds();
    pair.is_equal();
    pair.is_settled();
}

#[test]
fn a_conflict_of_modes_leaves_what_is_below_free() {
    let pair = Pair::with(&["d/f"]);
    pair.set_mode("a/d", 0o750);
    pair.set_mode("b/d", 0o711);
    pair.put("a/d/f", "changed");
    let lines = pair.json(&[]);
    assert_eq!(event(&lines, "conflict")["about"], "metadata");
    assert_eq!(pair.both("d/f"), ["changed", "changed"]);
    assert_eq!((mode(&pair.path("a/d")), mode(&pair.path("b/d"))), (0o750, 0o711));
    pair.run(&["--prefer", "b"]).succeeds();
    assert_eq!(mode(&pair.path("a/d")), 0o711);
    pair.is_settled();
}

/// Whether the files were written long ago or just now, one run decides.
#[test]
fn a_preference_decides_conflicts() {
    for is_recent in [false, true] {
        for (preference, expected) in [
            ("newer", "newer B"),
            ("older", "of A, larger"),
            ("larger", "of A, larger"),
            ("a", "of A, larger"),
            ("b", "newer B"),
        ] {
            let pair = Pair::with(&["f", "removed-at-b"]);
            let put = |path: &str, content: &str| match is_recent {
                true => pair.put_now(path, content),
                false => drop(pair.put(path, content)),
            };
            put("a/f", "of A, larger");
            put("a/removed-at-b", "changed at A");
            put("b/f", "newer B");
            pair.remove("b/removed-at-b");
            pair.run(&["--prefer", preference]).succeeds().does_not_say("changed since the scan");
            assert_eq!(pair.both("f"), [expected; 2], "{preference}, recent: {is_recent}");
            assert_eq!(pair.path("a/removed-at-b").exists(), preference != "b", "{preference}");
            pair.is_equal();
            pair.is_settled();
        }
    }
}

#[test]
fn a_preference_with_a_pattern_decides_for_its_paths() {
    let pair = Pair::with(&["d/x.log", "y.txt", "z"]);
    for path in ["d/x.log", "y.txt", "z"] {
        pair.put(format!("a/{path}"), "of A");
        pair.put(format!("b/{path}"), "of B!");
    }
    pair.run(&["--prefer", "b:*.log"]).ends(6);
    assert_eq!(
        (pair.both("d/x.log"), pair.both("z")),
        (["of B!", "of B!"].map(Into::into), ["of A", "of B!"].map(Into::into))
    );
    // A rule with a pattern goes before one without, in whichever order they stand.
    pair.run(&["--prefer", "a", "--prefer", "b:y.*"]).succeeds();
    assert_eq!(
        (pair.both("y.txt"), pair.both("z")),
        (["of B!", "of B!"].map(Into::into), ["of A", "of A"].map(Into::into))
    );
    for wrong in ["nobody", "b:", "B"] {
        pair.command(&["--prefer", wrong, "a", "b"]).run().ends(2).says(["--prefer", "newer, older, larger, a or b"]);
    }
}

#[test]
fn a_preference_decides_about_whole_directories() {
    for (preference, stays) in [("newer", true), ("b", false)] {
        let pair = Pair::with(&["d/e/f", "d/g", "stays"]);
        pair.put("a/d/e/f", "changed at A");
        fs::remove_dir_all(pair.path("b/d")).unwrap();
        pair.run(&[]).ends(6);
        pair.run(&["--prefer", preference]).succeeds();
        assert_eq!([pair.path("a/d/g").exists(), pair.path("b/d/g").exists()], [stays; 2], "{preference}");
        pair.is_equal();
        pair.is_settled();
    }
}

#[test]
fn both_files_of_a_conflict_are_kept() {
    for is_recent in [false, true] {
        let pair = Pair::with(&["photo.jpg", "d/gone", "l"]);
        let put = |path: &str, content: &str| match is_recent {
            true => pair.put_now(path, content),
            false => drop(pair.put(path, content)),
        };
        put("a/photo.jpg", "of A");
        put("b/photo.jpg", "of B!");
        put("b/d/gone", "changed at B");
        pair.remove("a/d/gone");
        pair.run(&["--keep-both"]).succeeds().does_not_say("changed since the scan");
        pair.is_equal();
        let names = pair.names()[0].clone();
        let kept: Vec<_> = names.iter().filter(|name| name.starts_with("photo.conflict-")).collect();
        assert_eq!(kept.len(), 1, "{names:?}");
        assert!(kept[0].ends_with(".jpg"), "{names:?}");
        assert_eq!(pair.both("photo.jpg"), ["of A", "of A"]);
        assert_eq!(pair.both(kept[0]), ["of B!", "of B!"]);
        assert_eq!(pair.both("d/gone"), ["changed at B", "changed at B"]);
        pair.is_settled();
        // The next conflict of this file gets another name, and the preference decides who keeps it.
        put("a/photo.jpg", "again A");
        put("b/photo.jpg", "again B!");
        pair.run(&["--keep-both", "--prefer", "b"]).succeeds();
        assert_eq!(pair.both("photo.jpg"), ["again B!", "again B!"]);
        assert_eq!(pair.names()[1].iter().filter(|name| name.contains(".conflict-")).count(), 2);
        pair.is_equal();
        pair.is_settled();
    }
}
