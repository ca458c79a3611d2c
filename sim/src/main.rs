//! `haul-sim`: runs seeds, or shows one. `haul-sim jobs` simulates a job at scale, `haul-sim twoway`
//! runs seeds of two-way synchronisation, `haul-sim watch` of a watched tree.

mod job_arguments;

use std::fmt::Debug;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use haul_sim::jobs::run_job;
use haul_sim::twoway::{TwowayMistake, run_twoway};
use haul_sim::watch::{WatchMistake, run_watch};
use haul_sim::{Failure, Plant, run, run_many, run_many_twoway, run_many_watch};
use job_arguments::JobArguments;

/// Runs seeds of the simulator, or shows one.
#[derive(Parser)]
#[command(args_override_self = true)]
struct SimArguments {
    /// How many seeds are run
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    seeds: u64,
    /// The first seed
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    from: u64,
    /// Shows this seed instead
    #[arg(long, value_name = "SEED")]
    one: Option<u64>,
    /// With --one: every step
    #[arg(short)]
    verbose: bool,
    #[command(subcommand)]
    simulation: Option<OtherSimulation>,
}

#[derive(Subcommand)]
enum OtherSimulation {
    Jobs(JobArguments),
    /// Seeds of two-way synchronisation
    Twoway,
    /// Seeds of a watched tree
    Watch,
}

fn main() -> ExitCode {
    let asked = SimArguments::parse();
    let clean = match (asked.simulation, asked.one) {
        (Some(OtherSimulation::Twoway), Some(seed)) => show_twoway(seed, asked.verbose),
        (Some(OtherSimulation::Twoway), None) => run_twoway_range(asked.from, asked.seeds),
        (Some(OtherSimulation::Watch), Some(seed)) => show_watch(seed),
        (Some(OtherSimulation::Watch), None) => run_watch_range(asked.from, asked.seeds),
        (Some(OtherSimulation::Jobs(job)), _) => show_job(&job),
        (None, Some(seed)) => show(seed, asked.verbose),
        (None, None) => run_range(asked.from, asked.seeds),
    };
    if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
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

fn show_twoway(seed: u64, verbose: bool) -> bool {
    let result = run_twoway(seed, TwowayMistake::Nothing, verbose);
    println!("seed {seed}: {result:?}");
    result.is_ok()
}

fn run_twoway_range(from: u64, seeds: u64) -> bool {
    let (failures, total) = run_many_twoway(from..from.saturating_add(seeds), TwowayMistake::Nothing);
    report(seeds, &failures, &total)
}

fn show_watch(seed: u64) -> bool {
    let result = run_watch(seed, WatchMistake::Nothing);
    println!("seed {seed}: {result:?}");
    result.is_ok()
}

fn run_watch_range(from: u64, seeds: u64) -> bool {
    let (failures, total) = run_many_watch(from..from.saturating_add(seeds), WatchMistake::Nothing);
    report(seeds, &failures, &total)
}

fn show_job(asked: &JobArguments) -> bool {
    match run_job(&asked.scenario()) {
        Ok(figures) => print!("{figures}"),
        Err(why) => {
            println!("{asked:?}: {why}");
            return false;
        }
    }
    true
}

fn run_range(from: u64, seeds: u64) -> bool {
    let (failures, total) = run_many(from..from.saturating_add(seeds), Plant::Nothing);
    report(seeds, &failures, &total)
}

fn report(seeds: u64, failures: &[Failure], total: &impl Debug) -> bool {
    for failure in failures {
        println!("seed {}: {}", failure.seed, failure.why);
    }
    println!("{} of {seeds} seeds failed; the others: {total:?}", failures.len());
    failures.is_empty()
}
