//! The target's engine, as far as the protocol needs one: it looks up, writes, renames, and fails now and then. `proof`
//! handles the remains of earlier runs; `naming`, the consequences of complete and failed files.

mod naming;
mod old;
mod proof;

use std::collections::HashMap;
use std::sync::Arc;

use haul_lab::Rng;
use haul_proto::entry::{Entry, EntryContent, EntryLocation, Timestamp};
use haul_proto::ids::EntryId;
use haul_proto::integrity::Digest;
use haul_proto::journal::JournalRecord;
use haul_proto::limits::ENTRY_WINDOW;
use haul_proto::overwrite_policy::{OverwriteDecision, OverwritePolicy, OverwriteRules, decide};
use haul_proto::session::step::{EntryAnswer, FinishedEntry, ParentDirectory, TargetStep};
use haul_proto::session::target::TargetSession;
use haul_proto::wire::frame::{DataFrame, PackFrame, RecordTrailer};
use haul_proto::wire::message::{SourceMessage, TargetMessage};
use old::{Telling, is_large};
use proof::Proof;

use crate::Plant;
use crate::content::{ContentBlock, FileContent, frame_len};
use crate::disk::{DiskEntry, existing};
use crate::net::{COPY, Net};
use crate::scenario::Rates;
use crate::storage::SimStorage;

/// An entry's outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryOutcome {
    /// It has its name by this run.
    Done,
    /// It was there, or (a link) was made at once.
    Kept,
    /// It was needed and failed.
    Failed,
    /// It was refused.
    Refused,
}

/// The target's end of one run.
pub struct Receiver {
    machine: TargetSession<usize>,
    /// Objects behind the machine's handles.
    open: Vec<Open>,
    todo: Vec<Todo>,
    streams: Vec<Incoming>,
    settings: SimSettings,
    /// Paths of the operands, as a Request gives them.
    operands: HashMap<u32, Vec<u8>>,
    /// Children of each directory that have no fate yet.
    unsettled_in: HashMap<Vec<u8>, u64>,
    /// Entries without a fate, directories aside.
    unsettled: usize,
    /// Entries in refused directories; nobody needs their paths. And files that were offered anew when the first offer of
    /// them was whole already.
    pub refused_below: u64,
    /// Entries displaced by another offer of the same file.
    pub replaced: u64,
    /// Outcomes of all other entries, by path.
    pub fates: HashMap<Vec<u8>, EntryOutcome>,
    /// Data of complete devices.
    pub device_writes: Vec<(Vec<u8>, FileContent)>,
    /// Frames and packs requested again.
    pub resent: u64,
    /// Files that the source gave up after they were needed.
    pub abandoned: u64,
    /// Files with frames that did not match the source's checksums.
    pub mismatched: u64,
    /// Frames that an earlier run had left, and that were proven.
    pub held: u64,
    /// Frames that were recorded, and not there.
    pub unproven: u64,
}

/// Constants of a run.
#[derive(Debug, Clone, Copy)]
pub struct SimSettings {
    /// The policy for existing entries.
    pub overwrite: OverwritePolicy,
    /// Hash received data.
    pub verify_memory: bool,
    /// Keep journals, and resume partial files of an earlier run.
    pub resumes: bool,
    /// Rates of faults.
    pub rates: Rates,
    /// The planted bug.
    pub plant: Plant,
}

/// An entry that is being made.
struct Open {
    path: Vec<u8>,
    directory: bool,
    size: u64,
    /// Data of a device. A file's data is in its part.
    device: Option<Vec<Option<ContentBlock>>>,
    /// The source shall compare the remains of an earlier run.
    compare: bool,
    /// It has an outcome or a name: later data for it is dropped.
    closed: bool,
}

/// The next action of an engine thread.
enum Todo {
    Finish(FinishedEntry<usize>),
    Name {
        entry: EntryId,
        handle: usize,
        content: FileContent,
        modified: Timestamp,
    },
    /// It has its name, perhaps not yet on the disk.
    Settle {
        entry: EntryId,
        handle: usize,
    },
    Remove {
        entry: EntryId,
        handle: usize,
    },
    Prove(Proof),
    Tell(Telling),
}

#[derive(Default)]
struct Incoming {
    writing: Option<Writing>,
    records: u64,
    ended: bool,
}

/// A frame between its admission and its end on the disk.
struct Writing {
    handle: usize,
    entry: EntryId,
    offset: u64,
    block: ContentBlock,
    value: Digest,
}

type DoneEntries<T> = Result<T, String>;

/// The options of a copy, with this rule for existing entries.
pub fn conduct(overwrite: OverwritePolicy) -> OverwriteRules {
    OverwriteRules { overwrite, ..OverwriteRules::default() }
}

