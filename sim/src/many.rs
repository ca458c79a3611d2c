//! Many seeds on all cores. A panic counts as a failure of its seed.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::twoway::{TwowayMistake, TwowayOutcome, run_twoway};
use crate::watch::{WatchMistake, WatchOutcome, run_watch};
use crate::{Plant, SeedOutcome, run};

/// A seed that broke a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// The results.
    pub why: String,
}

/// Runs these seeds; returns those that failed, in order, and all others' outcomes added up.
pub fn run_many(seeds: Range<u64>, plant: Plant) -> (Vec<Failure>, SeedOutcome) {
    run_all(seeds, |seed| run(seed, plant, false), SeedOutcome::plus)
}

/// The same for two-way synchronisation.
pub fn run_many_twoway(seeds: Range<u64>, mistake: TwowayMistake) -> (Vec<Failure>, TwowayOutcome) {
    run_all(seeds, |seed| run_twoway(seed, mistake, false), TwowayOutcome::plus)
}

/// The same for a watched tree.
pub fn run_many_watch(seeds: Range<u64>, mistake: WatchMistake) -> (Vec<Failure>, WatchOutcome) {
    run_all(seeds, |seed| run_watch(seed, mistake), WatchOutcome::plus)
}

fn run_all<O: Default + Send>(
    seeds: Range<u64>,
    run: impl Fn(u64) -> Result<O, String> + Sync,
    plus: fn(O, O) -> O,
) -> (Vec<Failure>, O) {
    let next = AtomicU64::new(seeds.start);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let results: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| work(&next, seeds.end, &run, plus))).collect();
        workers.into_iter().map(|worker| worker.join().expect("seeds' panics are caught")).collect()
    });
    let mut failures = Vec::new();
    let mut total = O::default();
    for (failed, sum) in results {
        failures.extend(failed);
        total = plus(total, sum);
    }
    failures.sort_by_key(|failure: &Failure| failure.seed);
    (failures, total)
}

/// A thread: takes seeds until there are none.
fn work<O: Default>(
    next: &AtomicU64,
    end: u64,
    run: impl Fn(u64) -> Result<O, String>,
    plus: fn(O, O) -> O,
) -> (Vec<Failure>, O) {
    let mut failures = Vec::new();
    let mut total = O::default();
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end {
            return (failures, total);
        }
        match catch_unwind(AssertUnwindSafe(|| run(seed))) {
            Ok(Ok(outcome)) => total = plus(total, outcome),
            Ok(Err(why)) => failures.push(Failure { seed, why }),
            Err(_) => failures.push(Failure { seed, why: "a panic".into() }),
        }
    }
}
