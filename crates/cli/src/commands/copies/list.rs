//! `haul copies`: the detached copies of this user.

use std::time::Duration;

use haul_job::this_host::unix_seconds;
use haul_show as show;
use haul_show::exit::Exit;
use haul_show::json::encode;
use haul_show::output::print;
use haul_show::units;
use serde::Serialize;

use super::record::{Copies, CopyRecord, RunReport, RunState};
use crate::args::flags;
use crate::args::values::Values;

/// A line of `haul copies --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "snake_case")]
#[allow(missing_docs, reason = "docs/JSON.md describes each field")]
pub enum CopyLine<'a> {
    DetachedCopy {
        name: &'a str,
        state: &'static str,
        command: String,
        status: Option<u8>,
        host: Option<&'a str>,
        started: Option<f64>,
        ended: Option<f64>,
        files: u64,
        bytes: u64,
        bytes_found: u64,
        bytes_per_s: f64,
    },
}

/// Lists all copies.
pub fn list(values: &Values) -> anyhow::Result<Exit> {
    let records = Copies::open()?.all()?;
    let is_json = values.is_set(&flags::JSON);
    if records.is_empty() && !is_json {
        show::stderr().plain("no copies\nhint: haul --detach SOURCE... TARGET starts one that outlives this shell");
    }
    for (record, state) in &records {
        print(&if is_json { encode(&line(record, state)) } else { row(record, state) });
    }
    Ok(Exit::Done)
}

fn word(state: &RunState) -> &'static str {
    match state {
        RunState::New => "new",
        RunState::Running(_) => "running",
        RunState::Ended(RunReport { status: Some(0 | 5), .. }) => "done",
        RunState::Ended(RunReport { status: Some(4), .. }) => "interrupted",
        RunState::Ended(_) => "failed",
        RunState::Lost(_) => "lost",
    }
}

fn report(state: &RunState) -> Option<&RunReport> {
    match state {
        RunState::New => None,
        RunState::Running(report) | RunState::Ended(report) | RunState::Lost(report) => Some(report),
    }
}

fn row(record: &CopyRecord, state: &RunState) -> String {
    let about = match state {
        RunState::New => String::new(),
        RunState::Running(report) => report.figures.shown(),
        RunState::Ended(report) | RunState::Lost(report) => {
            let ago = Duration::try_from_secs_f64(unix_seconds() - report.reported).unwrap_or_default();
            format!("{}, {}", units::size(report.figures.bytes), units::ago(ago))
        }
    };
    format!("{:<16} {:<12} {about:<36} {}\n", record.name, word(state), record.request.shown())
}

fn line<'a>(record: &'a CopyRecord, state: &'a RunState) -> CopyLine<'a> {
    let report = report(state);
    let figures = report.map(|report| report.figures).unwrap_or_default();
    CopyLine::DetachedCopy {
        name: &record.name,
        state: word(state),
        command: record.request.shown(),
        status: report.and_then(|report| report.status),
        host: report.map(|report| report.host.as_str()),
        started: report.map(|report| report.started),
        ended: report.filter(|_| !matches!(state, RunState::Running(_))).map(|report| report.reported),
        files: figures.files,
        bytes: figures.bytes,
        bytes_found: figures.bytes_found,
        bytes_per_s: figures.bytes_per_s,
    }
}
