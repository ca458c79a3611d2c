//! Identifiers. Each is a newtype, so that the compiler rejects mix-ups.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};

/// Identifier of a copy, or of one attempt at it: fresh random bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CopyId(pub [u8; 16]);

impl fmt::Display for CopyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for CopyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CopyId({self})")
    }
}

/// Number of a copy within one session. Messages carry this short number; the Request binds it to a [`CopyId`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CopyNumber(pub u32);

/// Identifier of an entry within one session, assigned by the source in ascending order from 0 without gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryId(pub u64);

/// Map by entry. Ids are consecutive and no peer chooses them, so no peer can cause collisions and a cheap hash is
/// enough.
pub type ByEntry<V> = HashMap<EntryId, V, BuildHasherDefault<EntryHasher>>;

/// Set of entries.
pub type EntrySet = HashSet<EntryId, BuildHasherDefault<EntryHasher>>;

/// Hasher for consecutive numbers (Knuth's multiplicative hashing, The Art of Computer Programming 6.4).
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

/// Identifier of a data stream within one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct StreamId(pub u16);

/// The network path of a stream: the index of its address in the list sent to the connecting end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PathId(pub u16);

impl PathId {
    /// The path through the control channel.
    pub const TUNNEL: Self = Self(u16::MAX);

    /// Whether the path has connections of its own, and does not go through the control channel.
    pub fn is_direct(self) -> bool {
        self != Self::TUNNEL
    }
}
