//! Utilisation of each part of the path (disks, CPUs, the network), as a table and JSON.

use std::collections::BTreeMap;

use haul_base::copy::summary::Summary;
use haul_proto::diagnose::path_parts::{PartUse, PathPart};
use serde::Serialize;

use crate::units::{rate, share};

/// The headings of the columns.
pub const COLUMNS: [&str; 4] = ["part", "busy", "rate", "bound"];

/// The rows of the table.
pub fn rows(summary: &Summary) -> Vec<[String; 4]> {
    let or_dash = |bytes_per_s: Option<f64>| bytes_per_s.map_or_else(|| "-".to_owned(), rate);
    let row = |of: &PartUse| {
        [words(of.part).to_owned(), share(of.busy), or_dash(of.bytes_per_s), or_dash(of.bound_bytes_per_s())]
    };
    summary.diagnosis.parts.iter().map(row).collect()
}

/// The table, each line ended; empty without figures.
pub fn table(summary: &Summary) -> String {
    let rows = rows(summary);
    if rows.is_empty() {
        return String::new();
    }
    let heading = COLUMNS.map(str::to_owned);
    let line = |[part, busy, rate, bound]: &[String; 4]| format!("{part:<24}{busy:>7}{rate:>13}{bound:>13}\n");
    std::iter::once(&heading).chain(&rows).map(line).collect()
}

/// The utilisation of a part as JSON.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct PartFields {
    bound_bytes_per_s: Option<f64>,
    busy: f64,
    bytes_per_s: Option<f64>,
}

/// The utilisation of all parts, by name.
pub fn fields(summary: &Summary) -> BTreeMap<&'static str, PartFields> {
    let fields = |of: &PartUse| PartFields {
        bound_bytes_per_s: of.bound_bytes_per_s(),
        busy: of.busy,
        bytes_per_s: of.bytes_per_s,
    };
    summary.diagnosis.parts.iter().map(|of| (of.part.id(), fields(of))).collect()
}

fn words(part: PathPart) -> &'static str {
    match part {
        PathPart::SourceDisk => "source disk",
        PathPart::SourceCpu => "source CPU",
        PathPart::Network => "network",
        PathPart::TargetCpu => "target CPU",
        PathPart::TargetDisk => "target disk",
        PathPart::SourceOthers => "other programs, source",
        PathPart::TargetOthers => "other programs, target",
    }
}

#[cfg(test)]
mod tests {
    use haul_base::copy::summary::Diagnosis;

    use super::*;
    use crate::testing::example;

    #[test]
    fn each_part_is_a_line_with_its_bound() {
        let of = |part, busy, bytes_per_s| PartUse { part, busy, bytes_per_s };
        let parts = vec![
            of(PathPart::SourceCpu, 0.25, Some(100e6)),
            of(PathPart::TargetDisk, 0.001, Some(100e6)),
            of(PathPart::SourceOthers, 0.71, None),
        ];
        let summary = Summary { diagnosis: Diagnosis { parts, ..example().diagnosis }, ..example() };
        insta::assert_snapshot!(table(&summary), @r"
        part                       busy         rate        bound
        source CPU                 25 %     100 MB/s     400 MB/s
        target disk                 0 %     100 MB/s            -
        other programs, source     71 %            -            -
        ");
        assert_eq!(fields(&summary)["source_cpu"].bound_bytes_per_s, Some(400e6));
        assert_eq!(fields(&summary)["target_disk"].bound_bytes_per_s, None);
        assert_eq!(fields(&summary)["source_other_programs"].bytes_per_s, None);
        assert_eq!(table(&example()), "");
    }
}
