//! The events of `haul net`.

use haul_base::copy::event::TransportPath;
use haul_show::json::{NoticeLine, TransportFields, encode, sorted};
use haul_show::verdict;
use serde::Serialize;

use super::figures::{IntervalFigures, NetFigures};
use crate::echoes::EchoFigures;

/// A line of `haul net --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "snake_case")]
#[allow(missing_docs, reason = "docs/JSON.md describes each field")]
pub enum NetLine<'a> {
    Connected {
        #[serde(serialize_with = "sorted")]
        transport: TransportFields<'a>,
    },
    NetInterval {
        end_s: f64,
        bytes_per_s: f64,
        retransmitted: u64,
        round_trip_s: Option<f64>,
        streams: u16,
    },
    Net(NetTotalFields),
}

/// The whole time.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub struct NetTotalFields {
    #[serde(flatten)]
    traffic: TrafficFields,
    ping_idle: Option<EchoFields>,
    ping_loaded: Option<EchoFields>,
    tcp_round_trip_s: Option<RoundTripFields>,
    source_cpus: CpuFields,
    target_cpus: CpuFields,
    limited_by: &'static str,
    status: u8,
}

/// The sent data.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TrafficFields {
    bytes: u64,
    bytes_on_wire: u64,
    seconds: f64,
    bytes_per_s: f64,
    streams: u16,
    segments: u64,
    retransmitted: u64,
}

/// ICMP echoes.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct EchoFields {
    max_s: f64,
    median_s: f64,
    min_s: f64,
}

/// Round trips of TCP.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RoundTripFields {
    mean: f64,
    min: f64,
}

/// CPUs of an end.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct CpuFields {
    cores: u16,
    in_use: f64,
}

/// The transport path.
pub fn connected(transport: &TransportPath) -> String {
    encode(&NetLine::Connected { transport: transport.into() })
}

/// An interval.
pub fn interval(interval: &IntervalFigures) -> String {
    let IntervalFigures { end, bytes_per_s, retransmitted, round_trip_s, streams } = *interval;
    encode(&NetLine::NetInterval { end_s: end.as_secs_f64(), bytes_per_s, retransmitted, round_trip_s, streams })
}

/// The whole time.
pub fn total(figures: &NetFigures, status: u8) -> String {
    let cpus = |(in_use, cores): (f64, u16)| CpuFields { cores, in_use };
    encode(&NetLine::Net(NetTotalFields {
        traffic: TrafficFields {
            bytes: figures.bytes,
            bytes_on_wire: figures.bytes_on_wire,
            seconds: figures.elapsed.as_secs_f64(),
            bytes_per_s: figures.bytes_per_s,
            streams: figures.streams,
            segments: figures.segments,
            retransmitted: figures.retransmitted,
        },
        ping_idle: figures.echoes.idle.map(EchoFields::from),
        ping_loaded: figures.echoes.loaded.map(EchoFields::from),
        tcp_round_trip_s: figures.tcp_s.map(|[min, mean]| RoundTripFields { mean, min }),
        source_cpus: cpus(figures.cpus[0]),
        target_cpus: cpus(figures.cpus[1]),
        limited_by: verdict::words(figures.limit),
        status,
    }))
}

/// A warning.
pub fn notice(text: &str) -> String {
    encode(&NoticeLine::new(text))
}

impl From<EchoFigures> for EchoFields {
    fn from(EchoFigures { min_s, median_s, max_s }: EchoFigures) -> Self {
        Self { max_s, median_s, min_s }
    }
}
