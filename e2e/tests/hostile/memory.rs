//! Offers that cost the source little and a target much.

use haul_e2e::Rng;
use haul_proto::limits::{
    ATTRIBUTES_MAX, LINKED_DIRECTORY_BYTES, LINKED_FILE_BYTES, LINKED_FILES_BYTES_MAX, OFFER_ENTRIES_MAX,
};
use haul_proto::wire::message::TargetMessage;
use haul_proto::wire::storage::Fsync;

use super::scene::Scene;
use super::{Attack, Expect, raw};

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

/// A file with another name to come, of 5 bytes.
pub fn linked_file(parent: u64, name: &[u8]) -> Vec<u8> {
    raw::with_more(raw::file(parent, name, 5), &[raw::MORE_NAMES, 2])
}

/// Offers directories with one such file each, and ends them; they take names of 255 bytes. The target holds them until
/// the files' other names come. A reserved name is refused, so no file has to be sent.
fn linked_directories(scene: &mut Scene, tree: u64, count: u64) -> usize {
    let file = format!(".haul-{:024}.part", 1);
    for batch in 0..count / BATCH {
        let first = scene.next;
        let directories = (0..BATCH).map(|at| raw::directory(tree, format!("{:0>255}", batch * BATCH + at).as_bytes()));
        let pairs = (0..).zip(directories);
        let entries: Vec<_> =
            pairs.flat_map(|(at, entry)| [entry, linked_file(first + 2 * at, file.as_bytes())]).collect();
        scene.needs(&entries);
        (0..BATCH).for_each(|at| scene.say(&raw::directory_end(first + 2 * at)));
        let mut done = 0;
        while done < BATCH {
            let more = scene.wait_for(|message| match message {
                TargetMessage::Done { runs } => Some(runs.iter().map(|(_, many)| many).sum::<u64>()),
                _ => None,
            });
            done += more.expect("it keeps to the limit");
        }
    }
    LINKED_FILE_BYTES + file.len() + LINKED_DIRECTORY_BYTES + 255
}

#[test]
fn missing_hard_links_take_bounded_memory_and_end_with_a_fault() {
    let mut scene = Scene::with(&mut Rng::new(1), |request| {
        request.metadata.preserve.hard_links = true;
        request.fsync = Fsync::None;
    });
    let tree = scene.open_tree();
    let directories = 4096;
    let each = linked_directories(&mut scene, tree, directories);
    // Contents of an unrequested directory are refused, and still count.
    let refused = scene.offer(&[raw::operand(raw::DIRECTORY, 7, &[])]);
    let name = [b'n'; 255];
    let counted = usize::try_from(directories).expect("a few") * each + 2 * LINKED_DIRECTORY_BYTES;
    let mut left = (LINKED_FILES_BYTES_MAX - counted) / (LINKED_FILE_BYTES + name.len());
    while left > 0 {
        let batch = left.min(OFFER_ENTRIES_MAX);
        scene.needs(&vec![linked_file(refused, &name); batch]);
        left -= batch;
    }
    scene.goes_on().expect("it keeps to the limit");
    scene.offer(&[linked_file(refused, &name)]);
    let fault = scene.fault().expect("a fault");
    assert!(fault.contains("files with further hard links"), "{fault}");
    assert_eq!(scene.end("hard links that never come"), Some(1));
}
