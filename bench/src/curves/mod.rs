//! `--curves`: how the time of each job grows with each number that a user can raise: bytes, files, depth, hard links, holes,
//! partial frames, lines of a list, filter rules.
//!
//! The figure is CPU time of both ends, by control group: on a shared machine it is steadier than wall time. Each curve
//! is fitted with a power of the number, without the constant cost of the start. A curve steeper than n log n is marked,
//! and the command fails.

mod cases;
mod data;
mod fit;
mod jobs;
mod table;

use anyhow::{Context, Result, ensure};
use haul_lab::Cgroup;

use self::cases::{CurveCase, CurveJob};
use self::jobs::CurveBench;
use self::table::Curve;
use crate::machine::Machine;
use crate::programs::find_haul;
use crate::settings::BenchSettings;

/// The names of all cases.
pub fn case_names() -> Vec<&'static str> {
    CurveCase::ALL.iter().map(|case| case.name).collect()
}

/// Measures, prints the table, and returns whether no curve is too steep and no job failed.
pub fn run(settings: &BenchSettings) -> Result<bool> {
    let haul = find_haul(settings.haul.as_deref())?
        .context("there is no haul to measure: cargo build --release --package haul")?;
    ensure!(Cgroup::create().is_some(), "--curves counts CPU time by control group, which needs root and cgroup2");
    let mut curves = Vec::new();
    for case in CurveCase::ALL.iter().filter(|case| settings.is_wanted(case.name)) {
        curves.extend(measure(settings, &haul, case)?);
    }
    println!("# Curves\n\n{}\n", Machine::describe(None).line());
    let text = table::table(&curves);
    println!("{text}");
    if let Some(path) = &settings.markdown {
        std::fs::write(path, &text).with_context(|| format!("writing {path:?}"))?;
    }
    Ok(curves.iter().all(Curve::is_good))
}

/// The curves of one case, one for each job.
fn measure(settings: &BenchSettings, haul: &std::path::Path, case: &'static CurveCase) -> Result<Vec<Curve>> {
    let mut curves: Vec<_> = case.jobs.iter().map(|job| Curve::new(case, *job)).collect();
    for number in case.numbers(settings.scale, settings.large) {
        if curves.iter().all(|curve| curve.failure.is_some()) {
            break;
        }
        let bench = CurveBench::prepare(settings, haul, case, number)
            .with_context(|| format!("{}: making {number} {}", case.name, case.unit))?;
        for curve in curves.iter_mut().filter(|curve| curve.failure.is_none()) {
            match bench.measure(curve.job).with_context(|| format!("{} {number}", case.name))? {
                Ok(point) => {
                    let (name, job) = (case.name, curve.job.name());
                    eprintln!("bench: {name} {number}: {job} {:.3} CPU s, {:.3} s", point.cpu_s, point.wall_s);
                    curve.points.push(point);
                }
                Err(text) => curve.failure = Some(format!("at {number}: {text}")),
            }
        }
    }
    Ok(curves)
}

/// One measurement: the least of all rounds.
#[derive(Debug, Clone, Copy)]
struct CurvePoint {
    number: u64,
    cpu_s: f64,
    /// The part of it outside of the kernel.
    user_s: f64,
    wall_s: f64,
}

/// Whether a job needs the target of the copy before it.
fn needs_copy(job: CurveJob) -> bool {
    matches!(job, CurveJob::Rerun | CurveJob::Sync | CurveJob::Verify)
}
