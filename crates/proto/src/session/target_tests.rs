//! The target's session against sources that are late, wrong or hostile.

use std::ops::Range;

use super::outbox::{DONE_RUNS_MAX, MESSAGES_MAX, RESENDS_MAX};
use super::*;
use crate::delta::base::BaseId;
use crate::delta::rolling;
use crate::entry::{Entry, EntryMetadata};
use crate::entry_extras::{EntryExtras, ExtendedAttribute};
use crate::file_range::RangeLen;
use crate::ids::StreamId;
use crate::limits::{
    ENTRY_WINDOW, LOST_BASES_MAX, MARKED_FRAMES_MAX, OFFER_ENTRIES_MAX, OPEN_DIRECTORIES_BYTES_MAX,
    OPEN_DIRECTORIES_MAX, SUMS_BYTES_MAX, UNMERGED_RUNS_MAX, UNSETTLED_BYTES_MAX,
};
use crate::path::Name;
use crate::session::step::LostFile;
use crate::wire::frame::PackedFile;

const F: u64 = 256 << 10;

fn frame_len() -> FrameLen {
    FrameLen::new(256 << 10).unwrap()
}

fn target() -> TargetSession<u64> {
    TargetSession::new(frame_len())
}

fn child(parent: Option<u64>, kind: EntryContent) -> Entry {
    let place = match parent {
        Some(parent) => EntryLocation::Child { parent: EntryId(parent), name: Name::new(b"x").unwrap() },
        None => EntryLocation::Operand(0),
    };
    Entry { place, kind, meta: EntryMetadata::default(), version: None, more: None }
}

fn file(size: u64) -> Entry {
    child(None, EntryContent::File { size })
}

fn dir() -> Entry {
    child(None, EntryContent::Directory)
}

fn link() -> Entry {
    child(None, EntryContent::Symlink { points_to: (*b"x").into() })
}

#[test]
fn a_hard_link_refers_to_an_earlier_offer_and_delays_its_directory() {
    let name = |to| child(Some(0), EntryContent::HardLink { to: EntryId(to), size: 3 });
    for to in [1, 2, 7] {
        let fault = target().handle(offer(0, vec![dir(), name(to)]));
        assert!(matches!(fault, Err(ProtocolError::Unasked(_))), "{to}");
    }
    let mut target = target();
    let file = || child(Some(0), EntryContent::File { size: 0 });
    offered(&mut target, vec![dir(), file(), name(1)]);
    target.handle(end_of(0)).unwrap();
    assert!(target.admit_pack(&[packed(1)]).unwrap()[0].is_some());
    assert!(target.settle_entry(EntryId(1), true).is_none(), "its other name is not there");
    let frame = target.admit_frame(EntryId(2), 0, 3);
    assert!(matches!(frame, Ok(None)), "nothing is sent of a name");
    assert_eq!(target.settle_entry(EntryId(2), true).unwrap().entry, EntryId(0));
}

fn offer(first: u64, entries: Vec<Entry>) -> SourceMessage {
    SourceMessage::Offer { first: EntryId(first), entries }
}

fn end_of(entry: u64) -> SourceMessage {
    SourceMessage::DirectoryEnd { entry: EntryId(entry), listing: true.into() }
}

fn file_end(entry: u64) -> SourceMessage {
    SourceMessage::FileEnd { entry: EntryId(entry), size: 2 * F, modified: Timestamp::default(), digest: [0; 32] }
}

fn failed(entry: u64) -> SourceMessage {
    SourceMessage::SourceFailed { entry: EntryId(entry), reason: "gone".into(), vanished: false }
}

fn packed(entry: u64) -> PackedFile {
    PackedFile { entry: EntryId(entry), len: 0, modified: Timestamp::default(), digest: [0; 32] }
}

fn need(id: u64) -> EntryAnswer<u64> {
    EntryAnswer::Needed(Arc::new(id))
}

/// Offers entries and wants each (links are complete at once).
fn offered(target: &mut TargetSession<u64>, entries: Vec<Entry>) {
    let Ok(TargetStep::Examine(first, entries)) = target.handle(offer(target.next, entries)) else {
        panic!("no offer")
    };
    for (id, entry) in (first.0..).zip(entries) {
        let link = matches!(entry.kind, EntryContent::Symlink { .. });
        target.answer(EntryId(id), if link { EntryAnswer::Settled } else { need(id) });
    }
}

fn drain(target: &mut TargetSession<u64>) -> Vec<TargetMessage> {
    std::iter::from_fn(|| target.poll_message()).collect()
}

#[test]
fn offers_must_be_in_order() {
    let mut target = target();
    assert!(matches!(target.handle(offer(1, vec![file(0)])), Err(ProtocolError::OutOfTurn(_))));
    assert!(matches!(target.handle(offer(0, vec![])), Err(ProtocolError::OutOfTurn(_))));
    offered(&mut target, vec![file(0), file(0)]);
    assert!(matches!(target.handle(offer(1, vec![file(0)])), Err(ProtocolError::OutOfTurn(_))), "an id again");
    assert!(matches!(target.handle(offer(3, vec![file(0)])), Err(ProtocolError::OutOfTurn(_))), "a gap");
    target.handle(SourceMessage::OffersEnd).unwrap();
    assert!(matches!(target.handle(offer(2, vec![file(0)])), Err(ProtocolError::OutOfTurn(_))));
    assert!(matches!(target.handle(SourceMessage::OffersEnd), Err(ProtocolError::OutOfTurn(_))), "twice");
}

#[test]
fn children_need_an_open_directory() {
    let unasked = ProtocolError::Unasked("a child of an entry that is not an open directory");
    for parent in [0, 1, 2, 3, 4, u64::MAX] {
        let mut target = target();
        offered(&mut target, vec![file(0), link(), dir()]);
        target.handle(end_of(2)).unwrap();
        let offer = offer(3, vec![child(Some(parent), EntryContent::File { size: 0 })]);
        assert_eq!(target.handle(offer).map(drop), Err(unasked), "a child of {parent}");
    }
}

