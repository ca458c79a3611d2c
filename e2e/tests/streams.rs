//! Long paths: the number of streams follows the measured rate, whichever end connects, and the data arrives unchanged.

use std::net::IpAddr;
use std::time::Duration;

use haul_e2e::{ProgramRun, Remote, Sandbox, compare, is_root_or_skip};
use haul_lab::{Congestion, Options, Wan, WanSettings};

/// haul's initial number of streams at this round-trip time.
const STREAMS_AT_FIRST: u64 = 8;
const ROUND_TRIP: Duration = Duration::from_millis(30);

/// A link that loses so many packets that the streams of the beginning carry about a sixth of its rate, whatever else
/// the machine does; under a congestion control that minds.
fn lossy() -> Wan {
    let congestion = Some(Congestion { name: "cubic".into(), only: true });
    let settings = WanSettings {
        rtt: ROUND_TRIP,
        loss: 0.005,
        rate_bits_per_s: 400_000_000,
        congestion,
        ..WanSettings::default()
    };
    Wan::new(&settings).unwrap_or_else(|error| panic!("{error:#}"))
}

/// The far host's sshd.
fn remote(sandbox: &Sandbox, wan: &Wan) -> Remote {
    let address = IpAddr::V4(Wan::ADDRESS_B);
    Remote::with_haul(sandbox, Options { address, netns: Some(wan.b()), ..Options::default() })
}

/// A run's reported numbers of streams, in order.
fn streams(run: &ProgramRun) -> Vec<u64> {
    run.events()
        .iter()
        .filter(|event| event["event"] == "progress")
        .filter_map(|event| event["streams"].as_u64())
        .collect()
}

#[test]
fn streams_are_added_while_a_copy_runs_in_either_direction() {
    if !is_root_or_skip("an emulated link") {
        return;
    }
    let sandbox = Sandbox::new();
    let wan = lossy();
    let remote = remote(&sandbox, &wan);
    let source = sandbox.big_file("source", 40_000_001);
    let haul = || remote.haul(&sandbox).netns(wan.a()).args(["--json", "--progress=1"]).limit(Duration::from_secs(90));
    let push = haul().arg("source").arg(remote.at(sandbox.path("there"))).run().succeeds();
    compare(&source, &sandbox.path("there")).unwrap();
    // Here the target makes the connections, when the source asks for them.
    let pull = haul().arg(remote.at(sandbox.path("there"))).arg("back").run().succeeds();
    compare(&source, &sandbox.path("back")).unwrap();
    for run in [&push, &pull] {
        assert_eq!(run.summary()["transport"]["kind"], "tcp", "{}", run.account());
        let path = &run.summary()["path"];
        // The kernel keeps the shortest, and may take the answer to a packet for that to its second copy: 19 ms was seen.
        assert!(
            path["round_trip_ms"].as_f64().unwrap() >= 5.0 && path["retransmitted"].as_u64().unwrap() > 0,
            "{path}"
        );
        let most = streams(run).into_iter().max().unwrap_or(0);
        assert!(most > STREAMS_AT_FIRST, "never more than {most} streams\n{}", run.account());
    }
    remote.is_left_clean();
}

#[test]
fn a_requested_number_is_kept() {
    if !is_root_or_skip("an emulated link") {
        return;
    }
    let sandbox = Sandbox::new();
    let wan = lossy();
    let remote = remote(&sandbox, &wan);
    let source = sandbox.big_file("source", 8_000_001);
    let haul = remote.haul(&sandbox).netns(wan.a()).args(["--json", "--progress=1", "-s", "3"]);
    let run = haul.arg("source").arg(remote.at(sandbox.path("there"))).limit(Duration::from_secs(60)).run().succeeds();
    compare(&source, &sandbox.path("there")).unwrap();
    assert!(streams(&run).iter().all(|&streams| streams <= 3), "{}", run.account());
    assert_eq!(run.summary()["streams"], 3, "{}", run.account());
}

#[test]
fn a_window_that_limits_the_streams_is_named_with_its_remedy() {
    if !is_root_or_skip("an emulated link") {
        return;
    }
    let sandbox = Sandbox::new();
    // So long that the window holds the streams back even where the machine is busy with other things.
    let rtt = Duration::from_millis(100);
    let wan = Wan::new(&WanSettings { rtt, window_max_bytes: Some(64 << 10), ..WanSettings::default() });
    let wan = wan.unwrap_or_else(|error| panic!("{error:#}"));
    let remote = remote(&sandbox, &wan);
    let source = sandbox.big_file("source", 6_000_001);
    let haul = remote.haul(&sandbox).netns(wan.a()).args(["-s", "2"]);
    let run = haul.arg("source").arg(remote.at(sandbox.path("there"))).limit(Duration::from_secs(60)).run().succeeds();
    compare(&source, &sandbox.path("there")).unwrap();
    let run = run.says(["try", "window", "sysctl -w net.ipv4.tcp_"]);
    assert!(run.stderr.contains("rmem='") || run.stderr.contains("wmem='"), "{}", run.account());
}

#[test]
fn an_unknown_congestion_control_is_refused_with_the_available_ones() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.big_file("source", 1000);
    let run = remote.haul(&sandbox).args(["--congestion", "abacus", "source"]).arg(remote.at(sandbox.path("there")));
    let run = run.run().ends(2);
    run.says(["congestion control 'abacus' is not available here", "reno"]);
}
