//! With a requested digest besides BLAKE3, no file is complete before the engine has it.

use std::sync::Arc;

use super::source::SourceSession;
use super::target::TargetSession;
use crate::entry::{Entry, EntryContent, EntryLocation, EntryMetadata, Timestamp};
use crate::error::ProtocolError;
use crate::ids::{EntryId, StreamId};
use crate::integrity::{FrameLen, FrameTree};
use crate::limits::FRAME_MIN;
use crate::ranges::RangeSet;
use crate::session::step::{EntryAnswer, TargetStep};
use crate::wire::message::{SourceMessage, TargetMessage, TransferNeed};

const STREAM: StreamId = StreamId(0);
const FILE: EntryId = EntryId(0);
const F: u64 = FRAME_MIN as u64;
const ALL: [(u64, [u8; 32]); 3] = [(0, [1; 32]), (1, [2; 32]), (2, [3; 32])];

fn frame() -> FrameLen {
    FrameLen::new(FRAME_MIN).unwrap()
}

fn offer(kind: EntryContent) -> Entry {
    Entry { place: EntryLocation::Operand(0), kind, meta: EntryMetadata::default(), version: None, more: None }
}

fn digest() -> [u8; 32] {
    let mut tree = FrameTree::new(3);
    ALL.iter().for_each(|(index, value)| assert!(tree.insert(*index, *value)));
    tree.digest().unwrap()
}

fn source(need: TransferNeed) -> SourceSession<()> {
    let mut source = SourceSession::new(frame(), 1);
    source.await_sums();
    source.offer(offer(EntryContent::File { size: 3 * F }), Arc::new(()));
    source.end_offers();
    while source.poll_message().is_some() {}
    source.handle(TargetMessage::Want { first: FILE, needs: vec![need] }).unwrap();
    source
}

fn target(kind: EntryContent, answer: impl Fn(Arc<()>) -> EntryAnswer<()>) -> TargetSession<()> {
    let mut target = TargetSession::new(frame());
    target.await_sums();
    target.handle(SourceMessage::Offer { first: FILE, entries: vec![offer(kind)] }).unwrap();
    assert!(target.answer(FILE, answer(Arc::new(()))).is_none());
    target
}

fn end() -> SourceMessage {
    SourceMessage::FileEnd { entry: FILE, size: 3 * F, modified: Timestamp::default(), digest: digest() }
}

fn write(target: &mut TargetSession<()>, index: usize) -> TargetStep<()> {
    let offset = index as u64 * F;
    assert!(target.admit_frame(FILE, offset, frame().bytes()).unwrap().is_some());
    target.frame_written(FILE, offset, ALL[index].1)
}

#[test]
fn a_source_ends_a_file_once_its_digest_is_known() {
    let mut source = source(TransferNeed::All);
    assert_eq!(source.frames_read(FILE, &ALL[..2], &RangeSet::new()), None);
    assert_eq!(source.frames_read(FILE, &ALL[2..], &RangeSet::new()), Some(digest()));
    assert_eq!(source.frames_read(FILE, &ALL[..1], &RangeSet::new()), None, "it is asked once");
    assert!(source.poll_message().is_none());
    source.summed(FILE);
    assert_eq!(source.poll_message(), Some(end()));
    source.summed(FILE);
    assert!(source.poll_message().is_none(), "it ends once");
}

#[test]
fn a_hashing_source_reads_all_frames_held_by_the_target() {
    let holds = |compare| TargetMessage::HaveRanges { entry: FILE, first: 0, values: vec![[1; 32]; 3], compare };
    assert!(matches!(source(TransferNeed::Rest).handle(holds(false)), Err(ProtocolError::Unasked(_))));
    source(TransferNeed::Rest).handle(holds(true)).unwrap();
}

#[test]
fn a_flow_ends_once_its_digest_is_known() {
    let mut source = source(TransferNeed::InOrder);
    for (index, value) in ALL {
        assert!(source.next_work(STREAM, 1).is_some());
        let last = (index == 2).then_some((3 * F, Timestamp::default()));
        assert_eq!(source.flow_read(FILE, true, last), Some((0, None)));
        let asked = source.frames_read(FILE, &[(index, value)], &RangeSet::new());
        assert_eq!(asked, (index == 2).then(digest));
    }
    assert!(source.poll_message().is_none());
    source.summed(FILE);
    assert_eq!(source.poll_message(), Some(end()));
}

#[test]
fn a_target_finishes_a_file_with_its_digest_in_any_order_of_events() {
    for end_first in [true, false] {
        let mut target = target(EntryContent::File { size: 3 * F }, EntryAnswer::Needed);
        if end_first {
            assert!(matches!(target.handle(end()), Ok(TargetStep::None)));
        }
        assert!(matches!(write(&mut target, 2), TargetStep::None));
        assert!(matches!(write(&mut target, 0), TargetStep::None));
        let TargetStep::Sum(FILE, _, size) = write(&mut target, 1) else { panic!("it is asked for") };
        assert_eq!(size, 3 * F);
        if end_first {
            assert!(matches!(target.summed(FILE), TargetStep::Finish(_)));
        } else {
            assert!(matches!(target.summed(FILE), TargetStep::None));
            assert!(matches!(target.handle(end()), Ok(TargetStep::Finish(_))));
        }
        assert!(matches!(target.summed(FILE), TargetStep::None), "late");
    }
}

#[test]
fn a_target_requests_the_digest_once_a_stream_has_its_size() {
    let mut target = target(EntryContent::Stream, EntryAnswer::NeededInOrder);
    (0..3).for_each(|index| assert!(matches!(write(&mut target, index), TargetStep::None)));
    let Ok(TargetStep::Sum(FILE, _, size)) = target.handle(end()) else { panic!("it is asked for") };
    assert_eq!(size, 3 * F);
    assert!(matches!(target.summed(FILE), TargetStep::Finish(_)));
}

#[test]
fn a_failed_file_is_not_finished() {
    let mut target = target(EntryContent::File { size: 3 * F }, EntryAnswer::Needed);
    target.handle(end()).unwrap();
    (0..3).for_each(|index| drop(write(&mut target, index)));
    assert!(target.settle_entry(FILE, false).is_none());
    assert!(matches!(target.summed(FILE), TargetStep::None));
}
