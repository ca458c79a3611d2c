//! The archive: the state on which both replicas last agreed, with one side's stamps. `docs/internals/twoway.md` has
//! the format.
//!
//! Nothing that was read is to be believed before the reader has reached the end: only there is the digest compared.

use std::io::{ErrorKind, Read};

use super::entry::{FileStamp, PathEntry, ReplicaContent, ReplicaEntry, ReplicaMetadata, TreePath};
use crate::codec::{Wire, wire_struct};
use crate::encoding::{Decoded, Reader, Writer};
use crate::entry::{EntryMetadata, SpecialFile};
use crate::error::ProtocolError;
use crate::integrity::Digest;
use crate::limits::{PATH_MAX, SYMLINK_MAX};

/// The first bytes of an archive.
const MAGIC: [u8; 8] = *b"haul2way";
/// The version that is written; all up to it are read.
const VERSION: u8 = 1;
/// A block is written once it has this many bytes.
const BLOCK_BYTES: usize = 64 << 10;
/// Largest block: one record at least, with the longest path.
const BLOCK_MAX: usize = 256 << 10;

const KINDS: u8 = 0b111;
const DIRECTORY: u8 = 1;
const FILE: u8 = 2;
const SYMLINK: u8 = 3;
const SPECIAL: u8 = 4;
const HAS_DIGEST: u8 = 1 << 3;
const HAS_ATTRIBUTES: u8 = 1 << 4;
const HAS_STAMP: u8 = 1 << 5;

/// Why an archive cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The file cannot be read.
    #[error("the archive cannot be read: {0}")]
    Unreadable(#[from] std::io::Error),
    /// It is no archive.
    #[error("the file is no archive of two-way synchronisation")]
    NoArchive,
    /// A later haul wrote it.
    #[error(
        "the archive has version {0}; this haul reads versions up to {VERSION}\nhint: use the newer haul at both ends"
    )]
    LaterVersion(u8),
    /// It ends early.
    #[error("the archive is truncated")]
    Truncated,
    /// Its bytes are not those that were written.
    #[error("the archive is damaged: {0}")]
    Damaged(ProtocolError),
}

impl From<ProtocolError> for ArchiveError {
    fn from(error: ProtocolError) -> Self {
        Self::Damaged(error)
    }
}

/// What stands before the entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArchiveHeader {
    /// Identifies the pair of replicas.
    pub pair: Digest,
    /// Number of the agreed state, from 1.
    pub generation: u64,
}

wire_struct! {
    /// What stands behind the entries.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ArchiveSummary {
        /// Number of entries.
        pub entries: u64,
        /// BLAKE3 of the agreed state: equal at both ends.
        pub agreed: Digest,
    }
}

/// Bytes of an archive before its entries, and behind them.
pub const ARCHIVE_ENDS_BYTES: [usize; 2] = [MAGIC.len() + 1 + 32 + 8, 4 + 40 + 32];

/// Returns what the first and the last bytes of an archive ([`ARCHIVE_ENDS_BYTES`]) claim. Whether it is true, only a
/// reader finds out that reaches the end.
pub fn claim(start: &[u8], end: &[u8]) -> Result<(ArchiveHeader, ArchiveSummary), ArchiveError> {
    let header = ArchiveReader::new(start)?.header;
    let (mark, rest) = end.split_first_chunk().ok_or(ArchiveError::Truncated)?;
    match u32::from_le_bytes(*mark) {
        0 => Ok((header, ArchiveSummary::decode(&mut Reader::new(rest))?)),
        _ => Err(ArchiveError::Truncated),
    }
}

/// Encodes an archive piece by piece.
#[derive(Debug)]
pub struct ArchiveWriter {
    block: Writer,
    last: Option<TreePath>,
    entries: u64,
    agreed: AgreedHasher,
    file: blake3::Hasher,
}

impl ArchiveWriter {
    /// Appends the header to `out`.
    pub fn new(header: &ArchiveHeader, out: &mut Vec<u8>) -> Self {
        let mut writer = Self {
            block: Writer::new(),
            last: None,
            entries: 0,
            agreed: AgreedHasher::default(),
            file: blake3::Hasher::new(),
        };
        let mut head = Writer::new();
        head.raw(&MAGIC).u8(VERSION).raw(&header.pair).u64(header.generation);
        writer.append(&head.into_bytes(), out);
        writer
    }

    /// Adds an entry, which must follow the one before in the order of the tree. Appends to `out` what is complete.
    ///
    /// # Panics
    /// If the order is wrong: a programmer's error.
    pub fn add(&mut self, entry: &PathEntry, out: &mut Vec<u8>) {
        let is_ordered = self.last.as_ref().is_none_or(|last| *last < entry.path);
        assert!(is_ordered, "{} is out of order in the archive", entry.path);
        let shared = self.last.as_ref().map_or(0, |last| last.shared_with(&entry.path));
        self.block.count(shared).bytes(&entry.path.as_bytes()[shared..]);
        encode_entry(&entry.entry, &mut self.block);
        self.agreed.add(entry);
        self.last = Some(entry.path.clone());
        self.entries += 1;
        if self.block.len() >= BLOCK_BYTES {
            self.end_block(out);
        }
    }

