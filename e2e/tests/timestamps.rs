//! File systems with coarser timestamps than the source's: existing files are not sent again.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use haul_e2e::{Mount, ProgramRun, Remote, Sandbox, is_root_or_skip, mtime, set_mtime};

/// Times as they are at a source: with nanoseconds, odd seconds, and out of some file systems' ranges.
const TIMES: [(&str, i64, u32); 6] = [
    ("nanoseconds", 1_500_000_001, 123_456_789),
    ("almost", 1_500_000_001, 999_999_999),
    ("even", 1_500_000_002, 0),
    ("early", -86_401, 5),
    ("late", 5_000_000_001, 7),
    ("sub/deep", 1_600_000_003, 1),
];

fn source(sandbox: &Sandbox) {
    for (name, seconds, nanoseconds) in TIMES {
        set_mtime(&sandbox.file(format!("s/{name}"), name), seconds, nanoseconds);
    }
    set_mtime(&sandbox.big_file("s/large", 3_000_000), 1_500_000_001, 1);
    set_mtime(&sandbox.path("s/sub"), 1_500_000_003, 123_456_789);
    set_mtime(&sandbox.path("s"), 1_500_000_005, 123_456_789);
}

fn changes(run: &ProgramRun) -> Vec<String> {
    let items = run.events().into_iter().filter(|event| event["event"] == "item");
    items.map(|item| item.to_string()).collect()
}

/// Stamps that reveal any change.
fn stamps(root: &Path) -> Vec<(u64, i64, i64)> {
    let names = TIMES.iter().map(|(name, ..)| *name).chain(["", "sub", "large"]);
    let metas = names.map(|name| fs::symlink_metadata(root.join(name)).unwrap());
    metas.map(|meta| (meta.ino(), meta.ctime(), meta.ctime_nsec())).collect()
}

fn is_sent_once(sandbox: &Sandbox, mount: &Mount<'_>, has_links: bool) {
    source(sandbox);
    if has_links {
        symlink("even", sandbox.path("s/link")).unwrap();
        set_mtime(&sandbox.path("s/sub"), 1_500_000_003, 123_456_789);
        set_mtime(&sandbox.path("s"), 1_500_000_005, 123_456_789);
    }
    let target = mount.path().join("t");
    // FAT has neither owners nor modes of its own.
    let kept: &[&str] = if has_links { &["--json"] } else { &["--json", "--mode", "755"] };
    let sync =
        |options: &[&str]| sandbox.haul(["sync"]).args(kept).args(options).arg("s/").arg(&target).run().succeeds();
    assert_eq!(sync(&[]).summary()["files_copied"], 7);
    let before = stamps(&target);
    assert_ne!(mtime(&target.join("nanoseconds")), (1_500_000_001, 123_456_789), "this file system is not coarse");
    for options in [&["--items"][..], &["--dry-run"], &["--items", "--update"], &["--items", "--delete=before"]] {
        let again = sync(options);
        assert_eq!(again.summary()["files_copied"], 0, "{options:?} {}", again.account());
        assert_eq!(changes(&again), [""; 0], "{options:?} {}", again.account());
    }
    let copy = sandbox.haul(["-r", "--json", "s"]).arg(mount.path().join("t")).run();
    // A copy goes into the directory that is there, and then finds its own.
    copy.succeeds();
    let again = sandbox.haul(["-r", "--json", "s"]).arg(mount.path().join("t")).run().succeeds();
    assert_eq!(again.summary()["files_copied"], 0, "{}", again.account());
    fs::remove_dir_all(target.join("s")).unwrap();
    sync(&["--items"]);
    let remote = Remote::new(sandbox);
    let push = sandbox.haul(["sync"]).args(remote.sshd().haul_args()).args(kept).args(["--items", "s/"]);
    let push = push.arg(remote.at(&target)).run().succeeds();
    assert_eq!((push.summary()["files_copied"].as_u64(), changes(&push)), (Some(0), Vec::new()), "{}", push.account());
    let untouched = |stamps: Vec<(u64, i64, i64)>| stamps.into_iter().enumerate().filter(|(at, _)| *at != 6);
    assert!(untouched(stamps(&target)).eq(untouched(before)), "nothing was touched but the directory itself");
    // A change of more than the granularity is seen.
    set_mtime(&sandbox.path("s/even"), 1_500_000_004, 0);
    set_mtime(&sandbox.path("s/early"), 1_400_000_000, 0);
    let changed = sync(&["--items"]);
    assert_eq!(changed.summary()["files_copied"], 2, "{}", changed.account());
    assert_eq!(mtime(&target.join("even")), (1_500_000_004, 0));
}

#[test]
fn ext4_with_small_inodes_receives_only_new_files() {
    if !is_root_or_skip("mounting a file system") {
        return;
    }
    let sandbox = Sandbox::new();
    let Some(mount) = sandbox.image_with("ext4", &["-q", "-I", "128"], 64 << 20) else { return };
    is_sent_once(&sandbox, &mount, true);
    // A file of an earlier copy is linked, though its time is coarse.
    let next = mount.path().join("next");
    sandbox.haul(["sync", "--link-dest", "../t", "s/"]).arg(&next).run().succeeds();
    for name in ["nanoseconds", "almost", "late", "sub/deep"] {
        assert_eq!(fs::metadata(next.join(name)).unwrap().nlink(), 2, "{name}");
    }
}

#[test]
fn fat_receives_only_new_files() {
    if !is_root_or_skip("mounting a file system") {
        return;
    }
    let sandbox = Sandbox::new();
    let Some(mount) = sandbox.image_with("vfat", &[], 64 << 20) else { return };
    is_sent_once(&sandbox, &mount, false);
}

#[test]
fn times_within_a_window_are_equal() {
    let sandbox = Sandbox::new();
    source(&sandbox);
    sandbox.haul(["sync", "s/", "t"]).run().succeeds();
    let early = 1_499_999_999;
    set_mtime(&sandbox.path("t/nanoseconds"), early, 5);
    set_mtime(&sandbox.path("t/sub"), 1_500_000_001, 5);
    let sync = |options: &[&str]| {
        let run = sandbox.haul(["sync", "--json", "--dry-run"]).args(options).args(["s/", "t"]).run().succeeds();
        changes(&run).len()
    };
    assert_eq!([sync(&[]), sync(&["--modify-window", "1"]), sync(&["--modify-window", "2"])], [2, 2, 0]);
    sandbox.haul(["sync", "--modify-window=2", "s/", "t"]).run().succeeds();
    assert_eq!(mtime(&sandbox.path("t/nanoseconds")), (early, 5), "it stays as it is");
    set_mtime(&sandbox.path("t/nanoseconds"), 1_500_000_001, 5);
    set_mtime(&sandbox.path("t/sub"), 1_500_000_003, 5);
    assert_eq!([sync(&[]), sync(&["--modify-window", "0"])], [2, 0]);
    // Newer by less than the window is not newer.
    fs::write(sandbox.path("t/nanoseconds"), "something else").unwrap();
    set_mtime(&sandbox.path("t/sub"), 1_500_000_003, 123_456_789);
    set_mtime(&sandbox.path("t/nanoseconds"), 1_500_000_003, 0);
    assert_eq!([sync(&["--update"]), sync(&["--update", "--modify-window=2"])], [0, 1]);
    sandbox.haul(["sync", "--modify-window", "-1", "s/", "t"]).run().ends(2);
}
