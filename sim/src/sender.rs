//! The source's engine, as far as the protocol needs one: it walks, reads, sends, and notices failures and changes.

use std::collections::HashMap;
use std::sync::Arc;

use haul_lab::Rng;
use haul_proto::entry::{Entry, EntryLocation, EntryMetadata, Timestamp};
use haul_proto::ids::{EntryId, StreamId};
use haul_proto::integrity::Digest;
use haul_proto::path::Name;
use haul_proto::ranges::RangeSet;
use haul_proto::scheduler::{Chunk, FlowFrame, SmallFile, WorkItem};
use haul_proto::session::source::SourceSession;
use haul_proto::wire::frame::{DataFrame, PackFrame, PackedFile, RecordTrailer};
use haul_proto::wire::message::{SourceMessage, TargetMessage, TransferNeed};

use crate::Plant;
use crate::content::{ContentBlock, frame_len};
use crate::net::{COPY, Net, Record, Stream};
use crate::scenario::Rates;
use crate::tree::{SimTree, TreeEntry, TreeEntryKind, Trouble, Visit};

/// The source's end of one run.
pub struct Sender {
    machine: SourceSession<usize>,
    /// Position in the walk.
    at: usize,
    offers_ended: bool,
    /// Ids of offered entries, by node: the latest one.
    offered: HashMap<usize, EntryId>,
    /// Times of offered entries.
    stamps: HashMap<EntryId, Timestamp>,
    streams: Vec<Outgoing>,
    /// Frames of flows, and their values, until the end of the run.
    kept: HashMap<(EntryId, u64), (ContentBlock, [u8; 32])>,
    rates: Rates,
    plant: Plant,
    /// The target's reports, by outcome.
    pub told: SenderOutcomes,
}

/// The outcomes of entries that the target reported.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SenderOutcomes {
    /// At their places by this run.
    pub done: u64,
    /// There before (links: there now).
    pub kept: u64,
    /// Refused.
    pub refused: u64,
}

#[derive(Default)]
struct Outgoing {
    work: Option<WorkItem<usize>>,
    /// Frames of its piece that were read, and their values.
    read: Vec<(u64, [u8; 32])>,
    /// Those present at the target.
    same: RangeSet,
    records: u64,
    ended: bool,
}

impl Sender {
    /// At the beginning of the walk.
    pub fn new(streams: u16, rates: Rates, plant: Plant) -> Self {
        let mut machine = SourceSession::new(frame_len(), streams);
        machine.track_chunks();
        Self {
            machine,
            at: 0,
            offers_ended: false,
            offered: HashMap::new(),
            stamps: HashMap::new(),
            streams: (0..streams).map(|_| Outgoing::default()).collect(),
            kept: HashMap::new(),
            rates,
            plant,
            told: SenderOutcomes::default(),
        }
    }

    /// Whether everything is settled and said.
    pub fn is_finished(&self) -> bool {
        self.machine.is_finished() && self.streams.iter().all(|stream| stream.ended)
    }

    /// Number of offers; an entry offered again counts twice.
    pub fn offered(&self) -> usize {
        self.stamps.len()
    }

    /// Moves the walk on by one step; `false` if it has ended or has to wait.
    pub fn walk(&mut self, tree: &SimTree, rng: &mut Rng) -> bool {
        match tree.walk.get(self.at) {
            None if self.offers_ended => return false,
            None => {
                self.machine.end_offers();
                self.offers_ended = true;
                return true;
            }
            Some(Visit::Leave(node)) => self.machine.end_directory(self.offered[node], rng.chance(900)),
            Some(Visit::Enter(node)) => {
                let parent = tree.nodes[*node].parent;
                if parent.is_some_and(|parent| self.machine.is_refused(self.offered[&parent])) && rng.chance(800) {
                    self.skip_to_end_of(tree, parent);
                    return true;
                }
                if self.machine.window() == 0 {
                    return false;
                }
                self.offer(tree, *node);
                if rng.chance(150) {
                    self.machine.flush_offers();
                }
            }
        }
        self.at += 1;
        true
    }

    fn skip_to_end_of(&mut self, tree: &SimTree, directory: Option<usize>) {
        let is_end = |visit: &Visit| matches!(visit, Visit::Leave(node) if Some(*node) == directory);
        while tree.walk.get(self.at).is_some_and(|visit| !is_end(visit)) {
            self.at += 1;
        }
    }

    fn offer(&mut self, tree: &SimTree, id: usize) {
        let node = &tree.nodes[id];
        let place = match node.parent {
            None => EntryLocation::Operand(u32::try_from(id).unwrap_or(u32::MAX)),
            Some(parent) => EntryLocation::Child {
                parent: self.offered[&parent],
                name: Name::new(&node.name).expect("names of the tree are names"),
            },
        };
        let entry = self.machine.offer(described(node, place), Arc::new(id));
        self.note_offer(node, id, entry);
    }

    fn note_offer(&mut self, node: &TreeEntry, id: usize, entry: EntryId) {
        self.offered.insert(id, entry);
        self.stamps.insert(entry, node.stamp);
    }

