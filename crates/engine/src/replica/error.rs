//! Errors that end a run of two-way synchronisation.

use std::io;

use haul_base::sys::describe::describe;
use haul_base::trusted_files::TrustError;
use haul_proto::path::escape;
use haul_proto::twoway::archive::ArchiveError;

use crate::receiver::place::error::OtherRun;

/// Why a replica cannot be synchronised.
#[derive(Debug, thiserror::Error)]
pub enum ReplicaError {
    /// The root cannot be opened.
    #[error("{}: {}{}", escape(.0), describe(.1), root_hint(.1))]
    Root(Vec<u8>, #[source] io::Error),
    /// The root is on a read-only file system.
    #[error(
        "{}: on a read-only file system, and two-way synchronisation writes to both sides\nhint: remount it, or copy in one direction: haul sync",
        escape(.0)
    )]
    ReadOnly(Vec<u8>),
    /// The root's id cannot be kept in it.
    #[error("{}: cannot keep the id of the replica in it: {}", escape(.0), describe(.1))]
    Id(Vec<u8>, #[source] io::Error),
    /// An entry cannot be read.
    #[error("{}: {}\nhint: make it readable, or exclude it", escape(.0), describe(.1))]
    Unreadable(Vec<u8>, #[source] io::Error),
    /// The patterns are not valid.
    #[error("{0}")]
    Filter(String),
    /// Files with patterns in directories, or limits of files.
    #[error("two-way synchronisation excludes by patterns alone, and not by files in directories, sizes or times")]
    FilterKind,
    /// There is no state directory.
    #[error("two-way synchronisation needs a state directory for its archive\nhint: set HOME or XDG_STATE_HOME")]
    NoState,
    /// The state directory cannot be used.
    #[error("{0}")]
    State(#[from] TrustError),
    /// An archive cannot be written or read.
    #[error("the archive in the state directory: {}", describe(.0))]
    Archives(#[source] io::Error),
    /// The base became unreadable.
    #[error("{0}")]
    Archive(#[from] ArchiveError),
    /// Another run works in the root.
    #[error("{0} works in this replica: try again when it has ended")]
    Locked(OtherRun),
    /// The directory for backups is the replica, or above it.
    #[error("{}: the replica lies in this directory for backups\nhint: name another one: --backup-dir", escape(.0))]
    BackupsAbove(Vec<u8>),
    /// The directory for copies or backups cannot be used.
    #[error("{}: {}", escape(.0), describe(.1))]
    Directory(Vec<u8>, #[source] io::Error),
    /// Steps out of order.
    #[error("protocol error: step of a replica session out of order")]
    Order,
}

/// The line after the error of a root that is not there.
fn root_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "\nhint: make the directory first, if it is new; mount its disk, if it is not",
        _ => "",
    }
}

impl From<haul_proto::error::ProtocolError> for ReplicaError {
    fn from(error: haul_proto::error::ProtocolError) -> Self {
        Self::Archive(error.into())
    }
}
