//! The tables: each tool's rate on each link, and its ratio to iperf3's.

use std::fmt::Write as _;

use haul_lab::{aligned, number};

use super::measure::WanRun;
use crate::statistics::median;

/// The reference for all.
const YARDSTICK: &str = "iperf3-p8";

/// One tool on one link.
#[derive(Debug)]
pub struct WanRow {
    /// Of the tool.
    pub name: String,
    /// Why it was not run at all.
    pub missing: Option<String>,
    /// Every run, also those that failed.
    pub runs: Vec<WanRun>,
}

impl WanRow {
    /// The first reason why a run does not count.
    pub fn failure(&self) -> Option<&str> {
        self.runs.iter().find_map(|run| run.failure.as_deref())
    }

    fn rates(&self) -> Vec<f64> {
        let mut rates: Vec<f64> =
            self.runs.iter().filter(|run| run.failure.is_none()).map(|run| run.mbit_per_s).collect();
        rates.sort_by(f64::total_cmp);
        rates
    }

    /// Mbit/s; none when no run counts.
    pub fn median(&self) -> Option<f64> {
        median(self.rates())
    }
}

/// One link under one congestion control, in Markdown.
pub fn markdown(title: &str, rows: &[WanRow]) -> String {
    let yardstick = rows.iter().find(|row| row.name == YARDSTICK).and_then(WanRow::median);
    let mut lines = vec![["tool", "Mbit/s (min to max)", "of iperf3 -P 8"].map(str::to_owned).to_vec()];
    lines.extend(rows.iter().map(|row| {
        let ratio = row.median().zip(yardstick).map(|(rate, of)| rate / of);
        vec![row.name.clone(), rates(row), number(ratio, 2)]
    }));
    let mut text = format!("\n### {title}\n\n{}", aligned(&lines, &[0]));
    for row in rows {
        if let Some(missing) = &row.missing {
            let _ = writeln!(text, "- {}: {missing}", row.name);
        } else if let Some(failure) = row.failure() {
            let words = failure.split_whitespace().collect::<Vec<_>>().join(" ");
            let failed = row.runs.len() - row.rates().len();
            let _ = writeln!(text, "- {}: failed {failed} of {} times: {words}", row.name, row.runs.len());
        }
    }
    text
}

fn rates(row: &WanRow) -> String {
    let (Some(median), rates) = (row.median(), row.rates()) else {
        return if row.missing.is_some() { "not found" } else { "failed" }.to_owned();
    };
    let mark = if row.runs.iter().any(|run| run.limited) { "~" } else { "" };
    let (low, high) = (rates.first().unwrap_or(&median), rates.last().unwrap_or(&median));
    format!("{mark}{median:.0} ({low:.0} to {high:.0})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, rates: &[f64]) -> WanRow {
        let runs = rates.iter().map(|rate| WanRun { mbit_per_s: *rate, ..WanRun::default() }).collect();
        WanRow { name: name.to_owned(), missing: None, runs }
    }

    #[test]
    fn rows_show_medians_ranges_and_shares() {
        let mut slow = row("scp", &[40.0]);
        slow.runs[0].limited = true;
        let mut broken = row("haul -s 4", &[100.0]);
        broken.runs.push(WanRun { failure: Some("exit status: 1:\nno way".to_owned()), ..WanRun::default() });
        let gone = WanRow { missing: Some("not found: rsync (INSTALL)".to_owned()), ..row("rsync", &[]) };
        let rows = [row("haul", &[700.0, 900.0, 800.0]), row("iperf3-p8", &[900.0, 700.0]), slow, broken, gone];
        let text = markdown("a link", &rows);
        let cells = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(&format!("| {name} "))).expect("a line");
            line.split('|').skip(2).map(|cell| cell.trim().to_owned()).take(2).collect::<Vec<_>>().join(", ")
        };
        assert_eq!(cells("haul"), "800 (700 to 900), 1.00");
        assert_eq!(cells("iperf3-p8"), "800 (700 to 900), 1.00");
        assert_eq!(cells("scp"), "~40 (40 to 40), 0.05");
        assert_eq!(cells("rsync"), "not found, -");
        assert!(text.contains("- haul -s 4: failed 1 of 2 times: exit status: 1: no way\n"), "{text}");
        assert!(text.contains("- rsync: not found: rsync (INSTALL)\n"), "{text}");
        let widths: Vec<_> = text.lines().filter(|line| line.starts_with('|')).map(str::len).collect();
        assert!(widths.windows(2).all(|pair| pair[0] == pair[1]), "{text}");
    }
}
