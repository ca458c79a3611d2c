//! A copy over a slow cable, caught half done, for tests that interfere with it: with its processes, or with the way.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use haul_lab::{Cgroup, Running, descendants};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::processes::{commands, is_process, pid};
use crate::{HostPair, ProgramRun, Sandbox, compare, eventually, hidden_or_partial, is_root_or_skip, listing, within};

/// The copies take about three seconds at this rate.
const BIG: u64 = 32_000_000;
/// How much has arrived when a test may interfere.
const SOME: u64 = 1_000_000;

/// The slow cable's rate.
pub const MEGABIT_PER_S: u32 = 100;

/// A running copy over a slow cable: of the directory `source`, with `little` and `big`, to the new directory
/// `place/target`.
#[derive(Debug)]
pub struct RunningCopy<'a> {
    pair: &'a HostPair,
    cgroup: &'a Cgroup,
    source: PathBuf,
    target: PathBuf,
    /// The program.
    pub running: Running,
}

/// A control group for a running copy. Prints the reason if impossible.
pub fn group_or_skip() -> Option<Cgroup> {
    if !is_root_or_skip("a slow cable") {
        return None;
    }
    let cgroup = Cgroup::create();
    if cgroup.is_none() {
        println!("SKIPPED: no control group can be made here, so what is left running could not be told");
    }
    cgroup
}

impl<'a> RunningCopy<'a> {
    /// Starts to copy with these options, pushing or pulling, and waits until some of the big file has arrived.
    #[track_caller]
    pub fn start(sandbox: &'a Sandbox, pair: &'a HostPair, cgroup: &'a Cgroup, push: bool, options: &[&str]) -> Self {
        sandbox.big_file("source/big", BIG);
        sandbox.file("source/little", "little");
        let (source, target) = (sandbox.path("source"), sandbox.path("place/target"));
        sandbox.dir("place");
        let (from, to) = match push {
            true => (source.clone().into(), pair.at(&target)),
            false => (pair.at(&source), target.clone().into()),
        };
        let running = pair.haul(sandbox).cgroup(cgroup).args(options).arg("-r").arg(from).arg(to).start();
        let copy = Self { pair, cgroup, source, target, running };
        assert!(copy.has_some(), "nothing arrived\n{}", copy.running.stderr_so_far());
        copy
    }

    fn has_some(&self) -> bool {
        within(Duration::from_secs(20), || hidden_or_partial(&self.target, &["big", "little"], SOME).is_some())
    }

    /// Signals the program and all that it started here.
    pub fn signal_group(&self, signal: Signal) {
        kill_process_group(pid(self.running.id()), signal).expect("the group is there");
    }

    /// Signals the worker on the far host.
    #[track_caller]
    pub fn signal_far_worker(&self, signal: Signal) {
        let workers = self.pair.remote.workers();
        assert!(!workers.is_empty(), "{:?}", commands(&self.pair.remote.sshd().session_pids()));
        workers.iter().for_each(|&worker| kill_process(pid(worker), signal).expect("it was there"));
    }

    /// The only local process below the program with this executable, either a worker or not.
    #[track_caller]
    pub fn process(&self, executable: &str, is_worker: bool) -> Pid {
        let below = descendants(self.running.id());
        let found: Vec<_> = below.iter().filter(|&&id| is_process(id, executable, is_worker)).collect();
        assert_eq!(found.len(), 1, "{:?}", commands(&below));
        pid(*found[0])
    }

    /// Waits until it says `phrase` on standard error.
    #[track_caller]
    pub fn says(&self, phrase: &str) {
        eventually(phrase, || self.running.stderr_so_far().contains(phrase));
    }

    /// It has to be over within `limit`, with all that it started on both hosts, and to have failed.
    #[track_caller]
    pub fn over_within(mut self, limit: Duration) -> ProgramRun {
        let started = Instant::now();
        let ended = self.running.wait_up_to(limit);
        assert!(ended, "still running after {limit:?}: {}", self.running.stderr_so_far());
        let left = || (self.cgroup.pids(), self.pair.remote.sshd().session_pids());
        let clean = within(limit.saturating_sub(started.elapsed()), || left() == (vec![], vec![]));
        assert!(clean, "left here and there after {limit:?}: {:?}, {:?}", commands(&left().0), commands(&left().1));
        let run = ProgramRun::of(self.running);
        assert!(!self.target.join("big").exists(), "a half copy has its final name\n{}", run.account());
        run
    }

    /// The copy must succeed, with everything copied, and nothing else left behind.
    #[track_caller]
    pub fn completes(self) -> ProgramRun {
        let run = ProgramRun::of(self.running).succeeds();
        compare(&self.source, &self.target).unwrap_or_else(|error| panic!("{error}\n{}", run.account()));
        assert_eq!(listing(&self.target), ["big", "little"]);
        let left = || (self.cgroup.pids(), self.pair.remote.commands());
        eventually("nothing is left running", || left() == (vec![], vec![]));
        run
    }
}

/// Reruns an interrupted push: it must complete, with nothing else left behind.
#[track_caller]
pub fn goes_on(sandbox: &Sandbox, pair: &HostPair) {
    let (source, target) = (sandbox.path("source"), sandbox.path("place/target"));
    pair.haul(sandbox).arg("-r").arg(&source).arg(pair.at(&target)).run().succeeds();
    compare(&source, &target).unwrap();
    assert_eq!(listing(&target), ["big", "little"]);
}