impl Receiver {
    /// Ready for the first message.
    pub fn new(streams: u16, settings: SimSettings, operands: HashMap<u32, Vec<u8>>) -> Self {
        let mut machine = TargetSession::new(frame_len());
        if settings.verify_memory {
            machine.keep_values();
        }
        Self {
            machine,
            open: Vec::new(),
            todo: Vec::new(),
            streams: (0..streams).map(|_| Incoming::default()).collect(),
            settings,
            operands,
            unsettled_in: HashMap::new(),
            unsettled: 0,
            refused_below: 0,
            fates: HashMap::new(),
            replaced: 0,
            device_writes: Vec::new(),
            resent: 0,
            abandoned: 0,
            mismatched: 0,
            held: 0,
            unproven: 0,
        }
    }

    /// Whether everything is settled and said, and every stream has ended.
    pub fn is_finished(&self) -> bool {
        self.machine.is_finished() && self.todo.is_empty() && self.streams.iter().all(|stream| stream.ended)
    }

    /// Sends a control message.
    pub fn speak(&mut self, net: &mut Net) -> bool {
        if !net.to_source.has_room() {
            return false;
        }
        let Some(message) = self.machine.poll_message() else { return false };
        let lost = match message {
            TargetMessage::Done { .. } => self.settings.plant == Plant::DropDone,
            TargetMessage::Missing { .. } => self.settings.plant == Plant::DropMissing,
            TargetMessage::MissingRanges { .. } | TargetMessage::ResendPacked { .. } => {
                self.settings.plant == Plant::DropResend
            }
            _ => false,
        };
        if !lost {
            net.to_source.send(message.encode(COPY));
        }
        true
    }

    /// Takes a control message.
    pub fn listen(&mut self, net: &mut Net, storage: &mut SimStorage, rng: &mut Rng) -> DoneEntries<bool> {
        let Some(bytes) = net.to_target.receive() else { return Ok(false) };
        let message = SourceMessage::decode(&bytes, COPY).map_err(|fault| format!("the source's message: {fault}"))?;
        let step = self.machine.handle(message).map_err(|fault| format!("the target refuses: {fault}"))?;
        match step {
            TargetStep::Examine(first, entries) => self.examine(first, &entries, storage, rng)?,
            step => self.follow(step, storage)?,
        }
        Ok(true)
    }

    fn examine(
        &mut self,
        first: EntryId,
        entries: &[Entry],
        storage: &mut SimStorage,
        rng: &mut Rng,
    ) -> DoneEntries<()> {
        let (mut claims, mut tellings) = (Vec::new(), Vec::new());
        for (id, entry) in (first.0..).map(EntryId).zip(entries) {
            let path = self.place(&entry.place, storage);
            self.unsettled += usize::from(entry.kind != EntryContent::Directory);
            let answer = match path {
                Some(path) => self.look(&path, entry, storage, rng)?,
                None => {
                    self.refused_below += 1;
                    self.unsettled -= usize::from(entry.kind != EntryContent::Directory);
                    EntryAnswer::Refused
                }
            };
            if let EntryAnswer::Partial(handle) = &answer {
                claims.push(Proof::new(id, **handle));
            }
            let old = matches!(answer, EntryAnswer::Delta(_)).then(|| Telling::new(id, &entry.kind));
            tellings.extend(old.map(Todo::Tell));
            let finish = self.machine.answer(id, answer);
            self.todo.extend(finish.map(Todo::Finish));
        }
        self.todo.extend(claims.into_iter().map(Todo::Prove).chain(tellings));
        if self.unsettled > ENTRY_WINDOW {
            return Err(format!("{} entries in the window", self.unsettled));
        }
        Ok(())
    }

    /// An entry's path; none where its directory was refused.
    fn place(&mut self, place: &EntryLocation, storage: &mut SimStorage) -> Option<Vec<u8>> {
        match (self.machine.parent(place), place) {
            (ParentDirectory::Open(handle), EntryLocation::Child { name, .. }) => {
                let parent = &self.open[*handle].path;
                *self.unsettled_in.entry(parent.clone()).or_default() += 1;
                Some([parent.as_slice(), b"/", name.as_bytes()].concat())
            }
            (ParentDirectory::Operand(number), _) => self.operands.get(&number).cloned(),
            (ParentDirectory::Again(handle), _) => {
                // Results of the first offer are void.
                let open = &mut self.open[*handle];
                if !std::mem::replace(&mut open.closed, true) {
                    storage.parts.remove(&open.path);
                    self.replaced += 1;
                    self.unsettled -= 1;
                }
                Some(open.path.clone())
            }
            _ => None,
        }
    }

