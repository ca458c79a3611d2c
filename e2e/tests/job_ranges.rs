//! `haul job` with large files in ranges: shards in any order, at once, killed and run again give the source. Also
//! other ends of a range or its file.

use std::os::unix::fs::{MetadataExt, chown};
use std::path::PathBuf;
use std::time::Duration;
use std::{fs, thread};

use haul_e2e::{
    Haul, ProgramRun, Remote, Sandbox, compare, eventually, is_root_or_skip, listing, mode, mtime, set_mtime,
};
use serde_json::Value;

const RANGE: u64 = 8 << 20;
const RANGES: u64 = 5;
/// Four ranges, and a rest that ends within a frame.
const LARGE: u64 = 4 * RANGE + 1_500_001;

fn job<'a>(sandbox: &'a Sandbox, words: &[&str]) -> Haul<'a> {
    sandbox.haul(["job"]).args(words)
}

/// A file of five ranges, one of two, one of just one, and small ones.
fn tree(sandbox: &Sandbox) {
    sandbox.big_file("src/dir/large", LARGE);
    sandbox.big_file("src/two ranges", RANGE + 1);
    sandbox.big_file("src/one range", RANGE);
    (0..40).for_each(|number| drop(sandbox.file(format!("src/small/{number}"), number.to_string())));
    set_mtime(&sandbox.path("src/dir/large"), 1_500_000_000, 7);
    sandbox.dir("to");
}

fn plan(sandbox: &Sandbox, more: &[&str]) {
    job(sandbox, &["plan", "-aHAX", "--dir", "job", "--shard-range", "8m"])
        .args(more)
        .args(["src", "to"])
        .run()
        .succeeds();
}

fn shard(sandbox: &Sandbox, number: u32) -> Haul<'_> {
    job(sandbox, &["shard", "--json", "job"]).arg(number.to_string())
}

/// Shards with a range of a file of so many ranges, in their order; and all others.
fn shards(sandbox: &Sandbox, ranges: u64) -> (Vec<u32>, Vec<u32>) {
    let status = job(sandbox, &["status", "--json", "job"]).run();
    let mut of_file = Vec::new();
    let mut others = Vec::new();
    for event in status.events().into_iter().filter(|event| event["event"] == "shard") {
        let number = u32::try_from(event["shard"].as_u64().unwrap()).unwrap();
        match event["range"]["of"].as_u64() {
            Some(of) if of == ranges => of_file.push((event["range"]["number"].as_u64().unwrap(), number)),
            _ => others.push(number),
        }
    }
    of_file.sort_unstable();
    assert_eq!(of_file.len() as u64, ranges, "{}", status.account());
    (of_file.into_iter().map(|(_, number)| number).collect(), others)
}

fn is_the_source(sandbox: &Sandbox) {
    compare(&sandbox.path("src"), &sandbox.path("to/src")).unwrap();
    for name in ["dir/large", "two ranges"].into_iter().filter(|name| sandbox.path("src").join(name).exists()) {
        let [source, target] = ["src", "to/src"].map(|root| sandbox.path(root).join(name));
        assert_eq!((mode(&source), mtime(&source)), (mode(&target), mtime(&target)), "{name}");
    }
    sandbox.haul(["verify", "-aHAX", "src", "to"]).run().succeeds();
    assert_eq!(left(sandbox), [""; 0]);
}

/// Temporary files in the directories of the large files.
fn left(sandbox: &Sandbox) -> Vec<String> {
    let names = ["to/src", "to/src/dir"].map(|dir| sandbox.path(dir)).into_iter();
    let names = names.filter(|dir| dir.exists()).flat_map(|dir| listing(&dir));
    names.filter(|name| name.starts_with(".haul-")).collect()
}

fn figures(summary: &Value) -> (u64, u64) {
    (summary["bytes"].as_u64().unwrap(), summary["bytes_skipped"].as_u64().unwrap())
}

