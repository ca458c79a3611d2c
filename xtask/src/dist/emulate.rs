//! `cargo xtask emulate`: unit tests and round trips of haul for aarch64, under qemu's user-mode emulation.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use haul_lab::emulating_aarch64;

use super::build::cross_linker;
use crate::artifacts;
use crate::report::StepResult;
use crate::run::{Output, run};
use crate::test::TestRun;
use crate::workspace::cargo;

const TARGET: &str = "aarch64-unknown-linux-gnu";
/// A build for another target starts from scratch, and emulation is many times slower.
const LIMIT: Duration = Duration::from_secs(2 * 3600);
/// Crates to run unit tests of.
const CRATES: [&str; 9] = [
    "--package=haul-proto",
    "--package=haul-base",
    "--package=haul-engine",
    "--package=haul-control",
    "--package=haul-serve",
    "--package=haul-inspect",
    "--package=haul-job",
    "--package=haul-show",
    "--package=haul",
];

/// Options of the chore.
#[derive(Debug, Args)]
pub struct EmulateArguments {
    /// Only unit tests with this in their names
    #[arg(value_name = "FILTER", default_value = "")]
    filter: String,
}

/// Runs the chore.
pub fn main(arguments: &EmulateArguments) -> ExitCode {
    match emulate(arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("cargo xtask emulate: {why}");
            ExitCode::from(2)
        }
    }
}

/// Builds and runs both; whether all passed.
fn emulate(arguments: &EmulateArguments) -> Result<bool, String> {
    let emulator = emulating_aarch64().map_err(|error| error.to_string())?;
    let program = build(Some(TARGET))?;
    // The round trips deploy from this host's own program.
    build(None)?;
    let (variable, linker) = cross_linker(TARGET)?;
    let units = TestRun {
        profile: "long",
        filter: "kind(lib) or kind(bin)",
        limit: LIMIT,
        prefix: emulator,
        environment: vec![(&variable, linker.into())],
        build: &[&["--locked", "--target", TARGET][..], &CRATES[..], &[arguments.filter.as_str()]].concat(),
    };
    let round_trips = TestRun {
        profile: "long",
        filter: "test(/^emulated::/)",
        limit: LIMIT,
        prefix: Vec::new(),
        environment: vec![("HAUL_AARCH64_BIN", program.into())],
        build: &["--locked", "--package=haul-e2e"],
    };
    let mut done = units.run();
    let trips = round_trips.run();
    done.counts.add(trips.counts);
    done.failures.extend(trips.failures);
    done.skips.extend(trips.skips);
    report(&done);
    Ok(done.failures.is_empty())
}

/// Builds haul for `target`, or for this host.
fn build(target: Option<&str>) -> Result<PathBuf, String> {
    let mut command = cargo(&["build", "--workspace", "--bin", "haul", "--message-format=json-render-diagnostics"]);
    if let Some(target) = target {
        command.args(["--target", target]).envs([cross_linker(target)?]);
    }
    let ended = run(&mut command, LIMIT, Output::Kept);
    ended.failure.map_or(Ok(()), |why| Err(format!("cargo build: {why}")))?;
    let program = artifacts::parse(&ended.stdout).into_iter().find(|built| built.target == "haul");
    program.map(|program| program.path).ok_or_else(|| "cargo built no program called haul".to_owned())
}

fn report(done: &StepResult) {
    done.skips.iter().for_each(|skip| println!("skipped  {skip}"));
    done.failures.iter().for_each(|why| println!("FAILED  {why}"));
    let counts = done.counts;
    println!("\n{} passed, {} failed, {} skipped", counts.passed, counts.failed, counts.skipped);
}
