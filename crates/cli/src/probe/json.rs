//! A probe, for programs: one object a line (docs/JSON.md).

use haul_engine::probe::{EndMeasurement, ProbePart, ProbeSample};
use haul_proto::forecast::Forecast;
use serde_json::{Map, Value, json};

use super::options::Option_;
use super::ready::Check;
use crate::show::json::{JsonLine, way_of};

/// One check.
pub fn check(check: &Check) -> String {
    let line = JsonLine::new("check").with("id", check.id).with("host", check.host.as_deref());
    line.with("fine", check.is_fine).with("message", check.text.as_str()).ended()
}

/// What an end is like.
pub fn end(end: &EndMeasurement, which: &str) -> String {
    let measured = &end.measured;
    let network = &measured.network;
    let line = JsonLine::new("end").with("end", which).with("host", end.label.as_str()).with("cores", end.hello.cores);
    line.with("aes", end.hello.aes)
        .with("version", measured.version.as_str())
        .with("hash_bytes_per_s", measured.hash_bytes_per_s)
        .with("checksum_bytes_per_s", measured.check_bytes_per_s)
        .with("seal_bytes_per_s", measured.seal_bytes_per_s)
        .with("tcp_receive_window_max_bytes", end.hello.windows.receive_max_bytes)
        .with("tcp_send_window_max_bytes", end.hello.windows.send_max_bytes)
        .with("rmem_max_bytes", network.receive.max_bytes)
        .with("wmem_max_bytes", network.send.max_bytes)
        .with("rmem_default_bytes", network.receive.default_bytes)
        .with("wmem_default_bytes", network.send.default_bytes)
        .with("optmem_max_bytes", network.optmem_max_bytes)
        .with("netdev_max_backlog_packets", network.backlog_max_packets)
        .with("free_memory_bytes", network.free_memory_bytes)
        .with("congestion_controls", measured.congestion_controls.split_whitespace().collect::<Vec<_>>())
        .with("max_startups", Some(measured.max_startups.as_str()).filter(|value| !value.is_empty()))
        .with("clock_ahead_s", end.clock_ahead_us as f64 / 1e6)
        .with("free_bytes", measured.place.as_ref().map(|place| place.free_bytes))
        .with("free_files", measured.place.as_ref().filter(|place| place.counts_files).map(|place| place.free_files))
        .ended()
}

/// What a part reached.
pub fn sample(part: ProbePart, sample: &ProbeSample) -> String {
    let [shortest, usual] = match sample.round_trips {
        Some(both) => both.map(|time| Some(time.as_secs_f64())),
        None => [None, None],
    };
    named(part)
        .with("bytes_per_s", sample.rate)
        .with("bytes", sample.bytes)
        .with("start_s", sample.start.as_secs_f64())
        .with("elapsed_s", sample.elapsed.as_secs_f64())
        .with("streams", sample.streams)
        .with("rtt_s", shortest)
        .with("rtt_loaded_s", usual)
        .with("retransmitted", sample.resent)
        .with("limit", sample.limit.map(|limit| limit.id()))
        .with("complete", sample.is_complete)
        .with("durable", sample.is_durable)
        .with("way", way_of(&sample.way))
        .ended()
}

/// A part that could not be measured.
pub fn failed(part: ProbePart, why: &str) -> String {
    named(part).with("message", why).ended()
}

fn named(part: ProbePart) -> JsonLine {
    let line = JsonLine::new("part");
    match part {
        ProbePart::Read { direct } => line.with("part", "read").with("direct", direct),
        ProbePart::Network { streams } => {
            line.with("part", "network").with("asked_streams", streams).with("back", false)
        }
        ProbePart::Back => line.with("part", "network").with("asked_streams", Value::Null).with("back", true),
        ProbePart::Write { direct } => line.with("part", "write").with("direct", direct),
        ProbePart::Whole => line.with("part", "whole"),
    }
}

/// The forecast: the last line.
pub fn forecast(
    forecast: Option<&Forecast>,
    options: &[Option_],
    [saved, sysctl]: [Option<&str>; 2],
    status: u8,
) -> String {
    let argument = |argument: &Option<String>| argument.as_ref().map_or(Value::Bool(true), |text| text.as_str().into());
    let options: Map<_, _> = options.iter().map(|(row, given)| (row.id.to_owned(), argument(given))).collect();
    let next =
        forecast.and_then(|told| told.next).map(|(limit, rate)| json!({"limit": limit.id(), "bytes_per_s": rate}));
    JsonLine::new("forecast")
        .with("bytes_per_s", forecast.map(|told| told.rate))
        .with("limit", forecast.map(|told| told.limit.id()))
        .with("next", next)
        .with("settings", options)
        .with("saved", saved)
        .with("sysctl", sysctl)
        .with("status", status)
        .ended()
}
