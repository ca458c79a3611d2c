//! Both sessions in a copy that only compares.

use std::sync::Arc;

use super::source::SourceSession;
use super::target::TargetSession;
use crate::entry::{Entry, EntryContent, EntryLocation, EntryMetadata, Timestamp};
use crate::error::ProtocolError;
use crate::ids::{EntryId, StreamId};
use crate::integrity::{Digest, FrameLen, FrameTree};
use crate::limits::{COMPARES_MAX, HELD_VALUES_MAX};
use crate::path::Name;
use crate::ranges::RangeSet;
use crate::scheduler::WorkItem;
use crate::session::step::{EntryAnswer, FinishedEntry, TargetStep};
use crate::wire::message::{SourceMessage, TargetMessage, TransferNeed};

const STREAM: StreamId = StreamId(0);
const F: u64 = 256 << 10;
const FILE: EntryId = EntryId(1);

fn frame_len() -> FrameLen {
    FrameLen::new(256 << 10).unwrap()
}

/// Returns a directory and a file in it.
fn entries(size: u64) -> Vec<Entry> {
    let entry = |place, kind| Entry { place, kind, meta: EntryMetadata::default(), version: None, more: None };
    let child = EntryLocation::Child { parent: EntryId(0), name: Name::new(b"x").unwrap() };
    vec![entry(EntryLocation::Operand(0), EntryContent::Directory), entry(child, EntryContent::File { size })]
}

/// Returns a source that has offered a directory and a file and has received this decision about the file.
fn source(size: u64, need: TransferNeed) -> (SourceSession<()>, Result<(), ProtocolError>) {
    let mut source = SourceSession::comparing(frame_len(), 2);
    for entry in entries(size) {
        source.offer(entry, Arc::new(()));
    }
    source.flush_offers();
    said(&mut source);
    let answered = source.handle(TargetMessage::Want { first: EntryId(0), needs: vec![TransferNeed::All, need] });
    (source, answered)
}

fn said(source: &mut SourceSession<()>) -> Vec<SourceMessage> {
    std::iter::from_fn(|| source.poll_message()).collect()
}

fn holds(first: u64, count: usize, compare: bool) -> TargetMessage {
    TargetMessage::HaveRanges { entry: FILE, first, values: vec![[1; 32]; count], compare }
}

/// Returns a target that compares an offered directory and file.
fn target(size: u64) -> TargetSession<u64> {
    let mut target = TargetSession::new(frame_len());
    let offer = SourceMessage::Offer { first: EntryId(0), entries: entries(size) };
    assert!(matches!(target.handle(offer), Ok(TargetStep::Examine(..))));
    target.answer(EntryId(0), EntryAnswer::Needed(Arc::new(0)));
    target.answer(FILE, EntryAnswer::Compare(Arc::new(1)));
    let needs = TargetMessage::Want { first: EntryId(0), needs: vec![TransferNeed::All, TransferNeed::Compare] };
    assert_eq!(target.poll_message(), Some(needs));
    target
}

fn digest(frames: u64) -> Digest {
    let mut tree = FrameTree::new(frames);
    (0..frames).for_each(|index| assert!(tree.insert(index, [1; 32])));
    tree.digest().unwrap()
}

fn end(size: u64, digest: Digest) -> SourceMessage {
    SourceMessage::FileEnd { entry: FILE, size, modified: Timestamp::default(), digest }
}

fn same(frames: std::ops::Range<u64>) -> SourceMessage {
    SourceMessage::Match { entry: FILE, frames: vec![frames] }
}

fn differs(frames: std::ops::Range<u64>) -> SourceMessage {
    SourceMessage::Mismatch { entry: FILE, frames: vec![frames] }
}

#[test]
fn a_source_reports_each_frames_equality_and_sends_none() {
    let (mut source, answered) = source(2 * F + 1, TransferNeed::Compare);
    answered.unwrap();
    assert!(source.next_work(STREAM, 1).is_none(), "the target has not said what it has");
    source.handle(holds(0, 3, true)).unwrap();
    let Some(WorkItem::Compare(chunk, _)) = source.next_work(STREAM, 1) else { panic!("to be compared") };
    assert_eq!(chunk.frames, 0..3);
    let mut alike = RangeSet::new();
    alike.extend([0, 2]);
    source.frames_read(FILE, &[(0, [1; 32]), (1, [9; 32]), (2, [1; 32])], &alike);
    let said = said(&mut source);
    let same = SourceMessage::Match { entry: FILE, frames: vec![0..1, 2..3] };
    assert_eq!(said[..2], [same, differs(1..2)]);
    assert!(matches!(said[2..], [SourceMessage::FileEnd { .. }]), "{said:?}");
    assert!(source.next_work(STREAM, 1).is_none());
}

