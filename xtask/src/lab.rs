//! `cargo xtask lab diagnose`: builds the program as users run it and the cases of `haul_e2e::diagnose`, and runs these.

use std::process::{Command, ExitCode};
use std::time::Duration;

use crate::run::{Output, run};
use crate::suggest;
use crate::test::build_program;

/// How long the builds may take.
const BUILD_LIMIT: Duration = Duration::from_secs(40 * 60);
/// How long the cases may go on, however often each is asked for.
const LIMIT: Duration = Duration::from_secs(24 * 3600);

/// Runs the chore.
pub fn main(mut arguments: Vec<String>) -> ExitCode {
    if arguments.first().is_none_or(|word| word != "diagnose") {
        let asked = arguments.first().map_or("", String::as_str);
        eprintln!("{}", suggest::unknown("experiment", asked, ["diagnose"], "cargo xtask lab diagnose --help"));
        return ExitCode::from(2);
    }
    arguments.remove(0);
    match diagnose(arguments) {
        Ok(status) => status,
        Err(why) => {
            eprintln!("cargo xtask lab: {why}");
            ExitCode::FAILURE
        }
    }
}

fn diagnose(arguments: Vec<String>) -> Result<ExitCode, String> {
    let haul = match std::env::var_os("HAUL_BIN") {
        Some(named) => named.into(),
        None => build_program("haul", &["--release", "--package", "haul"], BUILD_LIMIT)?,
    };
    let cases = build_program("haul-diagnose", &["--package", "haul-e2e"], BUILD_LIMIT)?;
    let ended = run(Command::new(cases).args(arguments).env("HAUL_BIN", haul), LIMIT, Output::Shown);
    Ok(if ended.succeeded() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
