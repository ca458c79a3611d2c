//! `haul job run` to a target with too little space or too few inodes: refused before it begins, or held while it is
//! planned. What is at the target already counts for a job that has begun there, and elsewhere makes it a notice.

use std::fs::{self, File};
use std::time::Duration;

use haul_e2e::{Haul, Mount, ProgramRun, Remote, Sandbox, eventually, is_root_or_skip, listing};

fn job<'a>(sandbox: &'a Sandbox, words: &[&str]) -> Haul<'a> {
    sandbox.haul(["job"]).args(words).limit(Duration::from_secs(120))
}

/// 20 MB in four files, and a target of this size.
fn large<'a>(sandbox: &'a Sandbox, options: &str) -> Option<Mount<'a>> {
    if !is_root_or_skip("mounting a small file system") {
        return None;
    }
    (0..4).for_each(|number| drop(sandbox.big_file(format!("src/{number}"), 5_000_000)));
    Some(sandbox.tmpfs("to", options))
}

const SHARDS: [&str; 6] = ["-r", "--dir", "job", "--shard-bytes", "5m", "src"];

#[test]
fn a_planned_job_that_cannot_fit_is_refused_until_there_is_space() {
    let sandbox = Sandbox::new();
    let Some(target) = large(&sandbox, "size=12m") else { return };
    job(&sandbox, &["plan"]).args(SHARDS).args(["to"]).run().succeeds();
    let run = job(&sandbox, &["run", "job"]).run().ends(1);
    run.says(["/to: no space: the job needs 20.0 MB, but only 12.", "hint: free space, or plan", "--nofschk"]);
    assert_eq!(listing(target.path()), [""; 0]);
    assert_eq!(listing(&sandbox.path("job/attempts")), [""; 0]);
    target.remount("size=40m");
    job(&sandbox, &["run", "job"]).run().succeeds();
    sandbox.haul(["verify", "-r", "src", "to"]).run().succeeds();
    assert_eq!(listing(target.path()), ["src"]);
}

#[test]
fn a_job_that_turns_out_too_large_while_it_is_planned_is_held() {
    let sandbox = Sandbox::new();
    let Some(target) = large(&sandbox, "size=12m") else { return };
    let remote = Remote::new(&sandbox);
    let words: Vec<_> = remote.sshd().haul_args();
    let run = job(&sandbox, &["run"]).args(words).args(SHARDS).args([remote.at(target.path())]).run().ends(1);
    run.says(["127.0.0.1:", "to: no space: the job needs 20.0 MB, but only 12."]);
    let status = job(&sandbox, &["status", "job"]).run().ends(1).stdout;
    assert!(status.contains("held: ") && status.contains("no space: the job needs"), "{status}");
    target.remount("size=40m");
    job(&sandbox, &["run", "job"]).run().succeeds();
    sandbox.haul(["verify", "-r", "src", "to"]).run().succeeds();
}

#[test]
fn what_a_job_has_copied_needs_no_more_space() {
    let sandbox = Sandbox::new();
    let Some(target) = large(&sandbox, "size=40m") else { return };
    job(&sandbox, &["plan", "--xfrrate", "4m"]).args(SHARDS).args(["to"]).run().succeeds();
    let running = job(&sandbox, &["run", "job"]).start();
    eventually("two results", || listing(&sandbox.path("job/results")).len() >= 2);
    job(&sandbox, &["cancel", "job"]).run().succeeds();
    ProgramRun::of(running).ends(4);
    let skipped = listing(&sandbox.path("job/running"));
    assert_eq!(skipped, [""; 0], "a job that runs is not checked");
    target.remount("size=23m");
    let run = job(&sandbox, &["run", "job"]).run().succeeds();
    assert!(!run.stderr.contains("no space"), "{}", run.account());
    target.remount("size=40m");
    fs::remove_dir_all(target.path().join("src")).unwrap();
    sandbox.big_file("to/another", 30_000_000);
    job(&sandbox, &["run", "job"]).run().ends(1).says(["needs 20.0 MB, but only"]);
}

#[test]
fn a_tree_that_was_there_before_the_job_makes_it_a_notice() {
    let sandbox = Sandbox::new();
    let Some(_target) = large(&sandbox, "size=23m") else { return };
    sandbox.haul(["-r", "src", "to"]).run().succeeds();
    for (words, name) in [(&["--dir", "job"][..], "job"), (&["--dir", "synced", "--sync"], "synced")] {
        let source = if name == "job" { ["src", "to"] } else { ["src/", "to/src"] };
        let run = job(&sandbox, &["run", "-r"]).args(words).args(source).run().succeeds();
        run.says(["no space: the job needs 20.0 MB", "fits only if enough files are up to date"]);
    }
}

#[test]
fn holes_need_no_space_and_inodes_are_counted() {
    if !is_root_or_skip("mounting a small file system") {
        return;
    }
    let sandbox = Sandbox::new();
    let holes = File::create(sandbox.file("src/holes", "")).unwrap();
    holes.set_len(1 << 30).unwrap();
    let _small = sandbox.tmpfs("small", "size=8m");
    job(&sandbox, &["run", "-r", "--sparse", "--dir", "sparse", "src", "small"]).run().succeeds();
    (0..300).for_each(|number| drop(sandbox.file(format!("src/{number}"), "x")));
    let _few = sandbox.tmpfs("few", "nr_inodes=100");
    let run = job(&sandbox, &["run", "-r", "--dir", "many", "src", "few"]).run().ends(1);
    run.says(["few: no space: the job needs 301 inodes, but only 9", " are free"]);
    let run = job(&sandbox, &["run", "-r", "--nofschk", "--dir", "unchecked", "src", "few"]).run();
    assert!(!run.stderr.contains("the job needs"), "{}", run.account());
}
