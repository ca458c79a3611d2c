//! `--watch`: changes arrive without another command, and nothing runs while nothing happens.

use std::fs;
use std::path::Path;
use std::time::Duration;

use haul_e2e::{Haul, HostPair, ProgramRun, Remote, Running, Sandbox, compare, eventually, within};
use rustix::process::Signal;

/// Time in which nothing may happen.
const QUIET: Duration = Duration::from_millis(700);

/// Waits until both trees are equal.
fn arrives(what: &str, source: &Path, target: &Path) {
    eventually(what, || compare(source, target).is_ok());
}

fn end(running: Running) -> ProgramRun {
    running.signal(Signal::INT);
    ProgramRun::of(running).ends(4)
}

/// Edits of every kind below `root`, each of which `arrived` waits for.
fn edit(root: &Path, arrived: impl Fn(&str)) {
    fs::write(root.join("tree/a frame"), "changed").unwrap();
    arrived("a changed file");
    fs::create_dir_all(root.join("new/deep")).unwrap();
    fs::write(root.join("new/deep/file"), "new").unwrap();
    arrived("a new directory");
    fs::write(root.join("new/deep/file"), "newer").unwrap();
    fs::write(root.join("new/deep/other"), "other").unwrap();
    arrived("changes in a new directory");
    fs::rename(root.join("new"), root.join("tree/moved")).unwrap();
    arrived("a moved directory");
    fs::remove_dir_all(root.join("tree/moved/deep")).unwrap();
    arrived("a removed directory");
    std::os::unix::fs::symlink("a frame", root.join("tree/link")).unwrap();
    fs::hard_link(root.join("tree/a frame"), root.join("tree/second name")).unwrap();
    arrived("links");
}

fn sync_follows(haul: Haul<'_>, source: &Path, target: &Path) {
    let running = haul.start();
    arrives("the first run", source, target);
    edit(source, |what| arrives(what, source, target));
    end(running).says(["watching"]);
}

#[test]
fn a_sync_follows_its_source() {
    let sandbox = Sandbox::new();
    sandbox.tree("source/tree");
    let haul = sandbox.haul(["sync", "--delete", "--watch", "source/", "target/"]);
    sync_follows(haul, &sandbox.path("source"), &sandbox.path("target"));
}

#[test]
fn a_sync_follows_a_remote_source() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.tree("source/tree");
    let from = remote.at(sandbox.path("source/"));
    let haul = remote.haul(&sandbox).args(["sync", "--delete", "--watch"]).arg(from).arg("target/");
    sync_follows(haul, &sandbox.path("source"), &sandbox.path("target"));
    remote.is_left_clean();
}

#[test]
fn only_changed_paths_are_touched() {
    let sandbox = Sandbox::new();
    sandbox.tree("source/tree");
    sandbox.file("source/cache/x", "x");
    let words = ["sync", "--delete", "--watch", "--exclude", "cache", "-v", "source/", "target/"];
    let running = sandbox.haul(words).start();
    eventually("the first run", || sandbox.path("target/tree/a frame").exists());
    std::thread::sleep(QUIET);
    // What others did at the target stays, until something changes there at the source.
    fs::write(sandbox.path("target/extraneous"), "").unwrap();
    fs::write(sandbox.path("source/cache/x"), "excluded").unwrap();
    fs::write(sandbox.path("source/tree/new"), "new").unwrap();
    eventually("a new file", || sandbox.path("target/tree/new").exists());
    std::thread::sleep(QUIET);
    assert!(sandbox.path("target/extraneous").exists() && !sandbox.path("target/cache").exists());
    fs::write(sandbox.path("source/extraneous"), "").unwrap();
    fs::remove_file(sandbox.path("source/extraneous")).unwrap();
    eventually("a removal", || !sandbox.path("target/extraneous").exists());
    // The last entry may go, too: that it went was seen.
    fs::remove_dir_all(sandbox.path("source/tree")).unwrap();
    eventually("all removed", || !sandbox.path("target/tree").exists());
    end(running).does_not_say("cache");
}

