//! Readiness of hosts: detectable problems that would prevent transfers or slow them down.

use haul_base::copy::event::TransportPath;
use haul_control::probe::EndMeasurement;
use haul_proto::wire::network_settings::NetworkSettings;
use haul_show::paths::tunnel;
use haul_show::text::harmless;
use haul_show::units::{count, size};

/// One check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Its identifier for programs.
    pub id: &'static str,
    /// The host; `None` for both.
    pub host: Option<String>,
    /// Whether it passed.
    pub is_fine: bool,
    /// The finding, with a remedy for a problem.
    pub text: String,
}

/// Largest acceptable difference of clocks.
const CLOCK_MAX_US: u64 = 2_000_000;
/// Smaller windows are too small for most long paths.
const WINDOW_MIN: u64 = 4 << 20;
/// Smallest sufficient free space.
const FREE_MIN_BYTES: u64 = 1 << 30;
const FREE_MIN_FILES: u64 = 10_000;

/// Checks of both ends; once, if one worker is both ends.
pub fn of_ends(ends: &[EndMeasurement; 2], is_one: bool) -> Vec<Check> {
    let several = if is_one { &ends[1..] } else { &ends[..] };
    let mut checks: Vec<_> = several.iter().flat_map(of_end).collect();
    let [source, target] = ends.each_ref().map(|end| &end.measured.version);
    let same = source == target;
    let text = match same {
        true => format!("haul {}", harmless(source)),
        false => format!("haul {} and {}: install the same version", harmless(source), harmless(target)),
    };
    checks.insert(0, Check { id: "versions", host: None, is_fine: same, text });
    checks.extend(place(&ends[1]));
    checks
}

fn of_end(end: &EndMeasurement) -> Vec<Check> {
    let check = |id, is_fine, text| Check { id, host: Some(end.label.clone()), is_fine, text };
    let measured = &end.measured;
    let windows = end.hello.windows;
    let [receive, send] = [windows.receive_max_bytes, windows.send_max_bytes];
    let text = format!("TCP's windows grow to {} receiving, {} sending", size(receive), size(send));
    let text = match receive.min(send) >= WINDOW_MIN {
        true => text,
        false => {
            format!("{text}; for long paths: sysctl -w net.ipv4.tcp_rmem='4096 131072 67108864', tcp_wmem likewise")
        }
    };
    let buffers = [measured.network.receive.max_bytes, measured.network.send.max_bytes].map(size);
    let mut checks = vec![
        check("windows", receive.min(send) >= WINDOW_MIN, text),
        check(
            "buffers",
            true,
            format!("-w can be up to {} receiving, {} sending (rmem_max, wmem_max)", buffers[0], buffers[1]),
        ),
        check("net_core", true, core_settings(&measured.network)),
        check("net_ipv4", true, tcp_settings(&measured.network)),
        check("congestion", true, format!("congestion control: {}", harmless(&measured.congestion_controls))),
        clock(end),
    ];
    checks.extend(startups(end));
    checks
}

/// `net.core`, as sysctl(8) names it. Network namespaces lack some of its settings.
fn core_settings(network: &NetworkSettings) -> String {
    let NetworkSettings { receive, send, optmem_max_bytes, backlog_max_packets, .. } = network;
    let settings = [
        ("rmem_max", receive.max_bytes),
        ("wmem_max", send.max_bytes),
        ("rmem_default", receive.default_bytes),
        ("wmem_default", send.default_bytes),
        ("optmem_max", *optmem_max_bytes),
        ("netdev_max_backlog", *backlog_max_packets),
    ];
    let known = settings.iter().filter(|(_, value)| *value > 0);
    known.map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
}

/// `net.ipv4`.
fn tcp_settings(network: &NetworkSettings) -> String {
    let [receive, send] = [network.tcp_receive, network.tcp_send]
        .map(|sizes| format!("{} {} {}", sizes.min_bytes, sizes.default_bytes, sizes.max_bytes));
    format!("tcp_rmem {receive}, tcp_wmem {send}")
}

