//! Broken and stalled streams, and temporary outages: the copy recovers by itself, and the data arrives unchanged.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_e2e::{HostPair, ProgramRun, Running, Sandbox, cases, compare, count, eventually, is_root_or_skip, within};
use rustix::process::{Pid, Signal, kill_process};

/// The table of the packet filter that tests put into the far host.
const TABLE: &str = "glitch";
/// Short glitches of a copy.
const GLITCHES: u64 = 25;
/// How long a copy may take that is disturbed.
const LIMIT: Duration = Duration::from_secs(120);
/// How soon after a link is back data has to flow. haul promises 5 s; by themselves, the kernel's timers would take as
/// long again as the link was down.
const HEALED: Duration = Duration::from_secs(15);

/// A copy that is under way.
struct Copying<'a> {
    pair: &'a HostPair,
    source: PathBuf,
    target: PathBuf,
    running: Running,
}

/// Starts to copy a file of `bytes` over `streams` streams, pushing or pulling, and waits until all streams carry some of it.
#[track_caller]
fn copying<'a>(sandbox: &Sandbox, pair: &'a HostPair, push: bool, bytes: u64, streams: usize) -> Copying<'a> {
    let source = sandbox.big_file("source", bytes);
    let target = sandbox.dir("place").join("target");
    let (from, to) =
        if push { (source.clone().into(), pair.at(&target)) } else { (pair.at(&source), target.clone().into()) };
    // The copy is not begun again: it is the streams that have to be replaced.
    let running = pair.haul(sandbox).args(["--retries", "0", "-s", &streams.to_string()]).arg(from).arg(to).start();
    let copying = Copying { pair, source, target, running };
    let begun = within(Duration::from_secs(20), || copying.streams().len() == streams && copying.written() > 1 << 20);
    assert!(begun, "{:?}, {} bytes\n{}", copying.streams(), copying.written(), copying.running.stderr_so_far());
    copying
}

impl Copying<'_> {
    /// The data connections: their ports at the near host, and at the far one.
    fn streams(&self) -> Vec<(u16, u16)> {
        self.pair.connections().iter().map(|connection| (connection.near, connection.far)).collect()
    }

    /// Bytes at the target, with or without their final name.
    fn written(&self) -> u64 {
        let place = self.target.parent().unwrap_or(Path::new("/"));
        let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
        entries.filter_map(|entry| Some(entry.metadata().ok()?.blocks() * 512)).sum()
    }

    /// There have to be as many streams as there were, all others than this one.
    #[track_caller]
    fn is_replaced(&self, lost: (u16, u16), streams: usize) {
        eventually("another stream in the place of the lost one", || {
            let now = self.streams();
            now.len() == streams && !now.contains(&lost)
        });
    }

    /// Disturbs the far host by these rules of a filter's input and output.
    fn filter(&self, input: &str, output: &str) {
        let chain = |name: &str, rule: &str| format!("chain {name} {{ type filter hook {name} priority 0; {rule} }}\n");
        let rules = format!("table inet {TABLE} {{ {}{} }}", chain("input", input), chain("output", output));
        self.pair.far.nft(&rules).unwrap();
    }

    /// Drops all data for a while; ssh continues.
    fn cut_for(&self, time: Duration) {
        let ssh = self.pair.remote.sshd().port();
        let rule = |side: &str| format!("tcp {side} != {ssh} drop;");
        self.filter(&rule("dport"), &rule("sport"));
        std::thread::sleep(time);
        self.pair.far.nft(&format!("delete table inet {TABLE}")).unwrap();
    }

    fn is_over(&mut self) -> bool {
        self.running.wait_up_to(Duration::ZERO)
    }

    /// After a cut, it has to go on. `false` when it has come to its end, where the machine was slower than the link.
    #[track_caller]
    fn goes_on(&mut self) -> bool {
        let before = self.written();
        let goes_on = within(HEALED, || self.is_over() || self.written() > before + (1 << 20));
        assert!(goes_on, "nothing came for {HEALED:?}\n{}", self.running.stderr_so_far());
        !self.is_over()
    }

    #[track_caller]
    fn arrives(self) -> ProgramRun {
        let Self { pair, source, target, mut running } = self;
        assert!(running.wait_up_to(LIMIT), "still running\n{}", running.stderr_so_far());
        let run = ProgramRun::of(running).succeeds();
        compare(&source, &target).unwrap();
        pair.remote.is_left_clean();
        run
    }
}

