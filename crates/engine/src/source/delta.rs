//! Delta encoding of a frame against the target's base file.

use std::io;

use haul_proto::delta::blocks::{self, BlockHash};
use haul_proto::delta::instructions::encode;
use haul_proto::delta::rolling::{OffsetHint, SignatureIndex};
use haul_proto::integrity::{Digest, FrameLen};
use haul_proto::scheduler::DeltaBase;
use haul_proto::wire::sparse::DataMap;

use crate::io::frame_buffer::FrameBuffer;
use crate::io::storage::file::OpenedFile;

/// Signatures of the base file for the frames of one chunk, in order.
pub enum ChunkBase<'k> {
    /// Hashes of blocks at the same offset.
    Marks(&'k [BlockHash]),
    /// Signatures of blocks at any offset, and the offset of the last match.
    Sums(&'k SignatureIndex, OffsetHint, Vec<u8>),
}

/// A frame's digest, and its delta instructions if they are shorter than the frame.
pub type DeltaFrameValue = (Digest, Option<Vec<u8>>);

impl<'k> From<&'k DeltaBase> for ChunkBase<'k> {
    fn from(base: &'k DeltaBase) -> Self {
        match base {
            DeltaBase::Marks(marks) => Self::Marks(marks),
            DeltaBase::Sums(index) => Self::Sums(index, Some(0), Vec::new()),
        }
    }
}

impl ChunkBase<'_> {
    /// Encodes the next frame of the chunk, for a file of `size` bytes.
    pub fn instruct(
        &mut self,
        frame: FrameLen,
        size: u64,
        index: u64,
        buffer: &FrameBuffer,
        file: &OpenedFile,
    ) -> io::Result<DeltaFrameValue> {
        let offset = index * u64::from(frame.get());
        let payload = buffer.payload();
        match self {
            Self::Marks(marks) => {
                let (now, later) = marks.split_at(marks.len().min(blocks::count(payload.len())));
                *marks = later;
                let values = blocks::values(frame, index, payload);
                let value = blocks::frame_value(&values, frame.frames(size) == 1);
                // A file with a base is longer than a block.
                let value = value.unwrap_or_else(|| frame.hash(size, index, payload));
                let spans = blocks::compare(offset, payload.len(), &values, now);
                Ok((value, encode(&spans, offset, payload)))
            }
            // No delta is shorter than a frame that is a hole.
            Self::Sums(..) if buffer.map() == Some(&DataMap::HOLE) => Ok((frame.hash(size, index, payload), None)),
            Self::Sums(index_of_old, shift, window) => {
                let start = around(window, payload, offset, index_of_old.block(), file)?;
                let within = start..start + payload.len();
                let spans = index_of_old.search(window, offset - start as u64, within, shift);
                Ok((frame.hash(size, index, payload), encode(&spans, offset, payload)))
            }
        }
    }
}

/// Fills `window` with a frame and one block on each side. Returns the frame's offset in it.
fn around(window: &mut Vec<u8>, payload: &[u8], offset: u64, block: usize, file: &OpenedFile) -> io::Result<usize> {
    let before = usize::try_from(offset).unwrap_or(usize::MAX).min(block);
    window.resize(before + payload.len() + block, 0);
    let read = file.read_at(&mut window[..before], offset - before as u64)?;
    if read < before {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    window[before..before + payload.len()].copy_from_slice(payload);
    let behind = before + payload.len();
    let read = file.read_at(&mut window[behind..], offset + payload.len() as u64)?;
    window.truncate(behind + read);
    Ok(before)
}
