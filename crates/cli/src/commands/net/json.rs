//! The events of `haul net`.

use haul_engine::job::event::TransportPath;
use serde_json::{Value, json};

use super::figures::{IntervalFigures, NetFigures};
use crate::echoes::EchoFigures;
use crate::show::json::{JsonLine, way_of};
use crate::show::verdict;

/// How data travels.
pub fn connected(way: &TransportPath) -> String {
    JsonLine::new("connected").with("way", way_of(way)).ended()
}

/// An interval.
pub fn interval(interval: &IntervalFigures) -> String {
    JsonLine::new("net_interval")
        .with("end_s", interval.end.as_secs_f64())
        .with("bytes_per_s", interval.bytes_per_s)
        .with("retransmitted", interval.retransmitted)
        .with("round_trip_s", interval.round_trip_s)
        .with("streams", interval.streams)
        .ended()
}

/// The whole time.
pub fn total(figures: &NetFigures, status: u8) -> String {
    let cpus = |(in_use, cores): (f64, u16)| json!({"in_use": in_use, "cores": cores});
    JsonLine::new("net")
        .with("bytes", figures.bytes)
        .with("seconds", figures.elapsed.as_secs_f64())
        .with("bytes_per_s", figures.bytes_per_s)
        .with("streams", figures.streams)
        .with("segments", figures.segments)
        .with("retransmitted", figures.retransmitted)
        .with("ping_idle", figures.echoes.idle.as_ref().map_or(Value::Null, echo))
        .with("ping_loaded", figures.echoes.loaded.as_ref().map_or(Value::Null, echo))
        .with("tcp_round_trip_s", figures.tcp_s.map(|[min, mean]| json!({"min": min, "mean": mean})))
        .with("source_cpus", cpus(figures.cpus[0]))
        .with("target_cpus", cpus(figures.cpus[1]))
        .with("limited_by", verdict::words(figures.limit))
        .with("status", status)
        .ended()
}

fn echo(figures: &EchoFigures) -> Value {
    let EchoFigures { min_s, median_s, max_s } = *figures;
    json!({"min_s": min_s, "median_s": median_s, "max_s": max_s})
}