#[test]
fn a_directory_ends_once() {
    let mut target = target();
    offered(&mut target, vec![dir(), file(0), link(), dir()]);
    assert!(target.handle(SourceMessage::OffersEnd).is_err(), "open directories");
    assert!(matches!(target.handle(end_of(0)), Ok(TargetStep::Finish(finish)) if *finish.handle == 0));
    for entry in [0, 1, 2, 4, u64::MAX] {
        assert_eq!(target.handle(end_of(entry)).map(drop), Err(ProtocolError::OutOfTurn("the end of a directory")));
    }
    target.settle_entry(EntryId(0), true);
    assert!(target.handle(end_of(0)).is_err(), "once it is settled, too");
}

#[test]
fn a_file_ends_once_and_only_if_it_has_frames() {
    let mut target = target();
    offered(&mut target, vec![file(2 * F), file(5), dir(), link()]);
    assert!(matches!(target.handle(file_end(0)), Ok(TargetStep::None)));
    for entry in [0, 1, 2] {
        assert_eq!(target.handle(file_end(entry)).map(drop), Err(ProtocolError::OutOfTurn("the end of a file")));
    }
    assert!(matches!(target.handle(file_end(3)), Ok(TargetStep::None)), "settled, so it is late");
    assert!(matches!(target.handle(file_end(4)), Err(ProtocolError::Unasked(_))));
}

#[test]
fn frames_are_admitted_only_where_they_belong() {
    let mut target = target();
    offered(&mut target, vec![file(2 * F + 1), file(5), dir(), link()]);
    for (offset, len) in [(1, F), (0, F - 1), (2 * F, 2), (3 * F, 1), (u64::MAX, 1), (0, 0)] {
        let admitted = target.admit_frame(EntryId(0), offset, usize::try_from(len).unwrap());
        assert_eq!(admitted, Err(ProtocolError::Misplaced), "{offset} {len}");
    }
    for entry in [1, 2, 4] {
        assert!(matches!(target.admit_frame(EntryId(entry), 0, 5), Err(ProtocolError::Unasked(_))), "{entry}");
    }
    assert_eq!(target.admit_frame(EntryId(3), 0, 5), Ok(None), "settled, so it is late");
    assert_eq!(target.admit_frame(EntryId(0), 2 * F, 1).map(|handle| handle.is_some()), Ok(true));
    target.frame_written(EntryId(0), 2 * F, [0; 32]);
    assert_eq!(target.admit_frame(EntryId(0), 2 * F, 1), Ok(None), "a duplicate");
}

#[test]
fn of_two_copies_of_a_frame_one_is_written() {
    let mut target = target();
    offered(&mut target, vec![file(2 * F + 1)]);
    let admit = |target: &mut TargetSession<u64>| target.admit_frame(EntryId(0), 2 * F, 1).unwrap().is_some();
    assert!(admit(&mut target));
    assert!(!admit(&mut target), "the first is being written, and what comes after it may be the file's name");
    target.resend_frame(EntryId(0), 2 * F);
    assert!(admit(&mut target), "it was damaged");
    target.frame_written(EntryId(0), 2 * F, [0; 32]);
    assert!(!admit(&mut target));
}

/// Offers a file of three frames, the last of one byte, with a partial file; returns its digest.
fn with_a_part(target: &mut TargetSession<u64>) -> Digest {
    target.handle(offer(0, vec![file(2 * F + 1)])).unwrap();
    target.answer(EntryId(0), EntryAnswer::Partial(Arc::new(0)));
    assert_eq!(drain(target), [TargetMessage::Want { first: EntryId(0), needs: vec![TransferNeed::Rest] }]);
    let mut tree = FrameTree::new(3);
    (0..3).for_each(|index| assert!(tree.insert(index, [1; 32])));
    tree.digest().unwrap()
}

#[test]
fn an_earlier_runs_part_counts_and_is_reported() {
    let mut target = target();
    let digest = with_a_part(&mut target);
    target.lacks(EntryId(0), &[2..3]);
    assert!(matches!(target.holds(EntryId(0), 0, &[[1; 32]; 2], false), TargetStep::None));
    let holds = TargetMessage::HaveRanges { entry: EntryId(0), first: 0, values: vec![[1; 32]; 2], compare: false };
    assert_eq!(drain(&mut target), [TargetMessage::MissingRanges { entry: EntryId(0), frames: vec![2..3] }, holds]);
    assert_eq!(target.admit_frame(EntryId(0), 0, frame_len().bytes()), Ok(None), "it is there");
    target
        .handle(SourceMessage::FileEnd { entry: EntryId(0), size: 2 * F + 1, modified: Timestamp::default(), digest })
        .unwrap();
    assert!(target.admit_frame(EntryId(0), 2 * F, 1).unwrap().is_some());
    assert!(matches!(target.frame_written(EntryId(0), 2 * F, [1; 32]), TargetStep::Finish(_)));
}

#[test]
fn a_part_to_be_compared_counts_after_the_comparison() {
    let mut target = target();
    let digest = with_a_part(&mut target);
    assert!(matches!(target.holds(EntryId(0), 0, &[[1; 32]; 3], true), TargetStep::None));
    target
        .handle(SourceMessage::FileEnd { entry: EntryId(0), size: 2 * F + 1, modified: Timestamp::default(), digest })
        .unwrap();
    let same = |frames| SourceMessage::Match { entry: EntryId(0), frames: vec![frames] };
    for frames in [0..4, 3..9, 0..u64::MAX] {
        assert!(matches!(target.handle(same(frames)), Err(ProtocolError::Unasked(_))));
    }
    assert!(matches!(target.handle(same(1..3)), Ok(TargetStep::None)));
    assert!(target.admit_frame(EntryId(0), 0, frame_len().bytes()).unwrap().is_some(), "the source has another one");
    assert!(matches!(target.frame_written(EntryId(0), 0, [1; 32]), TargetStep::Finish(_)));
}