#[test]
fn ranges_in_any_order_parallel_and_killed_give_the_source() {
    let sandbox = Sandbox::new();
    tree(&sandbox);
    plan(&sandbox, &["--xfrrate", "24m"]);
    let (ranges, others) = shards(&sandbox, RANGES);
    let [first, second, third, fourth, last] = ranges[..] else { panic!("{ranges:?}") };

    // Killed in the middle: the next run of the range resumes.
    let running = shard(&sandbox, third).start();
    thread::sleep(Duration::from_millis(900));
    drop(running);
    assert!(!sandbox.path("to/src/dir/large").exists());
    let (written, skipped) = figures(&shard(&sandbox, third).run().succeeds().summary());
    assert_eq!(written + skipped, RANGE);
    assert!(skipped > 0, "nothing of the killed run is used");

    // Two ranges of one file at once.
    let both = [last, second].map(|number| shard(&sandbox, number).start());
    both.into_iter().for_each(|run| drop(ProgramRun::of(run).succeeds()));

    // A finished range moves no data.
    let (written, skipped) = figures(&shard(&sandbox, third).run().succeeds().summary());
    assert_eq!((written, skipped), (0, RANGE));
    let (written, skipped) = figures(&shard(&sandbox, last).run().succeeds().summary());
    assert_eq!((written, skipped), (0, LARGE - 4 * RANGE));

    others.iter().for_each(|number| drop(shard(&sandbox, *number).run().succeeds()));
    shard(&sandbox, fourth).run().succeeds();
    job(&sandbox, &["finish", "job"]).run().ends(1).says(["1 shard is not done"]);
    shard(&sandbox, first).run().succeeds();
    assert!(!sandbox.path("to/src/dir/large").exists(), "no range gives the file its name");
    job(&sandbox, &["finish", "--verify", "job"]).run().succeeds();
    is_the_source(&sandbox);

    let report: Value = serde_json::from_slice(&fs::read(sandbox.path("job/report.json")).unwrap()).unwrap();
    assert_eq!(report["files_copied"].as_u64().unwrap() + report["files_skipped"].as_u64().unwrap(), 43, "{report}");
    // Once more for all: there is no work left, and no leftover files.
    for number in [first, third, last] {
        assert_eq!(figures(&shard(&sandbox, number).run().succeeds().summary()).0, 0);
    }
    job(&sandbox, &["finish", "job"]).run().succeeds();
    is_the_source(&sandbox);
}

#[test]
fn a_job_with_ranges_runs_on_one_host_with_any_options() {
    for options in
        [&[][..], &["--verify=disk"], &["--fsync=full"], &["--verify=memory", "--unbuffered", "st", "--streams", "3"]]
    {
        let sandbox = Sandbox::new();
        tree(&sandbox);
        sandbox.big_file("to/src/dir/large", 3_000_000);
        let words = ["run", "-aHAX", "-f", "--dir", "job", "--shard-range", "8m", "--local", "3"];
        job(&sandbox, &words).args(options).args(["src", "to"]).limit(Duration::from_secs(120)).run().succeeds();
        is_the_source(&sandbox);
    }
}

#[test]
fn ranges_are_copied_to_another_host() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    tree(&sandbox);
    let to = remote.at(sandbox.path("to")).into_string().unwrap();
    let words = ["-aHAX", "--dir", "job", "--shard-range", "8m", "--local", "2", "--then-verify", "src", &to];
    job(&sandbox, &["run"]).args(remote.sshd().haul_args()).args(words).run().succeeds();
    is_the_source(&sandbox);
}

#[test]
fn a_source_changed_after_the_plan_is_named() {
    let sandbox = Sandbox::new();
    tree(&sandbox);
    plan(&sandbox, &[]);
    let (ranges, _) = shards(&sandbox, RANGES);
    shard(&sandbox, ranges[0]).run().succeeds();
    set_mtime(&sandbox.path("src/dir/large"), 1_600_000_000, 0);
    let run = job(&sandbox, &["shard", "job"]).arg(ranges[1].to_string()).run().ends(1);
    run.says(["large", "has changed since the job was planned", "haul job plan"]);
    assert!(!sandbox.path("to/src/dir/large").exists());
    // The file counts once, however many of its ranges have failed.
    ranges[2..].iter().for_each(|number| drop(shard(&sandbox, *number).run().ends(1)));
    let report: Value = serde_json::from_str(&job(&sandbox, &["report", "--json", "job"]).run().stdout).unwrap();
    assert_eq!((report["failed"].as_u64(), report["shards_done"].as_u64()), (Some(1), Some(1)), "{report}");
    // A new plan copies the new version, into the same partial file.
    job(&sandbox, &["cancel", "job"]).run().succeeds();
    let words = ["run", "-aHAX", "--dir", "again", "--shard-range", "8m", "src", "to"];
    job(&sandbox, &words).run().succeeds();
    is_the_source(&sandbox);
}

