//! Verification of files, against targets that report it early, late or twice.

use super::super::tests::{F, done, entry, file, link, needs, offered, source, stream};
use super::*;
use crate::entry::{Entry, EntryContent, Timestamp};
use crate::entry_extras::EntryExtras;
use crate::ids::StreamId;
use crate::integrity::FrameLen;
use crate::limits::ENTRY_WINDOW;
use crate::ranges::RangeSet;
use crate::scheduler::{CHUNK_FRAMES_MAX, WorkItem};
use crate::wire::message::{TargetMessage, TransferNeed};

/// Returns a session with numbers as handles that has offered these entries and has received these decisions.
fn awaiting_proof(entries: Vec<Entry>, answers: &[TransferNeed]) -> SourceSession<u64> {
    let mut source = SourceSession::new(FrameLen::new(256 << 10).unwrap(), 2);
    source.await_proof();
    for (entry, handle) in entries.into_iter().zip(0..) {
        source.offer(entry, Arc::new(handle));
    }
    source.flush_offers();
    while source.poll_message().is_some() {}
    source.handle(needs(0, answers)).unwrap();
    source
}

fn proven(source: &mut SourceSession<u64>) -> Vec<u64> {
    source.take_verified().iter().map(|handle| **handle).collect()
}

#[test]
fn only_sent_and_completed_data_is_verified() {
    let files = vec![file(1), file(F), file(2 * F), file(3), file(2 * F), link(), file(4)];
    let (all, nothing) = (TransferNeed::All, TransferNeed::Nothing);
    let mut source = awaiting_proof(files, &[all, all, all, nothing, all, nothing, TransferNeed::Refused]);
    // The last large file is not read.
    while let Some(work) = source.next_work(StreamId(0), CHUNK_FRAMES_MAX) {
        if let WorkItem::Frames(chunk) = work
            && chunk.entry != EntryId(4)
        {
            let values: Vec<_> = chunk.frames.map(|index| (index, [1; 32])).collect();
            source.frames_read(chunk.entry, &values, &RangeSet::new());
        }
    }
    assert_eq!(proven(&mut source), [0; 0], "sent, and not done");
    source.handle(TargetMessage::TargetFailed { entry: EntryId(2) }).unwrap();
    source.handle(TargetMessage::Done { runs: vec![(EntryId(1), 3), (EntryId(5), 1), (EntryId(0), 1)] }).unwrap();
    assert_eq!(proven(&mut source), [1, 0]);
    assert_eq!(proven(&mut source), [0; 0], "only once");
    assert!(source.handle(done(4, 1)).is_err(), "not read yet");
}

/// A file with its digest.
fn told(size: u64) -> Entry {
    let more = EntryExtras { digest: Some([7; 32]), ..EntryExtras::default() };
    Entry { more: Some(Box::new(more)), ..file(size) }
}

#[test]
fn a_file_offered_without_a_digest_is_never_known_to_be_equal() {
    for (entry, is_known) in [(file(1), false), (file(2 * F), false), (file(0), true), (told(1), true), (link(), true)]
    {
        let mut source = awaiting_proof(vec![entry.clone()], &[]);
        assert_eq!(source.handle(needs(0, &[TransferNeed::Same])).is_ok(), is_known, "{entry:?}");
        assert_eq!(proven(&mut source).len(), usize::from(is_known));
        let mut unasked = SourceSession::new(FrameLen::new(256 << 10).unwrap(), 2);
        offered(&mut unasked, vec![entry]);
        assert!(unasked.handle(needs(0, &[TransferNeed::Same])).is_err(), "nothing is removed there");
    }
}

#[test]
fn a_file_to_be_removed_is_compared_with_what_the_target_claims_to_have() {
    let have = |compare| TargetMessage::HaveRanges { entry: EntryId(0), first: 0, values: vec![[1; 32]; 2], compare };
    let mut source = awaiting_proof(vec![file(2 * F)], &[TransferNeed::Rest]);
    assert!(source.handle(have(false)).is_err());
    source.handle(have(true)).unwrap();
    assert!(source.handle(done(0, 1)).is_err(), "not compared yet");
    assert!(proven(&mut source).is_empty());
}

