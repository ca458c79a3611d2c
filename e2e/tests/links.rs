//! Hosts with several addresses: the default path of the data, and the user's options for it.

use haul_e2e::{ProgramRun, Sandbox, TwoLinks, compare, contents, eventually, hidden_or_partial, is_root_or_skip};

/// No cable holds anything back.
const FAST: [u32; 2] = [0, 0];

/// Two hosts and a small file, or `None`, and said so.
fn scene(megabit_per_s: [u32; 2]) -> Option<(Sandbox, TwoLinks)> {
    if !is_root_or_skip("network namespaces") {
        return None;
    }
    let sandbox = Sandbox::new();
    sandbox.file("file", "content");
    let links = TwoLinks::new(&sandbox, megabit_per_s);
    Some((sandbox, links))
}

/// Pushes the small file with these options.
fn push(sandbox: &Sandbox, links: &TwoLinks, options: &[&str]) -> ProgramRun {
    let there = sandbox.path("there");
    let _ = std::fs::remove_file(&there);
    links.haul(sandbox).args(["--json", "--fsync=none"]).args(options).arg("file").arg(links.at(&there)).run()
}

/// The same, where it has to arrive; from where to where.
#[track_caller]
fn pushed(sandbox: &Sandbox, links: &TwoLinks, options: &[&str]) -> (String, String) {
    let summary = push(sandbox, links, options).succeeds().summary();
    assert_eq!(contents(&sandbox.path("there")), b"content");
    let address = |name: &str| summary["transport"][name].as_str().unwrap_or_else(|| panic!("{summary}")).to_owned();
    (address("from"), address("to"))
}

#[test]
fn data_uses_the_faster_link_by_default() {
    let Some((sandbox, links)) = scene([100, 1000]) else { return };
    for push in [true, false] {
        let before = links.sent_bytes();
        let [from, to] =
            if push { ["null:200m".into(), links.at("null:")] } else { [links.at("null:200m"), "null:".into()] };
        let run = links.haul(&sandbox).args(["--json", "--compress", "off"]).arg(from).arg(to).run().succeeds();
        let summary = run.summary();
        assert!(
            summary["transport"]["to"].as_str().is_some_and(|to| to.starts_with(TwoLinks::FAR[1])),
            "{}",
            run.account()
        );
        assert_eq!(summary["transport"]["interface"], links.near_interfaces[1].as_str(), "{summary}");
        let moved = run.events().into_iter().find(|event| event["event"] == "moved").expect("it was told");
        assert!(moved["message"].as_str().is_some_and(|why| why.contains("Mbit/s")), "{moved}");
        if push {
            let after = links.sent_bytes();
            let [slow, fast] = [0, 1].map(|cable| after[cable] - before[cable]);
            assert!(fast > 3 * slow && fast > 100_000_000, "{slow} bytes by the slow one, {fast} by the fast one");
        }
    }
}

#[test]
fn all_paths_carry_their_share_on_request() {
    let Some((sandbox, links)) = scene([300, 300]) else { return };
    let source = sandbox.big_file("source", 60_000_000);
    let before = links.sent_bytes();
    let run =
        links.haul(&sandbox).args(["--json", "--paths", "all"]).arg(&source).arg(links.at(sandbox.path("there"))).run();
    let summary = run.succeeds().summary();
    compare(&source, &sandbox.path("there")).unwrap();
    let after = links.sent_bytes();
    let sent = [0, 1].map(|cable| after[cable] - before[cable]);
    assert!(sent.iter().all(|bytes| *bytes > 20_000_000), "{sent:?}\n{summary}");
    assert_eq!(summary["transport"]["others"].as_array().map(Vec::len), Some(1), "{summary}");
}

