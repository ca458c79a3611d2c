//! A case-insensitive target: of two names that are equal there, one is copied, and nothing is overwritten.

use std::fs;
use std::os::unix::fs::symlink;

use haul_e2e::{Sandbox, listing};
use haul_lab::{Oddities, SlowFs};

/// Names that differ only in case are one.
const FOLDING: Oddities = Oddities {
    folds: true,
    owner: None,
    shown_mode: None,
    drops_single_times: false,
    empty_links: false,
    lists_twice: false,
    layouts: None,
};

#[test]
fn of_two_names_equal_at_the_target_one_fails_and_nothing_is_overwritten() {
    if !SlowFs::available() {
        println!("SKIPPED: a FUSE file system needs root and /dev/fuse");
        return;
    }
    let sandbox = Sandbox::new();
    for (name, content) in [("readme", "small"), ("README", "LARGE"), ("dir/a", "a"), ("DIR/b", "b"), ("other", "x")] {
        sandbox.file(format!("source/{name}"), content);
    }
    symlink("a", sandbox.path("source/link")).unwrap();
    symlink("B", sandbox.path("source/LINK")).unwrap();
    let place = SlowFs::mount_odd(sandbox.dir("folding"), FOLDING).unwrap();
    let target = place.path().join("target");
    for options in [&["-r"][..], &["-r"], &["-r", "-f"]] {
        let run = sandbox.haul(options).arg("source/.").arg(&target).run().ends(1);
        let run = run.says(["readme", "dir", "link"]);
        let there = listing(&target);
        let lower: Vec<_> = there.iter().map(|name| name.to_lowercase()).collect();
        assert_eq!(lower.len(), 4, "{there:?}\n{}", run.account());
        let spelled = |name: &str| there.iter().find(|there| there.eq_ignore_ascii_case(name)).cloned().unwrap();
        let (readme, dir, link) = (spelled("readme"), spelled("dir"), spelled("link"));
        assert_eq!(fs::read(target.join(&readme)).unwrap(), fs::read(sandbox.path("source").join(&readme)).unwrap());
        assert_eq!(listing(&target.join(&dir)), listing(&sandbox.path("source").join(&dir)));
        assert_eq!(
            fs::read_link(target.join(&link)).unwrap(),
            fs::read_link(sandbox.path("source").join(&link)).unwrap()
        );
    }
    let again = sandbox.haul(["-r", "-f"]).arg("source/.").arg(&target).run().ends(1);
    again.says(["this file system takes an existing name"]);
    // A name without a rival is replaced as usual.
    sandbox.file("source/other", "changed");
    sandbox.haul(["-f", "source/other"]).arg(&target).run().succeeds();
    assert_eq!(fs::read(target.join("other")).unwrap(), b"changed");
}

#[test]
fn a_sync_removes_extraneous_names_and_never_mere_spelling_variants() {
    if !SlowFs::available() {
        println!("SKIPPED: a FUSE file system needs root and /dev/fuse");
        return;
    }
    for when in ["--delete", "--delete=during", "--delete=before"] {
        let sandbox = Sandbox::new();
        for name in ["Readme", "dir/Inner", "Folder/x", "Alone", "alone.dir/x"] {
            sandbox.file(format!("old/{name}"), name);
        }
        let place = SlowFs::mount_odd(sandbox.dir("folding"), FOLDING).unwrap();
        let target = place.path().join("target");
        sandbox.haul(["sync", "old/"]).arg(&target).run().succeeds();
        for name in ["README", "dir/inner", "FOLDER/x", "new"] {
            sandbox.file(format!("source/{name}"), "new");
        }
        let run = sandbox.haul(["sync", when, "--ignore-errors", "source/"]).arg(&target).run().ends(1);
        run.says(["README", "inner", "FOLDER", "this file system takes an existing name"]);
        assert_eq!(listing(&target), ["Folder", "Readme", "dir", "new"], "{when}");
        let kept = ["Readme", "dir/Inner", "Folder/x"].map(|name| fs::read(target.join(name)).unwrap());
        assert_eq!(kept, [&b"Readme"[..], b"dir/Inner", b"Folder/x"], "{when}");
    }
}

#[test]
fn two_way_synchronisation_names_them_before_anything_moves() {
    if !SlowFs::available() {
        println!("SKIPPED: a FUSE file system needs root and /dev/fuse");
        return;
    }
    let sandbox = Sandbox::new();
    let place = SlowFs::mount_odd(sandbox.dir("folding"), FOLDING).unwrap();
    let target = place.path().join("b");
    fs::create_dir(&target).unwrap();
    sandbox.file("a/readme", "1");
    let run = || sandbox.haul(["twoway", "--batch", "a"]).arg(&target).env("XDG_STATE_HOME", sandbox.path("state"));
    run().run().succeeds();
    for (name, content) in [("README", "2"), ("dir/x", "3"), ("DIR/y", "4"), ("other", "5")] {
        sandbox.file(format!("a/{name}"), content);
    }
    run().run().ends(1).says(["README: this file system takes an existing name"]);
    assert_eq!(fs::read(target.join("readme")).unwrap(), b"1");
    assert_eq!(fs::read(target.join("other")).unwrap(), b"5");
    // The second of two new ones is left out, with all below it.
    let visible = listing(&target).into_iter().filter(|name| !name.starts_with(".haul-"));
    assert_eq!(visible.count(), 3);
    assert_eq!(fs::read(sandbox.path("a/dir/x")).unwrap(), b"3");
    assert_eq!(fs::read(sandbox.path("a/DIR/y")).unwrap(), b"4");
    run().run().ends(1);
    assert_eq!(fs::read(sandbox.path("a/README")).unwrap(), b"2");
}
