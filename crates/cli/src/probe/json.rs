//! A probe as JSON, one object per line (docs/JSON.md).

use std::borrow::Cow;
use std::collections::BTreeMap;

use haul_control::probe::{EndMeasurement, ProbePart, ProbeSample};
use haul_proto::forecast::Forecast;
use haul_show::exit::Exit;
use haul_show::json::{JsonMessage, OptionArgument, TransportFields, encode, sorted};
use serde::Serialize;

use super::options::Option_;
use super::ready::Check;

/// A line of `haul probe --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "snake_case")]
#[allow(missing_docs, reason = "docs/JSON.md describes each field")]
pub enum ProbeLine<'a> {
    Check {
        id: &'a str,
        host: Option<&'a str>,
        fine: bool,
        message: JsonMessage,
    },
    End(Box<ProbedEndFields<'a>>),
    /// A part of the path, with its rate.
    Part {
        #[serde(flatten)]
        part: PartName,
        #[serde(flatten)]
        result: PartResult<'a>,
    },
    Notice {
        message: JsonMessage,
    },
    /// The predicted rate of a copy.
    Forecast {
        bytes_per_s: Option<f64>,
        limit: Option<&'static str>,
        next: Option<NextLimitFields>,
        settings: BTreeMap<&'static str, OptionArgument<'a>>,
        saved: Option<&'a str>,
        sysctl: Option<&'a str>,
        status: u8,
    },
    Error {
        message: JsonMessage,
        status: u8,
    },
}

/// The properties of an end.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub struct ProbedEndFields<'a> {
    end: &'a str,
    host: &'a str,
    cores: u16,
    aes: bool,
    version: &'a str,
    hash_bytes_per_s: u64,
    checksum_bytes_per_s: u64,
    seal_bytes_per_s: u64,
    tcp_receive_window_max_bytes: u64,
    tcp_send_window_max_bytes: u64,
    rmem_max_bytes: u64,
    wmem_max_bytes: u64,
    rmem_default_bytes: u64,
    wmem_default_bytes: u64,
    optmem_max_bytes: u64,
    netdev_max_backlog_packets: u64,
    free_memory_bytes: u64,
    congestion_controls: Vec<&'a str>,
    max_startups: Option<&'a str>,
    clock_ahead_s: f64,
    free_bytes: Option<u64>,
    free_files: Option<u64>,
}

/// The name of a part.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "part", rename_all = "snake_case")]
pub enum PartName {
    Read { direct: bool },
    Network { asked_streams: Option<u16>, back: bool },
    Write { direct: bool },
    Whole,
}

/// Its rate, or the reason for none.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum PartResult<'a> {
    Measured(Box<PartSampleFields<'a>>),
    Failed { message: JsonMessage },
}

/// The result of a part.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub struct PartSampleFields<'a> {
    bytes_per_s: f64,
    bytes: u64,
    start_s: f64,
    elapsed_s: f64,
    streams: u16,
    rtt_s: Option<f64>,
    rtt_loaded_s: Option<f64>,
    retransmitted: f64,
    limit: Option<&'static str>,
    complete: bool,
    durable: bool,
    #[serde(serialize_with = "sorted")]
    transport: TransportFields<'a>,
}

/// The next bottleneck.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NextLimitFields {
    bytes_per_s: f64,
    limit: &'static str,
}

/// One check.
pub fn check(Check { id, host, is_fine, text, .. }: &Check) -> String {
    encode(&ProbeLine::Check { id, host: host.as_deref(), fine: *is_fine, message: text.as_str().into() })
}

/// The properties of an end.
pub fn end(end: &EndMeasurement, which: &str) -> String {
    let (measured, hello) = (&end.measured, &end.hello);
    let network = &measured.network;
    let place = measured.place.as_ref();
    encode(&ProbeLine::End(Box::new(ProbedEndFields {
        end: which,
        host: &end.label,
        cores: hello.cores,
        aes: hello.aes,
        version: &measured.version,
        hash_bytes_per_s: measured.hash_bytes_per_s,
        checksum_bytes_per_s: measured.check_bytes_per_s,
        seal_bytes_per_s: measured.seal_bytes_per_s,
        tcp_receive_window_max_bytes: hello.windows.receive_max_bytes,
        tcp_send_window_max_bytes: hello.windows.send_max_bytes,
        rmem_max_bytes: network.receive.max_bytes,
        wmem_max_bytes: network.send.max_bytes,
        rmem_default_bytes: network.receive.default_bytes,
        wmem_default_bytes: network.send.default_bytes,
        optmem_max_bytes: network.optmem_max_bytes,
        netdev_max_backlog_packets: network.backlog_max_packets,
        free_memory_bytes: network.free_memory_bytes,
        congestion_controls: measured.congestion_controls.split_whitespace().collect(),
        max_startups: Some(measured.max_startups.as_str()).filter(|value| !value.is_empty()),
        clock_ahead_s: end.clock_ahead_us as f64 / 1e6,
        free_bytes: place.map(|place| place.free_bytes),
        free_files: place.filter(|place| place.counts_files).map(|place| place.free_files),
    })))
}

/// The result of a part.
pub fn sample(part: ProbePart, sample: &ProbeSample) -> String {
    let [rtt_s, rtt_loaded_s] = match sample.round_trips {
        Some(both) => both.map(|time| Some(time.as_secs_f64())),
        None => [None, None],
    };
    let result = PartResult::Measured(Box::new(PartSampleFields {
        bytes_per_s: sample.rate,
        bytes: sample.bytes,
        start_s: sample.start.as_secs_f64(),
        elapsed_s: sample.elapsed.as_secs_f64(),
        streams: sample.streams,
        rtt_s,
        rtt_loaded_s,
        retransmitted: sample.resent,
        limit: sample.limit.map(|limit| limit.id()),
        complete: sample.is_complete,
        durable: sample.is_durable,
        transport: (&sample.transport).into(),
    }));
    encode(&ProbeLine::Part { part: part.into(), result })
}

/// A part that could not be measured.
pub fn failed(part: ProbePart, why: &str) -> String {
    let result = PartResult::Failed { message: why.into() };
    encode(&ProbeLine::Part { part: part.into(), result })
}

impl From<ProbePart> for PartName {
    fn from(part: ProbePart) -> Self {
        match part {
            ProbePart::Read { direct } => Self::Read { direct },
            ProbePart::Network { streams } => Self::Network { asked_streams: streams, back: false },
            ProbePart::Back => Self::Network { asked_streams: None, back: true },
            ProbePart::Write { direct } => Self::Write { direct },
            ProbePart::Whole => Self::Whole,
        }
    }
}

/// The forecast: the last line.
pub fn forecast(
    forecast: Option<&Forecast>,
    options: &[Option_],
    [saved, sysctl]: [Option<&str>; 2],
    status: u8,
) -> String {
    let next = forecast.and_then(|forecast| forecast.next);
    encode(&ProbeLine::Forecast {
        bytes_per_s: forecast.map(|forecast| forecast.rate),
        limit: forecast.map(|forecast| forecast.limit.id()),
        next: next.map(|(limit, bytes_per_s)| NextLimitFields { bytes_per_s, limit: limit.id() }),
        settings: options.iter().map(|(row, given)| (row.id, given.as_deref().map(Cow::from).into())).collect(),
        saved,
        sysctl,
        status,
    })
}

/// A warning.
pub fn notice(message: &str) -> String {
    encode(&ProbeLine::Notice { message: message.into() })
}

/// The error that ended the probe.
pub fn error(message: &str, exit: Exit) -> String {
    encode(&ProbeLine::Error { message: message.into(), status: exit.number() })
}
