//! Two-way synchronisation: some hundred seeds every day, 20,000 by hand, and proof that the checks notice what they are
//! meant to notice. `cargo run --release -p haul-sim -- --seeds 20000 twoway` runs seeds, with `--one SEED -v` shows one.

use haul_lab::{cases, count};
use haul_sim::run_many_twoway;
use haul_sim::twoway::{TwowayMistake, TwowayOutcome, run_twoway};

/// Seeds of the everyday run, unless `HAUL_TWOWAY_SEEDS` says otherwise.
const SEEDS: u64 = 500;
/// Seeds within which a planted mistake must show.
const PLANTED_SEEDS: u64 = 1000;

#[test]
fn no_seed_of_two_way_synchronisation_loses_anything() {
    let seeds = cases("HAUL_TWOWAY_SEEDS", SEEDS);
    let (failures, total) = run_many_twoway(0..seeds, TwowayMistake::Nothing);
    assert!(failures.is_empty(), "{} of {seeds} seeds failed, the first: {:#?}", failures.len(), &failures[0]);
    println!("{total:?}");
    // Everything that can happen does.
    let TwowayOutcome { runs, crashes, unions, actions, moves, skipped, conflicts, kept } = total;
    let rare = [runs, crashes, unions, actions, moves, skipped, conflicts, kept];
    assert!(rare.into_iter().all(|number| number > seeds / 20), "{total:?}");
    count("twoway-seeds", seeds);
}

#[test]
fn planted_mistakes_of_two_way_synchronisation_are_noticed() {
    let mut missed = Vec::new();
    for mistake in TwowayMistake::ALL {
        match run_many_twoway(0..PLANTED_SEEDS, mistake).0.first() {
            Some(failure) => println!("{mistake:?}: seed {}: {}", failure.seed, failure.why),
            None => missed.push(mistake),
        }
    }
    assert!(missed.is_empty(), "nobody noticed {missed:?}");
}

#[test]
fn a_seed_of_two_way_synchronisation_always_takes_the_same_steps() {
    for seed in 0..20 {
        let (one, two) =
            (run_twoway(seed, TwowayMistake::Nothing, false), run_twoway(seed, TwowayMistake::Nothing, false));
        assert_eq!(one, two, "seed {seed}");
    }
}
