//! Direct paths that have failed within a day, by host and local network, in the state directory. They order the
//! attempts: a copy begins through ssh at once, and moves to a direct path as soon as one is up.

use std::net::{IpAddr, UdpSocket};
use std::path::{Path, PathBuf};

use haul_base::copy::error::Outcome;
use haul_base::copy::event::TransportPath;
use haul_base::copy::location::Host;
use haul_base::copy::spec::{CopySpec, Transport};
use jiff::{Timestamp, Zoned};
use toml_edit::{DocumentMut, Item, Table, value};

use crate::probe::figures::text;
use crate::probe::save::replace;
use crate::user_dirs::state_dir;

/// The file in the state directory.
const FILE: &str = "paths.toml";
/// Only the user may read and write it.
const MODE: u32 = 0o600;
/// How long a failure is remembered.
const AGE_MAX_S: i64 = 24 * 3600;
/// Most hosts remembered: the latest.
const HOSTS_MAX: usize = 256;

/// In place of a network, on a machine without a default route.
const NO_ROUTE: &str = "a network without a default route";

/// The memory of direct paths between this machine and one host.
pub struct PathMemory {
    file: PathBuf,
    host: String,
    network: String,
    /// The last failure, unless it is too old, or the file cannot be read.
    pub failed: Option<FailedPath>,
}

/// A failure that is remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedPath {
    /// The network of this machine.
    pub network: String,
    /// The time, in words.
    pub when: String,
    /// The reason.
    pub because: String,
}

impl PathMemory {
    /// For a copy between this machine and an ssh host that leaves the path to haul.
    pub fn of_copy(copy: &CopySpec) -> Option<Self> {
        let network = &copy.options.streams.network;
        let is_free = network.transport == Transport::Auto && network.callback.is_none() && network.bind.is_none();
        let host = match (copy.source_host(), &copy.target.host) {
            (Host::Local, Host::Remote { name, .. }) | (Host::Remote { name, .. }, Host::Local) => name,
            _ => return None,
        };
        if is_free { Self::of_host(host) } else { None }
    }

    /// For a host, by its name as typed.
    pub fn of_host(host: &str) -> Option<Self> {
        let file = state_dir()?.join(FILE);
        let network = local_network().unwrap_or_else(|| NO_ROUTE.to_owned());
        let failed = last_failure(&file, host, &network);
        Some(Self { file, host: host.to_owned(), network, failed })
    }

    /// Remembers or forgets a failure, by the outcome of a copy. A state directory that cannot be written is no failure
    /// of the copy.
    pub fn record(&self, outcome: &Outcome) {
        let Ok(summary) = outcome else { return };
        let because = match &summary.connection.transport {
            TransportPath::Tunnel { because, .. } => Some(because.as_str()),
            TransportPath::Tcp { .. } => None,
            _ => return,
        };
        if because.is_none() && self.failed.is_none() {
            return;
        }
        let old = text(&self.file).unwrap_or_default();
        let now = (Timestamp::now().as_second(), Zoned::now().strftime("%Y-%m-%d %H:%M").to_string());
        let _ = replace(&self.file, &self.with_result(&old, because, &now), MODE);
    }

    /// An unreadable file is replaced: users do not edit it.
    fn with_result(&self, old: &str, because: Option<&str>, (now_s, when): &(i64, String)) -> String {
        let mut document: DocumentMut = old.parse().unwrap_or_default();
        document.retain(|_, networks| {
            let Item::Table(networks) = networks else { return false };
            networks.retain(|_, kept| is_fresh(kept, *now_s));
            !networks.is_empty()
        });
        let mut networks = match document.remove(&self.host) {
            Some(Item::Table(networks)) => networks,
            _ => Table::new(),
        };
        networks.remove(&self.network);
        if let Some(because) = because {
            let mut kept = Table::new();
            kept.insert("failed", value(*now_s));
            kept.insert("when", value(when));
            kept.insert("because", value(because));
            networks.insert(&self.network, Item::Table(kept));
        }
        while document.len() >= HOSTS_MAX {
            let Some(first) = document.iter().next().map(|(host, _)| host.to_owned()) else { break };
            document.remove(&first);
        }
        if !networks.is_empty() {
            networks.set_implicit(true);
            document.insert(&self.host, Item::Table(networks));
        }
        document.to_string()
    }
}

