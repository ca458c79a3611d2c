//! System calls that fail, and ends killed in the middle of one: in all cases, no wrong file has a final name, the exit
//! status reports the failure, and the same command resumes.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use haul_e2e::{Haul, Remote, Sandbox, cases, compare, count, is_root_or_skip, listing, strace_arguments};

const LIMIT: Duration = Duration::from_secs(60);
/// Cases at a time: they wait for each other's processes more than for processors.
const AT_A_TIME: usize = 3;
/// System calls of both ends, and of the controller.
const CALLS: [&str; 12] = [
    "openat",
    "pread64",
    "pwrite64",
    "ftruncate",
    "renameat2",
    "linkat",
    "mkdirat",
    "fchmod",
    "utimensat",
    "flock",
    "newfstatat",
    "getdents64",
];
const ERRORS: [&str; 5] = ["EIO", "ENOSPC", "EDQUOT", "EINTR", "EMFILE"];
/// Calls to be killed in, and about how often the busiest thread makes each.
const KILLED_IN: [(&str, usize); 10] = [
    ("pwrite64", 34),
    ("pread64", 14),
    ("openat", 12),
    ("utimensat", 4),
    ("newfstatat", 4),
    ("linkat", 3),
    ("mkdirat", 3),
    ("fchmod", 2),
    ("renameat2", 1),
    ("ftruncate", 1),
];
/// The sizes to copy: the first file has a journal.
const BIG: u64 = 17_000_001;
/// A journal's slot, and the header before the first slot.
const SLOT_BYTES: usize = 48;
const HEADER_BYTES: usize = 1024;
const FRAME_BYTES: u64 = 512 << 10;

/// A tree in memory, with room for its copies.
struct Ground<'a> {
    sandbox: &'a Sandbox,
    source: PathBuf,
    base: PathBuf,
    next: AtomicUsize,
}

impl<'a> Ground<'a> {
    fn new(sandbox: &'a Sandbox, base: &Path) -> Self {
        let source = base.join("source");
        for (path, bytes) in [("source/big", BIG), ("source/deep/er/middle", 300_000), ("source/deep/small", 2000)] {
            sandbox.big_file(base.join(path), bytes);
        }
        for name in ["one", "two", "empty"] {
            sandbox.file(base.join("source").join(name), if name == "empty" { "" } else { name });
        }
        std::os::unix::fs::symlink("deep/small", source.join("link")).unwrap();
        Self { sandbox, source, base: base.to_owned(), next: AtomicUsize::new(0) }
    }

    /// The target of the next case.
    fn place(&self) -> PathBuf {
        self.sandbox.dir(self.base.join(format!("place{}", self.next.fetch_add(1, Ordering::Relaxed)))).join("source")
    }

    fn copy(&self, place: &Path) -> Haul<'_> {
        let into = place.parent().unwrap();
        self.sandbox.haul(["-r", "--json", "--progress=1"]).limit(LIMIT).arg(&self.source).arg(into)
    }
}

/// Final names belong to complete files: every visible file below `place` is the source's.
#[track_caller]
fn nothing_wrong_has_a_name(source: &Path, place: &Path, account: &str) {
    let Ok(entries) = fs::read_dir(place) else { return };
    for entry in entries {
        let name = entry.unwrap().file_name();
        let (there, here) = (place.join(&name), source.join(&name));
        if name.to_string_lossy().starts_with(".haul-") {
            continue;
        }
        let kind = fs::symlink_metadata(&there).unwrap().file_type();
        if kind.is_dir() {
            nothing_wrong_has_a_name(&here, &there, account);
        } else if kind.is_symlink() {
            assert_eq!(fs::read_link(&there).unwrap(), fs::read_link(&here).unwrap(), "{account}");
        } else {
            let same = fs::read(&there).unwrap() == fs::read(&here).unwrap();
            assert!(same, "{} is not what the source has\n{account}", there.display());
        }
    }
}

/// The frames that a killed run has recorded of `big`, if it came that far and not further: where a call fails while
/// the journal of the finished file is removed, the next run removes it.
fn recorded(place: &Path) -> u64 {
    if place.join("big").exists() {
        return 0;
    }
    let Ok(entries) = fs::read_dir(place) else { return 0 };
    let journal =
        entries.map(|entry| entry.unwrap().path()).find(|path| path.extension().is_some_and(|e| e == "journal"));
    let bytes = journal.map(|path| fs::read(path).unwrap()).unwrap_or_default();
    let slots = bytes.get(HEADER_BYTES..).unwrap_or_default().chunks_exact(SLOT_BYTES);
    slots.filter(|slot| slot.iter().any(|byte| *byte != 0)).count() as u64
}

/// The same command without a fault: it copies exactly the source's files, and does not resend recorded data.
#[track_caller]
fn goes_on(copy: Haul<'_>, source: &Path, place: &Path, account: &str) {
    let frames = recorded(place);
    let run = copy.run().succeeds();
    compare(source, place).unwrap_or_else(|error| panic!("{error}\nafter {account}\n{}", run.account()));
    assert_eq!(listing(place), listing(source), "after {account}");
    let held: u64 = run.events().iter().filter_map(|event| event["bytes_held"].as_u64()).sum();
    let last = BIG % FRAME_BYTES;
    let least = (frames * FRAME_BYTES).saturating_sub(FRAME_BYTES - last);
    assert!(held >= least, "{frames} frames were recorded, {held} bytes held\nafter {account}\n{}", run.account());
    fs::remove_dir_all(place).unwrap();
}

/// Runs `case` for each of `numbers`, some at a time. A case that panics fails the test.
fn all(numbers: u64, case: impl Fn(usize) + Sync) {
    let numbers = usize::try_from(numbers).unwrap();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= numbers {
                        return;
                    }
                    case(number);
                }
            });
        }
    });
}

