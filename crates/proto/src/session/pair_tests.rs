//! Both sessions together, in any order of events: they always finish, and every entry has one outcome.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use proptest::prelude::*;

use super::source::SourceSession;
use super::target::TargetSession;
use crate::entry::{Entry, EntryContent, EntryLocation, EntryMetadata, Timestamp};
use crate::file_range::{FileRange, RangeLen};
use crate::ids::{EntryId, StreamId};
use crate::integrity::FrameLen;
use crate::limits::ENTRY_WINDOW;
use crate::path::Name;
use crate::ranges::RangeSet;
use crate::scheduler::{CHUNK_FRAMES_MAX, Chunk, FlowFrame, WorkItem};
use crate::session::step::{EntryAnswer, FinishedEntry, ParentDirectory, TargetStep};
use crate::wire::frame::PackedFile;
use crate::wire::message::{SourceMessage, TargetMessage};

const F: u64 = 256 << 10;
const STREAM: StreamId = StreamId(0);

fn frame_len() -> FrameLen {
    FrameLen::new(256 << 10).unwrap()
}

fn child(parent: Option<u64>, kind: EntryContent) -> Entry {
    let place = match parent {
        Some(parent) => EntryLocation::Child { parent: EntryId(parent), name: Name::new(b"x").unwrap() },
        None => EntryLocation::Operand(0),
    };
    Entry { place, kind, meta: EntryMetadata::default(), version: None, more: None }
}

fn packed(entry: EntryId) -> PackedFile {
    PackedFile { entry, len: 0, modified: Timestamp::default(), digest: [0; 32] }
}

/// Both sessions, joined by queues; the caller chooses which of them moves next.
struct Pair {
    source: SourceSession<u64>,
    target: TargetSession<u64>,
    to_target: VecDeque<SourceMessage>,
    to_source: VecDeque<TargetMessage>,
    work: Vec<WorkItem<u64>>,
    /// Partial files of an earlier run, and their frames.
    parts: Vec<(EntryId, Range<u64>)>,
    /// The short last frames of flows, and their lengths.
    short: HashMap<EntryId, (u64, usize)>,
    /// Sizes of flows that are files.
    sizes: HashMap<EntryId, u64>,
    /// Number of entries by outcome: kept or created at once, done, failed, refused.
    outcome: [u64; 4],
    pick: u64,
    /// Whether the copy only compares.
    compares: bool,
    /// The only range that is sent of each file.
    range: Option<FileRange>,
    /// Frames that were written.
    written: BTreeSet<u64>,
}

impl Pair {
    fn new(source: SourceSession<u64>, seed: u64) -> Self {
        Self {
            source,
            target: TargetSession::new(frame_len()),
            to_target: VecDeque::new(),
            to_source: VecDeque::new(),
            work: Vec::new(),
            parts: Vec::new(),
            short: HashMap::new(),
            sizes: HashMap::new(),
            outcome: [0; 4],
            pick: seed,
            compares: false,
            range: None,
            written: BTreeSet::new(),
        }
    }

    /// Takes steps until both sessions are finished; whether they are.
    fn run_to_end(&mut self) -> bool {
        self.source.end_offers();
        let mut idle = 0;
        while !(self.source.is_finished() && self.target.is_finished()) && idle < 1000 {
            let choice = self.pick(6);
            idle = if self.step(choice) { 0 } else { idle + 1 };
        }
        idle < 1000
    }

