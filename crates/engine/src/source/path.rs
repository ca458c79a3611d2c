//! Paths below a source argument, and errors of their files.

use crate::fs::Dir;
use crate::fs::FollowLinks;
use crate::job::display_path::below;
use crate::sys::describe::describe;
use haul_proto::path::Name;
use std::io;
/// Why a file cannot be delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceFileError {
    /// The file has changed since its offer or the start of its transfer.
    Changed,
    /// Any other error, as text.
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
    /// Its directory.
    pub parent: Dir,
    /// Its name in that directory.
    pub name: Name,
    /// Whether a link of this name is followed.
    pub links: FollowLinks,
    /// Whether it is itself a source argument, typed by the user.
    pub is_operand: bool,
}

impl SourcePath {
    /// The path for messages, below this source argument as typed.
    pub fn path(&self, operand: &[u8]) -> Vec<u8> {
        if self.is_operand { operand.to_vec() } else { below(operand, &self.parent.path_of(self.name.as_bytes())) }
    }
}
