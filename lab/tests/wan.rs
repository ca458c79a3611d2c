//! The emulated link does what it is told, as ping, iperf3 and the link's own counters see it.

use std::process::Command;
use std::time::{Duration, Instant};

use haul_lab::{Congestion, Finished, Netns, Running, Wan, WanSettings, run_with_timeout, start};

const TIMEOUT: Duration = Duration::from_secs(20);

/// The share of a cable's bits that is TCP's payload, in packets of 1500 bytes.
const TCP_SHARE: f64 = 1448.0 / 1538.0;

/// False, with a word to the harness, where no link can be made.
fn can_run() -> bool {
    if !Wan::available() {
        eprintln!("SKIPPED: an emulated link needs root and /dev/net/tun");
    }
    Wan::available()
}

fn on(host: &Netns, program: &str, line: &str) -> Finished {
    let mut command = urgent(host, program);
    command.args(line.split_whitespace());
    let finished = run_with_timeout(command, TIMEOUT).expect("nsenter is installed");
    assert!(finished.success(), "{program} {line}: {}{}", finished.stdout_text(), finished.stderr_text());
    finished
}

/// What measures must not wait for its turn where other tests keep the CPUs busy.
fn urgent(host: &Netns, program: &str) -> Command {
    let mut command = host.command("nice");
    command.args(["-n", "-19", program]);
    command
}

/// An iperf3 that serves one client on the second host, listening already.
fn iperf3_server(wan: &Wan) -> Running {
    let mut command = urgent(wan.b(), "iperf3");
    command.args(["--server", "--one-off", "--forceflush", "--bind", &Wan::ADDRESS_B.to_string()]);
    let mut server = start(command).expect("nsenter is installed");
    let deadline = Instant::now() + TIMEOUT;
    while !server.stdout_so_far().contains("Server listening") {
        assert!(!server.wait_up_to(Duration::from_millis(5)), "iperf3: {}", server.stderr_so_far());
        assert!(Instant::now() < deadline, "iperf3 does not listen");
    }
    server
}

/// The bits a second that arrived, by the receiver's account.
fn received_bits_per_s(wan: &Wan, options: &str) -> f64 {
    let _server = iperf3_server(wan);
    let finished = on(wan.a(), "iperf3", &format!("--client {} --format k {options}", Wan::ADDRESS_B));
    let said = finished.stdout_text();
    let line = said.lines().rfind(|line| line.ends_with("receiver")).unwrap_or_else(|| panic!("no total: {said}"));
    let mut words = line.split_whitespace().rev().skip_while(|word| *word != "Kbits/sec").skip(1);
    words.next().and_then(|kilobits| kilobits.parse::<f64>().ok()).unwrap_or_else(|| panic!("{line}")) * 1e3
}

#[test]
fn ping_shows_the_round_trip_time() {
    if !can_run() {
        return;
    }
    for rtt_ms in [4.0, 50.0, 200.0] {
        let settings = WanSettings { rtt: Duration::from_secs_f64(rtt_ms / 1e3), ..WanSettings::default() };
        let wan = Wan::new(&settings).expect("a link");
        // A busy machine delays packets and never hurries them: the fastest one shows the link.
        let mut fastest = f64::INFINITY;
        let deadline = Instant::now() + TIMEOUT;
        while fastest > rtt_ms * 1.05 + 2.0 && Instant::now() < deadline {
            let said = on(wan.a(), "ping", &format!("-n -c 8 -i 0.1 {}", Wan::ADDRESS_B)).stdout_text();
            let times = said.split("time=").skip(1).filter_map(|rest| rest.split(' ').next()?.parse::<f64>().ok());
            fastest = times.fold(fastest, f64::min);
        }
        assert!(fastest >= rtt_ms && fastest <= rtt_ms * 1.05 + 2.0, "{rtt_ms} ms: {fastest}");
    }
}

#[test]
fn iperf3_sees_no_more_than_the_rate_and_a_full_queue_drops() {
    if !can_run() {
        return;
    }
    let rtt = Duration::from_millis(10);
    let wan = Wan::new(&WanSettings { rtt, rate_bits_per_s: 100_000_000, ..WanSettings::default() }).expect("a link");
    // How near a connection comes to the rate depends on the machine; the line's own tests have a clock of theirs.
    let seen = received_bits_per_s(&wan, "--time 2 --omit 1 --parallel 2");
    assert!(seen > 0.0 && seen < 100e6 * TCP_SHARE * 1.05, "{seen}");
    let before = wan.forth();
    let seen = received_bits_per_s(&wan, "--udp --bitrate 300M --length 1440 --time 1");
    let after = wan.forth();
    assert!(seen <= 100e6 * 1.05 && after.dropped > before.dropped, "{seen}: {before:?}, then {after:?}");
    assert_eq!(after.lost, 0);
}

