//! `haul probe`: what it measures, what it says, and that nothing is left of it, however it ends.

use std::fs;
use std::path::Path;

use haul_e2e::{Haul, ProgramRun, Remote, Running, Sandbox, ServedShare, contents, eventually, is_root_or_skip, pid};
use rustix::process::{Signal, kill_process};
use serde_json::Value;

/// Parts that take a moment and write little.
const QUICK: [&str; 5] = ["probe", "--time", "1", "--size", "16m"];

/// A probe that can log in at `remote`.
fn probe<'a>(sandbox: &'a Sandbox, remote: &Remote) -> Haul<'a> {
    sandbox.haul(QUICK).args(remote.sshd().haul_args())
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = entries.collect();
    names.sort();
    names
}

fn of<'a>(events: &'a [Value], event: &str) -> Vec<&'a Value> {
    events.iter().filter(|line| line["event"] == event).collect()
}

#[test]
fn every_part_is_measured_and_nothing_is_left() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let target = sandbox.dir("target");
    sandbox.file("target/kept", "of the user's");
    sandbox.big_file("source", 20_000_000);
    let run = probe(&sandbox, &remote).args(["--json", "--try-streams", "1,2", "source"]);
    let run = run.arg(remote.at(&target)).run().succeeds();
    let events = run.events();
    let parts = of(&events, "part");
    let told: Vec<_> = parts
        .iter()
        .map(|part| {
            let rate = part["bytes_per_s"].as_f64().unwrap_or_else(|| panic!("{part}"));
            assert!(rate > 0.0, "{part}");
            format!("{} {} {} {}", part["part"], part["direct"], part["asked_streams"], part["back"])
        })
        .collect();
    assert_eq!(
        told,
        [
            "\"read\" true null null",
            "\"read\" false null null",
            "\"network\" null 1 false",
            "\"network\" null 2 false",
            "\"network\" null null false",
            "\"network\" null null true",
            "\"write\" true null null",
            "\"write\" false null null",
            "\"whole\" null null null",
        ]
    );
    assert!(parts[2]["rtt_s"].is_null() || parts[2]["rtt_s"].as_f64() > Some(0.0), "{}", parts[2]);
    let checks: Vec<_> = of(&events, "check").iter().map(|check| check["id"].as_str().unwrap().to_owned()).collect();
    for id in ["versions", "windows", "congestion", "clock", "max_startups", "space", "firewall"] {
        assert!(checks.iter().any(|check| check == id), "{id} is missing in {checks:?}");
    }
    let ends = of(&events, "end");
    assert_eq!(ends.len(), 2);
    assert!(ends.iter().all(|end| end["hash_bytes_per_s"].as_u64() > Some(1_000_000)), "{ends:?}");
    let last = events.last().unwrap();
    assert_eq!((last["event"].as_str(), last["status"].as_u64()), (Some("forecast"), Some(0)), "{last}");
    assert!(last["bytes_per_s"].as_f64() > Some(0.0) && last["limit"].is_string(), "{last}");
    assert_eq!(names(&target), ["kept"]);
    assert_eq!(contents(&sandbox.path("source")).len(), 20_000_000);
}

#[test]
fn for_people_it_is_a_table_and_from_memory_without_a_source() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let target = sandbox.dir("target");
    let run = probe(&sandbox, &remote).arg(remote.at(target.join("file-to-be"))).run().succeeds();
    for begins in ["ready ", "cpu ", "network ", "write ", "whole ", "expect ", "limited by ", "settings "] {
        assert!(run.stdout.lines().any(|line| line.starts_with(begins)), "no {begins}\n{}", run.account());
    }
    assert!(!run.stdout.contains("\nread "), "{}", run.account());
    assert_eq!(names(&target), Vec::<String>::new());
    // Within this machine there is no network.
    let local = sandbox.haul(QUICK).arg("target").run().succeeds();
    assert!(!local.stdout.contains("\nnetwork "), "{}", local.account());
    assert_eq!(names(&target), Vec::<String>::new());
}

