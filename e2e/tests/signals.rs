//! Ctrl-C, hang-ups, and processes that are killed: nothing is left running and no final name is half a file.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use haul_e2e::{
    Cgroup, Pair, Run, Running, Sandbox, compare, contents, eventually, hidden_or_partial, is_root_or_skip, listing,
    shell, within,
};
use haul_lab::descendants;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// What haul promises for Ctrl-C, and half a second more for a machine that runs other tests besides.
const STOP_LIMIT: Duration = Duration::from_millis(1500);
/// How soon an end has to notice that another one is gone.
const NOTICE_LIMIT: Duration = Duration::from_secs(15);
/// What the slow cable carries: the copies below would take about three seconds, and are interfered with in the first half.
const MEGABIT_PER_S: u32 = 100;
const BIG: u64 = 32_000_000;
/// How much has arrived when the test interferes.
const SOME: u64 = 1_000_000;

/// A copy over a slow cable that is under way.
struct UnderWay<'a> {
    pair: &'a Pair,
    cgroup: &'a Cgroup,
    target: PathBuf,
    running: Running,
}

/// Whether the tests here can run; the reason is printed where they cannot.
fn possible() -> Option<Cgroup> {
    if !is_root_or_skip("a slow cable") {
        return None;
    }
    let cgroup = Cgroup::create();
    if cgroup.is_none() {
        println!("SKIPPED: no control group can be made here, so what is left running could not be told");
    }
    cgroup
}

/// Starts to copy a tree with a big file in it, pushing or pulling, and waits until some of it has arrived.
fn under_way<'a>(sandbox: &'a Sandbox, pair: &'a Pair, cgroup: &'a Cgroup, push: bool) -> UnderWay<'a> {
    sandbox.big_file("source/big", BIG);
    sandbox.file("source/little", "little");
    let (source, target) = (sandbox.path("source"), sandbox.path("place/target"));
    sandbox.dir("place");
    let (from, to) = if push { (source.into(), pair.at(&target)) } else { (pair.at(&source), target.clone().into()) };
    let running = pair.haul(sandbox).cgroup(cgroup).arg("-r").arg(from).arg(to).start();
    let arrived = within(Duration::from_secs(20), || hidden_or_partial(&target, &["big"], SOME).is_some());
    assert!(arrived, "nothing arrived\n{}", running.stderr_so_far());
    UnderWay { pair, cgroup, target, running }
}

impl UnderWay<'_> {
    fn signal_group(&self, signal: Signal) {
        kill_process_group(pid(self.running.id()), signal).expect("the group is there");
    }

    /// It has to be over within `limit`, with all that it started on both hosts.
    #[track_caller]
    fn over_within(self, limit: Duration) -> Run {
        let started = Instant::now();
        let mut running = self.running;
        let ended = running.wait_up_to(limit);
        assert!(ended, "still running after {limit:?}: {}", running.stderr_so_far());
        let left = || (self.cgroup.pids(), self.pair.remote.sshd().session_pids());
        let clean = within(limit.saturating_sub(started.elapsed()), || left() == (vec![], vec![]));
        assert!(clean, "left here and there after {limit:?}: {:?}, {:?}", commands(left().0), commands(left().1));
        let run = Run::of(running);
        assert!(!self.target.join("big").exists(), "a half copy has its final name\n{}", run.account());
        run
    }
}

fn pid(number: u32) -> Pid {
    i32::try_from(number).ok().and_then(Pid::from_raw).expect("a process id")
}

fn commands(pids: Vec<u32>) -> Vec<String> {
    let read = |pid: &u32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    pids.iter().map(|pid| String::from_utf8_lossy(&read(pid)).replace('\0', " ")).collect()
}

/// Runs the interrupted copy again: it has to complete, with nothing left beside it.
#[track_caller]
fn goes_on(sandbox: &Sandbox, pair: &Pair) {
    let (source, target) = (sandbox.path("source"), sandbox.path("place/target"));
    pair.haul(sandbox).arg("-r").arg(&source).arg(pair.at(&target)).run().succeeds();
    compare(&source, &target).unwrap();
    assert_eq!(listing(&target), ["big", "little"]);
}

