//! Ctrl-C, hang-ups, and killed processes: no process is left, and no final name has half a file.

use std::path::Path;
use std::thread;
use std::time::Duration;

use haul_e2e::{
    HostPair, MEGABIT_PER_S, ProgramRun, Remote, Running, RunningCopy, Sandbox, Terminal, commands, compare, contents,
    eventually, goes_on, group_or_skip, pid, shell,
};
use haul_lab::descendants;
use rustix::process::{Signal, kill_process, kill_process_group};

/// haul's promise for Ctrl-C, plus half a second, since this machine runs other tests.
const STOP_LIMIT: Duration = Duration::from_millis(1500);
/// Time limit for an end to notice another's death.
const NOTICE_LIMIT: Duration = Duration::from_secs(15);
/// A connection that is lost ends the copy at once.
const ONCE: &[&str] = &["--retries", "0"];

#[test]
fn control_c_ends_both_ends_at_once() {
    let Some(cgroup) = group_or_skip() else { return };
    for push in [true, false] {
        let sandbox = Sandbox::new();
        let pair = HostPair::slow(&sandbox, MEGABIT_PER_S);
        let copy = RunningCopy::start(&sandbox, &pair, &cgroup, push, &[]);
        copy.signal_group(Signal::INT);
        copy.over_within(STOP_LIMIT).ends(4).says(["interrupted", "rerun the command"]);
        if push {
            goes_on(&sandbox, &pair);
        }
    }
}

#[test]
fn control_c_at_a_terminal_says_one_line() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.big_file("big", 40_000_000);
    sandbox.dir("place");
    for _ in 0..3 {
        let haul = remote.haul(&sandbox).args(["--xfrrate", "2m", "big"]).arg(remote.at(sandbox.path("place")));
        let terminal = Terminal::start(haul, 100, 24);
        terminal.shows("MB/s");
        // The terminal signals ssh, too.
        terminal.types("\x03");
        terminal.end().ends(4).says(["interrupted"]).does_not_say("lost").does_not_say("ssh");
    }
}

/// timeout(1) signals its child, then its process group.
#[test]
fn two_signals_of_one_request_stop_a_copy_with_its_message() {
    let sandbox = Sandbox::new();
    sandbox.big_file("big", 40_000_000);
    for copy in ["a", "b", "c", "d", "e"] {
        let running = sandbox.haul(["--xfrrate", "4m", "big", copy]).start();
        thread::sleep(Duration::from_millis(400));
        running.signal(Signal::INT);
        thread::sleep(Duration::from_millis(3));
        running.signal(Signal::INT);
        ProgramRun::of(running).ends(4).says(["interrupted"]);
    }
}

#[test]
fn an_output_that_waits_for_its_reader_is_ended_by_a_signal() {
    let sandbox = Sandbox::new();
    sandbox.file("source", "content");
    for signal in [Signal::INT, Signal::TERM] {
        for (option, fifo) in [
            ("--checksums", "sums"),
            ("--logfile", "log"),
            ("--report", "page.md"),
            ("--checksum", "md5=sums"),
            ("--expect", "e"),
        ] {
            let path = sandbox.path(fifo.trim_start_matches("md5="));
            haul_e2e::fifo(&path);
            let running = sandbox.haul([option, fifo, "-f", "source", "target"]).start();
            // It catches signals before it opens its outputs.
            let status = format!("/proc/{}/status", running.id());
            let catches = |status: String| {
                let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).map_or("0", str::trim);
                u64::from_str_radix(mask, 16).is_ok_and(|mask| mask >> (Signal::TERM.as_raw() - 1) & 1 == 1)
            };
            eventually("it waits", || std::fs::read_to_string(&status).is_ok_and(catches));
            running.signal(signal);
            let run = ProgramRun::of(running);
            assert_eq!(run.status, Some(4), "{option}: {}", run.account());
            std::fs::remove_file(path).unwrap();
        }
    }
}