    /// A file differs from its offer: it is offered again in its present state, or given up.
    fn changed(&mut self, entry: EntryId, id: usize, tree: &SimTree, rng: &mut Rng) {
        if rng.chance(300) {
            self.machine.fail(entry, "it has changed");
            return;
        }
        let node = &tree.nodes[id];
        if let Some(again) = self.machine.offer_again(entry, described(node, EntryLocation::Again(entry)), Arc::new(id))
        {
            self.note_offer(node, id, again);
        }
    }

    /// Sends a control message.
    pub fn speak(&mut self, net: &mut Net) -> bool {
        if !net.to_target.has_room() {
            return false;
        }
        let Some(message) = self.machine.poll_message() else { return false };
        let times = match (self.plant, &message) {
            (Plant::RepeatOffer, SourceMessage::Offer { .. }) => 2,
            (Plant::DropSame, SourceMessage::Match { .. }) => 0,
            _ => 1,
        };
        (0..times).for_each(|_| net.to_target.send(message.encode(COPY)));
        true
    }

    /// Takes a control message.
    pub fn listen(&mut self, net: &mut Net) -> Result<bool, String> {
        let Some(bytes) = net.to_source.receive() else { return Ok(false) };
        let message = TargetMessage::decode(&bytes, COPY).map_err(|fault| format!("the target's message: {fault}"))?;
        match &message {
            TargetMessage::Want { needs, .. } => {
                self.told.kept += needs.iter().filter(|need| **need == TransferNeed::Nothing).count() as u64;
                self.told.refused += needs.iter().filter(|need| **need == TransferNeed::Refused).count() as u64;
            }
            TargetMessage::Done { runs } => self.told.done += runs.iter().map(|run| run.1).sum::<u64>(),
            _ => {}
        }
        self.machine.handle(message).map_err(|fault| format!("the source refuses: {fault}"))?;
        Ok(true)
    }

    /// Moves a stream on by one record.
    pub fn stream(&mut self, stream: usize, tree: &mut SimTree, net: &mut Net, rng: &mut Rng) -> bool {
        if self.streams[stream].ended {
            return false;
        }
        if net.streams[stream].broken {
            self.lose(stream, net);
            return true;
        }
        if !net.streams[stream].way.has_room() {
            return false;
        }
        let record = match self.streams[stream].work.take() {
            Some(WorkItem::Next(next)) => self.read_flow(&next, tree, rng),
            Some(WorkItem::Kept(kept)) => {
                let kept_frame = self.kept.get(&(kept.entry, kept.index)).cloned();
                kept_frame.map(|(block, value)| data_record(kept.entry, kept.index, block, value))
            }
            Some(WorkItem::Compare(chunk, held)) => self.read_frame(stream, chunk, held, tree, rng),
            // The engine decides how to reuse an old file: here, it sends all of it.
            Some(WorkItem::Frames(chunk) | WorkItem::Delta(chunk, _)) => {
                self.read_frame(stream, chunk, Vec::new(), tree, rng)
            }
            Some(WorkItem::Pack(files)) => self.read_pack(&files, tree, rng),
            None => match self.machine.next_work(id(stream), haul_proto::scheduler::CHUNK_FRAMES_MAX) {
                Some(work) => {
                    self.streams[stream].work = Some(work);
                    return true;
                }
                None if self.machine.is_finished() => {
                    self.streams[stream].ended = true;
                    let end = RecordTrailer::End { records: self.streams[stream].records };
                    net.streams[stream].way.send(Record::new(ContentBlock::Bytes([].into()), &end));
                    return true;
                }
                // An idle stream repeats another one's unfinished work after a long enough wait.
                None if rng.chance(100) => match self.machine.next_double() {
                    Some(work) => {
                        self.streams[stream].work = Some(work);
                        return true;
                    }
                    None => return false,
                },
                None => return false,
            },
        };
        if let Some(record) = record {
            self.streams[stream].records += 1;
            net.streams[stream].way.send(record);
        }
        true
    }

    /// Notices that a stream is broken, and opens another one.
    fn lose(&mut self, stream: usize, net: &mut Net) {
        let in_hand = self.streams[stream].work.take();
        self.streams[stream].ended = true;
        if self.plant != Plant::ForgetToAsk {
            self.machine.lose_stream(id(stream), in_hand);
        }
        self.streams.push(Outgoing::default());
        net.streams.push(Stream::default());
    }

