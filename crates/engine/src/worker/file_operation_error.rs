//! Errors of a file session's operations.

use std::io;

use haul_base::sys::describe::describe;
use haul_proto::limits::SESSION_FILES_MAX;
use haul_proto::wire::file_session::FileFailure;
use rustix::io::Errno;

use crate::fs::remove_tree::RemovalError;
use crate::fs::watch::WatchError;
use crate::worker::client_refusal::ClientRefusal;

/// A failed operation.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileOperationError {
    /// A system call failed.
    #[error("{}", describe(.0))]
    System(#[from] io::Error),
    /// The server's limits exclude it.
    #[error("{0}")]
    Client(#[from] ClientRefusal),
    /// It is a directory.
    #[error("is a directory")]
    Directory,
    /// It is a directory, and its contents are not to be removed.
    #[error("is a directory\nhaul rm -r removes it with everything in it")]
    DirectoryToRemove,
    /// It is no directory.
    #[error("not a directory")]
    NotDirectory,
    /// It is never removed.
    #[error("{0}")]
    Removal(#[from] RemovalError),
    /// The Request announced no changes.
    #[error("this session changes nothing")]
    ReadOnly,
    /// It is no regular file.
    #[error("not a regular file")]
    NotRegular,
    /// It changed after it was opened.
    #[error("the file has changed since it was opened\nopen it again")]
    Changed,
    /// Too many are open.
    #[error("a session holds at most {SESSION_FILES_MAX} files and listings open\nclose one of them")]
    TooMany,
    /// A tree cannot be watched.
    #[error("{0}")]
    Watch(#[from] WatchError),
    /// The number belongs to no open file.
    #[error("no open file has this number")]
    NotOpen,
    /// The audit log does not work.
    #[error("cannot write the audit log")]
    AuditLog,
}

impl FileOperationError {
    /// The kind that the answer has.
    pub fn failure(&self) -> FileFailure {
        match self {
            Self::System(error)
            | Self::Removal(RemovalError::System(error))
            | Self::Watch(WatchError::System(error)) => match error.raw_os_error().map(Errno::from_raw_os_error) {
                Some(Errno::NOENT | Errno::NOTDIR) => FileFailure::Gone,
                Some(Errno::ACCESS | Errno::PERM) => FileFailure::Denied,
                Some(Errno::EXIST) => FileFailure::Exists,
                _ => FileFailure::Other,
            },
            Self::Client(_) | Self::ReadOnly => FileFailure::Denied,
            Self::Directory | Self::DirectoryToRemove => FileFailure::Directory,
            Self::NotDirectory => FileFailure::NotDirectory,
            Self::Removal(RemovalError::Protected | RemovalError::Mounted) => FileFailure::Protected,
            Self::NotRegular => FileFailure::NotRegular,
            Self::Changed => FileFailure::Changed,
            Self::TooMany => FileFailure::TooMany,
            Self::NotOpen => FileFailure::NotOpen,
            Self::Watch(WatchError::TooMany(_)) => FileFailure::TooMany,
            Self::Watch(WatchError::Filter(_)) | Self::AuditLog => FileFailure::Other,
        }
    }
}