#[test]
fn existing_files_are_verified_if_the_target_says_so_and_otherwise_counted() {
    let (same, nothing) = (TransferNeed::Same, TransferNeed::Nothing);
    let mut source = awaiting_proof(
        vec![told(1), file(1), link(), link(), file(1)],
        &[same, nothing, same, nothing, TransferNeed::Refused],
    );
    assert_eq!((proven(&mut source), source.take_unproven()), (vec![0, 2], 2));
    assert_eq!((proven(&mut source), source.take_unproven()), (vec![], 0));
    let mut unwanted = SourceSession::new(FrameLen::new(256 << 10).unwrap(), 2);
    offered(&mut unwanted, vec![file(1)]);
    unwanted.handle(needs(0, &[nothing])).unwrap();
    assert!(unwanted.take_verified().is_empty() && unwanted.take_unproven() == 0);
    let mut comparing = SourceSession::comparing(FrameLen::new(256 << 10).unwrap(), 2);
    offered(&mut comparing, vec![told(1)]);
    assert!(comparing.handle(needs(0, &[same])).is_err());
}

#[test]
fn unsent_data_is_never_verified_whatever_a_target_claims() {
    let mut source = awaiting_proof(vec![file(1), file(1)], &[TransferNeed::All; 2]);
    assert!(source.handle(done(0, 1)).is_err());
    assert!(matches!(source.next_work(StreamId(0), 1), Some(WorkItem::Pack(files)) if files.len() == 2));
    source.handle(TargetMessage::ResendPacked { entries: vec![EntryId(1)] }).unwrap();
    source.handle(done(1, 1)).unwrap();
    assert_eq!(proven(&mut source), [1], "it came although it was asked for once more");
    let mut unwanted = source_of_done_file();
    assert!(unwanted.take_verified().is_empty());
}

fn source_of_done_file() -> SourceSession<()> {
    let mut source = source();
    offered(&mut source, vec![file(1)]);
    source.handle(needs(0, &[TransferNeed::All])).unwrap();
    assert!(source.next_work(StreamId(0), 1).is_some());
    source.handle(done(0, 1)).unwrap();
    source
}

#[test]
fn a_flow_is_verified_after_its_end_and_a_hard_link_by_itself() {
    let mut source = awaiting_proof(vec![stream(), file(2 * F)], &[TransferNeed::InOrder; 2]);
    for (entry, end) in [(EntryId(0), None), (EntryId(1), Some((2 * F, Timestamp::default())))] {
        let tree =
            if let Some(OfferState::Flow(flow)) = source.entries.get_mut(&entry).map(|tracked| &mut tracked.state) {
                &mut flow.tree
            } else {
                panic!("a flow")
            };
        tree.insert(0, [1; 32]);
        source.flow_read(entry, true, end);
    }
    assert!(source.handle(done(0, 1)).is_err(), "its end was not sent");
    source.handle(done(1, 1)).unwrap();
    assert_eq!(proven(&mut source), [1]);

    let mut source = SourceSession::new(FrameLen::new(256 << 10).unwrap(), 2);
    source.await_proof();
    let dir = source.offer(entry(None, EntryContent::Directory), Arc::new(0));
    let first = source.offer(entry(Some(dir), EntryContent::File { size: 3 }), Arc::new(1));
    source.offer(entry(Some(dir), EntryContent::HardLink { to: first, size: 3 }), Arc::new(2));
    source.end_directory(dir, true);
    while source.poll_message().is_some() {}
    source.handle(needs(0, &[TransferNeed::All; 3])).unwrap();
    while source.next_work(StreamId(0), 1).is_some() {}
    source.handle(done(1, 1)).unwrap();
    assert_eq!(proven(&mut source), [1]);
    source.handle(done(2, 1)).unwrap();
    source.handle(done(0, 1)).unwrap();
    assert_eq!(proven(&mut source), [2], "and a directory never");
}

#[test]
fn verified_files_awaiting_removal_take_up_their_room() {
    let mut source = awaiting_proof((0..100).map(|_| file(1)).collect(), &[TransferNeed::All; 100]);
    while source.next_work(StreamId(0), 1).is_some() {}
    source.handle(done(0, 100)).unwrap();
    assert_eq!(source.window(), ENTRY_WINDOW - 100);
    assert_eq!(proven(&mut source).len(), 100);
    assert_eq!(source.window(), ENTRY_WINDOW - 100, "taken, and not seen to");
    source.release_verified(60);
    assert_eq!(source.window(), ENTRY_WINDOW - 40);
}
