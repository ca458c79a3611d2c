//! Traffic counters of the interface with a given address.

use std::net::IpAddr;

use haul_proto::wire::address::LocalAddress;
use haul_proto::wire::resource_metrics::Traffic;

use super::{KernelFile, TEXT_MAX};
use crate::sys::interfaces;

/// The interfaces of this host, sampled repeatedly.
pub struct TrafficGauge {
    file: KernelFile,
    addresses: Vec<LocalAddress>,
    base: Option<(String, Traffic)>,
}

impl TrafficGauge {
    /// Opens the file in proc(5).
    pub fn open() -> Self {
        Self { file: KernelFile::open("/proc/net/dev"), addresses: interfaces::addresses(), base: None }
    }

    /// Bytes through the interface with this address since the first call, and its speed in Mbit/s, 0 if unknown.
    /// `None` for the loopback.
    pub fn sample(&mut self, address: IpAddr) -> (Traffic, u32) {
        let Some(local) = self.addresses.iter().find(|local| local.address == address) else {
            return Default::default();
        };
        let now = traffic_of(&self.file.read(TEXT_MAX), &local.interface).unwrap_or_default();
        if self.base.as_ref().is_none_or(|(name, _)| *name != local.interface) {
            self.base = Some((local.interface.clone(), now));
        }
        let since = self.base.as_ref().map_or(now, |(_, base)| now.since(base));
        (since, local.mbit_per_s)
    }
}

/// The line `name: bytes packets errs drop ... ` with eight fields for received data and eight for sent data.
fn traffic_of(text: &str, interface: &str) -> Option<Traffic> {
    let figures = text.lines().find_map(|line| line.trim_start().strip_prefix(interface)?.strip_prefix(':'))?;
    let figures: Vec<u64> = figures.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
    let figure = |index: usize| figures.get(index).copied();
    let dropped = [2, 3, 10, 11].into_iter().map(figure).sum::<Option<u64>>()?;
    Some(Traffic { received_bytes: figure(0)?, sent_bytes: figure(8)?, dropped })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_found_by_its_full_name() {
        let text = "Inter-|   Receive\n face |bytes\n  eth0: 10 1 2 3 0 0 0 0 20 1 4 5 0 0 0 0\n eth01: 1\n";
        assert_eq!(traffic_of(text, "eth0"), Some(Traffic { received_bytes: 10, sent_bytes: 20, dropped: 14 }));
        assert_eq!((traffic_of(text, "eth"), traffic_of(text, "eth01")), (None, None));
        let loopback = TrafficGauge::open().sample(IpAddr::from([127, 0, 0, 1]));
        assert_eq!(loopback, (Traffic::default(), 0));
    }
}
