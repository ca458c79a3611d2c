//! A patch: a journal of an update in place, written beside the file before any change. It is a header and chunks, each
//! with an offset, a length and bytes; a hole has no bytes. An interrupted update is completed by applying all chunks
//! again.

use crate::codec::Wire;
use crate::encoding::{Decoded, Reader, Writer};
use crate::entry::Timestamp;
use crate::error::ProtocolError;
use crate::limits::FRAME_MAX;

/// Length of the header; the first chunk follows it.
pub const HEADER_LEN: usize = 96;
/// Length of a chunk's header.
pub const CHUNK_HEAD: usize = 12;
/// Bit of a chunk's length: the chunk is a hole.
const HOLE: u32 = 1 << 31;
const MAGIC: &[u8; 16] = b"haul patch 1\n\0\0\0";

/// Header of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PatchChunk {
    /// Offset in the file.
    pub offset: u64,
    /// Length in the file, in bytes: 1 to [`FRAME_MAX`].
    pub len: usize,
    /// Whether it is a hole: no bytes follow the header.
    pub is_hole: bool,
}

/// Header of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PatchHeader {
    /// Inode number of the file.
    pub inode: u64,
    /// Size of the updated file in bytes.
    pub size: u64,
    /// Modification time of the updated file.
    pub modified: Timestamp,
    /// Offset in the patch after the last chunk.
    pub end: u64,
    /// Bytes of the first chunks that are in the file for good: they may be gone from the patch.
    pub applied: u64,
}

impl PatchHeader {
    /// Encodes the header.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new();
        out.raw(MAGIC).u64(self.inode).u64(self.size);
        self.modified.encode(&mut out);
        out.u64(self.end).u64(self.applied);
        let mut bytes = out.into_bytes();
        bytes.resize(HEADER_LEN - 32, 0);
        let digest = blake3::hash(&bytes);
        bytes.extend_from_slice(digest.as_bytes());
        bytes
    }

    /// Decodes a header.
    pub fn decode(bytes: &[u8; HEADER_LEN]) -> Decoded<Self> {
        let (fields, digest) = bytes.split_at(HEADER_LEN - 32);
        let mut reader = Reader::new(fields);
        let is_whole = blake3::hash(fields).as_bytes() == digest && reader.array::<16>()? == *MAGIC;
        if !is_whole {
            return Err(ProtocolError::Invalid("the header of a patch"));
        }
        let (inode, size) = (reader.u64()?, reader.u64()?);
        let modified = Timestamp::decode(&mut reader)?;
        Ok(Self { inode, size, modified, end: reader.u64()?, applied: reader.u64()? })
    }

    /// The offset in the patch of the first chunk that is to be applied.
    pub fn start(&self) -> u64 {
        (HEADER_LEN as u64).saturating_add(self.applied)
    }

    /// Decodes a chunk's header.
    pub fn chunk(&self, head: [u8; CHUNK_HEAD]) -> Decoded<PatchChunk> {
        let mut reader = Reader::new(&head);
        let (offset, word) = (reader.u64()?, reader.u32()?);
        let (len, is_hole) = (word & !HOLE, word & HOLE != 0);
        let is_within = offset.checked_add(len.into()).is_some_and(|end| end <= self.size);
        match is_within && (1..=FRAME_MAX).contains(&len) {
            true => Ok(PatchChunk { offset, len: len as usize, is_hole }),
            false => Err(ProtocolError::Misplaced),
        }
    }
}

/// Appends a chunk: bytes to write at `offset`.
pub fn append(out: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    append_head(out, offset, u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    out.extend_from_slice(bytes);
}

/// Appends a chunk: a hole of at most [`FRAME_MAX`] bytes at `offset`.
pub fn append_hole(out: &mut Vec<u8>, offset: u64, len: usize) {
    append_head(out, offset, u32::try_from(len).unwrap_or(u32::MAX) | HOLE);
}

fn append_head(out: &mut Vec<u8>, offset: u64, word: u32) {
    out.extend_from_slice(&offset.to_le_bytes());
    out.extend_from_slice(&word.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip_and_damage_is_noticed() {
        let header = PatchHeader {
            inode: 7,
            size: 1000,
            modified: Timestamp { seconds: -1, nanoseconds: 5 },
            end: 1 << 40,
            applied: 3,
        };
        let bytes: [u8; HEADER_LEN] = header.encode().try_into().unwrap();
        assert_eq!(PatchHeader::decode(&bytes), Ok(header));
        for at in 0..HEADER_LEN {
            let mut damaged = bytes;
            damaged[at] ^= 4;
            assert!(PatchHeader::decode(&damaged).is_err(), "{at}");
        }
        assert!(PatchHeader::decode(&[0; HEADER_LEN]).is_err());
    }

    #[test]
    fn pieces_stay_within_the_file() {
        let header = PatchHeader { inode: 7, size: 1000, modified: Timestamp::default(), end: 0, applied: 0 };
        let mut out = Vec::new();
        append(&mut out, 990, &[1; 10]);
        append_hole(&mut out, 990, 10);
        let chunk = |is_hole| Ok(PatchChunk { offset: 990, len: 10, is_hole });
        assert_eq!(header.chunk(out[..CHUNK_HEAD].try_into().unwrap()), chunk(false));
        assert_eq!(header.chunk(out[CHUNK_HEAD + 10..].try_into().unwrap()), chunk(true), "no bytes follow it");
        for (offset, len) in [(990, 11), (991, 10), (0, 0), (u64::MAX, 1)] {
            let (mut out, mut hole) = (Vec::new(), Vec::new());
            append(&mut out, offset, &vec![1; len]);
            append_hole(&mut hole, offset, len);
            for head in [&out[..CHUNK_HEAD], &hole] {
                assert!(header.chunk(head.try_into().unwrap()).is_err(), "{offset} {len}");
            }
        }
    }
}
