//! Detached copies: they outlive the command that started them, and `haul copies` finds, follows, stops and repeats them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use haul_e2e::{Haul, ProgramRun, Sandbox, compare, within};
use rustix::process::{Pid, Signal, kill_process};

const LIMIT: Duration = Duration::from_secs(60);
/// So slow that a copy is found at work.
const SLOW: [&str; 2] = ["--xfrrate", "512k"];

/// A sandbox with a state directory and a file that takes a while.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.big_file("big", 20_000_000);
    sandbox
}

fn haul<'a>(sandbox: &'a Sandbox, words: &[&str]) -> Haul<'a> {
    sandbox.haul(words).env("XDG_STATE_HOME", sandbox.path("state")).limit(LIMIT)
}

fn copies(sandbox: &Sandbox) -> Vec<serde_json::Value> {
    haul(sandbox, &["copies", "--json"]).run().succeeds().events()
}

fn state(sandbox: &Sandbox, name: &str) -> String {
    let copies = copies(sandbox);
    let copy =
        copies.iter().find(|copy| copy["name"] == name).unwrap_or_else(|| panic!("{name} is not listed: {copies:?}"));
    copy["state"].as_str().unwrap().to_owned()
}

/// Starts a copy. Returns its name.
#[track_caller]
fn detached(sandbox: &Sandbox, words: &[&str]) -> String {
    haul(sandbox, words).run().succeeds().stdout.trim().to_owned()
}

#[track_caller]
fn prints(sandbox: &Sandbox, words: &[&str], phrases: &[&str]) {
    let run = haul(sandbox, words).run().succeeds();
    phrases.iter().for_each(|phrase| assert!(run.stdout.contains(phrase), "{phrase}: {}", run.account()));
}

fn process(sandbox: &Sandbox, name: &str) -> i32 {
    let text = fs::read(sandbox.path("state/haul/copies").join(name).join("run.json")).unwrap();
    serde_json::from_slice::<serde_json::Value>(&text).unwrap()["pid"].as_i64().unwrap().try_into().unwrap()
}

#[test]
fn a_detached_copy_is_listed_followed_and_complete() {
    let sandbox = sandbox();
    let begun = Instant::now();
    let run = haul(&sandbox, &["--detach", "--xfrrate", "3m", "big", "to"]).run().succeeds();
    assert!(begun.elapsed() < LIMIT / 2);
    assert_eq!(run.stdout, "to-1\n", "{}", run.account());
    assert_eq!(state(&sandbox, "to-1"), "running");
    prints(&sandbox, &["copies"], &["to-1", "running", "haul --detach --xfrrate 3m big to"]);
    prints(&sandbox, &["copies", "attach", "to-1"], &["1 file, 20.0 MB"]);
    compare(&sandbox.path("big"), &sandbox.path("to")).unwrap();
    assert_eq!(state(&sandbox, "to-1"), "done");
    prints(&sandbox, &["copies", "log", "to-1"], &["1 file, 20.0 MB"]);
    prints(&sandbox, &["jobs"], &["to-1"]);
    let again = haul(&sandbox, &["copies", "rerun", "to-1"]).run().succeeds();
    assert_eq!(again.stdout, "to-1\n", "{}", again.account());
    assert!(within(LIMIT, || state(&sandbox, "to-1") == "done"));
    prints(&sandbox, &["copies", "log", "to-1"], &["up to date"]);
}

#[test]
fn a_detached_copy_has_its_own_session_and_nothing_of_the_caller() {
    let sandbox = sandbox();
    // A pipe that ends only once everybody has closed it, as descriptor 7 and as the output of the command.
    let script = "exec 7>&1; exec \"$0\" --detach=held --xfrrate 256k big to 2>&1";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(haul_e2e::haul_binary()).current_dir(sandbox.path("")).stdin(Stdio::null());
    command.env("HOME", sandbox.home()).env("XDG_STATE_HOME", sandbox.path("state"));
    let begun = Instant::now();
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(begun.elapsed() < LIMIT, "the pipe lasted as long as the copy");
    let pid = process(&sandbox, "held");
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let session: i32 = stat.rsplit(") ").next().unwrap().split(' ').nth(3).unwrap().parse().unwrap();
    assert_eq!(session, pid);
    haul(&sandbox, &["copies", "cancel", "held"]).run().succeeds();
}

