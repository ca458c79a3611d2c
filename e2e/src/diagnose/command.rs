//! The command: cases, settings, repetitions; the table, and the count at its end.

use std::process::ExitCode;

use clap::Parser;

use super::busy::ProcessorSnapshot;
use super::cases::{DiagnoseCase, cases};
use super::judge::{CaseOutcome, Ruling};
use super::stage::{play, show};

/// How long a limit holds a copy up.
const SECONDS: u64 = 3;
/// Most processors in use by other programs during a run, for a wrong verdict to count.
const OTHERS_MAX: f64 = 0.5;
/// Runs of a case beside other programs.
const ATTEMPTS_MAX: u64 = 3;

/// Makes each limit of a copy on purpose, and compares haul's verdict with it. Needs root.
#[derive(Debug, Default, PartialEq, Eq, Parser)]
#[command(bin_name = "cargo xtask lab diagnose", args_override_self = true)]
struct DiagnoseArguments {
    /// Only cases with PATTERN in their name (source-disk, mild, /pull); repeatable
    #[arg(long = "case", value_name = "PATTERN")]
    patterns: Vec<String>,
    /// Each case N times
    #[arg(long, value_name = "N", default_value_t = 1)]
    runs: u64,
    /// The cases of the everyday suite: each limit once
    #[arg(long)]
    quick: bool,
    /// How long a limit holds a copy up (default: 3)
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// Settings drawn from their ranges, other ones for each N
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// A line of JSON for each case, with the copy's summary
    #[arg(long)]
    json: bool,
    /// Print each case's output for people, without judging it
    #[arg(long)]
    show: bool,
    /// The cases and their settings
    #[arg(long)]
    list: bool,
}

/// Runs the command. The status is 1 if any verdict is wrong.
pub fn main() -> ExitCode {
    run(&DiagnoseArguments::parse())
}

/// Tries the everyday suite's case of this limit; `None` where it has none. A wrong verdict beside other programs is
/// tried again.
pub fn everyday(limit: &str) -> Option<CaseOutcome> {
    let asked = DiagnoseArguments { quick: true, patterns: vec![format!("{limit}/")], ..DiagnoseArguments::default() };
    let cases = chosen(&asked);
    let case = cases.first()?;
    let mut outcome = attempt(case, &asked, 0);
    for number in 1..ATTEMPTS_MAX {
        // The emulator shares the processors: beside other programs, delays are theirs, and a wrong verdict is no evidence.
        if outcome.ruling != Ruling::Wrong || outcome.others < OTHERS_MAX {
            break;
        }
        outcome = attempt(case, &asked, number);
    }
    Some(outcome)
}

/// Limits with a case in the everyday suite.
pub fn everyday_limits() -> Vec<String> {
    let all = chosen(&DiagnoseArguments { quick: true, ..DiagnoseArguments::default() });
    all.iter().filter_map(|case| case.name().split_once('/').map(|(limit, _)| limit.to_owned())).collect()
}

fn chosen(asked: &DiagnoseArguments) -> Vec<DiagnoseCase> {
    let seconds = asked.seconds.unwrap_or(SECONDS);
    let mut cases = cases(asked.seed, seconds);
    let is_named = |name: &str| asked.patterns.is_empty() || asked.patterns.iter().any(|part| name.contains(part));
    cases.retain(|case| (!asked.quick || case.everyday) && is_named(&case.name()));
    cases
}

fn run(asked: &DiagnoseArguments) -> ExitCode {
    // A case's panic message goes into its line.
    std::panic::set_hook(Box::new(|_| {}));
    let cases = chosen(asked);
    if asked.list {
        cases.iter().for_each(|case| println!("{:<34}{}", case.name(), case.settings()));
        return ExitCode::SUCCESS;
    }
    if asked.show {
        return show_all(&cases, asked);
    }
    if !asked.json {
        println!("{}", CaseOutcome::head());
    }
    let mut outcomes = Vec::new();
    for turn in 0..asked.runs {
        for case in &cases {
            let outcome = attempt(case, asked, turn);
            if asked.json {
                println!("{}", outcome.json())
            } else {
                println!("{}", outcome.line())
            }
            outcomes.push(outcome);
        }
    }
    let count = |wanted: fn(&CaseOutcome) -> bool| outcomes.iter().filter(|outcome| wanted(outcome)).count();
    let right = count(|outcome| outcome.ruling == Ruling::Right);
    let wrong = count(CaseOutcome::is_wrong);
    if !asked.json {
        println!("\n{right} right, {wrong} wrong, {} skipped", outcomes.len() - right - wrong);
    }
    if wrong > 0 || outcomes.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn show_all(cases: &[DiagnoseCase], asked: &DiagnoseArguments) -> ExitCode {
    let mut status = ExitCode::SUCCESS;
    for case in cases {
        match show(&case.scene, case.way, asked.seed.unwrap_or(0)) {
            Ok(text) => println!("{}: {}\n\n{text}", case.name(), case.settings()),
            Err(why) => {
                println!("{}: {why:?}\n", case.name());
                status = ExitCode::FAILURE;
            }
        }
    }
    status
}

fn attempt(case: &DiagnoseCase, asked: &DiagnoseArguments, turn: u64) -> CaseOutcome {
    let seed = asked.seed.unwrap_or(0).wrapping_add(turn);
    let look = ProcessorSnapshot::now();
    let mut outcome = CaseOutcome::judge(case, play(&case.scene, case.way, seed));
    outcome.others = look.others_since(&outcome.summary);
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<DiagnoseArguments, clap::Error> {
        DiagnoseArguments::try_parse_from(["diagnose"].into_iter().chain(line.split_whitespace()))
    }

    #[test]
    fn every_option_is_taken() {
        let asked = parsed("--case loss --case=/pull --runs 3 --quick --seconds 4 --seed=9 --json --show --list");
        let patterns = vec!["loss".to_owned(), "/pull".to_owned()];
        let (seconds, seed) = (Some(4), Some(9));
        let (json, show, list) = (true, true, true);
        let expected = DiagnoseArguments { patterns, runs: 3, quick: true, seconds, seed, json, show, list };
        assert_eq!(asked.expect("fine"), expected);
        for word in ["--sead", "--runs x", "--seed"] {
            assert!(parsed(word).is_err(), "{word}");
        }
    }

    #[test]
    fn cases_are_chosen_by_parts_of_their_names() {
        let names =
            |line: &str| chosen(&parsed(line).expect("fine")).iter().map(DiagnoseCase::name).collect::<Vec<_>>();
        assert_eq!(names("--case loss/mild"), ["loss/mild/push", "loss/mild/pull"]);
        assert!(names("--quick").len() >= 10);
        assert!(names("--case nothing-like-it").is_empty());
    }
}