#[test]
fn a_stopped_copy_says_how_far_it_came_and_resumes_what_was_kept() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.big_file("big", 40_000_000);
    sandbox.dir("place");
    let copy = |options: &[&str]| {
        let haul = remote.haul(&sandbox).args(["--json", "--xfrrate", "4m"]).args(options);
        let running = haul.arg("big").arg(remote.at(sandbox.path("place"))).start();
        let has_moved = |line: &str| line.contains("\"progress\"") && !line.contains("\"bytes_written\":0,");
        eventually("data has moved", || running.stdout_so_far().lines().any(has_moved));
        running.signal(Signal::INT);
        let run = ProgramRun::of(running).ends(4).says(["interrupted at ", " of 40.0 MB, ", "B/s; rerun the command"]);
        let events = run.events();
        let [.., stopped, summary, error] = &events[..] else { panic!("{events:?}") };
        assert_eq!([&stopped["event"], &summary["event"], &error["event"]], ["stopped", "summary", "error"]);
        assert!(summary["bytes"].as_u64() > Some(0) && summary["bytes_per_s"].as_f64() > Some(0.0), "{summary}");
        assert_eq!((&summary["status"], &error["status"]), (&4.into(), &4.into()));
        run
    };
    copy(&["--no-keep"]).does_not_say("to resume");
    copy(&[]).says(["to resume"]);
    let again = remote.haul(&sandbox).arg("big").arg(remote.at(sandbox.path("place"))).run().succeeds();
    again.says(["resuming, "]);
}

#[test]
fn a_slow_login_is_named_at_a_terminal() {
    let sandbox = Sandbox::new();
    sandbox.file("source", "content");
    let silent = sandbox.script("silent", "#!/bin/sh\nexec sleep 60\n");
    let terminal =
        Terminal::start(sandbox.haul(["--target-command"]).arg(&silent).args(["source", "host:target"]), 80, 24);
    terminal.shows("connecting to host...");
    terminal.types("\x03");
    terminal.end().ends(4);
}

#[test]
fn a_copy_stopped_for_long_says_so_and_resumes() {
    let Some(cgroup) = group_or_skip() else { return };
    let sandbox = Sandbox::new();
    let pair = HostPair::slow(&sandbox, MEGABIT_PER_S);
    let copy = RunningCopy::start(&sandbox, &pair, &cgroup, true, &["--silence", "3s"]);
    copy.signal_group(Signal::STOP);
    thread::sleep(Duration::from_secs(8));
    copy.signal_group(Signal::CONT);
    copy.completes().says(["haul was stopped for "]).does_not_say("lost");
}

#[test]
fn termination_is_as_good_as_control_c() {
    let Some(cgroup) = group_or_skip() else { return };
    let sandbox = Sandbox::new();
    let pair = HostPair::slow(&sandbox, MEGABIT_PER_S);
    let copy = RunningCopy::start(&sandbox, &pair, &cgroup, true, &[]);
    // To the controller alone, as `kill` does.
    copy.running.signal(Signal::TERM);
    copy.over_within(STOP_LIMIT).ends(4).says(["rerun the command"]);
}

#[test]
fn a_hang_up_does_not_stop_a_background_copy() {
    let Some(cgroup) = group_or_skip() else { return };
    let sandbox = Sandbox::new();
    let pair = HostPair::slow(&sandbox, 2 * MEGABIT_PER_S);
    let copy = RunningCopy::start(&sandbox, &pair, &cgroup, true, &[]);
    copy.signal_group(Signal::HUP);
    ProgramRun::of(copy.running).succeeds();
    compare(&sandbox.path("source"), &sandbox.path("place/target")).unwrap();
}

