//! `haul net` and `--duration`: timed network measurements with an orderly end.

use std::thread;
use std::time::Duration;

use haul_e2e::{HostPair, ProgramRun, Remote, Sandbox, ServedShare, is_root_or_skip, listing};
use haul_lab::{find_program, output_of, start};
use serde_json::Value;

fn of<'a>(events: &'a [Value], event: &str) -> Vec<&'a Value> {
    events.iter().filter(|line| line["event"] == event).collect()
}

/// Its intervals and its total are those of two or three seconds with data.
fn measured(run: ProgramRun) -> Value {
    let events = run.succeeds().events();
    let intervals = of(&events, "net_interval");
    assert!((1..=4).contains(&intervals.len()), "{events:?}");
    assert!(intervals.iter().all(|interval| interval["bytes_per_s"].as_f64() > Some(0.0)), "{events:?}");
    let total = of(&events, "net").into_iter().next().expect("a total").clone();
    let seconds = total["seconds"].as_f64().unwrap();
    assert!((1.9..20.0).contains(&seconds), "{total}");
    assert!(total["bytes"].as_u64() > Some(0) && total["segments"].as_u64() > Some(0), "{total}");
    for end in ["source_cpus", "target_cpus"] {
        assert!(total[end]["in_use"].as_f64() > Some(0.0) && total[end]["cores"].as_u64() > Some(0), "{total}");
    }
    total
}

#[test]
fn a_network_is_measured_in_both_directions_and_through_a_server() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let words = ["net", "--json", "--duration", "2"];
    for more in [&[][..], &["--reverse"], &["-s", "1"]] {
        let net = sandbox.haul(words).args(remote.sshd().haul_args()).args(more);
        let total = measured(net.arg(remote.at("null:")).run());
        if more.contains(&"-s") {
            assert_eq!(total["streams"], 1);
        }
        assert!(total["tcp_round_trip_s"]["mean"].as_f64() > Some(0.0), "{total}");
    }
    let server = ServedShare::start(&sandbox, &[]);
    measured(sandbox.haul(words).arg(&server.line).run());
    measured(sandbox.haul(words).args(["--reverse", &server.line]).run());
    server.end();
    assert_eq!(listing(&sandbox.path("shared")), [""; 0]);
}

#[test]
fn output_for_people_has_a_line_a_second_and_a_total() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let net = sandbox.haul(["net", "--duration", "2"]).args(remote.sshd().haul_args());
    let run = net.arg(remote.at("")).run().succeeds();
    let lines: Vec<_> = run.stdout.lines().collect();
    for begins in ["path ", "1 s ", "average ", "sent ", "retransmits ", "cpus "] {
        assert!(lines.iter().any(|line| line.starts_with(begins)), "{begins}\n{}", run.account());
    }
    assert!(run.stdout.contains("bit/s") && run.stdout.contains("B/s"), "{}", run.account());
    if is_root_or_skip("ICMP echoes") {
        assert!(run.stdout.contains("\nping idle ") && run.stdout.contains("\nping loaded "), "{}", run.account());
    }
    sandbox.haul(["net"]).run().ends(2).says(["haul net needs a host"]);
    sandbox.haul(["net", "a", "b"]).run().ends(2).says(["b: haul net takes one host"]);
}

#[test]
fn a_copy_that_keeps_nothing_ends_after_its_duration() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    for option in ["--duration", "--timelimit"] {
        let run = remote.haul(&sandbox).args(["--json", option, "2", "null:"]).arg(remote.at("null:")).run().succeeds();
        let summary = run.summary();
        assert!(summary["bytes"].as_u64() > Some(0) && summary["bytes_per_s"].as_f64() > Some(0.0), "{summary}");
        assert!(summary["source_cpu_s"].as_f64() > Some(0.0), "{summary}");
    }
    // Within this host, too; and one that ends before is complete.
    let local = sandbox.haul(["--json", "--duration", "2", "null:", "null:"]).run().succeeds();
    assert!(local.summary()["bytes"].as_u64() > Some(0));
    let small = sandbox.haul(["--json", "--duration", "60", "null:1m", "null:"]).run().succeeds();
    assert_eq!(small.summary()["bytes"], 1 << 20);
    sandbox.file("file", "content");
    let kept = sandbox.haul(["--duration", "2", "file", "copy"]).run().ends(2);
    kept.says(["--duration: the target is not null:", "--timelimit TIME"]);
    assert!(!sandbox.path("copy").exists());
}

/// The rate of the shaped cable in megabits per second.
const CABLE: u32 = 100;

/// What iperf3 measures on the cable, in bytes per second; `None` if it is not installed.
fn by_iperf3(pair: &HostPair) -> Option<f64> {
    let program = find_program("iperf3")?;
    let mut server = pair.far.command(&program);
    server.args(["--server", "--one-off", "--bind", HostPair::FAR]);
    let _server = start(server).unwrap();
    // Until the server listens, it answers with an error.
    let client = || {
        let mut client = pair.near.command(&program);
        client.args(["--client", HostPair::FAR, "--time", "3", "--parallel", "2", "--congestion", "cubic", "--json"]);
        let results: Value = serde_json::from_str(&output_of(&mut client).ok()?).ok()?;
        Some(results["end"]["sum_received"]["bits_per_second"].as_f64()? / 8.0)
    };
    let mut pauses = (0..50).inspect(|_| thread::sleep(Duration::from_millis(100)));
    Some(client().or_else(|| pauses.find_map(|_| client())).expect("iperf3 reaches its server"))
}

#[test]
fn a_shaped_link_is_measured_and_not_the_compression_of_zeros() {
    if !is_root_or_skip("network namespaces") {
        return;
    }
    let sandbox = Sandbox::new();
    let pair = HostPair::slow(&sandbox, CABLE);
    let line_rate = f64::from(CABLE) * 1e6 / 8.0;
    // A configuration is not a request to measure compression.
    sandbox.file("lz4.toml", "compress = \"lz4\"\n");
    let net = |options: &[&str]| {
        let words = ["net", "--json", "--duration", "3", "-s", "2", "--congestion", "cubic"];
        let run = sandbox
            .haul(words)
            .args(pair.remote.sshd().haul_args())
            .args(options)
            .netns(&pair.near)
            .arg(pair.at("null:"))
            .run();
        let total = measured(run);
        (total["bytes_per_s"].as_f64().unwrap(), total)
    };
    let (rate, total) = net(&["--config", "lz4.toml"]);
    let expected = by_iperf3(&pair).unwrap_or_else(|| {
        eprintln!("iperf3 is not installed: compared with the rate of the cable alone");
        line_rate * 0.956
    });
    assert!((rate / expected - 1.0).abs() < 0.05, "{rate} is not {expected}: {total}");
    assert!(total["bytes_on_wire"].as_u64() > total["bytes"].as_u64(), "{total}");
    let (rate, total) = net(&["--compress", "lz4"]);
    assert!(rate > 2.0 * line_rate && total["bytes_on_wire"].as_u64() < total["bytes"].as_u64(), "{total}");

    let copy = pair.haul(&sandbox).args(["--json", "null:8m"]).arg(pair.at("null:")).run().succeeds();
    assert!(copy.summary()["bytes_on_wire"].as_u64() > Some(8 << 20), "{}", copy.account());
    assert!(copy.stdout.contains("sent uncompressed"), "{}", copy.account());
}
