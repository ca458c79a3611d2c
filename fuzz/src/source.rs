//! The source's machine under any target: whatever is said to it, it keeps its window, hands out only frames that
//! there are, and answers nonsense with a fault.

use std::sync::Arc;

use haul_proto::delta::blocks::BLOCK;
use haul_proto::delta::rolling::{RollingSignature, SignatureFormat};
use haul_proto::entry::{Entry, EntryContent, EntryLocation, EntryMetadata, Timestamp};
use haul_proto::error::ProtocolError;
use haul_proto::file_range::{FileRange, RangeLen};
use haul_proto::ids::{EntryId, StreamId};
use haul_proto::integrity::FrameLen;
use haul_proto::limits::{ENTRY_WINDOW, PACK_FILES_MAX};
use haul_proto::path::Name;
use haul_proto::ranges::RangeSet;
use haul_proto::scheduler::WorkItem;
use haul_proto::session::source::SourceSession;
use haul_proto::wire::message::{SourceMessage, TargetMessage, TransferNeed};

use crate::bytes::Bytes;
use crate::wire::COPY;

/// Frame length of the sessions that are fuzzed.
pub const FRAME: u32 = 256 << 10;

/// Streams that are there.
const STREAMS: [StreamId; 2] = [StreamId(0), StreamId(7)];

/// A sequence of an engine's calls and a target's messages, of a copy or of a copy that only compares.
pub fn source_session(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let frame = FrameLen::new(FRAME).expect("a power of two in range");
    let compares = data.first().is_some_and(|first| *first >= 128);
    let mut source = if compares { SourceSession::comparing(frame, 2) } else { SourceSession::new(frame, 2) };
    let range = range_of(data);
    range.iter().for_each(|range| source.send_range(*range));
    let mut session = Session { source, frame, range, open: Vec::new(), offered: 0, ended: false };
    while !bytes.is_empty() {
        if session.step(&mut bytes).is_err() {
            return;
        }
        assert!(session.source.window() <= ENTRY_WINDOW);
    }
}

/// The range of the only file that a session is about, if it has one.
pub fn range_of(data: &[u8]) -> Option<FileRange> {
    let first = data.first().filter(|first| (64..128).contains(*first))?;
    RangeLen::MIN.range(u64::from(first % 4))
}

struct Session {
    source: SourceSession<u64>,
    frame: FrameLen,
    range: Option<FileRange>,
    /// Directories that have not ended.
    open: Vec<EntryId>,
    offered: u64,
    ended: bool,
}

impl Session {
    fn step(&mut self, bytes: &mut Bytes<'_>) -> Result<(), ProtocolError> {
        match bytes.u8() % 15 {
            0 => self.offer(EntryContent::Directory),
            1 => self.offer(EntryContent::File { size: bytes.number() }),
            2 => self.offer(EntryContent::File { size: u64::from(FRAME) * u64::from(bytes.u8()) + 1 }),
            13 => self.offer(EntryContent::Stream),
            3 => self.offer(EntryContent::Symlink { points_to: (*b"x").into() }),
            4 => drop(self.open.pop().map(|directory| self.source.end_directory(directory, true))),
            5 => self.poll(),
            6 => self.work(bytes),
            7 => drop(self.source.fail(EntryId(bytes.number()), "unreadable")),
            8 => self.read(bytes),
            9 => {
                if let Ok(message) = TargetMessage::decode(bytes.block(), COPY) {
                    self.source.handle(message)?;
                }
            }
            12 => {
                let stream = STREAMS[usize::from(bytes.u8()) % STREAMS.len()];
                let work = self.source.next_work(STREAMS[0], bytes.number());
                self.source.lose_stream(stream, work);
            }
            10 if self.open.is_empty() && !self.ended => {
                self.source.end_offers();
                self.ended = true;
            }
            _ => {
                let message = message(bytes);
                self.source.handle(message)?;
            }
        }
        Ok(())
    }

    fn offer(&mut self, kind: EntryContent) {
        let is_sent = |range: FileRange| matches!(kind, EntryContent::File { size } if range.is_in(size));
        if self.ended || self.source.window() == 0 || self.range.is_some_and(|range| !is_sent(range)) {
            return;
        }
        let place = match self.open.last() {
            Some(parent) => EntryLocation::Child { parent: *parent, name: Name::new(b"x").expect("a name") },
            None => EntryLocation::Operand(0),
        };
        let directory = kind == EntryContent::Directory;
        let id = self.source.offer(
            Entry { place, kind, meta: EntryMetadata::default(), version: None, more: None },
            Arc::new(self.offered),
        );
        assert_eq!(id.0, self.offered);
        self.offered += 1;
        if directory {
            self.open.push(id);
        }
    }

