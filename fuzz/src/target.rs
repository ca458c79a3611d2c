//! The target's machine under any source: an engine that does what it should, and messages and frames that are anything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use haul_proto::delta::rolling::{RollingSignature, SignatureFormat};
use haul_proto::entry::{Entry, EntryContent, EntryLocation, EntryMetadata, Timestamp};
use haul_proto::error::ProtocolError;
use haul_proto::file_range::FileRange;
use haul_proto::ids::EntryId;
use haul_proto::integrity::FrameLen;
use haul_proto::path::Name;
use haul_proto::session::step::{EntryAnswer, FinishedEntry, LostFile, ParentDirectory, TargetStep};
use haul_proto::session::target::TargetSession;
use haul_proto::wire::frame::PackedFile;
use haul_proto::wire::message::{SourceMessage, TargetMessage};

use crate::bytes::Bytes;
use crate::source::{FRAME, range_of};
use crate::wire::COPY;

/// A sequence of a source's messages and frames, and of an engine's calls.
pub fn target_session(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let frame = FrameLen::new(FRAME).expect("a power of two in range");
    let mut session = Session {
        target: TargetSession::new(frame),
        range: range_of(data),
        next: 0,
        needed: BTreeSet::new(),
        parts: BTreeMap::new(),
        olds: BTreeMap::new(),
        compared: BTreeSet::new(),
        whole: Vec::new(),
        finishing: Vec::new(),
        written: Vec::new(),
    };
    session.range.iter().for_each(|range| session.target.receive_range(*range));
    while !bytes.is_empty() {
        if session.step(&mut bytes).is_err() {
            return;
        }
    }
    session.drain();
}

struct Session {
    target: TargetSession<u64>,
    /// The only range that is received of each file.
    range: Option<FileRange>,
    /// Id of the next entry.
    next: u64,
    /// Files that were needed and neither named nor given up.
    needed: BTreeSet<u64>,
    /// Files that are only compared.
    compared: BTreeSet<u64>,
    /// Those, and files of which an earlier run left a part; and how many frames they have.
    parts: BTreeMap<u64, u64>,
    /// Files of which an old one is there, and how many frames they have.
    olds: BTreeMap<u64, u64>,
    /// Files of packs that were written and have no name yet.
    whole: Vec<(EntryId, Arc<u64>)>,
    /// What the engine is to give its name.
    finishing: Vec<EntryId>,
    /// Frames that were admitted and not written yet.
    written: Vec<(EntryId, u64)>,
}

impl Session {
    fn step(&mut self, bytes: &mut Bytes<'_>) -> Result<(), ProtocolError> {
        match bytes.u8() % 16 {
            0..=2 => {
                let message = message(self.next, bytes);
                self.handle(message, bytes)?;
            }
            3 => {
                if let Ok(message) = SourceMessage::decode(bytes.block(), COPY) {
                    self.handle(message, bytes)?;
                }
            }
            4 | 5 => self.frame(bytes)?,
            6 => self.pack(bytes)?,
            7 => {
                if let Some((entry, offset)) = self.written.pop() {
                    let step = self.target.frame_written(entry, offset, [bytes.u8(); 32]);
                    self.follow(step);
                }
            }
            8 | 9 => self.settle(bytes),
            10 => self.give_up(bytes),
            12 => self.hold(bytes),
            11 => self.tell(bytes),
            13 => self.lose(),
            14 => {
                if let Some((entry, offset)) = self.written.pop() {
                    self.target.release_frame(entry, offset);
                }
            }
            _ => self.poll(),
        }
        Ok(())
    }

    fn handle(&mut self, message: SourceMessage, bytes: &mut Bytes<'_>) -> Result<(), ProtocolError> {
        match self.target.handle(message)? {
            TargetStep::Examine(first, entries) => {
                assert_eq!(first.0, self.next, "ids are in turn");
                for entry in &entries {
                    self.examine(entry, bytes.u8());
                }
            }
            step => self.follow(step),
        }
        Ok(())
    }