    /// Appends the rest to `out`.
    pub fn finish(mut self, out: &mut Vec<u8>) -> ArchiveSummary {
        self.end_block(out);
        let summary = ArchiveSummary { entries: self.entries, agreed: self.agreed.finish() };
        let mut tail = Writer::new();
        tail.u32(0);
        summary.encode(&mut tail);
        self.append(&tail.into_bytes(), out);
        out.extend_from_slice(self.file.finalize().as_bytes());
        summary
    }

    fn end_block(&mut self, out: &mut Vec<u8>) {
        let mut block = std::mem::take(&mut self.block);
        if let Ok(len) = u32::try_from(block.len())
            && len > 0
        {
            self.append(&len.to_le_bytes(), out);
            self.append(block.as_bytes(), out);
        }
        block.clear();
        self.block = block;
    }

    fn append(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.file.update(bytes);
        out.extend_from_slice(bytes);
    }
}

/// Decodes an archive piece by piece: an iterator of its entries, in order. It holds one block.
#[derive(Debug)]
pub struct ArchiveReader<R> {
    source: R,
    header: ArchiveHeader,
    block: Vec<u8>,
    /// Bytes of the block that were decoded.
    used: usize,
    last: Option<TreePath>,
    entries: u64,
    agreed: AgreedHasher,
    file: blake3::Hasher,
    summary: Option<ArchiveSummary>,
    failed: bool,
}

impl<R: Read> ArchiveReader<R> {
    /// Reads the header.
    pub fn new(mut source: R) -> Result<Self, ArchiveError> {
        let mut file = blake3::Hasher::new();
        let start: [u8; 9] = read_array(&mut source, &mut file)?;
        match start {
            [magic @ .., _] if magic != MAGIC => return Err(ArchiveError::NoArchive),
            [.., VERSION] => {}
            [.., later] => return Err(ArchiveError::LaterVersion(later)),
        }
        let pair = read_array(&mut source, &mut file)?;
        let generation = u64::from_le_bytes(read_array(&mut source, &mut file)?);
        Ok(Self {
            source,
            header: ArchiveHeader { pair, generation },
            block: Vec::new(),
            used: 0,
            last: None,
            entries: 0,
            agreed: AgreedHasher::default(),
            file,
            summary: None,
            failed: false,
        })
    }

    /// Returns the header. Like the entries, it is to be believed at the end only.
    pub fn header(&self) -> ArchiveHeader {
        self.header
    }

    /// Reads all, and returns the summary.
    pub fn check(mut self) -> Result<ArchiveSummary, ArchiveError> {
        for entry in &mut self {
            entry?;
        }
        self.summary.ok_or(ArchiveError::Truncated)
    }

    /// Returns the summary once the end was reached.
    pub fn summary(&self) -> Option<ArchiveSummary> {
        self.summary
    }

    fn next_entry(&mut self) -> Result<Option<PathEntry>, ArchiveError> {
        if self.used == self.block.len() && !self.next_block()? {
            return Ok(None);
        }
        let mut reader = Reader::new(self.block.get(self.used..).unwrap_or_default());
        let path = decode_path(self.last.as_ref(), &mut reader)?;
        let entry = PathEntry { path, entry: decode_entry(&mut reader)? };
        self.used = self.block.len() - reader.remaining();
        self.agreed.add(&entry);
        self.last = Some(entry.path.clone());
        self.entries += 1;
        Ok(Some(entry))
    }

    /// Reads the next block; `false` at the end, which is checked.
    fn next_block(&mut self) -> Result<bool, ArchiveError> {
        if self.summary.is_some() {
            return Ok(false);
        }
        let len = u32::from_le_bytes(read_array(&mut self.source, &mut self.file)?) as usize;
        match len {
            0 => self.read_end().map(|()| false),
            1..=BLOCK_MAX => {
                self.block.resize(len, 0);
                self.used = 0;
                read_all(&mut self.source, &mut self.block)?;
                self.file.update(&self.block);
                Ok(true)
            }
            _ => Err(ProtocolError::OverLimit("a block").into()),
        }
    }

    fn read_end(&mut self) -> Result<(), ArchiveError> {
        let tail: [u8; 40] = read_array(&mut self.source, &mut self.file)?;
        let summary = ArchiveSummary::decode(&mut Reader::new(&tail))?;
        let mut written = [0; 32];
        read_all(&mut self.source, &mut written)?;
        let expected = ArchiveSummary { entries: self.entries, agreed: self.agreed.finish() };
        if *self.file.finalize().as_bytes() != written || summary != expected {
            return Err(ProtocolError::Invalid("a wrong digest").into());
        }
        if self.source.read(&mut [0])? != 0 {
            return Err(ProtocolError::Invalid("bytes after its end").into());
        }
        self.summary = Some(summary);
        Ok(())
    }
}