#[test]
fn a_small_file_is_compared_like_any_other() {
    let (mut source, answered) = source(1, TransferNeed::Compare);
    answered.unwrap();
    source.handle(holds(0, 1, true)).unwrap();
    assert!(matches!(source.next_work(STREAM, 1), Some(WorkItem::Compare(chunk, _)) if chunk.frames == (0..1)));
    let mut target = target(1);
    assert!(matches!(target.holds(FILE, 0, &[[1; 32]], true), TargetStep::None));
    target.handle(same(0..1)).unwrap();
    assert!(matches!(target.handle(end(1, [1; 32])), Ok(TargetStep::Finish(FinishedEntry { entry: FILE, .. }))));
}

#[test]
fn a_comparing_source_accepts_only_comparisons() {
    for need in [TransferNeed::All, TransferNeed::InOrder, TransferNeed::Rest] {
        assert!(matches!(source(F, need).1, Err(ProtocolError::Invalid(_))), "{need:?}");
    }
    assert!(matches!(source(0, TransferNeed::Compare).1, Err(ProtocolError::Invalid(_))), "an empty file");
    for unasked in [
        TargetMessage::MissingRanges { entry: FILE, frames: vec![0..1] },
        TargetMessage::ResendPacked { entries: vec![FILE] },
        holds(0, 1, false),
    ] {
        let (mut source, answered) = source(F, TransferNeed::Compare);
        answered.unwrap();
        assert!(matches!(source.handle(unasked.clone()), Err(ProtocolError::Unasked(_))), "{unasked:?}");
    }
    let mut copying = SourceSession::new(frame_len(), 2);
    for entry in entries(F) {
        copying.offer(entry, Arc::new(()));
    }
    copying.flush_offers();
    said(&mut copying);
    let needs = TargetMessage::Want { first: EntryId(0), needs: vec![TransferNeed::All, TransferNeed::Compare] };
    assert!(matches!(copying.handle(needs), Err(ProtocolError::Invalid(_))), "in a copy");
}

#[test]
fn neither_end_holds_more_values_than_the_limit() {
    let frames = 3 * COMPARES_MAX as u64;
    let (mut source, answered) = source(frames * F, TransferNeed::Compare);
    answered.unwrap();
    let mut told = (0..frames).step_by(HELD_VALUES_MAX);
    let mut tell = |source: &mut SourceSession<()>| source.handle(holds(told.next().unwrap(), HELD_VALUES_MAX, true));
    for _ in 0..COMPARES_MAX / HELD_VALUES_MAX {
        tell(&mut source).unwrap();
    }
    let taken = source.next_work(STREAM, 1).unwrap();
    tell(&mut source).unwrap();
    assert_eq!(tell(&mut source), Err(ProtocolError::OverLimit("frames to be compared")));
    drop(taken);

    let mut target = target(frames * F);
    assert!(target.may_hold(COMPARES_MAX) && !target.may_hold(COMPARES_MAX + 1));
    assert!(matches!(target.holds(FILE, 0, &vec![[1; 32]; COMPARES_MAX], true), TargetStep::None));
    assert!(!target.may_hold(1));
    target.handle(differs(0..5)).unwrap();
    target.handle(same(7..9)).unwrap();
    assert!(target.may_hold(7) && !target.may_hold(8));
    target.settle_entry(FILE, false);
    assert!(target.may_hold(COMPARES_MAX), "what is settled is not waited for");
}

#[test]
fn abandoned_entries_free_the_sources_window() {
    let (mut source, answered) = source(F * COMPARES_MAX as u64, TransferNeed::Compare);
    answered.unwrap();
    let frames = 0..COMPARES_MAX as u64;
    frames.step_by(HELD_VALUES_MAX).for_each(|first| source.handle(holds(first, HELD_VALUES_MAX, true)).unwrap());
    let again = source.offer_again(FILE, entries(F).remove(1), Arc::new(())).unwrap();
    said(&mut source);
    source.handle(TargetMessage::Want { first: again, needs: vec![TransferNeed::Compare] }).unwrap();
    let holds = TargetMessage::HaveRanges { entry: again, first: 0, values: vec![[1; 32]], compare: true };
    source.handle(holds).unwrap();
    assert!(matches!(source.next_work(STREAM, 1), Some(WorkItem::Compare(chunk, _)) if chunk.entry == again));
}

