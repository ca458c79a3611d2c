//! Unrequested offers, at forbidden places.

use haul_e2e::Rng;
use haul_proto::limits::{ENTRY_WINDOW, OFFER_ENTRIES_MAX, OPEN_DIRECTORIES_MAX, SYMLINK_MAX};
use haul_proto::wire::message::TransferNeed;

use super::raw::{self, DIRECTORY, FILE, LINK};
use super::scene::{SMALL_MAX, Scene};
use super::{Attack, Expect};

pub const ATTACKS: &[Attack] = &[
    ("a name that is none", bad_name),
    ("a name that haul keeps for itself", reserved_name),
    ("a child of a link", child_of_link),
    ("a child of a file", child_of_file),
    ("a child of what is not known", child_of_unknown),
    ("a child of a directory that has ended", child_of_ended),
    ("a directory in the place of a link that it has offered", directory_over_own_link),
    ("a directory in the place of a link that was there", directory_over_link),
    ("a file in the place of a link", file_over_link),
    ("a link in the place of a directory", link_over_directory),
    ("an operand beyond those asked for", operand_beyond),
    ("an operand of another kind", operand_of_other_kind),
    ("an operand twice", operand_twice),
    ("an entry of a kind that is none", unknown_kind),
    ("metadata that cannot be", bad_meta),
    ("a link that cannot be", bad_link),
    ("ids out of turn", ids_out_of_turn),
    ("an offer of nothing, or of too much", wrong_number_of_entries),
    ("more entries than the window holds", window_overrun),
    ("more open directories than there may be", depth_overrun),
    ("a file larger than any disk", huge_file),
];

/// An entry of any of the three kinds.
fn any_kind(rng: &mut Rng, parent: u64, name: &[u8]) -> Vec<u8> {
    match rng.below(3) {
        0 => raw::directory(parent, name),
        1 => raw::file(parent, name, 5),
        _ => raw::link(parent, name, b"anywhere"),
    }
}

fn bad_name(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let names: [&[u8]; 11] = [
        b"",
        b".",
        b"..",
        b"/",
        b"a/b",
        b"../outside/planted",
        b"/planted",
        b"way-out/planted",
        b"a\0b",
        &[b'x'; 256],
        &[b'x'; 4096],
    ];
    let tree = scene.open_tree();
    let name = rng.pick(&names);
    let entry = any_kind(rng, tree, name);
    scene.offer(&[entry]);
    Expect::Fault
}

fn reserved_name(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let name = format!(".haul-{:024}.part", rng.below(1 << 40));
    let tree = scene.open_tree();
    let entry = any_kind(rng, tree, name.as_bytes());
    assert_eq!(scene.needs(&[entry]), [TransferNeed::Refused]);
    assert!(!scene.landing().join("tree").join(name).exists());
    Expect::GoesOn
}

fn child_of_link(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let tree = scene.open_tree();
    let points_to = scene.way_out(rng);
    let link = scene.offer(&[raw::link(tree, b"link", &points_to)]);
    let child = any_kind(rng, link, b"planted");
    scene.offer(&[child]);
    Expect::Fault
}

fn child_of_file(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let tree = scene.open_tree();
    // Both in one offer: the child arrives before the file is looked up.
    let child = any_kind(rng, scene.next, b"planted");
    let size = rng.pick(&[5, SMALL_MAX + 1]);
    let entries = [raw::file(tree, b"file", size), child];
    if rng.chance(500) {
        scene.offer(&entries);
    } else {
        for entry in &entries {
            scene.offer(std::slice::from_ref(entry));
        }
    }
    Expect::Fault
}

fn child_of_unknown(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let tree = scene.open_tree();
    let parent = rng.pick(&[tree + 1, tree + 2, 1 << 40, u64::MAX]);
    let entry = any_kind(rng, parent, b"planted");
    scene.offer(&[entry]);
    Expect::Fault
}

fn child_of_ended(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let tree = scene.open_tree();
    let directory = scene.offer(&[raw::directory(tree, b"directory")]);
    scene.say(&raw::directory_end(directory));
    let entry = any_kind(rng, directory, b"planted");
    scene.offer(&[entry]);
    Expect::Fault
}

/// Offers a directory and a file in it, and sends the file; whether they were needed.
fn fill(scene: &mut Scene, parent: u64, name: &[u8]) -> [TransferNeed; 2] {
    let directory = scene.next;
    let needs = scene.needs(&[raw::directory(parent, name), raw::file(directory, b"canary", 9)]);
    scene.pack(&[(directory + 1, 9)]);
    needs.try_into().expect("two answers")
}

fn directory_over_own_link(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let tree = scene.open_tree();
    let points_to = scene.way_out(rng);
    scene.offer(&[raw::link(tree, b"link", &points_to)]);
    assert_eq!(fill(scene, tree, b"link"), [TransferNeed::Refused; 2]);
    Expect::GoesOn
}

fn directory_over_link(scene: &mut Scene, _: &mut Rng) -> Expect {
    let tree = scene.open_tree();
    assert_eq!(fill(scene, tree, b"way-out"), [TransferNeed::Refused; 2]);
    Expect::GoesOn
}