impl<R: Read> Iterator for ArchiveReader<R> {
    type Item = Result<PathEntry, ArchiveError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.next_entry();
        self.failed = next.is_err();
        next.transpose()
    }
}

fn read_array<const N: usize>(source: &mut impl Read, file: &mut blake3::Hasher) -> Result<[u8; N], ArchiveError> {
    let mut bytes = [0; N];
    read_all(source, &mut bytes)?;
    file.update(&bytes);
    Ok(bytes)
}

fn read_all(source: &mut impl Read, bytes: &mut [u8]) -> Result<(), ArchiveError> {
    source.read_exact(bytes).map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof => ArchiveError::Truncated,
        _ => ArchiveError::Unreadable(error),
    })
}

/// The digest of what is the same at both ends. Bytes are hashed by the block, which is several times as fast.
#[derive(Debug, Default)]
struct AgreedHasher {
    hasher: blake3::Hasher,
    unhashed: Writer,
}

impl AgreedHasher {
    fn add(&mut self, PathEntry { path, entry }: &PathEntry) {
        self.unhashed.bytes(path.as_bytes());
        encode_with_stamp(entry, None, &mut self.unhashed);
        if self.unhashed.len() >= BLOCK_BYTES {
            self.hash();
        }
    }

    fn hash(&mut self) {
        self.hasher.update(self.unhashed.as_bytes());
        self.unhashed.clear();
    }

    fn finish(&mut self) -> Digest {
        self.hash();
        *self.hasher.finalize().as_bytes()
    }
}

fn decode_path(last: Option<&TreePath>, reader: &mut Reader<'_>) -> Decoded<TreePath> {
    let before = last.map_or(&[][..], TreePath::as_bytes);
    let shared = reader.count(PATH_MAX, "a path")?;
    let start = before.get(..shared).ok_or(ProtocolError::Invalid("a path without a beginning"))?;
    let path = TreePath::new(&[start, reader.bytes(PATH_MAX, "a path")?].concat())?;
    match last {
        Some(last) if *last >= path => Err(ProtocolError::Invalid("paths out of order")),
        _ => Ok(path),
    }
}

impl Wire for ReplicaEntry {
    fn encode(&self, out: &mut Writer) {
        encode_entry(self, out);
    }

    fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        decode_entry(reader)
    }
}

fn encode_entry(entry: &ReplicaEntry, out: &mut Writer) {
    encode_with_stamp(entry, entry.stamp, out);
}

fn encode_with_stamp(
    ReplicaEntry { content, metadata, .. }: &ReplicaEntry,
    stamp: Option<FileStamp>,
    out: &mut Writer,
) {
    let has_attributes = metadata.attributes != Digest::default();
    let kind = match content {
        ReplicaContent::Directory => DIRECTORY,
        ReplicaContent::File { digest: None, .. } => FILE,
        ReplicaContent::File { digest: Some(_), .. } => FILE | HAS_DIGEST,
        ReplicaContent::Symlink { .. } => SYMLINK,
        ReplicaContent::Special(_) => SPECIAL,
    };
    let flags = [(has_attributes, HAS_ATTRIBUTES), (stamp.is_some(), HAS_STAMP)];
    out.u8(flags.into_iter().filter(|(is_set, _)| *is_set).fold(kind, |all, (_, flag)| all | flag));
    match content {
        ReplicaContent::Directory => {}
        ReplicaContent::File { size, digest } => {
            out.varint(*size).raw(digest.as_ref().map_or(&[], |digest| &digest[..]));
        }
        ReplicaContent::Symlink { points_to } => {
            out.bytes(points_to);
        }
        ReplicaContent::Special(special) => special.encode(out),
    }
    metadata.basic.encode(out);
    if has_attributes {
        out.raw(&metadata.attributes);
    }
    stamp.iter().for_each(|stamp| stamp.encode(out));
}

fn decode_entry(reader: &mut Reader<'_>) -> Decoded<ReplicaEntry> {
    let flags = reader.u8()?;
    let has = |flag| flags & flag != 0;
    let content = match flags & KINDS {
        DIRECTORY => ReplicaContent::Directory,
        FILE => {
            let size = reader.varint()?;
            let digest = if has(HAS_DIGEST) { Some(reader.array()?) } else { None };
            ReplicaContent::File { size, digest }
        }
        SYMLINK => ReplicaContent::Symlink { points_to: reader.bytes(SYMLINK_MAX, "a link target")?.into() },
        SPECIAL => ReplicaContent::Special(SpecialFile::decode(reader)?),
        value => return Err(ProtocolError::Unknown { what: "kind of entry content", value: value.into() }),
    };
    let basic = EntryMetadata::decode(reader)?;
    let attributes = if has(HAS_ATTRIBUTES) { reader.array()? } else { Digest::default() };
    let stamp = if has(HAS_STAMP) { Some(FileStamp::decode(reader)?) } else { None };
    Ok(ReplicaEntry { content, metadata: ReplicaMetadata { basic, attributes }, stamp })
}

#[cfg(test)]
#[path = "archive_tests.rs"]
mod tests;
