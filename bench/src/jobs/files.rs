//! Many small files on one node: a copy, the plan of a job, and a job.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use haul_lab::{TestTree, compare};
use tempfile::TempDir;

use super::{JobFigure, timed};
use crate::settings::BenchSettings;
use crate::statistics::median;

const SEED: u64 = 0x6a_6f62;
const FILES: u64 = 1_000_000;
const FILES_PER_DIR: u32 = 1000;
const FILE_BYTES: std::ops::RangeInclusive<u64> = 100..=700;

/// One build of haul, and its seconds in each round.
struct MeasuredBuild<'a> {
    name: &'static str,
    haul: &'a Path,
    copies: Vec<f64>,
    plans: Vec<f64>,
    jobs: Vec<f64>,
}

/// Measures a copy, a plan and a job in turn. Each round also runs the build of `--beside`, without targets.
pub fn measure(haul: &Path, settings: &BenchSettings) -> Result<Vec<JobFigure>> {
    let directory = tempfile::Builder::new().prefix("haul-bench-").tempdir_in(&settings.dir)?;
    let files = u32::try_from(settings.scaled(FILES).max(1))?;
    TestTree::new(directory.path().join("source"), SEED).small_files(
        "",
        files,
        files.div_ceil(FILES_PER_DIR),
        FILE_BYTES,
    )?;
    let beside = settings.beside.as_ref().map(|path| path.canonicalize().with_context(|| format!("--beside {path:?}")));
    let beside = beside.transpose()?;
    let builds = [("haul", Some(haul)), ("haul-before", beside.as_deref())].into_iter();
    let mut builds: Vec<_> = builds.filter_map(|(name, haul)| Some(MeasuredBuild::new(name, haul?))).collect();
    for round in 0..settings.runs {
        builds.iter_mut().try_for_each(|build| build.run(&directory, round, settings))?;
        // Each is first as often as the other.
        builds.reverse();
    }
    builds.sort_by_key(|build| build.name);
    println!("{files} files of 100 to 700 bytes, from memory to memory.\n");
    println!("| | copy, s | plan, s | job, s | plan over copy | job over copy |\n|---|---:|---:|---:|---:|---:|");
    builds.iter().for_each(|build| println!("{}", build.row()));
    println!();
    let [_, _, _, plan, job] = builds[0].figures();
    Ok(vec![
        JobFigure { what: "plan over a copy", value: plan, aim: 0.05, is_least: false },
        JobFigure { what: "job on one node over a copy", value: job, aim: 1.15, is_least: false },
    ])
}

impl<'a> MeasuredBuild<'a> {
    fn new(name: &'static str, haul: &'a Path) -> Self {
        Self { name, haul, copies: Vec::new(), plans: Vec::new(), jobs: Vec::new() }
    }

    fn run(&mut self, directory: &TempDir, round: u32, settings: &BenchSettings) -> Result<()> {
        let at = |name: &str| directory.path().join(name);
        let run = |words: &[&str]| {
            let mut command = Command::new(self.haul);
            command.args(words).current_dir(directory.path()).env("HOME", directory.path());
            timed(command, settings.timeout)
        };
        // Each begins with the same files in memory: making the first ones of their number costs more.
        let remove = |names: &[&str]| names.iter().try_for_each(|name| fs::remove_dir_all(at(name)));
        self.copies.push(run(&["--quiet", "-r", "source", "copied"])?);
        remove(&["copied"])?;
        self.plans.push(run(&["job", "plan", "-r", "--quiet", "--dir", "plan", "source", "planned"])?);
        remove(&["plan"])?;
        self.jobs.push(run(&["job", "run", "-r", "--quiet", "--dir", "job", "source", "target"])?);
        let latest = [&self.copies, &self.plans, &self.jobs].map(|times| times.last().copied().unwrap_or(f64::NAN));
        eprintln!("bench: round {round}: {}: copy, plan, job: {latest:.2?} s", self.name);
        if round == 0 {
            compare(&at("source"), &at("target").join("source")).map_err(anyhow::Error::msg)?;
        }
        remove(&["job", "target"])?;
        Ok(())
    }

    /// Medians: of the copy, the plan, the job, and of both divided by the copy of the same round.
    fn figures(&self) -> [f64; 5] {
        let over_copy = |times: &[f64]| times.iter().zip(&self.copies).map(|(time, copy)| time / copy).collect();
        let (plan, job) = (over_copy(&self.plans), over_copy(&self.jobs));
        [self.copies.clone(), self.plans.clone(), self.jobs.clone(), plan, job]
            .map(|values| median(values).unwrap_or(f64::NAN))
    }

    fn row(&self) -> String {
        let [copy, plan, job, plan_over_copy, job_over_copy] = self.figures();
        format!("| {} | {copy:.2} | {plan:.2} | {job:.2} | {plan_over_copy:.3} | {job_over_copy:.3} |", self.name)
    }
}
