//! `cargo xtask lab EXPERIMENT`: builds the program as users run it and an experiment of `haul_e2e`, and runs that.

use std::ffi::OsString;
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::ValueEnum;

use crate::run::{Output, run};
use crate::test::build_program;

/// How long the builds may take.
const BUILD_LIMIT: Duration = Duration::from_secs(40 * 60);
/// Time limit of an experiment, for any number of cases.
const LIMIT: Duration = Duration::from_secs(24 * 3600);
/// Experiments.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Experiment {
    Diagnose,
    Probe,
}

/// Runs the chore.
pub fn main(asked: Experiment, arguments: Vec<OsString>) -> ExitCode {
    let program = match asked {
        Experiment::Diagnose => "haul-diagnose",
        Experiment::Probe => "haul-forecast",
    };
    match experiment(program, arguments) {
        Ok(status) => status,
        Err(why) => {
            eprintln!("cargo xtask lab: {why}");
            ExitCode::FAILURE
        }
    }
}

fn experiment(program: &str, arguments: Vec<OsString>) -> Result<ExitCode, String> {
    let haul = match std::env::var_os("HAUL_BIN") {
        Some(named) => named.into(),
        None => build_program("haul", &["--release", "--package", "haul"], BUILD_LIMIT)?,
    };
    let experiment = build_program(program, &["--package", "haul-e2e"], BUILD_LIMIT)?;
    let ended = run(Command::new(experiment).args(arguments).env("HAUL_BIN", haul), LIMIT, Output::Shown);
    Ok(if ended.succeeded() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
