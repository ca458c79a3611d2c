//! Digests over a file's bytes in order: MD5, SHA, XXH3. The stream with the next frame hashes it from its buffer.
//! Early frames are reread in their turn by any stream: mostly from the page cache, and in a limited share of its time.

use std::io;
use std::sync::{Mutex, MutexGuard, TryLockError};

use haul_base::sys::sync::lock;
use haul_proto::checksum::ChecksumAlgorithm;
use haul_proto::integrity::FrameLen;
use haul_proto::ranges::RangeSet;

use super::{Hasher, ReadFrame, read_frame};

/// Most frames that a stream rereads at a time.
const CATCH_UP_MAX: usize = 32;

/// A digest of the frames so far.
pub struct OrderedDigest {
    algorithm: ChecksumAlgorithm,
    frame: FrameLen,
    turn: Mutex<HashTurn>,
    /// Frames that can be read, hashed or not. Locked only while the set changes.
    readable: Mutex<RangeSet>,
}

/// State of the hashing stream.
struct HashTurn {
    /// The next frame to hash.
    next: u64,
    hasher: Hasher,
}

impl HashTurn {
    fn update(&mut self, payload: &[u8]) {
        self.hasher.update(payload);
        self.next += 1;
    }
}

impl OrderedDigest {
    /// The digest of a file in frames of this length.
    pub fn new(algorithm: ChecksumAlgorithm, frame: FrameLen) -> Self {
        let turn = Mutex::new(HashTurn { next: 0, hasher: Hasher::new(algorithm) });
        Self { algorithm, frame, turn, readable: Mutex::default() }
    }

    /// Hashes a frame if it is the next one, and no other thread hashes.
    pub fn take_if_next(&self, index: u64, payload: &[u8]) {
        if let Some(mut turn) = self.free_turn()
            && turn.next == index
        {
            turn.update(payload);
        }
    }

    /// Hashes the next frame, unless it was hashed.
    pub fn update(&self, index: u64, payload: &[u8]) {
        let mut turn = lock(&self.turn);
        if turn.next == index {
            turn.update(payload);
        }
    }

    /// Marks a frame as readable. Reads and hashes some of the next frames, unless another thread does.
    pub fn mark_readable(&self, index: u64, size: u64, read: impl ReadFrame) {
        lock(&self.readable).insert(index);
        let Some(mut turn) = self.free_turn() else { return };
        let mut room = Vec::new();
        for _ in 0..CATCH_UP_MAX {
            if !lock(&self.readable).contains(turn.next) {
                return;
            }
            // Read errors are reported at the end.
            let Ok(payload) = read_frame(self.frame, size, turn.next, &mut room, &read) else { return };
            turn.update(payload);
        }
    }

    /// Reads the unhashed rest of a file of `size` bytes. Returns its digest.
    pub fn finish(&self, size: u64, read: impl ReadFrame) -> io::Result<Vec<u8>> {
        let mut turn = lock(&self.turn);
        let mut room = Vec::new();
        while turn.next < self.frame.frames(size) {
            let payload = read_frame(self.frame, size, turn.next, &mut room, &read)?;
            turn.update(payload);
        }
        Ok(std::mem::replace(&mut turn.hasher, Hasher::new(self.algorithm)).finish())
    }

    fn free_turn(&self) -> Option<MutexGuard<'_, HashTurn>> {
        match self.turn.try_lock() {
            Ok(turn) => Some(turn),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}
