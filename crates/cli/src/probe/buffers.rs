//! Buffers for a measured path: its bandwidth-delay product, smaller kernel settings, and the memory of all streams.

use std::time::Duration;

use haul_base::copy::event::{NetworkPath, TransportPath};
use haul_control::probe::{EndMeasurement, ProbePart, ProbeSample};
use haul_proto::advice::{BufferNeeds, buffers_crowd_memory};
use haul_proto::wire::network_settings::{InterfaceSettings, NetworkSettings};
use haul_show::text::harmless;
use haul_show::units::{counted, rate, size};

use super::ready::Check;

/// A kernel setting for the largest buffer size.
pub struct BufferLimit {
    /// Its name for sysctl(8).
    pub name: &'static str,
    /// Values in front of the largest size, of one host.
    pub before: fn(&NetworkSettings) -> Vec<u64>,
    /// The largest size of one host; 0 if unknown.
    pub max_bytes: fn(&NetworkSettings) -> u64,
    /// The smallest sufficient size for a path.
    pub min_bytes: fn(BufferNeeds) -> u64,
    /// The size to set for a path.
    pub wanted_bytes: fn(BufferNeeds) -> u64,
    /// Whether it applies only with `-w`.
    pub of_window_option: bool,
}

/// All limits.
pub const BUFFER_LIMITS: [BufferLimit; 4] = [
    BufferLimit {
        name: "net.ipv4.tcp_rmem",
        before: |host| vec![host.tcp_receive.min_bytes, host.tcp_receive.default_bytes],
        max_bytes: |host| host.tcp_receive.max_bytes,
        min_bytes: BufferNeeds::tcp_min_bytes,
        wanted_bytes: BufferNeeds::tcp_recommended_bytes,
        of_window_option: false,
    },
    BufferLimit {
        name: "net.ipv4.tcp_wmem",
        before: |host| vec![host.tcp_send.min_bytes, host.tcp_send.default_bytes],
        max_bytes: |host| host.tcp_send.max_bytes,
        min_bytes: BufferNeeds::tcp_min_bytes,
        wanted_bytes: BufferNeeds::tcp_recommended_bytes,
        of_window_option: false,
    },
    BufferLimit {
        name: "net.core.rmem_max",
        before: |_| Vec::new(),
        max_bytes: |host| host.receive.max_bytes,
        min_bytes: BufferNeeds::requested_min_bytes,
        wanted_bytes: BufferNeeds::requested_recommended_bytes,
        of_window_option: true,
    },
    BufferLimit {
        name: "net.core.wmem_max",
        before: |_| Vec::new(),
        max_bytes: |host| host.send.max_bytes,
        min_bytes: BufferNeeds::requested_min_bytes,
        wanted_bytes: BufferNeeds::requested_recommended_bytes,
        of_window_option: true,
    },
];

impl BufferLimit {
    /// Whether a host's value is known, and too small.
    pub fn is_too_small(&self, host: &NetworkSettings, needs: BufferNeeds) -> bool {
        (1..(self.min_bytes)(needs)).contains(&(self.max_bytes)(host))
    }
}

/// The highest rate and the shortest round trip between two addresses.
#[derive(Debug, Clone)]
struct MeasuredLink {
    addresses: [String; 2],
    bytes_per_s: f64,
    round_trip: Duration,
}

impl MeasuredLink {
    fn needs(&self) -> BufferNeeds {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a conversion of floats saturates")]
        BufferNeeds::of_path(self.bytes_per_s as u64, u64::try_from(self.round_trip.as_micros()).unwrap_or(u64::MAX))
    }
}

/// The network results of a probe, for both directions.
#[derive(Debug, Clone, Default)]
pub struct MeasuredPath {
    /// Each link by its addresses: the rate of one and the round trip of another have no product.
    links: Vec<MeasuredLink>,
    streams: u16,
    window_bytes: u64,
    transport: NetworkPath,
}

impl MeasuredPath {
    /// Adds a network part; ignores others.
    pub fn add(&mut self, part: ProbePart, sample: &ProbeSample) {
        if !matches!(part, ProbePart::Network { .. } | ProbePart::Back) {
            return;
        }
        self.add_link(sample);
        if let (ProbePart::Network { .. }, TransportPath::Tcp { path, .. }) = (part, &sample.transport) {
            (self.streams, self.window_bytes) = (sample.streams, sample.buffer_bytes);
            self.transport = path.clone();
        }
    }

