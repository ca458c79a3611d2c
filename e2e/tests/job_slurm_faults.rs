//! `haul job run --slurm` under ordinary faults, with a real Slurm: a node without haul, scancel, a full target, a
//! target that does not answer, limits raised while tasks end.

use std::fs;
use std::thread;
use std::time::Duration;

use haul_e2e::{Haul, ProgramRun, Running, Sandbox, SlurmCluster, haul_binary, listing, within};
use rustix::process::Signal;

const LIMIT: Duration = Duration::from_secs(300);

fn run<'a>(sandbox: &'a Sandbox, cluster: &'a SlurmCluster, words: &[&'a str]) -> Haul<'a> {
    let all = ["job", "run", "--slurm", "-r", "--mkdir", "--dir", "job"].into_iter().chain(words.iter().copied());
    cluster.enclose(sandbox.haul(all)).limit(LIMIT)
}

fn again<'a>(sandbox: &'a Sandbox, cluster: &'a SlurmCluster) -> Haul<'a> {
    cluster.enclose(sandbox.haul(["job", "run", "--slurm", "job"])).limit(LIMIT)
}

fn small_tree(sandbox: &Sandbox, files: u32) {
    (0..files).for_each(|number| drop(sandbox.file(format!("src/d{}/{number}", number % 7), number.to_string())));
    sandbox.dir("to");
}

#[track_caller]
fn end(running: Running) -> ProgramRun {
    ProgramRun::of(running)
}

#[track_caller]
fn is_copied(sandbox: &Sandbox) {
    sandbox.haul(["verify", "-r", "src", "to"]).run().succeeds();
}

/// Nobody follows the job; it is finished all the same, and leaves nothing in the queue.
#[track_caller]
fn ends_by_itself(sandbox: &Sandbox, cluster: &SlurmCluster) {
    let is_over = || {
        thread::sleep(Duration::from_millis(300));
        sandbox.path("job/report.json").exists() && cluster.has_empty_queue()
    };
    assert!(within(LIMIT, is_over), "{}", cluster.logs());
    is_copied(sandbox);
}

#[test]
fn a_node_without_haul_is_named_and_left_out() {
    let sandbox = Sandbox::new();
    small_tree(&sandbox, 600);
    let Some(mut cluster) = SlurmCluster::start(&sandbox) else { return };
    cluster.hide_on(3, &haul_binary());
    let words = ["--shard-files", "30", "--xfrrate", "8k", "src", "to"];
    let ended = run(&sandbox, &cluster, &words).run();
    assert_eq!(ended.status, Some(0), "{}\n{}", ended.account(), cluster.logs());
    ended.says(["lost on n4:", "not found (status 127)", "n4 lost two shards without progress: it gets no more tasks"]);
    is_copied(&sandbox);
}

#[test]
fn haul_on_no_node_holds_the_job_and_says_why() {
    let sandbox = Sandbox::new();
    small_tree(&sandbox, 60);
    let Some(mut cluster) = SlurmCluster::start(&sandbox) else { return };
    (0..4).for_each(|node| cluster.hide_on(node, &haul_binary()));
    let ended = run(&sandbox, &cluster, &["--shard-files", "10", "src", "to"]).run();
    assert_eq!(ended.status, Some(1), "{}\n{}", ended.account(), cluster.logs());
    ended.says(["not found (status 127)", "the job is held: shards are lost on most nodes"]);
    let submissions = fs::read_to_string(sandbox.path("job/slurm/submissions")).unwrap();
    // One task at a time finds out.
    let is_of_one = |line: &str| line.split(' ').nth(3).is_some_and(|shards| shards.parse::<u32>().is_ok());
    assert!(submissions.lines().all(is_of_one), "{submissions}");
    let status = cluster.enclose(sandbox.haul(["job", "status", "job"])).run();
    assert!(status.stdout.contains("not found (status 127)"), "{}", status.account());
}

#[test]
fn scancel_is_a_wish_and_the_next_run_submits_the_rest() {
    let sandbox = Sandbox::new();
    (0..6).for_each(|number| drop(sandbox.big_file(format!("src/large{number}"), 4_000_000)));
    sandbox.dir("to");
    let Some(cluster) = SlurmCluster::start(&sandbox) else { return };
    let words = ["--limit", "2", "--shard-bytes", "5m", "--xfrrate", "800k", "src", "to"];
    let running = run(&sandbox, &cluster, &words).start();
    let are_running = || {
        thread::sleep(Duration::from_millis(200));
        let queue = cluster.command("squeue", &["--noheader", "--array", "--states=RUNNING"]).unwrap();
        queue.lines().count() >= 2
    };
    assert!(within(Duration::from_secs(90), are_running), "{}", cluster.logs());
    cluster.command("scancel", &["--user=root"]).unwrap();
    let ended = end(running);
    assert_eq!(ended.status, Some(4), "{}\n{}", ended.account(), cluster.logs());
    ended.says(["cancelled in Slurm", "hint: haul job run --slurm"]);
    assert!(cluster.has_empty_queue());
    let ended = again(&sandbox, &cluster).run();
    assert_eq!(ended.status, Some(0), "{}\n{}", ended.account(), cluster.logs());
    is_copied(&sandbox);
}

