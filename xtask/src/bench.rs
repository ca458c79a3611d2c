//! `cargo xtask bench`: builds the program as users run it, then hands over to the bench crate.

use std::process::ExitCode;
use std::time::Duration;

use crate::run::{Output, run};
use crate::workspace::cargo;

/// How long the release build may take.
const BUILD_LIMIT: Duration = Duration::from_secs(40 * 60);

/// Runs the chore.
pub fn main(arguments: Vec<String>) -> ExitCode {
    if haul_bench::is_helper(&arguments) {
        return haul_bench::main(arguments);
    }
    let asks_for_help = arguments.iter().any(|argument| matches!(argument.as_str(), "--help" | "-h"));
    let brings_its_own = arguments.iter().any(|argument| argument == "--haul" || argument.starts_with("--haul="));
    if !asks_for_help && !brings_its_own {
        let ended = run(&mut cargo(&["build", "--release", "--package", "haul"]), BUILD_LIMIT, Output::Shown);
        if let Some(why) = ended.failure {
            eprintln!("cargo xtask bench: haul could not be built: {why}");
            return ExitCode::FAILURE;
        }
    }
    haul_bench::main(arguments)
}