#[test]
fn nothing_runs_while_nothing_happens() {
    let sandbox = Sandbox::new();
    sandbox.tree("source/tree");
    let running = sandbox.haul(["sync", "--watch", "--json", "source/", "target/"]).start();
    arrives("the first run", &sandbox.path("source"), &sandbox.path("target"));
    std::thread::sleep(QUIET);
    let ended = end(running);
    let runs = ended.stdout.lines().filter(|line| line.contains("\"event\":\"summary\"")).count();
    assert_eq!(runs, 1, "{}", ended.stdout);
}

#[test]
fn a_failed_run_is_made_again() {
    let sandbox = Sandbox::new();
    let pair = HostPair::new(&sandbox);
    sandbox.tree("source/tree");
    let words = ["sync", "--watch", "--no-ssh-reuse", "--retries", "0", "source/"];
    let running = pair.haul(&sandbox).args(words).arg(pair.at(sandbox.path("target/"))).start();
    arrives("the first run", &sandbox.path("source"), &sandbox.path("target"));
    pair.refuse_ssh();
    fs::write(sandbox.path("source/tree/late"), "late").unwrap();
    assert!(!within(QUIET, || sandbox.path("target/tree/late").exists()));
    pair.heal();
    eventually("the next attempt", || sandbox.path("target/tree/late").exists());
    end(running).says(["the next attempt follows in 1 s"]);
}

#[test]
fn a_lost_watch_misses_nothing() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.tree("source/tree");
    let from = remote.at(sandbox.path("source/"));
    let running = remote.haul(&sandbox).args(["sync", "--watch"]).arg(from).arg("target/").start();
    arrives("the first run", &sandbox.path("source"), &sandbox.path("target"));
    remote.sshd().end_sessions();
    fs::write(sandbox.path("source/tree/late"), "late").unwrap();
    eventually("the next session", || sandbox.path("target/tree/late").exists());
    end(running);
}

#[test]
fn two_replicas_follow_each_other() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.tree("a/tree");
    sandbox.dir("b");
    let haul = remote.haul(&sandbox).env("XDG_STATE_HOME", sandbox.path("state"));
    let running = haul.args(["twoway", "--batch", "--watch", "a"]).arg(remote.at(sandbox.path("b"))).start();
    let [a, b] = ["a", "b"].map(|side| sandbox.path(side));
    arrives("the first run", &a, &b);
    edit(&a, |what| arrives(what, &a, &b));
    fs::remove_dir_all(b.join("tree/moved")).unwrap();
    arrives("a removal at the other side", &b, &a);
    assert!(!a.join("tree/moved").exists());
    fs::write(b.join("of-b"), "of B").unwrap();
    arrives("a file of the other side", &b, &a);
    // Twenty files are most of what has changed, and few of the replica's.
    (0..20).for_each(|at| fs::write(a.join(format!("many-{at}")), "many").unwrap());
    arrives("many files", &a, &b);
    (0..20).for_each(|at| fs::remove_file(b.join(format!("many-{at}"))).unwrap());
    arrives("many removals", &b, &a);
    end(running);
}

#[test]
fn contradictory_options_are_refused() {
    let sandbox = Sandbox::new();
    sandbox.tree("source");
    sandbox.haul(["--watch", "-r", "source", "target"]).run().ends(2).says(["--watch needs haul sync"]);
    sandbox.haul(["sync", "--watch", "-n", "source", "target"]).run().ends(2).says(["--watch cannot be used with -n"]);
    sandbox.haul(["sync", "--watch", "source", "source", "target"]).run().ends(2).says(["--watch watches one source"]);
    sandbox.haul(["twoway", "--watch", "--plan", "source", "target"]).run().ends(2).says(["--watch", "--plan"]);
    sandbox.haul(["sync", "--watch", "missing", "target"]).run().ends(1).says(["missing: cannot be watched"]);
}
