//! Copies between two other hosts: the data goes straight from one to the other, and only control passes through here.

use std::time::Duration;

use haul_e2e::{
    HostLink, ProgramRun, Remote, Sandbox, Trio, compare, contents, eventually, haul_binary, hidden_or_partial,
    is_root_or_skip, listing, within,
};
use rustix::process::{Signal, kill_process};

/// The summary's line about the data path.
#[track_caller]
fn connection_line(run: &ProgramRun) -> String {
    let line = run.stderr.lines().find(|line| line.trim_start().starts_with("connection "));
    line.unwrap_or_else(|| panic!("there is no connection line\n{}", run.account())).to_owned()
}

/// Whether so much of a file has arrived in `place`.
fn has_more_than(sandbox: &Sandbox, bytes: u64) -> bool {
    hidden_or_partial(&sandbox.path("place"), &["target"], bytes).is_some()
}

#[test]
fn data_travels_directly_between_the_hosts() {
    if !is_root_or_skip("network namespaces") {
        return;
    }
    let sandbox = Sandbox::new();
    let trio = Trio::new(&sandbox, HostLink::Routed);
    let source = sandbox.tree("source");
    let run = trio.haul(&sandbox).args(["-v", "-r"]).args(trio.at(&source, sandbox.path("there"))).run().succeeds();
    compare(&source, &sandbox.path("there")).unwrap();
    let way = connection_line(&run);
    assert!(way.contains(Trio::A) && way.contains(Trio::B) && !way.contains("ssh"), "{way}");
    run.says(["verified"]);

    // The same again with --json: there is no work left.
    let again = trio.haul(&sandbox).args(["--json", "-r"]).args(trio.at(&source, sandbox.path("there"))).run();
    assert_eq!(again.succeeds().summary()["files_copied"], 0);
    trio.is_left_clean();
}

#[test]
fn a_cable_known_only_to_the_two_is_found() {
    if !is_root_or_skip("network namespaces") {
        return;
    }
    let sandbox = Sandbox::new();
    let trio = Trio::new(&sandbox, HostLink::Cable);
    let source = sandbox.file("source", "content");
    let run = trio.haul(&sandbox).arg("-v").args(trio.at(&source, sandbox.path("there"))).run().succeeds();
    assert_eq!(contents(&sandbox.path("there")), b"content");
    let way = connection_line(&run);
    assert!(Trio::CABLE.iter().all(|address| way.contains(address)), "{way}");
}

#[test]
fn hosts_without_a_common_path_are_joined_through_here() {
    if !is_root_or_skip("network namespaces") {
        return;
    }
    let sandbox = Sandbox::new();
    let trio = Trio::new(&sandbox, HostLink::None);
    let source = sandbox.tree("source");
    let run = trio.haul(&sandbox).args(["--json", "-r"]).args(trio.at(&source, sandbox.path("there"))).run().succeeds();
    compare(&source, &sandbox.path("there")).unwrap();
    let summary = run.summary();
    assert_eq!(summary["transport"]["kind"], "ssh", "{summary}");
    assert_eq!(summary["cipher"], "aes-128-gcm", "sealed between the two ends\n{summary}");
    trio.is_left_clean();
}

#[test]
fn several_sources_of_one_host_are_one_copy_and_of_two_hosts_are_refused() {
    if !is_root_or_skip("network namespaces") {
        return;
    }
    let sandbox = Sandbox::new();
    let trio = Trio::new(&sandbox, HostLink::Routed);
    let files = ["one", "two"].map(|name| sandbox.file(name, name));
    let target = sandbox.dir("target");
    let [one, into] = trio.at(&files[0], &target);
    trio.haul(&sandbox).arg(&one).arg(trio.a.at(&files[1])).arg(&into).run().succeeds();
    assert_eq!(listing(&target), ["one", "two"]);
    let both = trio.haul(&sandbox).arg(one).arg(trio.b.at(&files[1])).arg(into).run().ends(2);
    both.says([Trio::A, Trio::B, "different hosts", "run one copy for each host"]);
}

#[test]
fn a_missing_host_is_named() {
    if !is_root_or_skip("network namespaces") {
        return;
    }
    let sandbox = Sandbox::new();
    let trio = Trio::new(&sandbox, HostLink::Routed);
    let source = sandbox.file("source", "content");
    let (a, b) = (trio.a.at(&source), trio.b.at(sandbox.path("target")));
    let nobody = |path: &str| format!("no-such-host.invalid:{path}");
    trio.haul(&sandbox).arg(nobody("x")).arg(&b).run().ends(3).says(["no-such-host.invalid", "resolve"]);
    trio.haul(&sandbox).arg(&a).arg(nobody("x")).run().ends(3).says(["no-such-host.invalid", "resolve"]);
    trio.is_left_clean();
}

