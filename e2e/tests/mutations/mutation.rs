//! Mutations of one decrypted item of a session: a record of the data stream, or a message of either end.

use haul_e2e::Rng;
use haul_proto::encoding::Writer;
use haul_proto::integrity::frame_check;
use haul_proto::wire::frame::RecordTrailer;

/// An item's direction and channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// A record, from the source.
    Record,
    /// A message of the source.
    Source,
    /// A message of the target.
    Target,
}

impl Lane {
    pub const ALL: [Self; 3] = [Self::Record, Self::Source, Self::Target];
}

/// An item in the clear.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Of a record; a message has none.
    pub payload: Vec<u8>,
    /// The message, or the trailer of the record.
    pub body: Vec<u8>,
}

/// The kind of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutation {
    FlipBits,
    FlipPayload,
    Cut,
    Grow,
    CutPayload,
    GrowPayload,
    /// A few bytes become the largest, the smallest or others at a limit.
    Extreme,
    /// Another entry's number.
    OtherEntry,
    Repeat,
    /// Comes after the next one.
    Swap,
    /// Replaced by an earlier one.
    Earlier,
    /// Another payload, with its right check.
    Lie,
}

impl Mutation {
    pub const ALL: [Self; 12] = [
        Self::FlipBits,
        Self::FlipPayload,
        Self::Cut,
        Self::Grow,
        Self::CutPayload,
        Self::GrowPayload,
        Self::Extreme,
        Self::OtherEntry,
        Self::Repeat,
        Self::Swap,
        Self::Earlier,
        Self::Lie,
    ];

    /// Whether an honest end at work on the rest never has a wrong file in the end. A source may lie about its own files.
    pub fn keeps_contents(self, lane: Lane) -> bool {
        use Mutation::{CutPayload, Earlier, FlipPayload, GrowPayload, Repeat, Swap};
        let is_noticed = matches!(self, FlipPayload | CutPayload | GrowPayload | Repeat | Swap | Earlier);
        lane == Lane::Target || lane == Lane::Record && is_noticed
    }
}

/// Lets all items of a session through but one.
#[derive(Debug)]
pub struct Mutator {
    rng: Rng,
    lane: Lane,
    /// How many items of the lane come before that one.
    before: u64,
    mutation: Mutation,
    seen: [u64; Lane::ALL.len()],
    earlier: Vec<Item>,
    held: Option<Item>,
    has_mutated: bool,
}

impl Mutator {
    /// Mutates the item with this number in its lane.
    pub fn new(lane: Lane, before: u64, mutation: Mutation, rng: Rng) -> Self {
        Self {
            rng,
            lane,
            before,
            mutation,
            seen: [0; Lane::ALL.len()],
            earlier: Vec::new(),
            held: None,
            has_mutated: false,
        }
    }

    /// The items to forward in place of one.
    pub fn pass(&mut self, lane: Lane, item: Item) -> Vec<Item> {
        self.seen[lane as usize] += 1;
        if lane != self.lane {
            return vec![item];
        }
        if let Some(held) = self.held.take() {
            return vec![item, held];
        }
        if self.seen[lane as usize] != self.before + 1 {
            self.earlier.push(item.clone());
            return vec![item];
        }
        self.has_mutated = true;
        self.mutate(item)
    }

    /// The item still held back; no other followed it.
    pub fn release(&mut self, lane: Lane) -> Option<Item> {
        self.held.take_if(|_| lane == self.lane)
    }

    /// Whether the item came.
    pub fn has_mutated(&self) -> bool {
        self.has_mutated
    }

    /// How many items of each lane came.
    pub fn seen(&self) -> [u64; Lane::ALL.len()] {
        self.seen
    }

    fn mutate(&mut self, mut item: Item) -> Vec<Item> {
        let rng = &mut self.rng;
        match self.mutation {
            Mutation::FlipBits => flip(&mut item.body, rng),
            Mutation::FlipPayload => flip(&mut item.payload, rng),
            Mutation::Cut => item.body.truncate(rng.index(item.body.len())),
            Mutation::Grow => grow(&mut item.body, rng),
            Mutation::CutPayload => item.payload.truncate(rng.index(item.payload.len().max(1))),
            Mutation::GrowPayload => grow(&mut item.payload, rng),
            Mutation::Extreme => extreme(&mut item.body, rng),
            Mutation::OtherEntry => other_entry(&mut item.body, rng),
            Mutation::Repeat => return vec![item; 2 + rng.index(3)],
            Mutation::Swap => {
                self.held = Some(item);
                return Vec::new();
            }
            Mutation::Earlier if self.earlier.is_empty() => return vec![item.clone(), item],
            Mutation::Earlier => return vec![self.earlier.swap_remove(rng.index(self.earlier.len()))],
            Mutation::Lie => lie(&mut item, rng),
        }
        vec![item]
    }
}

fn flip(bytes: &mut [u8], rng: &mut Rng) {
    if !bytes.is_empty() {
        (0..=rng.below(3)).for_each(|_| bytes[rng.index(bytes.len())] ^= 1 << rng.below(8));
    }
}

fn grow(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let more = rng.pick(&[1, 2, 8, 100, 5000]);
    bytes.extend(rng.bytes(more));
}

/// Keeps kind and copy, so the receiver still understands it.
fn extreme(bytes: &mut [u8], rng: &mut Rng) {
    let Some(rest) = bytes.get_mut(5..).filter(|rest| !rest.is_empty()) else { return };
    let (at, byte) = (rng.index(rest.len()), rng.pick(&[0, 1, 0x7f, 0x80, 0xff]));
    let len = rng.pick(&[1, 2, 4, 8]).min(rest.len() - at);
    rest[at..at + len].fill(byte);
}

/// Most messages and trailers have it after kind and copy, in one byte.
fn other_entry(bytes: &mut [u8], rng: &mut Rng) {
    if let Some(byte) = bytes.get_mut(5) {
        *byte = u8::try_from(rng.below(20)).unwrap_or(0);
    }
}

fn lie(item: &mut Item, rng: &mut Rng) {
    flip(&mut item.payload, rng);
    let check = frame_check(&item.payload);
    let trailer = match RecordTrailer::decode(&item.body, item.payload.len()) {
        Ok(RecordTrailer::Data(mut frame)) => {
            frame.check = check;
            RecordTrailer::Data(frame)
        }
        Ok(RecordTrailer::Pack(mut pack)) => {
            pack.check = check;
            RecordTrailer::Pack(pack)
        }
        _ => return flip(&mut item.body, rng),
    };
    let mut out = Writer::new();
    trailer.encode(&mut out);
    item.body = out.into_bytes();
}