#[test]
fn a_job_that_cannot_fit_is_not_submitted() {
    let sandbox = Sandbox::new();
    (0..4).for_each(|number| drop(sandbox.big_file(format!("src/large{number}"), 4_000_000)));
    let Some(cluster) = SlurmCluster::start(&sandbox) else { return };
    let target = sandbox.tmpfs("to", "size=10m");
    sandbox.haul(["job", "plan", "-r", "--dir", "job", "src", "to"]).run().succeeds();
    let ended = again(&sandbox, &cluster).run();
    assert_eq!(ended.status, Some(1), "{}\n{}", ended.account(), cluster.logs());
    ended.says(["to: no space: the job needs 16.0 MB, but only 10."]);
    assert!(!sandbox.path("job/slurm/submissions").exists() && listing(target.path()).is_empty());
    target.remount("size=100m");
    let ended = again(&sandbox, &cluster).run();
    assert_eq!(ended.status, Some(0), "{}\n{}", ended.account(), cluster.logs());
    is_copied(&sandbox);
}

#[test]
fn a_full_target_holds_the_job_until_there_is_space() {
    let sandbox = Sandbox::new();
    (0..8).for_each(|number| drop(sandbox.big_file(format!("src/large{number}"), 4_000_000)));
    (0..400).for_each(|number| drop(sandbox.file(format!("src/small/{number}"), "x".repeat(3000))));
    let Some(cluster) = SlurmCluster::start(&sandbox) else { return };
    let target = sandbox.tmpfs("to", "size=10m");
    let words = ["--shard-bytes", "5m", "--shard-files", "100", "--nofschk", "src", "to"];
    let ended = run(&sandbox, &cluster, &words).run();
    assert_eq!(ended.status, Some(1), "{}\n{}", ended.account(), cluster.logs());
    ended.says(["the job is held", "No space left on device", "haul job run --slurm"]);
    let failures = listing(&sandbox.path("job/failures")).len();
    assert!(failures <= 8, "{failures} shards went on");
    target.remount("size=100m");
    let ended = again(&sandbox, &cluster).run();
    assert_eq!(ended.status, Some(0), "{}\n{}", ended.account(), cluster.logs());
    is_copied(&sandbox);
}

#[test]
fn a_target_that_does_not_answer_is_found_before_anything_is_submitted() {
    let sandbox = Sandbox::new();
    small_tree(&sandbox, 10);
    let Some(cluster) = SlurmCluster::start(&sandbox) else { return };
    let ended = run(&sandbox, &cluster, &["src", "nosuch.invalid:/x"]).run();
    assert!(matches!(ended.status, Some(1 | 3)), "{}", ended.account());
    ended.says(["nosuch.invalid", "nothing was submitted"]);
    assert!(cluster.has_empty_queue() && !sandbox.path("job/slurm/submissions").exists());
}

#[test]
fn a_run_is_taken_over_while_tasks_have_ended_and_others_wait() {
    let sandbox = Sandbox::new();
    (0..12).for_each(|number| drop(sandbox.big_file(format!("src/large{number}"), 2_000_000)));
    sandbox.dir("to");
    let Some(cluster) = SlurmCluster::start(&sandbox) else { return };
    let words = ["--limit", "3", "--shard-bytes", "2m", "--xfrrate", "900k", "src", "to"];
    let running = run(&sandbox, &cluster, &words).start();
    let has_ended_some = || {
        thread::sleep(Duration::from_millis(200));
        let results = listing(&sandbox.path("job/results")).len();
        let queue = cluster.command("squeue", &["--noheader", "--array", "--states=PENDING"]).unwrap();
        results >= 2 && !queue.trim().is_empty()
    };
    assert!(within(Duration::from_secs(120), has_ended_some), "{}", cluster.logs());
    running.signal(Signal::INT);
    end(running).ends(4);
    let ended = again(&sandbox, &cluster).run();
    assert_eq!(ended.status, Some(0), "{}\n{}", ended.account(), cluster.logs());
    is_copied(&sandbox);
}

#[test]
fn slurm_itself_plans_and_follows_a_detached_job() {
    let sandbox = Sandbox::new();
    small_tree(&sandbox, 200);
    let Some(cluster) = SlurmCluster::start(&sandbox) else { return };
    let ended = run(&sandbox, &cluster, &["--detach", "--shard-files", "20", "src", "to"]).run();
    assert_eq!(ended.status, Some(0), "{}\n{}", ended.account(), cluster.logs());
    ended.says(["run by job", "of Slurm; haul job status"]);
    ends_by_itself(&sandbox, &cluster);
}

#[test]
fn a_job_that_nobody_follows_sends_one_task_ahead() {
    let sandbox = Sandbox::new();
    small_tree(&sandbox, 200);
    let Some(cluster) = SlurmCluster::start(&sandbox) else { return };
    let ended = run(&sandbox, &cluster, &["--no-wait", "--shard-files", "60", "src", "to"]).run();
    assert_eq!(ended.status, Some(0), "{}\n{}", ended.account(), cluster.logs());
    let submissions = fs::read_to_string(sandbox.path("job/slurm/submissions")).unwrap();
    assert!(submissions.starts_with("array 1 0 0\n"), "{submissions}");
    ends_by_itself(&sandbox, &cluster);
}
