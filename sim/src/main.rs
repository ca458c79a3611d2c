//! `haul-sim`: runs seeds, or shows one.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_sim::{Outcome, Plant, run};

const USAGE: &str = "haul-sim [--seeds N] [--from SEED] [--one SEED [-v]]";
const SEEDS: u64 = 10_000;

fn main() -> ExitCode {
    let (mut seeds, mut from, mut one, mut verbose) = (SEEDS, 0, None, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|text| text.parse::<u64>().ok());
        match (argument.as_str(), argument == "-v") {
            ("--seeds", _) => seeds = number().unwrap_or(SEEDS),
            ("--from", _) => from = number().unwrap_or(0),
            ("--one", _) => one = number(),
            (_, true) => verbose = true,
            _ => {
                eprintln!("{USAGE}");
                return ExitCode::from(2);
            }
        }
    }
    if let Some(seed) = one {
        (from, seeds) = (seed, 1);
    }
    if many(from, seeds, verbose) == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs these seeds on every core; how many failed.
fn many(from: u64, seeds: u64, verbose: bool) -> u64 {
    let next = AtomicU64::new(from);
    let failed = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let seeds = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
                for seed in seeds.take_while(|seed| *seed < from + seeds_end(from, seeds)) {
                    show(seed, run(seed, Plant::Nothing, verbose), &failed, verbose);
                }
            });
        }
    });
    let failed = failed.into_inner();
    println!("{} of {seeds} seeds failed", failed);
    failed
}

fn seeds_end(from: u64, seeds: u64) -> u64 {
    from.saturating_add(seeds) - from
}

fn show(seed: u64, result: Result<Outcome, String>, failed: &AtomicU64, verbose: bool) {
    match result {
        Ok(outcome) if verbose => println!("seed {seed}: {outcome:?}"),
        Ok(_) => {}
        Err(why) => {
            failed.fetch_add(1, Ordering::Relaxed);
            println!("seed {seed}: {why}");
        }
    }
}
