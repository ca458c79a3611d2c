//! Lost connections during a copy: it restarts by itself, and ends as usual. Also silent deaths of an end, and cut
//! paths.

use std::time::{Duration, Instant};

use haul_e2e::{
    HostPair, MEGABIT_PER_S, ProgramRun, RunningCopy, Sandbox, eventually, group_or_skip, haul_binary,
    hidden_or_partial, within,
};
use haul_lab::{SlowFs, Slowness};
use rustix::fs::FlockOperation;
use rustix::process::{Signal, kill_process};

/// Time limit for an end to notice another's death and to end: 15 s, twice as long since this machine runs other tests.
const NOTICE_LIMIT: Duration = Duration::from_secs(30);
/// How soon Ctrl-C has to have ended all, with half a second more for such a machine.
const STOP_LIMIT: Duration = Duration::from_millis(1500);
/// How soon a copy has to go on when the way is there again.
const HEALED_LIMIT: Duration = Duration::from_secs(5);
/// The shortest silence that there is: for tests that have to wait for its end.
const IMPATIENT: &[&str] = &["--json", "--silence", "3s"];
/// How soon an attempt has ended that waits for a lock: within 20 s, and more on such a machine.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(60);
/// How long a disk does not answer: longer than a worker is silent, and two attempts take.
const HUNG: Duration = Duration::from_secs(25);

/// After lost connections and restarts, the summary describes one copy.
#[track_caller]
fn is_one_copy(run: &ProgramRun) {
    let summary = run.summary();
    let number = |name: &str| summary[name].as_u64().unwrap_or_else(|| panic!("no {name} in {summary}"));
    let counts = ["files_copied", "files_skipped", "failed", "bytes", "bytes_skipped"].map(number);
    assert_eq!(counts, [2, 0, 0, 32_000_006, 0], "{}", run.account());
    let count = |kind: &str| run.events().iter().filter(|event| event["event"] == kind).count();
    assert_eq!(number("restarts"), count("again") as u64, "{}", run.account());
    assert!(number("restarts") >= 1 && count("summary") == 1, "{}", run.account());
    assert_eq!(count("file"), 2, "no file is told of twice\n{}", run.account());
}

#[test]
fn a_killed_far_worker_is_replaced() {
    let Some(cgroup) = group_or_skip() else { return };
    for push in [true, false] {
        let sandbox = Sandbox::new();
        // State cannot be saved there: the copy must still resume in its own tree, instead of nesting another one.
        sandbox.file("remote-home/.local", "in the way");
        let pair = HostPair::slow(&sandbox, MEGABIT_PER_S);
        let copy = RunningCopy::start(&sandbox, &pair, &cgroup, push, &["--json"]);
        copy.signal_far_worker(Signal::KILL);
        let run = copy.completes();
        is_one_copy(&run);
        let again = run.events().into_iter().find(|event| event["event"] == "again").expect("it was told");
        assert!(again["message"].as_str().is_some_and(|text| text.contains(HostPair::FAR)), "{again}");
    }
}

#[test]
fn so_are_a_near_one_and_an_ssh() {
    let Some(cgroup) = group_or_skip() else { return };
    for (executable, is_worker) in [("haul", true), ("ssh", false)] {
        let sandbox = Sandbox::new();
        let pair = HostPair::slow(&sandbox, MEGABIT_PER_S);
        let copy = RunningCopy::start(&sandbox, &pair, &cgroup, true, &[]);
        kill_process(copy.process(executable, is_worker), Signal::KILL).expect("it was there");
        copy.completes().says(["lost the connection to", "reconnecting in 1 s", "reconnected 1 time"]);
    }
}

#[test]
fn a_temporarily_refusing_host_is_retried_until_it_accepts() {
    let Some(cgroup) = group_or_skip() else { return };
    let sandbox = Sandbox::new();
    let pair = HostPair::slow(&sandbox, MEGABIT_PER_S);
    let copy = RunningCopy::start(&sandbox, &pair, &cgroup, true, &["--retries", "9"]);
    pair.refuse_ssh();
    copy.signal_far_worker(Signal::KILL);
    copy.says("(2 of 9)");
    pair.heal();
    copy.completes().says(["refused the connection: no ssh server"]);
}