    fn pick(&mut self, below: u64) -> u64 {
        self.pick = self.pick.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.pick >> 33) % below
    }

    /// Takes the step that `choice` selects; whether anything moved.
    fn step(&mut self, choice: u64) -> bool {
        match choice {
            0 => self.source.poll_message().map(|message| self.to_target.push_back(message)).is_some(),
            1 => self.target.poll_message().map(|message| self.to_source.push_back(message)).is_some(),
            2 => self.to_source.pop_front().map(|message| self.source.handle(message).unwrap()).is_some(),
            3 => self.source.next_work(STREAM, CHUNK_FRAMES_MAX).map(|work| self.work.push(work)).is_some(),
            4 => self.to_target.pop_front().map(|message| self.deliver(message)).is_some(),
            _ if self.work.is_empty() => false,
            _ => {
                let at = self.pick(self.work.len() as u64);
                let work = self.work.swap_remove(usize::try_from(at).unwrap());
                self.carry(work);
                true
            }
        }
    }

    fn deliver(&mut self, message: SourceMessage) {
        match self.target.handle(message).unwrap() {
            TargetStep::Examine(first, entries) => {
                for (id, entry) in (first.0..).map(EntryId).zip(entries) {
                    let answer = self.answer(id, &entry);
                    let finish = self.target.answer(id, answer);
                    self.finish(finish);
                }
                self.say_what_is_there();
            }
            TargetStep::Abandon(entry, ..) => {
                self.outcome[2] += 1;
                let finish = self.target.abandoned(entry);
                self.finish(finish);
            }
            TargetStep::Finish(finish) => self.finish(Some(finish)),
            TargetStep::Differs(entry, handle, differing) => {
                assert!(self.compares && !differing.is_empty());
                self.finish(Some(FinishedEntry { entry, handle, end: None, complete: true }));
            }
            TargetStep::Sum(..) => panic!("nobody asks for one"),
            TargetStep::Mismatch(..) => panic!("a mismatch"),
            TargetStep::None
            | TargetStep::Connect(..)
            | TargetStep::SmallSegments(_)
            | TargetStep::StreamsLost(_)
            | TargetStep::Passed(_)
            | TargetStep::Owner { .. }
            | TargetStep::LeftOut(..)
            | TargetStep::Vanished(..)
            | TargetStep::Patterns(..) => {}
        }
    }

    fn answer(&mut self, id: EntryId, entry: &Entry) -> EntryAnswer<u64> {
        let chance = self.pick(10);
        if matches!(self.target.parent(&entry.place), ParentDirectory::Refused) || chance == 0 {
            self.outcome[3] += 1;
            return EntryAnswer::Refused;
        }
        let may_be_there = !matches!(entry.kind, EntryContent::Directory | EntryContent::Stream);
        if matches!(entry.kind, EntryContent::Symlink { .. }) || (chance < 3 && may_be_there) {
            self.outcome[0] += 1;
            return EntryAnswer::Settled;
        }
        match entry.kind {
            EntryContent::File { size } if self.range.is_some() => match self.pick(2) {
                0 => EntryAnswer::Needed(Arc::new(id.0)),
                _ => {
                    let frames = self.range.unwrap().frames(frame_len(), size);
                    self.parts.push((id, frames));
                    EntryAnswer::Partial(Arc::new(id.0))
                }
            },
            EntryContent::File { size: 0 } if self.compares => {
                self.outcome[0] += 1;
                EntryAnswer::Settled
            }
            EntryContent::File { size } if self.compares => {
                self.parts.push((id, 0..frame_len().frames(size)));
                EntryAnswer::Compare(Arc::new(id.0))
            }
            EntryContent::File { size } if size > frame_len().pack_file_max() && self.pick(2) == 0 => {
                self.parts.push((id, 0..frame_len().frames(size)));
                if self.pick(2) == 0 {
                    self.sizes.insert(id, size);
                    return EntryAnswer::Delta(Arc::new(id.0));
                }
                EntryAnswer::Partial(Arc::new(id.0))
            }
            EntryContent::Stream if self.pick(2) == 0 => EntryAnswer::NeededInOrder(Arc::new(id.0)),
            EntryContent::File { size } if self.pick(3) == 0 => {
                self.sizes.insert(id, size);
                EntryAnswer::NeededInOrder(Arc::new(id.0))
            }
            _ => EntryAnswer::Needed(Arc::new(id.0)),
        }
    }

    /// Advertises existing frames after the decisions about an Offer: some of each partial file, all of a file to
    /// compare.
    fn say_what_is_there(&mut self) {
        for (entry, frames) in std::mem::take(&mut self.parts) {
            for index in frames {
                let old = self.sizes.get(&entry).copied();
                let step = match self.pick(3) {
                    1 | 2 if old.is_some() && self.target.may_mark(1) => {
                        let len = frame_len().frame_len(old.unwrap(), index).unwrap();
                        self.target.mark(entry, index, 1, vec![7; crate::delta::blocks::count(len)]);
                        TargetStep::None
                    }
                    1 | 2 if old.is_some() => {
                        self.target.lacks(entry, &[index..index + 1]);
                        TargetStep::None
                    }
                    _ if self.compares => self.target.holds(entry, index, &[[1; 32]], true),
                    0 => {
                        self.target.lacks(entry, &[index..index + 1]);
                        TargetStep::None
                    }
                    choice => self.target.holds(entry, index, &[[1; 32]], choice == 1),
                };
                assert!(matches!(step, TargetStep::None), "the source has not ended it");
            }
        }
    }

    /// Compares frames that the target has; some turn out to differ.
    fn compare(&mut self, chunk: &Chunk<u64>, values: &[[u8; 32]]) {
        if self.compares && self.pick(8) == 0 {
            self.source.fail(chunk.entry, "unreadable");
            return;
        }
        for (index, value) in chunk.frames.clone().zip(values) {
            if self.pick(3) == 0 && self.compares {
                self.source.frames_read(chunk.entry, &[(index, [2; 32])], &RangeSet::new());
            } else if self.pick(3) == 0 && !self.compares {
                self.carry_frame(chunk.entry, chunk.size, index);
            } else {
                let mut same = RangeSet::new();
                assert!(same.insert(index));
                self.source.frames_read(chunk.entry, &[(index, *value)], &same);
            }
        }
    }

    /// Completes this entry and every directory that it completes.
    fn finish(&mut self, mut finish: Option<FinishedEntry<u64>>) {
        while let Some(one) = finish {
            let done = self.pick(10) > 0;
            self.outcome[if done { 1 } else { 2 }] += 1;
            finish = self.target.settle_entry(one.entry, done);
        }
    }

    /// Simulates a stream: it reads, maybe fails, and sends; some frames arrive damaged.
    fn carry(&mut self, work: WorkItem<u64>) {
        if self.pick(8) == 0 {
            self.source.lose_stream(STREAM, Some(work));
            return;
        }
        match work {
            WorkItem::Pack(files) => {
                let files: Vec<_> = files.iter().map(|file| packed(file.entry)).collect();
                if self.pick(4) == 0 {
                    return self.target.resend_pack(&files).unwrap();
                }
                let admitted = self.target.admit_pack(&files).unwrap();
                for (file, handle) in files.iter().zip(admitted) {
                    let handle = handle.filter(|handle| **handle == file.entry.0);
                    self.finish(handle.map(|handle| FinishedEntry {
                        entry: file.entry,
                        handle,
                        end: None,
                        complete: true,
                    }));
                }
            }
            WorkItem::Compare(chunk, values) => self.compare(&chunk, &values),
            WorkItem::Next(next) => self.read_next(&next),
            WorkItem::Kept(kept) => self.arrive(kept.entry, kept.index, self.len_in_flow(kept.entry, kept.index)),
            WorkItem::Frames(chunk) | WorkItem::Delta(chunk, _) => {
                if self.pick(8) == 0 {
                    self.source.fail(chunk.entry, "unreadable");
                    return;
                }
                for index in chunk.frames {
                    self.carry_frame(chunk.entry, chunk.size, index);
                }
            }
        }
    }

    /// Ends a flow after a full frame, with a short one, or without one.
    fn read_next(&mut self, next: &FlowFrame<u64>) {
        let FlowFrame { entry, index, .. } = *next;
        let (is_frame, end) = match self.pick(12) {
            choice if choice != 3 && self.sizes.contains_key(&entry) => {
                let size = self.sizes[&entry];
                (true, (index + 1 == frame_len().frames(size)).then_some(size))
            }
            0 => (false, Some(index * F)),
            1 => (true, Some((index + 1) * F)),
            2 => {
                self.short.insert(entry, (index, 5));
                (true, Some(index * F + 5))
            }
            3 => {
                self.source.fail(entry, "its program failed");
                return;
            }
            _ => (true, None),
        };
        let end = end.map(|size| (size, Timestamp::default()));
        let known = self.source.flow_read(entry, is_frame, end);
        if known.is_none() || !is_frame {
            return;
        }
        self.source.frames_read(entry, &[(index, [1; 32])], &RangeSet::new());
        if self.pick(8) == 0 {
            return self.source.lose_stream(STREAM, None);
        }
        self.arrive(entry, index, self.len_in_flow(entry, index));
    }

    fn len_in_flow(&self, entry: EntryId, index: u64) -> usize {
        if let Some(size) = self.sizes.get(&entry) {
            return frame_len().frame_len(*size, index).unwrap();
        }
        let short = self.short.get(&entry).filter(|(last, _)| *last == index);
        short.map_or(frame_len().bytes(), |(_, len)| *len)
    }

    fn carry_frame(&mut self, entry: EntryId, size: u64, index: u64) {
        let len = frame_len().frame_len(size, index).unwrap();
        self.source.frames_read(entry, &[(index, [1; 32])], &RangeSet::new());
        if self.pick(8) == 0 {
            // The frame was sent, and is lost with its stream.
            self.source.lose_stream(STREAM, None);
            return;
        }
        self.arrive(entry, index, len);
    }

    fn write(&mut self, entry: EntryId, index: u64) -> TargetStep<u64> {
        assert!(self.range.is_some() <= self.written.insert(index), "a frame of a range is written twice");
        self.target.frame_written(entry, index * F, [1; 32])
    }

    fn arrive(&mut self, entry: EntryId, index: u64, len: usize) {
        let offset = index * F;
        if self.target.admit_frame(entry, offset, len).unwrap().is_none() {
            return;
        }
        match self.pick(8) {
            0 => self.target.resend_frame(entry, offset),
            1 => {
                self.outcome[2] += 1;
                let finish = self.target.settle_entry(entry, false);
                self.finish(finish);
            }
            _ => match self.write(entry, index) {
                TargetStep::Finish(finish) => self.finish(Some(finish)),
                TargetStep::None
                | TargetStep::Connect(..)
                | TargetStep::SmallSegments(_)
                | TargetStep::StreamsLost(_)
                | TargetStep::Passed(_)
                | TargetStep::Owner { .. }
                | TargetStep::LeftOut(..)
                | TargetStep::Vanished(..)
                | TargetStep::Patterns(..) => {}
                other => panic!("{other:?}"),
            },
        }
    }
}

