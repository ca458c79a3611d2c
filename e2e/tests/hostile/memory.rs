//! Offers that cost the source little and a target much.

use haul_e2e::Rng;
use haul_proto::wire::limits::ATTRIBUTES_MAX;

use crate::raw;
use crate::scene::Scene;
use crate::{Attack, Expect};

pub const ATTACKS: &[Attack] = &[
    ("a chain of open directories", deep_directories),
    ("many open directories side by side", wide_directories),
    ("open directories with many empty attributes", attributes),
];

/// Directories in one Offer: one after the other takes less memory than an Offer that is examined.
const BATCH: u64 = 512;

fn deep_directories(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let tree = scene.open_tree();
    let name = vec![b'd'; rng.pick(&[1, 9])];
    let mut parent = tree;
    for _ in 0..4096 / BATCH {
        let entries: Vec<_> = (0..BATCH)
            .map(|_| {
                let entry = raw::directory(parent, &name);
                parent = if parent == tree { scene.next } else { parent + 1 };
                entry
            })
            .collect();
        scene.needs(&entries);
    }
    Expect::GoesOn
}

/// An attribute of 8 bytes on the wire takes some 70 in memory.
fn attributes(scene: &mut Scene, _: &mut Rng) -> Expect {
    let tree = scene.open_tree();
    for batch in 0..40 {
        let names = (0..100).map(|at| format!("{}", batch * 100 + at));
        let entries: Vec<_> =
            names.map(|name| raw::directory_with_attributes(tree, name.as_bytes(), ATTRIBUTES_MAX)).collect();
        scene.offer(&entries);
    }
    if scene.keeps_attributes { Expect::Fault } else { Expect::GoesOn }
}

fn wide_directories(scene: &mut Scene, _: &mut Rng) -> Expect {
    let tree = scene.open_tree();
    for batch in 0..4096 / BATCH {
        let entries: Vec<_> =
            (0..BATCH).map(|at| raw::directory(tree, format!("{}", batch * BATCH + at).as_bytes())).collect();
        scene.needs(&entries);
    }
    Expect::GoesOn
}
