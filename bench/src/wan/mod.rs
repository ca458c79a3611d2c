//! `cargo xtask bench --wan`: haul beside its peers over emulated long links.
//!
//! Each link is made anew for each congestion control. Rounds are interleaved as in the other benchmark. A rate covers
//! the whole command, with start-up and ssh's login over the link, and each copy is compared with its source. Between
//! runs both kernels' TCP metrics are cleared.

mod args;
mod links;
mod measure;
mod site;
mod table;
mod tools;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, ensure};
use args::WanBenchSettings;
use haul_lab::Wan;
use links::{Control, WanLink};
use site::{WanData, WanSite};
use table::WanRow;

use crate::aims;
use crate::machine::Machine;

/// Whether these arguments are for this benchmark.
pub fn is_meant(args: &[OsString]) -> bool {
    args.iter().any(|arg| arg == "--wan")
}

/// Reads the arguments; ends the program where they are wrong, or ask for help.
pub fn parse(args: &[OsString]) -> WanBenchSettings {
    args::parse(args).unwrap_or_else(|error| error.exit())
}

/// Whether there is a link of this name.
#[cfg(test)]
pub fn has_link(name: &str) -> bool {
    WanLink::from_name(name).is_ok()
}

/// Runs the benchmark; prints tables on standard output and progress on standard error. Succeeds when no run of haul failed.
pub fn main(args: &[OsString]) -> ExitCode {
    crate::conclude(run(&parse(args)))
}

fn run(settings: &WanBenchSettings) -> Result<bool> {
    ensure!(Wan::available(), "an emulated link needs root and /dev/net/tun (modprobe tun)");
    let interrupted = haul_lab::interrupt_flag().context("setting a signal handler")?;
    let machine = Machine::describe(Some("as in the headings"));
    let mut text = format!("Machine: {}\n", machine.line());
    text += &format!(
        "One file of {} MiB, tmpfs to tmpfs, medians of {} interleaved rounds; of the whole command, start-up included. \
         ~: ended after {} s, what had arrived.\n",
        settings.mebibytes,
        settings.runs,
        settings.limit.as_secs()
    );
    print!("{text}");
    let data = WanData::make(&settings.dir, settings.mebibytes << 20, settings.haul.as_deref())?;
    let mut haul_succeeded = true;
    let mut verdicts = Vec::new();
    for &link in &settings.links {
        for &control in &settings.controls {
            let rows = run_link(settings, &data, link, control, &interrupted)?;
            haul_succeeded &= succeeded(settings, &rows);
            let table = table::markdown(&format!("{}: {}, {}", link.name, link.title, control.title()), &rows);
            print!("{table}");
            text += &table;
            let rates: Vec<(&str, f64)> =
                rows.iter().filter_map(|row| Some((row.name.as_str(), row.median()?))).collect();
            verdicts.extend(aims::judge_link(link.name, control.name(), &rates));
        }
    }
    if !verdicts.is_empty() {
        let table = format!("\n### aims\n\n{}", aims::table(&verdicts));
        print!("{table}");
        text += &table;
    }
    if let Some(path) = &settings.markdown {
        std::fs::write(path, text).with_context(|| format!("writing {path:?}"))?;
    }
    Ok(haul_succeeded)
}

fn succeeded(settings: &WanBenchSettings, rows: &[WanRow]) -> bool {
    let mut hauls = rows.iter().zip(&settings.tools).filter(|(_, tool)| tool.is_haul()).map(|(row, _)| row);
    hauls.all(|row| row.missing.is_none() && row.failure().is_none())
}

fn run_link(
    settings: &WanBenchSettings,
    data: &WanData,
    link: WanLink,
    control: Control,
    interrupted: &AtomicBool,
) -> Result<Vec<WanRow>> {
    let site = WanSite::prepare(data, Wan::new(&link.settings(control))?)?;
    let tools = &settings.tools;
    let mut rows: Vec<WanRow> = tools
        .iter()
        .map(|tool| WanRow { name: tool.name.clone(), missing: tool.missing(&site), runs: Vec::new() })
        .collect();
    for round in 1..=settings.runs {
        for position in 0..tools.len() {
            let index = (position + round as usize - 1) % tools.len();
            let (tool, row) = (&tools[index], &mut rows[index]);
            if row.missing.is_some() {
                continue;
            }
            let run = measure::measure(&site, tool, settings.limit, interrupted)?;
            let outcome = run
                .failure
                .clone()
                .map_or_else(|| format!("{:.0} Mbit/s", run.mbit_per_s), |it| format!("failed: {it}"));
            let (link, control, runs) = (link.name, control.name(), settings.runs);
            eprintln!("bench: {link} {control} {round}/{runs} {} {outcome}", tool.name);
            row.runs.push(run);
        }
    }
    site.empty_target()?;
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Settings for one quick round of these tools.
    fn settings(dir: &std::path::Path, tools: &[&str], mebibytes: u64) -> WanBenchSettings {
        let words = ["--link", "50ms", "--congestion", "cubic", "--runs", "1", "--haul", "/bin/false"];
        let mut settings = args::parse(words).expect("no word is wrong");
        settings.tools = tools.iter().map(|name| tools::from_name(name).expect("it is there")).collect();
        (settings.mebibytes, settings.dir) = (mebibytes, dir.to_owned());
        settings
    }

    fn measured(settings: &WanBenchSettings) -> Vec<WanRow> {
        let data =
            WanData::make(&settings.dir, settings.mebibytes << 20, settings.haul.as_deref()).expect("the data is made");
        let interrupted = AtomicBool::new(false);
        run_link(settings, &data, settings.links[0], settings.controls[0], &interrupted).expect("the link is there")
    }

    #[test]
    fn every_installed_tool_copies_over_a_link() {
        if !Wan::available() {
            eprintln!("SKIPPED: an emulated link needs root and /dev/net/tun");
            return;
        }
        let dir = tempfile::tempdir().expect("a temporary directory");
        let settings = settings(dir.path(), &["haul", "iperf3-p2", "rsync", "scp", "gridftp-p2"], 1);
        let rows = measured(&settings);
        for row in &rows {
            if row.name == "haul" {
                assert!(row.failure().is_some_and(|failure| failure.contains("exit status: 1")), "{row:?}");
            } else if row.missing.is_none() {
                // Logging in alone takes some round trips: 1 MiB in at least 100 ms.
                assert!(row.failure().is_none() && (1.0..85.0).contains(&row.runs[0].mbit_per_s), "{row:?}");
            }
        }
        assert!(!succeeded(&settings, &rows));
        assert_eq!(std::fs::read_dir(dir.path()).expect("listed").count(), 0, "data was left behind");
    }

    #[test]
    fn data_received_within_the_limit_counts() {
        if !Wan::available() {
            eprintln!("SKIPPED: an emulated link needs root and /dev/net/tun");
            return;
        }
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut settings = settings(dir.path(), &["iperf3-p1"], 4096);
        settings.limit = Duration::from_secs(2);
        // The file itself is not needed: iperf3 makes its own bytes.
        let data = WanData::make(&settings.dir, 4096, settings.haul.as_deref()).expect("the data is made");
        let wan = Wan::new(&settings.links[0].settings(settings.controls[0])).expect("a link");
        let site = WanSite { bytes: settings.mebibytes << 20, ..WanSite::prepare(&data, wan).expect("servers start") };
        let run = measure::measure(&site, &settings.tools[0], settings.limit, &AtomicBool::new(false));
        let run = run.expect("it is measured");
        assert!(run.limited && run.failure.is_none() && (5.0..942.0).contains(&run.mbit_per_s), "{run:?}");
    }
}
