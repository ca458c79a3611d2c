//! Digests whose parts can be combined: CRCs and Adler-32. Each stream computes those of its frames; each run of frames
//! has one value.

use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;

use crc_fast::{CrcAlgorithm, checksum_combine};
use haul_base::sys::sync::lock;
use haul_proto::checksum::ChecksumAlgorithm;
use haul_proto::integrity::FrameLen;

use super::hasher::{cksum_suffix, crc_of};
use super::{ReadFrame, read_frame};

/// The largest prime below 2^16 (RFC 1950).
const ADLER_MODULUS: u64 = 65_521;

/// The digests of runs of frames.
pub struct CombinedDigest {
    kind: CombinedKind,
    /// Bytes of a digest.
    bytes: usize,
    frame: FrameLen,
    /// Runs by their first frames. No two are adjacent.
    runs: Mutex<BTreeMap<u64, FrameRun>>,
}

#[derive(Clone, Copy)]
enum CombinedKind {
    Crc(CrcAlgorithm),
    Adler,
}

/// Consecutive frames.
#[derive(Clone, Copy)]
struct FrameRun {
    frames: u64,
    len: u64,
    value: u64,
}

impl CombinedDigest {
    /// The digest of a file in frames of this length; `None` if the algorithm cannot combine digests.
    pub fn new(algorithm: ChecksumAlgorithm, frame: FrameLen) -> Option<Self> {
        let kind = match (algorithm, crc_of(algorithm)) {
            (_, Some(crc)) => CombinedKind::Crc(crc),
            (ChecksumAlgorithm::Adler32, None) => CombinedKind::Adler,
            _ => return None,
        };
        Some(Self { kind, bytes: algorithm.bytes(), frame, runs: Mutex::default() })
    }

    /// Adds a frame, once.
    pub fn update(&self, index: u64, payload: &[u8]) {
        let value = self.kind.of(payload);
        let mut runs = lock(&self.runs);
        let before = runs.range(..=index).next_back().map(|(first, run)| (*first, *run));
        if before.is_some_and(|(first, run)| index < first + run.frames) {
            return;
        }
        let mut start = index;
        let mut run = FrameRun { frames: 1, len: payload.len() as u64, value };
        if let Some((first, before)) = before.filter(|(first, before)| first + before.frames == index) {
            (start, run) = (first, self.kind.join(before, run));
        }
        if let Some(behind) = runs.remove(&(index + 1)) {
            run = self.kind.join(run, behind);
        }
        runs.insert(start, run);
    }

    /// Reads the missing frames of a file of `size` bytes. Returns its digest.
    pub fn finish(&self, size: u64, read: impl ReadFrame) -> io::Result<Vec<u8>> {
        let frames = self.frame.frames(size);
        let mut room = Vec::new();
        while let Some(index) = self.first_lacking(frames) {
            self.update(index, read_frame(self.frame, size, index, &mut room, &read)?);
        }
        let whole = lock(&self.runs).get(&0).copied();
        let whole = whole.unwrap_or_else(|| FrameRun { frames: 0, len: 0, value: self.kind.of(b"") });
        let value = match self.kind {
            CombinedKind::Crc(CrcAlgorithm::Crc32Cksum) => {
                let mut room = [0; 8];
                let suffix = cksum_suffix(whole.len, &mut room);
                let suffix = FrameRun { frames: 0, len: suffix.len() as u64, value: self.kind.of(suffix) };
                self.kind.join(whole, suffix).value
            }
            CombinedKind::Crc(_) | CombinedKind::Adler => whole.value,
        };
        Ok(value.to_be_bytes()[8 - self.bytes..].to_vec())
    }

    fn first_lacking(&self, frames: u64) -> Option<u64> {
        let there = lock(&self.runs).get(&0).map_or(0, |run| run.frames);
        (there < frames).then_some(there)
    }
}

impl CombinedKind {
    fn of(self, bytes: &[u8]) -> u64 {
        match self {
            Self::Crc(crc) => crc_fast::checksum(crc, bytes),
            Self::Adler => adler2::adler32_slice(bytes).into(),
        }
    }

    fn join(self, first: FrameRun, second: FrameRun) -> FrameRun {
        let value = match self {
            Self::Crc(crc) => checksum_combine(crc, first.value, second.value, second.len),
            Self::Adler => join_adler(first.value, second.value, second.len),
        };
        FrameRun { frames: first.frames + second.frames, len: first.len + second.len, value }
    }
}

/// Combines two Adler-32 values (RFC 1950), which are pairs: A, one more than the sum of all bytes, and B, the sum of A
/// after each byte. The combined A is the sum of both less one. In the second part, each A that adds to B is larger by
/// the first part's A less one.
fn join_adler(first: u64, second: u64, second_len: u64) -> u64 {
    let (sum, sums) = (first & 0xffff, first >> 16);
    let (second_sum, second_sums) = (second & 0xffff, second >> 16);
    let more = (sum + ADLER_MODULUS - 1) % ADLER_MODULUS;
    let joined_sum = (more + second_sum) % ADLER_MODULUS;
    let joined_sums = (sums + second_sums + second_len % ADLER_MODULUS * more) % ADLER_MODULUS;
    joined_sums << 16 | joined_sum
}