    fn look(
        &mut self,
        path: &[u8],
        entry: &Entry,
        storage: &mut SimStorage,
        rng: &mut Rng,
    ) -> DoneEntries<EntryAnswer<usize>> {
        let directory = entry.kind == EntryContent::Directory;
        let standing = storage.names.get(path);
        if matches!((&entry.kind, standing), (EntryContent::File { .. }, Some(DiskEntry::Device))) {
            return match entry.place {
                EntryLocation::Operand(_) => Ok(EntryAnswer::NeededInOrder(self.begin(path, &entry.kind, true))),
                _ => self.settled(path, EntryOutcome::Refused, directory).map(|()| EntryAnswer::Refused),
            };
        }
        let mut decision =
            decide(&entry.kind, entry.meta.modified, &existing(&storage.names, path), conduct(self.settings.overwrite));
        if self.settings.plant == Plant::KeepBySize
            && let (EntryContent::File { size }, Some(DiskEntry::File(content, _))) = (&entry.kind, standing)
            && content.size() == *size
        {
            decision = OverwriteDecision::Keep;
        }
        let fails = storage.full || rng.chance(self.settings.rates.create);
        let path = path.to_vec();
        Ok(match (&entry.kind, decision) {
            (_, OverwriteDecision::Refuse(_)) => {
                self.settled(&path, EntryOutcome::Refused, directory)?;
                EntryAnswer::Refused
            }
            (EntryContent::Directory, OverwriteDecision::Keep) => {
                EntryAnswer::Needed(self.begin(&path, &entry.kind, false))
            }
            (_, OverwriteDecision::Keep) => {
                self.settled(&path, EntryOutcome::Kept, directory)?;
                EntryAnswer::Settled
            }
            _ if fails => {
                self.settled(&path, EntryOutcome::Refused, directory)?;
                EntryAnswer::Refused
            }
            (EntryContent::Directory, _) => {
                storage.names.insert(path.clone(), DiskEntry::Directory);
                EntryAnswer::Needed(self.begin(&path, &entry.kind, false))
            }
            (EntryContent::Symlink { points_to }, _) => {
                storage.give_name(&path, DiskEntry::Link(points_to.clone()), true);
                self.settled(&path, EntryOutcome::Kept, directory)?;
                EntryAnswer::Settled
            }
            (EntryContent::File { .. }, _) => {
                let part = self.find_part(&path, entry, storage);
                let handle = self.begin(&path, &entry.kind, false);
                match part {
                    Some(compare) => {
                        self.open[*handle].compare = compare;
                        EntryAnswer::Partial(handle)
                    }
                    None if decision == OverwriteDecision::Replace && is_large(entry) && rng.chance(500) => {
                        EntryAnswer::Delta(handle)
                    }
                    None => EntryAnswer::Needed(handle),
                }
            }
            (EntryContent::Stream, _) => EntryAnswer::Needed(self.begin(&path, &entry.kind, false)),
            (EntryContent::HardLink { .. } | EntryContent::Node(_), _) => {
                unreachable!("the model's trees have neither")
            }
        })
    }

    fn begin(&mut self, path: &[u8], kind: &EntryContent, is_device: bool) -> Arc<usize> {
        let size = if let EntryContent::File { size } = kind { *size } else { 0 };
        let device = is_device.then(|| (0..frame_len().frames(size)).map(|_| None).collect());
        let directory = *kind == EntryContent::Directory;
        self.open.push(Open { path: path.to_vec(), directory, device, size, compare: false, closed: false });
        Arc::new(self.open.len() - 1)
    }

    /// Advances a stream: receives a record, or writes the last one.
    pub fn stream(
        &mut self,
        stream: usize,
        net: &mut Net,
        storage: &mut SimStorage,
        rng: &mut Rng,
    ) -> DoneEntries<bool> {
        let known = self.streams.len().max(stream + 1);
        self.streams.resize_with(known, Incoming::default);
        if let Some(writing) = self.streams[stream].writing.take() {
            self.write(writing, storage, rng)?;
            return Ok(true);
        }
        let Some(mut record) = net.streams[stream].way.receive() else {
            let is_news = net.streams[stream].broken && !self.streams[stream].ended;
            self.streams[stream].ended |= is_news;
            return Ok(is_news);
        };
        if rng.chance(self.settings.rates.damage) {
            record.payload = record.payload.damaged(rng);
        }
        match record.open()? {
            RecordTrailer::Data(frame) => self.streams[stream].writing = self.data(&frame, record.payload)?,
            RecordTrailer::Pack(pack) => self.pack(&pack, &record.payload)?,
            RecordTrailer::End { records } if records == self.streams[stream].records => {
                self.streams[stream].ended = true;
                return Ok(true);
            }
            trailer => return Err(format!("unexpected after {} records: {trailer:?}", self.streams[stream].records)),
        }
        self.streams[stream].records += 1;
        Ok(true)
    }

