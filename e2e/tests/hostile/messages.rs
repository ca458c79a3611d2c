//! Impossible messages, and messages out of turn.

use haul_e2e::Rng;
use haul_proto::ids::{CopyNumber, EntryId, StreamId};
use haul_proto::limits::{ENTRY_WINDOW, PEER_MESSAGE_MAX};
use haul_proto::wire::message::{SourceMessage, TargetMessage, TransferNeed};

use super::raw::{self, DIRECTORY, FILE};
use super::scene::{SMALL_MAX, Scene};
use super::{Attack, Expect};

pub const ATTACKS: &[Attack] = &[
    ("the end of what is no open directory", wrong_directory_end),
    ("the end of what is no large file", wrong_file_end),
    ("a failure of what is no file", wrong_failure),
    ("a failure of a file that is settled", late_failure),
    ("the end of all offers while a directory is open", early_end),
    ("an offer after the end of all offers", late_offer),
    ("a message of another copy", other_copy),
    ("bytes that are no message", garbage),
    ("a question that names an entry many times", repeated_question),
    ("a message that is cut off, or goes on", wrong_length),
    ("a message that only a target may send", targets_message),
    ("more streams than agreed", many_streams),
    ("a frame of the link that cannot be", bad_link_frame),
    ("a digest that is not the file's", wrong_digest),
    ("frames called the same that nobody asked about", not_asked),
    ("operands of a list passed by where there is none", no_list),
    ("a file offered anew in the place of what is none", anew_in_no_place),
    ("a directory or a link offered anew", anew_of_other_kind),
    ("a file offered anew in the place of one that is settled", anew_too_late),
];

/// A directory, a small file and a large one, in that order; the id of the first.
fn some_entries(scene: &mut Scene) -> u64 {
    let tree = scene.open_tree();
    let entries =
        [raw::directory(tree, b"directory"), raw::file(tree, b"small", 5), raw::file(tree, b"large", SMALL_MAX + 1)];
    let first = scene.next;
    assert_eq!(scene.needs(&entries), [TransferNeed::All; 3]);
    first
}

fn wrong_directory_end(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let directory = some_entries(scene);
    scene.say(&raw::directory_end(directory));
    scene.say(&raw::directory_end(rng.pick(&[directory, directory + 1, directory + 2, directory + 3, u64::MAX])));
    Expect::Fault
}

fn wrong_file_end(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let directory = some_entries(scene);
    let large = SMALL_MAX + 1;
    let (entry, size) = rng.pick(&[
        (directory, large),
        (directory + 1, large),
        (directory + 2, large),
        (directory + 3, large),
        (u64::MAX, large),
        (directory + 2, large - 1),
        (directory + 2, 0),
        (directory + 2, u64::MAX),
    ]);
    if size == large {
        scene.say(&raw::file_end(directory + 2, large, [1; 32]));
    }
    scene.say(&raw::file_end(entry, size, [1; 32]));
    Expect::Fault
}

fn wrong_failure(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let directory = some_entries(scene);
    scene.say(&raw::source_failed(rng.pick(&[directory, directory + 3, u64::MAX])));
    Expect::Fault
}

fn late_failure(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let file = some_entries(scene) + rng.pick(&[1, 2]);
    (0..3).for_each(|_| scene.say(&raw::source_failed(file)));
    Expect::GoesOn
}

fn early_end(scene: &mut Scene, _: &mut Rng) -> Expect {
    some_entries(scene);
    scene.say(&raw::offers_end());
    Expect::Fault
}

fn late_offer(scene: &mut Scene, rng: &mut Rng) -> Expect {
    // As long as something is not settled, the target is there to notice.
    scene.offer(&[raw::operand(FILE, 1, &raw::number(5))]);
    scene.say(&raw::offers_end());
    if rng.chance(500) {
        scene.say(&raw::offers_end());
    } else {
        scene.offer(&[raw::operand(DIRECTORY, 0, &[])]);
    }
    Expect::Fault
}

fn no_list(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let before = rng.pick(&[0, 1, 2, 512, u32::MAX]);
    scene.say(&SourceMessage::ListAck { before }.encode(CopyNumber(raw::COPY)));
    Expect::Fault
}

fn other_copy(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let mut message = raw::offer(0, &[raw::operand(DIRECTORY, 0, &[])]);
    message[1 + rng.index(4)] ^= 1 << rng.below(8);
    scene.say(&message);
    Expect::Fault
}