#[test]
fn a_new_offer_of_a_file_replaces_the_old_one() {
    let mut target = target();
    offered(&mut target, vec![dir(), child(Some(0), EntryContent::File { size: 2 * F })]);
    target.handle(SourceMessage::DirectoryEnd { entry: EntryId(0), listing: true.into() }).unwrap();
    target.handle(SourceMessage::OffersEnd).unwrap();
    let again = |old| Entry { place: EntryLocation::Again(EntryId(old)), ..file(3 * F) };
    assert!(target.handle(offer(2, vec![file(1)])).is_err(), "nothing else is offered any more");
    assert!(target.handle(offer(2, vec![again(0)])).is_err(), "a directory");
    assert!(target.handle(offer(2, vec![again(2)])).is_err(), "itself");
    assert!(target.admit_frame(EntryId(1), 0, frame_len().bytes()).unwrap().is_some());
    let TargetStep::Examine(..) = target.handle(offer(2, vec![again(1)])).unwrap() else { panic!("to be examined") };
    assert!(matches!(target.parent(&EntryLocation::Again(EntryId(1))), ParentDirectory::Again(_)));
    assert!(target.answer(EntryId(2), EntryAnswer::Needed(Arc::new(7))).is_none());
    assert!(matches!(target.frame_written(EntryId(1), 0, [0; 32]), TargetStep::None), "late");
    assert_eq!(target.admit_frame(EntryId(1), F, frame_len().bytes()), Ok(None), "late");
    assert_eq!(target.admit_frame(EntryId(2), 0, frame_len().bytes()), Ok(Some(Arc::new(7))));
    target.release_frame(EntryId(2), 0);
    target.handle(offer(3, vec![again(2)])).unwrap();
    let complete = target.answer(EntryId(3), EntryAnswer::Refused);
    assert!(matches!(complete, Some(FinishedEntry { entry: EntryId(0), .. })), "the directory");
    assert!(target.settle_entry(EntryId(0), true).is_none());
    drain(&mut target);
    assert!(target.is_finished());
    target.handle(offer(4, vec![again(1)])).unwrap();
    assert!(matches!(target.parent(&EntryLocation::Again(EntryId(1))), ParentDirectory::Refused), "it is settled");
}

/// Returns a target with an offered flow.
fn with_a_flow(kind: EntryContent, answer: EntryAnswer<u64>) -> TargetSession<u64> {
    let mut target = target();
    target.handle(offer(0, vec![child(None, kind)])).unwrap();
    target.answer(EntryId(0), answer);
    drain(&mut target);
    target
}

#[test]
fn a_flow_accepts_frames_within_a_window_and_acknowledges_written_data() {
    let ahead = frame_len().frames_ahead();
    let len = frame_len().bytes();
    for (kind, in_order, frames) in [
        (EntryContent::Stream, false, None),
        (EntryContent::Stream, true, None),
        (EntryContent::File { size: 999 * F }, true, Some(999)),
    ] {
        let answer = if in_order { EntryAnswer::NeededInOrder(Arc::new(0)) } else { need(0) };
        let mut target = with_a_flow(kind, answer);
        assert!(target.admit_frame(EntryId(0), 2 * F, len).unwrap().is_some());
        assert!(target.admit_frame(EntryId(0), (ahead - 1) * F, len).unwrap().is_some());
        let too_far = Err(ProtocolError::OverLimit("frames ahead of what is written"));
        assert_eq!(target.admit_frame(EntryId(0), ahead * F, len), too_far);
        for index in 0..ahead / 8 {
            assert!(drain(&mut target).is_empty());
            target.frame_written(EntryId(0), index * F, [0; 32]);
        }
        assert_eq!(drain(&mut target), [TargetMessage::Ack { entry: EntryId(0), frames: ahead / 8 }]);
        assert!(target.admit_frame(EntryId(0), ahead * F, len).unwrap().is_some());
        assert_eq!(target.admit_frame(EntryId(0), 0, len), Ok(None), "it is there");
        target.resend_frame(EntryId(0), ahead * F);
        let again = TargetMessage::MissingRanges { entry: EntryId(0), frames: vec![ahead..ahead + 1] };
        assert_eq!(drain(&mut target), [again]);
        target.handle(SourceMessage::QueryMissing { streams: vec![], entries: vec![(EntryId(0), 1)] }).unwrap();
        let told = drain(&mut target);
        let missing = vec![ahead / 8..ahead - 1, ahead..frames.unwrap_or(ahead / 8 + ahead)];
        assert_eq!(told[0], TargetMessage::Missing { entry: EntryId(0), frames: missing });
    }
}

#[test]
fn only_a_streams_last_frame_is_short_and_matches_its_end() {
    let len = frame_len().bytes();
    let end =
        |size| SourceMessage::FileEnd { entry: EntryId(0), size, modified: Timestamp::default(), digest: [0; 32] };
    let begun = || with_a_flow(EntryContent::Stream, need(0));
    let mut target = begun();
    assert!(target.admit_frame(EntryId(0), 3 * F, 7).unwrap().is_some());
    assert_eq!(target.admit_frame(EntryId(0), 4 * F, len), Err(ProtocolError::Misplaced), "behind the last");
    assert_eq!(target.admit_frame(EntryId(0), F, 7), Err(ProtocolError::Misplaced), "short in the middle");
    assert_eq!(target.admit_frame(EntryId(0), 1, len), Err(ProtocolError::Misplaced), "not where a frame begins");
    assert!(target.admit_frame(EntryId(0), F, len).unwrap().is_some());
    for size in [0, 3 * F, 3 * F + 6, 3 * F + 8, 9 * F, u64::MAX] {
        let mut target = begun();
        assert!(target.admit_frame(EntryId(0), 3 * F, 7).unwrap().is_some());
        assert!(target.handle(end(size)).is_err(), "{size}");
    }
    for size in [0, F, 2 * F - 1, F + 1] {
        let mut target = begun();
        assert!(target.admit_frame(EntryId(0), F, len).unwrap().is_some());
        assert!(target.handle(end(size)).is_err(), "{size}");
    }
    assert!(matches!(target.handle(end(3 * F + 7)), Ok(TargetStep::None)));
    assert!(target.handle(end(3 * F + 7)).is_err(), "once");
    assert_eq!(target.admit_frame(EntryId(0), 4 * F, len), Err(ProtocolError::Misplaced));
    let mut empty = begun();
    let digest = *blake3::hash(b"").as_bytes();
    let end = SourceMessage::FileEnd { entry: EntryId(0), size: 0, modified: Timestamp::default(), digest };
    assert!(matches!(empty.handle(end), Ok(TargetStep::Finish(_))));
}

