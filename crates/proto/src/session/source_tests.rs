//! The source's session against targets that are late, wrong or hostile.

use super::*;
use crate::entry::EntryMetadata;
use crate::entry_extras::{EntryExtras, ExtendedAttribute};
use crate::file_range::RangeLen;
use crate::ids::StreamId;
use crate::limits::{LARGE_IN_FLIGHT_MAX, OFFER_ENTRIES_MAX, RESENDS_MAX};
use crate::path::Name;
use crate::scheduler::CHUNK_FRAMES_MAX;
use crate::wire::message::TransferNeed;

pub(super) const F: u64 = 256 << 10;
const STREAM: StreamId = StreamId(3);

pub(super) fn source() -> SourceSession<()> {
    SourceSession::new(FrameLen::new(256 << 10).unwrap(), 2)
}

pub(super) fn entry(parent: Option<EntryId>, kind: EntryContent) -> Entry {
    let place = match parent {
        Some(parent) => EntryLocation::Child { parent, name: Name::new(b"x").unwrap() },
        None => EntryLocation::Operand(0),
    };
    Entry { place, kind, meta: EntryMetadata::default(), version: None, more: None }
}

pub(super) fn file(size: u64) -> Entry {
    entry(None, EntryContent::File { size })
}

/// Offers entries and delivers their messages.
pub(super) fn offered(source: &mut SourceSession<()>, entries: Vec<Entry>) -> Vec<EntryId> {
    let ids = entries.into_iter().map(|entry| source.offer(entry, Arc::new(()))).collect();
    source.flush_offers();
    drain(source);
    ids
}

pub(super) fn drain(source: &mut SourceSession<()>) -> Vec<SourceMessage> {
    std::iter::from_fn(|| source.poll_message()).collect()
}

pub(super) fn needs(first: u64, needs: &[TransferNeed]) -> TargetMessage {
    TargetMessage::Want { first: EntryId(first), needs: needs.to_vec() }
}

pub(super) fn done(first: u64, count: u64) -> TargetMessage {
    TargetMessage::Done { runs: vec![(EntryId(first), count)] }
}

/// Reads all frames of a file, so that its end is sent.
fn read(source: &mut SourceSession<()>, entry: EntryId, frames: u64) {
    let values: Vec<_> = (0..frames).map(|index| (index, [1; 32])).collect();
    source.frames_read(entry, &values, &RangeSet::new());
    drain(source);
}

pub(super) fn link() -> Entry {
    entry(None, EntryContent::Symlink { points_to: (*b"x").into() })
}

#[test]
fn another_name_counts_until_it_is_made_and_gives_no_work() {
    let mut source = source();
    let dir = source.offer(entry(None, EntryContent::Directory), Arc::new(()));
    let first = source.offer(entry(Some(dir), EntryContent::File { size: 3 }), Arc::new(()));
    source.offer(entry(Some(dir), EntryContent::HardLink { to: first, size: 3 }), Arc::new(()));
    source.flush_offers();
    while source.poll_message().is_some() {}
    let before = source.window();
    source.handle(needs(0, &[TransferNeed::All, TransferNeed::Nothing, TransferNeed::All])).unwrap();
    assert_eq!(source.window(), before + 1);
    assert!(source.next_work(STREAM, 9).is_none());
    assert!(source.handle(needs(2, &[TransferNeed::All])).is_err(), "a second answer");
    source.handle(done(2, 1)).unwrap();
    assert_eq!(source.window(), before + 2);
}

