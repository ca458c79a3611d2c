//! `cargo xtask emulate`: unit tests and round trips of haul for aarch64, under qemu's user-mode emulation.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use haul_lab::emulating_aarch64;

use super::build::cross_compile;
use crate::artifacts::{self, BuiltExecutable};
use crate::report::StepResult;
use crate::run::{Output, run};
use crate::test::Harness;
use crate::workspace::{cargo, root};

const TARGET: &str = "aarch64-unknown-linux-gnu";
/// A build for another target starts from scratch, and emulation is many times slower.
const LIMIT: Duration = Duration::from_secs(2 * 3600);
/// Crates to run unit tests of.
const CRATES: [&str; 8] = [
    "--package=haul-proto",
    "--package=haul-base",
    "--package=haul-engine",
    "--package=haul-control",
    "--package=haul-serve",
    "--package=haul-inspect",
    "--package=haul-job",
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
    let prefix = emulating_aarch64().map_err(|error| error.to_string())?;
    // One call lets the program and the tests share their dependencies.
    let built = build(&[&["build", "--bin", "haul", "--lib", "--tests"], &CRATES[..]].concat(), Some(TARGET))?;
    let (units, programs): (Vec<_>, Vec<_>) = built.iter().partition(|built| built.test);
    let program = programs.first().ok_or("cargo built no program called haul")?;
    // The round trips deploy from this host's own program.
    build(&["build", "--workspace", "--bin", "haul"], None)?;
    let round_trips = build(&["test", "--no-run", "--workspace", "--test", "emulated"], None)?;
    let harness = |prefix, arguments, environment| Harness {
        root: root(),
        prefix,
        limit: LIMIT,
        environment,
        arguments,
        at_once: 1,
    };
    let mut done = harness(prefix, vec![arguments.filter.clone()], Vec::new()).run(&units);
    let executable = program.path.to_string_lossy().into_owned();
    let own = round_trips.iter().filter(|built| built.test && built.target == "emulated").collect::<Vec<_>>();
    let trips = harness(Vec::new(), Vec::new(), vec![("HAUL_AARCH64_BIN", executable)]).run(&own);
    done.counts.add(trips.counts);
    done.failures.extend(trips.failures);
    done.skips.extend(trips.skips);
    report(&done);
    Ok(done.failures.is_empty())
}

/// Results of cargo's build, for `target` or for this host.
fn build(words: &[&str], target: Option<&str>) -> Result<Vec<BuiltExecutable>, String> {
    let mut command = cargo(words);
    command.arg("--message-format=json-render-diagnostics");
    if let Some(target) = target {
        cross_compile(command.args(["--target", target]), target)?;
    }
    let ended = run(&mut command, LIMIT, Output::Kept);
    ended.failure.map_or_else(|| Ok(artifacts::parse(&ended.stdout)), |why| Err(format!("cargo {words:?}: {why}")))
}

fn report(done: &StepResult) {
    done.skips.iter().for_each(|skip| println!("skipped  {skip}"));
    done.failures.iter().for_each(|why| println!("FAILED  {why}"));
    let counts = done.counts;
    println!("\n{} passed, {} failed, {} skipped", counts.passed, counts.failed, counts.skipped);
}