#[test]
fn control_c_ends_both_ends_at_once() {
    let Some(cgroup) = possible() else { return };
    for push in [true, false] {
        let sandbox = Sandbox::new();
        let pair = Pair::slow(&sandbox, MEGABIT_PER_S);
        let copy = under_way(&sandbox, &pair, &cgroup, push);
        copy.signal_group(Signal::INT);
        copy.over_within(STOP_LIMIT).ends(4).says(["interrupted", "again"]);
        if push {
            goes_on(&sandbox, &pair);
        }
    }
}

#[test]
fn termination_is_as_good_as_control_c() {
    let Some(cgroup) = possible() else { return };
    let sandbox = Sandbox::new();
    let pair = Pair::slow(&sandbox, MEGABIT_PER_S);
    let copy = under_way(&sandbox, &pair, &cgroup, true);
    // To the controller alone, as `kill` does.
    copy.running.signal(Signal::TERM);
    copy.over_within(STOP_LIMIT).ends(4).says(["again"]);
}

#[test]
fn a_hang_up_does_not_stop_what_runs_in_the_background() {
    let Some(cgroup) = possible() else { return };
    let sandbox = Sandbox::new();
    let pair = Pair::slow(&sandbox, 2 * MEGABIT_PER_S);
    let copy = under_way(&sandbox, &pair, &cgroup, true);
    copy.signal_group(Signal::HUP);
    Run::of(copy.running).succeeds();
    compare(&sandbox.path("source"), &sandbox.path("place/target")).unwrap();
}

#[test]
fn a_lost_terminal_does_not_stop_what_runs_in_the_background() {
    let Some(cgroup) = possible() else { return };
    let sandbox = Sandbox::new();
    let pair = Pair::slow(&sandbox, 2 * MEGABIT_PER_S);
    sandbox.big_file("source", BIG);
    let target = sandbox.path("target");
    let haul = pair.haul(&sandbox).arg("source").arg(pair.at(&target)).into_command();
    let words: Vec<_> = std::iter::once(haul.get_program()).chain(haul.get_args()).map(quoted).collect();
    // A shell on a terminal puts the copy in the background and logs out; the terminal is gone with it.
    let session = format!("{} & echo $! >pid; sleep 0.7", words.join(" "));
    let login = sandbox.script("login", &format!("#!/bin/bash\nset -m\n{session}\n"));
    let run = shell(&sandbox, &format!("script -qec {} /dev/null", login.display())).cgroup(&cgroup).run();
    assert!(!target.exists(), "it was over before the terminal was\n{}", run.account());
    eventually("the copy goes on to its end without its terminal", || target.exists());
    eventually("nothing is left of it", || cgroup.pids().is_empty());
    compare(&sandbox.path("source"), &target).unwrap();
    assert!(!contents(&sandbox.path("pid")).is_empty());
}

/// A word as a shell takes it.
fn quoted(word: &std::ffi::OsStr) -> String {
    format!("'{}'", word.to_string_lossy().replace('\'', r"'\''"))
}

#[test]
fn a_remote_worker_that_is_killed_is_an_error() {
    let Some(cgroup) = possible() else { return };
    for push in [true, false] {
        let sandbox = Sandbox::new();
        let pair = Pair::slow(&sandbox, MEGABIT_PER_S);
        let copy = under_way(&sandbox, &pair, &cgroup, push);
        let workers = pair.remote.workers();
        assert!(!workers.is_empty(), "{:?}", commands(pair.remote.sshd().session_pids()));
        workers.iter().for_each(|&worker| kill_process(pid(worker), Signal::KILL).expect("it was there"));
        let run = copy.over_within(NOTICE_LIMIT).says([Pair::FAR]);
        assert!(matches!(run.status, Some(1 | 4)), "{}", run.account());
    }
}