#[test]
fn one_host_at_both_ends_is_logged_in_to_once_and_needs_no_socket() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let source = sandbox.tree("source");
    let pair = [remote.at(&source), remote.at(sandbox.path("there"))];
    let summary = remote.haul(&sandbox).args(["--json", "-r"]).args(&pair).run().succeeds().summary();
    compare(&source, &sandbox.path("there")).unwrap();
    assert_eq!(
        (&summary["transport"]["kind"], &summary["transport"]["host"]),
        (&"local".into(), &"127.0.0.1".into()),
        "{summary}"
    );
    let logins = remote.sshd().log().matches("Accepted publickey").count();
    assert_eq!(logins, 1, "{}", remote.sshd().log());
    remote.haul(&sandbox).args(["-r"]).args(&pair).run().succeeds().says(["up to date"]);
    remote.is_left_clean();
}

#[test]
fn each_end_is_started_as_the_user_says() {
    let sandbox = Sandbox::new();
    let remote = Remote::without_haul(&sandbox, haul_e2e::Options::default());
    let source = sandbox.file("source", "content");
    let config = remote.sshd().ssh_config();
    let command = |name: &str| {
        let (log, haul) = (sandbox.path("log"), haul_binary());
        let script = format!("#!/bin/sh\necho $0 >> {}\nexec {} \"$@\"\n", log.display(), haul.display());
        format!("ssh -F {} %H {}", config.display(), sandbox.script(name, &script).display())
    };
    let (s, t) = (command("start-source"), command("start-target"));
    let copy = sandbox
        .haul(["--source-command", &s, "--target-command", &t])
        .arg(remote.at(&source))
        .arg(remote.at(sandbox.path("there")));
    copy.run().succeeds();
    assert_eq!(contents(&sandbox.path("there")), b"content");
    let log = String::from_utf8_lossy(&contents(&sandbox.path("log"))).into_owned();
    assert!(log.contains("start-source") && log.contains("start-target") && log.lines().count() == 2, "{log}");
}

#[test]
fn when_the_controller_is_killed_both_ends_end() {
    if !is_root_or_skip("network namespaces") {
        return;
    }
    let sandbox = Sandbox::new();
    let trio = Trio::new(&sandbox, HostLink::Routed);
    let source = sandbox.big_file("source", 64_000_000);
    let target = sandbox.dir("place").join("target");
    let copy = trio.haul(&sandbox).args(["--xfrrate", "8m"]).args(trio.at(&source, &target)).start();
    eventually("some of it arrives", || has_more_than(&sandbox, 1_000_000));
    assert_eq!((trio.a.workers().len(), trio.b.workers().len()), (1, 1));
    copy.signal(Signal::KILL);
    let gone = || trio.a.workers().is_empty() && trio.b.workers().is_empty();
    assert!(within(Duration::from_secs(15), gone), "a worker has outlived its controller");
    assert!(!target.exists(), "a half copy has its final name");
    trio.is_left_clean();
}

#[test]
fn a_killed_end_is_replaced_and_the_copy_continues() {
    if !is_root_or_skip("network namespaces") {
        return;
    }
    for at_source in [true, false] {
        let sandbox = Sandbox::new();
        let trio = Trio::new(&sandbox, HostLink::Routed);
        let source = sandbox.big_file("source", 64_000_000);
        let target = sandbox.dir("place").join("target");
        let copy = trio.haul(&sandbox).args(["--json", "--xfrrate", "16m"]).args(trio.at(&source, &target)).start();
        eventually("some of it arrives", || has_more_than(&sandbox, 20_000_000));
        let victim = if at_source { &trio.a } else { &trio.b };
        victim.workers().iter().for_each(|&id| kill_process(haul_e2e::pid(id), Signal::KILL).expect("it was there"));
        let run = ProgramRun::of(copy).succeeds();
        compare(&source, &target).unwrap();
        assert_eq!(run.summary()["restarts"], 1, "{}", run.account());
        assert!(run.stdout.contains("\"resumed\""), "it began anew\n{}", run.account());
        trio.is_left_clean();
    }
}