fn clock(end: &EndMeasurement) -> Check {
    let ahead = end.clock_ahead_us;
    let is_fine = ahead.unsigned_abs() <= CLOCK_MAX_US;
    let seconds = ahead.unsigned_abs() as f64 / 1e6;
    let text = match (is_fine, ahead >= 0) {
        (true, _) => "its clock agrees with ours".to_owned(),
        (false, true) => {
            format!("its clock is {seconds:.1} s ahead: haul compares file times")
        }
        (false, false) => {
            format!("its clock is {seconds:.1} s behind: haul compares file times")
        }
    };
    Check { id: "clock", host: Some(end.label.clone()), is_fine, text }
}

/// Irrelevant without a login, and omitted where it is unknown.
fn startups(end: &EndMeasurement) -> Option<Check> {
    end.hello.ssh_connection.as_ref()?;
    let limits = Some(harmless(&end.measured.max_startups)).filter(|limits| !limits.is_empty())?;
    let text = format!("sshd's MaxStartups {limits}");
    Some(Check { id: "max_startups", host: Some(end.label.clone()), is_fine: true, text })
}

fn place(end: &EndMeasurement) -> Option<Check> {
    let place = end.measured.place.as_ref()?;
    let files = match place.counts_files {
        true => format!(", space for {} files", count(place.free_files)),
        false => String::new(),
    };
    let is_fine = place.free_bytes >= FREE_MIN_BYTES && (!place.counts_files || place.free_files >= FREE_MIN_FILES);
    let compresses = if place.may_compress { "; the file system may compress zeros" } else { "" };
    let removed = match place.removed {
        0 => String::new(),
        removed => format!("; deleted the files of {removed} earlier probes"),
    };
    let text = format!("{} free{files}{compresses}{removed}", size(place.free_bytes));
    Some(Check { id: "space", host: Some(end.label.clone()), is_fine, text })
}

/// The check of the transport path.
pub fn of_transport(transport: &TransportPath) -> Check {
    let (is_fine, text) = match transport {
        TransportPath::Tunnel { is_ssh, because } => (
            false,
            format!(
                "data goes {}, which is slow: {}; open a port and choose it with --data-ports",
                tunnel(*is_ssh),
                harmless(because)
            ),
        ),
        TransportPath::Tcp { instead_of: Some(why), .. } => (true, format!("data connections work; {}", harmless(why))),
        _ => (true, "data connections work".to_owned()),
    };
    Check { id: "firewall", host: None, is_fine, text }
}

#[cfg(test)]
pub mod tests {
    use haul_proto::feature::Features;
    use haul_proto::wire::measure::{MeasureAnswer, TargetDirectoryFigures};
    use haul_proto::wire::network_settings::{InterfaceSettings, SocketBuffers, TcpBuffers};
    use haul_proto::wire::report::{WindowLimits, WorkerHello};

    use super::*;

    /// An end like any other.
    pub fn end(label: &str, is_target: bool) -> EndMeasurement {
        EndMeasurement {
            label: label.into(),
            hello: WorkerHello {
                protocol: 1,
                features: Features::ALL,
                cores: 8,
                aes: true,
                boot: [u8::from(is_target); 16],
                ssh_connection: is_target.then(|| "10.0.0.1 40000 10.0.0.2 22".into()),
                addresses: Vec::new(),
                windows: WindowLimits { receive_max_bytes: 6_291_456, send_max_bytes: 4_194_304 },
                rate_bytes_per_s: 0,
                requires_blake3: false,
            },
            measured: MeasureAnswer {
                hash_bytes_per_s: 3_100_000_000,
                check_bytes_per_s: 21_000_000_000,
                seal_bytes_per_s: 5_200_000_000,
                network: NetworkSettings {
                    receive: SocketBuffers { default_bytes: 212_992, max_bytes: 212_992 },
                    send: SocketBuffers { default_bytes: 212_992, max_bytes: 212_992 },
                    optmem_max_bytes: 131_072,
                    backlog_max_packets: 1000,
                    tcp_receive: TcpBuffers { min_bytes: 4096, default_bytes: 131_072, max_bytes: 6_291_456 },
                    tcp_send: TcpBuffers { min_bytes: 4096, default_bytes: 16_384, max_bytes: 4_194_304 },
                    free_memory_bytes: 12_000_000_000,
                    interfaces: vec![InterfaceSettings {
                        name: "eth0".into(),
                        mtu: 9000,
                        queue_packets: 1000,
                        qdisc: "fq".into(),
                    }],
                },
                congestion_controls: "cubic bbr".into(),
                max_startups: "10-100".into(),
                version: "0.1.0".into(),
                clock_us: 1_700_000_000_000_000,
                place: is_target.then(|| TargetDirectoryFigures {
                    scratch: b"/archive/.haul-probe-1".to_vec(),
                    free_bytes: 1_200_000_000_000,
                    free_files: 120_000_000,
                    counts_files: true,
                    may_compress: false,
                    removed: 0,
                }),
            },
            clock_ahead_us: 1200,
        }
    }