    fn poll(&mut self) {
        self.source.flush_offers();
        if let Some(message) = self.source.poll_message() {
            let decoded = SourceMessage::decode(&message.encode(COPY), COPY);
            assert_eq!(decoded, Ok(message));
        }
    }

    fn work(&mut self, bytes: &mut Bytes<'_>) {
        match self.source.next_work(STREAMS[0], haul_proto::scheduler::CHUNK_FRAMES_MAX) {
            None => {}
            Some(WorkItem::Pack(files)) => {
                assert!(!files.is_empty() && files.len() <= PACK_FILES_MAX);
                assert!(files.iter().map(|file| file.size).sum::<u64>() <= FRAME.into());
            }
            Some(WorkItem::Compare(chunk, values)) => {
                assert_eq!(chunk.frames.end - chunk.frames.start, values.len() as u64);
                let mut same = RangeSet::new();
                same.extend(chunk.frames.clone().filter(|_| !bytes.u8().is_multiple_of(4)));
                let values: Vec<_> = chunk.frames.clone().zip(values).collect();
                self.source.frames_read(chunk.entry, &values, &same);
            }
            Some(WorkItem::Next(next)) => {
                let size = u64::from(FRAME) * (next.index + 1);
                let end = bytes.u8().is_multiple_of(4).then_some((size, Timestamp::default()));
                self.source.flow_read(next.entry, true, end);
                self.source.frames_read(next.entry, &[(next.index, [bytes.u8(); 32])], &RangeSet::new());
            }
            Some(WorkItem::Kept(kept)) => assert!(self.source.is_flow(kept.entry)),
            Some(WorkItem::Frames(chunk) | WorkItem::Delta(chunk, _)) => {
                assert!(!chunk.frames.is_empty() && chunk.frames.end <= self.frame.frames(chunk.size));
                assert_eq!(*chunk.handle, chunk.entry.0);
                let values: Vec<_> = chunk.frames.take(64).map(|index| (index, [bytes.u8(); 32])).collect();
                self.source.frames_read(chunk.entry, &values, &RangeSet::new());
            }
        }
    }

    fn read(&mut self, bytes: &mut Bytes<'_>) {
        let (entry, index) = (EntryId(bytes.number()), bytes.number());
        self.source.frames_read(entry, &[(index, [1; 32])], &RangeSet::new());
    }
}

/// A message from a target, out of few bytes.
fn message(bytes: &mut Bytes<'_>) -> TargetMessage {
    let entry = EntryId(bytes.number());
    match bytes.u8() % 11 {
        0 => {
            let needs = bytes.block().iter().map(|byte| need(*byte)).collect();
            TargetMessage::Want { first: entry, needs }
        }
        1 => TargetMessage::Done { runs: vec![(entry, bytes.number()), (EntryId(bytes.number()), bytes.number())] },
        2 => TargetMessage::TargetFailed { entry },
        3 => {
            let start = bytes.number();
            TargetMessage::MissingRanges { entry, frames: vec![start..start.saturating_add(bytes.number())] }
        }
        4 => {
            let (first, values) = (bytes.number(), vec![[2; 32]; bytes.u8().into()]);
            TargetMessage::HaveRanges { entry, first, values, compare: bytes.u8().is_multiple_of(2) }
        }
        5 => {
            let start = bytes.number();
            TargetMessage::Missing { entry, frames: vec![start..start.saturating_add(bytes.number())] }
        }
        6 => TargetMessage::QueryEnd,
        7 => TargetMessage::Ack { entry, frames: bytes.number() },
        9 => {
            let (first, frames) = (bytes.number(), usize::from(bytes.u8() % 8));
            let blocks = FRAME as usize / BLOCK;
            let marks = vec![bytes.number(); frames * blocks + usize::from(bytes.u8().is_multiple_of(4))];
            TargetMessage::BlockHashes { entry, first, marks }
        }
        10 => {
            let size = bytes.number();
            let format = SignatureFormat::new(size, 1024 * u32::from(bytes.u8()), 7);
            let sum = RollingSignature { weak: u32::from(bytes.u8()), strong: bytes.number() };
            TargetMessage::RollingSignatures {
                entry,
                size,
                format,
                first: bytes.number(),
                sums: vec![sum; bytes.u8().into()],
            }
        }
        _ => TargetMessage::ResendPacked { entries: vec![entry, EntryId(bytes.number())] },
    }
}

fn need(byte: u8) -> TransferNeed {
    match byte % 8 {
        0 => TransferNeed::All,
        1 => TransferNeed::Nothing,
        2 => TransferNeed::InOrder,
        3 => TransferNeed::Rest,
        4 => TransferNeed::Compare,
        5 => TransferNeed::Delta,
        6 => TransferNeed::Same,
        _ => TransferNeed::Refused,
    }
}
