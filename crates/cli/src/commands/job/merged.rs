//! The merged results of a job, as people and programs see them.

use std::time::Duration;

use haul_job::report::{HostTotals, MergedReport};

use super::part::PartDisplay;
use crate::commands::print;
use crate::show::json::JsonLine;
use crate::text::harmless;
use crate::units;

/// The report at the end of a job.
pub fn print_report(report: &MergedReport, display: PartDisplay) {
    match display {
        PartDisplay::Usual => print(&as_text(report)),
        PartDisplay::Json => {
            let line = JsonLine::new("report");
            let value = report.json();
            let fields = value.as_object().into_iter().flatten();
            print(&fields.fold(line, |line, (key, value)| line.with(key, value.clone())).ended());
        }
        PartDisplay::Quiet => {}
    }
}

/// The report for people.
pub fn as_text(report: &MergedReport) -> String {
    let seconds = |seconds: f64| units::duration(Duration::from_secs_f64(seconds));
    let rate = |totals: &HostTotals| units::rate(totals.bytes as f64 / totals.seconds.max(0.001));
    let shards = units::counted(report.shards, "shard", "shards");
    let mut text = format!(
        "{} of {shards}: {}, {} in {}: {}\n",
        units::count(report.shards_done),
        units::files(report.files_copied),
        units::size(report.bytes),
        seconds(report.seconds),
        units::rate(report.bytes_per_s()),
    );
    if report.files_skipped > 0 {
        let (files, bytes) = (units::files(report.files_skipped), units::size(report.bytes_skipped));
        text.push_str(&format!("skipped: {files} ({bytes}), up to date\n"));
    }
    if report.failed > 0 {
        text.push_str(&format!("{} failed: see failures/ in the job's directory\n", units::files(report.failed)));
    }
    for (host, totals) in &report.hosts {
        let shards = units::counted(totals.shards, "shard", "shards");
        text.push_str(&format!(
            "host {}: {shards}, {} at {}\n",
            harmless(host),
            units::size(totals.bytes),
            rate(totals)
        ));
    }
    let slowest = report.slowest.iter().take(3).map(|(shard, took, _)| format!("{shard} ({})", seconds(*took)));
    let slowest: Vec<_> = slowest.collect();
    if !slowest.is_empty() {
        text.push_str(&format!("slowest shards: {}\n", slowest.join(", ")));
    }
    text
}