fn last_failure(file: &Path, host: &str, network: &str) -> Option<FailedPath> {
    let document: DocumentMut = text(file).ok()?.parse().ok()?;
    let kept = document.get(host)?.get(network).filter(|kept| is_fresh(kept, Timestamp::now().as_second()))?;
    let word = |key| kept.get(key).and_then(Item::as_str).unwrap_or_default().to_owned();
    Some(FailedPath { network: network.to_owned(), when: word("when"), because: word("because") })
}

/// Whether an entry is valid and young enough.
fn is_fresh(kept: &Item, now_s: i64) -> bool {
    let failed_s = kept.get("failed").and_then(Item::as_integer);
    failed_s.is_some_and(|failed_s| (0..AGE_MAX_S).contains(&now_s.saturating_sub(failed_s)))
}

/// The network of the address that this machine uses for others: the first 24 bits. No packet is sent.
fn local_network() -> Option<String> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // An address for documentation (RFC 5737), so that the kernel chooses the default route.
    socket.connect("192.0.2.1:9").ok()?;
    match socket.local_addr().ok()?.ip() {
        IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            Some(format!("{a}.{b}.{c}.0/24"))
        }
        IpAddr::V6(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(host: &str, network: &str) -> PathMemory {
        PathMemory { file: PathBuf::new(), host: host.to_owned(), network: network.to_owned(), failed: None }
    }

    fn at(now_s: i64) -> (i64, String) {
        (now_s, "2026-11-28 17:00".to_owned())
    }

    #[test]
    fn failures_are_kept_by_host_and_network_and_forgotten_after_success_or_a_day() {
        let [a, b] = [memory("db1", "10.0.0.0/24"), memory("db1", "192.168.1.0/24")];
        let text = a.with_result("", Some("timed out"), &at(1_000_000));
        let text = b.with_result(&text, Some("refused \"x\""), &at(1_000_100));
        insta::assert_snapshot!(text, @r#"
            [db1."10.0.0.0/24"]
            failed = 1000000
            when = "2026-11-28 17:00"
            because = "timed out"

            [db1."192.168.1.0/24"]
            failed = 1000100
            when = "2026-11-28 17:00"
            because = 'refused "x"'
            "#);
        assert_eq!(a.with_result(&b.with_result(&text, None, &at(1_000_200)), None, &at(1_000_200)), "");
        let later = memory("db2", "10.0.0.0/24").with_result(&text, Some("late"), &at(1_000_050 + AGE_MAX_S));
        assert!(!later.contains("timed out") && later.contains("refused") && later.contains("db2"), "{later}");
    }

    #[test]
    fn damaged_text_is_replaced_and_hosts_are_limited() {
        for text in ["= 3", "db1 = 3\n", "[db1]\n\"10.0.0.0/24\" = 3\n", "\u{0}"] {
            let new = memory("db1", "10.0.0.0/24").with_result(text, Some("late"), &at(5));
            assert!(new.contains("late") && new.parse::<DocumentMut>().is_ok(), "{text}");
        }
        let mut text = String::new();
        for host in 0..HOSTS_MAX + 9 {
            text = memory(&format!("h{host}"), "n").with_result(&text, Some("late"), &at(5));
        }
        let document: DocumentMut = text.parse().unwrap();
        assert!(document.len() == HOSTS_MAX && document.get("h0").is_none());
        assert!(document.get(&format!("h{}", HOSTS_MAX + 8)).is_some());
    }
}