#[test]
fn a_short_copy_uses_one_path() {
    let Some((sandbox, links)) = scene(FAST) else { return };
    let run = push(&sandbox, &links, &["-s", "3"]).succeeds();
    let summary = run.summary();
    let is_at = |name: &str, address| summary["transport"][name].as_str().is_some_and(|text| text.starts_with(address));
    assert!(is_at("from", TwoLinks::NEAR[0]) && is_at("to", TwoLinks::FAR[0]), "{summary}");
    assert!(summary["streams"].as_u64().is_some_and(|streams| streams <= 3), "{summary}");
}

#[test]
fn a_cut_link_is_replaced_by_the_other_one() {
    let Some((sandbox, links)) = scene([100, 100]) else { return };
    let source = sandbox.big_file("source", 60_000_000);
    let target = sandbox.dir("place").join("target");
    let copy =
        links.haul(&sandbox).args(["--json", "--paths", "all", "-s", "2"]).arg(&source).arg(links.at(&target)).start();
    eventually("both links carry data", || {
        links.sent_bytes().iter().all(|bytes| *bytes > 2_000_000)
            && hidden_or_partial(&sandbox.path("place"), &["target"], 1_000_000).is_some()
    });
    links.cut(1);
    let run = ProgramRun::of(copy).succeeds();
    compare(&source, &target).unwrap();
    let summary = run.summary();
    assert_eq!((&summary["restarts"], &summary["failed"]), (&0.into(), &0.into()), "{}", run.account());
    assert!(summary["transport"]["to"].as_str().is_some_and(|to| to.starts_with(TwoLinks::FAR[0])), "{summary}");
}

#[test]
fn the_best_link_is_left_for_another_one_when_it_is_cut() {
    let Some((sandbox, links)) = scene([100, 200]) else { return };
    let source = sandbox.big_file("source", 90_000_000);
    let target = sandbox.dir("place").join("target");
    let copy = links.haul(&sandbox).arg("--json").arg(&source).arg(links.at(&target)).start();
    eventually("the faster link is taken", || copy.stdout_so_far().contains("\"moved\""));
    links.cut(1);
    let run = ProgramRun::of(copy).succeeds();
    compare(&source, &target).unwrap();
    let moved: Vec<_> = run.events().into_iter().filter(|event| event["event"] == "moved").collect();
    let why = moved.last().and_then(|event| event["message"].as_str()).unwrap_or_default();
    assert!(moved.len() == 2 && why.contains("no answers"), "{}", run.account());
    let summary = run.summary();
    assert_eq!(summary["restarts"], 0, "{}", run.account());
    assert!(summary["transport"]["to"].as_str().is_some_and(|to| to.starts_with(TwoLinks::FAR[0])), "{summary}");
}

#[test]
fn a_given_address_is_the_only_one() {
    let Some((sandbox, links)) = scene(FAST) else { return };
    for options in [["--callback", TwoLinks::FAR[1]], ["--callback", "10.92.0.2:5050"]] {
        let (from, to) = pushed(&sandbox, &links, &options);
        assert!(from.starts_with(TwoLinks::NEAR[1]) && to.starts_with(options[1]), "{from} {to}");
    }
    // One of this machine's: the far end connects to it.
    let (from, to) = pushed(&sandbox, &links, &["--callback", TwoLinks::NEAR[1]]);
    assert!(from.starts_with(TwoLinks::FAR[1]) && to.starts_with(TwoLinks::NEAR[1]), "{from} {to}");
    let nowhere = push(&sandbox, &links, &["--callback", "10.92.0.9"]).ends(3);
    nowhere.says(["10.92.0.9", "--callback permits no other path"]);
    let contradiction = push(&sandbox, &links, &["--reverse", "--callback", TwoLinks::FAR[1]]).ends(2);
    contradiction.says(["--reverse", TwoLinks::FAR[1], "the target's own"]);
}

