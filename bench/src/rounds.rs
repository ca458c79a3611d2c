//! Goes through the workloads and the rounds, and collects what came of them.

use anyhow::{Result, ensure};
use haul_lab::{Cgroup, run_with_timeout};

use crate::args::Settings;
use crate::machine::Machine;
use crate::measure::{Run, measure};
use crate::site::Site;
use crate::tools::{self, Tool};
use crate::workload::{Kind, Workload};

/// All that a report tells.
#[derive(Debug)]
pub struct Outcome {
    /// Where it was measured.
    pub machine: Machine,
    /// Measured rounds.
    pub runs: u32,
    /// Factor on the workloads' sizes.
    pub scale: f64,
    /// Where the data was.
    pub dir: String,
    /// Whether CPU time was counted by control group.
    pub counted_by_cgroup: bool,
    /// In the order in which they were run.
    pub workloads: Vec<Measured>,
}

/// What came of one workload.
#[derive(Debug)]
pub struct Measured {
    /// As on the command line.
    pub name: &'static str,
    /// For a heading.
    pub title: String,
    /// How many files.
    pub files: u32,
    /// 10^9 bytes.
    pub gigabytes: f64,
    /// One a tool, in the order of [`tools::ALL`].
    pub rows: Vec<Row>,
}

/// What came of one tool.
#[derive(Debug)]
pub struct Row {
    /// Which.
    pub tool: Tool,
    /// Why it was not run at all.
    pub missing: Option<String>,
    /// Every run, also those that failed.
    pub runs: Vec<Run>,
}

impl Row {
    /// The runs that count.
    pub fn good(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(|run| run.failure.is_none())
    }

    /// The first reason why one does not.
    pub fn failure(&self) -> Option<&str> {
        self.runs.iter().find_map(|run| run.failure.as_deref())
    }
}

impl Outcome {
    /// Whether haul, where it was to be run, was there and never failed.
    pub fn haul_succeeded(&self) -> bool {
        let mut rows = self.workloads.iter().flat_map(|measured| &measured.rows).filter(|row| row.tool.is_haul());
        rows.all(|row| row.missing.is_none() && row.failure().is_none())
    }
}

/// Measures everything that the settings ask for.
pub fn run(settings: &Settings) -> Result<Outcome> {
    let site = Site::prepare(settings)?;
    let machine = Machine::describe(settings.congestion.as_deref());
    eprintln!("bench: {}", machine.line());
    let mut workloads = Vec::new();
    for &kind in &settings.workloads {
        let chosen = chosen_tools(settings, kind);
        if !chosen.is_empty() {
            workloads.push(run_workload(&site, settings, kind, &chosen)?);
        }
    }
    ensure!(!workloads.is_empty(), "none of the tools that were named does any of the workloads that were named");
    Ok(Outcome {
        machine,
        runs: settings.runs,
        scale: settings.scale,
        dir: settings.dir.display().to_string(),
        counted_by_cgroup: Cgroup::create().is_some(),
        workloads,
    })
}

fn chosen_tools(settings: &Settings, kind: Kind) -> Vec<Tool> {
    let wanted = |tool: &Tool| settings.tools.is_empty() || settings.tools.iter().any(|name| tool.is_called(name));
    tools::ALL.into_iter().filter(|tool| tool.kinds.contains(&kind) && wanted(tool)).collect()
}

fn run_workload(site: &Site, settings: &Settings, kind: Kind, chosen: &[Tool]) -> Result<Measured> {
    let mut rows: Vec<Row> =
        chosen.iter().map(|&tool| Row { tool, missing: tool.missing(site), runs: Vec::new() }).collect();
    eprintln!("bench: {}: making the data", kind.name());
    let workload = Workload::make(kind, &site.sources(), settings.scale)?;
    if rows.iter().any(|row| row.missing.is_none()) {
        warm_up(site, settings, &workload)?;
        for round in 1..=settings.runs {
            run_round(site, settings, &workload, &mut rows, round)?;
        }
    }
    workload.remove()?;
    let (title, gigabytes) = (workload.title(), workload.gigabytes());
    Ok(Measured { name: kind.name(), title, files: workload.files, gigabytes, rows })
}

/// Touches every page that the runs will need: on a virtual machine the first use of each is slow.
fn warm_up(site: &Site, settings: &Settings, workload: &Workload) -> Result<()> {
    let finished = run_with_timeout(tools::plain_copy(site, workload)?, settings.timeout)?;
    ensure!(finished.success(), "cp could not copy the data: {}", finished.stderr_text());
    site.empty_target()
}

fn run_round(site: &Site, settings: &Settings, workload: &Workload, rows: &mut [Row], round: u32) -> Result<()> {
    let count = rows.len();
    for position in 0..count {
        let row = &mut rows[(position + round as usize - 1) % count];
        // A tool that was too slow once would be so again.
        if row.missing.is_some() || row.runs.iter().any(|run| run.timed_out) {
            continue;
        }
        let run = measure(site, &row.tool, workload, round, settings.timeout)?;
        site.empty_target()?;
        let (kind, runs, name) = (workload.kind.name(), settings.runs, row.tool.name);
        let failure = run.failure.as_ref().map(|failure| format!(": failed: {failure}")).unwrap_or_default();
        eprintln!("bench: {kind} {round}/{runs} {name} {:.2} s{failure}", run.wall_s);
        row.runs.push(run);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn every_tool_that_is_there_copies_every_workload_it_is_compared_on() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let settings = Settings {
            runs: 2,
            scale: 0.0005,
            dir: dir.path().to_owned(),
            haul: Some(PathBuf::from("/bin/false")),
            tools: ["cp", "scp", "rsync", "tar", "nc", "ssh", "gridftp", "rclone", "haul"].map(str::to_owned).to_vec(),
            ..Settings::default()
        };
        let outcome = run(&settings).expect("the site is there");
        assert_eq!(outcome.workloads.len(), 5);
        for row in outcome.workloads.iter().flat_map(|measured| &measured.rows) {
            if row.tool.is_haul() {
                assert!(row.failure().is_some_and(|failure| failure.contains("exit status: 1")), "{row:?}");
            } else if row.missing.is_none() {
                assert_eq!((row.runs.len(), row.failure()), (2, None), "{}", row.tool.name);
            }
        }
        assert!(!outcome.haul_succeeded());
        assert_eq!(std::fs::read_dir(dir.path()).expect("listed").count(), 0, "data was left behind");
    }
}