    fn examine(&mut self, entry: &Entry, choice: u8) {
        let id = self.next;
        self.next += 1;
        let refused = matches!(self.target.parent(&entry.place), ParentDirectory::Refused);
        let answer = match (&entry.kind, choice % 4) {
            _ if refused => EntryAnswer::Refused,
            (EntryContent::File { size }, choice) if self.range.is_some_and(|range| range.is_in(*size)) => {
                if choice == 0 { EntryAnswer::Refused } else { EntryAnswer::Needed(Arc::new(id)) }
            }
            (EntryContent::File { .. } | EntryContent::Stream, _) if self.range.is_some() => EntryAnswer::Refused,
            (EntryContent::File { size }, 0) if choice >= 128 && *size > u64::from(FRAME) => {
                self.parts.insert(id, size.div_ceil(FRAME.into()));
                EntryAnswer::Partial(Arc::new(id))
            }
            (EntryContent::File { size }, 1) if choice >= 128 && *size > u64::from(FRAME) => {
                self.olds.insert(id, size.div_ceil(FRAME.into()));
                EntryAnswer::Delta(Arc::new(id))
            }
            (_, 3) => EntryAnswer::Refused,
            (EntryContent::Directory, _) => EntryAnswer::Needed(Arc::new(id)),
            (EntryContent::File { size: size @ 1.. }, _) if choice >= 128 => {
                self.parts.insert(id, size.div_ceil(FRAME.into()));
                self.compared.insert(id);
                EntryAnswer::Compare(Arc::new(id))
            }
            (EntryContent::Symlink { .. }, _) | (EntryContent::File { .. }, 2) => EntryAnswer::Settled,
            (EntryContent::File { .. } | EntryContent::Stream, 1) => EntryAnswer::NeededInOrder(Arc::new(id)),
            _ => EntryAnswer::Needed(Arc::new(id)),
        };
        let is_needed = matches!(
            answer,
            EntryAnswer::Needed(_)
                | EntryAnswer::NeededInOrder(_)
                | EntryAnswer::Partial(_)
                | EntryAnswer::Compare(_)
                | EntryAnswer::Delta(_)
        );
        if is_needed && matches!(entry.kind, EntryContent::File { .. } | EntryContent::Stream) {
            self.needed.insert(id);
        }
        let finish = self.target.answer(EntryId(id), answer);
        self.finish(finish);
    }

    fn follow(&mut self, step: TargetStep<u64>) {
        match step {
            TargetStep::None
            | TargetStep::Connect(..)
            | TargetStep::SmallSegments(_)
            | TargetStep::StreamsLost(_)
            | TargetStep::Passed(_)
            | TargetStep::Owner { .. }
            | TargetStep::LeftOut(..)
            | TargetStep::Vanished(..)
            | TargetStep::Patterns(..) => {}
            TargetStep::Finish(finish) => self.finish(Some(finish)),
            TargetStep::Abandon(entry, handle, _) => {
                assert!(*handle == entry.0 && self.needed.remove(&entry.0), "only what was needed is abandoned");
                let finish = self.target.abandoned(entry);
                self.finish(finish);
            }
            TargetStep::Mismatch(entry, _) => self.fail(entry),
            TargetStep::Differs(entry, handle, differing) => {
                assert!(*handle == entry.0 && self.needed.contains(&entry.0) && !differing.is_empty());
                self.finishing.push(entry);
            }
            TargetStep::Sum(..) => panic!("nobody asks for one"),
            TargetStep::Examine(..) => panic!("an offer out of turn"),
        }
    }

    fn finish(&mut self, finish: Option<FinishedEntry<u64>>) {
        if let Some(finish) = finish {
            assert_eq!(*finish.handle, finish.entry.0);
            assert_eq!(finish.end.is_some(), self.needed.contains(&finish.entry.0), "files end, directories do not");
            self.finishing.push(finish.entry);
        }
    }

