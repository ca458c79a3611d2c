//! Remains of incomplete copies: listed, removed, and under `-a`, `--no-keep` and `--no-resume`. Also several runs at
//! once: of one copy, only one proceeds; different copies all do.

use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_e2e::{
    Haul, ProgramRun, Remote, Running, Sandbox, ServedShare, cases, compare, count, eventually, hidden_or_partial,
    listing, within,
};
use haul_lab::descendants;
use rustix::process::{Pid, Signal, kill_process};

/// More than a file needs to be recorded, in frames of 512 KiB and a rest.
const BIG: u64 = 32_000_001;
/// How much has arrived when a run is ended.
const SOME: u64 = 4_000_000;
/// So slow that it is ended in the middle.
const SLOW: [&str; 2] = ["--xfrrate", "4m"];
const LIMIT: Duration = Duration::from_secs(60);
/// How many runs there are at once.
const RUNS: usize = 20;

/// A file, and a directory that it goes into.
struct Copying<'a> {
    sandbox: &'a Sandbox,
    source: PathBuf,
    place: PathBuf,
}

impl<'a> Copying<'a> {
    fn of(sandbox: &'a Sandbox) -> Self {
        Self { sandbox, source: sandbox.big_file("source/big", BIG), place: sandbox.dir("place") }
    }

    fn haul(&self, options: &[&str]) -> Haul<'_> {
        self.sandbox.haul(["--json"]).limit(LIMIT).args(options).arg(&self.source).arg("place/big")
    }

    /// A slow run after its first data has arrived.
    #[track_caller]
    fn under_way(&self, options: &[&str]) -> Running {
        let running = self.haul(options).args(SLOW).start();
        let arrived = within(LIMIT, || hidden_or_partial(&self.place, &[], SOME).is_some());
        assert!(arrived, "nothing arrived\n{}", running.stderr_so_far());
        running
    }

    /// The same, ended by a signal.
    #[track_caller]
    fn broken(&self, options: &[&str], signal: Signal) {
        let mut running = self.under_way(options);
        let workers = descendants(running.id());
        running.signal(signal);
        assert!(running.wait_up_to(LIMIT), "still running");
        let is_gone = |worker: &u32| !Path::new(&format!("/proc/{worker}")).exists();
        assert!(within(LIMIT, || workers.iter().all(is_gone)), "a worker is left");
        assert!(!self.place.join("big").exists(), "a half copy has its final name");
    }

    /// Runs it again, to its end; how much it did not have to copy again.
    #[track_caller]
    fn goes_on(&self, options: &[&str]) -> u64 {
        let run = self.haul(options).run().succeeds();
        compare(&self.source, &self.place.join("big")).unwrap();
        assert_eq!(listing(&self.place), ["big"], "{}", run.account());
        let held = run.summary()["bytes_skipped"].as_u64().unwrap();
        let resumed = run.events().iter().any(|event| event["event"] == "resumed");
        assert_eq!(held > 0, resumed, "{}", run.account());
        std::fs::remove_file(self.place.join("big")).unwrap();
        held
    }

    fn look(&self, words: &[&str]) -> ProgramRun {
        self.sandbox.haul(words).run()
    }
}

#[track_caller]
fn prints(run: &ProgramRun, phrases: &[&str]) {
    phrases.iter().for_each(|phrase| assert!(run.stdout.contains(phrase), "did not say {phrase:?}\n{}", run.account()));
}

#[test]
fn a_broken_runs_remains_are_listed_and_removed() {
    let sandbox = Sandbox::new();
    let copying = Copying::of(&sandbox);
    prints(&copying.look(&["status", "place"]).succeeds(), &["no partial files below place"]);
    copying.broken(&[], Signal::KILL);
    for path in ["place", "place/big"] {
        let run = copying.look(&["status", path]).succeeds();
        prints(
            &run,
            &["place/big: ", " of 32.0 MB, last written ", " ago; rerun the command to resume", "1 unfinished, "],
        );
    }
    let events = copying.look(&["status", "--json", "place"]).succeeds().events();
    let (part, sum) = (&events[0], &events[1]);
    assert_eq!((&part["event"], &part["state"], &part["bytes"]), (&"unfinished".into(), &"part".into(), &BIG.into()));
    let recorded = part["bytes_recorded"].as_u64().unwrap();
    assert!((SOME / 2..BIG).contains(&recorded), "{part}");
    assert_eq!((&sum["event"], &sum["unfinished"]), (&"summary".into(), &1.into()));
    // The listed amount is the next run's starting point.
    assert_eq!(copying.goes_on(&[]), recorded);

    copying.broken(&[], Signal::KILL);
    let run = copying.look(&["clean", "place"]).succeeds();
    prints(&run, &["deleted place/big: ", " of 32.0 MB", "1 deleted, ", " freed"]);
    assert_eq!(listing(&copying.place), [""; 0]);
    prints(&copying.look(&["clean", "place"]).succeeds(), &["no partial files below place"]);
}