#[test]
fn a_target_learns_differing_frames_after_the_last_comparison() {
    for ends_first in [true, false] {
        let mut target = target(5 * F);
        target.holds(FILE, 0, &[[1; 32]; 3], true);
        let mut steps = Vec::new();
        if ends_first {
            steps.push(target.handle(end(5 * F, [9; 32])).unwrap());
        }
        steps.push(target.handle(differs(1..2)).unwrap());
        target.holds(FILE, 3, &[[1; 32]; 2], true);
        for message in [same(0..1), differs(2..3), same(3..4)] {
            steps.push(target.handle(message).unwrap());
        }
        let mut last = target.handle(differs(4..5)).unwrap();
        if !ends_first {
            steps.push(last);
            last = target.handle(end(5 * F, [9; 32])).unwrap();
        }
        assert!(steps.iter().all(|step| matches!(step, TargetStep::None)), "{steps:?}");
        let TargetStep::Differs(FILE, handle, differing) = last else { panic!("{last:?}") };
        assert_eq!((*handle, differing.len()), (1, 3));
        assert_eq!(differing.frames().collect::<Vec<_>>(), [1..3, 4..5]);
        assert!(matches!(target.handle(differs(4..5)), Ok(TargetStep::None)), "it is late");
        target.settle_entry(FILE, true);
    }
}

#[test]
fn a_file_is_the_same_only_if_its_digest_is() {
    for (said, is_same) in [(digest(2), true), ([7; 32], false)] {
        let mut target = target(2 * F);
        target.holds(FILE, 0, &[[1; 32]; 2], true);
        target.handle(same(0..2)).unwrap();
        match target.handle(end(2 * F, said)).unwrap() {
            TargetStep::Finish(FinishedEntry { entry: FILE, .. }) => assert!(is_same),
            TargetStep::Mismatch(FILE, _) => assert!(!is_same),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn scattered_differences_are_partly_listed_and_fully_counted() {
    let frames = COMPARES_MAX as u64;
    let mut target = target(frames * F);
    target.holds(FILE, 0, &vec![[1; 32]; COMPARES_MAX], true);
    for index in (0..frames).step_by(2) {
        target.handle(differs(index..index + 1)).unwrap();
        target.handle(same(index + 1..index + 2)).unwrap();
    }
    let Ok(TargetStep::Differs(_, _, differing)) = target.handle(end(frames * F, [9; 32])) else {
        panic!("they differ")
    };
    assert_eq!((differing.len(), differing.frames().count()), (frames / 2, 4096));
}

#[test]
fn a_source_cannot_answer_for_unreported_frames() {
    for message in [same(0..1), differs(0..1), differs(2..4), differs(0..u64::MAX), same(2..9)] {
        let mut target = target(9 * F);
        target.holds(FILE, 2, &[[1; 32]], true);
        assert!(matches!(target.handle(message.clone()), Err(ProtocolError::Unasked(_))), "{message:?}");
    }
    let mut target = target(9 * F);
    let frame = target.admit_frame(FILE, 0, frame_len().bytes());
    assert!(matches!(frame, Err(ProtocolError::Unasked(_))), "no frame is needed: {frame:?}");
}

#[test]
fn a_copy_leaves_no_differences() {
    let mut target = TargetSession::new(frame_len());
    let offer = SourceMessage::Offer { first: EntryId(0), entries: entries(F) };
    assert!(matches!(target.handle(offer), Ok(TargetStep::Examine(..))));
    target.answer(EntryId(0), EntryAnswer::Needed(Arc::new(0)));
    target.answer(FILE, EntryAnswer::Partial(Arc::new(1)));
    target.holds(FILE, 0, &[[1; 32]], true);
    assert!(matches!(target.handle(differs(0..1)), Err(ProtocolError::Unasked(_))));
}

#[test]
fn the_end_of_a_directory_says_whether_its_listing_was_complete() {
    for complete in [true, false] {
        let mut target = target(1);
        target.settle_entry(FILE, true);
        let ended = target.handle(SourceMessage::DirectoryEnd { entry: EntryId(0), listing: complete.into() });
        assert!(matches!(ended, Ok(TargetStep::Finish(finish)) if finish.complete == complete));
    }
}
