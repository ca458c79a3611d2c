//! `cargo xtask bench`: builds the program as users run it, then hands over to the bench crate.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use crate::run::{Output, run};
use crate::workspace::cargo;

/// How long the release build may take.
const BUILD_LIMIT: Duration = Duration::from_secs(40 * 60);

/// Runs the chore.
pub fn main(arguments: Vec<OsString>) -> ExitCode {
    if !haul_bench::brings_haul(&arguments) {
        let ended = run(&mut cargo(&["build", "--release", "--package", "haul"]), BUILD_LIMIT, Output::Shown);
        if let Some(why) = ended.failure {
            eprintln!("cargo xtask bench: haul could not be built: {why}");
            return ExitCode::FAILURE;
        }
    }
    haul_bench::main(arguments)
}