fn repeated_question(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let large = EntryId(some_entries(scene) + 2);
    let repeats = rng.pick(&[2, 1000, ENTRY_WINDOW]);
    let question = SourceMessage::QueryMissing { streams: vec![StreamId(0)], entries: vec![(large, 1); repeats] };
    scene.say(&question.encode(CopyNumber(raw::COPY)));
    Expect::Fault
}

fn garbage(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let len = rng.pick(&[0, 1, 5, 6, 100, 70_000, PEER_MESSAGE_MAX]);
    let message = rng.bytes(len);
    scene.say(&message);
    Expect::Fault
}

fn wrong_length(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let mut message = raw::offer(0, &[raw::operand(DIRECTORY, 0, &[])]);
    if rng.chance(500) {
        message.truncate(rng.index(message.len()));
    } else {
        let more = rng.index(20) + 1;
        message.extend(rng.bytes(more));
    }
    scene.say(&message);
    Expect::Fault
}

fn targets_message(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let entry = EntryId(0);
    let messages = [
        TargetMessage::Want { first: entry, needs: vec![TransferNeed::All] },
        TargetMessage::Done { runs: vec![(entry, 1)] },
        TargetMessage::TargetFailed { entry },
        TargetMessage::MissingRanges { entry, frames: vec![0..1] },
    ];
    scene.say(&messages[rng.index(messages.len())].encode(CopyNumber(raw::COPY)));
    Expect::Fault
}

fn many_streams(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let (count, path) = (rng.pick(&[0, 2, 257, u16::MAX]), rng.pick(&[0, 7, u16::MAX]));
    scene.say(&raw::message(6, |out| {
        out.u16(count).u16(path);
    }));
    Expect::GoesOn
}

fn bad_link_frame(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let over = u32::try_from(PEER_MESSAGE_MAX + 1).expect("a small limit");
    let (length, channel) =
        rng.pick(&[(over, 1u16), (u32::MAX, 1), (u32::MAX, 0), (1, 2), (1, 15), (70_000, 16), (1, 999)]);
    scene.say_raw(&[&length.to_le_bytes()[..], &channel.to_le_bytes(), &[0; 64]].concat());
    Expect::Fault
}

fn wrong_digest(scene: &mut Scene, _: &mut Rng) -> Expect {
    let file = some_entries(scene) + 2;
    let payload = vec![b'h'; usize::try_from(SMALL_MAX).expect("small") + 1];
    scene.record(&payload, &raw::data(file, 0, haul_proto::integrity::frame_check(&payload), [0; 32]));
    scene.say(&raw::file_end(file, SMALL_MAX + 1, [1; 32]));
    let failed =
        scene.wait_for(|message| (message == TargetMessage::TargetFailed { entry: EntryId(file) }).then_some(()));
    assert_eq!((failed, scene.landing().join("tree/large").exists()), (Ok(()), false));
    Expect::GoesOn
}

fn not_asked(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let large = some_entries(scene) + 2;
    let (entry, first, many) = rng.pick(&[
        (large, 0, 1),
        (large, 1, 1),
        (large, 0, 0),
        (large, u64::MAX, 2),
        (large + 1, 0, 1),
        (large - 1, 0, 1),
    ]);
    scene.say(&raw::same(entry, first, many));
    Expect::Fault
}

fn anew_in_no_place(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let directory = some_entries(scene);
    let own = scene.next;
    let place = rng.pick(&[0, directory, own, own + 1, u64::MAX]);
    scene.offer(&[raw::anew(FILE, place, &raw::number(5))]);
    Expect::Fault
}

fn anew_of_other_kind(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let small = some_entries(scene) + 1;
    let points_to = scene.way_out(rng);
    let entry = match rng.chance(500) {
        true => raw::anew(DIRECTORY, small, &[]),
        false => raw::anew(raw::LINK, small, &raw::held(&points_to)),
    };
    scene.offer(&[entry]);
    Expect::Fault
}

fn anew_too_late(scene: &mut Scene, rng: &mut Rng) -> Expect {
    let small = some_entries(scene) + 1;
    let size = rng.pick(&[5, SMALL_MAX + 1]);
    if rng.chance(500) {
        scene.pack(&[(small, 5)]);
        scene.wait_for(|message| matches!(message, TargetMessage::Done { .. }).then_some(())).expect("it is taken");
    } else {
        // The first takes its place, and the second comes too late.
        assert_eq!(scene.needs(&[raw::anew(FILE, small, &raw::number(5))]), [TransferNeed::All]);
    }
    assert_eq!(scene.needs(&[raw::anew(FILE, small, &raw::number(size))]), [TransferNeed::Refused]);
    Expect::GoesOn
}