#[test]
fn an_address_or_an_interface_of_this_machine_binds() {
    let Some((sandbox, links)) = scene(FAST) else { return };
    for bind in [TwoLinks::NEAR[1], links.near_interfaces[1].as_str()] {
        let (from, to) = pushed(&sandbox, &links, &["--bind", bind, "-4"]);
        assert!(from.starts_with(TwoLinks::NEAR[1]) && to.starts_with(TwoLinks::FAR[1]), "{from} {to}");
        let (from, to) = pushed(&sandbox, &links, &["--bind", bind, "-4", "--reverse"]);
        assert!(from.starts_with(TwoLinks::FAR[1]) && to.starts_with(TwoLinks::NEAR[1]), "{from} {to}");
    }
    let unknown = push(&sandbox, &links, &["--bind", "eth99"]).ends(2);
    unknown.says(["eth99", "no such address or interface", TwoLinks::NEAR[0], &links.near_interfaces[1]]);
}

#[test]
fn only_one_address_family() {
    let Some((sandbox, links)) = scene(FAST) else { return };
    let (_, to) = pushed(&sandbox, &links, &["--ipv6", "s"]);
    assert!(to.starts_with("[fd91::2]:"), "{to}");
    let (_, to) = pushed(&sandbox, &links, &["-4"]);
    assert!(to.starts_with(TwoLinks::FAR[0]), "{to}");
    // ssh gets the option as well, and then cannot reach an IPv4 address.
    push(&sandbox, &links, &["--ipv6", "c"]).ends(3);
    for interface in &links.far_interfaces {
        links.far.run("ip", ["-6", "address", "flush", "dev", interface]).expect("it has some");
    }
    push(&sandbox, &links, &["--ipv6", "t"]).ends(3).says(["no usable address is known", "-6 permits no other path"]);
}

#[test]
fn the_target_connects_on_request() {
    let Some((sandbox, links)) = scene(FAST) else { return };
    let (from, to) = pushed(&sandbox, &links, &["--reverse"]);
    assert!(from.starts_with(TwoLinks::FAR[0]) && to.starts_with(TwoLinks::NEAR[0]), "{from} {to}");
    // Where it cannot, the source does.
    links.near.nft("table inet t { chain c { type filter hook input priority 0; tcp flags & (syn | ack) == syn reject with tcp reset; }; }").unwrap();
    let (from, to) = pushed(&sandbox, &links, &["--reverse"]);
    assert!(from.starts_with(TwoLinks::NEAR[0]) && to.starts_with(TwoLinks::FAR[0]), "{from} {to}");
}

#[test]
fn ports_can_be_chosen() {
    let Some((sandbox, links)) = scene(FAST) else { return };
    let port = |(_, to): (String, String)| to.rsplit_once(':').map(|(_, port)| port.to_owned()).unwrap_or_default();
    assert_eq!(port(pushed(&sandbox, &links, &["--data-ports", "5031:5039"])), "5031");
    // The worker there may end a moment after its copy.
    let mut busy = None;
    eventually("the port is free", || {
        busy = links.far.enter(|| std::net::TcpListener::bind("0.0.0.0:5031")).unwrap().ok();
        busy.is_some()
    });
    assert_eq!(port(pushed(&sandbox, &links, &["--data-ports", "5031:5039"])), "5032");
    let run = push(&sandbox, &links, &["--data-ports", "5031"]).succeeds();
    let summary = run.summary();
    // A small file may have gone through ssh before the other end had connected.
    let whys = ["instead_of", "because"].map(|name| summary["transport"][name].as_str().unwrap_or_default());
    assert!(whys.iter().any(|why| why.contains("port 5031 is in use")), "{summary}");
    drop(busy);
}

#[test]
fn a_bridge_present_on_both_hosts_is_no_path() {
    let Some((sandbox, links)) = scene(FAST) else { return };
    for host in [&links.near, &links.far] {
        host.run("ip", ["link", "add", "docker0", "type", "bridge"]).unwrap();
        host.add_address("docker0", "172.17.0.1/16").unwrap();
        host.run("ip", ["link", "set", "docker0", "up"]).unwrap();
    }
    let (_, to) = pushed(&sandbox, &links, &[]);
    assert!(to.starts_with(TwoLinks::FAR[0]), "{to}");
}