#[test]
fn a_local_worker_that_is_killed_is_an_error() {
    let Some(cgroup) = possible() else { return };
    let sandbox = Sandbox::new();
    let pair = Pair::slow(&sandbox, MEGABIT_PER_S);
    let copy = under_way(&sandbox, &pair, &cgroup, true);
    let below = descendants(copy.running.id());
    let workers: Vec<_> = below.iter().filter(|&&pid| is_local_worker(pid)).collect();
    assert_eq!(workers.len(), 1, "{:?}", commands(below.clone()));
    kill_process(pid(*workers[0]), Signal::KILL).expect("it was there");
    let run = copy.over_within(NOTICE_LIMIT);
    assert!(matches!(run.status, Some(1 | 4)) && !run.stderr.is_empty(), "{}", run.account());
}

/// Whether it is a worker and not the ssh whose command mentions one.
fn is_local_worker(pid: u32) -> bool {
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    program.file_name() == Some("haul".as_ref()) && commands(vec![pid])[0].split(' ').any(|word| word == "worker")
}

#[test]
fn a_controller_that_is_killed_takes_both_ends_with_it() {
    let Some(cgroup) = possible() else { return };
    let sandbox = Sandbox::new();
    let pair = Pair::slow(&sandbox, MEGABIT_PER_S);
    let copy = under_way(&sandbox, &pair, &cgroup, true);
    copy.running.signal(Signal::KILL);
    copy.over_within(NOTICE_LIMIT);
    goes_on(&sandbox, &pair);
}

#[test]
fn an_ssh_connection_that_breaks_is_an_error() {
    let Some(cgroup) = possible() else { return };
    let sandbox = Sandbox::new();
    let pair = Pair::slow(&sandbox, MEGABIT_PER_S);
    let copy = under_way(&sandbox, &pair, &cgroup, true);
    pair.remote.sshd().end_sessions();
    let run = copy.over_within(NOTICE_LIMIT).says([Pair::FAR]);
    assert!(matches!(run.status, Some(1 | 4)), "{}", run.account());
}

#[test]
fn control_c_before_anything_is_known_ends_at_once() {
    let sandbox = Sandbox::new();
    sandbox.file("source", "content");
    // An ssh that says nothing, as one that waits for a password.
    let silent = sandbox.script("silent", "#!/bin/sh\nexec sleep 60\n");
    let mut running = sandbox.haul(["-T"]).arg(&silent).args(["source", "host:target"]).start();
    let asleep = |running: &Running| commands(descendants(running.id())).iter().any(|line| line.starts_with("sleep"));
    eventually("the silent ssh runs", || asleep(&running));
    kill_process_group(pid(running.id()), Signal::INT).expect("the group is there");
    assert!(running.wait_up_to(STOP_LIMIT), "still running: {}", running.stderr_so_far());
    Run::of(running).ends(4);
}

#[test]
fn a_copy_within_this_machine_stops_as_well() {
    let sandbox = Sandbox::new();
    haul_e2e::fifo(Path::new(&sandbox.path("fifo")));
    sandbox.big_file("source", 3_000_000);
    // Nobody reads more than a little from the pipe, so the copy cannot end by itself.
    let mut reader = std::process::Command::new("sh");
    reader.args(["-c", "exec 3<fifo; head -c 1000 <&3 >/dev/null; sleep 60"]).current_dir(sandbox.path(""));
    let _reader = haul_lab::start(reader).unwrap();
    let mut running = sandbox.haul(["source", "fifo"]).start();
    assert!(!running.wait_up_to(Duration::from_millis(700)), "it ended: {}", running.stderr_so_far());
    kill_process_group(pid(running.id()), Signal::INT).expect("the group is there");
    assert!(running.wait_up_to(STOP_LIMIT), "still running: {}", running.stderr_so_far());
    Run::of(running).ends(4);
}