#[test]
fn remains_on_other_hosts_are_listed_and_removed() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let copying = Copying::of(&sandbox);
    let serve = |options: &[&str]| {
        ServedShare::of(sandbox.haul(["serve", "--bind", "127.0.0.1", "--json"]).args(options).arg("place"))
    };
    let server = serve(&[]);
    let ssh = remote.sshd().haul_args();
    let there = remote.at(&copying.place).into_string().unwrap();
    for (options, place) in [(&ssh[..], there), (&[], server.at("."))] {
        let run = |command: &str, path: &str| {
            let path = place.strip_suffix('.').map_or_else(
                || format!("{place}{path}"),
                |line| format!("{line}{}", path.strip_prefix('/').unwrap_or(".")),
            );
            sandbox.haul([command]).args(options).arg(path).run()
        };
        prints(&run("status", "").succeeds(), &["no partial files below "]);
        copying.broken(&[], Signal::KILL);
        for path in ["", "/big"] {
            let run = run("status", path).succeeds();
            prints(&run, &["/big: ", " of 32.0 MB, last written ", "1 unfinished, "]);
            assert!(!run.stdout.contains('#') && run.stdout.contains(":"), "{}", run.account());
        }
        let part = sandbox.haul(["status", "--json"]).args(options).arg(&place).run().succeeds().events().remove(0);
        assert_eq!((&part["state"], &part["bytes"]), (&"part".into(), &BIG.into()));
        assert!(part["host"].is_string(), "{part}");
        prints(&run("clean", "").succeeds(), &["deleted ", "/big: ", " of 32.0 MB", "1 deleted, ", " freed"]);
        assert_eq!(listing(&copying.place), [""; 0]);

        let running = copying.under_way(&[]);
        prints(&run("clean", "").succeeds(), &["kept ", "being written by process ", "0 deleted"]);
        faster(running).succeeds();
        std::fs::remove_file(copying.place.join("big")).unwrap();
        run("clean", "/missing").ends(1).says(["missing: ", "no such file, and no partial file of it"]);
    }
    server.end().succeeds();
    copying.broken(&[], Signal::KILL);
    for (access, status) in [("--read-only", 0), ("--write-only", 2)] {
        let server = serve(&[access]);
        sandbox.haul(["status", &server.line]).run().ends(status);
        let removed = sandbox.haul(["clean", &server.line]).run();
        match access {
            "--read-only" => removed.ends(2).says(["writing is forbidden"]),
            _ => removed.ends(1).says(["deleting is forbidden"]),
        };
        assert_eq!(listing(&copying.place).len(), 2);
        server.end().succeeds();
    }
}

#[test]
fn a_copy_into_another_hosts_directory_leaves_no_lock_file() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.file("tree/file", b"x");
    let (to, options) = (remote.at(sandbox.path("to")), remote.sshd().haul_args());
    sandbox.haul(["-r"]).args(options.clone()).arg("tree").arg(to).run().succeeds();
    let whole = sandbox.haul(["status"]).args(options).arg(remote.at(sandbox.path(""))).run().succeeds();
    prints(&whole, &["no partial files below "]);
    let locks = remote.home().join(".local/state/haul/locks");
    assert_eq!(listing(&locks), [""; 0]);
}

