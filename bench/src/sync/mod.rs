//! `--sync`: the data moved to update an existing copy, beside rsync, over ssh and to its daemon; and two-way
//! synchronisation beside Unison and rclone's bisync.
//!
//! A cable joins two network namespaces. Its counters give all bytes of a tool, in both directions, with headers and
//! logins. Rounds are interleaved. Each run starts from the same changes, and ends with a comparison of the copy and
//! its source.

mod cases;
mod data;
mod hosts;
mod table;
mod twoway;

use std::path::Path;

use anyhow::{Context, Result, ensure};
use haul_lab::{Finished, Netns, compare, run_with_timeout, start_measured};

use self::cases::SyncCase;
use self::hosts::SyncHosts;
use self::table::{MeasuredSync, SyncRow};
use crate::machine;
use crate::machine::{busy_s, context_switches, counting_calls};
use crate::settings::BenchSettings;

/// The tool to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncTool {
    Haul,
    RsyncSsh,
    RsyncDaemon,
    Cp,
    Unison,
    RcloneBisync,
}

impl SyncTool {
    /// Its name in the tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Haul => "haul",
            Self::RsyncSsh => "rsync over ssh",
            Self::RsyncDaemon => "rsync to a daemon",
            Self::Cp => "cp",
            Self::Unison => "unison",
            Self::RcloneBisync => "rclone bisync",
        }
    }

    /// The program in PATH.
    pub fn program(self) -> &'static str {
        match self {
            Self::Haul => "haul",
            Self::RsyncSsh | Self::RsyncDaemon => "rsync",
            Self::Cp => "cp",
            Self::Unison => "unison",
            Self::RcloneBisync => "rclone",
        }
    }
}

/// Cases to measure.
pub fn case_names() -> Vec<&'static str> {
    SyncCase::ALL.iter().map(|case| case.name()).collect()
}

/// An error where this cannot be measured.
pub fn check() -> Result<()> {
    ensure!(Netns::available(), "--sync makes network namespaces, which needs root");
    ensure!(haul_lab::find_program("rsync").is_some(), "--sync needs rsync beside it: --install");
    Ok(())
}

/// Measures, and prints the tables. Returns whether haul did all its work.
pub fn run(settings: &BenchSettings) -> Result<bool> {
    let hosts = SyncHosts::prepare(settings)?;
    println!("# Sync\n\n{}\n", machine::Machine::describe(None).line());
    println!("A cable between two namespaces; {} rounds, interleaved. Bytes are those on the cable.", settings.runs);
    let mut good = true;
    for case in SyncCase::ALL.into_iter().filter(|case| settings.is_wanted(case.name())) {
        let rows = measure(settings, &hosts, case)?;
        good &= rows.iter().all(|row| row.tool != SyncTool::Haul || row.failure.is_none());
        println!("{}", table::table(case, &rows));
    }
    Ok(good)
}

/// All rounds of one case.
fn measure(settings: &BenchSettings, hosts: &SyncHosts, case: SyncCase) -> Result<Vec<SyncRow>> {
    let place = tempfile::Builder::new().prefix("haul-sync-").tempdir_in(settings.disk_dir())?;
    let mut site = data::SyncSite::make(place.path(), case, settings)?;
    hosts.serve(place.path())?;
    let mut rows: Vec<_> = case.tools().iter().map(|tool| SyncRow::new(*tool)).collect();
    if case.is_twoway() {
        for row in &mut rows {
            row.failure = twoway::start(settings, hosts, row.tool, [&site.source(row.tool), &site.target(row.tool)])?;
        }
    }
    for round in 0..settings.runs {
        site.change(case, round)?;
        for at in 0..rows.len() {
            let row = &mut rows[(at + round as usize) % case.tools().len()];
            if row.failure.is_none() {
                once(settings, hosts, &site, case, row)
                    .with_context(|| format!("{}: {}", case.name(), row.tool.name()))?;
                site.reset(case, row.tool)?;
            }
        }
    }
    for row in rows.iter_mut().filter(|row| row.failure.is_none()) {
        let command = case.command(hosts, row.tool, &site.source(row.tool), &site.target(row.tool))?;
        row.calls = counting_calls(|| start_measured(command)?.finish(settings.timeout))?.1;
        site.reset(case, row.tool)?;
    }
    if case.aim().peak_bytes.or(case.aim().sent_max).is_some() {
        ask_haul(settings, hosts, &site, case, &mut rows[0])?;
    }
    Ok(rows)
}

/// Figures that only haul reports, from an unmeasured run with `--json`.
fn ask_haul(
    settings: &BenchSettings,
    hosts: &SyncHosts,
    site: &data::SyncSite,
    case: SyncCase,
    row: &mut SyncRow,
) -> Result<()> {
    let mut command = case.command(hosts, row.tool, &site.source(row.tool), &site.target(row.tool))?;
    command.arg("--json");
    let finished = run_with_timeout(command, settings.timeout)?;
    let [source, target, sent] = hosts::told(&finished);
    row.peak_bytes = row.peak_bytes.max(source).max(target);
    row.sent_bytes = sent;
    site.reset(case, row.tool)
}

/// One run. Its failure is part of the row; an error is the benchmark's own.
fn once(
    settings: &BenchSettings,
    hosts: &SyncHosts,
    site: &data::SyncSite,
    case: SyncCase,
    row: &mut SyncRow,
) -> Result<()> {
    let (source, target) = (site.source(row.tool), site.target(row.tool));
    site.forget_pages(case, &target)?;
    let before = hosts.bytes_on_cable()?;
    let command = case.command(hosts, row.tool, &source, &target)?;
    let (busy_before_s, switches_before) = (busy_s(), context_switches());
    let finished = start_measured(command)?.finish(settings.timeout)?;
    // Both ends are on this machine, and ssh's server is no child.
    let (cpu_s, switches) = (busy_s() - busy_before_s, context_switches() - switches_before);
    let bytes = hosts.bytes_on_cable()? - before;
    eprintln!("bench: {}: {} {:.2} s, {:.2} MB", case.name(), row.tool.name(), finished.wall_s, megabytes(bytes));
    row.failure = failure(&finished).or_else(|| checked(case, &source, &target));
    row.runs.push(MeasuredSync { seconds: finished.wall_s, cpu_s, switches, bytes });
    row.peak_bytes = row.peak_bytes.max(finished.peak_memory_bytes);
    Ok(())
}

/// Comparing a million files takes too long: the bytes on the cable prove that nothing was copied.
fn checked(case: SyncCase, source: &Path, target: &Path) -> Option<String> {
    (case != SyncCase::Unchanged).then(|| compare(source, target).err()).flatten()
}

fn failure(finished: &Finished) -> Option<String> {
    let why = || finished.stderr_text().lines().last().unwrap_or_default().to_owned();
    (!finished.success()).then(|| format!("{}: {}", finished.status, why()))
}

#[expect(clippy::cast_precision_loss, reason = "far fewer than 2^53 bytes")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
