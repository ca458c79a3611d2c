//! Paths below the target: a directory that is open, and a name in it.

use haul_proto::path::Name;
use std::path::PathBuf;

use crate::fs::Dir;

/// Where a file goes.
#[derive(Clone)]
pub enum FileDestination {
    /// A name in a directory.
    Spot(TargetPath),
    /// A device, FIFO or socket, and whether frames may be written anywhere in it.
    Special {
        /// Its path.
        path: PathBuf,
        /// Whether that is so.
        seekable: bool,
        /// For messages: its name in the tree that the null device takes; empty otherwise.
        relative: Vec<u8>,
    },
}

/// A name in a directory.
#[derive(Clone)]
pub struct TargetPath {
    /// The directory.
    pub dir: Dir,
    /// The final name.
    pub name: Name,
    /// Whether it takes the place of something.
    pub replaces: bool,
}

/// A name in a directory.
#[derive(Clone)]
pub struct FileName {
    /// The directory.
    pub dir: Dir,
    /// The name.
    pub name: Name,
}

impl FileName {
    /// Whether both are one name in one directory.
    pub fn is_same(&self, other: &Self) -> bool {
        self.name == other.name && self.dir.identity() == other.dir.identity()
    }
}
