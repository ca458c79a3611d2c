//! `cargo xtask fuzz`: runs each fuzz target for a while, with cargo-fuzz and the nightly toolchain.
//!
//! The everyday run replays the saved corpus and random mutations of it instead (`cargo xtask test --only fuzz`). The
//! stable toolchain is enough for that.

use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::Args;

use crate::coverage;
use crate::run::{CommandEnd, Output, run, was_interrupted};
use crate::workspace::root;

/// Additional time to build a target.
const BUILD_LIMIT: Duration = Duration::from_secs(30 * 60);

/// Options of the chore.
#[derive(Debug, PartialEq, Eq, Args)]
pub struct FuzzArguments {
    /// For each target
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Names of targets (default: all)
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// Measure the lines of proto that the corpus reaches instead
    #[arg(long)]
    coverage: bool,
}

/// Runs the chore.
pub fn main(arguments: FuzzArguments) -> ExitCode {
    match fuzz(arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("cargo xtask fuzz: {message}");
            ExitCode::from(2)
        }
    }
}

/// Fuzzes each target in turn; whether none of them found anything.
fn fuzz(asked: FuzzArguments) -> Result<bool, String> {
    if asked.coverage {
        return coverage::measure().map(|()| true);
    }
    let known = targets()?;
    if let Some(name) = asked.targets.iter().find(|name| !known.contains(name)) {
        return Err(format!("there is no target {name}; there are {}", known.join(", ")));
    }
    let chosen = if asked.targets.is_empty() { known } else { asked.targets };
    let mut failed = Vec::new();
    for target in &chosen {
        println!("\n==> {target}: {} s", asked.seconds);
        let limit = BUILD_LIMIT + Duration::from_secs(asked.seconds);
        let most = format!("-max_total_time={}", asked.seconds);
        // New inputs go to the first directory; those in the corpus are read only.
        let found = format!("target/fuzz/{target}");
        std::fs::create_dir_all(&found).map_err(|error| format!("{found}: {error}"))?;
        let corpus = format!("fuzz/corpus/{target}");
        let words = ["run", "--features", "libfuzzer", target, &found, &corpus, "--", &most, "-rss_limit_mb=512"];
        let ended = run(&mut cargo_fuzz(&words), limit, Output::Shown);
        failed.extend(ended.failure.map(|why| format!("{target}: {why}")));
        if was_interrupted() {
            break;
        }
    }
    println!("\n{} of {} targets ran clean", chosen.len() - failed.len(), chosen.len());
    failed.iter().for_each(|why| println!("FAILED  {why}; what it found is in fuzz/artifacts"));
    Ok(failed.is_empty())
}

/// Names of the fuzz targets; fails, with the remedy, where cargo-fuzz or nightly is missing.
fn targets() -> Result<Vec<String>, String> {
    let listed = |command: &mut Command| -> CommandEnd { run(command, Duration::from_secs(60), Output::Kept) };
    if !listed(Command::new("cargo").args(["+nightly", "--version"])).succeeded() {
        return Err("the nightly toolchain is not installed: rustup toolchain install nightly".to_owned());
    }
    if !listed(&mut cargo_fuzz(&["--version"])).succeeded() {
        return Err("cargo-fuzz is not installed: cargo install cargo-fuzz --locked".to_owned());
    }
    let ended = listed(&mut cargo_fuzz(&["list"]));
    match ended.failure {
        Some(why) => Err(format!("cargo-fuzz cannot list the targets: {why}")),
        None => Ok(ended.stdout.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()),
    }
}

/// `cargo +nightly fuzz`; rustup's own cargo, since the one that started us has its toolchain fixed in the environment.
fn cargo_fuzz(arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.args(["+nightly", "fuzz"]).args(arguments).current_dir(root());
    for name in ["RUSTUP_TOOLCHAIN", "CARGO", "RUSTC", "RUSTDOC"] {
        command.env_remove(name);
    }
    command
}
