//! The everyday run: ten thousand seeds, and proof that the simulator notices what it is meant to notice.

use haul_sim::{Outcome, Plant, run, run_many};

/// Seeds of the everyday run. `haul-sim --from` goes on where it stops.
const SEEDS: u64 = 10_000;
/// Seeds within which a planted fault must show.
const PLANTED_SEEDS: u64 = 200;

#[test]
fn no_seed_breaks_a_rule() {
    let (failures, total) = run_many(0..SEEDS, Plant::Nothing);
    assert!(
        failures.is_empty(),
        "{} of {SEEDS} seeds failed, the first: {:#?}",
        failures.len(),
        &failures[..failures.len().min(5)]
    );
    // Everything that can happen does, and most of what is offered comes through all the same.
    let Outcome { crashes, done, failed, refused, resent, abandoned, mismatched, to_devices, broken, .. } = total;
    let rare = [crashes, failed, refused, resent, abandoned, mismatched, to_devices, broken].into_iter().min();
    assert!(rare.is_some_and(|least| least > SEEDS / 100) && done > failed * 4, "{total:?}");
}

#[test]
fn what_is_broken_on_purpose_is_noticed() {
    let missed: Vec<_> =
        Plant::ALL.into_iter().filter(|plant| run_many(0..PLANTED_SEEDS, *plant).0.is_empty()).collect();
    assert!(missed.is_empty(), "nobody noticed {missed:?}");
}

#[test]
fn a_seed_always_goes_the_same_way() {
    for seed in 0..50 {
        let (one, two) = (run(seed, Plant::SkipCrc, false), run(seed, Plant::SkipCrc, false));
        assert_eq!(format!("{one:?}"), format!("{two:?}"), "seed {seed}");
    }
}
