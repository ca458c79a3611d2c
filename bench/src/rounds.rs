//! Runs the workloads in rounds, and collects results.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use haul_lab::{Cgroup, run_with_timeout};

use crate::cpuid::CpuLevel;
use crate::kind::{WorkloadKind, WorkloadPlace};
use crate::machine::{Machine, available_memory_bytes};
use crate::measure::{ToolRun, measure};
use crate::recipes;
use crate::settings::BenchSettings;
use crate::site::BenchSite;
use crate::statistics::median;
use crate::tools::{self, BenchTool};
use crate::workload::{self, Workload};

/// Contents of a report.
#[derive(Debug)]
pub struct RoundsReport {
    /// Where it was measured.
    pub machine: Machine,
    /// The kind of CPU that haul and the bare loop saw, if not this one.
    pub cpu: Option<CpuLevel>,
    /// Output of `haul --version -v` on that machine.
    pub haul_version: String,
    /// Measured rounds.
    pub runs: u32,
    /// Factor on the workloads' sizes.
    pub scale: f64,
    /// Where the data was.
    pub dir: String,
    /// Whether CPU time was counted by control group.
    pub counted_by_cgroup: bool,
    /// In running order.
    pub workloads: Vec<MeasuredTable>,
}

/// Results of one table.
#[derive(Debug)]
pub struct MeasuredTable {
    /// As on the command line.
    pub name: &'static str,
    /// For a heading.
    pub title: String,
    /// Tools in the order of [`tools::ALL`], each with all its workloads.
    pub rows: Vec<RoundsRow>,
}

/// Results of one tool and one workload.
#[derive(Debug)]
pub struct RoundsRow {
    /// The tool.
    pub tool: BenchTool,
    /// The workload's name in the table; empty if it is the only one.
    pub label: String,
    /// How many files.
    pub files: u32,
    /// 10^9 bytes.
    pub gigabytes: f64,
    /// Why it was not run at all.
    pub missing: Option<String>,
    /// Every run, also those that failed.
    pub runs: Vec<ToolRun>,
}

impl RoundsRow {
    fn new(tool: BenchTool, workload: &Workload, missing: Option<String>) -> Self {
        let none = Self { tool, label: String::new(), files: 0, gigabytes: 0.0, missing, runs: Vec::new() };
        if !tool.copies() {
            return none;
        }
        Self { label: workload.label.clone(), files: workload.files, gigabytes: workload.gigabytes(), ..none }
    }

    fn without_room(tool: BenchTool, missing: &str) -> Self {
        let missing = Some(missing.to_owned());
        Self { tool, label: String::new(), files: 0, gigabytes: 0.0, missing, runs: Vec::new() }
    }

    /// The runs that count.
    pub fn good(&self) -> impl Iterator<Item = &ToolRun> {
        self.runs.iter().filter(|run| run.failure.is_none())
    }

    /// Tool and workload, for people.
    pub fn name(&self) -> String {
        if self.label.is_empty() { self.tool.name.to_owned() } else { format!("{} {}", self.tool.name, self.label) }
    }

    /// Over the runs that count; none when there is none.
    pub fn median(&self, value: impl Fn(&ToolRun) -> f64) -> Option<f64> {
        median(self.good().map(value).collect())
    }

    /// Median seconds.
    pub fn wall_s(&self) -> Option<f64> {
        self.median(|run| run.wall_s)
    }

    /// The first reason why one does not.
    pub fn failure(&self) -> Option<&str> {
        self.runs.iter().find_map(|run| run.failure.as_deref())
    }
}

impl RoundsReport {
    /// Whether haul, where it was to be run, was there and never failed. Its variants need not be there.
    pub fn haul_succeeded(&self) -> bool {
        let mut rows = self.workloads.iter().flat_map(|measured| &measured.rows).filter(|row| row.tool.is_haul());
        rows.all(|row| row.failure().is_none() && (row.missing.is_none() || row.tool.name != "haul"))
    }
}

/// Measures everything in the settings, over connections with `congestion` or this machine's default.
pub fn run(settings: &BenchSettings, congestion: Option<&str>) -> Result<RoundsReport> {
    let site = BenchSite::prepare(settings, congestion)?;
    let machine = Machine::describe(congestion);
    eprintln!("bench: {}", machine.line());
    let mut workloads = Vec::new();
    for &kind in &settings.workloads {
        let chosen = chosen_tools(settings, kind);
        if !chosen.is_empty() {
            workloads.push(run_table(&site, settings, kind, &chosen)?);
        }
    }
    ensure!(!workloads.is_empty(), "none of the tools that were named does any of the workloads that were named");
    Ok(RoundsReport {
        machine,
        cpu: settings.cpu,
        haul_version: site.haul_version.clone(),
        runs: settings.runs,
        scale: settings.scale,
        dir: settings.dir.display().to_string(),
        counted_by_cgroup: Cgroup::create().is_some(),
        workloads,
    })
}

fn chosen_tools(settings: &BenchSettings, kind: WorkloadKind) -> Vec<BenchTool> {
    let wanted = |tool: &BenchTool| settings.tools.is_empty() || settings.tools.iter().any(|name| tool.is_called(name));
    // Nobody misses a second haul that was not named.
    let present = |tool: &BenchTool| tool.name != "haul-before" || settings.beside.is_some();
    tools::ALL.into_iter().filter(|tool| tool.kinds.contains(&kind) && wanted(tool) && present(tool)).collect()
}

