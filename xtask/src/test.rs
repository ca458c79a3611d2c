//! `cargo xtask test`: every check there is, in an order that fails early, with a time limit for each.
//!
//! This file knows the steps and the command line; `test/steps.rs` does them.

mod harness;
mod python;
mod speed;
mod steps;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use clap::builder::PossibleValuesParser;
pub use harness::Harness;
use steps::Context;
pub use steps::{Built, build_all, build_program, package_of};

use crate::report::{Counts, StepResult, StepRow, StepVerdict, TestReport};
use crate::rows::Cases;
use crate::run;

/// One step.
#[derive(Clone, Copy)]
pub struct Step {
    /// The step's name in `--only` and in the table.
    pub name: &'static str,
    /// What the step proves.
    pub about: &'static str,
    /// It fails when it takes longer: most of it is compiling, the first time.
    pub limit: Duration,
    /// Does it.
    pub work: fn(&mut Context, &Step) -> StepResult,
}

const fn step(
    name: &'static str,
    minutes: u64,
    work: fn(&mut Context, &Step) -> StepResult,
    about: &'static str,
) -> Step {
    Step { name, about, limit: Duration::from_secs(60 * minutes), work }
}

/// All steps, in order. Building is a step of its own, and does not count towards the others' times.
pub const STEPS: &[Step] = &[
    step("tools", 15, steps::tools, "the programs that the tests start are there, or are installed"),
    step("format", 2, steps::format, "cargo fmt --check"),
    step("spelling", 15, steps::spelling, "typos, by the rules of typos.toml"),
    step("build", 40, steps::build, "everything that the tests run is built"),
    step("clippy", 20, steps::clippy, "no warning in any target"),
    step(
        "supply-chain",
        15,
        steps::supply_chain,
        "dependencies: licences, sources, bans and, where they can be had, advisories",
    ),
    step("docs", 20, steps::docs, "no warning in the documentation"),
    step("unit", 8, steps::unit, "unit and property tests of every package, and the documentation's examples"),
    step("simulator", 8, steps::simulator, "the protocol's two machines under faults from seeds"),
    step("fuzz", 8, steps::fuzz, "the fuzz targets over their saved corpus, and what becomes of it at random"),
    step("e2e", 30, steps::e2e, "the real program, with real sshds, namespaces, signals, full disks and a real Slurm"),
    step("python", 10, python::python, "the Python client: types, its tests with the real program, and the wheel"),
    step(
        "diagnose",
        8,
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
        STEPS.iter().for_each(|step| println!("{:<12}{}", step.name, step.about));
        return ExitCode::SUCCESS;
    }
    let report = run_steps(&arguments.only);
    print!("{}", report.render());
    if report.failed() || report.totals().failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Runs the chosen steps with their dependencies; all steps if none is named.
fn run_steps(chosen: &[String]) -> TestReport {
    let mut report = TestReport::default();
    let mut context = Context::default();
    let everything = chosen.is_empty();
    let slowness = speed::slowness();
    if slowness > 1.0 {
        println!("this machine is {slowness:.1} times as slow as the reference: time limits are as much longer");
    }
    for step in STEPS {
        if !everything && !chosen.iter().any(|name| name == step.name) {
            continue;
        }
        if run::was_interrupted() {
            report.push(skipped(step, "interrupted"));
            continue;
        }
        println!("\n==> {}: {}", step.name, step.about);
        let started = Instant::now();
        let done = (step.work)(&mut context, &Step { limit: step.limit.mul_f64(slowness), ..*step });
        let row = row(step, done, started.elapsed());
        println!("<== {}: {:.1} s", step.name, row.elapsed.as_secs_f64());
        report.push(row);
    }
    if everything && report.totals().passed == 0 {
        let why = vec!["not one test was run".to_owned()];
        report.push(StepRow { step: "tests", verdict: StepVerdict::Failed(why), ..skipped(&STEPS[0], "") });
    }
    report
}

fn row(step: &Step, done: StepResult, elapsed: Duration) -> StepRow {
    let verdict = match done.not_run {
        _ if !done.failures.is_empty() => StepVerdict::Failed(done.failures),
        Some(why) => StepVerdict::Skipped(why),
        None => StepVerdict::Passed,
    };
    StepRow { step: step.name, verdict, counts: done.counts, skips: done.skips, cases: done.cases, elapsed }
}

fn skipped(step: &Step, why: &str) -> StepRow {
    let verdict = StepVerdict::Skipped(why.to_owned());
    StepRow {
        step: step.name,
        verdict,
        counts: Counts::default(),
        skips: Vec::new(),
        cases: Cases::new(),
        elapsed: Duration::ZERO,
    }
}
