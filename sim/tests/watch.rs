//! A watched tree: some thousand seeds every day, more by `cargo run --release -p haul-sim -- --seeds 20000 watch`, and
//! proof that the check notices what it is meant to notice.

use haul_lab::{cases, count};
use haul_sim::run_many_watch;
use haul_sim::watch::{WatchMistake, WatchOutcome};

/// Seeds of the everyday run, unless `HAUL_WATCH_SEEDS` says otherwise.
const SEEDS: u64 = 10_000;
/// Seeds within which a planted mistake must show.
const PLANTED_SEEDS: u64 = 5000;

#[test]
fn no_change_of_a_watched_tree_is_missed() {
    let seeds = cases("HAUL_WATCH_SEEDS", SEEDS);
    let (failures, total) = run_many_watch(0..seeds, WatchMistake::Nothing);
    assert!(failures.is_empty(), "{} of {seeds} seeds failed, the first: {:#?}", failures.len(), &failures[0]);
    println!("{total:?}");
    let WatchOutcome { edits, scoped, whole, broken, overflows, lost } = total;
    assert!([edits, scoped, whole, broken, overflows, lost].into_iter().all(|number| number > seeds / 20), "{total:?}");
    count("watch-seeds", seeds);
}

#[test]
fn planted_mistakes_of_a_watch_are_noticed() {
    let mut missed = Vec::new();
    for mistake in WatchMistake::ALL {
        match run_many_watch(0..PLANTED_SEEDS, mistake).0.first() {
            Some(failure) => println!("{mistake:?}: seed {}: {}", failure.seed, failure.why),
            None => missed.push(mistake),
        }
    }
    assert!(missed.is_empty(), "nobody noticed {missed:?}");
}
