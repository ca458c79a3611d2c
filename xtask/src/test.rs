//! `cargo xtask test`: every check there is. What fails early runs first; then tests, which wait a lot, run beside
//! checks that compute; then tests that measure have the machine to themselves.
//!
//! This file knows the steps and the command line; `test/steps.rs` does them.

mod nextest;
mod python;
mod steps;

use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use clap::Args;
use clap::builder::PossibleValuesParser;
pub use nextest::TestRun;
use steps::Context;
pub use steps::{build_all, build_program};

use crate::report::{StepResult, StepRow, StepVerdict, TestReport};
use crate::run;

/// One step.
pub struct Step {
    /// The step's name in `--only` and in the table.
    pub name: &'static str,
    /// What the step proves.
    pub about: &'static str,
    /// Steps of one lane run in sequence.
    lane: Lane,
    /// It fails when it takes longer: most of it is compiling, the first time.
    pub limit: Duration,
    /// Does it.
    work: fn(&Context, &Step) -> StepResult,
}

/// Lanes, in the order in which they start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lane {
    /// Before everything else.
    First,
    /// Tests, which often wait. Beside `Computing`.
    Waiting,
    /// Checks that keep processors busy. Beside `Waiting`.
    Computing,
    /// At the end, on a quiet machine.
    Alone,
}

const fn step(
    name: &'static str,
    minutes: u64,
    lane: Lane,
    work: fn(&Context, &Step) -> StepResult,
    about: &'static str,
) -> Step {
    Step { name, about, lane, limit: Duration::from_secs(60 * minutes), work }
}

/// All steps, in order. Building is a step of its own, and does not count towards the others' times.
pub const STEPS: &[Step] = &[
    step("tools", 15, Lane::First, steps::tools, "the programs that the tests start are there, or are installed"),
    step("format", 2, Lane::First, steps::format, "cargo fmt --check"),
    step("spelling", 15, Lane::First, steps::spelling, "typos, by the rules of typos.toml"),
    step("build", 60, Lane::First, steps::build, "everything that the tests run is built"),
    step("unit", 20, Lane::Waiting, steps::unit, "unit and property tests of every package"),
    step("simulator", 20, Lane::Waiting, steps::simulator, "the protocol's two machines under faults from seeds"),
    step("fuzz", 20, Lane::Waiting, steps::fuzz, "the fuzz targets over their saved corpus, and random changes of it"),
    step(
        "e2e",
        60,
        Lane::Waiting,
        steps::e2e,
        "the real program, with real sshds, namespaces, signals, full disks and a real Slurm",
    ),
    step(
        "supply-chain",
        15,
        Lane::Computing,
        steps::supply_chain,
        "dependencies: licences, sources, bans and, where they can be had, advisories",
    ),
    step("clippy", 40, Lane::Computing, steps::clippy, "no warning in any target"),
    step("docs", 30, Lane::Computing, steps::docs, "no warning in the documentation, and its examples run"),
    step(
        "python",
        20,
        Lane::Computing,
        python::python,
        "the Python client: types, its tests with the real program, and the wheel",
    ),
    step(
        "diagnose",
        20,
        Lane::Alone,
        steps::diagnose,
        "each limit of a copy made on purpose: the verdict has to name it; and the guide's commands",
    ),
];

/// Options of the chore.
#[derive(Debug, PartialEq, Eq, Args)]
pub struct TestArguments {
    /// Only this step; repeatable
    #[arg(long, value_name = "STEP", value_parser = PossibleValuesParser::new(STEPS.iter().map(|step| step.name)))]
    only: Vec<String>,
    /// Names the steps
    #[arg(long)]
    list: bool,
}

/// Runs the chore.
pub fn main(arguments: &TestArguments) -> ExitCode {
    if arguments.list {
        STEPS.iter().for_each(|step| println!("{:<13}{}", step.name, step.about));
        return ExitCode::SUCCESS;
    }
    let report = run_steps(&arguments.only);
    print!("{}", report.render());
    if report.failed() || report.totals().failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Runs the chosen steps with their dependencies; all steps if none is named.
fn run_steps(chosen: &[String]) -> TestReport {
    let started = Instant::now();
    let context = Context::default();
    let rows = Mutex::new(Vec::new());
    let run_lane = |lane: Lane| {
        let is_chosen = |step: &&Step| chosen.is_empty() || chosen.iter().any(|name| name == step.name);
        for step in STEPS.iter().filter(|step| step.lane == lane).filter(is_chosen) {
            let row = run_step(&context, step);
            rows.lock().expect("no step panics").push(row);
        }
    };
    run_lane(Lane::First);
    std::thread::scope(|scope| {
        scope.spawn(|| run_lane(Lane::Computing));
        run_lane(Lane::Waiting);
    });
    run_lane(Lane::Alone);
    let mut rows = rows.into_inner().expect("no step panics");
    rows.sort_by_key(|row| STEPS.iter().position(|step| step.name == row.step));
    let mut report = TestReport::new(rows, started.elapsed());
    if chosen.is_empty() && report.totals().passed == 0 {
        report.push(row("tests", StepResult::failed("not one test was run".to_owned()), Duration::ZERO));
    }
    report
}

fn run_step(context: &Context, step: &Step) -> StepRow {
    if run::was_interrupted() {
        let skipped = StepResult { not_run: Some("interrupted".to_owned()), ..StepResult::default() };
        return row(step.name, skipped, Duration::ZERO);
    }
    println!("\n==> {}: {}", step.name, step.about);
    let started = Instant::now();
    let done = (step.work)(context, step);
    let row = row(step.name, done, started.elapsed());
    println!("<== {}: {:.1} s", step.name, row.elapsed.as_secs_f64());
    row
}

fn row(step: &'static str, done: StepResult, elapsed: Duration) -> StepRow {
    let verdict = match done.not_run {
        _ if !done.failures.is_empty() => StepVerdict::Failed(done.failures),
        Some(why) => StepVerdict::Skipped(why),
        None => StepVerdict::Passed,
    };
    let StepResult { counts, skips, cases, times, .. } = done;
    StepRow { step, verdict, counts, skips, cases, times, elapsed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Counts;

    #[test]
    fn a_step_without_any_test_is_no_success() {
        let nothing = row("unit", StepResult::default(), Duration::ZERO);
        assert_eq!((nothing.verdict, nothing.counts), (StepVerdict::Passed, Counts::default()));
        let failed = StepResult { not_run: Some("no".into()), ..StepResult::failed("why".into()) };
        assert_eq!(row("unit", failed, Duration::ZERO).verdict, StepVerdict::Failed(vec!["why".into()]));
    }
}
