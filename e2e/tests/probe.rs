//! `haul probe`: its measurements and output, and a clean end in all cases.

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use haul_e2e::{Haul, ProgramRun, Remote, Running, Sandbox, ServedShare, contents, eventually, is_root_or_skip, pid};
use haul_lab::{Options, Wan, WanSettings};
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
fn every_part_is_measured_without_leftovers() {
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
    for id in [
        "versions",
        "windows",
        "net_core",
        "net_ipv4",
        "bdp",
        "memory",
        "congestion",
        "clock",
        "max_startups",
        "space",
        "firewall",
    ] {
        assert!(checks.iter().any(|check| check == id), "{id} is missing in {checks:?}");
    }
    let ends = of(&events, "end");
    assert_eq!(ends.len(), 2);
    assert!(ends.iter().all(|end| end["hash_bytes_per_s"].as_u64() > Some(1_000_000)), "{ends:?}");
    // The sshd of this test has its own configuration, which is not the system's.
    assert_eq!(ends[1]["max_startups"], "1000-2000");
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
fn its_recommendations_are_saved_and_used_by_the_next_copy() {
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
    let copy = remote
        .haul(&sandbox)
        .args(["--json", "--xfrrate", "4m", "source"])
        .arg(remote.at(&target))
        .run()
        .succeeds()
        .summary();
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
fn the_network_is_measured_by_itself_even_through_a_server() {
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
fn unwritable_and_unreachable_places_are_reported() {
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
fn a_nearly_full_disk_is_measured_within_its_free_space() {
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
fn interrupted_or_killed_it_leaves_no_files() {
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
fn a_killed_workers_remains_are_removed_by_the_next_probe_and_lookalikes_stay() {
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
fn a_failed_part_affects_the_exit_status() {
    let sandbox = Sandbox::new();
    sandbox.dir("target");
    let run = sandbox.haul(QUICK).args(["/proc/self/mem", "target"]).run().ends(1);
    assert!(run.stdout.contains("not measured"), "{}", run.account());
}

/// The values of a sysctl file, by name.
fn sysctls(text: &str) -> Vec<(&str, Vec<u64>)> {
    let settings = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let values = |value: &str| value.split(' ').map(|number| number.parse().unwrap()).collect();
    settings.map(|line| line.split_once(" = ").map(|(name, value)| (name, values(value))).unwrap()).collect()
}

#[test]
fn the_buffers_of_a_long_path_are_named_and_written_for_sysctl() {
    if !is_root_or_skip("an emulated link") {
        return;
    }
    let sandbox = Sandbox::new();
    let settings = WanSettings {
        rtt: Duration::from_millis(40),
        rate_bits_per_s: 200_000_000,
        window_max_bytes: Some(128 << 10),
        ..WanSettings::default()
    };
    let wan = Wan::new(&settings).unwrap_or_else(|error| panic!("{error:#}"));
    let address = IpAddr::V4(Wan::ADDRESS_B);
    let remote = Remote::with_haul(&sandbox, Options { address, netns: Some(wan.b()), ..Options::default() });
    let target = remote.at(sandbox.dir("target"));
    let tuning = |options: &[&str]| {
        let haul = probe(&sandbox, &remote).netns(wan.a()).args(["--try-streams", "16"]);
        haul.args(options).arg(&target).limit(Duration::from_secs(120)).run()
    };
    let run = tuning(&["--sysctl", "tuning.conf"]).succeeds();
    let line = |begins: &str, says: &[&str]| {
        let is_it = |line: &&str| line.starts_with(begins) && says.iter().all(|word| line.contains(word));
        assert!(run.stdout.lines().any(|line| is_it(&line)), "{begins} {says:?}\n{}", run.account());
    };
    line("ready ", &["rmem_max ", "wmem_default ", "optmem_max "]);
    line("ready ", &["tcp_rmem 4096 131072 131072", "tcp_wmem 4096 16384 131072"]);
    line("ready ", &["MTU ", "txqueuelen ", "qdisc "]);
    line("NOT READY ", &["BDP ", "too small: net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"]);
    line("sysctl ", &["review it, then: sysctl -p tuning.conf"]);
    let text = String::from_utf8(contents(&sandbox.path("tuning.conf"))).unwrap();
    let found = sysctls(&text);
    for name in ["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"] {
        let (_, value) = found.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("{name}: {text}"));
        assert!(value.len() == 3 && value[2] > 128 << 10 && value[0] <= value[1] && value[1] <= value[2], "{text}");
    }
    assert_eq!(text.matches(" Now ").count(), found.len(), "{text}");

    tuning(&["--sysctl", "tuning.conf"]).ends(2).says(["tuning.conf: already exists"]);
    let run = tuning(&["--sysctl", "tuning.conf", "-f", "--json"]).succeeds();
    assert_eq!(run.events().last().unwrap()["sysctl"], "tuning.conf");
    assert_eq!(names(&sandbox.path("target")), Vec::<String>::new());
}

#[test]
fn without_a_path_there_is_no_file_for_sysctl() {
    let sandbox = Sandbox::new();
    sandbox.dir("target");
    sandbox.haul(QUICK).args(["--sysctl", "tuning.conf", "target"]).run().ends(2).says(["--sysctl"]);
    let server = ServedShare::start(&sandbox, &[]);
    sandbox.haul(QUICK).args(["--sysctl", "tuning.conf", &server.line]).run().ends(2).says(["without --network"]);
    server.end();
    assert!(!sandbox.path("tuning.conf").exists());
}
