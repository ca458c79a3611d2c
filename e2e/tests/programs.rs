//! `-N`: programs and FIFOs at the ends of a copy. A failure at one end ends the other, and no program is left.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use haul_e2e::{Haul, ProgramRun, Remote, Sandbox, compare, eventually, fifo, listing, within};
use rustix::process::{Pid, Signal, kill_process};

const LIMIT: Duration = Duration::from_secs(60);

/// A remote program, as an operand.
fn at(remote: &Remote, program: &str) -> String {
    remote.at(program).into_string().unwrap()
}

/// Processes that have this word in their environment or command line.
fn running(word: &str) -> Vec<i32> {
    let has_word = |pid: &i32| {
        let read = |what| fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
        let is_ours = String::from_utf8_lossy(&read("environ")).contains(word);
        is_ours || String::from_utf8_lossy(&read("cmdline")).contains(word)
    };
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let own = i32::try_from(std::process::id()).unwrap();
    pids.filter(|pid| *pid != own).filter(has_word).collect()
}

#[track_caller]
fn nothing_runs(word: &str) {
    eventually("no program is left", || running(word).is_empty());
}

#[test]
fn a_tree_passes_through_two_programs_in_either_direction() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.big_file("tree/big", 20_000_003);
    sandbox.file("tree/small", "small");
    let (there, back) = (sandbox.dir("there"), sandbox.dir("back"));
    let packs = "tar -cf - tree";
    let unpacks = format!("tar -xf - -C {}", there.display());
    remote.haul(&sandbox).args(["--pipe", "io", "-s", "8", packs]).arg(at(&remote, &unpacks)).run().succeeds();
    compare(&sandbox.path("tree"), &there.join("tree")).unwrap();
    let packs = at(&remote, &format!("tar -C {} -cf - tree", there.display()));
    let unpacks = format!("tar -xf - -C {}", back.display());
    remote.haul(&sandbox).args(["--pipe", "io", &packs, &unpacks]).run().succeeds();
    compare(&sandbox.path("tree"), &back.join("tree")).unwrap();
    remote.is_left_clean();
}

#[test]
fn one_end_may_be_a_program_and_the_other_a_file() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let source = sandbox.big_file("source", 3_000_001);
    let copy = sandbox.path("copy");
    remote.haul(&sandbox).args(["--pipe", "i", "cat source"]).arg(remote.at(&copy)).run().succeeds();
    compare(&source, &copy).unwrap();
    let wrote = sandbox.path("wrote");
    let program = at(&remote, &format!("cat > {}", wrote.display()));
    remote.haul(&sandbox).args(["--pipe", "o"]).arg(&source).arg(program).run().succeeds();
    compare(&source, &wrote).unwrap();
    sandbox.haul(["--pipe", "io", "cat source", "cat > within"]).run().succeeds();
    compare(&source, &sandbox.path("within")).unwrap();
    sandbox.haul(["--pipe", "io", "true", "cat > empty"]).run().succeeds();
    assert_eq!(fs::read(sandbox.path("empty")).unwrap(), b"");
}

#[test]
fn a_failing_source_program_is_named_and_no_final_name_appears() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let place = sandbox.dir("place");
    let fails = "head -c 9000000 /dev/zero; echo no more of it >&2; exit 7";
    let said = ["the program ended with status 7", "it said: no more of it"];
    remote.haul(&sandbox).args(["--pipe", "i", fails]).arg(remote.at(place.join("x"))).run().ends(1).says(said);
    assert_eq!(listing(&place), [""; 0]);
    let fails = at(&remote, fails);
    remote.haul(&sandbox).args(["--pipe", "i", &fails]).arg(place.join("x")).run().ends(1).says(said);
    assert_eq!(listing(&place), [""; 0]);
    // The reading program is killed, and does not take the data for complete.
    let reads = format!("cat > /dev/null && touch {}", place.join("whole").display());
    remote.haul(&sandbox).args(["--pipe", "io", &fails, &reads]).run().ends(1).says(said);
    assert_eq!(listing(&place), [""; 0]);
    remote.is_left_clean();
}

