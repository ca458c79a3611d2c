//! The everyday run: twenty thousand seeds, and proof that the simulator notices what it is meant to notice.

use haul_lab::{cases, count};
use haul_sim::{Plant, SeedOutcome, run, run_many};

/// Seeds of the everyday run; `HAUL_SEEDS` makes it more, and `haul-sim --from` goes on where it stops.
const SEEDS: u64 = 20_000;
/// Seeds within which a planted fault must show.
const PLANTED_SEEDS: u64 = 400;

#[test]
fn no_seed_breaks_a_rule() {
    let seeds = cases("HAUL_SEEDS", SEEDS);
    let (failures, total) = run_many(0..seeds, Plant::Nothing);
    assert!(
        failures.is_empty(),
        "{} of {seeds} seeds failed, the first: {:#?}",
        failures.len(),
        &failures[..failures.len().min(5)]
    );
    // Everything that can happen does, and most of what is offered comes through all the same.
    println!("{total:?}");
    let SeedOutcome { crashes, done, failed, refused, resent, abandoned, mismatched, to_devices, broken, .. } = total;
    let SeedOutcome { held, unproven, healed, .. } = total;
    let rare = [crashes, failed, refused, resent, abandoned, mismatched, to_devices, broken, held, unproven, healed];
    assert!(rare.into_iter().all(|number| number > seeds / 100) && done > failed * 4, "{total:?}");
    count("simulator-seeds", seeds);
}

#[test]
fn planted_bugs_are_noticed() {
    let mut missed = Vec::new();
    for plant in Plant::ALL {
        match run_many(0..PLANTED_SEEDS, plant).0.first() {
            Some(failure) => println!("{plant:?}: seed {}: {}", failure.seed, failure.why),
            None => missed.push(plant),
        }
    }
    assert!(missed.is_empty(), "nobody noticed {missed:?}");
}

#[test]
fn a_seed_always_takes_the_same_steps() {
    for seed in 0..50 {
        let (one, two) = (run(seed, Plant::SkipCheck, false), run(seed, Plant::SkipCheck, false));
        assert_eq!(format!("{one:?}"), format!("{two:?}"), "seed {seed}");
    }
}
