//! Frames and packs of unneeded entries, at invalid places, and with wrong lengths.

use haul_e2e::Rng;
use haul_proto::encoding::Writer;
use haul_proto::ids::{CopyNumber, EntryId};
use haul_proto::integrity::{FrameLen, FrameTree, frame_check};
use haul_proto::limits::{FRAME_MAX, FRAME_MIN, PACK_FILES_MAX};
use haul_proto::wire::frame::{DeltaFrame, RecordTrailer};
use haul_proto::wire::message::{TargetMessage, TransferNeed};

use super::scene::{FRAME, Scene};
use super::{Attack, Expect, raw};

pub const ATTACKS: &[Attack] = &[
    ("a frame of what needs none", frame_not_needed),
    ("a frame that lies where none may", misplaced_frame),
    ("a frame that is too long or too short", frame_of_wrong_length),
    ("a frame that came before", frame_again),
    ("a frame that was damaged", damaged_frame),
    ("a pack of what needs none", pack_not_needed),
    ("a pack that is not as long as its files", pack_of_wrong_length),
    ("a pack of nothing, or of too much", pack_of_wrong_number),
    ("a pack with a file twice", pack_with_a_file_twice),
    ("files that have grown", grown_files),
    ("a frame to be made of no old file", delta_of_nothing),
    ("instructions that make no frame", bad_instructions),
    ("a record of no kind, or out of turn", bad_record),
    ("a record of another copy", record_of_other_copy),
    ("a payload that becomes something else than it says", bad_compression),
    ("a payload that becomes more than it says", bomb),
];

/// Bytes of the large file: two frames, the second one short.
const LARGE: u64 = FRAME + 1000;

struct Offered {
    directory: u64,
    small: u64,
    large: u64,
}

fn offered(scene: &mut Scene) -> Offered {
    let tree = scene.open_tree();
    let directory = scene.next;
    let entries = [raw::directory(tree, b"directory"), raw::file(tree, b"small", 5), raw::file(tree, b"large", LARGE)];
    assert_eq!(scene.needs(&entries), [TransferNeed::All; 3]);
    Offered { directory, small: directory + 1, large: directory + 2 }
}

fn bytes(len: u64) -> Vec<u8> {
    vec![b'h'; usize::try_from(len).expect("a short payload")]
}

fn send(scene: &mut Scene, entry: u64, offset: u64, len: u64) {
    let payload = bytes(len);
    scene.record(&payload, &raw::data(entry, offset, frame_check(&payload), [0; 32]));
}

/// Instructions for a frame of the large file.
fn instruct(scene: &mut Scene, entry: u64, instructions: &[u8]) {
    let frame = DeltaFrame {
        copy: CopyNumber(raw::COPY),
        entry: EntryId(entry),
        offset: 0,
        plain: usize::try_from(FRAME).expect("a frame's length"),
        value: [0; 32],
    };
    let mut trailer = Writer::new();
    RecordTrailer::Delta(frame).encode(&mut trailer);
    scene.record(instructions, &trailer.into_bytes());
}

fn delta_of_nothing(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let Offered { large, small, .. } = offered(scene);
    let mut steps = Writer::new();
    steps.varint(FRAME << 1 | 1).varint(rng.pick(&[0, 1, u64::MAX]));
    instruct(scene, rng.pick(&[large, small, large + 7]), &steps.into_bytes());
    Expect::Fault
}

fn bad_instructions(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let Offered { large, .. } = offered(scene);
    let steps: &[u8] = rng.pick(&[&[0][..], &[3, 0], &[9, b'x'], &[255, 255, 255, 255, 255, 1], &[1, 1, 1]]);
    instruct(scene, large, steps);
    Expect::Fault
}

fn frame_not_needed(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let Offered { directory, small, large } = offered(scene);
    let entry = rng.pick(&[directory, small, large + 1, u64::MAX]);
    send(scene, entry, 0, FRAME);
    Expect::Fault
}

fn misplaced_frame(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let Offered { large, .. } = offered(scene);
    let offset = rng.pick(&[1, FRAME - 1, FRAME / 2, 2 * FRAME, 1 << 40, u64::MAX - FRAME + 1, u64::MAX]);
    let len = rng.pick(&[1000, FRAME]);
    send(scene, large, offset, len);
    Expect::Fault
}

fn frame_of_wrong_length(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let Offered { large, .. } = offered(scene);
    let most = u64::from(FRAME_MAX);
    let (offset, len) = rng.pick(&[
        (0, 0),
        (0, 1000),
        (0, FRAME - 1),
        (0, FRAME + 1),
        (0, most),
        (FRAME, 999),
        (FRAME, 1001),
        (FRAME, FRAME),
    ]);
    send(scene, large, offset, len);
    Expect::Fault
}

/// Sends a frame of the large file as it should be; its value.
fn send_right(scene: &mut Scene, large: u64, index: u64) -> [u8; 32] {
    let frame = FrameLen::new(FRAME_MIN).expect("a frame's length");
    let payload = bytes(frame.frame_len(LARGE, index).expect("one of two") as u64);
    let value = frame.hash(LARGE, index, &payload);
    scene.record(&payload, &raw::data(large, index * FRAME, frame_check(&payload), value));
    value
}

