//! Many small files on one node: a copy, the plan of a job, and a job.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use haul_lab::{TestTree, compare};

use super::{JobFigure, timed};
use crate::settings::BenchSettings;
use crate::statistics::median;

const SEED: u64 = 0x6a_6f62;
const FILES: u64 = 1_000_000;
const FILES_PER_DIR: u32 = 1000;
const FILE_BYTES: std::ops::RangeInclusive<u64> = 100..=700;

/// Measures all three in turn.
pub fn measure(haul: &Path, settings: &BenchSettings) -> Result<Vec<JobFigure>> {
    let directory = tempfile::Builder::new().prefix("haul-bench-").tempdir_in(&settings.dir)?;
    let at = |name: &str| directory.path().join(name);
    let files = u32::try_from(settings.scaled(FILES).max(1))?;
    TestTree::new(at("source"), SEED).small_files("", files, files.div_ceil(FILES_PER_DIR), FILE_BYTES)?;
    let run = |words: &[&str]| {
        let mut command = Command::new(haul);
        command.args(words).current_dir(directory.path()).env("HOME", directory.path());
        timed(command, settings.timeout)
    };
    let (mut copies, mut plans, mut jobs) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..settings.runs {
        copies.push(run(&["--quiet", "-r", "source", "copied"])?);
        plans.push(run(&["job", "plan", "-r", "--quiet", "--dir", "plan", "source", "planned"])?);
        jobs.push(run(&["job", "run", "-r", "--quiet", "--dir", "job", "source", "target"])?);
        eprintln!(
            "bench: round {round}: copy {:.1?}, plan {:.1?}, job {:.1?} s",
            copies.last(),
            plans.last(),
            jobs.last()
        );
        if round == 0 {
            compare(&at("source"), &at("target").join("source")).map_err(anyhow::Error::msg)?;
        }
        for name in ["copied", "plan", "job", "target"] {
            fs::remove_dir_all(at(name))?;
        }
    }
    let [copy, plan, job] = [copies, plans, jobs].map(|times| median(times).unwrap_or(f64::NAN));
    println!("{files} files of 100 to 700 bytes, from memory to memory.\n");
    println!("| | seconds |\n|---|---:|\n| copy | {copy:.2} |\n| plan | {plan:.2} |\n| job | {job:.2} |\n");
    Ok(vec![
        JobFigure { what: "plan over a copy", value: plan / copy, aim: 0.05, is_least: false },
        JobFigure { what: "job on one node over a copy", value: job / copy, aim: 1.15, is_least: false },
    ])
}
