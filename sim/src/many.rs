//! Many seeds on all cores. A panic counts as a failure of its seed.

use std::ops::Range;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicU64, Ordering};

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
    let next = AtomicU64::new(seeds.start);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let results: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| work(&next, seeds.end, plant))).collect();
        workers.into_iter().map(|worker| worker.join().expect("seeds' panics are caught")).collect()
    });
    let mut failures = Vec::new();
    let mut total = SeedOutcome::default();
    for (failed, sum) in results {
        failures.extend(failed);
        total = total.plus(sum);
    }
    failures.sort_by_key(|failure: &Failure| failure.seed);
    (failures, total)
}

/// A thread: takes seeds until there are none.
fn work(next: &AtomicU64, end: u64, plant: Plant) -> (Vec<Failure>, SeedOutcome) {
    let mut failures = Vec::new();
    let mut total = SeedOutcome::default();
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end {
            return (failures, total);
        }
        match catch_unwind(|| run(seed, plant, false)) {
            Ok(Ok(outcome)) => total = total.plus(outcome),
            Ok(Err(why)) => failures.push(Failure { seed, why }),
            Err(_) => failures.push(Failure { seed, why: "a panic".into() }),
        }
    }
}
