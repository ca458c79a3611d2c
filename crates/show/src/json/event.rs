//! Serialised events of a copy.

use std::time::Duration;

use haul_base::copy::error::Outcome;
use haul_base::copy::event::{Event, FileReport, ItemReport, Progress, ResumeReport, SkipReport, SourceChange};
use haul_base::copy::summary::Summary;
use haul_proto::checksum::hex;
use haul_proto::entry::Timestamp;
use serde::Serialize;

use super::summary::{CopySummaryFields, VerifySummaryFields};
use super::transport::TransportFields;
use super::{JsonMessage, JsonName, sorted};
use crate::differences::DifferenceFields;
use crate::exit::Exit;
use crate::items::ItemFields;
use crate::names;
use crate::verdict::{LimitFields, VerdictFields};

/// A line of `haul --json`, also of `haul sync` and `haul verify`.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "snake_case")]
#[allow(missing_docs, reason = "docs/JSON.md describes each field")]
pub enum JobLine<'a> {
    Connecting {
        host: &'a str,
    },
    Deployed {
        host: &'a str,
        path: &'a str,
    },
    Connected {
        #[serde(serialize_with = "sorted")]
        transport: TransportFields<'a>,
        streams: u16,
        cipher: Option<&'static str>,
        seconds: f64,
    },
    Moved {
        #[serde(serialize_with = "sorted")]
        transport: TransportFields<'a>,
        message: Option<JsonMessage>,
    },
    Progress(ProgressFields),
    File {
        #[serde(flatten)]
        name: JsonName,
        bytes: u64,
        copied: bool,
        blake3: Option<String>,
    },
    Resumed {
        #[serde(flatten)]
        name: JsonName,
        bytes: u64,
        bytes_held: u64,
        frames_damaged: u64,
        compared: bool,
    },
    Checksum {
        #[serde(flatten)]
        name: JsonName,
        algorithm: &'static str,
        digest: String,
    },
    Unlisted {
        #[serde(flatten)]
        name: JsonName,
    },
    Unmet {
        #[serde(flatten)]
        name: JsonName,
    },
    Failed {
        #[serde(flatten)]
        name: JsonName,
        host: &'a str,
        message: JsonMessage,
    },
    Differs {
        #[serde(flatten)]
        name: JsonName,
        host: &'a str,
        #[serde(serialize_with = "sorted")]
        differences: Vec<DifferenceFields<'a>>,
    },
    Item {
        #[serde(flatten)]
        name: JsonName,
        #[serde(flatten)]
        item: ItemFields,
        bytes: Option<u64>,
        modified_ns: Option<i64>,
    },
    LeftOut {
        #[serde(flatten)]
        name: JsonName,
        reason: &'a str,
    },
    SourceChanged {
        #[serde(flatten)]
        name: JsonName,
        change: &'static str,
    },
    RateLimit {
        bytes_per_s: Option<u64>,
    },
    Pause {
        paused: bool,
    },
    Streams {
        wanted: u16,
    },
    Again {
        message: JsonMessage,
        pause_s: f64,
        attempt: u32,
        attempts: Option<u32>,
        left_s: Option<f64>,
    },
    Stopped {
        verdict: Option<VerdictFields<'a>>,
    },
    Notice {
        message: JsonMessage,
    },
    Summary(Box<CopySummaryFields<'a>>),
    #[serde(rename = "summary")]
    Comparison(Box<VerifySummaryFields<'a>>),
    Error {
        message: JsonMessage,
        status: u8,
    },
    Targets {
        targets: Vec<TargetStatus>,
        status: u8,
    },
}

/// A line of a copy with its target, if there are several (`--to`).
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct TargetLine<'a> {
    /// The line.
    #[serde(flatten)]
    pub line: &'a JobLine<'a>,
    /// The target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<&'a str>,
}

/// How the copy to a target ended.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct TargetStatus {
    /// The target.
    pub to: String,
    /// The exit status of a copy to it alone.
    pub status: u8,
}

/// A line of a copy's record of failures.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "snake_case")]
#[allow(missing_docs, reason = "docs/JSON.md describes each field")]
pub enum FailureLine<'a> {
    Failed {
        #[serde(flatten)]
        name: JsonName,
        host: &'a str,
        message: JsonMessage,
    },
    Differs {
        #[serde(flatten)]
        name: JsonName,
        host: &'a str,
    },
}

/// A warning alone.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(tag = "event", rename = "notice")]
pub struct NoticeLine {
    message: JsonMessage,
}

impl NoticeLine {
    /// A line with `text`.
    pub fn new(text: &str) -> Self {
        Self { message: text.into() }
    }
}

/// Figures so far.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema), schemars(inline))]
pub struct ProgressFields {
    files_found: u64,
    bytes_found: u64,
    walk_complete: bool,
    files_settled: u64,
    bytes_written: u64,
    bytes_skipped: u64,
    bytes_compared: u64,
    streams: u16,
    limited_by: Option<LimitFields>,
    seconds: f64,
}