    fn data(&mut self, frame: &DataFrame, block: ContentBlock) -> DoneEntries<Option<Writing>> {
        let DataFrame { copy, entry, offset, check, value } = *frame;
        let admitted = self.machine.admit_frame(entry, offset, block.len());
        let Some(handle) = admitted.map_err(|fault| format!("a frame of another copy {copy:?}, or: {fault}"))? else {
            return Ok(None);
        };
        if block.check() != check && self.settings.plant != Plant::SkipCheck {
            self.resent += 1;
            self.machine.resend_frame(entry, offset);
            return Ok(None);
        }
        let index = offset / u64::from(frame_len().get());
        let rehash = self.settings.verify_memory && self.settings.plant != Plant::SkipCheck;
        let value = if rehash { block.value(self.open[*handle].size, index) } else { value };
        Ok(Some(Writing { handle: *handle, entry, offset, block, value }))
    }

    fn pack(&mut self, pack: &PackFrame, payload: &ContentBlock) -> DoneEntries<()> {
        let refuses = |fault| format!("the target refuses a pack: {fault}");
        if payload.check() != pack.check && self.settings.plant != Plant::SkipCheck {
            self.resent += 1;
            return self.machine.resend_pack(&pack.files).map_err(refuses);
        }
        let admitted = self.machine.admit_pack(&pack.files).map_err(refuses)?;
        let bytes = payload.bytes();
        let mut rest = &bytes[..];
        for (file, handle) in pack.files.iter().zip(admitted) {
            let (content, behind) = rest.split_at(file.len as usize);
            rest = behind;
            let blocks = if content.is_empty() { vec![] } else { vec![ContentBlock::Bytes(content.into())] };
            let content = FileContent::from_blocks(blocks);
            self.todo.extend(handle.map(|handle| Todo::Name {
                entry: file.entry,
                handle: *handle,
                content,
                modified: file.modified,
            }));
        }
        Ok(())
    }

    fn write(&mut self, writing: Writing, storage: &mut SimStorage, rng: &mut Rng) -> DoneEntries<()> {
        let Writing { handle, entry, offset, block, value } = writing;
        let fails = storage.full || rng.chance(self.settings.rates.write);
        let open = &mut self.open[handle];
        if fails && !open.closed {
            return self.fail(entry, handle, storage);
        }
        let frame = offset / u64::from(frame_len().get());
        if !open.closed {
            let record = JournalRecord { check: block.check(), value: Some(value) };
            match (&mut open.device, storage.parts.get_mut(&open.path)) {
                (Some(blocks), _) => blocks[usize::try_from(frame).map_err(|error| error.to_string())?] = Some(block),
                (None, Some(part)) => {
                    part.write(frame, block);
                    part.record(frame, &record);
                    if self.settings.plant == Plant::NameEarly {
                        let standing = DiskEntry::File(part.content(), Timestamp::default());
                        storage.names.insert(open.path.clone(), standing);
                    }
                }
                (None, None) => return Err("a frame of a file that is not there is written".into()),
            }
        }
        let step = self.machine.frame_written(entry, offset, value);
        self.follow(step, storage)
    }

    /// The end is killed: a thread's current write may be complete, half done or missing.
    pub fn die(&mut self, storage: &mut SimStorage, rng: &mut Rng) {
        for Writing { handle, offset, block, .. } in self.streams.iter_mut().filter_map(|stream| stream.writing.take())
        {
            let open = &self.open[handle];
            let part = storage.parts.get_mut(&open.path).filter(|_| !open.closed && rng.chance(500));
            part.into_iter().for_each(|part| part.tear(offset / u64::from(frame_len().get()), &block));
        }
    }

    /// Queues the actions of a machine's step for a thread.
    fn follow(&mut self, step: TargetStep<usize>, storage: &mut SimStorage) -> DoneEntries<()> {
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
            TargetStep::Finish(finish) => self.todo.push(Todo::Finish(finish)),
            TargetStep::Abandon(entry, handle, _) => {
                self.abandoned += 1;
                self.todo.push(Todo::Remove { entry, handle: *handle });
            }
            TargetStep::Mismatch(entry, handle) => {
                self.mismatched += 1;
                storage.parts.remove(&self.open[*handle].path);
                self.fail(entry, *handle, storage)?;
            }
            TargetStep::Examine(..) | TargetStep::Differs(..) | TargetStep::Sum(..) => {
                return Err("a step where it cannot be".into());
            }
        }
        Ok(())
    }
}
