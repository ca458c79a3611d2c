//! The data's path through restrictive networks: two hosts, a cable, and packet filters.

use haul_e2e::{HostPair, ProgramRun, Sandbox, compare, is_root_or_skip};

/// New TCP connections that a host's filter accepts besides ssh's, and its treatment of others.
enum Refusal {
    /// As if nobody were there.
    Silent,
    /// With a reset.
    Plain,
}

/// Rules for the host of the sshd: ssh is the only incoming connection, and (with `outgoing` set) there are no outgoing
/// ones. They match only a connection's first packet, and need no state.
fn rules(port: u16, refusal: &Refusal, outgoing: bool) -> String {
    let verdict = match refusal {
        Refusal::Silent => "drop",
        Refusal::Plain => "reject with tcp reset",
    };
    let first = "tcp flags & (syn | ack) == syn";
    let mut rules = format!(
        "table inet e2e {{ chain in {{ type filter hook input priority 0; tcp dport != {port} {first} {verdict}; }}\n"
    );
    if outgoing {
        rules += &format!("chain out {{ type filter hook output priority 0; {first} {verdict}; }}\n");
    }
    rules + "}"
}

/// Pushes a tree to the far host and pulls it back; checks both, and gives the runs.
fn there_and_back(sandbox: &Sandbox, pair: &HostPair) -> [ProgramRun; 2] {
    let source = sandbox.tree("source");
    let there = pair.at(sandbox.path("there"));
    let push = pair.haul(sandbox).args(["-v", "-r", "source"]).arg(&there).run().succeeds();
    compare(&source, &sandbox.path("there")).unwrap();
    let pull = pair.haul(sandbox).args(["-v", "-r"]).arg(&there).arg("back").run().succeeds();
    compare(&source, &sandbox.path("back")).unwrap();
    pair.remote.is_left_clean();
    [push, pull]
}

/// The summary's line about the data path.
#[track_caller]
fn connection_line(run: &ProgramRun) -> String {
    let line = run.stderr.lines().find(|line| line.trim_start().starts_with("connection "));
    line.unwrap_or_else(|| panic!("there is no connection line\n{}", run.account())).to_owned()
}

#[test]
fn the_path_is_direct_without_an_obstacle() {
    if !is_root_or_skip("a network namespace") {
        return;
    }
    let sandbox = Sandbox::new();
    let pair = HostPair::new(&sandbox);
    for run in there_and_back(&sandbox, &pair) {
        let way = connection_line(&run);
        assert!(way.contains("tcp") && way.contains(HostPair::FAR) && way.contains(HostPair::NEAR), "{way}");
        assert!(!way.contains("through ssh"), "{way}");
        assert!(run.elapsed.as_secs_f64() < 3.0, "{}", run.account());
    }
    let target = pair.at(sandbox.path("there 2"));
    let summary = pair.haul(&sandbox).args(["--json", "-r", "source"]).arg(target).run().succeeds().summary();
    assert_eq!(summary["transport"]["kind"], "tcp", "{summary}");
    // The initiator's end connects, to the address that ssh used.
    assert!(summary["transport"]["to"].as_str().unwrap_or_default().contains(HostPair::FAR), "{summary}");
    assert!(summary["transport"]["from"].as_str().unwrap_or_default().contains(HostPair::NEAR), "{summary}");
}

#[test]
fn a_filter_that_permits_only_ssh_is_no_obstacle() {
    if !is_root_or_skip("a network namespace") {
        return;
    }
    for refusal in [Refusal::Silent, Refusal::Plain] {
        let sandbox = Sandbox::new();
        let pair = HostPair::new(&sandbox);
        pair.far.nft(&rules(pair.remote.sshd().port(), &refusal, true)).unwrap();
        for run in there_and_back(&sandbox, &pair) {
            let way = connection_line(&run);
            assert!(way.contains("ssh"), "{way}");
            assert!(run.stderr.contains("verified"), "{}", run.account());
            assert!(run.elapsed.as_secs_f64() < 15.0, "{}", run.account());
        }
        let target = pair.at(sandbox.path("there 2"));
        let summary = pair.haul(&sandbox).args(["--json", "-r", "source"]).arg(target).run().succeeds().summary();
        assert_eq!(summary["transport"]["kind"], "ssh", "{summary}");
    }
}

#[test]
fn the_only_open_direction_is_used() {
    if !is_root_or_skip("a network namespace") {
        return;
    }
    for refusal in [Refusal::Silent, Refusal::Plain] {
        let sandbox = Sandbox::new();
        let pair = HostPair::new(&sandbox);
        pair.far.nft(&rules(pair.remote.sshd().port(), &refusal, false)).unwrap();
        // It begins through ssh where the first direction is silent, and moves once the second one is up.
        sandbox.big_file("large", 24_000_000);
        let target = pair.at(sandbox.path("there 2"));
        let copy = pair.haul(&sandbox).args(["--json", "--xfrrate", "3m", "-r", "large"]).arg(target).run().succeeds();
        let (summary, events) = (copy.summary(), copy.events());
        let began = events.iter().find(|event| event["event"] == "connected").unwrap();
        let is_silent = matches!(refusal, Refusal::Silent);
        assert_eq!(began["transport"]["kind"], if is_silent { "ssh" } else { "tcp" }, "{began}");
        assert_eq!(summary["transport"]["kind"], "tcp", "{summary}");
        // Here the far end connected; and that something had been tried before is said.
        assert!(summary["transport"]["from"].as_str().unwrap_or_default().contains(HostPair::FAR), "{summary}");
        assert!(summary["transport"]["instead_of"].is_string(), "{summary}");
    }
}

