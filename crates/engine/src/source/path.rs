//! Paths below a source, and why a file there cannot be delivered.

use crate::fs::Dir;
use crate::fs::FollowLinks;
use crate::job::display_path::below;
use crate::sys::describe::describe;
use haul_proto::path::Name;
use std::io;
/// Why a file cannot be delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceFileError {
    /// It is not what it was when it was offered or begun.
    Changed,
    /// Anything else, in words.
    Failed(String),
}

impl From<io::Error> for SourceFileError {
    fn from(error: io::Error) -> Self {
        Self::Failed(describe(&error))
    }
}

/// A name in a directory.
#[derive(Clone)]
pub struct SourcePath {
    /// The directory.
    pub parent: Dir,
    /// The name.
    pub name: Name,
    /// Whether the name may be a link that is followed.
    pub links: FollowLinks,
    /// Whether it is an operand itself, whose path the user typed.
    pub is_operand: bool,
}

impl SourcePath {
    /// The path as the user would name it, below an operand that was typed like this.
    pub fn path(&self, operand: &[u8]) -> Vec<u8> {
        if self.is_operand { operand.to_vec() } else { below(operand, &self.parent.path_of(self.name.as_bytes())) }
    }
}
