//! Files with several names: hard links at the target as well, on request.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;

use haul_e2e::{Remote, Sandbox, compare, listing, set_mtime, stamp};

/// Names of one file in several directories, large and small, and one that has another name outside.
fn linked_tree(sandbox: &Sandbox) {
    let small = sandbox.file("source/a/small", "small");
    let large = sandbox.big_file("source/a/large", 5_000_000);
    sandbox.dir("source/b/c");
    fs::hard_link(&small, sandbox.path("source/a/small too")).unwrap();
    for (file, name) in [(&small, "small"), (&large, "large")] {
        fs::hard_link(file, sandbox.path(format!("source/b/{name}"))).unwrap();
        fs::hard_link(file, sandbox.path(format!("source/b/c/{name}"))).unwrap();
    }
    let outside = sandbox.file("outside", "outside");
    fs::hard_link(outside, sandbox.path("source/b/outside")).unwrap();
    sandbox.file("source/alone", "small");
}

fn inode(path: &Path) -> u64 {
    fs::metadata(path).unwrap().ino()
}

#[track_caller]
fn are_one(root: &Path) {
    for (name, names) in [("small", 4), ("large", 3)] {
        let first = root.join("a").join(name);
        assert_eq!(fs::metadata(&first).unwrap().nlink(), names, "{name}");
        for other in ["b", "b/c"] {
            assert_eq!(inode(&root.join(other).join(name)), inode(&first), "{other}/{name}");
        }
    }
    assert_eq!(inode(&root.join("a/small too")), inode(&root.join("a/small")));
    assert_eq!(fs::metadata(root.join("b/outside")).unwrap().nlink(), 1);
    assert_eq!(fs::metadata(root.join("alone")).unwrap().nlink(), 1);
}

#[test]
fn hard_links_are_kept_and_a_rerun_finds_them() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    linked_tree(&sandbox);
    set_mtime(&sandbox.path("source/b"), 1_500_000_000, 7);
    for options in [&["-r", "--hard-links"][..], &["-r", "--hard-links", "--fsync=none"]] {
        let target = sandbox.path(format!("target {}", options.len()));
        let push = || remote.haul(&sandbox).args(options).arg("source").arg(remote.at(&target));
        push().run().succeeds();
        compare(&sandbox.path("source"), &target).unwrap();
        are_one(&target);
        assert_eq!(haul_e2e::mtime(&target.join("b")), (1_500_000_000, 7));
        let before = stamp(&target.join("b/large"));
        push().run().succeeds();
        assert_eq!(stamp(&target.join("b/large")), before, "it was touched");
        are_one(&target);
    }
    sandbox.haul(["-r", "--hard-links", "source", "local"]).run().succeeds();
    are_one(&sandbox.path("local"));
    // The data is sent once, or without the option once for each name.
    sandbox.haul(["-r", "source", "apart"]).run().succeeds();
    compare(&sandbox.path("source"), &sandbox.path("apart")).unwrap();
    assert_eq!(fs::metadata(sandbox.path("apart/a/large")).unwrap().nlink(), 1);
}

#[test]
fn obstacles_of_a_hard_link_are_treated_like_those_of_a_file() {
    let sandbox = Sandbox::new();
    linked_tree(&sandbox);
    let other = sandbox.file("target/b/small", "something else");
    fs::create_dir_all(sandbox.path("target/b/c/large")).unwrap();
    let run = || sandbox.haul(["-r", "--hard-links", "source/.", "target"]);
    run().run().ends(1).says(["b/small", "already exists and differs", "b/c/large", "a directory of this name"]);
    assert_eq!(fs::read(&other).unwrap(), b"something else");
    fs::remove_dir(sandbox.path("target/b/c/large")).unwrap();
    run().arg("-f").run().succeeds();
    compare(&sandbox.path("source"), &sandbox.path("target")).unwrap();
    are_one(&sandbox.path("target"));
    // Files of their own that are the same stay, unless files are replaced.
    sandbox.haul(["-r", "source", "apart"]).run().succeeds();
    let join = || sandbox.haul(["-r", "--hard-links", "source/.", "apart"]);
    join().run().succeeds();
    assert_eq!(fs::metadata(sandbox.path("apart/a/large")).unwrap().nlink(), 1);
    join().arg("-f").run().succeeds();
    are_one(&sandbox.path("apart"));
    assert_eq!(listing(&sandbox.path("apart/b")), ["c", "large", "outside", "small"]);
}

#[test]
fn hard_links_of_an_uncopied_file_are_reported() {
    let sandbox = Sandbox::new();
    let file = sandbox.big_file("source/large", 5_000_000);
    sandbox.dir("source/below");
    fs::hard_link(&file, sandbox.path("source/below/too")).unwrap();
    fs::create_dir_all(sandbox.path("target/large")).unwrap();
    let run = sandbox.haul(["-r", "--hard-links", "source/.", "target"]).run().ends(1);
    run.says(["below/too", "the file with its contents was not copied"]);
    assert_eq!(listing(&sandbox.path("target/below")), [""; 0]);
}

#[test]
fn another_users_file_gets_no_hard_link_unless_the_source_has_its_owner() {
    let sandbox = Sandbox::new();
    let file = sandbox.file("source/a/first", "text");
    sandbox.dir("source/b");
    fs::hard_link(&file, sandbox.path("source/b/further")).unwrap();
    sandbox.haul(["-r", "source/a/.", "target/a", "--mkdir"]).run().succeeds();
    let first = sandbox.path("target/a/first");
    chown(&first, Some(12_345), None).unwrap();
    let run = |options: &[&str]| sandbox.haul(["-r", "--hard-links", "source/.", "target"]).args(options).run();
    run(&[]).ends(1).says(["b/further", "belongs to another user"]);
    assert!(!sandbox.path("target/b/further").exists());
    // In a directory of its owner, and with the source's owners, it is safe.
    chown(sandbox.path("target/b"), Some(12_345), None).unwrap();
    run(&[]).succeeds();
    assert_eq!(inode(&first), inode(&sandbox.path("target/b/further")));
    fs::remove_file(sandbox.path("target/b/further")).unwrap();
    chown(sandbox.path("target/b"), Some(0), None).unwrap();
    chown(&file, Some(12_345), None).unwrap();
    run(&["--preserve", "-f"]).succeeds();
    let further = sandbox.path("target/b/further");
    assert_eq!((inode(&further), fs::metadata(&further).unwrap().uid()), (inode(&first), 12_345));
}
