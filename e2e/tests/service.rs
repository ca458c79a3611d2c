//! The unit file for systemd: valid, hardened, and enough for a copy.

use std::collections::BTreeSet;
use std::process::{Command, Output};

use haul_e2e::{ProgramRun, Sandbox, ServedShare, compare, haul_binary, shell};

const UNIT: &str = include_str!("../../contrib/haul-serve.service");
/// The highest exposure that `systemd-analyze security` may find, in tenths.
const EXPOSURE_MAX: &str = "20";
/// Calls that haul makes and the unit refuses: each has another way.
const DISPENSABLE: [&str; 2] = ["sched_setaffinity", "pidfd_getfd"];

/// Asks systemd-analyze; `None`, and said, where there is none.
fn analyze(arguments: &[&str]) -> Option<Output> {
    let output = Command::new("systemd-analyze").args(arguments).output();
    if output.is_err() {
        println!("SKIPPED: there is no systemd-analyze");
    }
    output.ok()
}

/// The unit in a file, for the executable under test.
fn unit(sandbox: &Sandbox) -> String {
    let unit = UNIT.replace("/usr/bin/haul", haul_binary().to_str().unwrap()).replace("User=haul", "User=root");
    sandbox.file("haul-serve.service", unit).to_str().unwrap().to_owned()
}

#[test]
fn systemd_finds_no_fault_with_the_unit() {
    let sandbox = Sandbox::new();
    let Some(output) = analyze(&["verify", "--man=no", &unit(&sandbox)]) else { return };
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    let about_it: Vec<_> = words.lines().filter(|line| line.contains("haul-serve")).collect();
    assert!(output.status.success() && about_it.is_empty(), "{words}");
}

#[test]
fn the_unit_is_hardened() {
    let sandbox = Sandbox::new();
    let threshold = format!("--threshold={EXPOSURE_MAX}");
    let Some(output) = analyze(&["security", "--offline=true", "--no-pager", &threshold, &unit(&sandbox)]) else {
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// The calls that the unit allows, as systemd reads its lines: the last word about a call holds.
fn allowed() -> Option<BTreeSet<String>> {
    let mut allowed = BTreeSet::new();
    for line in UNIT.lines().filter_map(|line| line.strip_prefix("SystemCallFilter=")) {
        let (takes_out, words) = line.strip_prefix('~').map_or((false, line), |words| (true, words));
        for word in words.split_whitespace() {
            for call in calls(word)? {
                if takes_out {
                    allowed.remove(&call)
                } else {
                    allowed.insert(call)
                };
            }
        }
    }
    // systemd allows these whatever the unit says.
    allowed.extend(calls("@default")?);
    Some(allowed)
}

/// A call, or all of a group and of the groups in it.
fn calls(word: &str) -> Option<Vec<String>> {
    if !word.starts_with('@') {
        return Some(vec![word.to_owned()]);
    }
    let output = analyze(&["syscall-filter", "--no-pager", word])?;
    let text = String::from_utf8(output.stdout).unwrap();
    let mut all = Vec::new();
    for member in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if member != word {
            all.extend(calls(member)?);
        }
    }
    Some(all)
}

/// System calls of one copy's servers, one for each direction.
fn called(sandbox: &Sandbox) -> BTreeSet<String> {
    sandbox.dir("shared");
    sandbox.big_file("tree/big", 20_000_000);
    sandbox.file("tree/small", "small");
    let mut called = BTreeSet::new();
    for is_sent in [true, false] {
        let serve = "strace -f -qq -e signal=none -o trace $0 serve --bind 127.0.0.1 --json --once shared";
        let server = ServedShare::of(shell(sandbox, &format!("exec {serve}")));
        let at = server.at("tree");
        let copy = if is_sent { ["-r", "tree", &server.line] } else { ["-r", &at, "back"] };
        sandbox.haul(copy).run().succeeds();
        ProgramRun::of(server.running).succeeds();
        let trace = std::fs::read_to_string(sandbox.path("trace")).unwrap();
        let calls = trace.lines().filter_map(|line| line.split_whitespace().nth(1)?.split_once('('));
        called.extend(calls.map(|(call, _)| call.to_owned()));
    }
    compare(&sandbox.path("tree"), &sandbox.path("back")).unwrap();
    called
}

#[test]
fn a_copy_makes_no_call_refused_by_the_unit() {
    let (sandbox, allowed) = (Sandbox::new(), allowed());
    let Some(allowed) = allowed else { return };
    assert!(allowed.contains("openat") && !allowed.contains("mount") && !allowed.contains("ptrace"), "{allowed:?}");
    let called = called(&sandbox);
    assert!(called.contains("landlock_restrict_self") && called.len() > 40, "{called:?}");
    // strace shows a call that it does not know as its number.
    let known = called.iter().filter(|call| !call.starts_with("syscall_"));
    let refused: Vec<_> =
        known.filter(|call| !allowed.contains(*call) && !DISPENSABLE.contains(&call.as_str())).collect();
    assert!(refused.is_empty(), "{refused:?}");
}
