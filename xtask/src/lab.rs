//! `cargo xtask lab EXPERIMENT`: builds the program as users run it and an experiment of `haul_e2e`, and runs that.

use std::process::{Command, ExitCode};
use std::time::Duration;

use crate::run::{Output, run};
use crate::suggest;
use crate::test::build_program;

/// How long the builds may take.
const BUILD_LIMIT: Duration = Duration::from_secs(40 * 60);
/// How long an experiment may go on, however often its cases are asked for.
const LIMIT: Duration = Duration::from_secs(24 * 3600);
/// Experiments, and the programs that carry them out.
const EXPERIMENTS: [(&str, &str); 2] = [("diagnose", "haul-diagnose"), ("probe", "haul-forecast")];

/// Runs the chore.
pub fn main(mut arguments: Vec<String>) -> ExitCode {
    let asked = if arguments.is_empty() { String::new() } else { arguments.remove(0) };
    let Some((_, program)) = EXPERIMENTS.iter().find(|(name, _)| *name == asked) else {
        let names = EXPERIMENTS.iter().map(|(name, _)| *name);
        eprintln!("{}", suggest::unknown("experiment", &asked, names, "cargo xtask help"));
        return ExitCode::from(2);
    };
    match experiment(program, arguments) {
        Ok(status) => status,
        Err(why) => {
            eprintln!("cargo xtask lab: {why}");
            ExitCode::FAILURE
        }
    }
}

fn experiment(program: &str, arguments: Vec<String>) -> Result<ExitCode, String> {
    let haul = match std::env::var_os("HAUL_BIN") {
        Some(named) => named.into(),
        None => build_program("haul", &["--release", "--package", "haul"], BUILD_LIMIT)?,
    };
    let experiment = build_program(program, &["--package", "haul-e2e"], BUILD_LIMIT)?;
    let ended = run(Command::new(experiment).args(arguments).env("HAUL_BIN", haul), LIMIT, Output::Shown);
    Ok(if ended.succeeded() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
