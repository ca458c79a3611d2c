//! `--jobs`: the gain from several nodes, the cost of a slow one, and the cost of planning and shards on one node.

mod files;
mod nodes;

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use haul_lab::{Wan, run_with_timeout};

use crate::machine::Machine;
use crate::programs::find_haul;
use crate::settings::BenchSettings;

const NODES: &str = "job-nodes";
const FILES: &str = "job-files";

/// Names of the cases, for `--case`.
pub fn case_names() -> Vec<&'static str> {
    vec![NODES, FILES]
}

/// A figure that has an aim.
struct JobFigure {
    what: &'static str,
    value: f64,
    aim: f64,
    /// Whether the aim is the least, or else the most.
    is_least: bool,
}

impl JobFigure {
    fn is_reached(&self) -> bool {
        if self.is_least { self.value >= self.aim } else { self.value <= self.aim }
    }

    fn row(&self) -> String {
        let (bound, verdict) = (
            if self.is_least { "at least" } else { "at most" },
            if self.is_reached() { "reached" } else { "NOT reached" },
        );
        format!("| {} | {:.3} | {bound} {:.2} | {verdict} |", self.what, self.value, self.aim)
    }
}

/// Measures, prints the tables, and returns whether every aim is reached.
pub fn run(settings: &BenchSettings) -> Result<bool> {
    let haul = find_haul(settings.haul.as_deref())?
        .context("there is no haul to measure: cargo build --release --package haul")?;
    println!("# Jobs\n\n{}\n\n{} rounds, medians; load {}.\n", Machine::describe(None).line(), settings.runs, load());
    let mut figures = Vec::new();
    if settings.is_wanted(NODES) {
        ensure!(Wan::available(), "--jobs makes links between network namespaces, which needs root");
        figures.extend(nodes::measure(&haul, settings)?);
    }
    if settings.is_wanted(FILES) {
        figures.extend(files::measure(&haul, settings)?);
    }
    println!("| | | aim | |\n|---|---:|---|---|");
    figures.iter().for_each(|figure| println!("{}", figure.row()));
    println!("\nLoad at the end: {}", load());
    Ok(figures.iter().all(JobFigure::is_reached))
}

/// Processes that ran or waited for a CPU in the last 1, 5 and 15 minutes (`proc_loadavg(5)`).
fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(", ")
}

/// Runs a command to its success; its seconds.
fn timed(command: Command, limit: Duration) -> Result<f64> {
    let begun = Instant::now();
    let finished = run_with_timeout(command, limit)?;
    ensure!(finished.success(), "haul failed: {}", finished.stderr_text());
    Ok(begun.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aim_is_a_bound_on_either_side() {
        let figure = |value, is_least| JobFigure { what: "x", value, aim: 1.0, is_least };
        assert!(figure(1.0, true).is_reached() && figure(1.0, false).is_reached());
        assert!(!figure(0.9, true).is_reached() && !figure(1.1, false).is_reached());
        assert_eq!(figure(1.1, false).row(), "| x | 1.100 | at most 1.00 | NOT reached |");
    }
}