fn run_table(
    site: &BenchSite,
    settings: &BenchSettings,
    kind: WorkloadKind,
    chosen: &[BenchTool],
) -> Result<MeasuredTable> {
    let measured = |rows| MeasuredTable { name: kind.name(), title: kind.title(), rows };
    let needed_bytes = workload::room_bytes(kind, settings.scale);
    let room_bytes = room(site.place_of(kind))?;
    if needed_bytes > room_bytes {
        let place = site.place_of(kind).parent().map(|parent| parent.display().to_string()).unwrap_or_default();
        let missing = format!(
            "no room: {:.1} GB are needed and {:.1} are free in {place}; --scale, --dir or --disk-dir",
            workload::gigabytes(needed_bytes),
            workload::gigabytes(room_bytes)
        );
        return Ok(measured(chosen.iter().map(|&tool| RoundsRow::without_room(tool, &missing)).collect()));
    }
    eprintln!("bench: {}: making the data", kind.name());
    let sources = site.sources(kind);
    let workloads = workload::make(kind, &sources, settings.scale)?;
    let mut entries: Vec<(RoundsRow, &Workload)> = Vec::new();
    for &tool in chosen {
        let missing = tool.missing(site);
        let count = if tool.copies() { workloads.len() } else { 1 };
        entries.extend(
            workloads.iter().take(count).map(|workload| (RoundsRow::new(tool, workload, missing.clone()), workload)),
        );
    }
    if entries.iter().any(|(row, _)| row.missing.is_none()) {
        warm_up(site, settings, &workloads)?;
        let runs = kind.rounds(settings.runs);
        for round in 1..=runs {
            run_round(site, settings, &mut entries, round, runs)?;
        }
    }
    fs::remove_dir_all(&sources).with_context(|| format!("removing {sources:?}"))?;
    Ok(measured(entries.into_iter().map(|(row, _)| row).collect()))
}

/// Free bytes where data is to be put. On tmpfs it also takes memory that is free.
fn room(place: &Path) -> Result<u64> {
    const TMPFS_MAGIC: u64 = 0x0102_1994; // statfs(2)
    let found = rustix::fs::statfs(place).with_context(|| format!("looking at the file system of {place:?}"))?;
    let free_bytes = found.f_bavail.saturating_mul(u64::try_from(found.f_bsize)?);
    let on_tmpfs = u64::try_from(found.f_type).is_ok_and(|kind| kind == TMPFS_MAGIC);
    Ok(if on_tmpfs { free_bytes.min(available_memory_bytes()) } else { free_bytes })
}

/// Touches every page that the runs will need: on a virtual machine the first use of each is slow.
fn warm_up(site: &BenchSite, settings: &BenchSettings, workloads: &[Workload]) -> Result<()> {
    let largest = workloads.iter().filter(|workload| workload.has_source()).max_by_key(|workload| workload.bytes);
    let Some(workload) = largest else { return Ok(()) };
    if workload.kind.place() == WorkloadPlace::Disk {
        // Its pages can leave the page cache only when they are clean.
        return site.sync_target(workload);
    }
    let finished = run_with_timeout(recipes::plain_copy(site, workload)?, settings.timeout)?;
    ensure!(finished.success(), "cp could not copy the data: {}", finished.stderr_text());
    site.empty_target(workload)
}

fn run_round(
    site: &BenchSite,
    settings: &BenchSettings,
    entries: &mut [(RoundsRow, &Workload)],
    round: u32,
    runs: u32,
) -> Result<()> {
    let count = entries.len();
    for position in 0..count {
        let (row, workload) = &mut entries[(position + round as usize - 1) % count];
        // A tool that was too slow once would be so again.
        if row.missing.is_some() || row.runs.iter().any(|run| run.timed_out) {
            continue;
        }
        let run = measure(site, &row.tool, workload, round, settings.timeout)?;
        site.empty_target(workload)?;
        let failure = run.failure.as_ref().map(|failure| format!(": failed: {failure}")).unwrap_or_default();
        eprintln!("bench: {} {round}/{runs} {} {:.2} s{failure}", workload.kind.name(), row.name(), run.wall_s);
        row.runs.push(run);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use clap::Parser;

    use super::*;

    #[test]
    fn every_installed_tool_copies_its_workloads() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let settings = BenchSettings {
            runs: 2,
            scale: 0.0005,
            workloads: WorkloadKind::ALL.into_iter().filter(|kind| *kind != WorkloadKind::OldCpu).collect(),
            dir: dir.path().to_owned(),
            disk_dir: Some(dir.path().to_owned()),
            haul: Some(PathBuf::from("/bin/false")),
            tools: ["cp", "scp", "rsync", "tar", "nc", "ssh", "gridftp", "rclone", "haul"].map(str::to_owned).to_vec(),
            ..BenchSettings::parse_from([""; 0])
        };
        let outcome = run(&settings, None).expect("the site is there");
        assert_eq!(outcome.workloads.len(), 15);
        for (measured, row) in
            outcome.workloads.iter().flat_map(|measured| measured.rows.iter().map(move |row| (measured, row)))
        {
            let runs = if measured.name == "byte" { 10 } else { 2 };
            if row.tool.is_haul() && row.missing.is_none() {
                assert!(row.failure().is_some_and(|failure| failure.contains("exit status: 1")), "{row:?}");
            } else if row.missing.is_none() {
                assert_eq!((row.runs.len(), row.failure()), (runs, None), "{}", row.tool.name);
            }
        }
        assert!(!outcome.haul_succeeded());
        assert_eq!(fs::read_dir(dir.path()).expect("listed").count(), 0, "data was left behind");
    }
}