#[test]
fn a_lost_flow_is_not_requested_again() {
    let mut target = with_a_flow(EntryContent::Stream, need(0));
    assert!(target.admit_frame(EntryId(0), 0, 3).unwrap().is_some());
    let value = *blake3::hash(b"abc").as_bytes();
    target.frame_written(EntryId(0), 0, value);
    let end = SourceMessage::FileEnd { entry: EntryId(0), size: 3, modified: Timestamp::default(), digest: value };
    let Ok(TargetStep::Finish(FinishedEntry { entry, handle, end: Some(end), .. })) = target.handle(end) else {
        panic!("whole")
    };
    assert_eq!(end.size, 3);
    assert_eq!(target.lost(vec![LostFile { entry, handle, left: Some((3, end)) }]), [entry]);
}

#[test]
fn a_file_is_complete_with_all_frames_and_its_end() {
    let data = vec![7u8; 2 * frame_len().bytes()];
    let value = |index: u64| frame_len().hash(2 * F, index, &data[..frame_len().bytes()]);
    let digest = *blake3::hash(&data).as_bytes();
    let end = SourceMessage::FileEnd { entry: EntryId(0), size: 2 * F, modified: Timestamp::default(), digest };
    for end_comes in 0..3 {
        let mut target = target();
        offered(&mut target, vec![file(2 * F)]);
        let mut steps = Vec::new();
        for step in 0..3u64 {
            steps.push(match step.cmp(&end_comes) {
                std::cmp::Ordering::Equal => target.handle(end.clone()).unwrap(),
                std::cmp::Ordering::Less => target.frame_written(EntryId(0), step * F, value(step)),
                std::cmp::Ordering::Greater => target.frame_written(EntryId(0), (step - 1) * F, value(step - 1)),
            });
        }
        assert!(
            matches!(&steps[..], [TargetStep::None, TargetStep::None, TargetStep::Finish(FinishedEntry { end: Some(end), .. })] if end.digest == digest)
        );
        assert!(matches!(target.handle(failed(0)), Ok(TargetStep::None)), "too late to take it back");
        assert_eq!(target.admit_frame(EntryId(0), 0, frame_len().bytes()), Ok(None));
    }
}

#[test]
fn another_files_frames_are_a_mismatch() {
    let mut target = target();
    offered(&mut target, vec![file(2 * F)]);
    target.handle(file_end(0)).unwrap();
    target.frame_written(EntryId(0), 0, [9; 32]);
    assert!(matches!(target.frame_written(EntryId(0), F, [9; 32]), TargetStep::Mismatch(EntryId(0), _)));
    target.settle_entry(EntryId(0), false);
    assert_eq!(drain(&mut target)[1..], [TargetMessage::TargetFailed { entry: EntryId(0) }]);
}

#[test]
fn packs_hold_only_needed_files() {
    let mut target = target();
    offered(&mut target, vec![file(F), file(5), dir(), link()]);
    drain(&mut target);
    for entry in [0, 2, 4, u64::MAX] {
        assert!(matches!(target.admit_pack(&[packed(1), packed(entry)]), Err(ProtocolError::Unasked(_))), "{entry}");
        assert!(matches!(target.resend_pack(&[packed(1), packed(entry)]), Err(ProtocolError::Unasked(_))), "{entry}");
    }
    assert_eq!(drain(&mut target), [], "all or nothing");
    target.resend_pack(&[packed(3), packed(1)]).unwrap();
    assert_eq!(drain(&mut target), [TargetMessage::ResendPacked { entries: vec![EntryId(1)] }]);
    let twice = target.admit_pack(&[packed(1), packed(1), packed(3)]).unwrap();
    assert_eq!(twice.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, false]);
    target.resend_pack(&[packed(1)]).unwrap();
    assert_eq!(drain(&mut target), [], "it is whole already");
}

#[test]
fn files_abandoned_by_the_source_are_abandoned_once() {
    let mut target = target();
    offered(
        &mut target,
        vec![
            dir(),
            child(Some(0), EntryContent::File { size: F }),
            child(Some(0), EntryContent::File { size: 5 }),
            link(),
        ],
    );
    target.handle(end_of(0)).unwrap();
    assert!(matches!(target.handle(failed(0)), Err(ProtocolError::OutOfTurn(_))), "a directory");
    assert!(matches!(target.handle(failed(4)), Err(ProtocolError::Unasked(_))), "never offered");
    assert!(matches!(target.handle(failed(3)), Ok(TargetStep::None)), "settled");
    for entry in [1, 2] {
        assert!(
            matches!(target.handle(failed(entry)), Ok(TargetStep::Abandon(id, handle, _)) if id.0 == entry && *handle == entry)
        );
        assert!(matches!(target.handle(failed(entry)), Ok(TargetStep::None)), "once");
    }
    assert_eq!(target.admit_frame(EntryId(1), 0, frame_len().bytes()), Ok(None), "it is being removed");
    target.resend_frame(EntryId(1), 0);
    assert!(matches!(target.frame_written(EntryId(1), 0, [0; 32]), TargetStep::None));
    assert!(target.abandoned(EntryId(1)).is_none() && target.abandoned(EntryId(1)).is_none());
    assert!(target.settle_entry(EntryId(1), false).is_none(), "not settled twice");
    assert!(matches!(target.abandoned(EntryId(2)), Some(finish) if finish.entry == EntryId(0)));
}

#[test]
fn the_window_is_enforced() {
    let mut target = target();
    for _ in 0..ENTRY_WINDOW / OFFER_ENTRIES_MAX {
        offered(&mut target, vec![file(0); OFFER_ENTRIES_MAX]);
    }
    let next = target.next;
    assert!(
        matches!(target.handle(offer(next, vec![dir()])), Ok(TargetStep::Examine(..))),
        "directories count only once ended"
    );
    target.answer(EntryId(next), need(next));
    assert!(matches!(target.handle(offer(next + 1, vec![link()])), Err(ProtocolError::OverLimit(_))));
}