#[test]
fn a_lost_terminal_does_not_stop_a_background_copy() {
    let Some(cgroup) = group_or_skip() else { return };
    let sandbox = Sandbox::new();
    let pair = HostPair::slow(&sandbox, 2 * MEGABIT_PER_S);
    sandbox.big_file("source", 32_000_000);
    let target = sandbox.path("target");
    let haul = pair.haul(&sandbox).arg("source").arg(pair.at(&target)).into_command();
    let words: Vec<_> = std::iter::once(haul.get_program()).chain(haul.get_args()).map(quoted).collect();
    // A shell on a terminal starts the copy in the background and logs out, which closes the terminal.
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
fn a_killed_remote_worker_is_an_error_without_retries() {
    let Some(cgroup) = group_or_skip() else { return };
    for push in [true, false] {
        let sandbox = Sandbox::new();
        let pair = HostPair::slow(&sandbox, MEGABIT_PER_S);
        let copy = RunningCopy::start(&sandbox, &pair, &cgroup, push, ONCE);
        copy.signal_far_worker(Signal::KILL);
        copy.over_within(NOTICE_LIMIT).ends(4).says([HostPair::FAR, "rerun the command"]);
    }
}

#[test]
fn a_killed_local_worker_is_an_error_without_retries() {
    let Some(cgroup) = group_or_skip() else { return };
    let sandbox = Sandbox::new();
    let pair = HostPair::slow(&sandbox, MEGABIT_PER_S);
    let copy = RunningCopy::start(&sandbox, &pair, &cgroup, true, ONCE);
    kill_process(copy.process("haul", true), Signal::KILL).expect("it was there");
    copy.over_within(NOTICE_LIMIT).ends(4).says(["out of memory?", "rerun the command"]);
}

#[test]
fn a_killed_controller_takes_both_ends_with_it() {
    let Some(cgroup) = group_or_skip() else { return };
    let sandbox = Sandbox::new();
    let pair = HostPair::slow(&sandbox, MEGABIT_PER_S);
    let copy = RunningCopy::start(&sandbox, &pair, &cgroup, true, &[]);
    copy.running.signal(Signal::KILL);
    copy.over_within(NOTICE_LIMIT);
    goes_on(&sandbox, &pair);
}

#[test]
fn a_broken_ssh_connection_is_an_error_without_retries() {
    let Some(cgroup) = group_or_skip() else { return };
    let sandbox = Sandbox::new();
    let pair = HostPair::slow(&sandbox, MEGABIT_PER_S);
    let copy = RunningCopy::start(&sandbox, &pair, &cgroup, true, ONCE);
    pair.remote.sshd().end_sessions();
    copy.over_within(NOTICE_LIMIT).ends(4).says([HostPair::FAR, "rerun the command"]);
}

#[test]
fn control_c_before_anything_is_known_ends_at_once() {
    let sandbox = Sandbox::new();
    sandbox.file("source", "content");
    // A silent ssh, like one that waits for a password.
    let silent = sandbox.script("silent", "#!/bin/sh\nexec sleep 60\n");
    let mut running = sandbox.haul(["--target-command"]).arg(&silent).args(["source", "host:target"]).start();
    let asleep = |running: &Running| commands(&descendants(running.id())).iter().any(|line| line.starts_with("sleep"));
    eventually("the silent ssh runs", || asleep(&running));
    kill_process_group(pid(running.id()), Signal::INT).expect("the group is there");
    assert!(running.wait_up_to(STOP_LIMIT), "still running: {}", running.stderr_so_far());
    ProgramRun::of(running).ends(4);
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
    ProgramRun::of(running).ends(4);
}

#[test]
fn nothing_is_written_into_a_question_of_ssh() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.file("source", "content");
    std::fs::write(remote.sshd().known_hosts(), "").unwrap();
    let asking = |option: String| match option.as_str() {
        "StrictHostKeyChecking=yes" => "StrictHostKeyChecking=ask".to_owned(),
        "BatchMode=yes" => "BatchMode=no".to_owned(),
        _ => option,
    };
    let options = remote.sshd().haul_args().into_iter().map(asking);
    let haul = sandbox.haul(options).arg("source").arg(remote.at(sandbox.path("target")));
    let terminal = Terminal::start(haul, 200, 24);
    terminal.shows("(yes/no/[fingerprint])?");
    // Longer than a login takes without a word.
    thread::sleep(Duration::from_millis(1800));
    let screen = terminal.screen();
    // On a busy machine, haul may say before the question that it connects.
    let (_, written) = screen.split_once("(yes/no/[fingerprint])?").expect("the question is there");
    assert_eq!(written.trim(), "", "{screen}");
    terminal.types("yes\r");
    terminal.end().succeeds();
}