/// Drops packets above this length on the way to either host, without a word, unless they are ssh's.
fn lose_packets_above(pair: &HostPair, bytes: u16) {
    let port = pair.remote.sshd().port();
    let rules = format!(
        "table inet e2e {{ chain in {{ type filter hook input priority 0; tcp dport {port} accept\n tcp sport {port} accept\n meta length > {bytes} drop\n }}\n}}\n"
    );
    for (host, interface) in pair.ends() {
        host.nft(&rules).unwrap();
        // No offloading, since a filter would see many segments as one packet.
        host.run("ip", ["link", "set", interface, "gso_max_segs", "1"]).unwrap();
    }
}

#[test]
fn a_path_that_loses_large_packets_gets_small_ones() {
    if !is_root_or_skip("a network namespace") {
        return;
    }
    let sandbox = Sandbox::new();
    let pair = HostPair::new(&sandbox);
    lose_packets_above(&pair, 1300);
    sandbox.big_file("large", 30_000_000);
    let there = pair.at(sandbox.path("there"));
    // The connecting end sends, then the accepting one.
    let push = pair.haul(&sandbox).args(["-v", "large"]).arg(&there).run().succeeds();
    let pull = pair.haul(&sandbox).arg("-v").arg(&there).arg("back").run().succeeds();
    for copy in [push, pull] {
        let way = connection_line(&copy);
        assert!(way.contains("tcp") && !way.contains("ssh"), "{}", copy.account());
        assert_eq!(copy.stderr.matches("lose large packets (MTU)").count(), 1, "{}", copy.account());
    }
    compare(&sandbox.path("large"), &sandbox.path("back")).unwrap();
}

#[test]
fn a_path_that_loses_small_packets_too_is_left_for_ssh() {
    if !is_root_or_skip("a network namespace") {
        return;
    }
    let sandbox = Sandbox::new();
    let pair = HostPair::new(&sandbox);
    lose_packets_above(&pair, 600);
    sandbox.big_file("large", 30_000_000);
    let copy = pair.haul(&sandbox).args(["-v", "large"]).arg(pair.at(sandbox.path("there"))).run().succeeds();
    let way = connection_line(&copy);
    assert!(way.contains("through ssh") && copy.stderr.contains("large packets are lost (MTU)"), "{}", copy.account());
    compare(&sandbox.path("large"), &sandbox.path("there")).unwrap();
}

#[test]
fn a_failed_path_is_remembered_until_it_works() {
    if !is_root_or_skip("a network namespace") {
        return;
    }
    let sandbox = Sandbox::new();
    let pair = HostPair::new(&sandbox);
    let is_remembered = || {
        let shown = sandbox.haul(["config", HostPair::FAR]).netns(&pair.near).run().succeeds();
        shown.stdout.contains("copies begin through ssh")
    };
    sandbox.big_file("large", 24_000_000);
    let copy = |name: &str| {
        let target = pair.at(sandbox.path(name));
        let copy = pair.haul(&sandbox).args(["--json", "--xfrrate", "8m", "large"]).arg(target).run().succeeds();
        copy.summary()["transport"]["kind"].clone()
    };
    assert!(copy("a") == "tcp" && !is_remembered());
    pair.far.nft(&rules(pair.remote.sshd().port(), &Refusal::Silent, true)).unwrap();
    assert!(copy("b") == "ssh" && is_remembered());
    assert!(copy("c") == "ssh" && is_remembered());
    pair.far.nft("delete table inet e2e").unwrap();
    assert_eq!(copy("d"), "tcp", "memory only orders the attempts");
    assert!(!is_remembered());
}

#[test]
fn a_named_transport_is_the_only_one() {
    if !is_root_or_skip("a network namespace") {
        return;
    }
    let sandbox = Sandbox::new();
    let pair = HostPair::new(&sandbox);
    sandbox.file("file", "x");
    let copy = |transport: &str, name: &str| {
        let target = pair.at(sandbox.path(name));
        pair.haul(&sandbox).args(["--json", "--transport", transport, "file"]).arg(target).run()
    };
    for (transport, name) in [("ssh", "a"), ("tcp", "b")] {
        assert_eq!(copy(transport, name).succeeds().summary()["transport"]["kind"], transport);
    }
    pair.far.nft(&rules(pair.remote.sshd().port(), &Refusal::Plain, true)).unwrap();
    let refused = copy("tcp", "c").ends(3);
    assert!(refused.stdout.contains("--transport tcp permits no other path"), "{}", refused.account());
}