    /// Adds a sample to its link. Figures of several links together belong to none.
    fn add_link(&mut self, sample: &ProbeSample) {
        let (Some([shortest, _]), TransportPath::Tcp { path, others, .. }) = (sample.round_trips, &sample.transport)
        else {
            return;
        };
        if !others.is_empty() {
            return;
        }
        let mut addresses = [&path.from, &path.to].map(|end| address(end).to_owned());
        addresses.sort();
        match self.links.iter_mut().find(|link| link.addresses == addresses) {
            Some(link) => {
                link.bytes_per_s = link.bytes_per_s.max(sample.rate);
                link.round_trip = link.round_trip.min(shortest);
            }
            None => self.links.push(MeasuredLink { addresses, bytes_per_s: sample.rate, round_trip: shortest }),
        }
    }

    /// The link that needs the largest buffers.
    fn link(&self) -> Option<&MeasuredLink> {
        let links = self.links.iter().filter(|link| !link.round_trip.is_zero());
        links.max_by_key(|link| link.needs().in_flight_bytes)
    }

    /// The path's needs; `None` without a round-trip time.
    pub fn needs(&self) -> Option<BufferNeeds> {
        self.link().map(MeasuredLink::needs)
    }

    /// The calculation of the bandwidth-delay product.
    pub fn product(&self, needs: BufferNeeds) -> String {
        let [bytes_per_s, ms] =
            self.link().map_or([0.0; 2], |link| [link.bytes_per_s, link.round_trip.as_secs_f64() * 1000.0]);
        format!("BDP {} x {ms:.1} ms = {}", rate(bytes_per_s), size(needs.in_flight_bytes))
    }

    /// Checks of one end. `window_bytes` is that of `-w`.
    pub fn checks(&self, end: &EndMeasurement, window_bytes: Option<u32>) -> Vec<Check> {
        let interface = self.interface(end).map(|interface| interface_check(end, interface));
        let buffers = self.needs().map(|needs| self.buffers(end, needs));
        let memory = self.memory(end, window_bytes.map_or(self.window_bytes, u64::from));
        [interface, buffers, memory].into_iter().flatten().collect()
    }

    /// An end's interface with an address of the path.
    fn interface<'a>(&self, end: &'a EndMeasurement) -> Option<&'a InterfaceSettings> {
        let ends = [&self.transport.from, &self.transport.to].map(|end| end.parse::<std::net::SocketAddr>().ok());
        let is_used = |address| ends.iter().flatten().any(|end| end.ip() == address);
        let local = end.hello.addresses.iter().find(|local| is_used(local.address))?;
        end.measured.network.interfaces.iter().find(|interface| interface.name == local.interface)
    }

    fn buffers(&self, end: &EndMeasurement, needs: BufferNeeds) -> Check {
        let host = &end.measured.network;
        let small: Vec<_> = BUFFER_LIMITS.iter().filter(|limit| limit.is_too_small(host, needs)).collect();
        let told = |limit: &&BufferLimit| {
            let only = if limit.of_window_option { ", for -w only" } else { "" };
            format!("{} ({}{only})", limit.name, size((limit.max_bytes)(host)))
        };
        let need = format!("{}; one stream needs buffers of {}", self.product(needs), size(needs.tcp_min_bytes()));
        let text = match small.iter().map(told).collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => format!("{need}: the settings allow it"),
            small => format!("{need}; too small: {small}; --sysctl FILE writes larger ones"),
        };
        let is_fine = small.iter().all(|limit| limit.of_window_option);
        Check { id: "bdp", host: Some(end.label.clone()), is_fine, text }
    }

    fn memory(&self, end: &EndMeasurement, window_bytes: u64) -> Option<Check> {
        let free_bytes = end.measured.network.free_memory_bytes;
        let all_bytes = window_bytes.saturating_mul(self.streams.into());
        if free_bytes == 0 || all_bytes == 0 {
            return None;
        }
        let is_fine = !buffers_crowd_memory(self.streams, window_bytes, free_bytes);
        let streams = counted(self.streams.into(), "stream", "streams");
        let [window, all, free] = [window_bytes, all_bytes, free_bytes].map(size);
        let remedy =
            if is_fine { "" } else { ": more than a quarter; use fewer streams (-s) or a smaller window (-w)" };
        let text = format!("{streams} x {window} = {all} of socket buffers, {free} of memory are free{remedy}");
        Some(Check { id: "memory", host: Some(end.label.clone()), is_fine, text })
    }
}

/// An address without its port.
fn address(end: &str) -> &str {
    end.rsplit_once(':').map_or(end, |(address, _)| address)
}

