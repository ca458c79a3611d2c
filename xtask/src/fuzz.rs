//! `cargo xtask fuzz`: gives each fuzz target some time, with cargo-fuzz and the nightly toolchain.
//!
//! The everyday run replays the saved corpus instead, and what becomes of it at random (`cargo xtask test --only fuzz`), for
//! which the stable toolchain is enough.

use std::process::{Command, ExitCode};
use std::time::Duration;

use crate::coverage;
use crate::run::{CommandEnd, Output, run, was_interrupted};
use crate::suggest;
use crate::workspace::root;

/// Seconds for each target where `--seconds` does not say otherwise.
const DEFAULT_SECONDS: u64 = 60;
/// What building a target may take on top.
const BUILD_LIMIT: Duration = Duration::from_secs(30 * 60);

#[derive(Debug, PartialEq, Eq)]
struct FuzzArguments {
    seconds: u64,
    /// Names of targets; none means all.
    targets: Vec<String>,
    /// Instead: what of proto the corpus reaches.
    coverage: bool,
}

/// Runs the chore.
pub fn main(arguments: Vec<String>) -> ExitCode {
    match parse(&arguments).and_then(fuzz) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("cargo xtask fuzz: {message}");
            ExitCode::from(2)
        }
    }
}

fn parse(arguments: &[String]) -> Result<FuzzArguments, String> {
    let mut asked = FuzzArguments { seconds: DEFAULT_SECONDS, targets: Vec::new(), coverage: false };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == "--seconds" {
            let value = rest.next().ok_or("--seconds needs a number")?;
            asked.seconds = seconds(value)?;
        } else if let Some(value) = argument.strip_prefix("--seconds=") {
            asked.seconds = seconds(value)?;
        } else if argument == "--coverage" {
            asked.coverage = true;
        } else if argument.starts_with('-') {
            return Err(suggest::unknown("option", argument, ["--seconds", "--coverage"], "cargo xtask help"));
        } else {
            asked.targets.push(argument.clone());
        }
    }
    Ok(asked)
}

fn seconds(value: &str) -> Result<u64, String> {
    value.parse().ok().filter(|&n| n > 0).ok_or_else(|| format!("--seconds takes a whole number from 1, not '{value}'"))
}

/// Fuzzes each target in turn; whether none of them found anything.
fn fuzz(asked: FuzzArguments) -> Result<bool, String> {
    if asked.coverage {
        return coverage::measure().map(|()| true);
    }
    let known = targets()?;
    for name in &asked.targets {
        if !known.contains(name) {
            return Err(suggest::unknown("target", name, known.iter().map(String::as_str), "cargo +nightly fuzz list"));
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn reads_its_arguments() {
        assert_eq!(parse(&[]), Ok(FuzzArguments { seconds: DEFAULT_SECONDS, targets: vec![], coverage: false }));
        assert_eq!(
            parse(&words("--seconds 5 control frame")),
            Ok(FuzzArguments { seconds: 5, targets: words("control frame"), coverage: false })
        );
        assert!(parse(&words("--coverage")).is_ok_and(|asked| asked.coverage));
        assert!(parse(&words("--seconds 0")).is_err());
        assert!(parse(&words("--seconds")).is_err());
        assert!(parse(&words("--secondz 5")).is_err_and(|text| text.contains("--seconds")));
    }
}