#[test]
fn a_failing_target_program_is_named_and_ends_the_source() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let mark = format!("HAUL_TEST_MARK_{}", std::process::id());
    let endless = format!("{mark}=1 exec cat /dev/zero");
    let fails = at(&remote, "head -c 1000000 >/dev/null; echo enough >&2; exit 9");
    let haul = || remote.haul(&sandbox).args(["--pipe", "io"]);
    let said = ["the program ended with status 9", "it said: enough"];
    haul().args([&endless, &fails]).run().ends(1).says(said);
    nothing_runs(&mark);
    let stops = at(&remote, "head -c 1000000 >/dev/null");
    haul().args([&endless, &stops]).run().ends(1).says(["ended before it had read everything"]);
    let late = at(&remote, "cat >/dev/null; exit 3");
    haul().args(["echo all", &late]).run().ends(1).says(["status 3"]);
    // The source has gone silent; nothing waits for it.
    let silent = format!("{mark}=1; export {mark}; echo x; exec sleep 1000");
    sandbox.haul(["--pipe", "io", &silent, "exit 5"]).limit(LIMIT).run().says(["status 5"]).ends(1);
    nothing_runs(&mark);
    remote.is_left_clean();
}

#[test]
fn a_killed_worker_takes_its_programs_along() {
    let sandbox = Sandbox::new();
    for role in ["near", "far"] {
        let remote = Remote::new(&sandbox);
        let mark = format!("HAUL_TEST_KILL_{role}_{}", std::process::id());
        let endless = format!("{mark}=1; export {mark}; trap '' TERM; cat /dev/zero; sleep 1000");
        let counts = format!("{mark}=1; export {mark}; cat > /dev/null; sleep 1000");
        let haul = remote.haul(&sandbox).args(["--pipe", "io", &endless]).arg(at(&remote, &counts));
        let mut haul = haul.into_command().stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        assert!(within(LIMIT, || running(&mark).len() >= 4), "{:?}", running(&mark));
        let pid = if role == "near" { haul.id() } else { remote.workers()[0] };
        kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL).unwrap();
        assert!(!haul.wait().unwrap().success());
        nothing_runs(&mark);
        remote.is_left_clean();
    }
}

#[test]
fn fifos_are_read_and_written() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let source = sandbox.big_file("source", 5_000_001);
    for (name, to) in [("in", true), ("out", false)] {
        let pipe = sandbox.path(name);
        fifo(&pipe);
        let copy = sandbox.path(format!("copy-{name}"));
        let (ends, haul): (_, Haul<'_>) = match to {
            true => ("i", remote.haul(&sandbox).args(["--pipe", "i"]).arg(remote.at(&pipe)).arg(&copy)),
            false => ("o", remote.haul(&sandbox).args(["--pipe", "o"]).arg(&source).arg(remote.at(&pipe))),
        };
        let (from, into): (&Path, &Path) = if to { (&source, &pipe) } else { (&pipe, &copy) };
        let script = format!("cat '{}' > '{}'", from.display(), into.display());
        let mut other = Command::new("timeout").args(["60", "sh", "-c", &script]).spawn().unwrap();
        haul.run().succeeds();
        assert!(other.wait().unwrap().success(), "-N {ends}");
        compare(&source, &copy).unwrap();
    }
}

#[test]
fn a_policy_at_the_far_end_forbids_programs() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let policy = remote.home().join(".config/haul/policy");
    fs::create_dir_all(policy.parent().unwrap()).unwrap();
    sandbox.file("source", "source");
    let touched = sandbox.path("touched");
    let program = at(&remote, &format!("touch {}; cat", touched.display()));
    let run = |words: &[&str]| -> ProgramRun { remote.haul(&sandbox).args(words).run() };
    let cases = [
        ("# for all\nprograms = no\n", "programs are forbidden here"),
        ("progams = yes\n", "invalid setting 'progams = yes'"),
    ];
    for (text, refusal) in cases {
        fs::write(&policy, text).unwrap();
        run(&["--pipe", "o", "source", &program]).ends(1).says([refusal, "haul/policy"]);
        run(&["--pipe", "i", &program, "x"]).ends(1).says([refusal, "haul/policy"]);
    }
    assert!(!touched.exists());
    fs::write(&policy, "programs = yes\n").unwrap();
    remote.haul(&sandbox).args(["--pipe", "i", &program, "x"]).run().succeeds();
    assert!(touched.exists());
}