#[test]
fn abandoned_files_leave_the_window() {
    let mut target = target();
    for _ in 0..ENTRY_WINDOW / OFFER_ENTRIES_MAX {
        offered(&mut target, vec![file(0); OFFER_ENTRIES_MAX]);
    }
    target.admit_pack(&[packed(0)]).unwrap();
    target.handle(failed(0)).unwrap();
    target.handle(failed(1)).unwrap();
    offered(&mut target, vec![file(0); 2]);
    target.settle_entry(EntryId(0), true);
    target.abandoned(EntryId(1));
    assert_eq!(target.window.entries, ENTRY_WINDOW);
}

#[test]
fn open_directories_are_limited() {
    let mut target = target();
    for _ in 0..OPEN_DIRECTORIES_MAX / OFFER_ENTRIES_MAX {
        offered(&mut target, vec![dir(); OFFER_ENTRIES_MAX]);
    }
    assert!(matches!(target.handle(offer(target.next, vec![dir()])), Err(ProtocolError::OverLimit(_))));
}

#[test]
fn frames_with_gaps_between_them_are_limited() {
    let mut target = target();
    let frames = 3 * UNMERGED_RUNS_MAX as u64;
    offered(&mut target, vec![file(frames * F); 2]);
    let mut send = |entry, index: u64| {
        let admitted = target.admit_frame(EntryId(entry), index * F, frame_len().bytes());
        admitted.map(|_| drop(target.frame_written(EntryId(entry), index * F, [0; 32])))
    };
    let half = UNMERGED_RUNS_MAX as u64 / 2;
    let sent = (0..frames).step_by(2).map(|index| (u64::from(index >= half * 2), index));
    let faulty = sent.map(|(entry, index)| (index / 2, send(entry, index))).find(|(_, sent)| sent.is_err());
    let (number, fault) = faulty.unwrap();
    assert!(matches!(fault, Err(ProtocolError::OverLimit(_))), "{fault:?}");
    let most = (UNMERGED_RUNS_MAX + RUNS_COUNTED_EVERY) as u64;
    assert!((UNMERGED_RUNS_MAX as u64..=most).contains(&number), "{number}");
}

#[test]
fn frames_in_order_have_no_limit() {
    let mut target = target();
    offered(&mut target, vec![file(1 << 50)]);
    for index in 0..2 * UNMERGED_RUNS_MAX as u64 {
        assert!(target.admit_frame(EntryId(0), index * F, frame_len().bytes()).is_ok());
        target.frame_written(EntryId(0), index * F, [0; 32]);
    }
}

#[test]
fn no_entry_is_queried_twice() {
    let mut target = target();
    offered(&mut target, vec![file(9 * F); 3]);
    let mut ask = |entries| target.handle(SourceMessage::QueryMissing { streams: vec![StreamId(0)], entries });
    assert!(matches!(ask(vec![(EntryId(0), 1), (EntryId(0), 1)]), Err(ProtocolError::Invalid(_))));
    assert!(matches!(ask(vec![(EntryId(1), 2), (EntryId(2), 1)]), Err(ProtocolError::Invalid(_))));
    assert!(ask(vec![(EntryId(0), 1), (EntryId(1), 2)]).is_ok());
}

/// Adds an extended attribute of 60,000 bytes.
fn heavy(entry: Entry) -> Entry {
    let attributes = vec![ExtendedAttribute { name: b"user.a".as_slice().into(), value: vec![0; 60_000].into() }];
    Entry { more: Some(Box::new(EntryExtras { attributes: Some(attributes), ..EntryExtras::default() })), ..entry }
}

#[test]
fn bytes_of_unsettled_entries_are_limited() {
    let mut target = target();
    let bytes = heavy(file(0)).held_bytes();
    let most = UNSETTLED_BYTES_MAX / bytes;
    for _ in 0..most {
        offered(&mut target, vec![heavy(file(0))]);
    }
    assert_eq!(target.window.bytes, most * bytes);
    target.admit_pack(&[packed(0)]).unwrap();
    target.settle_entry(EntryId(0), true);
    target.handle(failed(1)).unwrap();
    target.abandoned(EntryId(1));
    offered(&mut target, vec![heavy(file(0)), heavy(file(0))]);
    let one_more = target.handle(offer(target.next, vec![heavy(file(0))]));
    assert!(matches!(one_more, Err(ProtocolError::OverLimit(_))), "{one_more:?}");
}

#[test]
fn bytes_of_open_directories_are_limited() {
    let mut target = target();
    let most = OPEN_DIRECTORIES_BYTES_MAX / heavy(dir()).held_bytes();
    for _ in 0..most {
        offered(&mut target, vec![heavy(dir())]);
    }
    target.handle(SourceMessage::DirectoryEnd { entry: EntryId(0), listing: true.into() }).unwrap();
    assert!(target.window.open_bytes < target.window.bytes);
    target.settle_entry(EntryId(0), true);
    assert_eq!(target.window.open_bytes, target.window.bytes);
    offered(&mut target, vec![heavy(dir())]);
    assert!(matches!(target.handle(offer(target.next, vec![heavy(dir())])), Err(ProtocolError::OverLimit(_))));
}

#[test]
fn a_source_that_reads_nothing_cannot_fill_the_memory_of_the_target() {
    let mut target = target();
    offered(&mut target, vec![file(F)]);
    let mut resends = 0;
    while target.admit_frame(EntryId(0), 0, frame_len().bytes()).is_ok() {
        target.resend_frame(EntryId(0), 0);
        resends += 1;
        assert!(resends <= RESENDS_MAX + 1);
    }
    drain(&mut target);
    assert!(target.admit_frame(EntryId(0), 0, frame_len().bytes()).is_ok(), "once they are read it goes on");
    let mut offers = 0;
    while target.handle(offer(target.next, vec![link()])).is_ok() {
        target.answer(EntryId(target.next - 1), EntryAnswer::Settled);
        offers += 1;
        assert!(offers <= MESSAGES_MAX + 1);
    }
}

