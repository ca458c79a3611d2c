//! The target's engine, as far as the protocol needs one: looks, writes, names, and fails now and then.

use std::collections::HashMap;
use std::sync::Arc;

use haul_proto::ids::EntryId;
use haul_proto::integrity::Digest;
use haul_proto::manifest::{Entry, Kind, Place, Stamp};
use haul_proto::need::{Decision, decide};
use haul_proto::session::target::{Answer, Finish, Lost, Parent, Step, Target};
use haul_proto::wire::frame::{DataFrame, PackFrame, Trailer};
use haul_proto::wire::limits::ENTRY_WINDOW;
use haul_proto::wire::message::{SourceMessage, TargetMessage};

use crate::Plant;
use crate::content::{Block, Content, frame_len};
use crate::disk::{Disk, Standing, existing};
use crate::net::Net;
use crate::sender::JOB;
use crate::world::Rates;
use haul_lab::Rng;

/// What became of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
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
    machine: Target<usize>,
    /// What the machine's handles stand for.
    open: Vec<Open>,
    todo: Vec<Todo>,
    streams: Vec<Incoming>,
    settings: Settings,
    /// Paths of the operands, as a Request gives them.
    operands: HashMap<u32, Vec<u8>>,
    /// Children of each directory that have no fate yet.
    unsettled_in: HashMap<Vec<u8>, u64>,
    /// Entries without a fate, directories aside.
    unsettled: usize,
    /// Entries in refused directories; nobody needs their paths.
    pub refused_below: u64,
    /// What became of each other entry, by path.
    pub fates: HashMap<Vec<u8>, Fate>,
    /// What was written to devices, to the end.
    pub device_writes: Vec<(Vec<u8>, Content)>,
    /// Frames and packs that were asked for again.
    pub resent: u64,
    /// Files that the source gave up after they were needed.
    pub abandoned: u64,
    /// Files whose frames were not what the source said.
    pub mismatched: u64,
}

/// What does not change during a run.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Replace what exists.
    pub force: bool,
    /// Hash what arrives.
    pub verify_memory: bool,
    /// How likely what goes wrong.
    pub rates: Rates,
    /// What is broken on purpose.
    pub plant: Plant,
}

/// An entry that is being made.
struct Open {
    path: Vec<u8>,
    directory: bool,
    device: bool,
    size: u64,
    blocks: Vec<Option<Block>>,
    /// It has a fate: what comes for it still is dropped.
    closed: bool,
}

/// What a thread of the engine is about to do.
enum Todo {
    Finish(Finish<usize>),
    Name { entry: EntryId, handle: usize, content: Content, modified: Stamp },
    Remove { entry: EntryId, handle: usize },
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
    block: Block,
    value: Digest,
}

type Done<T> = Result<T, String>;