#[test]
fn packet_loss_matches_its_rate() {
    if !can_run() {
        return;
    }
    let settings = WanSettings { rtt: Duration::from_millis(4), loss: 0.05, ..WanSettings::default() };
    let wan = Wan::new(&settings).expect("a link");
    received_bits_per_s(&wan, "--udp --bitrate 80M --length 600 --bytes 10M");
    let seen = wan.forth();
    // Some 17,000 packets; five standard deviations are 1.1 %.
    let percent = seen.lost as f64 * 100.0 / (seen.lost + seen.carried) as f64;
    assert!((percent - 5.0).abs() < 1.1 && seen.carried > 5000 && seen.dropped == 0, "{percent} %: {seen:?}");
}

#[test]
fn data_arrives_unchanged_despite_lost_segments_of_superpackets() {
    if !can_run() {
        return;
    }
    let settings = WanSettings { rtt: Duration::from_millis(2), loss: 0.02, ..WanSettings::default() };
    let wan = Wan::new(&settings).expect("a link");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let data: Vec<u8> = (0..8_000_000_u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(directory.path().join("sent"), &data).expect("written");
    let at = directory.path().display();
    let receive = format!("exec nc -l {} 7000 >{at}/received", Wan::ADDRESS_B);
    let send =
        format!("for i in $(seq 50); do nc -N {} 7000 <{at}/sent && exit; sleep 0.1; done; exit 1", Wan::ADDRESS_B);
    let receiver = start(shell(wan.b(), &receive)).expect("nsenter is installed");
    let sent = run_with_timeout(shell(wan.a(), &send), TIMEOUT).expect("nsenter is installed");
    assert!(sent.success(), "{}", sent.stderr_text());
    assert!(receiver.finish(TIMEOUT).expect("it was started").success());
    assert!(std::fs::read(directory.path().join("received")).expect("received") == data, "other bytes arrived");
    assert!(wan.forth().lost > 20, "{:?}", wan.forth());
}

#[test]
fn no_other_congestion_control_is_had_than_the_only_one() {
    if !can_run() {
        return;
    }
    // Reno is what every kernel has and allows.
    for (name, only) in [("reno", false), ("cubic", true)] {
        let congestion = Some(Congestion { name: name.to_owned(), only });
        let settings = WanSettings { rtt: Duration::from_millis(2), congestion, ..WanSettings::default() };
        let wan = Wan::new(&settings).expect("a link");
        assert_eq!(congestion_in_use(&wan, "").as_deref(), Some(name));
        // Iperf3 asks for it on a socket that is connected already, and gives up where that is refused.
        let other = if only { "reno" } else { "cubic" };
        let had = (!only).then_some(other);
        assert_eq!(congestion_in_use(&wan, &format!("--congestion {other}")).as_deref(), had);
    }
    let congestion = Some(Congestion { name: "no-such".to_owned(), only: false });
    let error = Wan::new(&WanSettings { congestion, ..WanSettings::default() }).expect_err("there is none");
    assert!(format!("{error:#}").contains("tcp_no-such"), "{error:#}");
}

/// What iperf3 says that it used at its end; none where it could not have what it asked for.
fn congestion_in_use(wan: &Wan, options: &str) -> Option<String> {
    let _server = iperf3_server(wan);
    let mut command = wan.a().command("iperf3");
    command.args(["--json", "--bytes", "1K", "--client", &Wan::ADDRESS_B.to_string()]);
    command.args(options.split_whitespace());
    let finished = run_with_timeout(command, TIMEOUT).expect("nsenter is installed");
    let said = finished.stdout_text();
    let line = said.lines().find(|line| line.contains("sender_tcp_congestion"));
    assert_eq!(line.is_none(), said.contains("unable to set TCP_CONGESTION"), "{said}");
    line?.split('"').nth(3).map(str::to_owned)
}

fn shell(host: &Netns, script: &str) -> Command {
    let mut command = host.command("sh");
    command.args(["-c", script]);
    command
}
