//! The merged results of a job, for people and programs.

use std::time::Duration;

use haul_show::json::encode;
use haul_show::output::print;
use haul_show::text::harmless;
use haul_show::units;
use serde::Serialize;

use crate::node::PartDisplay;
use crate::opened::OpenedJob;
use crate::report::{HostTotals, MergedReport};

/// The last line of `haul job run --json` and `haul job finish --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "snake_case")]
#[allow(missing_docs, reason = "docs/JSON.md describes each field")]
pub enum ReportLine<'a> {
    Report(ReportFields<'a>),
}

/// The merged results.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema), schemars(inline))]
pub struct ReportFields<'a> {
    bytes: u64,
    bytes_not_reread: u64,
    bytes_per_s: f64,
    bytes_skipped: u64,
    deleted: u64,
    failed: u64,
    files_copied: u64,
    files_skipped: u64,
    hosts: Vec<HostFields<'a>>,
    left_out: Vec<LeftOutFields<'a>>,
    moved: u64,
    reruns: u64,
    seconds: f64,
    shards: u64,
    shards_done: u64,
    slowest: Vec<SlowShardFields<'a>>,
    vanished: u64,
}

/// The results of a host.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
struct HostFields<'a> {
    bytes: u64,
    bytes_per_s: f64,
    host: &'a str,
    seconds: f64,
    shards: u64,
}

/// Entries left out for one reason.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
struct LeftOutFields<'a> {
    entries: u64,
    reason: &'a str,
}

/// One of the slowest shards.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
struct SlowShardFields<'a> {
    host: &'a str,
    seconds: f64,
    shard: u32,
}

impl<'a> From<&'a MergedReport> for ReportFields<'a> {
    fn from(report: &'a MergedReport) -> Self {
        let hosts = report.hosts.iter().map(|(host, totals)| HostFields {
            bytes: totals.bytes,
            bytes_per_s: totals.bytes_per_s(),
            host,
            seconds: totals.seconds,
            shards: totals.shards,
        });
        let slowest = report.slowest.iter();
        let slowest = slowest.map(|(shard, seconds, host)| SlowShardFields { host, seconds: *seconds, shard: *shard });
        Self {
            bytes: report.bytes,
            bytes_not_reread: report.bytes_not_reread(),
            bytes_per_s: report.bytes_per_s(),
            bytes_skipped: report.bytes_skipped,
            deleted: report.deleted,
            failed: report.failed,
            files_copied: report.files_copied,
            files_skipped: report.files_skipped,
            hosts: hosts.collect(),
            left_out: report
                .left_out
                .iter()
                .map(|(reason, entries)| LeftOutFields { reason, entries: *entries })
                .collect(),
            moved: report.moved,
            reruns: report.reruns,
            seconds: report.seconds,
            shards: report.shards,
            shards_done: report.shards_done,
            slowest: slowest.collect(),
            vanished: report.vanished,
        }
    }
}

/// The report at the end of a job.
pub fn print_report(job: &OpenedJob, report: &MergedReport, display: PartDisplay) {
    match display {
        PartDisplay::Usual => print(&as_text(job, report)),
        PartDisplay::Json => {
            print(&encode(&ReportLine::Report(report.into())));
        }
        PartDisplay::Quiet => {}
    }
}

/// A line for each host.
fn hosts_text(report: &MergedReport) -> String {
    let line = |(host, totals): (&String, &HostTotals)| {
        let shards = units::counted(totals.shards, "shard", "shards");
        let (bytes, rate) = (units::size(totals.bytes), units::rate(totals.bytes_per_s()));
        format!("host {}: {shards}, {bytes} at {rate}\n", harmless(host))
    };
    report.hosts.iter().map(line).collect()
}

/// The report for people.
pub fn as_text(job: &OpenedJob, report: &MergedReport) -> String {
    let verifies = job.description.verifies;
    let seconds = |seconds: f64| units::duration(Duration::try_from_secs_f64(seconds).unwrap_or_default());
    let shards = units::counted(report.shards, "shard", "shards");
    let others = report.other_ends.iter().map(|(word, count)| format!(", {} {word}", units::count(*count)));
    let mut text = format!(
        "{} of {shards} done{}: {}, {} {}in {}: {}\n",
        units::count(report.shards_done),
        others.collect::<String>(),
        units::files(report.files_copied),
        units::size(report.bytes),
        if verifies { "compared " } else { "" },
        seconds(report.seconds),
        units::rate(report.bytes_per_s()),
    );
    if report.files_skipped > 0 {
        let (files, bytes) = (units::files(report.files_skipped), units::size(report.bytes_skipped));
        text.push_str(&format!("skipped: {files} ({bytes}), up to date\n"));
    }
    if report.moved > 0 && report.moved != report.bytes && !verifies {
        text.push_str(&format!("written: {} of data, by all runs\n", units::size(report.moved)));
    }
    if report.deleted > 0 {
        text.push_str(&format!(
            "deleted: {}\n",
            units::counted(report.deleted, "extraneous entry", "extraneous entries")
        ));
    }
    for (reason, count) in &report.left_out {
        text.push_str(&format!("not copied: {}, {}\n", units::counted(*count, "entry", "entries"), harmless(reason)));
    }
    if report.failed > 0 {
        let what = match verifies {
            true => units::counted(report.failed, "entry differs", "entries differ"),
            false => format!("{} failed", units::files(report.failed)),
        };
        text.push_str(&format!("{what}: see failures/ in the job's directory\n"));
    } else if verifies && report.is_same == Some(true) {
        text.push_str("source and target are the same\n");
    }
    if report.vanished > 0 {
        text.push_str(&format!("{} vanished at the source\n", units::files(report.vanished)));
    }
    if report.bytes_not_reread() > 0 {
        let bytes = units::size(report.bytes_not_reread());
        text.push_str(&format!("{bytes} in ranges of files: verified on arrival, not read again since\n"));
        text.push_str("hint: --then-verify reads them, and so does haul job verify JOB\n");
    }
    text.push_str(&hosts_text(report));
    let slowest = report.slowest.iter().take(3).map(|(shard, took, _)| format!("{shard} ({})", seconds(*took)));
    let slowest: Vec<_> = slowest.collect();
    if !slowest.is_empty() {
        text.push_str(&format!("slowest shards: {}\n", slowest.join(", ")));
    }
    text
}