fn frame_again(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let Offered { large, .. } = offered(scene);
    let mut tree = FrameTree::new(2);
    for index in [1, 0] {
        for _ in 0..=rng.below(4) {
            tree.insert(index, send_right(scene, large, index));
        }
    }
    scene.say(&raw::file_end(large, LARGE, tree.digest().expect("whole")));
    let settled = scene.wait_for(|message| match message {
        TargetMessage::Done { runs } => Some(runs),
        TargetMessage::TargetFailed { .. } => Some(Vec::new()),
        _ => None,
    });
    assert_eq!(settled, Ok(vec![(EntryId(large), 1)]));
    // Any frame is late now.
    let (offset, payload) = (rng.pick(&[0, FRAME, 5, u64::MAX]), vec![b'e'; 1000]);
    scene.record(&payload, &raw::data(large, offset, frame_check(&payload), [0; 32]));
    let content = std::fs::read(scene.landing().join("tree/large")).expect("it is whole");
    assert!(content == bytes(LARGE));
    Expect::GoesOn
}

fn damaged_frame(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let Offered { large, small, .. } = offered(scene);
    for _ in 0..=rng.below(40) {
        let payload = bytes(FRAME);
        scene.record(&payload, &raw::data(large, 0, 1, [0; 32]));
        scene.record(&payload[..5], &raw::pack(&[(small, 5)], 1));
        let asked = |message| match message {
            TargetMessage::MissingRanges { .. } | TargetMessage::ResendPacked { .. } => Some(()),
            _ => None,
        };
        (0..2).for_each(|_| scene.wait_for(asked).expect("it is asked for again"));
    }
    Expect::GoesOn
}

fn pack_not_needed(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let Offered { directory, small, large } = offered(scene);
    let entry = rng.pick(&[directory, large, large + 1, u64::MAX]);
    scene.pack(&[(small, 5), (entry, 5)]);
    Expect::Fault
}

fn pack_of_wrong_length(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let Offered { small, .. } = offered(scene);
    let (payload, said) = rng.pick(&[(5, 4), (5, 6), (0, 5), (5, 0), (5, FRAME_MAX.into()), (5, u64::MAX)]);
    let payload = bytes(payload);
    scene.record(&payload, &raw::pack(&[(small, said)], frame_check(&payload)));
    Expect::Fault
}

fn pack_of_wrong_number(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let Offered { small, .. } = offered(scene);
    let number = rng.pick(&[0, PACK_FILES_MAX + 1, 1000]);
    scene.pack(&vec![(small, 0); number]);
    Expect::Fault
}

fn pack_with_a_file_twice(scene: &mut Scene, _: &mut Rng) -> Expect {
    let Offered { small, .. } = offered(scene);
    let payload = b"firstother";
    scene.record(payload, &raw::pack(&[(small, 5), (small, 5)], frame_check(payload)));
    let done = scene.wait_for(|message| matches!(message, TargetMessage::Done { .. }).then_some(()));
    let content = std::fs::read(scene.landing().join("tree/small")).expect("it is whole");
    assert_eq!((done, &content[..]), (Ok(()), &b"first"[..]));
    Expect::GoesOn
}

/// A small file may be longer than it was when it was offered, as long as it fits a pack.
fn grown_files(scene: &mut Scene, _: &mut Rng) -> Expect {
    let Offered { small, .. } = offered(scene);
    scene.pack(&[(small, FRAME_MAX.into())]);
    Expect::GoesOn
}

fn bad_record(scene: &mut Scene, rng: &mut Rng) -> Expect {
    offered(scene);
    let (payload, trailer): (u64, Vec<u8>) = match rng.below(6) {
        0 => (0, vec![0]),
        1 => (0, [&[3][..], &99u64.to_le_bytes()].concat()),
        2 => (10, [&[3][..], &0u64.to_le_bytes()].concat()),
        3 => (10, vec![rng.pick(&[5, 6, 77, 255]), 0, 0]),
        4 => (10, raw::data(1, 0, 0, [0; 32])[..20].to_vec()),
        _ => (10, [raw::data(1, 0, 0, [0; 32]), vec![0]].concat()),
    };
    scene.record(&bytes(payload), &trailer);
    Expect::Fault
}

fn record_of_other_copy(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let Offered { large, small, .. } = offered(scene);
    let payload = bytes(5);
    let mut trailer = match rng.chance(500) {
        true => raw::data(large, 0, frame_check(&payload), [0; 32]),
        false => raw::pack(&[(small, 5)], frame_check(&payload)),
    };
    trailer[1 + rng.index(4)] ^= 1 << rng.below(8);
    scene.record(&payload, &trailer);
    Expect::Fault
}

fn bad_compression(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let Offered { large, .. } = offered(scene);
    let inner = raw::data(large, 0, 0, [0; 32]);
    let codec = rng.pick(&[1, 2]);
    let trailer = match rng.below(5) {
        0 => raw::compressed(codec, FRAME, &inner),
        1 => raw::compressed(rng.pick(&[0, 3, 255]), FRAME, &inner),
        2 => raw::compressed(codec, u64::from(FRAME_MAX) + 1, &inner),
        3 => raw::compressed(codec, rng.pick(&[0, 999, 1000]), &inner),
        _ => raw::compressed(codec, FRAME, &raw::compressed(codec, FRAME, &inner)),
    };
    let payload = rng.bytes(1000);
    scene.record(&payload, &trailer);
    Expect::Fault
}

/// A Zstandard frame (RFC 8878) of blocks that say: this byte, 128 KiB of it.
fn bomb(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let Offered { large, .. } = offered(scene);
    let block = |last: u32| [(128 << 13 | 1 << 1 | last).to_le_bytes()[..3].to_vec(), vec![b'h']].concat();
    let blocks = 2 + rng.index(10_000);
    let mut payload = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0x58];
    (0..blocks).for_each(|_| payload.extend(block(0)));
    payload.extend(block(1));
    scene.record(&payload, &raw::compressed(2, FRAME, &raw::data(large, 0, 0, [0; 32])));
    Expect::Fault
}