#[test]
fn files_of_a_running_copy_are_named_and_never_removed() {
    let sandbox = Sandbox::new();
    let copying = Copying::of(&sandbox);
    let running = copying.under_way(&[]);
    let worker = descendants(running.id());
    assert_eq!(worker.len(), 1);
    let busy = format!(" of 32.0 MB, being written by process {}", worker[0]);
    prints(&copying.look(&["status", "place"]).succeeds(), &["place/big: ", &busy]);
    prints(&copying.look(&["clean", "place"]).succeeds(), &["kept place/big: ", &busy, "0 deleted"]);
    faster(running).succeeds();
    compare(&copying.source, &copying.place.join("big")).unwrap();
    assert_eq!(listing(&copying.place), ["big"]);
}

#[test]
fn an_unreadable_place_is_an_error() {
    let sandbox = Sandbox::new();
    let copying = Copying::of(&sandbox);
    copying.look(&["clean", "nowhere/big"]).ends(1).says(["nowhere/big"]);
    copying.look(&["status"]).ends(2).says(["PATH"]);
    sandbox.file("status", "a file");
    copying.look(&["status", "place"]).succeeds();
    copying.look(&["./status", "place"]).succeeds();
    assert_eq!(listing(&copying.place), ["status"]);
}

#[test]
fn journals_may_have_a_directory_of_their_own() {
    let sandbox = Sandbox::new();
    let copying = Copying::of(&sandbox);
    let journals = sandbox.dir("journals").display().to_string() + "/";
    let option = ["--journal-dir", &journals];
    copying.broken(&option, Signal::KILL);
    assert_eq!((listing(&copying.place).len(), listing(Path::new(&journals)).len()), (1, 1));
    prints(&copying.look(&["status", "place"]).succeeds(), &["no journal, so a rerun starts over"]);
    prints(&copying.look(&["status", "--journal-dir", &journals, "place"]).succeeds(), &["place/big: ", " of 32.0 MB"]);
    prints(&copying.look(&["clean", &journals]).succeeds(), &["kept ", "in another directory (--journal-dir)"]);
    assert!(copying.goes_on(&option) > 0);
    assert_eq!(listing(Path::new(&journals)), [""; 0]);
    // Without the option, the journal is not found.
    copying.broken(&option, Signal::KILL);
    assert_eq!(copying.goes_on(&[]), 0);
}

#[test]
fn interrupted_files_are_kept_by_default() {
    let sandbox = Sandbox::new();
    let copying = Copying::of(&sandbox);
    for signal in [Signal::INT, Signal::KILL] {
        copying.broken(&[], signal);
        assert_eq!(listing(&copying.place).len(), 2, "a part and its journal");
        assert!(copying.goes_on(&[]) > 0);
        for option in ["--no-keep", "--no-resume"] {
            copying.broken(&[option], signal);
            assert_eq!(listing(&copying.place), [""; 0], "{option}");
            assert_eq!(copying.goes_on(&[option]), 0);
        }
    }
}

#[test]
fn no_resume_restarts_and_no_keep_does_not() {
    let sandbox = Sandbox::new();
    let copying = Copying::of(&sandbox);
    copying.broken(&[], Signal::KILL);
    assert_eq!(copying.goes_on(&["--no-resume"]), 0);
    copying.broken(&[], Signal::KILL);
    assert!(copying.goes_on(&["--no-keep"]) > 0);
}

/// Makes it so fast that it ends.
fn faster(mut running: Running) -> ProgramRun {
    let ended = within(LIMIT, || {
        running.signal(Signal::USR1);
        running.wait_up_to(Duration::from_millis(100))
    });
    assert!(ended, "it is no faster: {}", running.stderr_so_far());
    ProgramRun::of(running)
}

#[test]
fn waiting_for_an_ending_run_finds_its_complete_file() {
    let sandbox = Sandbox::new();
    let copying = Copying::of(&sandbox);
    let first = copying.under_way(&[]);
    let second = copying.haul(&[]).start();
    let says = format!("waiting for haul {}, which writes the same file", descendants(first.id())[0]);
    let waits = within(LIMIT, || second.stdout_so_far().contains(&says));
    assert!(waits, "it does not wait: {}", second.stderr_so_far());
    faster(first).succeeds();
    let run = ProgramRun::of(second);
    assert_eq!(run.stdout.matches(&says).count(), 1, "{}", run.account());
    assert_eq!(run.succeeds().summary()["files_skipped"], 1);
    compare(&copying.source, &copying.place.join("big")).unwrap();
    assert_eq!(listing(&copying.place), ["big"]);
}