#[test]
fn a_file_in_ranges_gets_its_name_beside_failed_and_vanished_files() {
    let sandbox = Sandbox::new();
    tree(&sandbox);
    sandbox.file("to/src/small/3", "something else");
    plan(&sandbox, &[]);
    let (of_two, _) = shards(&sandbox, 2);
    let (_, all_but_large) = shards(&sandbox, RANGES);
    let (large, _) = shards(&sandbox, RANGES);
    fs::remove_file(sandbox.path("src/two ranges")).unwrap();
    for number in large.iter().chain(&all_but_large) {
        let exit = if of_two.contains(number) { Some(5) } else { None };
        let status = shard(&sandbox, *number).run().status;
        assert!(exit.is_none_or(|exit| status == Some(exit)), "shard {number}: {status:?}");
    }
    let finished = job(&sandbox, &["finish", "--json", "job"]).run().ends(1);
    let report = finished.events().pop().unwrap();
    assert_eq!((&report["failed"], &report["vanished"]), (&1.into(), &1.into()), "{report}");
    compare(&sandbox.path("src/dir"), &sandbox.path("to/src/dir")).unwrap();
    assert_eq!(listing(&sandbox.path("to/src/dir")), ["large"]);
}

#[test]
fn a_vanished_file_leaves_no_partial_file_and_a_failed_one_does() {
    let sandbox = Sandbox::new();
    tree(&sandbox);
    plan(&sandbox, &[]);
    let (of_two, _) = shards(&sandbox, 2);
    let (large, others) = shards(&sandbox, RANGES);
    [large[0], of_two[0]].iter().for_each(|number| drop(shard(&sandbox, *number).run().succeeds()));
    fs::remove_file(sandbox.path("src/dir/large")).unwrap();
    set_mtime(&sandbox.path("src/two ranges"), 1_600_000_000, 0);
    large[1..].iter().for_each(|number| drop(shard(&sandbox, *number).run().ends(5)));
    others.iter().filter(|number| **number != of_two[0]).for_each(|number| drop(shard(&sandbox, *number).run()));
    let in_root = || listing(&sandbox.path("to/src")).into_iter().filter(|name| name.starts_with(".haul-")).count();
    let before = in_root();
    assert!(before > 1 && left(&sandbox).len() > before, "{:?}", left(&sandbox));
    job(&sandbox, &["finish", "job"]).run().ends(1);
    assert_eq!((in_root(), left(&sandbox).len()), (before, before));
}

#[test]
fn a_missing_range_is_named_at_the_end_and_can_be_copied_again() {
    let sandbox = Sandbox::new();
    tree(&sandbox);
    plan(&sandbox, &[]);
    let (ranges, others) = shards(&sandbox, RANGES);
    ranges.iter().chain(&others).for_each(|number| drop(shard(&sandbox, *number).run().succeeds()));
    let journals = || {
        let dir = sandbox.path("to/src/dir");
        let names = listing(&dir).into_iter().filter(|name| name.ends_with(".journal"));
        names.map(|name| dir.join(name)).collect::<Vec<PathBuf>>()
    };
    assert_eq!(journals().len() as u64, RANGES);
    let before = journals();
    // Of the last range: its journal is the shortest.
    let lost = before.iter().min_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
    fs::remove_file(lost).unwrap();
    job(&sandbox, &["finish", "job"]).run().ends(1).says(["large", "range 5 of 5 is not complete"]);
    assert!(!sandbox.path("to/src/dir/large").exists());
    let (written, _) = figures(&shard(&sandbox, ranges[4]).run().succeeds().summary());
    assert_eq!(written, LARGE - 4 * RANGE);
    let run = job(&sandbox, &["finish", "job"]).run().succeeds();
    let unread = "in ranges of files: verified on arrival, not read again since\nhint: --then-verify";
    assert!(run.stdout.contains(unread), "{}", run.account());
    let report = || serde_json::from_slice::<Value>(&fs::read(sandbox.path("job/report.json")).unwrap()).unwrap();
    assert_eq!(report()["bytes_not_reread"], LARGE + RANGE + 1);
    is_the_source(&sandbox);
    let run = job(&sandbox, &["finish", "--verify", "job"]).run().succeeds();
    assert!(!run.stdout.contains(unread), "{}", run.account());
    assert_eq!(report()["bytes_not_reread"], 0);
}

