//! `haul-sim`: runs seeds, or shows one.

use std::process::ExitCode;

use haul_sim::{Plant, run, run_many};

const USAGE: &str = "haul-sim [--seeds N] [--from SEED] [--one SEED [-v]]";
/// Seeds that are run unless something else is asked for.
const SEEDS: u64 = 10_000;

/// What was asked for.
#[derive(Default)]
struct SimArguments {
    seeds: Option<u64>,
    from: u64,
    one: Option<u64>,
    verbose: bool,
}

fn main() -> ExitCode {
    let Some(asked) = parse(std::env::args().skip(1)) else {
        eprintln!("usage: {USAGE}");
        return ExitCode::from(2);
    };
    let clean = match asked.one {
        Some(seed) => show(seed, asked.verbose),
        None => run_range(asked.from, asked.seeds.unwrap_or(SEEDS)),
    };
    if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Option<SimArguments> {
    let mut asked = SimArguments::default();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--seeds" => asked.seeds = Some(arguments.next()?.parse().ok()?),
            "--from" => asked.from = arguments.next()?.parse().ok()?,
            "--one" => asked.one = Some(arguments.next()?.parse().ok()?),
            "-v" => asked.verbose = true,
            _ => return None,
        }
    }
    Some(asked)
}

fn show(seed: u64, verbose: bool) -> bool {
    match run(seed, Plant::Nothing, verbose) {
        Ok(outcome) => println!("seed {seed}: {outcome:?}"),
        Err(why) => {
            println!("seed {seed}: {why}");
            return false;
        }
    }
    true
}

fn run_range(from: u64, seeds: u64) -> bool {
    let (failures, total) = run_many(from..from.saturating_add(seeds), Plant::Nothing);
    for failure in &failures {
        println!("seed {}: {}", failure.seed, failure.why);
    }
    println!("{} of {seeds} seeds failed; the others: {total:?}", failures.len());
    failures.is_empty()
}