fn has_strace() -> bool {
    let found = Command::new("strace").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !found {
        println!("SKIPPED: there is no strace");
    }
    found
}

#[test]
fn a_failing_call_costs_at_most_a_file_and_is_named() {
    if !has_strace() || !is_root_or_skip("a file system in memory") {
        return;
    }
    let sandbox = Sandbox::new();
    let tmpfs = sandbox.tmpfs("memory", "size=512m");
    let ground = Ground::new(&sandbox, tmpfs.path());
    let wanted = cases("HAUL_FAULTS", 240);
    let (failed, named) = (AtomicUsize::new(0), AtomicUsize::new(0));
    all(wanted, |number| {
        let call = CALLS[number % CALLS.len()];
        let error = ERRORS[number / CALLS.len() % ERRORS.len()];
        let when = 1 + number / (CALLS.len() * ERRORS.len());
        let place = ground.place();
        let run = ground.copy(&place).injecting(call, &format!("error={error}:when={when}")).run();
        let account = format!("{call} {error} {when}: {}", run.account());
        assert!(!run.timed_out, "{account}");
        nothing_wrong_has_a_name(&ground.source, &place, &account);
        if run.status == Some(0) {
            compare(&ground.source, &place).unwrap_or_else(|error| panic!("{error}\n{account}"));
        } else {
            failed.fetch_add(1, Ordering::Relaxed);
            assert!(run.stderr.contains("haul: "), "it says nothing\n{account}");
            let names_a_file = run.stderr.contains("memory/");
            named.fetch_add(names_a_file.into(), Ordering::Relaxed);
        }
        goes_on(ground.copy(&place), &ground.source, &place, &account);
    });
    let (failed, named) = (failed.into_inner(), named.into_inner());
    println!("{failed} of {wanted} runs failed, {named} of them by the name of a file");
    assert!(failed as u64 * 4 > wanted, "the faults hardly reached anything");
    count("failing-calls", wanted);
}

#[test]
fn killed_at_any_call_it_resumes_with_all_recorded_data() {
    if !has_strace() || !is_root_or_skip("a file system in memory") {
        return;
    }
    let sandbox = Sandbox::new();
    let tmpfs = sandbox.tmpfs("memory", "size=512m");
    let ground = Ground::new(&sandbox, tmpfs.path());
    let places: Vec<_> = KILLED_IN.iter().flat_map(|(call, most)| (1..=*most).map(move |when| (*call, when))).collect();
    let wanted = cases("HAUL_KILLS", places.len() as u64 + 20);
    let killed = AtomicUsize::new(0);
    all(wanted, |number| {
        let (call, when) = places[number % places.len()];
        let place = ground.place();
        let run = ground.copy(&place).injecting(call, &format!("signal=KILL:when={when}")).run();
        let account = format!("killed at {call} {when}: {}", run.account());
        killed.fetch_add((run.status != Some(0)).into(), Ordering::Relaxed);
        nothing_wrong_has_a_name(&ground.source, &place, &account);
        goes_on(ground.copy(&place), &ground.source, &place, &account);
    });
    let killed = killed.into_inner() as u64;
    assert!(killed * 4 > wanted, "hardly any was killed: {killed} of {wanted}");
    count("kills", killed);
}

#[test]
fn either_end_killed_on_its_own_host_resumes() {
    if !has_strace() {
        return;
    }
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let ground = Ground::new(&sandbox, &sandbox.path("ground"));
    let wanted = cases("HAUL_KILLS_OVER_SSH", 20);
    all(wanted, |number| {
        let (push, when) = (number % 2 == 0, 1 + number / 2 * 3);
        let call = if number % 4 < 2 { "pwrite64" } else { "pread64" };
        let place = ground.place();
        let haul = |command: Option<String>| {
            let options = ["-r", "--json", "--progress=1", "--retries", "0"];
            let mut haul = remote.haul(&sandbox).limit(LIMIT).args(options);
            if let Some(command) = command {
                haul = haul.args([if push { "--target-command" } else { "--source-command" }, &command]);
            }
            match push {
                true => haul.arg(&ground.source).arg(remote.at(place.parent().unwrap())),
                false => haul.arg(remote.at(&ground.source)).arg(place.parent().unwrap()),
            }
        };
        let traced = format!(
            "ssh -F {} %H strace {} {}",
            remote.sshd().ssh_config().display(),
            strace_arguments(call, &format!("signal=KILL:when={when}")).join(" "),
            haul_e2e::haul_binary().display()
        );
        let run = haul(Some(traced)).run();
        let account = format!("the far end killed at {call} {when}: {}", run.account());
        nothing_wrong_has_a_name(&ground.source, &place, &account);
        goes_on(haul(None), &ground.source, &place, &account);
    });
    count("kills", wanted);
}

#[test]
fn the_harness_detects_planted_faults() {
    let sandbox = Sandbox::new();
    let ground = Ground::new(&sandbox, &sandbox.path("ground"));
    let place = ground.place();
    ground.copy(&place).run().succeeds();
    let caught = |what: &dyn Fn()| {
        what();
        let looks = || nothing_wrong_has_a_name(&ground.source, &place, "planted");
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(looks)).is_err()
    };
    assert!(!caught(&|| {}), "nothing is wrong");
    let whole = fs::read(place.join("deep/small")).unwrap();
    assert!(caught(&|| fs::write(place.join("deep/small"), &whole[..1999]).unwrap()), "a file that is too short");
    fs::write(place.join("deep/small"), &whole).unwrap();
    assert!(caught(&|| fs::write(place.join("deep/er/middle"), vec![0; 300_000]).unwrap()), "zeros");
    assert_eq!(fs::metadata(place.join("big")).unwrap().size(), BIG);
}