#[test]
fn an_unreachable_host_is_given_up() {
    let Some(cgroup) = group_or_skip() else { return };
    let sandbox = Sandbox::new();
    let pair = HostPair::slow(&sandbox, MEGABIT_PER_S);
    let copy = RunningCopy::start(&sandbox, &pair, &cgroup, true, &["--retries", "2"]);
    pair.refuse_ssh();
    copy.signal_far_worker(Signal::KILL);
    let run = copy.over_within(NOTICE_LIMIT).ends(4);
    run.says(["(2 of 2)", "reconnected 2 times without success", "rerun the command"]);
}

#[test]
fn control_c_ends_a_pause() {
    let Some(cgroup) = group_or_skip() else { return };
    let sandbox = Sandbox::new();
    let pair = HostPair::slow(&sandbox, MEGABIT_PER_S);
    let copy = RunningCopy::start(&sandbox, &pair, &cgroup, true, &[]);
    pair.refuse_ssh();
    copy.signal_far_worker(Signal::KILL);
    copy.says("reconnecting in");
    copy.signal_group(Signal::INT);
    copy.over_within(STOP_LIMIT).ends(4).says(["interrupted"]);
}

#[test]
fn a_path_cut_for_a_moment_is_waited_for() {
    let Some(cgroup) = group_or_skip() else { return };
    let sandbox = Sandbox::new();
    let pair = HostPair::slow(&sandbox, MEGABIT_PER_S);
    let copy = RunningCopy::start(&sandbox, &pair, &cgroup, true, &["--json"]);
    pair.cut();
    std::thread::sleep(Duration::from_secs(3));
    pair.heal();
    let run = copy.completes();
    assert_eq!(run.summary()["restarts"], 0, "{}", run.account());
}

#[test]
fn a_path_cut_for_longer_is_lost_at_both_ends_and_used_again_later() {
    let Some(cgroup) = group_or_skip() else { return };
    let sandbox = Sandbox::new();
    let pair = HostPair::slow(&sandbox, MEGABIT_PER_S);
    // Given a time, it is that long, with the silence that users have.
    let cut_s: u64 = std::env::var("HAUL_CUT_SECONDS").map_or(0, |seconds| seconds.parse().expect("a number"));
    let options = if cut_s == 0 { IMPATIENT } else { &["--json"] };
    let copy = RunningCopy::start(&sandbox, &pair, &cgroup, true, options);
    pair.cut();
    let began = Instant::now();
    eventually("the far worker ends by itself", || pair.remote.workers().is_empty());
    eventually("the near end begins again", || copy.running.stdout_so_far().contains("\"again\""));
    eventually("in vain", || copy.running.stdout_so_far().matches("\"again\"").count() > 1);
    std::thread::sleep(Duration::from_secs(cut_s).saturating_sub(began.elapsed()));
    pair.heal();
    let connected = || copy.running.stdout_so_far().matches("\"connected\"").count() > 1;
    assert!(within(HEALED_LIMIT, connected), "it does not go on\n{}", copy.running.stdout_so_far());
    is_one_copy(&copy.completes());
}

#[test]
fn a_stopped_far_worker_is_lost_and_ends_when_it_continues() {
    let Some(cgroup) = group_or_skip() else { return };
    let sandbox = Sandbox::new();
    let pair = HostPair::slow(&sandbox, MEGABIT_PER_S);
    let mut copy = RunningCopy::start(&sandbox, &pair, &cgroup, true, &["--retries", "0"]);
    copy.signal_far_worker(Signal::STOP);
    let noticed = copy.running.wait_up_to(NOTICE_LIMIT);
    assert!(noticed, "still running: {}", copy.running.stderr_so_far());
    copy.signal_far_worker(Signal::CONT);
    copy.over_within(NOTICE_LIMIT).ends(4).says(["no message for 13 s", HostPair::FAR]);
}

#[test]
fn a_stopped_far_worker_is_ended_by_the_next_attempt() {
    let Some(cgroup) = group_or_skip() else { return };
    for push in [true, false] {
        let sandbox = Sandbox::new();
        let pair = HostPair::slow(&sandbox, MEGABIT_PER_S);
        let copy = RunningCopy::start(&sandbox, &pair, &cgroup, push, IMPATIENT);
        copy.signal_far_worker(Signal::STOP);
        is_one_copy(&copy.completes());
    }
}