#[test]
fn waiting_for_a_run_accuses_it_of_no_failure() {
    let sandbox = Sandbox::new();
    let copying = Copying::of(&sandbox);
    // With a journal, the thread that decides waits; without one, a stream.
    for options in [&[][..], &["--no-resume"]] {
        let first = copying.under_way(&["--no-resume"]);
        let paused = Paused::workers_of(&first);
        let run = copying.haul(options).run().ends(1).says([paused.named().as_str(), "wait for it, or end it"]);
        assert_eq!(run.summary()["verdict"]["limit"], "none", "{}", run.account());
        drop(paused);
        faster(first).succeeds();
        std::fs::remove_file(copying.place.join("big")).unwrap();
    }
}

/// Workers of a run that make no progress until this is dropped.
struct Paused(Vec<u32>);

impl Paused {
    fn workers_of(run: &Running) -> Self {
        let workers = descendants(run.id());
        signal_all(&workers, Signal::STOP);
        Self(workers)
    }

    /// How another run names the first of them.
    fn named(&self) -> String {
        format!("another haul (process {})", self.0[0])
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        signal_all(&self.0, Signal::CONT);
    }
}

fn signal_all(processes: &[u32], signal: Signal) {
    for process in processes {
        let process = Pid::from_raw(i32::try_from(*process).unwrap()).unwrap();
        kill_process(process, signal).unwrap();
    }
}

/// Starts the same command several times at once. One copies, and all others wait for it.
#[track_caller]
fn one_copies(sandbox: &Sandbox, words: &[&str], files: u64) {
    let start = |_| sandbox.haul(words).args(["--json", "--xfrrate", "4m"]).limit(LIMIT).start();
    let first = start(0);
    // Then no other run decides to create a file that this one completes.
    eventually("it copies", || first.stdout_so_far().contains("\"bytes_written\""));
    let running = std::iter::once(first).chain((1..RUNS).map(start)).collect::<Vec<_>>();
    let runs: Vec<_> = running.into_iter().map(|run| ProgramRun::of(run).succeeds()).collect();
    let copied: Vec<_> = runs.iter().map(|run| run.summary()["files_copied"].as_u64().unwrap()).collect();
    assert_eq!(copied.iter().sum::<u64>(), files, "{copied:?}");
}

#[test]
fn among_many_runs_of_one_copy_one_proceeds_and_the_others_wait() {
    let runs = cases("HAUL_CONCURRENT", RUNS as u64);
    (0..runs.div_ceil(RUNS as u64)).for_each(|_| many_runs_at_once());
    count("concurrent-runs", runs);
}

fn many_runs_at_once() {
    let sandbox = Sandbox::new();
    let place = sandbox.dir("place");
    sandbox.big_file("tree/big", 3_000_000);
    (0..20).for_each(|n| drop(sandbox.big_file(format!("tree/small/{n}"), 60_000)));
    one_copies(&sandbox, &["-r", "tree", "place"], 21);
    compare(&sandbox.path("tree"), &place.join("tree")).unwrap();
    assert_eq!(listing(&place), ["tree"]);

    // Under another name, which the runs race to create. A rerun resumes in it.
    one_copies(&sandbox, &["-r", "tree", "place/copy"], 21);
    sandbox.haul(["-r", "tree", "place/copy"]).run().succeeds();
    compare(&sandbox.path("tree"), &place.join("copy")).unwrap();
    assert_eq!(listing(&place), ["copy", "tree"]);

    sandbox.big_file("large", 20_000_000);
    one_copies(&sandbox, &["large", "place/large"], 1);
    compare(&sandbox.path("large"), &place.join("large")).unwrap();
    assert_eq!(listing(&place), ["copy", "large", "tree"]);

    let files: Vec<_> = (0..RUNS).map(|n| sandbox.big_file(format!("file{n}"), 1_500_000 + n as u64)).collect();
    let running: Vec<_> = files.iter().map(|file| sandbox.haul([file.as_os_str(), "place".as_ref()]).start()).collect();
    running.into_iter().for_each(|run| drop(ProgramRun::of(run).succeeds()));
    files.iter().for_each(|file| compare(file, &place.join(file.file_name().unwrap())).unwrap());
    assert_eq!(listing(&place).len(), RUNS + 3);
}
