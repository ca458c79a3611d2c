//! A path between two hosts, as text. Addresses and interfaces are a worker's text, so they are escaped.

use haul_base::copy::event::NetworkPath;

use crate::text::harmless;

/// Formats a path with its ports.
pub fn with_ports(path: &NetworkPath) -> String {
    format!("{} -> {} {}", harmless(&path.from), harmless(&path.to), over(path))
}

/// Without ports: a port chosen by the kernel has no meaning.
pub fn without_ports(path: &NetworkPath) -> String {
    format!("{} -> {} {}", harmless(without_port(&path.from)), harmless(without_port(&path.to)), over(path))
}

/// Formats the interface and its nominal speed.
fn over(path: &NetworkPath) -> String {
    let speed = path.mbit_per_s.map(speed);
    match (&path.interface, speed) {
        (Some(interface), Some(speed)) => format!("over {} ({speed})", harmless(interface)),
        (Some(interface), None) => format!("over {} (tcp)", harmless(interface)),
        (None, Some(speed)) => format!("({speed})"),
        (None, None) => "(tcp)".to_owned(),
    }
}

/// The speed in a network card's usual unit.
fn speed(mbit_per_s: u32) -> String {
    match (mbit_per_s / 1000, mbit_per_s % 1000) {
        (0, mbit) => format!("{mbit} Mbit/s"),
        (gbit, 0) => format!("{gbit} Gbit/s"),
        (gbit, mbit) => format!("{gbit}.{} Gbit/s", mbit / 100),
    }
}

/// Removes the port: `[::1]:4711` to `::1`.
pub fn without_port(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

/// The way through the control connections.
pub fn tunnel(is_ssh: bool) -> &'static str {
    if is_ssh { "through ssh" } else { "through the connections of this machine" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::bare;

    #[test]
    fn known_facts_are_shown() {
        let over = |interface: Option<&str>, mbit_per_s| {
            without_ports(&NetworkPath {
                interface: interface.map(str::to_owned),
                mbit_per_s,
                ..bare("[::1]:9", "10.0.0.2:10")
            })
        };
        assert_eq!(over(Some("enp5s0f1"), Some(10_000)), "::1 -> 10.0.0.2 over enp5s0f1 (10 Gbit/s)");
        assert_eq!(over(Some("eth0\x1b"), Some(2500)), "::1 -> 10.0.0.2 over eth0\\u{1b} (2.5 Gbit/s)");
        assert_eq!(over(Some("eth0"), Some(100)), "::1 -> 10.0.0.2 over eth0 (100 Mbit/s)");
        assert_eq!(
            [over(Some("eth0"), None), over(None, None)],
            ["::1 -> 10.0.0.2 over eth0 (tcp)", "::1 -> 10.0.0.2 (tcp)"]
        );
        assert_eq!(with_ports(&bare("[::1]:9", "10.0.0.2:10")), "[::1]:9 -> 10.0.0.2:10 (tcp)");
    }
}
