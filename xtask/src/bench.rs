//! `cargo xtask bench`: builds the bench crate's program and hands over to it.

use std::ffi::OsString;
use std::process::{Command, ExitCode};
use std::time::Duration;

use crate::test::build_program;

/// How long the build may take.
const BUILD_LIMIT: Duration = Duration::from_secs(40 * 60);

/// Runs the chore.
pub fn main(arguments: Vec<OsString>) -> ExitCode {
    let bench = build_program("haul-bench", &["--package", "haul-bench"], BUILD_LIMIT);
    let ended = bench.and_then(|program| {
        Command::new(program).args(arguments).status().map_err(|error| format!("haul-bench: {error}"))
    });
    match ended {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("cargo xtask bench: {why}");
            ExitCode::FAILURE
        }
    }
}