#[test]
fn a_second_run_of_a_range_names_the_first_and_waits() {
    let sandbox = Sandbox::new();
    tree(&sandbox);
    plan(&sandbox, &["--xfrrate", "1m"]);
    let (ranges, _) = shards(&sandbox, RANGES);
    // Longer than a run waits for files that another one has locked.
    let first = shard(&sandbox, ranges[1]).start();
    let running = || job(&sandbox, &["status", "job"]).run().stdout.contains("running   ");
    eventually("a running shard", || running() && !left(&sandbox).is_empty());
    let second = shard(&sandbox, ranges[1]).run().succeeds();
    let (shard_is, process) = (format!("shard {} is run by ", ranges[1]), format!(", process {}; wait", first.id()));
    second.says([shard_is.as_str(), process.as_str(), "was done by"]);
    assert_eq!(figures(&ProgramRun::of(first).succeeds().summary()), (RANGE, 0));
}

/// Whether a process has a journal of the sandbox open.
fn has_open_journal(sandbox: &Sandbox) -> bool {
    let links = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| fs::read_dir(entry.path().join("fd")).ok());
    let opened = links.flatten().flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    let is_own = |path: &PathBuf| path.starts_with(sandbox.path("to")) && path.to_string_lossy().contains(".journal");
    opened.into_iter().any(|path| is_own(&path))
}

#[test]
fn a_range_arriving_after_the_finish_moves_and_leaves_nothing() {
    let sandbox = Sandbox::new();
    tree(&sandbox);
    plan(&sandbox, &[]);
    let (ranges, others) = shards(&sandbox, RANGES);
    ranges.iter().chain(&others).for_each(|number| drop(shard(&sandbox, *number).run().succeeds()));
    // It has found no file, and waits before its locks.
    let late = shard(&sandbox, ranges[1]).injecting("flock", "delay_enter=5000000").start();
    eventually("a journal that is about to be locked", || has_open_journal(&sandbox));
    job(&sandbox, &["finish", "job"]).run().succeeds();
    assert!(has_open_journal(&sandbox), "the range did not arrive late");
    assert_eq!(figures(&ProgramRun::of(late).succeeds().summary()), (0, RANGE));
    is_the_source(&sandbox);
}

#[test]
fn a_finish_killed_before_its_last_step_is_completed_by_the_next_one() {
    if !is_root_or_skip("a file of another owner") {
        return;
    }
    let sandbox = Sandbox::new();
    tree(&sandbox);
    // The file of the other owner is the only one with ranges.
    fs::remove_file(sandbox.path("src/two ranges")).unwrap();
    let owner = |root: &str| fs::metadata(sandbox.path(root).join("dir/large")).map(|found| found.uid()).ok();
    chown(sandbox.path("src/dir/large"), Some(1234), Some(1234)).unwrap();
    plan(&sandbox, &[]);
    let (ranges, others) = shards(&sandbox, RANGES);
    ranges.iter().chain(&others).for_each(|number| drop(shard(&sandbox, *number).run().succeeds()));
    let partial_owners = || {
        let names = listing(&sandbox.path("to/src/dir")).into_iter().filter(|name| name.ends_with(".part"));
        names.map(|name| fs::metadata(sandbox.path("to/src/dir").join(name)).unwrap().uid()).collect::<Vec<_>>()
    };
    assert_eq!(partial_owners(), [0]);
    let killed = job(&sandbox, &["finish", "job"]).injecting("renameat2", "signal=KILL").run();
    assert_ne!(killed.status, Some(0), "{}", killed.account());
    assert_eq!((partial_owners(), owner("to/src")), (vec![1234], None), "it was killed elsewhere");
    // A rerun of a range takes the file back, and trusts the journal.
    assert_eq!(figures(&shard(&sandbox, ranges[2]).run().succeeds().summary()), (0, RANGE));
    assert_eq!(partial_owners(), [0]);
    job(&sandbox, &["finish", "job"]).injecting("renameat2", "signal=KILL").run();
    assert_eq!(partial_owners(), [1234]);
    job(&sandbox, &["finish", "job"]).run().succeeds();
    assert_eq!(owner("to/src"), Some(1234));
    is_the_source(&sandbox);
}