fn file_over_link(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let tree = scene.open_tree();
    let points_to = [scene.way_out(rng), b"/canary".to_vec()].concat();
    let link = scene.next;
    let needs = scene.needs(&[raw::link(tree, b"link", &points_to), raw::file(tree, b"link", 9)]);
    // With -f, the link itself is replaced.
    assert_eq!(needs[1], if scene.force { TransferNeed::All } else { TransferNeed::Refused });
    scene.pack(&[(link + 1, 9)]);
    Expect::GoesOn
}

fn link_over_directory(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let tree = scene.open_tree();
    let points_to = scene.way_out(rng);
    assert_eq!(fill(scene, tree, b"directory"), [TransferNeed::All; 2]);
    assert_eq!(scene.needs(&[raw::link(tree, b"directory", &points_to)]), [TransferNeed::Refused]);
    assert_eq!(fill(scene, tree, b"directory")[0], TransferNeed::All);
    assert!(scene.landing().join("tree/directory").is_dir());
    Expect::GoesOn
}

fn operand_beyond(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let most = 1 << 32;
    let operand = rng.pick(&[2, 3, most - 1, most, u64::MAX]);
    let entry = match rng.chance(500) {
        true => raw::operand(DIRECTORY, operand, &[]),
        false => raw::operand(FILE, operand, &raw::number(5)),
    };
    if operand >= most {
        scene.offer(&[entry]);
        return Expect::Fault;
    }
    assert_eq!(scene.needs(&[entry]), [TransferNeed::Refused]);
    Expect::GoesOn
}

fn operand_of_other_kind(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let first = scene.next;
    let entries = match rng.below(4) {
        0 => vec![raw::operand(FILE, 0, &raw::number(5))],
        1 => vec![raw::operand(LINK, 0, &raw::held(b"outside"))],
        2 => vec![raw::operand(LINK, 1, &raw::held(b"outside"))],
        _ => vec![raw::operand(DIRECTORY, 1, &[]), raw::file(first, b"planted", 5)],
    };
    assert!(scene.needs(&entries).iter().all(|need| *need == TransferNeed::Refused));
    Expect::GoesOn
}

fn operand_twice(scene: &mut Scene, _: &mut Rng) -> Expect {
    let tree = scene.open_tree();
    let again = scene.open_tree();
    scene.offer(&[raw::directory(tree, b"same"), raw::directory(again, b"same")]);
    Expect::GoesOn
}

fn unknown_kind(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let tree = scene.open_tree();
    let tag = rng.pick(&[0, 4, 5, 6, 7, 63, 127, 128, 132, 255]);
    // As a device would be written, if there were such entries.
    let numbers = [raw::number(8), raw::number(1)].concat();
    scene.offer(&[raw::entry(tag, &raw::below(tree, b"device"), &numbers, &raw::meta(0o666, 0, 0))]);
    Expect::Fault
}

fn bad_meta(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let tree = scene.open_tree();
    let meta = match rng.below(3) {
        0 => raw::meta(0o10_000 << rng.below(4), 0, 0),
        1 => raw::meta(0o644, 1 << 32, 0),
        _ => raw::meta(0o644, 0, 1_000_000_000),
    };
    scene.offer(&[raw::entry(FILE, &raw::below(tree, b"file"), &raw::number(5), &meta)]);
    Expect::Fault
}

fn bad_link(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let tree = scene.open_tree();
    let held = [Vec::new(), b"a\0b".to_vec(), vec![b'x'; SYMLINK_MAX + 1]];
    scene.offer(&[raw::link(tree, b"link", &held[rng.index(held.len())])]);
    Expect::Fault
}

fn ids_out_of_turn(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let tree = scene.open_tree();
    let first = rng.pick(&[0, scene.next + 1, 1 << 40, u64::MAX]);
    scene.say(&raw::offer(first, &[raw::file(tree, b"file", 5)]));
    Expect::Fault
}

fn wrong_number_of_entries(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let tree = scene.open_tree();
    let number = rng.pick(&[0, OFFER_ENTRIES_MAX + 1, 5000]);
    scene.offer(&vec![raw::file(tree, b"file", 5); number]);
    Expect::Fault
}

fn window_overrun(scene: &mut Scene, _: &mut Rng) -> Expect {
    let tree = scene.open_tree();
    for _ in 0..=ENTRY_WINDOW / OFFER_ENTRIES_MAX {
        let first = scene.next;
        let entries: Vec<_> =
            (0..OFFER_ENTRIES_MAX as u64).map(|at| raw::file(tree, format!("{}", first + at).as_bytes(), 5)).collect();
        scene.offer(&entries);
    }
    Expect::Fault
}

/// Below an unrequested entry, to avoid filling a disk with directories.
fn depth_overrun(scene: &mut Scene, _: &mut Rng) -> Expect {
    scene.offer(&[raw::operand(DIRECTORY, 7, &[])]);
    for _ in 0..=OPEN_DIRECTORIES_MAX / OFFER_ENTRIES_MAX {
        let first = scene.next;
        let entries: Vec<_> =
            (first..first + OFFER_ENTRIES_MAX as u64).map(|id| raw::directory(id - 1, b"d")).collect();
        scene.offer(&entries);
    }
    Expect::Fault
}

fn huge_file(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let tree = scene.open_tree();
    let size = rng.pick(&[u64::MAX, u64::MAX - 1, 1 << 63, i64::MAX.cast_unsigned(), 1 << 62]);
    assert_eq!(scene.needs(&[raw::file(tree, b"huge", size)]), [TransferNeed::Refused]);
    Expect::GoesOn
}
