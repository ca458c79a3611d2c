//! `haul job verify`: a finished job is compared in shards, on this host or by whatever runs them.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};

use haul_e2e::{Haul, ProgramRun, Sandbox, mtime, set_mtime};
use serde_json::Value;

/// Said of a comparison without differences.
const SAME: &str = "source and target are the same";

fn job<'a>(sandbox: &'a Sandbox, words: &[&str]) -> Haul<'a> {
    sandbox.haul(["job"]).args(words)
}

/// 60 files in two directories, one of them copied in ranges; links and an empty directory.
fn tree(sandbox: &Sandbox) {
    for number in 0..60 {
        let dir = sandbox.path(format!("src/{}", number % 2));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(format!("{number}")), format!("{number}").repeat(100)).unwrap();
    }
    sandbox.big_file("src/large", 5_000_000);
    sandbox.dir("src/empty");
    symlink("nowhere", sandbox.path("src/link")).unwrap();
    symlink("0", sandbox.path("src/directory")).unwrap();
}

fn run(sandbox: &Sandbox) {
    let words =
        ["run", "-r", "--preserve", "--dir", "job", "--shard-files", "10", "--shard-range", "1m", "--local", "2"];
    let run = job(sandbox, &words).args(["--then-verify", "src", "to"]).run().succeeds();
    prints(run, SAME);
}

/// It has to have printed `line`.
#[track_caller]
fn prints(run: ProgramRun, line: &str) {
    assert!(run.stdout.contains(line), "{}", run.account());
}

fn verified(sandbox: &Sandbox) -> Option<bool> {
    let report: Value = serde_json::from_slice(&fs::read(sandbox.path("job/report.json")).unwrap()).unwrap();
    report["verified"].as_bool()
}

/// Files of the recorded differences, below the target.
fn differences(sandbox: &Sandbox) -> Vec<String> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(sandbox.path("job/verify/failures")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        for line in text.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            assert_eq!(line["event"], "differs");
            let path = line["path"].as_str().unwrap();
            paths.push(path.rsplit_once("to/src").unwrap().1.trim_start_matches('/').to_owned());
        }
    }
    paths.sort();
    paths
}

#[test]
fn each_difference_is_found_by_the_shard_of_its_file_or_by_the_last_step() {
    let sandbox = Sandbox::new();
    tree(&sandbox);
    sandbox.dir("to");
    run(&sandbox);
    assert_eq!((verified(&sandbox), differences(&sandbox)), (Some(true), Vec::new()));
    let shards = fs::read_to_string(sandbox.path("job/verify/plan")).unwrap();
    assert!(shards.lines().count() > 7, "{shards}");
    assert!(!shards.contains("range="), "a divided file is compared as a whole:\n{shards}");

    let to = |name: &str| sandbox.path("to/src").join(name);
    // With the same length and time: only its bytes differ.
    let (seconds, nanoseconds) = mtime(&to("1/7"));
    fs::write(to("1/7"), "8".repeat(100)).unwrap();
    set_mtime(&to("1/7"), seconds, u32::try_from(nanoseconds).unwrap());
    let mut large = fs::read(to("large")).unwrap();
    large[4_900_000] ^= 1;
    fs::write(to("large"), large).unwrap();
    fs::remove_file(to("0/8")).unwrap();
    fs::remove_file(to("link")).unwrap();
    symlink("somewhere", to("link")).unwrap();
    fs::set_permissions(to("empty"), Permissions::from_mode(0o700)).unwrap();
    fs::set_permissions(sandbox.path("src/empty"), Permissions::from_mode(0o755)).unwrap();
    let wrong = ["0/8", "1/7", "empty", "large", "link"];
    prints(job(&sandbox, &["verify", "job", "--local", "2"]).run().ends(1), "5 entries differ");
    assert_eq!((verified(&sandbox), differences(&sandbox)), (Some(false), wrong.map(str::to_owned).to_vec()));
    job(&sandbox, &["status", "job/verify"]).run().ends(1);
    prints(job(&sandbox, &["status", "job"]).run().ends(1), "source and target differ; haul job status");
    // Later reports include the last step's findings.
    prints(job(&sandbox, &["report", "job/verify"]).run().ends(1), "5 entries differ");
    prints(job(&sandbox, &["finish", "job/verify"]).run().ends(1), "5 entries differ");

    // The job repairs the differences, and another comparison starts from scratch.
    sandbox.haul(["sync", "--compare", "digest", "--preserve", "src", "to"]).run().succeeds();
    prints(job(&sandbox, &["verify", "job"]).run().succeeds(), SAME);
    assert_eq!((verified(&sandbox), differences(&sandbox)), (Some(true), Vec::new()));
}

