//! A source that breaks every rule, against a target of the real program: nothing changes outside the target's
//! directory, its memory stays small, and it ends with a message, never with a panic.

mod deltas;
mod frames;
mod links;
mod memory;
mod messages;
mod offers;
mod raw;
mod scene;

use std::sync::atomic::{AtomicU64, Ordering};

use haul_e2e::{Rng, cases, count};
use scene::Scene;

/// The expected result of an attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expect {
    /// The target calls it a fault, and ends.
    Fault,
    /// It is refused, discarded or harmless, and the copy can go on.
    GoesOn,
}

/// One attack, in as many forms as there are random numbers.
type Attack = (&'static str, fn(&mut Scene, &mut Rng) -> Expect);

fn attacks() -> impl Iterator<Item = &'static Attack> {
    offers::ATTACKS.iter().chain(messages::ATTACKS).chain(frames::ATTACKS).chain(memory::ATTACKS)
}

/// Carries one attack out and holds the target to all that it promises.
fn hold(seed: u64, (name, attack): &Attack) {
    let mut rng = Rng::new(seed);
    let mut scene = Scene::new(&mut rng);
    let before = scene.outside();
    let expected = attack(&mut scene, &mut rng);
    let fault = match expected {
        Expect::Fault => Some(scene.fault().unwrap_or_else(|| panic!("seed {seed}, {name}: ended without a word"))),
        Expect::GoesOn => scene.goes_on().err(),
    };
    assert_eq!(fault.is_some(), expected == Expect::Fault, "seed {seed}, {name}: {fault:?}");
    let words = fault.unwrap_or_default();
    assert!(!words.contains("panicked"), "seed {seed}, {name}: {words}");
    assert_eq!(scene.outside(), before, "seed {seed}, {name}: something changed outside");
    let what = format!("seed {seed}, {name}");
    assert_eq!(scene.end(&what), Some(1), "{what}");
}

#[test]
fn a_hostile_source_changes_nothing_outside_and_ends_with_a_fault() {
    let number = cases("HAUL_HOSTILE", 150);
    let all: Vec<_> = attacks().collect();
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    if seed >= number {
                        return;
                    }
                    hold(seed, all[usize::try_from(seed).unwrap_or(0) % all.len()]);
                }
            });
        }
    });
    count("hostile-sources", number);
}

/// A target that took paths for true would do this.
#[test]
fn the_harness_detects_changes_outside() {
    let scene = Scene::new(&mut Rng::new(0));
    let before = scene.outside();
    std::fs::write(scene.landing().join("inside"), "harmless").unwrap();
    assert_eq!(scene.outside(), before);
    std::fs::write(scene.landing().join("../outside/planted"), "").unwrap();
    let planted = scene.outside();
    assert_ne!(planted, before);
    std::fs::write(scene.landing().join("way-out/canary"), "other").unwrap();
    assert_ne!(scene.outside(), planted);
}
