//! Paths below the target: an open directory, and a name in it.

use haul_proto::path::Name;
use std::path::PathBuf;

use crate::fs::Dir;

/// The destination of a file.
#[derive(Clone)]
pub enum FileDestination {
    /// A name in a directory.
    Named(TargetPath),
    /// A device, FIFO or socket.
    Special {
        /// Its path.
        path: PathBuf,
        /// Whether frames may be written in any order.
        seekable: bool,
        /// For messages: its path in a tree written to the null device; otherwise empty.
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