#[test]
fn a_sync_job_is_compared_with_the_modes_that_it_keeps() {
    let sandbox = Sandbox::new();
    tree(&sandbox);
    sandbox.dir("to");
    job(&sandbox, &["run", "--sync", "--dir", "job", "src/", "to"]).run().succeeds();
    prints(job(&sandbox, &["verify", "job"]).run().succeeds(), SAME);
    sandbox.haul(["verify", "--sync", "src/", "to"]).run().succeeds();
    fs::set_permissions(sandbox.path("to/0/8"), Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(sandbox.path("src/0/8"), Permissions::from_mode(0o640)).unwrap();
    prints(job(&sandbox, &["verify", "job"]).run().ends(1), "1 entry differs");
    sandbox.haul(["verify", "--sync", "src/", "to"]).run().ends(1).says(["has mode 0600"]);
}

#[test]
fn shards_of_a_comparison_are_run_by_anything_and_an_interrupted_one_continues() {
    let sandbox = Sandbox::new();
    tree(&sandbox);
    sandbox.dir("to");
    run(&sandbox);
    job(&sandbox, &["verify", "--only-plan", "job"]).run().succeeds();
    job(&sandbox, &["finish", "job/verify"]).run().ends(1).says(["not done"]);
    let unfinished = job(&sandbox, &["report", "job/verify"]).run().ends(4);
    assert!(!unfinished.stdout.contains(SAME), "{}", unfinished.account());
    fs::write(sandbox.path("to/src/0/0"), "other").unwrap();
    let plan = fs::read_to_string(sandbox.path("job/verify/plan")).unwrap();
    let numbers: Vec<u32> = plan.lines().filter_map(|line| line.split(' ').next()?.parse().ok()).collect();
    let ends: Vec<_> = numbers
        .iter()
        .map(|number| job(&sandbox, &["shard", "--quiet", "job/verify"]).arg(number.to_string()).run().status)
        .collect();
    let differing = ends.iter().filter(|status| **status == Some(1)).count();
    assert!(differing == 1 && ends.iter().all(|status| matches!(status, Some(0 | 1))), "{ends:?}");
    // Compared files are not compared again.
    prints(job(&sandbox, &["verify", "job"]).run().ends(1), "1 entry differs");
    let attempts = fs::read_to_string(sandbox.path("job/verify/attempts/000000.log")).unwrap();
    assert_eq!(attempts.lines().count(), 1, "{attempts}");
}

#[test]
fn only_a_finished_job_is_compared_and_with_its_own_options() {
    let sandbox = Sandbox::new();
    tree(&sandbox);
    sandbox.dir("to");
    job(&sandbox, &["plan", "-r", "--dir", "job", "src", "to"]).run().succeeds();
    job(&sandbox, &["verify", "job"]).run().ends(2).says(["the job is not finished", "haul job run"]);
    job(&sandbox, &["run", "job"]).run().succeeds();
    job(&sandbox, &["verify", "-r", "job"]).run().ends(2).says(["-r: a job keeps the options"]);
    job(&sandbox, &["verify", "--limit", "3", "job"]).run().ends(2).says(["--limit is an option of --slurm"]);
    job(&sandbox, &["run", "--only-plan", "job"]).run().ends(2).says(["--only-plan is an option of haul job verify"]);
    job(&sandbox, &["verify", "job"]).run().succeeds();
    job(&sandbox, &["verify", "job/verify"]).run().ends(2).says(["is itself a comparison"]);
}