#[test]
fn an_unstoppable_far_worker_is_waited_for() {
    let Some(cgroup) = group_or_skip() else { return };
    if !SlowFs::available() {
        println!("SKIPPED: a FUSE file system needs root and /dev/fuse");
        return;
    }
    let sandbox = Sandbox::new();
    let place = SlowFs::mount(sandbox.dir("place")).unwrap();
    let pair = HostPair::slow(&sandbox, MEGABIT_PER_S);
    let copy = RunningCopy::start(&sandbox, &pair, &cgroup, true, IMPATIENT);
    let stopped = pair.remote.workers();
    place.set(Slowness { latency: HUNG, ..Slowness::default() });
    let arrived = || hidden_or_partial(&sandbox.path("place/target"), &["big", "little"], 0);
    eventually("a write hangs", || {
        let before = arrived();
        std::thread::sleep(Duration::from_millis(300));
        before == arrived()
    });
    copy.signal_far_worker(Signal::STOP);
    let waits = format!("(process {}) is killed, but still waits for its disk", stopped[0]);
    eventually("attempts end early", || copy.running.stdout_so_far().matches(&waits).count() > 1);
    place.set(Slowness::default());
    is_one_copy(&copy.completes());
}

#[test]
fn a_directory_of_another_copy_is_waited_for_by_a_later_attempt() {
    let Some(cgroup) = group_or_skip() else { return };
    let sandbox = Sandbox::new();
    let pair = HostPair::slow(&sandbox, MEGABIT_PER_S);
    let copy = RunningCopy::start(&sandbox, &pair, &cgroup, true, &["--json", "--retry-for", "5m"]);
    // Like a worker of another copy, after the first one's end.
    let locks = pair.remote.home().join(".local/state/haul/locks");
    let lock = std::fs::read_dir(locks).unwrap().next().expect("the directory is locked").unwrap().path();
    let lock = std::fs::File::open(lock).unwrap();
    copy.signal_far_worker(Signal::KILL);
    eventually("it is free", || rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok());
    let me = std::process::id();
    let says = |phrase: &str| {
        let is_said = || copy.running.stdout_so_far().contains(phrase);
        assert!(within(ATTEMPT_LIMIT, is_said), "not said: {phrase}\n{}", copy.running.stdout_so_far());
    };
    says(&format!("waiting for haul {me}, which copies into the same directory"));
    says(&format!("another haul (process {me}) is copying into a directory of this copy"));
    drop(lock);
    is_one_copy(&copy.completes());
}

#[test]
fn quiet_ends_are_not_lost() {
    let sandbox = Sandbox::new();
    sandbox.big_file("source", 12_000_000);
    // As where somebody types a password for longer than anybody may be silent.
    let slow = sandbox.script("slow", &format!("#!/bin/sh\nsleep 5\nexec '{}' \"$@\"\n", haul_binary().display()));
    let target = format!("127.0.0.1:{}", sandbox.path("target").display());
    let run = sandbox
        .haul(IMPATIENT)
        .args(["--retries", "0", "--xfrrate", "2m", "--target-command"])
        .arg(slow)
        .args(["source", &target])
        .run();
    assert!(run.elapsed > Duration::from_secs(9), "it was too fast to show anything\n{}", run.account());
    run.succeeds();
}

#[test]
fn a_stopped_controller_loses_its_workers_and_restarts() {
    let Some(cgroup) = group_or_skip() else { return };
    let sandbox = Sandbox::new();
    let pair = HostPair::slow(&sandbox, MEGABIT_PER_S);
    let copy = RunningCopy::start(&sandbox, &pair, &cgroup, true, IMPATIENT);
    let near = copy.process("haul", true);
    copy.running.signal(Signal::STOP);
    // Ended and not waited for, since the one to do that is stopped.
    let ended = || std::fs::read_link(format!("/proc/{}/exe", near.as_raw_nonzero())).is_err();
    eventually("both workers end by themselves", || pair.remote.workers().is_empty() && ended());
    copy.running.signal(Signal::CONT);
    is_one_copy(&copy.completes());
}