#[test]
fn a_refused_directory_takes_all_below_it() {
    let mut target = target();
    // The directory, its child directory with a file, and a file, all in one Offer.
    let entries = vec![
        dir(),
        child(Some(0), EntryContent::Directory),
        child(Some(1), EntryContent::File { size: 1 }),
        child(Some(0), EntryContent::File { size: F }),
    ];
    let Ok(TargetStep::Examine(_, entries)) = target.handle(offer(0, entries)) else { panic!("no offer") };
    assert!(matches!(target.parent(&entries[0].place), ParentDirectory::Operand(0)));
    for id in 0..4 {
        assert!(
            id == 0 || matches!(target.parent(&entries[usize::try_from(id).unwrap()].place), ParentDirectory::Refused)
        );
        assert!(target.answer(EntryId(id), EntryAnswer::Refused).is_none());
    }
    assert!(matches!(target.handle(end_of(1)), Ok(TargetStep::None)));
    assert!(matches!(target.handle(end_of(0)), Ok(TargetStep::None)));
    target.handle(SourceMessage::OffersEnd).unwrap();
    assert_eq!(drain(&mut target), [TargetMessage::Want { first: EntryId(0), needs: vec![TransferNeed::Refused; 4] }]);
    assert!(target.is_finished() && target.entries.is_empty() && target.window.entries == 0);
}

#[test]
fn a_released_frame_may_be_sent_again() {
    let mut target = target();
    offered(&mut target, vec![file(2 * F)]);
    let admit = |target: &mut TargetSession<u64>| target.admit_frame(EntryId(0), F, 256 << 10).unwrap().is_some();
    assert!(admit(&mut target) && !admit(&mut target), "it is in somebody's hand");
    target.release_frame(EntryId(0), F);
    assert!(admit(&mut target));
    target.frame_written(EntryId(0), F, [1; 32]);
    target.release_frame(EntryId(0), F);
    assert!(!admit(&mut target), "what is written stays written");
    target.release_frame(EntryId(7), 0);
}

#[test]
fn directories_complete_from_the_inside_out() {
    let mut target = target();
    offered(
        &mut target,
        vec![dir(), child(Some(0), EntryContent::Directory), child(Some(1), EntryContent::File { size: 5 })],
    );
    assert!(matches!(target.handle(end_of(0)), Ok(TargetStep::None)), "the outer one may end first");
    assert!(matches!(target.handle(end_of(1)), Ok(TargetStep::None)));
    target.admit_pack(&[packed(2)]).unwrap();
    let inner = target.settle_entry(EntryId(2), true).expect("the inner directory");
    assert_eq!((inner.entry, *inner.handle, inner.end.is_none()), (EntryId(1), 1, true));
    let outer = target.settle_entry(EntryId(1), true).expect("the outer directory");
    assert_eq!(outer.entry, EntryId(0));
    assert!(target.settle_entry(EntryId(0), true).is_none());
    target.handle(SourceMessage::OffersEnd).unwrap();
    drain(&mut target);
    assert!(target.is_finished());
}

#[test]
fn done_is_reported_in_runs_that_fit_a_message() {
    let mut target = target();
    for _ in 0..ENTRY_WINDOW / OFFER_ENTRIES_MAX {
        offered(&mut target, vec![file(0); OFFER_ENTRIES_MAX]);
    }
    drain(&mut target);
    let every_second: Vec<_> = (0..ENTRY_WINDOW as u64).step_by(2).map(packed).collect();
    target.admit_pack(&every_second).unwrap();
    every_second.iter().for_each(|file| drop(target.settle_entry(file.entry, true)));
    let mut told = 0;
    for message in drain(&mut target) {
        let TargetMessage::Done { runs } = message else { panic!("{message:?}") };
        assert!(runs.len() <= DONE_RUNS_MAX);
        told += runs.iter().map(|run| run.1).sum::<u64>();
    }
    assert_eq!(told, ENTRY_WINDOW as u64 / 2);
}

#[test]
fn a_query_returns_frames_neither_here_nor_in_progress() {
    let mut target = target();
    let ask = |first, count| SourceMessage::QueryMissing {
        streams: vec![StreamId(3)],
        entries: vec![(EntryId(first), count)],
    };
    let len = frame_len().bytes();
    offered(&mut target, vec![file(5 * F), file(5), file(5), file(5 * F), dir()]);
    drain(&mut target);
    assert_eq!(target.admit_frame(EntryId(0), F, len).unwrap().as_deref(), Some(&0));
    target.frame_written(EntryId(0), F, [1; 32]);
    assert!(target.admit_frame(EntryId(0), 3 * F, len).unwrap().is_some());
    target.admit_pack(&[packed(1)]).unwrap();
    let step = target.handle(ask(0, 3)).unwrap();
    assert!(matches!(step, TargetStep::StreamsLost(streams) if streams == [StreamId(3)]));
    assert_eq!(target.handle(ask(0, 3)).unwrap_err(), ProtocolError::OutOfTurn("a question"), "one at a time");
    let answer = [
        TargetMessage::Missing { entry: EntryId(0), frames: vec![0..1, 2..3, 4..5] },
        TargetMessage::ResendPacked { entries: vec![EntryId(2)] },
        TargetMessage::QueryEnd,
    ];
    assert_eq!(drain(&mut target), answer);
    for (first, count, fault) in [
        (3, 2, ProtocolError::Unasked("frames that were not sent")),
        (3, 3, ProtocolError::Unasked("frames that were not sent")),
        (5, 1, ProtocolError::Unasked("an entry that was never offered")),
        (0, u64::MAX, ProtocolError::OverLimit("queried entries")),
    ] {
        assert_eq!(target.handle(ask(first, count)).unwrap_err(), fault);
    }
}

#[test]
fn requests_for_many_small_files_respect_the_message_limit() {
    let mut target = target();
    offered(&mut target, vec![file(0); OFFER_ENTRIES_MAX]);
    offered(&mut target, vec![file(0); OFFER_ENTRIES_MAX]);
    drain(&mut target);
    target.handle(SourceMessage::QueryMissing { streams: vec![], entries: vec![(EntryId(0), 1000)] }).unwrap();
    let sizes = drain(&mut target).into_iter().map(|message| match message {
        TargetMessage::ResendPacked { entries } => entries.len(),
        _ => 0,
    });
    assert_eq!(sizes.collect::<Vec<_>>(), [512, 488, 0]);
}