impl ProgressFields {
    fn new(progress: &Progress, elapsed: Duration) -> Self {
        Self {
            files_found: progress.files_found,
            bytes_found: progress.bytes_found,
            walk_complete: progress.walk_complete,
            files_settled: progress.files_settled,
            bytes_written: progress.bytes_written,
            bytes_skipped: progress.bytes_skipped,
            bytes_compared: progress.bytes_compared,
            streams: progress.streams,
            limited_by: progress.limited_by.map(|now| LimitFields::new(now.limit, now.share)),
            seconds: elapsed.as_secs_f64(),
        }
    }
}

impl<'a> JobLine<'a> {
    /// The line of an event, `elapsed` since the command began.
    pub fn new(event: &'a Event, elapsed: Duration) -> Self {
        match event {
            Event::Connecting { host } => Self::Connecting { host },
            Event::Deployed { host, path } => Self::Deployed { host, path },
            Event::Connected { transport, streams, cipher } => Self::Connected {
                transport: transport.into(),
                streams: *streams,
                cipher: names::sealed(transport, *cipher),
                seconds: elapsed.as_secs_f64(),
            },
            Event::PathChanged { transport, because } => {
                Self::Moved { transport: transport.into(), message: because.as_deref().map(JsonMessage::from) }
            }
            Event::Progress(progress) => Self::Progress(ProgressFields::new(progress, elapsed)),
            Event::RateLimit { bytes_per_s } => Self::RateLimit { bytes_per_s: *bytes_per_s },
            Event::Pause { is_paused } => Self::Pause { paused: *is_paused },
            Event::Streams { wanted } => Self::Streams { wanted: *wanted },
            Event::Restarted { reason, pause, attempt, attempts, left } => Self::Again {
                message: reason.as_str().into(),
                pause_s: pause.as_secs_f64(),
                attempt: *attempt,
                attempts: *attempts,
                left_s: left.map(|left| left.as_secs_f64()),
            },
            Event::Stopped(summary) => {
                let verdict = summary.diagnosis.verdict.as_ref();
                Self::Stopped { verdict: verdict.map(|verdict| VerdictFields::new(verdict, &[])) }
            }
            Event::Warning(message) => Self::Notice { message: message.as_str().into() },
            Event::FileDone(FileReport { path, .. })
            | Event::Checksum { path, .. }
            | Event::Resumed(ResumeReport { path, .. })
            | Event::FileFailed { path, .. }
            | Event::Differs { path, .. }
            | Event::Item(ItemReport { path, .. })
            | Event::SourceChanged { path, .. }
            | Event::Skipped(SkipReport { path, .. }) => Self::of_entry(path.as_slice().into(), event),
        }
    }

    /// The line of an event that has a name.
    fn of_entry(name: JsonName, event: &'a Event) -> Self {
        match event {
            Event::FileDone(FileReport { path: _, size, copied, digest }) => {
                Self::File { name, bytes: *size, copied: *copied, blake3: digest.map(|digest| hex(&digest)) }
            }
            Event::Checksum { path: _, algorithm, digest } => {
                Self::Checksum { name, algorithm: algorithm.name(), digest: hex(digest) }
            }
            Event::Resumed(ResumeReport { path: _, size, held, damaged, compared }) => {
                let (bytes, bytes_held, frames_damaged) = (*size, *held, *damaged);
                Self::Resumed { name, bytes, bytes_held, frames_damaged, compared: *compared }
            }
            Event::FileFailed { path: _, host, message } => {
                Self::Failed { name, host, message: message.as_str().into() }
            }
            Event::Differs { path: _, host, differences } => {
                Self::Differs { name, host, differences: differences.iter().map(DifferenceFields::from).collect() }
            }
            Event::Item(ItemReport { path: _, item, size, modified, first_name: _ }) => {
                Self::Item { name, item: item.into(), bytes: *size, modified_ns: modified.map(nanoseconds) }
            }
            Event::Skipped(SkipReport { path: _, reason }) => Self::LeftOut { name, reason },
            Event::SourceChanged { path: _, change: SourceChange::Vanished } => {
                Self::SourceChanged { name, change: "vanished" }
            }
            Event::SourceChanged { path: _, change: SourceChange::Grew } => {
                Self::SourceChanged { name, change: "grew" }
            }
            _ => unreachable!("JobLine::new has the events without a name"),
        }
    }

    /// The last line.
    pub fn last(outcome: &'a Outcome) -> Self {
        let exit = Exit::of(outcome);
        match outcome {
            Ok(summary) => Self::summary(summary, exit),
            Err(error) => Self::Error { message: error.to_string().as_str().into(), status: exit.number() },
        }
    }

    /// The summary of a copy with this result.
    pub fn summary(summary: &'a Summary, exit: Exit) -> Self {
        let status = exit.number();
        match &summary.integrity.comparison {
            Some(comparison) => Self::Comparison(Box::new(VerifySummaryFields::new(summary, comparison, status))),
            None => Self::Summary(Box::new(CopySummaryFields::new(summary, status))),
        }
    }
}

/// Nanoseconds since 1970, or the nearest that a field holds.
fn nanoseconds(Timestamp { seconds, nanoseconds }: Timestamp) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds.into())
}