fn interface_check(end: &EndMeasurement, interface: &InterfaceSettings) -> Check {
    let InterfaceSettings { name, mtu, queue_packets, qdisc } = interface;
    let qdisc = if qdisc.is_empty() { "unknown".to_owned() } else { harmless(qdisc) };
    let text = format!("{}: MTU {mtu}, txqueuelen {queue_packets}, qdisc {qdisc}", harmless(name));
    Check { id: "interface", host: Some(end.label.clone()), is_fine: true, text }
}

#[cfg(test)]
pub mod tests {
    use haul_proto::wire::address::LocalAddress;

    use super::*;
    use crate::probe::ready::tests::{end, lines};

    /// A path of 125 MB/s and 50 ms.
    pub fn path() -> MeasuredPath {
        let path = NetworkPath { from: "10.0.0.1:40000".into(), to: "10.0.0.2:5031".into(), ..NetworkPath::default() };
        let transport = TransportPath::Tcp { path, others: Vec::new(), instead_of: None };
        let round_trips = |ms| Some([ms, 60].map(Duration::from_millis));
        let sample = ProbeSample { rate: 125e6, round_trips: round_trips(50), transport, ..ProbeSample::default() };
        let sample = ProbeSample { streams: 8, buffer_bytes: 4 << 20, ..sample };
        let mut path = MeasuredPath::default();
        path.add(ProbePart::Network { streams: None }, &sample);
        path.add(
            ProbePart::Back,
            &ProbeSample { rate: 1e6, streams: 1, round_trips: round_trips(51), ..sample.clone() },
        );
        path.add(ProbePart::Read { direct: true }, &ProbeSample { rate: 1e9, ..sample });
        path
    }

    #[test]
    fn the_rate_of_one_link_is_not_multiplied_by_the_round_trip_of_another() {
        let mut path = path();
        let sample = |from: &str, others| {
            let one = |from: &str| NetworkPath { from: from.into(), to: "10.9.0.2:1".into(), ..NetworkPath::default() };
            let transport = TransportPath::Tcp { path: one(from), others, instead_of: None };
            ProbeSample {
                rate: 1.57e9,
                round_trips: Some([Duration::from_micros(40); 2]),
                transport,
                ..Default::default()
            }
        };
        path.add(ProbePart::Network { streams: Some(4) }, &sample("10.9.0.1:2", Vec::new()));
        path.add(ProbePart::Network { streams: Some(8) }, &sample("10.0.0.1:2", vec![NetworkPath::default()]));
        assert_eq!(path.product(path.needs().unwrap()), "BDP 125 MB/s x 50.0 ms = 6.25 MB");
    }

    #[test]
    fn buffers_below_the_bdp_are_named() {
        let address = "10.0.0.2".parse().unwrap();
        let mut far = end("db1", true);
        far.hello.addresses = vec![LocalAddress { address, prefix: 24, interface: "eth0".into(), mbit_per_s: 0 }];
        let mut wide = end("db2", true);
        wide.measured.network.tcp_receive.max_bytes = 64 << 20;
        wide.measured.network.tcp_send.max_bytes = 64 << 20;
        wide.measured.network.free_memory_bytes = 100 << 20;
        let checks = [path().checks(&far, None), path().checks(&wide, None)].concat();
        insta::assert_snapshot!(lines(&checks), @r"
          interface db1: eth0: MTU 9000, txqueuelen 1000, qdisc fq
        ! bdp db1: BDP 125 MB/s x 50.0 ms = 6.25 MB; one stream needs buffers of 12.5 MB; too small: net.ipv4.tcp_rmem (6.29 MB), net.ipv4.tcp_wmem (4.19 MB), net.core.rmem_max (213.0 kB, for -w only), net.core.wmem_max (213.0 kB, for -w only); --sysctl FILE writes larger ones
          memory db1: 8 streams x 4.19 MB = 33.6 MB of socket buffers, 12.0 GB of memory are free
          bdp db2: BDP 125 MB/s x 50.0 ms = 6.25 MB; one stream needs buffers of 12.5 MB; too small: net.core.rmem_max (213.0 kB, for -w only), net.core.wmem_max (213.0 kB, for -w only); --sysctl FILE writes larger ones
        ! memory db2: 8 streams x 4.19 MB = 33.6 MB of socket buffers, 104.9 MB of memory are free: more than a quarter; use fewer streams (-s) or a smaller window (-w)
        ");
        assert!(path().checks(&wide, Some(1 << 20)).iter().all(|check| check.is_fine), "a smaller -w");
    }

    #[test]
    fn without_a_round_trip_time_nothing_is_computed() {
        let transport = MeasuredPath::default();
        assert!(transport.needs().is_none() && transport.checks(&end("db1", true), None).is_empty());
    }
}
