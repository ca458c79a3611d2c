//! Utilisation of each part of the path (disks, CPUs, the network), as a table and JSON.

use std::collections::BTreeMap;

use haul_base::job::summary::Summary;
use haul_proto::diagnose::JobMeasurements;
use haul_proto::diagnose::path_parts::{PartUse, PathPart, path_parts};
use serde::Serialize;

use crate::units::rate;

/// The headings of the columns.
pub const COLUMNS: [&str; 4] = ["part", "busy", "rate", "bound"];

/// The rows of the table.
pub fn rows(summary: &Summary) -> Vec<[String; 4]> {
    of_job(summary)
        .into_iter()
        .map(|of| {
            let bound = of.bound_bytes_per_s().map_or_else(|| "-".to_owned(), rate);
            [words(of.part).to_owned(), format!("{:.0} %", 100.0 * of.busy), rate(of.bytes_per_s), bound]
        })
        .collect()
}

/// The table, each line ended; empty without figures.
pub fn table(summary: &Summary) -> String {
    let rows = rows(summary);
    if rows.is_empty() {
        return String::new();
    }
    let heading = COLUMNS.map(str::to_owned);
    let line = |[part, busy, rate, bound]: &[String; 4]| format!("{part:<12}{busy:>7}{rate:>13}{bound:>13}\n");
    std::iter::once(&heading).chain(&rows).map(line).collect()
}

/// The utilisation of a part as JSON.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PartFields {
    bound_bytes_per_s: Option<f64>,
    busy: f64,
    bytes_per_s: f64,
}

/// The utilisation of all parts, by name.
pub fn fields(summary: &Summary) -> BTreeMap<&'static str, PartFields> {
    let fields = |of: &PartUse| PartFields {
        bound_bytes_per_s: of.bound_bytes_per_s(),
        busy: of.busy,
        bytes_per_s: of.bytes_per_s,
    };
    of_job(summary).iter().map(|of| (of.part.id(), fields(of))).collect()
}

fn of_job(summary: &Summary) -> Vec<PartUse> {
    let [source, target] = [summary.source().load, summary.target().load];
    path_parts(&JobMeasurements { source, target, bytes: summary.files.bytes, ..JobMeasurements::default() })
}

fn words(part: PathPart) -> &'static str {
    match part {
        PathPart::SourceDisk => "source disk",
        PathPart::SourceCpu => "source CPU",
        PathPart::Network => "network",
        PathPart::TargetCpu => "target CPU",
        PathPart::TargetDisk => "target disk",
    }
}

#[cfg(test)]
mod tests {
    use haul_base::job::event::ResourceMetrics;
    use haul_base::job::summary::{EndSummary, TransferTotals};

    use super::super::summary::tests::example;
    use super::*;

    #[test]
    fn each_part_is_a_line_with_its_bound() {
        let mut load = ResourceMetrics { elapsed_us: 1_000_000, ..ResourceMetrics::default() };
        load.processors.all_us = 2_000_000;
        load.processors.busy_us = 500_000;
        load.disks[1].busy_us = 1000;
        load.disks[1].written_bytes = 70_000_000;
        let summary = Summary {
            files: TransferTotals { bytes: 100_000_000, ..example().files },
            ends: [0, 1].map(|_| EndSummary { load, ..EndSummary::default() }),
            ..example()
        };
        insta::assert_snapshot!(table(&summary), @r"
        part           busy         rate        bound
        source CPU     25 %     100 MB/s     400 MB/s
        target CPU     25 %     100 MB/s     400 MB/s
        target disk     0 %    70.0 MB/s            -
        ");
        assert_eq!(fields(&summary)["source_cpu"].bound_bytes_per_s, Some(400e6));
        assert_eq!(fields(&summary)["target_disk"].bound_bytes_per_s, None);
        assert_eq!(table(&example()), "");
    }
}