#[test]
fn a_reset_stream_is_replaced() {
    if !is_root_or_skip("a network namespace") {
        return;
    }
    for (push, at_near) in [(true, true), (false, false)] {
        let sandbox = Sandbox::new();
        let pair = HostPair::slow(&sandbox, 50);
        let copy = copying(&sandbox, &pair, push, 32_000_001, 4);
        let lost = copy.streams()[1];
        let (host, end) = if at_near { (&pair.near, "sport") } else { (&pair.far, "dport") };
        host.run("ss", ["-K", end, "=", &format!(":{}", lost.0)]).unwrap();
        copy.is_replaced(lost, 4);
        copy.arrives().says(["data stream", "the other streams take over its work"]);
    }
}

#[test]
fn a_stalled_stream_is_given_up_and_replaced() {
    if !is_root_or_skip("a network namespace") {
        return;
    }
    for push in [true, false] {
        let sandbox = Sandbox::new();
        let pair = HostPair::slow(&sandbox, 20);
        let copy = copying(&sandbox, &pair, push, 40_000_001, 8);
        let lost = copy.streams()[3];
        copy.filter(&format!("tcp sport {} drop;", lost.0), &format!("tcp dport {} drop;", lost.0));
        copy.is_replaced(lost, 8);
        copy.arrives().says(["had no answer"]);
    }
    count("streams-stopped", 2);
}

#[test]
fn a_pausing_target_costs_no_stream() {
    if !is_root_or_skip("a network namespace") {
        return;
    }
    let sandbox = Sandbox::new();
    let pair = HostPair::slow(&sandbox, 50);
    let copy = copying(&sandbox, &pair, true, 32_000_001, 4);
    let [worker] = pair.remote.workers()[..] else { panic!("one worker") };
    let worker = i32::try_from(worker).ok().and_then(Pid::from_raw).unwrap();
    kill_process(worker, Signal::STOP).unwrap();
    // Longer than a stream may stay unanswered: its host answers that there is no room.
    std::thread::sleep(Duration::from_secs(8));
    kill_process(worker, Signal::CONT).unwrap();
    copy.arrives().does_not_say("data stream");
}

#[test]
fn glitches_of_the_link_are_lived_through() {
    if !is_root_or_skip("a network namespace") {
        return;
    }
    let all = cases("HAUL_GLITCHES", GLITCHES);
    for first in (0..all).step_by(25) {
        let number = (all - first).min(GLITCHES);
        let sandbox = Sandbox::new();
        let pair = HostPair::slow(&sandbox, 50);
        let mut copy = copying(&sandbox, &pair, true, 100_000_001, 8);
        copy.cut_for(Duration::from_secs(3));
        assert!(copy.goes_on());
        let short = (first..first + number).map(|number| Duration::from_millis(50 + 97 * number % 251));
        let goes_on = |glitch: &Duration| {
            copy.cut_for(*glitch);
            copy.goes_on()
        };
        let lived_through = short.take_while(goes_on).count();
        copy.arrives();
        count("glitches-short", lived_through as u64);
        count("glitches-of-3-s", 1);
    }
}

#[test]
fn a_link_back_after_a_long_outage_is_used_again() {
    if !is_root_or_skip("a network namespace") {
        return;
    }
    let lives_through = |push| {
        let sandbox = Sandbox::new();
        let pair = HostPair::slow(&sandbox, 50);
        let mut copy = copying(&sandbox, &pair, push, 40_000_001, 8);
        copy.cut_for(Duration::from_secs(8));
        assert!(copy.goes_on());
        copy.arrives();
        count("glitches-of-8-s", 1);
    };
    std::thread::scope(|scope| {
        scope.spawn(|| lives_through(false));
        lives_through(true);
    });
}

#[test]
fn an_outage_of_the_data_path_alone_is_bypassed_through_ssh() {
    if !is_root_or_skip("a network namespace") {
        return;
    }
    let bypasses = |push| {
        let sandbox = Sandbox::new();
        let pair = HostPair::slow(&sandbox, 50);
        let copy = copying(&sandbox, &pair, push, 40_000_001, 8);
        let ssh = pair.remote.sshd().port();
        let rule = |side: &str| format!("tcp {side} != {ssh} drop;");
        copy.filter(&rule("dport"), &rule("sport"));
        copy.arrives();
    };
    std::thread::scope(|scope| {
        scope.spawn(|| bypasses(false));
        bypasses(true);
    });
}