#[test]
fn lost_files_are_requested_once_more() {
    let mut target = target();
    offered(&mut target, vec![file(5), file(5), file(5), file(2 * F)]);
    drain(&mut target);
    let lost = |target: &mut TargetSession<u64>, ids: &[u64]| {
        let lost = |id: &u64| LostFile { entry: EntryId(*id), handle: Arc::new(id + 100), left: None };
        target.lost(ids.iter().map(lost).collect())
    };
    assert_eq!(lost(&mut target, &[0, 3, 9]), [EntryId(0), EntryId(3), EntryId(9)], "none of them is whole");
    target.admit_pack(&[packed(0), packed(1), packed(2)]).unwrap();
    target.handle(failed(2)).unwrap();
    assert_eq!(lost(&mut target, &[0, 1, 2]), [EntryId(2)], "the source has nothing more to say of it");
    assert_eq!(drain(&mut target), [TargetMessage::ResendPacked { entries: vec![EntryId(0), EntryId(1)] }]);
    let again = target.admit_pack(&[packed(0), packed(1)]).unwrap();
    assert_eq!(again.into_iter().flatten().map(|handle| *handle).collect::<Vec<_>>(), [100, 101]);
    assert_eq!(lost(&mut target, &[0]), [EntryId(0)], "it had its second chance");
    assert!(drain(&mut target).is_empty() && target.is_known(EntryId(0)));
}

/// Returns a target with a whole file of three frames, and the end of that file.
fn whole_file() -> (TargetSession<u64>, Box<FileEnd>) {
    let data = vec![7u8; 3 * frame_len().bytes()];
    let mut target = target();
    target.keep_values();
    offered(&mut target, vec![file(3 * F)]);
    let digest = *blake3::hash(&data).as_bytes();
    target
        .handle(SourceMessage::FileEnd { entry: EntryId(0), size: 3 * F, modified: Timestamp::default(), digest })
        .unwrap();
    let end = written(&mut target, 0..3).expect("it is whole");
    drain(&mut target);
    (target, end)
}

/// Delivers frames of the file of [`whole_file`]; returns its end when it is whole.
fn written(target: &mut TargetSession<u64>, frames: Range<u64>) -> Option<Box<FileEnd>> {
    let frame = frame_len();
    let mut end = None;
    for index in frames {
        assert!(target.admit_frame(EntryId(0), index * F, frame.bytes()).unwrap().is_some(), "frame {index}");
        let value = frame.hash(3 * F, index, &vec![7; frame.bytes()]);
        match target.frame_written(EntryId(0), index * F, value) {
            TargetStep::Finish(finish) => end = finish.end,
            TargetStep::None => {}
            other => panic!("{other:?}"),
        }
    }
    end
}

#[test]
fn only_a_large_files_lost_frames_are_resent() {
    for damaged in [0..3, 1..2, 0..2] {
        let (mut target, mut end) = whole_file();
        let modified = end.modified;
        end.tree.forget(&damaged);
        let lost = |end: &FileEnd| LostFile {
            entry: EntryId(0),
            handle: Arc::new(100),
            left: Some((3 * F, Box::new(end.clone()))),
        };
        assert_eq!(target.lost(vec![lost(&end)]), []);
        assert_eq!(
            drain(&mut target),
            [TargetMessage::MissingRanges { entry: EntryId(0), frames: vec![damaged.clone()] }]
        );
        let kept = (0..3).find(|index| !damaged.contains(index));
        kept.iter().for_each(|index| {
            assert_eq!(target.admit_frame(EntryId(0), index * F, frame_len().bytes()), Ok(None));
        });
        assert_eq!(target.admit_frame(EntryId(0), damaged.start * F, frame_len().bytes()), Ok(Some(Arc::new(100))));
        target.release_frame(EntryId(0), damaged.start * F);
        let again = written(&mut target, damaged).expect("it is whole without another FileEnd");
        assert!((again.modified, again.digest) == (modified, end.digest));
        assert_eq!(target.lost(vec![lost(&end)]), [EntryId(0)], "it had its second chance");
        assert!(drain(&mut target).is_empty() && target.is_known(EntryId(0)));
    }
}

#[test]
fn a_large_file_abandoned_by_its_source_is_not_requested() {
    let (mut target, mut end) = whole_file();
    target.handle(failed(0)).unwrap();
    end.tree.forget(&(0..1));
    assert_eq!(
        target.lost(vec![LostFile { entry: EntryId(0), handle: Arc::new(0), left: Some((3 * F, end)) }]),
        [EntryId(0)]
    );
}

#[test]
fn resent_data_may_be_lost_again() {
    let (mut target, mut end) = whole_file();
    end.tree.forget(&(1..3));
    target.lost(vec![LostFile { entry: EntryId(0), handle: Arc::new(0), left: Some((3 * F, end)) }]);
    drain(&mut target);
    target.handle(SourceMessage::QueryMissing { streams: vec![StreamId(1)], entries: vec![(EntryId(0), 1)] }).unwrap();
    assert_eq!(
        drain(&mut target),
        [TargetMessage::Missing { entry: EntryId(0), frames: vec![1..3] }, TargetMessage::QueryEnd]
    );
}

#[test]
fn names_are_excluded_and_patterns_belong_to_open_directories() {
    let excluded = |entry, what| SourceMessage::Excluded { entry: EntryId(entry), what };
    let left_out = |entry| excluded(entry, Exclusion::Names(vec![Name::new(b"x").unwrap()]));
    let patterns = |entry| excluded(entry, Exclusion::Patterns { file: 0, text: b"*.o".to_vec() });
    let mut target = target();
    offered(&mut target, vec![dir(), child(Some(0), EntryContent::File { size: 0 })]);
    assert!(
        matches!(target.handle(left_out(0)), Ok(TargetStep::LeftOut(handle, names)) if *handle == 0 && names.len() == 1)
    );
    assert!(matches!(target.handle(patterns(0)), Ok(TargetStep::Patterns(EntryId(0), 0, _))));
    // A file, an entry never offered, and a directory that has ended.
    for entry in [1, 2, 0] {
        if entry == 0 {
            target.handle(end_of(0)).unwrap();
        }
        assert!(matches!(target.handle(left_out(entry)), Err(ProtocolError::OutOfTurn(_))), "{entry}");
        assert!(matches!(target.handle(patterns(entry)), Err(ProtocolError::OutOfTurn(_))), "{entry}");
    }
}