impl Receiver {
    /// Ready for the first message.
    pub fn new(streams: u16, settings: Settings, operands: HashMap<u32, Vec<u8>>) -> Self {
        let mut machine = Target::new(frame_len());
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
            device_writes: Vec::new(),
            resent: 0,
            abandoned: 0,
            mismatched: 0,
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
            TargetMessage::Lacks { .. } | TargetMessage::ResendPacked { .. } => {
                self.settings.plant == Plant::DropResend
            }
            _ => false,
        };
        if !lost {
            net.to_source.send(message.encode(JOB));
        }
        true
    }

    /// Takes a control message.
    pub fn listen(&mut self, net: &mut Net, disk: &mut Disk, rng: &mut Rng) -> Done<bool> {
        let Some(bytes) = net.to_target.receive() else { return Ok(false) };
        let message = SourceMessage::decode(&bytes, JOB).map_err(|fault| format!("the source's message: {fault}"))?;
        let step = self.machine.handle(message).map_err(|fault| format!("the target refuses: {fault}"))?;
        match step {
            Step::Examine(first, entries) => self.examine(first, &entries, disk, rng)?,
            step => self.follow(step)?,
        }
        Ok(true)
    }

    fn examine(&mut self, first: EntryId, entries: &[Entry], disk: &mut Disk, rng: &mut Rng) -> Done<()> {
        for (id, entry) in (first.0..).map(EntryId).zip(entries) {
            let path = self.place(&entry.place);
            self.unsettled += usize::from(entry.kind != Kind::Directory);
            let answer = match path {
                Some(path) => self.look(&path, entry, disk, rng)?,
                None => {
                    self.refused_below += 1;
                    self.unsettled -= usize::from(entry.kind != Kind::Directory);
                    Answer::Refused
                }
            };
            let finish = self.machine.answer(id, answer);
            self.todo.extend(finish.map(Todo::Finish));
        }
        if self.unsettled > ENTRY_WINDOW {
            return Err(format!("{} entries in the window", self.unsettled));
        }
        Ok(())
    }

    /// An entry's path; none where its directory was refused.
    fn place(&mut self, place: &Place) -> Option<Vec<u8>> {
        match (self.machine.parent(place), place) {
            (Parent::Open(handle), Place::Child { name, .. }) => {
                let parent = &self.open[*handle].path;
                *self.unsettled_in.entry(parent.clone()).or_default() += 1;
                Some([parent.as_slice(), b"/", name.as_bytes()].concat())
            }
            (Parent::Operand(number), _) => self.operands.get(&number).cloned(),
            _ => None,
        }
    }

    fn look(&mut self, path: &[u8], entry: &Entry, disk: &mut Disk, rng: &mut Rng) -> Done<Answer<usize>> {
        let directory = entry.kind == Kind::Directory;
        let operand = matches!(entry.place, Place::Operand(_));
        if operand && matches!(entry.kind, Kind::File { .. }) && disk.get(path) == Some(&Standing::Device) {
            return Ok(Answer::NeededInOrder(self.begin(path, &entry.kind, true)));
        }
        let mut decision = decide(&entry.kind, entry.meta.modified, &existing(disk, path), self.settings.force);
        if self.settings.plant == Plant::KeepBySize
            && let (Kind::File { size }, Some(Standing::File(content, _))) = (&entry.kind, disk.get(path))
            && content.size() == *size
        {
            decision = Decision::Keep;
        }
        let fails = rng.chance(self.settings.rates.create);
        let path = path.to_vec();
        Ok(match (&entry.kind, decision) {
            (_, Decision::Refuse(_)) => {
                self.settled(&path, Fate::Refused, directory)?;
                Answer::Refused
            }
            (Kind::Directory, Decision::Keep) => Answer::Needed(self.begin(&path, &entry.kind, false)),
            (_, Decision::Keep) => {
                self.settled(&path, Fate::Kept, directory)?;
                Answer::Settled
            }
            _ if fails => {
                self.settled(&path, Fate::Refused, directory)?;
                Answer::Refused
            }
            (Kind::Directory, _) => {
                disk.insert(path.clone(), Standing::Directory);
                Answer::Needed(self.begin(&path, &entry.kind, false))
            }
            (Kind::Symlink { points_to }, _) => {
                disk.insert(path.clone(), Standing::Link(points_to.clone()));
                self.settled(&path, Fate::Kept, directory)?;
                Answer::Settled
            }
            (Kind::File { .. } | Kind::Stream, _) => Answer::Needed(self.begin(&path, &entry.kind, false)),
        })
    }

    fn begin(&mut self, path: &[u8], kind: &Kind, device: bool) -> Arc<usize> {
        let size = if let Kind::File { size } = kind { *size } else { 0 };
        let blocks = (0..frame_len().frames(size)).map(|_| None).collect();
        let directory = *kind == Kind::Directory;
        self.open.push(Open { path: path.to_vec(), directory, device, size, blocks, closed: false });
        Arc::new(self.open.len() - 1)
    }

    /// Moves a stream on: takes a record, or writes what it took before.
    pub fn stream(&mut self, stream: usize, net: &mut Net, disk: &mut Disk, rng: &mut Rng) -> Done<bool> {
        let known = self.streams.len().max(stream + 1);
        self.streams.resize_with(known, Incoming::default);
        if let Some(writing) = self.streams[stream].writing.take() {
            self.write(writing, disk, rng)?;
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
            Trailer::Data(frame) => self.streams[stream].writing = self.data(&frame, record.payload)?,
            Trailer::Pack(pack) => self.pack(&pack, &record.payload)?,
            Trailer::End { records } if records == self.streams[stream].records => {
                self.streams[stream].ended = true;
                return Ok(true);
            }
            trailer => return Err(format!("unexpected after {} records: {trailer:?}", self.streams[stream].records)),
        }
        self.streams[stream].records += 1;
        Ok(true)
    }

    fn data(&mut self, frame: &DataFrame, block: Block) -> Done<Option<Writing>> {
        let DataFrame { job, entry, offset, crc, value } = *frame;
        let admitted = self.machine.admit_frame(entry, offset, block.len());
        let Some(handle) = admitted.map_err(|fault| format!("a frame of another job {job:?}, or: {fault}"))? else {
            return Ok(None);
        };
        if block.crc() != crc && self.settings.plant != Plant::SkipCrc {
            self.resent += 1;
            self.machine.resend_frame(entry, offset);
            return Ok(None);
        }
        let index = offset / u64::from(frame_len().get());
        let rehash = self.settings.verify_memory && self.settings.plant != Plant::SkipCrc;
        let value = if rehash { block.value(self.open[*handle].size, index) } else { value };
        Ok(Some(Writing { handle: *handle, entry, offset, block, value }))
    }

    fn pack(&mut self, pack: &PackFrame, payload: &Block) -> Done<()> {
        let refuses = |fault| format!("the target refuses a pack: {fault}");
        if payload.crc() != pack.crc && self.settings.plant != Plant::SkipCrc {
            self.resent += 1;
            return self.machine.resend_pack(&pack.files).map_err(refuses);
        }
        let admitted = self.machine.admit_pack(&pack.files).map_err(refuses)?;
        let bytes = payload.bytes();
        let mut rest = &bytes[..];
        for (file, handle) in pack.files.iter().zip(admitted) {
            let (content, behind) = rest.split_at(file.len as usize);
            rest = behind;
            let blocks = if content.is_empty() { vec![] } else { vec![Block::Bytes(content.into())] };
            let content = Content::from_blocks(blocks);
            self.todo.extend(handle.map(|handle| Todo::Name {
                entry: file.entry,
                handle: *handle,
                content,
                modified: file.modified,
            }));
        }
        Ok(())
    }

    fn write(&mut self, writing: Writing, disk: &mut Disk, rng: &mut Rng) -> Done<()> {
        let Writing { handle, entry, offset, block, value } = writing;
        let fails = rng.chance(self.settings.rates.write);
        let open = &mut self.open[handle];
        if fails && !open.closed {
            return self.fail(entry, handle);
        }
        let index = usize::try_from(offset / u64::from(frame_len().get())).map_err(|error| error.to_string())?;
        if !open.closed {
            open.blocks[index] = Some(block);
            if self.settings.plant == Plant::NameEarly {
                let content = Content::from_blocks(open.blocks.iter().flatten().cloned().collect());
                disk.insert(open.path.clone(), Standing::File(content, Stamp::default()));
            }
        }
        let step = self.machine.frame_written(entry, offset, value);
        self.follow(step)
    }

    /// Takes up what a machine's step asks for; a thread will do it.
    fn follow(&mut self, step: Step<usize>) -> Done<()> {
        match step {
            Step::None | Step::Connect(..) | Step::StreamsLost(_) => {}
            Step::Finish(finish) => self.todo.push(Todo::Finish(finish)),
            Step::Abandon(entry, handle, _) => {
                self.abandoned += 1;
                self.todo.push(Todo::Remove { entry, handle: *handle });
            }
            Step::Mismatch(entry, handle) => {
                self.mismatched += 1;
                self.fail(entry, *handle)?;
            }
            Step::Examine(..) => return Err("an offer where none can be".into()),
        }
        Ok(())
    }

    /// Does one thing that is to be done.
    pub fn work(&mut self, disk: &mut Disk, rng: &mut Rng) -> Done<bool> {
        if self.todo.is_empty() {
            return Ok(false);
        }
        let at = rng.index(self.todo.len());
        let fails = rng.chance(self.settings.rates.name);
        match self.todo.swap_remove(at) {
            Todo::Remove { entry, handle } => {
                self.close(handle, Fate::Failed)?;
                let finish = self.machine.abandoned(entry);
                self.todo.extend(finish.map(Todo::Finish));
            }
            Todo::Finish(finish) if fails && finish.end.is_some() => self.lose_frames(finish, rng)?,
            Todo::Finish(finish) if fails => self.fail(finish.entry, *finish.handle)?,
            Todo::Name { entry, handle, .. } if fails => self.lose(entry, handle)?,
            Todo::Name { entry, handle, content, modified } => self.name(entry, handle, content, modified, disk)?,
            Todo::Finish(Finish { entry, handle, end: Some(end) }) => {
                let blocks = &mut self.open[*handle].blocks;
                let content: Option<Vec<_>> = std::mem::take(blocks).into_iter().collect();
                let content = Content::from_blocks(content.ok_or("a file with holes is called whole")?);
                if self.settings.verify_memory && content.digest() != end.digest {
                    return Err("a file whose digest is not what its source said is called whole".into());
                }
                self.name(entry, *handle, content, end.modified, disk)?;
            }
            Todo::Finish(Finish { entry, handle, end: None }) => self.finish_directory(entry, *handle)?,
        }
        Ok(true)
    }

    fn name(&mut self, entry: EntryId, handle: usize, content: Content, modified: Stamp, disk: &mut Disk) -> Done<()> {
        let open = &self.open[handle];
        if open.closed {
            return Ok(());
        }
        if open.device {
            self.device_writes.push((open.path.clone(), content));
        } else {
            disk.insert(open.path.clone(), Standing::File(content, modified));
        }
        self.close(handle, Fate::Done)?;
        let finish = self.machine.settle(entry, true);
        self.todo.extend(finish.map(Todo::Finish));
        Ok(())
    }

    fn finish_directory(&mut self, entry: EntryId, handle: usize) -> Done<()> {
        let open = &self.open[handle];
        let left = self.unsettled_in.get(&open.path).copied().unwrap_or(0);
        if !open.directory || left > 0 {
            return Err(format!("a directory is called complete with {left} entries to come"));
        }
        self.close(handle, Fate::Done)?;
        let finish = self.machine.settle(entry, true);
        self.todo.extend(finish.map(Todo::Finish));
        Ok(())
    }

    /// A whole file of a pack does not reach the disk: it comes again, and if it is lost then, it fails.
    fn lose(&mut self, entry: EntryId, handle: usize) -> Done<()> {
        if self.open[handle].closed {
            return Ok(());
        }
        if self.machine.lost(vec![Lost { entry, handle: Arc::new(handle), left: None }]).is_empty() {
            self.resent += 1;
            return Ok(());
        }
        self.fail(entry, handle)
    }

    /// Some frames of a whole file, or all, are not on the disk as they were sent: they come again, and if the file is lost
    /// then, it fails.
    fn lose_frames(&mut self, finish: Finish<usize>, rng: &mut Rng) -> Done<()> {
        let Finish { entry, handle, end } = finish;
        let open = &mut self.open[*handle];
        let Some(mut end) = end.filter(|_| !open.closed && !open.device) else { return self.fail(entry, *handle) };
        let frames = end.tree.frames();
        let at = rng.below(frames.max(1));
        end.tree.forget(&if rng.chance(500) { 0..frames } else { at..at + 1 });
        for index in end.tree.seen().gaps(frames).flatten() {
            open.blocks[usize::try_from(index).map_err(|error| error.to_string())?] = None;
        }
        let left = Some((open.size, end));
        if self.machine.lost(vec![Lost { entry, handle: Arc::clone(&handle), left }]).is_empty() {
            self.resent += 1;
            return Ok(());
        }
        self.fail(entry, *handle)
    }

    /// Gives up an entry, unless another thread did so before.
    fn fail(&mut self, entry: EntryId, handle: usize) -> Done<()> {
        if self.open[handle].closed {
            return Ok(());
        }
        self.close(handle, Fate::Failed)?;
        if self.settings.plant != Plant::FailSilently {
            let finish = self.machine.settle(entry, false);
            self.todo.extend(finish.map(Todo::Finish));
        }
        Ok(())
    }

    fn close(&mut self, handle: usize, fate: Fate) -> Done<()> {
        let open = &mut self.open[handle];
        if std::mem::replace(&mut open.closed, true) {
            return Ok(());
        }
        open.blocks = Vec::new();
        let (path, directory) = (open.path.clone(), open.directory);
        self.settled(&path, fate, directory)
    }

    /// Notes what became of an entry: once.
    fn settled(&mut self, path: &[u8], fate: Fate, directory: bool) -> Done<()> {
        if let Some(before) = self.fates.insert(path.to_vec(), fate) {
            return Err(format!("an entry is {before:?}, and then {fate:?}"));
        }
        self.unsettled -= usize::from(!directory);
        let parent = path.iter().rposition(|byte| *byte == b'/').map(|at| &path[..at]);
        if let Some(left) = parent.and_then(|parent| self.unsettled_in.get_mut(parent)) {
            *left -= 1;
        }
        Ok(())
    }
}