#[test]
fn a_cancelled_or_killed_copy_resumes() {
    let sandbox = sandbox();
    let name = detached(&sandbox, &["--detach=mine", "--keep", SLOW[0], SLOW[1], "big", "to"]);
    assert_eq!(name, "mine");
    haul(&sandbox, &["--detach=mine", "big", "other"])
        .run()
        .ends(2)
        .says(["there is a copy of this name", "haul copies rerun mine"]);
    haul(&sandbox, &["copies", "rerun", "mine"]).run().ends(2).says(["mine is running"]);
    haul(&sandbox, &["copies", "cancel", "mine"]).run().succeeds().says(["haul copies rerun mine"]);
    assert_eq!(state(&sandbox, "mine"), "interrupted");
    haul(&sandbox, &["copies", "cancel", "mine"]).run().ends(2).says(["mine is not running"]);
    haul(&sandbox, &["copies", "rerun", "mine"]).run().succeeds();
    kill_process(Pid::from_raw(process(&sandbox, "mine")).unwrap(), Signal::KILL).unwrap();
    assert!(within(LIMIT, || state(&sandbox, "mine") == "lost"));
    haul(&sandbox, &["copies", "attach", "mine"]).run().ends(4).says(["ended without a result"]);
}

#[test]
fn a_copy_that_cannot_begin_fails_as_in_the_foreground() {
    let sandbox = sandbox();
    let run = haul(&sandbox, &["--detach", "big", "missing/to"]).run();
    run.ends(2).says(["the directory missing does not exist", "--mkdir creates it"]);
    assert_eq!(state(&sandbox, "to-1"), "failed");
    haul(&sandbox, &["--detach", "big"]).run().ends(2).says(["no target given"]);
    haul(&sandbox, &["--detach", "-", "to"]).run().ends(2).says(["its standard input"]);
    haul(&sandbox, &["copies", "attach", "nobody"]).run().ends(2).says(["no copy is called nobody"]);
    haul(&sandbox, &["copies", "log", "../../big"]).run().ends(2).says(["no copy is called"]);
    haul(&sandbox, &["copies", "follow", "x"]).run().ends(2).says(["unknown action"]);
    haul(&sandbox, &["--detach=../x", "big", "to"]).run().ends(2).says(["not a name"]);
}

#[test]
fn a_state_directory_that_others_can_write_or_nobody_can_is_an_error_by_name() {
    let sandbox = sandbox();
    let start = |sandbox: &Sandbox| -> ProgramRun { haul(sandbox, &["--detach", "big", "to"]).run() };
    let copies = sandbox.dir("state/haul/copies");
    fs::set_permissions(&copies, fs::Permissions::from_mode(0o777)).unwrap();
    start(&sandbox).ends(1).says(["state/haul/copies"]);
    fs::set_permissions(&copies, fs::Permissions::from_mode(0o700)).unwrap();
    let full = sandbox.tmpfs("state/haul/copies", "size=4k,mode=700");
    fs::write(full.path().join("filler"), [0; 4096]).unwrap();
    start(&sandbox).ends(1).says(["No space left on device"]);
    assert!(!Path::new(&sandbox.path("to")).exists());
}

#[test]
fn a_command_runs_at_the_end_with_the_status() {
    let sandbox = sandbox();
    let notify = "echo $HAUL_STATUS $HAUL_COPY > ended";
    haul(&sandbox, &["--notify", notify, "big", "to"]).run().succeeds();
    assert_eq!(fs::read_to_string(sandbox.path("ended")).unwrap(), "0\n");
    detached(&sandbox, &["--detach=told", "--notify", notify, "big", "to"]);
    assert!(within(LIMIT, || fs::read_to_string(sandbox.path("ended")).unwrap() == "0 told\n"));
}

#[test]
fn records_go_a_month_after_the_end() {
    let sandbox = sandbox();
    for name in ["old", "recent"] {
        detached(&sandbox, &[&format!("--detach={name}"), "big", name]);
        assert!(within(LIMIT, || state(&sandbox, name) == "done"));
    }
    let run = sandbox.path("state/haul/copies/old/run.json");
    let mut report: serde_json::Value = serde_json::from_slice(&fs::read(&run).unwrap()).unwrap();
    report["reported"] = (report["reported"].as_f64().unwrap() - 31.0 * 86_400.0).into();
    fs::write(&run, report.to_string()).unwrap();
    let names: Vec<_> = copies(&sandbox).iter().map(|copy| copy["name"].clone()).collect();
    assert_eq!(names, ["recent"]);
    assert!(!sandbox.path("state/haul/copies/old").exists());
}
