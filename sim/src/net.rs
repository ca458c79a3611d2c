//! Data in flight: control messages in each direction, and records on each stream. The scheduler chooses their
//! interleaving; messages of one direction stay in order.

use std::collections::VecDeque;

use haul_lab::Rng;
use haul_proto::encoding::Writer;
use haul_proto::ids::CopyNumber;
use haul_proto::wire::frame::{RecordPrefix, RecordTrailer};

use crate::content::ContentBlock;

/// The copy in every message.
pub const COPY: CopyNumber = CopyNumber(7);

/// Most messages that wait on the way in one direction, and most records on a stream: then the sender waits.
const QUEUE_MAX: usize = 6;

/// A record: its header and trailer as bytes, its payload as a model.
#[derive(Debug)]
pub struct Record {
    /// The encoded prefix.
    pub prefix: [u8; haul_proto::wire::frame::PREFIX_LEN],
    /// The payload.
    pub payload: ContentBlock,
    /// The encoded trailer.
    pub trailer: Vec<u8>,
}

impl Record {
    /// Encodes a record.
    pub fn new(payload: ContentBlock, trailer: &RecordTrailer) -> Self {
        let mut out = Writer::new();
        trailer.encode(&mut out);
        let trailer = out.into_bytes();
        let prefix = RecordPrefix { payload: payload.len(), trailer: trailer.len() }.encode();
        Self { prefix, payload, trailer }
    }

    /// Decodes it.
    pub fn open(&self) -> Result<RecordTrailer, String> {
        let prefix = RecordPrefix::decode(self.prefix).map_err(|fault| format!("a prefix: {fault}"))?;
        if (prefix.payload, prefix.trailer) != (self.payload.len(), self.trailer.len()) {
            return Err("a prefix that came back differently".into());
        }
        RecordTrailer::decode(&self.trailer, prefix.payload).map_err(|fault| format!("a trailer: {fault}"))
    }
}

/// A queue that makes its sender wait when it is full.
#[derive(Debug)]
pub struct SimQueue<T>(VecDeque<T>);

impl<T> Default for SimQueue<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> SimQueue<T> {
    /// Whether another one may be sent.
    pub fn has_room(&self) -> bool {
        self.0.len() < QUEUE_MAX
    }

    /// Sends.
    pub fn send(&mut self, item: T) {
        self.0.push_back(item);
    }

    /// Receives.
    pub fn receive(&mut self) -> Option<T> {
        self.0.pop_front()
    }

    /// Whether nothing is in flight.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A data stream.
#[derive(Debug, Default)]
pub struct Stream {
    /// Records in flight.
    pub way: SimQueue<Record>,
    /// Closed for sending; earlier records still arrive.
    pub broken: bool,
}

impl Stream {
    /// Breaks it together with the last messages; some of them still arrive.
    pub fn break_off(&mut self, rng: &mut Rng) {
        self.broken = true;
        self.way.0.truncate(rng.index(self.way.0.len() + 1));
    }
}

/// Everything between the two ends.
#[derive(Debug, Default)]
pub struct Net {
    /// Control messages for the target.
    pub to_target: SimQueue<Vec<u8>>,
    /// Control messages for the source.
    pub to_source: SimQueue<Vec<u8>>,
    /// Data streams.
    pub streams: Vec<Stream>,
}

impl Net {
    /// With this many streams.
    pub fn new(streams: u16) -> Self {
        Self { streams: (0..streams).map(|_| Stream::default()).collect(), ..Self::default() }
    }

    /// Whether nothing is in flight.
    pub fn is_empty(&self) -> bool {
        self.to_target.is_empty()
            && self.to_source.is_empty()
            && self.streams.iter().all(|stream| stream.way.is_empty())
    }
}