    /// Checks as text.
    pub fn lines(checks: &[Check]) -> String {
        let line = |check: &Check| {
            let sign = if check.is_fine { ' ' } else { '!' };
            format!("{sign} {} {}: {}", check.id, check.host.as_deref().unwrap_or("both"), check.text)
        };
        checks.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn good_and_bad_findings() {
        let fine = of_ends(&[end("this machine", false), end("db1", true)], false);
        assert!(fine.iter().all(|check| check.is_fine), "{}", lines(&fine));
        let mut bad = end("db\x1b1", true);
        bad.clock_ahead_us = -86_400_000_000;
        bad.measured.version = "0.0.9".into();
        bad.measured.max_startups.clear();
        bad.hello.windows.receive_max_bytes = 212_992;
        bad.measured.place = bad.measured.place.map(|place| TargetDirectoryFigures {
            free_files: 3,
            may_compress: true,
            removed: 2,
            ..place
        });
        insta::assert_snapshot!(lines(&of_ends(&[end("this machine", false), bad], false)), @r#"
            ! versions both: haul 0.1.0 and 0.0.9: install the same version
              windows this machine: TCP's windows grow to 6.29 MB receiving, 4.19 MB sending
              buffers this machine: -w can be up to 213.0 kB receiving, 213.0 kB sending (rmem_max, wmem_max)
              net_core this machine: rmem_max 212992, wmem_max 212992, rmem_default 212992, wmem_default 212992, optmem_max 131072, netdev_max_backlog 1000
              net_ipv4 this machine: tcp_rmem 4096 131072 6291456, tcp_wmem 4096 16384 4194304
              congestion this machine: congestion control: cubic bbr
              clock this machine: its clock agrees with ours
            ! windows db1: TCP's windows grow to 213.0 kB receiving, 4.19 MB sending; for long paths: sysctl -w net.ipv4.tcp_rmem='4096 131072 67108864', tcp_wmem likewise
              buffers db1: -w can be up to 213.0 kB receiving, 213.0 kB sending (rmem_max, wmem_max)
              net_core db1: rmem_max 212992, wmem_max 212992, rmem_default 212992, wmem_default 212992, optmem_max 131072, netdev_max_backlog 1000
              net_ipv4 db1: tcp_rmem 4096 131072 6291456, tcp_wmem 4096 16384 4194304
              congestion db1: congestion control: cubic bbr
            ! clock db1: its clock is 86400.0 s behind: haul compares file times
            ! space db1: 1.20 TB free, space for 3 files; the file system may compress zeros; deleted the files of 2 earlier probes
            "#);
        let transport = of_transport(&TransportPath::Tunnel {
            is_ssh: true,
            because: "no TCP connection to db1: timed out".into(),
        });
        insta::assert_snapshot!(lines(&[transport]), @r#"
            ! firewall both: data goes through ssh, which is slow: no TCP connection to db1: timed out; open a port and choose it with --data-ports
            "#);
    }
}
