//! Identifiers. Each is a newtype, so that one cannot be taken for another.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};

/// Names one job for as long as it lasts, over all of its runs: derived from what is copied to where.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct JobId(pub [u8; 16]);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobId({self})")
    }
}

/// A job within one session: messages carry this short number; the Request binds it to a [`JobId`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobNumber(pub u32);

/// A handle for an entry within one session; given by the source, in ascending order from 0, without gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryId(pub u64);

/// What is known of entries. Ids follow each other, and nobody chooses them: so nobody chooses which ones collide, and a
/// hash that costs next to nothing will do.
pub type ByEntry<V> = HashMap<EntryId, V, BuildHasherDefault<EntryHasher>>;

/// Some entries.
pub type EntrySet = HashSet<EntryId, BuildHasherDefault<EntryHasher>>;

/// Spreads consecutive numbers (Knuth's multiplicative hashing, The Art of Computer Programming 6.4).
#[derive(Debug, Clone, Copy, Default)]
pub struct EntryHasher(u64);

impl Hasher for EntryHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// A data stream within one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub u16);

/// The network path that a stream takes: the place of its address among those that the connecting end was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PathId(pub u16);