    /// Reads the next frame of a chunk and leaves the others for later. Gives none on a failure, or for a frame that
    /// the target already has (`held`: the values of the chunk's frames there). The machine learns of them at the end
    /// of the chunk.
    fn read_frame(
        &mut self,
        stream: usize,
        chunk: Chunk<usize>,
        held: Vec<Digest>,
        tree: &mut SimTree,
        rng: &mut Rng,
    ) -> Option<Record> {
        let mut read = std::mem::take(&mut self.streams[stream].read);
        let mut same = std::mem::take(&mut self.streams[stream].same);
        let (entry, id) = (chunk.entry, *chunk.handle);
        let index = chunk.frames.start + read.len() as u64;
        let block = self.read(&chunk, index, tree, rng);
        let has_changed = tree.nodes[id].stamp != self.stamps[&entry] && self.plant != Plant::SendChanged;
        let Some(block) = block else {
            match has_changed {
                true => self.changed(entry, id, tree, rng),
                false => drop(self.machine.fail(entry, "it cannot be read")),
            }
            return None;
        };
        let mut value = block.value(chunk.size, index);
        if has_changed {
            self.changed(entry, id, tree, rng);
            // Some look before they send, some after.
            return rng.chance(500).then(|| data_record(entry, index, block, value));
        }
        let is_held = held.get(read.len()) == Some(&value);
        read.push((index, value));
        if is_held {
            same.insert(index);
        }
        if index + 1 == chunk.frames.end {
            self.machine.frames_read(entry, &read, &same);
            self.machine.chunk_done(chunk.ticket);
        } else {
            let work = if held.is_empty() { WorkItem::Frames(chunk) } else { WorkItem::Compare(chunk, held) };
            (self.streams[stream].work, self.streams[stream].read, self.streams[stream].same) =
                (Some(work), read, same);
        }
        if rng.chance(self.rates.wrong_value) {
            value[0] ^= 1;
        }
        (!is_held).then(|| data_record(entry, index, block, value))
    }

    /// Reads the next frame of a flow, a file for a device.
    fn read_flow(&mut self, next: &FlowFrame<usize>, tree: &mut SimTree, rng: &mut Rng) -> Option<Record> {
        let entry = next.entry;
        let modified = self.stamps[&entry];
        let TreeEntryKind::File(file) = &tree.nodes[*next.handle].what else { return None };
        let size = file.content.size();
        let frames = next.index..next.index + 1;
        let chunk = Chunk { entry, handle: Arc::clone(&next.handle), size, frames, ticket: 0 };
        let read = self.read(&chunk, next.index, tree, rng);
        let Some(block) = read.filter(|_| tree.nodes[*next.handle].stamp == modified) else {
            self.machine.fail(entry, "it cannot be read, or has changed");
            return None;
        };
        let end = (next.index + 1 == frame_len().frames(size)).then_some((size, modified));
        self.machine.flow_read(entry, true, end)?;
        let value = block.value(size, next.index);
        self.machine.frames_read(entry, &[(next.index, value)], &RangeSet::new());
        self.kept.insert((entry, next.index), (block.clone(), value));
        Some(data_record(entry, next.index, block, value))
    }

    fn read(&self, chunk: &Chunk<usize>, index: u64, tree: &mut SimTree, rng: &mut Rng) -> Option<ContentBlock> {
        tree.touch(*chunk.handle);
        let TreeEntryKind::File(file) = &tree.nodes[*chunk.handle].what else { return None };
        if matches!(file.trouble, Trouble::Unreadable(from) if index >= from) || rng.chance(self.rates.read) {
            return None;
        }
        // A file that has shrunk ends early.
        let len = frame_len().frame_len(chunk.size, index);
        file.content.block(index).filter(|block| Some(block.len()) == len).cloned()
    }

    fn read_pack(&mut self, files: &[SmallFile<usize>], tree: &mut SimTree, rng: &mut Rng) -> Option<Record> {
        let mut packed = Vec::new();
        let mut payload = Vec::new();
        for small in files {
            tree.touch(*small.handle);
            let node = &tree.nodes[*small.handle];
            let TreeEntryKind::File(file) = &node.what else { continue };
            let size = file.content.size();
            let unreadable = matches!(file.trouble, Trouble::Unreadable(0)) || rng.chance(self.rates.read);
            if unreadable
                || size > frame_len().pack_file_max()
                || payload.len() as u64 + size > frame_len().get().into()
            {
                self.machine.fail(small.entry, "it cannot be read, or has grown");
                continue;
            }
            payload.extend_from_slice(&file.content.small_bytes());
            packed.push(PackedFile {
                entry: small.entry,
                len: u32::try_from(size).unwrap_or(u32::MAX),
                modified: node.stamp,
                digest: file.content.digest(),
            });
        }
        if packed.is_empty() {
            return None;
        }
        let block = ContentBlock::Bytes(payload.into());
        let pack = PackFrame { copy: COPY, check: block.check(), files: packed };
        Some(Record::new(block, &RecordTrailer::Pack(pack)))
    }
}

/// The offer of an entry in its present state.
fn described(node: &TreeEntry, place: EntryLocation) -> Entry {
    let meta = EntryMetadata { modified: node.stamp, ..EntryMetadata::default() };
    Entry { place, kind: node.offered_kind(), meta, version: node.offered_version(), more: None }
}

fn id(stream: usize) -> StreamId {
    StreamId(u16::try_from(stream).unwrap_or(u16::MAX))
}

fn data_record(entry: EntryId, index: u64, block: ContentBlock, value: [u8; 32]) -> Record {
    let offset = index * u64::from(frame_len().get());
    let check = block.check();
    Record::new(block, &RecordTrailer::Data(DataFrame { copy: COPY, entry, offset, check, value }))
}