proptest! {
    #[test]
    fn both_machines_always_finish_and_agree(entries in proptest::collection::vec((0u8..9, any::<u8>()), 1..40), seed: u64, compares: bool) {
        let source = if compares { SourceSession::comparing(frame_len(), 2) } else { SourceSession::new(frame_len(), 2) };
        let mut pair = Pair { compares, ..Pair::new(source, seed) };
        let mut open: Vec<EntryId> = Vec::new();
        for (kind, size) in &entries {
            let parent = open.last().map(|entry| entry.0);
            let id = |pair: &mut Pair, kind| pair.source.offer(child(parent, kind), Arc::new(0));
            match kind {
                0 | 1 => open.push(id(&mut pair, EntryContent::Directory)),
                2 => drop(open.pop().map(|entry| pair.source.end_directory(entry, true))),
                3 => drop(id(&mut pair, EntryContent::Symlink { points_to: (*b"x").into() })),
                4 => drop(id(&mut pair, EntryContent::File { size: u64::from(*size) })),
                // A pipe is never compared.
                8 if !compares => drop(id(&mut pair, EntryContent::Stream)),
                _ => drop(id(&mut pair, EntryContent::File { size: F * u64::from(size % 5 + 1) + 1 })),
            }
            for _ in 0..4 {
                let choice = pair.pick(6);
                pair.step(choice);
            }
        }
        while let Some(entry) = open.pop() {
            pair.source.end_directory(entry, true);
        }
        let offered = entries.iter().filter(|(kind, _)| *kind != 2).count() as u64;
        prop_assert!(pair.run_to_end(), "stuck: {:?} {:?}", pair.source, pair.target);
        prop_assert_eq!(pair.outcome.iter().sum::<u64>(), offered, "every entry has one outcome");
        prop_assert!(pair.source.next_work(STREAM, CHUNK_FRAMES_MAX).is_none(), "nothing is left but what was given up");
        prop_assert_eq!(pair.source.window(), ENTRY_WINDOW);
    }

    #[test]
    fn a_range_is_sent_alone_and_in_full(frames in 5u64..20, tail in 1..=F, number in 0u64..5, seed: u64) {
        let size = (frames - 1) * F + tail;
        let range = RangeLen::MIN.range(number % RangeLen::MIN.ranges_of(size)).unwrap();
        prop_assume!(range.is_in(size));
        let mut pair = Pair { range: Some(range), ..Pair::new(SourceSession::new(frame_len(), 2), seed) };
        pair.source.send_range(range);
        pair.target.receive_range(range);
        pair.source.offer(child(None, EntryContent::File { size }), Arc::new(0));
        prop_assert!(pair.run_to_end(), "stuck: {:?} {:?}", pair.source, pair.target);
        let frames = range.frames(frame_len(), size);
        prop_assert!(pair.written.iter().all(|index| frames.contains(index)), "{:?} of {frames:?}", pair.written);
        prop_assert_eq!(pair.outcome.iter().sum::<u64>(), 1);
        prop_assert!(pair.source.next_work(STREAM, CHUNK_FRAMES_MAX).is_none());
    }
}