#[test]
fn ranges_of_a_deleted_partial_file_are_not_trusted() {
    let sandbox = Sandbox::new();
    tree(&sandbox);
    plan(&sandbox, &[]);
    let (ranges, others) = shards(&sandbox, RANGES);
    ranges.iter().chain(&others).for_each(|number| drop(shard(&sandbox, *number).run().succeeds()));
    let dir = sandbox.path("to/src/dir");
    let partial = listing(&dir).into_iter().find(|name| name.ends_with(".part")).unwrap();
    let inode = fs::metadata(dir.join(&partial)).unwrap().ino();
    fs::remove_file(dir.join(&partial)).unwrap();
    job(&sandbox, &["finish", "job"]).run().ends(1).says(["none of its 5 ranges is at the target"]);
    // A file system may give the new file the inode number of the old one.
    shard(&sandbox, ranges[2]).run().succeeds();
    println!("the same inode: {}", fs::metadata(dir.join(&partial)).unwrap().ino() == inode);
    job(&sandbox, &["finish", "job"]).run().ends(1).says(["large", "of 5"]);
    assert!(!sandbox.path("to/src/dir/large").exists());
    ranges.iter().for_each(|number| drop(shard(&sandbox, *number).run().succeeds()));
    job(&sandbox, &["finish", "job"]).run().succeeds();
    is_the_source(&sandbox);
}

#[test]
fn two_jobs_copying_one_range_wait_for_each_other() {
    let sandbox = Sandbox::new();
    tree(&sandbox);
    plan(&sandbox, &["--xfrrate", "4m"]);
    let words = ["plan", "-aHAX", "--dir", "other", "--shard-range", "8m", "--xfrrate", "4m", "src", "to"];
    job(&sandbox, &words).env("XDG_STATE_HOME", sandbox.path("another state")).run().succeeds();
    let (ranges, _) = shards(&sandbox, RANGES);
    let first = shard(&sandbox, ranges[1]).start();
    eventually("a partial file", || !left(&sandbox).is_empty());
    let other = job(&sandbox, &["shard", "--json", "other"]).arg(ranges[1].to_string()).run().succeeds();
    assert_eq!(figures(&ProgramRun::of(first).succeeds().summary()), (RANGE, 0));
    assert_eq!(figures(&other.summary()), (0, RANGE));
}

#[test]
fn options_incompatible_with_ranges_are_refused_or_copy_entire_files() {
    let sandbox = Sandbox::new();
    tree(&sandbox);
    for (options, why) in [
        (&["--shard-range", "3m"][..], "a power of two"),
        (&["--shard-range", "512k"], "a power of two"),
        (&["--shard-range", "8m", "-f", "--inplace"], "--inplace cannot be combined"),
        (&["--shard-range", "8m", "-f", "--delta=blocks"], "--shard-range cannot be combined with --delta"),
    ] {
        let words = ["plan", "-r", "--dir", "job"];
        job(&sandbox, &words).args(options).args(["src", "to"]).run().ends(2).says([why]);
    }
    job(&sandbox, &["run", "-aHAX", "--dir", "whole", "--shard-range", "0", "src", "to"]).run().succeeds();
    let plan = fs::read_to_string(sandbox.path("whole/plan")).unwrap();
    assert!(!plan.contains("range="), "{plan}");
    is_the_source(&sandbox);
}