#[test]
fn what_it_recommends_is_saved_and_taken_by_the_next_copy() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let target = sandbox.dir("target");
    let users = "home/.config/haul/config.toml";
    let mine = "# of mine\nretry-for = 60 # seconds\n";
    sandbox.file(users, mine);
    let run = probe(&sandbox, &remote).args(["--save", "-s", "3", "--cipher", "aes-128-gcm"]);
    let run = run.arg(remote.at(&target)).run().succeeds();
    assert!(run.stdout.contains("[host.\"127.0.0.1\"]"), "{}", run.account());
    let saved = String::from_utf8(contents(&sandbox.path(users))).unwrap();
    assert!(saved.starts_with(mine) && saved.contains("cipher = \"aes-128-gcm\""), "{saved}");
    // Long enough for all streams to be connected.
    sandbox.file("source", vec![7; 2_000_000]);
    let copy =
        remote.haul(&sandbox).args(["--json", "-x", "4m", "source"]).arg(remote.at(&target)).run().succeeds().summary();
    assert_eq!((copy["cipher"].as_str(), copy["streams"].as_u64()), (Some("aes-128-gcm"), Some(3)), "{copy}");

    let local = sandbox.haul(QUICK).args(["--save", "target"]).run().ends(2);
    local.says(["no remote host"]);
}

#[test]
fn a_directory_is_read_as_a_file_is() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.big_file("tree/big", 20_000_000);
    sandbox.file("tree/sub/small", "content");
    let run = probe(&sandbox, &remote).args(["--json", "--try-streams", "1", "tree"]);
    let events = run.arg(remote.at(sandbox.dir("target"))).run().succeeds().events();
    let read: Vec<_> = of(&events, "part").into_iter().filter(|part| part["part"] == "read").collect();
    assert!(read.len() == 2 && read.iter().all(|part| part["bytes"].as_u64() > Some(0)), "{read:?}");
    assert_eq!(names(&sandbox.path("target")), Vec::<String>::new());
}

#[test]
fn the_network_is_measured_alone_also_through_a_server() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let parts = |run: ProgramRun| {
        let events = run.succeeds().events();
        let parts: Vec<_> = of(&events, "part").iter().map(|part| part["part"].as_str().unwrap().to_owned()).collect();
        assert!(events.last().unwrap()["bytes_per_s"].as_f64() > Some(0.0), "{events:?}");
        parts
    };
    let words = ["--json", "--network", "--try-streams", "1"];
    let over_ssh = probe(&sandbox, &remote).args(words).arg(remote.at(sandbox.dir("target"))).run();
    assert_eq!(parts(over_ssh), ["network"; 3]);
    for options in [&[][..], &["--read-only"], &["--write-only"]] {
        let server = ServedShare::start(&sandbox, options);
        let served = sandbox.haul(QUICK).args(["--json", "--try-streams", "1", &server.line]).run();
        assert_eq!(parts(served), ["network"; 3], "{options:?}");
        assert_eq!(names(&sandbox.path("shared")), Vec::<String>::new(), "{options:?}");
        sandbox.haul(["-f", "null:1m", &server.at("null:")]).run().succeeds();
        // Only the path of this name is meant.
        assert!(sandbox.haul(["-f", "null:1m", &server.at("/dev/zero")]).run().status != Some(0), "{options:?}");
        server.end();
    }
}

#[test]
fn where_nothing_can_be_written_or_reached_it_says_so() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let absent = probe(&sandbox, &remote).arg(remote.at("/nonexistent/below/x")).run().ends(1);
    absent.says(["127.0.0.1: /nonexistent/below/x: "]);
    let run = probe(&sandbox, &remote).arg(remote.at("/proc")).run().ends(1);
    run.says(["127.0.0.1: /proc: cannot create a directory there"]);
    let nobody = sandbox.haul(QUICK).args(["--ssh-port", "1", "127.0.0.1:x"]).run().ends(3);
    nobody.says(["127.0.0.1"]);
    sandbox.haul(["probe"]).run().ends(2).says(["haul probe"]);
    let missing = probe(&sandbox, &remote).arg("missing").arg(remote.at(sandbox.dir("target"))).run().ends(1);
    missing.says(["this host: missing: No such file or directory"]);
    assert_eq!(names(&sandbox.path("target")), Vec::<String>::new());
}