    fn frame(&mut self, bytes: &mut Bytes<'_>) -> Result<(), ProtocolError> {
        let entry = EntryId(bytes.number());
        let offset = bytes.number().wrapping_mul(FRAME.into());
        let len = if bytes.u8().is_multiple_of(4) { usize::from(bytes.u8()) } else { FRAME as usize };
        let admitted = match bytes.u8().is_multiple_of(4) {
            true => self.target.admit_delta(entry, offset, len)?,
            false => self.target.admit_frame(entry, offset, len)?,
        };
        let Some(handle) = admitted else { return Ok(()) };
        assert!(*handle == entry.0 && self.needed.contains(&entry.0), "only what is needed is admitted");
        if !bytes.u8().is_multiple_of(4) {
            self.written.push((entry, offset));
        } else {
            self.target.resend_frame(entry, offset);
        }
        Ok(())
    }

    fn pack(&mut self, bytes: &mut Bytes<'_>) -> Result<(), ProtocolError> {
        let packed = |entry: &u8| PackedFile {
            entry: EntryId(u64::from(*entry)),
            len: 1,
            modified: Timestamp::default(),
            digest: [0; 32],
        };
        let files: Vec<_> = bytes.block().iter().map(packed).collect();
        if bytes.u8().is_multiple_of(4) {
            return self.target.resend_pack(&files);
        }
        for (file, handle) in files.iter().zip(self.target.admit_pack(&files)?) {
            if let Some(handle) = handle {
                assert!(*handle == file.entry.0 && self.needed.contains(handle.as_ref()), "only what is needed");
                self.finishing.push(file.entry);
                self.whole.push((file.entry, handle));
            }
        }
        Ok(())
    }

    /// Tells of an old file: of the blocks of a frame, or of the sums of all.
    fn tell(&mut self, bytes: &mut Bytes<'_>) {
        let Some((entry, frames)) = self.olds.range(bytes.number()..).next() else { return };
        let (entry, index) = (EntryId(*entry), bytes.number() % frames);
        if bytes.u8().is_multiple_of(2) && self.target.may_mark(1) {
            self.target.mark(entry, index, 1, vec![bytes.number()]);
        } else if self.target.may_sum(index) {
            self.target.begin_sums(entry, index);
            let format = SignatureFormat::new(1 << 20, 1024, 7);
            self.target.send_signatures(entry, 1 << 20, format, 0, vec![RollingSignature { weak: 1, strong: index }]);
            self.target.lacks(entry, std::slice::from_ref(&(index..index + 1)));
        }
    }

    /// Proves some of a part that an earlier run left, or tells of a file that is compared, and says what is missing.
    fn hold(&mut self, bytes: &mut Bytes<'_>) {
        let from = bytes.number();
        let Some((entry, frames)) = self.parts.range(from..).next().map(|(entry, frames)| (EntryId(*entry), *frames))
        else {
            return;
        };
        let (first, count) = (bytes.number(), u64::from(bytes.u8()));
        let end = first.saturating_add(count).min(frames);
        if first >= end {
            return;
        }
        let is_lacking = bytes.u8().is_multiple_of(3);
        if self.compared.contains(&entry.0) {
            let values: Vec<_> = (first..end).map(|_| [bytes.u8(); 32]).collect();
            if self.target.may_hold(values.len()) {
                let step = self.target.holds(entry, first, &values, true);
                self.follow(step);
            }
        } else if is_lacking {
            self.target.lacks(entry, std::slice::from_ref(&(first..end)));
        } else {
            let values: Vec<_> = (first..end).map(|_| [bytes.u8(); 32]).collect();
            let step = self.target.holds(entry, first, &values, bytes.u8().is_multiple_of(2));
            self.follow(step);
        }
    }

    /// Files of packs do not reach the disk.
    fn lose(&mut self) {
        let whole = std::mem::take(&mut self.whole);
        whole.iter().for_each(|(entry, _)| self.finishing.retain(|other| other != entry));
        let lost = whole.into_iter().map(|(entry, handle)| LostFile { entry, handle, left: None }).collect();
        for failed in self.target.lost(lost) {
            self.fail(failed);
        }
    }

    /// Gives something its name, or fails to.
    fn settle(&mut self, bytes: &mut Bytes<'_>) {
        if let Some(entry) = self.finishing.pop() {
            self.needed.remove(&entry.0);
            let finish = self.target.settle_entry(entry, !bytes.u8().is_multiple_of(4));
            self.finish(finish);
        }
    }

