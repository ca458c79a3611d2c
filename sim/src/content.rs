//! Contents of files: full frames from a few patterns with cached hashes, and a short tail of real bytes.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use haul_lab::Rng;
use haul_proto::integrity::{Digest, FrameLen, FrameTree, frame_check};

/// Bytes of a full frame.
pub const FRAME_BYTES: u32 = 256 << 10;
/// Number of different full frames. None is all zeros: a disk shows zeros for lost data.
const PATTERNS: u8 = 4;
/// In a full frame's number: the second half is zeros.
const TORN: u8 = 0x10;
/// In a full frame's number: a bit is wrong.
const DECAYED: u8 = 0x20;
/// The number's remainder is the repeated byte.
const BYTE: u8 = 0x0f;

/// The session's frame length.
pub fn frame_len() -> FrameLen {
    FrameLen::new(FRAME_BYTES).expect("a power of two in range")
}

/// The bytes of one frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContentBlock {
    /// A full frame of one repeated byte, with its state.
    Full(u8),
    /// These bytes.
    Bytes(Rc<[u8]>),
}

/// Cached results for full frames.
#[derive(Default)]
struct Known {
    /// By pattern.
    checks: HashMap<u8, u64>,
    /// By pattern, index, and whether it is the only frame.
    values: HashMap<(u8, u64, bool), Digest>,
}

thread_local! {
    static KNOWN: RefCell<Known> = RefCell::default();
}

impl ContentBlock {
    /// Bytes.
    pub fn len(&self) -> usize {
        match self {
            ContentBlock::Full(_) => FRAME_BYTES as usize,
            ContentBlock::Bytes(bytes) => bytes.len(),
        }
    }

    /// The bytes themselves.
    pub fn bytes(&self) -> Rc<[u8]> {
        match self {
            ContentBlock::Full(pattern) => full(*pattern).into(),
            ContentBlock::Bytes(bytes) => Rc::clone(bytes),
        }
    }

    /// A disk's content where nothing was written.
    pub fn zeros(len: usize) -> ContentBlock {
        if len == FRAME_BYTES as usize { ContentBlock::Full(0) } else { ContentBlock::Bytes(vec![0; len].into()) }
    }

    /// The same, half written.
    pub fn torn(&self) -> ContentBlock {
        match self {
            ContentBlock::Full(pattern) => ContentBlock::Full(pattern | TORN),
            ContentBlock::Bytes(bytes) => {
                let mut bytes = bytes.to_vec();
                let half = bytes.len() / 2;
                bytes[half..].fill(0);
                ContentBlock::Bytes(bytes.into())
            }
        }
    }

    /// The same after a bit has flipped on the disk.
    pub fn decayed(&self, rng: &mut Rng) -> ContentBlock {
        match self {
            ContentBlock::Full(pattern) => ContentBlock::Full(pattern | DECAYED),
            ContentBlock::Bytes(_) => self.damaged(rng),
        }
    }

    /// Check of the bytes.
    pub fn check(&self) -> u64 {
        match self {
            ContentBlock::Full(pattern) => KNOWN
                .with_borrow_mut(|known| *known.checks.entry(*pattern).or_insert_with(|| frame_check(&self.bytes()))),
            ContentBlock::Bytes(bytes) => frame_check(bytes),
        }
    }

    /// BLAKE3 value as frame `index` of a file of `size` bytes.
    pub fn value(&self, size: u64, index: u64) -> Digest {
        match self {
            ContentBlock::Full(pattern) => KNOWN.with_borrow_mut(|known| {
                let only = frame_len().frames(size) == 1;
                *known
                    .values
                    .entry((*pattern, index, only))
                    .or_insert_with(|| frame_len().hash(size, index, &self.bytes()))
            }),
            ContentBlock::Bytes(bytes) => frame_len().hash(size, index, bytes),
        }
    }

    /// The same with one bit flipped; a frame without bytes stays as it is.
    pub fn damaged(&self, rng: &mut Rng) -> ContentBlock {
        let mut bytes = self.bytes().to_vec();
        if !bytes.is_empty() {
            let at = rng.index(bytes.len());
            bytes[at] ^= 1 << rng.below(8);
        }
        ContentBlock::Bytes(bytes.into())
    }
}

/// The bytes of the full frame of this number.
fn full(pattern: u8) -> Vec<u8> {
    let mut bytes = vec![pattern & BYTE; FRAME_BYTES as usize];
    if pattern & TORN != 0 {
        let half = bytes.len() / 2;
        bytes[half..].fill(0);
    }
    if pattern & DECAYED != 0 {
        bytes[0] ^= 0x80;
    }
    bytes
}

/// A whole file's bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileContent {
    blocks: Vec<ContentBlock>,
}

impl FileContent {
    /// Content of a size that is interesting for the protocol.
    pub fn random(rng: &mut Rng) -> Self {
        let pack_max = frame_len().pack_file_max();
        let size = match rng.below(16) {
            0 | 1 => 0,
            2..=8 => 1 + rng.below(300),
            9 => pack_max,
            10 => pack_max + 1,
            11 => u64::from(FRAME_BYTES) * (1 + rng.below(3)),
            _ => u64::from(FRAME_BYTES) * (1 + rng.below(12)) + 1 + rng.below(2000),
        };
        Self::of_size(size, rng)
    }

    /// Content of this size.
    pub fn of_size(size: u64, rng: &mut Rng) -> Self {
        let mut blocks = Vec::new();
        for index in 0..frame_len().frames(size) {
            let len = frame_len().frame_len(size, index).unwrap_or(0);
            blocks.push(if len == FRAME_BYTES as usize {
                ContentBlock::Full(1 + u8::try_from(rng.below(PATTERNS.into())).unwrap_or(0))
            } else {
                ContentBlock::Bytes(rng.bytes(len).into())
            });
        }
        Self { blocks }
    }

    /// One that was put together from frames.
    pub fn from_blocks(blocks: Vec<ContentBlock>) -> Self {
        Self { blocks }
    }

    /// Bytes.
    pub fn size(&self) -> u64 {
        self.blocks.iter().map(|block| block.len() as u64).sum()
    }

    /// Frame `index`, if there is one.
    pub fn block(&self, index: u64) -> Option<&ContentBlock> {
        self.blocks.get(usize::try_from(index).ok()?)
    }

    /// The bytes of a file that is at most one frame.
    pub fn small_bytes(&self) -> Rc<[u8]> {
        self.blocks.first().map_or_else(|| Rc::from(&[][..]), ContentBlock::bytes)
    }

    /// BLAKE3 of it all.
    pub fn digest(&self) -> Digest {
        let size = self.size();
        let mut tree = FrameTree::new(frame_len().frames(size));
        for (index, block) in (0..).zip(&self.blocks) {
            tree.insert(index, block.value(size, index));
        }
        tree.digest().unwrap_or_default()
    }
}
