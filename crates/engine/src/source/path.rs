//! Paths below a source argument, and errors of their files.

use std::io;
use std::sync::Arc;

use haul_base::copy::display_path::below;
use haul_base::copy::error::{CHANGED_SINCE_PLAN, CHANGED_WHILE_READ};
use haul_base::sys::describe::describe;
use haul_proto::path::Name;

use crate::fs::{Dir, FileStat, FollowLinks};
use crate::io::checksum::DigestMismatch;
use crate::io::program::ProgramError;

/// Why a file cannot be sent; the message's second line is a hint.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SourceFileError {
    /// The file has changed since its offer or the start of its transfer.
    #[error("{CHANGED_WHILE_READ}")]
    Changed,
    /// A file of which other runs send other ranges has changed.
    #[error("{CHANGED_SINCE_PLAN}")]
    ChangedSincePlan,
    /// A system call failed.
    #[error("{}", describe(.0))]
    Io(#[source] Arc<io::Error>),
    /// The copy ended meanwhile.
    #[error("the copy was stopped")]
    Stopped,
    /// A growing file has become shorter.
    #[error("truncated while being followed")]
    Truncated,
    /// A kept frame exceeds the frame size.
    #[error("a frame exceeds the frame size")]
    FrameSize,
    /// The program that writes it failed.
    #[error("{0}")]
    Program(#[from] ProgramError),
    /// Its digest differs from the expected one.
    #[error("{0}\nnot copied: check the file, or the expected digest")]
    Digest(#[from] DigestMismatch),
}

impl From<io::Error> for SourceFileError {
    fn from(error: io::Error) -> Self {
        Self::Io(error.into())
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

    /// Whether nothing has this name any more.
    pub fn is_gone(&self) -> bool {
        let found = self.parent.fd().and_then(|dir| FileStat::at_name(&*dir, &self.name, FollowLinks::Itself));
        found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }
}