    /// Fails to write a file that is under way.
    fn give_up(&mut self, bytes: &mut Bytes<'_>) {
        let from = bytes.number();
        if let Some(entry) = self.needed.range(from..).next().copied() {
            self.fail(EntryId(entry));
        }
    }

    fn fail(&mut self, entry: EntryId) {
        self.needed.remove(&entry.0);
        self.finishing.retain(|other| *other != entry);
        let finish = self.target.settle_entry(entry, false);
        self.finish(finish);
    }

    fn poll(&mut self) {
        if let Some(message) = self.target.poll_message() {
            let decoded = TargetMessage::decode(&message.encode(COPY), COPY);
            assert_eq!(decoded, Ok(message));
        }
    }

    /// Whatever was said: once the engine has done its part, nothing is owed to the source.
    fn drain(&mut self) {
        while let Some(entry) = self.finishing.pop() {
            self.needed.remove(&entry.0);
            let finish = self.target.settle_entry(entry, true);
            self.finish(finish);
        }
        while let Some(entry) = self.needed.first().copied() {
            self.fail(EntryId(entry));
        }
        while self.target.poll_message().is_some() {}
    }
}

/// A message from a source, out of few bytes.
fn message(next: u64, bytes: &mut Bytes<'_>) -> SourceMessage {
    match bytes.u8() % 11 {
        0..=3 => {
            let entries =
                bytes.block().chunks(2).map(|pair| entry(pair[0], pair.get(1).copied().unwrap_or(0))).collect();
            SourceMessage::Offer { first: EntryId(next), entries }
        }
        4 => SourceMessage::DirectoryEnd { entry: EntryId(bytes.number()), listing: true.into() },
        5 => {
            let (entry, size) = (EntryId(bytes.number()), bytes.number().wrapping_mul(u64::from(FRAME)));
            SourceMessage::FileEnd { entry, size, modified: Timestamp::default(), digest: [0; 32] }
        }
        6 => SourceMessage::SourceFailed { entry: EntryId(bytes.number()), reason: String::new(), vanished: false },
        9 | 10 => compared(bytes),
        7 => SourceMessage::QueryMissing { streams: vec![], entries: vec![(EntryId(bytes.number()), bytes.number())] },
        8 => {
            let (entry, start) = (EntryId(bytes.number()), bytes.number());
            SourceMessage::Match { entry, frames: vec![start..start.saturating_add(bytes.number())] }
        }
        _ => SourceMessage::OffersEnd,
    }
}

fn compared(bytes: &mut Bytes<'_>) -> SourceMessage {
    let (entry, start) = (EntryId(bytes.number()), u64::from(bytes.u8()));
    let frames = vec![start..start + 1 + u64::from(bytes.u8())];
    match bytes.u8() % 2 {
        0 => SourceMessage::Match { entry, frames },
        _ => SourceMessage::Mismatch { entry, frames },
    }
}

fn entry(kind: u8, parent: u8) -> Entry {
    let place = match parent {
        0 => EntryLocation::Operand(0),
        n @ 200.. => EntryLocation::Again(EntryId(u64::from(n) - 200)),
        n => EntryLocation::Child { parent: EntryId(u64::from(n) - 1), name: Name::new(b"x").expect("a name") },
    };
    let kind = match kind % 8 {
        0 | 1 => EntryContent::Directory,
        2 => EntryContent::Symlink { points_to: (*b"x").into() },
        3 | 4 => EntryContent::File { size: kind.into() },
        5 if kind >= 128 => EntryContent::Stream,
        5 if kind >= 64 => EntryContent::HardLink { to: EntryId(u64::from(parent % 16)), size: 3 },
        5 => EntryContent::File { size: u64::MAX },
        n => EntryContent::File { size: u64::from(FRAME) * u64::from(n - 5) + u64::from(kind >> 3) },
    };
    Entry { place, kind, meta: EntryMetadata::default(), version: None, more: None }
}