#[test]
fn a_full_disk_is_measured_as_far_as_there_is_room() {
    if !is_root_or_skip("a small file system") {
        return;
    }
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let full = sandbox.tmpfs("full", "size=2m");
    sandbox.file("full/kept", vec![7; 1 << 20]);
    let run = probe(&sandbox, &remote).arg(remote.at(full.path())).run();
    assert!(run.stdout.contains("NOT READY") && !run.timed_out, "{}", run.account());
    assert_eq!(names(full.path()), ["kept"]);
}

/// A probe that is writing.
fn under_way(sandbox: &Sandbox, remote: &Remote, target: &Path) -> Running {
    let running = sandbox.haul(["probe", "--time", "60", "--try-streams", "1"]).args(remote.sshd().haul_args());
    let running = running.arg(remote.at(target)).start();
    eventually("it has its directory", || !names(target).is_empty());
    running
}

#[test]
fn interrupted_or_killed_it_leaves_nothing() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let target = sandbox.dir("target");
    for number in [Signal::INT, Signal::KILL] {
        let running = under_way(&sandbox, &remote, &target);
        running.signal(number);
        let run = ProgramRun::of(running);
        if number == Signal::INT {
            run.ends(4).says(["interrupted"]);
        }
        eventually("nothing is left", || names(&target).is_empty());
    }
}

/// The worker that holds `directory`.
fn holder(directory: &Path) -> Option<u32> {
    let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let holds = |process: &u32| {
        let open = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten();
        open.filter_map(|fd| fs::read_link(fd.ok()?.path()).ok()).any(|path| path == directory)
    };
    processes.into_iter().find(holds)
}

#[test]
fn what_a_killed_worker_left_is_removed_by_the_next_probe_and_nothing_that_is_called_so() {
    let sandbox = Sandbox::new();
    let target = sandbox.dir("shared");
    sandbox.file("shared/kept", "of the user's");
    let running = sandbox.haul(["probe", "--time", "60", "shared"]).start();
    let left =
        || names(&target).into_iter().find(|name| name.starts_with(".haul-probe-")).map(|name| target.join(name));
    eventually("it writes", || left().is_some_and(|left| names(&left).len() > 1));
    let left = left().unwrap();
    // The measuring worker removes the directory, so it dies first.
    while let Some(worker) = holder(&left) {
        kill_process(pid(worker), Signal::KILL).unwrap();
    }
    running.signal(Signal::KILL);
    drop(ProgramRun::of(running));
    assert!(left.exists(), "it is left");
    // A tree that somebody renamed.
    let renamed = sandbox.file("shared/.haul-probe-0123456789abcdef/whole/file", "of the user's");
    let run = sandbox.haul(QUICK).arg("shared").run().succeeds();
    assert!(run.stdout.contains("deleted the files of 1 earlier"), "{}", run.account());
    assert_eq!(names(&target), [".haul-probe-0123456789abcdef", "kept"]);
    assert_eq!(contents(&renamed), b"of the user's");
}

#[test]
fn between_two_other_hosts() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.big_file("source", 5_000_000);
    let target = sandbox.dir("target");
    let run = probe(&sandbox, &remote);
    let run = run.arg(remote.at(sandbox.path("source"))).arg(remote.at(&target)).run().succeeds();
    assert!(run.stdout.contains("\nexpect "), "{}", run.account());
    assert_eq!(names(&target), Vec::<String>::new());
}

#[test]
fn a_part_that_fails_counts_in_the_exit_status() {
    let sandbox = Sandbox::new();
    sandbox.dir("target");
    let run = sandbox.haul(QUICK).args(["/proc/self/mem", "target"]).run().ends(1);
    assert!(run.stdout.contains("not measured"), "{}", run.account());
}