const LARGE: u64 = 3 * F;
const BASE: BaseId = BaseId { device: 1, inode: 7 };

/// Returns a target of files with base files, with block hashes sent for this frame.
fn with_bases(files: usize, marked: u64) -> TargetSession<u64> {
    let mut target = target();
    let Ok(TargetStep::Examine(first, entries)) = target.handle(offer(0, vec![file(LARGE); files])) else {
        panic!("no offer")
    };
    for id in (first.0..).take(entries.len()) {
        target.answer(EntryId(id), EntryAnswer::Delta(Arc::new(id)));
        target.mark(EntryId(id), marked, 1, vec![7; 64]);
    }
    drain(&mut target);
    target
}

/// Builds a frame with this outcome; whether to write it.
fn build(target: &mut TargetSession<u64>, entry: u64, base: BaseId, rebuilt: Rebuilt) -> Result<bool, ProtocolError> {
    let admitted = target.admit_delta(EntryId(entry), F, 256 << 10).unwrap();
    assert!(admitted.is_some());
    target.conclude_delta(EntryId(entry), F, base, rebuilt)
}

#[test]
fn a_delta_needs_a_reported_base_frame() {
    for (offset, is_right) in [(F, true), (0, false), (2 * F, false)] {
        let admitted = with_bases(1, 1).admit_delta(EntryId(0), offset, 256 << 10);
        assert_eq!(admitted.is_ok(), is_right, "{offset}: {admitted:?}");
    }
    let mut target = with_bases(1, 1);
    target.begin_sums(EntryId(0), 5);
    assert!(target.admit_delta(EntryId(0), 2 * F, 256 << 10).is_ok(), "sums are of all blocks");
}

#[test]
fn hashes_of_base_files_wait_for_room_at_the_source() {
    let mut target = with_bases(2, 1);
    let most = SUMS_BYTES_MAX / rolling::bytes(1);
    assert!(target.may_sum(most) && !target.may_sum(most + 1));
    target.begin_sums(EntryId(0), most - 3);
    target.begin_sums(EntryId(1), 2);
    assert!(target.may_sum(1) && !target.may_sum(2));
    // A second attempt at a file replaces its first one.
    target.begin_sums(EntryId(1), 1);
    assert!(target.may_sum(2) && !target.may_sum(3));
    let frames = MARKED_FRAMES_MAX as u64 - 2;
    assert!(target.may_mark(frames) && !target.may_mark(frames + 1));
}

#[test]
fn the_first_wrong_delta_ends_trust_in_a_base_file_of_any_entry() {
    let mut target = with_bases(3, 1);
    let other = BaseId { inode: 8, ..BASE };
    assert_eq!(build(&mut target, 0, BASE, Rebuilt::Right), Ok(true));
    target.release_frame(EntryId(0), F);
    assert_eq!(build(&mut target, 0, BASE, Rebuilt::Wrong), Ok(false));
    let lacks = TargetMessage::MissingRanges { entry: EntryId(0), frames: vec![1..2] };
    assert_eq!(drain(&mut target), [lacks]);
    for rebuilt in [Rebuilt::Right, Rebuilt::Wrong, Rebuilt::BaseChanged] {
        for entry in 0..2 {
            assert_eq!(build(&mut target, entry, BASE, rebuilt), Ok(false), "the answer is the same: {rebuilt:?}");
            assert!(matches!(drain(&mut target)[..], [TargetMessage::MissingRanges { .. }]));
        }
    }
    assert_eq!((target.may_use_base(BASE), target.may_use_base(other), target.wrong_deltas()), (false, true, 1));
    assert_eq!(build(&mut target, 2, other, Rebuilt::Right), Ok(true), "other files keep theirs");
    target.release_frame(EntryId(2), F);
    let fault = build(&mut target, 2, other, Rebuilt::Wrong);
    assert_eq!(fault, Err(ProtocolError::OverLimit("deltas with a wrong value")));
}

#[test]
fn a_changed_base_file_is_dropped_without_blame() {
    let mut target = with_bases(1, 1);
    for inode in 0..LOST_BASES_MAX as u64 - 1 {
        let base = BaseId { device: 2, inode };
        assert_eq!(build(&mut target, 0, base, Rebuilt::BaseChanged), Ok(false));
    }
    assert_eq!((target.wrong_deltas(), target.may_use_base(BASE)), (0, true));
    assert_eq!(build(&mut target, 0, BASE, Rebuilt::BaseChanged), Ok(false));
    let another = BaseId { device: 3, inode: 1 };
    assert!(!target.may_use_base(another), "of more than can be remembered, none is of use");
}

#[test]
fn wrong_deltas_of_earlier_attempts_count() {
    let mut target = with_bases(1, 1);
    target.begin_with_wrong_deltas(1);
    assert!(build(&mut target, 0, BASE, Rebuilt::Wrong).is_err());
}

#[test]
fn frames_outside_the_range_are_faults() {
    let mut target = target();
    let range = RangeLen::MIN.range(1).unwrap();
    target.receive_range(range);
    let size = 9 * F;
    offered(&mut target, vec![file(size)]);
    let len = frame_len().bytes();
    for index in [0, 3, 8] {
        let outside = target.admit_frame(EntryId(0), index * F, len);
        assert!(matches!(outside, Err(ProtocolError::Misplaced)), "frame {index}");
    }
    for index in 4..8 {
        assert!(target.admit_frame(EntryId(0), index * F, len).unwrap().is_some());
        assert!(matches!(target.frame_written(EntryId(0), index * F, [1; 32]), TargetStep::None));
    }
    let mut tree = FrameTree::new(9).within(4..8);
    (4..8).for_each(|index| assert!(tree.insert(index, [1; 32])));
    let (modified, digest) = (Timestamp::default(), tree.digest().unwrap());
    let end = target.handle(SourceMessage::FileEnd { entry: EntryId(0), size, modified, digest }).unwrap();
    let TargetStep::Finish(finished) = end else { panic!("{end:?}") };
    assert_eq!(finished.end.unwrap().digest, digest);
}
