//! Paths below the target: an open directory, and a name in it.

use haul_proto::path::Name;

use crate::fs::Dir;

/// A name in a directory.
#[derive(Clone)]
pub struct TargetPath {
    /// The directory.
    pub dir: Dir,
    /// The final name.
    pub name: Name,
    /// Whether it replaces an existing entry.
    pub replaces: bool,
}

/// A name in a directory.
#[derive(Clone)]
pub struct FileName {
    /// Its directory.
    pub dir: Dir,
    /// Its name in that directory.
    pub name: Name,
}

impl FileName {
    /// Whether both are the same name in the same directory.
    pub fn is_same(&self, other: &Self) -> bool {
        self.name == other.name && self.dir.identity() == other.dir.identity()
    }
}
