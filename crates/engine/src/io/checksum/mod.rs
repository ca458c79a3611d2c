//! Requested digests of whole files beside BLAKE3 (`--checksum`): `hasher` computes one over bytes in order, `combined`
//! and `ordered` over frames in any order. [`FileChecksum`] chooses between them.

mod combined;
mod hasher;
mod ordered;

use std::io;
use std::sync::OnceLock;

use haul_proto::checksum::{ChecksumAlgorithm, hex};
use haul_proto::integrity::FrameLen;
use haul_proto::wire::checksum::{ChecksumRequest, ChecksumSource};

use self::combined::CombinedDigest;
pub use self::hasher::Hasher;
use self::ordered::OrderedDigest;

/// Reads the frame of an index into a buffer of its expected length. Returns the number of bytes.
pub trait ReadFrame: Fn(u64, &mut [u8]) -> io::Result<usize> {}

impl<F: Fn(u64, &mut [u8]) -> io::Result<usize>> ReadFrame for F {}

/// The digest of bytes.
pub fn sum_of(algorithm: ChecksumAlgorithm, bytes: &[u8]) -> Vec<u8> {
    let mut hasher = Hasher::new(algorithm);
    hasher.update(bytes);
    hasher.finish()
}

/// The digest of a file from its frames, in any order and of many streams.
pub struct FileChecksum {
    state: ChecksumState,
    value: OnceLock<Vec<u8>>,
}

enum ChecksumState {
    /// Digests of frames are combined.
    Combined(CombinedDigest),
    /// Frames are hashed in order.
    Ordered(Box<OrderedDigest>),
}

impl FileChecksum {
    /// The digest of a file in frames of this length.
    pub fn new(algorithm: ChecksumAlgorithm, frame: FrameLen) -> Self {
        let state = match CombinedDigest::new(algorithm, frame) {
            Some(combined) => ChecksumState::Combined(combined),
            None => ChecksumState::Ordered(Box::new(OrderedDigest::new(algorithm, frame))),
        };
        Self { state, value: OnceLock::new() }
    }

    /// Adds a frame if possible. Otherwise, [`Self::frame_written`] must be called once the frame can be read.
    pub fn update(&self, index: u64, payload: &[u8]) {
        match &self.state {
            ChecksumState::Combined(combined) => combined.update(index, payload),
            ChecksumState::Ordered(ordered) => ordered.take_if_next(index, payload),
        }
    }

    /// Adds the next frame, which cannot be reread.
    pub fn update_in_order(&self, index: u64, payload: &[u8]) {
        match &self.state {
            ChecksumState::Combined(combined) => combined.update(index, payload),
            ChecksumState::Ordered(ordered) => ordered.update(index, payload),
        }
    }

    /// Marks a frame of a file of `size` bytes as readable.
    pub fn frame_written(&self, index: u64, size: u64, read: impl ReadFrame) {
        if let ChecksumState::Ordered(ordered) = &self.state {
            ordered.mark_readable(index, size, read);
        }
    }

    /// Hashes the rest of the complete file of `size` bytes. Fails if `goes_on` returns false.
    pub fn finish(&self, size: u64, read: impl ReadFrame, goes_on: impl Fn() -> bool) -> io::Result<()> {
        let read = |index, room: &mut [u8]| match goes_on() {
            true => read(index, room),
            false => Err(io::Error::other("the copy was stopped")),
        };
        let value = match &self.state {
            ChecksumState::Combined(combined) => combined.finish(size, read),
            ChecksumState::Ordered(ordered) => ordered.finish(size, read),
        };
        let _ = self.value.set(value?);
        Ok(())
    }

    /// The digest, once it is finished.
    pub fn value(&self) -> Option<&[u8]> {
        self.value.get().map(Vec::as_slice)
    }
}

/// A file with another digest than the expected one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} mismatch: {value} instead of {expected}", name = .algorithm.name(), value = hex(.value), expected = hex(.expected))]
pub struct DigestMismatch {
    algorithm: ChecksumAlgorithm,
    value: Vec<u8>,
    expected: Vec<u8>,
}

/// Compares a file's digest with the expected one; `expected` is that of the line for its name, if any.
pub fn verdict(checksum: &ChecksumRequest, value: &[u8], expected: Option<&[u8]>) -> Result<(), DigestMismatch> {
    let expected = match &checksum.against {
        ChecksumSource::Nothing => return Ok(()),
        ChecksumSource::Value(expected) => expected,
        ChecksumSource::Lines => match expected {
            Some(expected) => expected,
            None => return Ok(()),
        },
    };
    if value == expected {
        return Ok(());
    }
    Err(DigestMismatch { algorithm: checksum.algorithm, value: value.to_vec(), expected: expected.to_vec() })
}

/// Frame `index` of a file of `size` bytes, which `read` reads into `room`.
fn read_frame<'r>(
    frame: FrameLen,
    size: u64,
    index: u64,
    room: &'r mut Vec<u8>,
    read: &impl ReadFrame,
) -> io::Result<&'r [u8]> {
    let len = frame.frame_len(size, index).ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
    room.resize(frame.bytes(), 0);
    match read(index, &mut room[..len])? {
        found if found == len => Ok(&room[..len]),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