#[test]
fn a_tree_is_copied() {
    let mut source = source();
    let dir = source.offer(entry(None, EntryContent::Directory), Arc::new(()));
    let small = source.offer(entry(Some(dir), EntryContent::File { size: 5 }), Arc::new(()));
    let large = source.offer(entry(Some(dir), EntryContent::File { size: F + 1 }), Arc::new(()));
    source.end_directory(dir, true);
    source.end_offers();
    let messages = drain(&mut source);
    assert!(matches!(&messages[0], SourceMessage::Offer { first: EntryId(0), entries } if entries.len() == 3));
    assert_eq!(
        messages[1..],
        [SourceMessage::DirectoryEnd { entry: dir, listing: true.into() }, SourceMessage::OffersEnd]
    );
    assert!(source.next_work(STREAM, CHUNK_FRAMES_MAX).is_none() && !source.has_work() && !source.is_finished());
    source.handle(needs(0, &[TransferNeed::All; 3])).unwrap();
    assert!(source.has_work());
    let mut frames = 0;
    let mut packed = Vec::new();
    while let Some(work) = source.next_work(STREAM, CHUNK_FRAMES_MAX) {
        match work {
            WorkItem::Frames(chunk) => {
                for index in chunk.frames {
                    frames += 1;
                    source.frames_read(large, &[(index, [1; 32])], &RangeSet::new());
                }
            }
            WorkItem::Pack(files) => packed.extend(files.into_iter().map(|file| file.entry)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((frames, packed), (2, vec![small]));
    let ends = drain(&mut source);
    assert!(matches!(ends[..], [SourceMessage::FileEnd { entry, .. }] if entry == large), "{ends:?}");
    source.handle(done(1, 2)).unwrap();
    assert!(!source.is_finished(), "the directory is not settled");
    source.handle(done(0, 1)).unwrap();
    assert!(source.is_finished());
}

#[test]
fn answers_about_unknown_entries_are_faults() {
    let never = Err(ProtocolError::Unasked("an entry that was never offered"));
    for message in [
        needs(1, &[TransferNeed::All]),
        needs(0, &[TransferNeed::All, TransferNeed::All]),
        needs(u64::MAX, &[TransferNeed::All, TransferNeed::All]),
        done(0, 2),
        done(u64::MAX, 2),
        TargetMessage::TargetFailed { entry: EntryId(1) },
        TargetMessage::MissingRanges { entry: EntryId(u64::MAX), frames: vec![0..1] },
        TargetMessage::HaveRanges { entry: EntryId(u64::MAX), first: 0, values: vec![[0; 32]], compare: false },
        TargetMessage::ResendPacked { entries: vec![EntryId(1)] },
    ] {
        let mut source = source();
        offered(&mut source, vec![file(F)]);
        assert_eq!(source.handle(message.clone()), never, "{message:?}");
    }
}

#[test]
fn a_target_cannot_answer_before_it_was_asked() {
    let mut source = source();
    let first = source.offer(file(1), Arc::new(()));
    assert!(source.handle(needs(first.0, &[TransferNeed::Nothing])).is_err(), "still gathering");
    source.flush_offers();
    assert!(source.handle(TargetMessage::TargetFailed { entry: first }).is_err(), "still in the outbox");
    drain(&mut source);
    assert_eq!(source.handle(needs(first.0, &[TransferNeed::Nothing])), Ok(()));
}

#[test]
fn impossible_needs_are_faults() {
    for (offer, need) in [
        (entry(None, EntryContent::Directory), TransferNeed::Nothing),
        (entry(None, EntryContent::Directory), TransferNeed::InOrder),
        (link(), TransferNeed::All),
        (link(), TransferNeed::InOrder),
        (stream(), TransferNeed::Nothing),
        (stream(), TransferNeed::Rest),
    ] {
        let mut source = source();
        offered(&mut source, vec![offer.clone()]);
        assert!(matches!(source.handle(needs(0, &[need])), Err(ProtocolError::Invalid(_))), "{offer:?} {need:?}");
    }
}

#[test]
fn a_second_answer_is_a_fault() {
    for (first, fault) in [
        (TransferNeed::All, ProtocolError::OutOfTurn("a second answer")),
        (TransferNeed::InOrder, ProtocolError::OutOfTurn("a second answer")),
        (TransferNeed::Nothing, ProtocolError::Unasked("an entry without a pending answer")),
        (TransferNeed::Refused, ProtocolError::Unasked("an entry without a pending answer")),
    ] {
        for size in [0, F] {
            let mut source = source();
            offered(&mut source, vec![file(size)]);
            source.handle(needs(0, &[first])).unwrap();
            assert_eq!(source.handle(needs(0, &[TransferNeed::All])), Err(fault));
        }
    }
}

#[test]
fn impossible_done_messages_are_faults() {
    let mut source = source();
    offered(&mut source, vec![entry(None, EntryContent::Directory), file(F)]);
    assert!(matches!(source.handle(done(0, 1)), Err(ProtocolError::OutOfTurn(_))), "an open directory");
    assert!(matches!(source.handle(done(1, 1)), Err(ProtocolError::OutOfTurn(_))), "not even needed");
    let most = (ENTRY_WINDOW + OPEN_DIRECTORIES_MAX) as u64;
    let runs = vec![(EntryId(0), most), (EntryId(0), 1)];
    assert!(matches!(source.handle(TargetMessage::Done { runs }), Err(ProtocolError::OverLimit(_))));
    assert!(matches!(source.handle(done(0, u64::MAX)), Err(ProtocolError::OverLimit(_))));
}

#[test]
fn late_messages_are_ignored() {
    let mut source = source();
    let ids = offered(&mut source, vec![file(5), file(2 * F)]);
    source.handle(needs(0, &[TransferNeed::All; 2])).unwrap();
    assert!(ids.iter().all(|id| source.fail(*id, "gone")));
    assert!(!source.fail(ids[0], "gone"), "only once");
    assert_eq!(drain(&mut source).len(), 2);
    for message in [
        done(0, 2),
        TargetMessage::TargetFailed { entry: ids[0] },
        TargetMessage::MissingRanges { entry: ids[1], frames: vec![1..2] },
        TargetMessage::HaveRanges { entry: ids[1], first: 0, values: vec![[0; 32]], compare: true },
        TargetMessage::ResendPacked { entries: vec![ids[0]] },
    ] {
        assert_eq!(source.handle(message), Ok(()));
    }
    source.frames_read(ids[1], &[(0, [0; 32]), (1, [0; 32])], &RangeSet::new());
    assert!(source.next_work(STREAM, CHUNK_FRAMES_MAX).is_none() && source.poll_message().is_none());
    assert_eq!(source.window(), ENTRY_WINDOW);
}

#[test]
fn a_changed_file_is_offered_again_in_its_place() {
    let mut source = source();
    let ids = offered(&mut source, vec![file(5), file(3 * F)]);
    assert_eq!(source.offer_again(ids[0], file(6), Arc::new(())), None, "not needed yet");
    source.handle(needs(0, &[TransferNeed::All; 2])).unwrap();
    source.end_offers();
    drain(&mut source);
    assert_eq!(source.offer_again(ids[1], file(2 * F), Arc::new(())), Some(EntryId(2)));
    assert_eq!(source.offer_again(ids[1], file(2 * F), Arc::new(())), None, "once");
    let again = Entry { place: EntryLocation::Again(ids[1]), ..file(2 * F) };
    assert_eq!(drain(&mut source), [SourceMessage::Offer { first: EntryId(2), entries: vec![again] }]);
    assert!(matches!(source.next_work(STREAM, CHUNK_FRAMES_MAX), Some(WorkItem::Pack(_))));
    assert!(source.next_work(STREAM, CHUNK_FRAMES_MAX).is_none(), "what it was is not sent any more");
    source.handle(needs(2, &[TransferNeed::All])).unwrap();
    assert!(matches!(source.next_work(STREAM, CHUNK_FRAMES_MAX), Some(WorkItem::Frames(chunk)) if chunk.size == 2 * F));
    read(&mut source, EntryId(2), 2);
    source.handle(done(0, 3)).unwrap();
    assert!(source.is_finished());
}

#[test]
fn only_needed_files_can_fail_at_the_source() {
    let mut source = source();
    let ids = offered(&mut source, vec![entry(None, EntryContent::Directory), file(5)]);
    assert!(!source.fail(ids[0], "a directory") && !source.fail(ids[1], "not needed yet"));
    assert_eq!(drain(&mut source), []);
    assert_eq!(source.handle(needs(0, &[TransferNeed::All; 2])), Ok(()));
    assert!(source.fail(ids[1], "needed"));
}

#[test]
fn a_file_that_changed_ends_only_after_its_second_reading() {
    let mut source = source();
    let ids = offered(&mut source, vec![file(2 * F)])[0];
    source.handle(needs(0, &[TransferNeed::All])).unwrap();
    let values = [(0, [1; 32]), (1, [2; 32])];
    assert!(source.frames_read(ids, &values[..1], &RangeSet::new()).is_none());
    assert!(source.await_second_reading(ids) && source.await_second_reading(ids));
    let digest = source.frames_read(ids, &values[1..], &RangeSet::new());
    assert!(digest.is_some() && drain(&mut source).is_empty(), "the engine has to read it again");
    source.summed(ids);
    assert!(matches!(drain(&mut source)[..], [SourceMessage::FileEnd { .. }]));
    assert!(!source.await_second_reading(ids), "its end was sent");
}

#[test]
fn only_existing_frames_can_be_requested_again() {
    let mut source = source();
    let ids = offered(&mut source, vec![file(2 * F + 1), file(5), entry(None, EntryContent::Directory), file(F)]);
    source.handle(needs(0, &[TransferNeed::All, TransferNeed::All, TransferNeed::All])).unwrap();
    let resend = |entry, frames| TargetMessage::MissingRanges { entry, frames: vec![frames] };
    for frames in [3..4, 0..4, u64::MAX - 1..u64::MAX] {
        assert_eq!(source.handle(resend(ids[0], frames)), Err(ProtocolError::Misplaced));
    }
    for entry in &ids[1..] {
        assert!(matches!(source.handle(resend(*entry, 0..1)), Err(ProtocolError::Unasked(_))));
    }
    for entry in [ids[0], ids[2], ids[3]] {
        let packed = TargetMessage::ResendPacked { entries: vec![entry] };
        assert!(matches!(source.handle(packed), Err(ProtocolError::Unasked(_))));
    }
    while source.next_work(STREAM, CHUNK_FRAMES_MAX).is_some() {}
    source.handle(resend(ids[0], 2..3)).unwrap();
    let Some(WorkItem::Frames(chunk)) = source.next_work(STREAM, CHUNK_FRAMES_MAX) else { panic!("the frame again") };
    assert_eq!((chunk.entry, chunk.frames), (ids[0], 2..3));
    source.handle(TargetMessage::ResendPacked { entries: vec![ids[1]] }).unwrap();
    assert!(
        matches!(source.next_work(STREAM, CHUNK_FRAMES_MAX), Some(WorkItem::Pack(files)) if files[0].entry == ids[1])
    );
}

/// Offers a file of five frames with a partial file at the target.
fn with_a_part(source: &mut SourceSession<()>) -> EntryId {
    let id = offered(source, vec![file(5 * F)])[0];
    source.handle(needs(id.0, &[TransferNeed::Rest])).unwrap();
    assert!(source.next_work(STREAM, CHUNK_FRAMES_MAX).is_none(), "the target has not said what it lacks");
    id
}

#[test]
fn only_the_rest_of_an_existing_part_is_sent() {
    let mut source = source();
    let entry = with_a_part(&mut source);
    source.handle(TargetMessage::MissingRanges { entry, frames: vec![1..2, 4..5] }).unwrap();
    let mut sent = Vec::new();
    while let Some(WorkItem::Frames(chunk)) = source.next_work(STREAM, CHUNK_FRAMES_MAX) {
        let values: Vec<_> = chunk.frames.clone().map(|index| (index, [1; 32])).collect();
        source.frames_read(entry, &values, &RangeSet::new());
        sent.extend(chunk.frames);
    }
    assert_eq!(sent, [1, 4]);
    let holds = |first, values| TargetMessage::HaveRanges { entry, first, values, compare: false };
    source.handle(holds(2, vec![[1; 32]; 2])).unwrap();
    assert_eq!(drain(&mut source), []);
    source.handle(holds(0, vec![[1; 32]])).unwrap();
    assert!(matches!(drain(&mut source)[..], [SourceMessage::FileEnd { .. }]), "every frame is accounted for");
    assert_eq!(source.handle(holds(0, vec![[1; 32]])), Err(ProtocolError::Unasked("a frame listed twice as present")));
}

#[test]
fn possibly_changed_files_are_compared() {
    let mut source = source();
    let entry = with_a_part(&mut source);
    source
        .handle(TargetMessage::HaveRanges { entry, first: 1, values: vec![[1; 32], [2; 32]], compare: true })
        .unwrap();
    let Some(WorkItem::Compare(chunk, values)) = source.next_work(STREAM, 1) else { panic!("to be compared") };
    assert_eq!((chunk.frames, values), (1..3, vec![[1; 32], [2; 32]]));
    let mut same = RangeSet::new();
    assert!(same.insert(1));
    source.frames_read(entry, &[(1, [1; 32]), (2, [9; 32])], &same);
    source.frames_read(entry, &[], &RangeSet::new());
    assert_eq!(drain(&mut source), [SourceMessage::Match { entry, frames: vec![1..2] }]);
}

#[test]
fn a_guessing_target_has_one_guess_at_a_frame() {
    let mut source = source();
    let entry = with_a_part(&mut source);
    let holds = |first, count| TargetMessage::HaveRanges { entry, first, values: vec![[1; 32]; count], compare: true };
    source.handle(holds(1, 1)).unwrap();
    let twice = Err(ProtocolError::Unasked("a frame that is compared twice"));
    assert_eq!(source.handle(holds(0, 2)), twice, "one that waits");
    let Some(WorkItem::Compare(..)) = source.next_work(STREAM, 9) else { panic!("to be compared") };
    source.frames_read(entry, &[(1, [9; 32])], &RangeSet::new());
    assert_eq!(source.handle(holds(1, 1)), twice, "one that differed");
}

#[test]
fn parts_are_valid_only_for_resumable_files() {
    let mut source = source();
    let ids = offered(&mut source, vec![file(2 * F), file(5), file(2 * F)]);
    assert!(source.handle(needs(1, &[TransferNeed::Rest])).is_err(), "a small file");
    source.handle(needs(0, &[TransferNeed::All])).unwrap();
    source.handle(needs(2, &[TransferNeed::Rest])).unwrap();
    let holds =
        |entry, first, count| TargetMessage::HaveRanges { entry, first, values: vec![[0; 32]; count], compare: false };
    assert!(matches!(source.handle(holds(ids[0], 0, 1)), Err(ProtocolError::Unasked(_))), "it was needed whole");
    for (first, count) in [(2, 1), (1, 2), (0, 0), (u64::MAX, 1)] {
        assert_eq!(source.handle(holds(ids[2], first, count)), Err(ProtocolError::Misplaced));
    }
}

#[test]
fn asking_again_and_again_meets_a_limit() {
    let mut source = source();
    let ids = offered(&mut source, vec![file(F * 8192), file(0)]);
    source.handle(needs(0, &[TransferNeed::All; 2])).unwrap();
    while source.next_work(STREAM, CHUNK_FRAMES_MAX).is_some() {}
    let frame = TargetMessage::MissingRanges { entry: ids[0], frames: vec![0..1] };
    let asked = (0..=RESENDS_MAX).take_while(|_| source.handle(frame.clone()).is_ok()).count();
    assert_eq!(asked, RESENDS_MAX);
    // A file that is already waiting is not queued twice.
    let packed = TargetMessage::ResendPacked { entries: vec![ids[1]; 512] };
    assert!(source.next_work(STREAM, CHUNK_FRAMES_MAX).is_some());
    assert!((0..100).all(|_| source.handle(packed.clone()).is_ok()) && source.plan.waiting() <= 1);
}

#[test]
fn the_same_bytes_are_not_sent_for_ever() {
    // Each request is honoured.
    let most = |frames: u64| usize::try_from(RESENDS_PER_FRAME_MAX * frames + RESENDS_PER_FILE_MAX).unwrap();
    for (size, frames, ask) in [
        (F, 1, TargetMessage::MissingRanges { entry: EntryId(0), frames: vec![0..1] }),
        (3 * F, 3, TargetMessage::MissingRanges { entry: EntryId(0), frames: vec![1..2] }),
        (5, 1, TargetMessage::ResendPacked { entries: vec![EntryId(0)] }),
    ] {
        let mut source = source();
        offered(&mut source, vec![file(size)]);
        source.handle(needs(0, &[TransferNeed::All])).unwrap();
        while source.next_work(STREAM, CHUNK_FRAMES_MAX).is_some() {}
        let mut asked = 0;
        while source.handle(ask.clone()).is_ok() {
            asked += 1;
            assert!(source.next_work(STREAM, CHUNK_FRAMES_MAX).is_some() && asked <= 10_000, "{ask:?}");
        }
        assert_eq!(asked, most(frames), "{ask:?}");
    }
}

#[test]
fn the_window_closes_and_opens() {
    let mut source = source();
    for _ in 0..ENTRY_WINDOW {
        source.offer(file(0), Arc::new(()));
    }
    assert_eq!(source.window(), 0);
    let offered: usize = drain(&mut source).iter().map(entries_in).sum();
    assert_eq!(offered, ENTRY_WINDOW, "a closed window leaves nothing behind");
    source.handle(needs(0, &[TransferNeed::Nothing; 512])).unwrap();
    assert_eq!(source.window(), 512);
}

#[test]
fn rejected_entries_are_named_once() {
    let mut source = source();
    let ids = offered(&mut source, vec![file(5), file(2 * F), file(7)]);
    source.handle(needs(0, &[TransferNeed::Refused, TransferNeed::All, TransferNeed::All])).unwrap();
    assert_eq!(source.take_rejected().len(), 1);
    for _ in 0..2 {
        source.handle(TargetMessage::TargetFailed { entry: ids[1] }).unwrap();
    }
    assert_eq!(source.take_rejected().len(), 1);
    assert!(source.next_work(STREAM, 1).is_some());
    source.handle(done(2, 1)).unwrap();
    assert!(source.take_rejected().is_empty());
}

#[test]
fn abandoning_needed_files_does_not_open_the_window_without_limit() {
    let mut source = source();
    let mut total = 0;
    for _ in 0..10 {
        let room = source.window();
        total += room;
        for _ in 0..room {
            let entry = source.offer(file(0), Arc::new(()));
            source.flush_offers();
            drain(&mut source);
            source.handle(needs(entry.0, &[TransferNeed::All])).unwrap();
            source.handle(TargetMessage::TargetFailed { entry }).unwrap();
        }
    }
    assert_eq!(total, ENTRY_WINDOW, "no stream took anything");
    assert!(source.next_work(STREAM, CHUNK_FRAMES_MAX).is_none());
    assert_eq!(source.window(), ENTRY_WINDOW, "now it is known that nobody wants them");
}

#[test]
fn any_end_of_a_large_file_admits_the_next_one() {
    let mut source = source();
    let ids = offered(&mut source, vec![file(F); LARGE_IN_FLIGHT_MAX + 4]);
    for first in (0..ids.len()).step_by(OFFER_ENTRIES_MAX) {
        let count = OFFER_ENTRIES_MAX.min(ids.len() - first);
        source.handle(needs(first as u64, &vec![TransferNeed::All; count])).unwrap();
    }
    let begun = std::iter::from_fn(|| source.next_work(STREAM, CHUNK_FRAMES_MAX)).count();
    assert_eq!(begun, LARGE_IN_FLIGHT_MAX);
    let mut expected = LARGE_IN_FLIGHT_MAX;
    let mut begins = |source: &mut SourceSession<()>| {
        let chunk = source.next_work(STREAM, CHUNK_FRAMES_MAX);
        assert!(matches!(chunk, Some(WorkItem::Frames(chunk)) if chunk.entry == ids[expected]), "file {expected}");
        assert!(source.next_work(STREAM, CHUNK_FRAMES_MAX).is_none());
        expected += 1;
    };
    read(&mut source, ids[0], 1);
    source.handle(done(0, 1)).unwrap();
    begins(&mut source);
    source.handle(TargetMessage::TargetFailed { entry: ids[1] }).unwrap();
    begins(&mut source);
    assert!(source.fail(ids[2], "gone"));
    begins(&mut source);
    // Given up before it was started: it takes up no place in flight.
    source.handle(TargetMessage::TargetFailed { entry: ids[LARGE_IN_FLIGHT_MAX + 3] }).unwrap();
    ids[3..LARGE_IN_FLIGHT_MAX + 3].iter().for_each(|id| read(&mut source, *id, 1));
    source.handle(done(3, LARGE_IN_FLIGHT_MAX as u64)).unwrap();
    assert!(source.next_work(STREAM, CHUNK_FRAMES_MAX).is_none());
    let again = offered(&mut source, vec![file(F); LARGE_IN_FLIGHT_MAX + 1]);
    source.handle(needs(again[0].0, &[TransferNeed::All; LARGE_IN_FLIGHT_MAX + 1])).unwrap();
    assert_eq!(std::iter::from_fn(|| source.next_work(STREAM, CHUNK_FRAMES_MAX)).count(), LARGE_IN_FLIGHT_MAX);
}

fn entries_in(message: &SourceMessage) -> usize {
    if let SourceMessage::Offer { entries, .. } = message { entries.len() } else { 0 }
}

#[test]
fn open_directories_have_a_limit_of_their_own() {
    let mut source = source();
    let mut parent = None;
    for _ in 0..OPEN_DIRECTORIES_MAX {
        parent = Some(source.offer(entry(parent, EntryContent::Directory), Arc::new(())));
    }
    assert_eq!(source.window(), 0);
    source.end_directory(parent.unwrap(), true);
    assert_eq!(source.window(), 1);
}

#[test]
fn the_window_closes_before_bytes_of_unsettled_entries_are_too_many() {
    let mut source = source();
    let link = || Entry { kind: EntryContent::Symlink { points_to: vec![b'x'; 4000].into() }, ..file(0) };
    let mut offered = 0;
    while source.window() > 0 {
        source.offer(link(), Arc::new(()));
        offered += 1;
    }
    assert!(offered < ENTRY_WINDOW && offered * link().held_bytes() <= UNSETTLED_BYTES_MAX, "{offered}");
    drain(&mut source);
    source.handle(needs(0, &[TransferNeed::Nothing; 512])).unwrap();
    assert!(source.window() > 0);
}

#[test]
fn attributes_of_open_directories_leave_room_for_their_names() {
    let mut source = source();
    let attributes = vec![ExtendedAttribute { name: b"user.a".as_slice().into(), value: vec![0; 60_000].into() }];
    let more = Some(Box::new(EntryExtras { attributes: Some(attributes), ..EntryExtras::default() }));
    let heavy = Entry { more, ..entry(None, EntryContent::Directory) };
    let mut offered = 0;
    while source.has_room_for_attributes(&heavy) {
        source.offer(heavy.clone(), Arc::new(()));
        offered += 1;
    }
    assert!(offered > 100 && source.window() > 0, "{offered}");
    let names = (OPEN_DIRECTORIES_MAX - offered) * MAX_NAME;
    assert!(source.window.open_bytes + names <= OPEN_DIRECTORIES_BYTES_MAX);
}

#[test]
fn a_refused_directory_completes_at_its_end() {
    let (mut before, mut after) = (source(), source());
    for source in [&mut before, &mut after] {
        offered(
            source,
            vec![entry(None, EntryContent::Directory), entry(Some(EntryId(0)), EntryContent::File { size: 1 })],
        );
    }
    before.handle(needs(0, &[TransferNeed::Refused; 2])).unwrap();
    assert!(before.is_refused(EntryId(0)) && before.has_refused() && !after.has_refused());
    before.end_directory(EntryId(0), true);
    after.end_directory(EntryId(0), true);
    assert!(!after.is_refused(EntryId(0)));
    after.handle(needs(0, &[TransferNeed::Refused; 2])).unwrap();
    for source in [&mut before, &mut after] {
        source.end_directory(EntryId(0), true);
        source.end_offers();
        let ends: Vec<_> = drain(source);
        let end = SourceMessage::DirectoryEnd { entry: EntryId(0), listing: true.into() };
        assert_eq!(ends, [end, SourceMessage::OffersEnd], "ended once");
        assert!(source.is_finished() && source.window() == ENTRY_WINDOW);
    }
}

#[test]
fn a_directory_failed_at_the_target_still_ends() {
    let mut source = source();
    offered(&mut source, vec![entry(None, EntryContent::Directory)]);
    source.handle(TargetMessage::TargetFailed { entry: EntryId(0) }).unwrap();
    source.end_directory(EntryId(0), false);
    source.end_offers();
    assert_eq!(drain(&mut source).len(), 2);
    assert!(source.is_finished());
}

#[test]
fn a_file_ends_once() {
    let mut source = source();
    let ids = offered(&mut source, vec![file(2 * F)]);
    source.handle(needs(0, &[TransferNeed::All])).unwrap();
    source.frames_read(ids[0], &[(1, [1; 32]), (7, [0; 32])], &RangeSet::new());
    assert_eq!(source.poll_message(), None, "half of it, and a frame that there is not");
    source.frames_read(ids[0], &[(0, [1; 32])], &RangeSet::new());
    source.frames_read(ids[0], &[(0, [2; 32])], &RangeSet::new());
    assert!(matches!(drain(&mut source)[..], [SourceMessage::FileEnd { .. }]));
}

#[test]
fn a_lost_streams_unacknowledged_work_is_sent_again() {
    let mut source = source();
    let ids = offered(&mut source, vec![file(9 * F), file(5), file(9 * F), file(5)]);
    source.handle(needs(0, &[TransferNeed::All, TransferNeed::All])).unwrap();
    let Some(WorkItem::Frames(chunk)) = source.next_work(STREAM, 4) else { panic!("a piece") };
    assert_eq!((chunk.entry, chunk.frames), (ids[0], 0..2));
    source.lose_stream(STREAM, None);
    let ask = |streams, entries| SourceMessage::QueryMissing { streams, entries };
    assert_eq!(drain(&mut source), [ask(vec![STREAM], vec![(ids[0], 1)])]);
    // Nothing else is asked before the reply.
    source.lose_stream(StreamId(4), None);
    assert_eq!(drain(&mut source), []);
    source.handle(TargetMessage::Missing { entry: ids[0], frames: vec![1..9] }).unwrap();
    source.handle(TargetMessage::ResendPacked { entries: vec![ids[1]] }).unwrap();
    source.handle(TargetMessage::QueryEnd).unwrap();
    let Some(WorkItem::Frames(chunk)) = source.next_work(STREAM, 9) else { panic!("what has not come") };
    assert_eq!(chunk.frames, 1..2, "what was never handed out waits its turn");
    let rest: Vec<_> = std::iter::from_fn(|| source.next_work(STREAM, 1)).collect();
    let frames = rest.iter().filter(|work| matches!(work, WorkItem::Frames(chunk) if chunk.frames.start > 1)).count();
    assert_eq!((rest.len(), frames), (8, 7), "each once, and the small file once: {rest:?}");
    assert_eq!(drain(&mut source), [ask(vec![StreamId(4)], vec![(ids[0], 2)])]);
    assert!(matches!(
        source.handle(TargetMessage::Missing { entry: ids[1], frames: vec![0..1] }),
        Err(ProtocolError::Unasked(_))
    ));
    assert_eq!(
        source.handle(TargetMessage::Missing { entry: ids[0], frames: vec![8..10] }),
        Err(ProtocolError::Misplaced)
    );
    source.handle(TargetMessage::ResendPacked { entries: vec![ids[1]] }).unwrap();
    source.handle(TargetMessage::QueryEnd).unwrap();
    assert!(matches!(source.next_work(STREAM, 1), Some(WorkItem::Pack(files)) if files[0].entry == ids[1]));
}

#[test]
fn an_unrequested_answer_is_a_fault() {
    let mut source = source();
    let ids = offered(&mut source, vec![file(9 * F)]);
    source.handle(needs(0, &[TransferNeed::All])).unwrap();
    let out_of_turn = Err(ProtocolError::OutOfTurn("an answer"));
    assert_eq!(source.handle(TargetMessage::QueryEnd), out_of_turn);
    assert_eq!(source.handle(TargetMessage::Missing { entry: ids[0], frames: vec![0..1] }), out_of_turn);
}

pub(super) fn stream() -> Entry {
    entry(None, EntryContent::Stream)
}

/// Reads the next frame for a stream.
fn read_next(source: &mut SourceSession<()>, value: u8) -> u64 {
    let Some(WorkItem::Next(next)) = source.next_work(STREAM, 1) else { panic!("a frame to read") };
    assert!(source.next_work(STREAM, 1).is_none(), "one reads at a time");
    assert!(source.flow_read(next.entry, true, None).is_some());
    source.frames_read(next.entry, &[(next.index, [value; 32])], &RangeSet::new());
    next.index
}

#[test]
fn a_flow_is_read_frame_by_frame_and_has_its_size_at_its_end() {
    for (offer, need) in
        [(stream(), TransferNeed::All), (stream(), TransferNeed::InOrder), (file(9 * F), TransferNeed::InOrder)]
    {
        let mut source = source();
        let ids = offered(&mut source, vec![offer]);
        source.handle(needs(0, &[need])).unwrap();
        assert_eq!([0, 1, 2].map(|_| read_next(&mut source, 1)), [0, 1, 2]);
        let Some(WorkItem::Next(next)) = source.next_work(STREAM, 1) else { panic!("the end") };
        assert_eq!(source.flow_read(next.entry, false, Some((3 * F, Timestamp::default()))), Some((0, None)));
        assert!(source.next_work(STREAM, 1).is_none());
        let [SourceMessage::FileEnd { entry, size, .. }] = drain(&mut source)[..] else { panic!("its end") };
        assert_eq!((entry, size), (ids[0], 3 * F));
        source.end_offers();
        drain(&mut source);
        source.handle(done(0, 1)).unwrap();
        assert!(source.is_finished());
        assert_eq!(source.flow_read(ids[0], true, None), None, "late");
    }
}

#[test]
fn a_flows_data_in_flight_is_bounded_by_its_buffer() {
    let mut source = source();
    let ids = offered(&mut source, vec![stream()]);
    source.handle(needs(0, &[TransferNeed::All])).unwrap();
    let ahead = FrameLen::new(256 << 10).unwrap().frames_ahead();
    (0..ahead - 1).for_each(|index| assert_eq!(read_next(&mut source, 1), index));
    let Some(WorkItem::Next(next)) = source.next_work(STREAM, 1) else { panic!("the last one") };
    source.flow_read(next.entry, true, None);
    assert!(source.next_work(STREAM, 1).is_none());
    let written = |frames| TargetMessage::Ack { entry: ids[0], frames };
    assert!(source.handle(written(ahead + 1)).is_err(), "more than were read");
    source.handle(written(2)).unwrap();
    source.handle(written(1)).unwrap();
    assert!(matches!(source.next_work(STREAM, 1), Some(WorkItem::Next(next)) if next.index == ahead));
    assert_eq!(source.flow_read(ids[0], true, None), Some((2, None)));
    let begun = source.next_work(STREAM, 1);
    source.lose_stream(STREAM, begun);
    assert!(
        matches!(source.next_work(STREAM, 1), Some(WorkItem::Next(next)) if next.index == ahead + 1),
        "nobody reads it"
    );
}

#[test]
fn lost_flow_frames_are_resent_before_new_reads() {
    let mut source = source();
    let ids = offered(&mut source, vec![stream()]);
    source.handle(needs(0, &[TransferNeed::All])).unwrap();
    (0..6).for_each(|index| assert_eq!(read_next(&mut source, 1), index));
    source.handle(TargetMessage::Ack { entry: ids[0], frames: 2 }).unwrap();
    source.lose_stream(STREAM, None);
    assert_eq!(drain(&mut source), [SourceMessage::QueryMissing { streams: vec![STREAM], entries: vec![(ids[0], 1)] }]);
    source.handle(TargetMessage::Missing { entry: ids[0], frames: vec![0..1, 3..4, 5..90] }).unwrap();
    source.handle(TargetMessage::QueryEnd).unwrap();
    let mut kept = || match source.next_work(STREAM, 9) {
        Some(WorkItem::Kept(kept)) => Some(kept.index),
        Some(WorkItem::Next(_)) => None,
        other => panic!("{other:?}"),
    };
    assert_eq!([kept(), kept(), kept()], [Some(3), Some(5), None]);
    source.handle(TargetMessage::MissingRanges { entry: ids[0], frames: vec![3..4] }).unwrap();
    assert!(matches!(source.next_work(STREAM, 9), Some(WorkItem::Kept(kept)) if kept.index == 3), "it came damaged");
    for frames in [1..3, 5..7] {
        let lacks = TargetMessage::MissingRanges { entry: ids[0], frames: vec![frames] };
        assert_eq!(source.handle(lacks), Err(ProtocolError::Misplaced), "gone, or never read");
    }
}

#[test]
fn a_partly_read_chunk_is_sent_again_in_any_case() {
    let mut source = source();
    let ids = offered(&mut source, vec![file(4 * F)]);
    source.handle(needs(0, &[TransferNeed::All])).unwrap();
    let read = |source: &mut SourceSession<()>| {
        let Some(WorkItem::Frames(chunk)) = source.next_work(STREAM, 1) else { panic!("a frame") };
        let values: Vec<_> = chunk.frames.clone().map(|index| (index, [1; 32])).collect();
        source.frames_read(ids[0], &values, &RangeSet::new());
    };
    read(&mut source);
    let work = source.next_work(STREAM, 1);
    source.lose_stream(STREAM, work);
    (0..3).for_each(|_| read(&mut source));
    assert!(source.next_work(STREAM, 1).is_none());
    assert!(matches!(drain(&mut source)[..], [SourceMessage::FileEnd { .. }, SourceMessage::QueryMissing { .. }]));
}

#[test]
fn another_stream_takes_over_comparisons() {
    let mut source = source();
    let entry = with_a_part(&mut source);
    source
        .handle(TargetMessage::HaveRanges { entry, first: 1, values: vec![[1; 32], [2; 32]], compare: true })
        .unwrap();
    let work = source.next_work(STREAM, 1);
    source.lose_stream(STREAM, work);
    assert_eq!(drain(&mut source), [SourceMessage::QueryMissing { streams: vec![STREAM], entries: vec![] }]);
    source.handle(TargetMessage::QueryEnd).unwrap();
    let Some(WorkItem::Compare(chunk, _)) = source.next_work(STREAM, 1) else { panic!("again") };
    assert_eq!(chunk.frames, 1..3);
    let mut same = RangeSet::new();
    assert!(same.insert(1));
    source.frames_read(entry, &[(1, [1; 32]), (2, [9; 32])], &same);
    source.lose_stream(STREAM, None);
    assert!(matches!(drain(&mut source)[..], [SourceMessage::Match { .. }, SourceMessage::QueryMissing { .. }]));
    source.handle(TargetMessage::Missing { entry, frames: vec![0..5] }).unwrap();
    let Some(WorkItem::Frames(chunk)) = source.next_work(STREAM, 9) else { panic!("the one that differs") };
    assert_eq!(chunk.frames, 2..3);
    assert!(source.next_work(STREAM, 9).is_none());
}

#[test]
fn only_the_frames_of_a_range_are_sent() {
    let mut source = source();
    source.send_range(RangeLen::MIN.range(1).unwrap());
    offered(&mut source, vec![file(9 * F)]);
    for need in [TransferNeed::InOrder, TransferNeed::Delta] {
        let refused = source.handle(TargetMessage::Want { first: EntryId(0), needs: vec![need] });
        assert!(matches!(refused, Err(ProtocolError::Invalid(_))), "{need:?}");
    }
    source.handle(TargetMessage::Want { first: EntryId(0), needs: vec![TransferNeed::All] }).unwrap();
    let outside = source.handle(TargetMessage::MissingRanges { entry: EntryId(0), frames: vec![3..5] });
    assert_eq!(outside, Err(ProtocolError::Misplaced));
    let mut sent = Vec::new();
    while let Some(WorkItem::Frames(chunk)) = source.next_work(STREAM, 16) {
        let values: Vec<_> = chunk.frames.clone().map(|index| (index, [1; 32])).collect();
        sent.extend(chunk.frames);
        source.frames_read(EntryId(0), &values, &RangeSet::new());
    }
    assert_eq!(sent, [4, 5, 6, 7]);
    assert!(matches!(source.poll_message(), Some(SourceMessage::FileEnd { size, .. }) if size == 9 * F));
}
