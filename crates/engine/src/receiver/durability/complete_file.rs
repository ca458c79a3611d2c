//! A file of which all data has arrived.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use haul_proto::entry::Timestamp;
use haul_proto::ids::EntryId;
use haul_proto::integrity::Digest;
use haul_proto::session::step::FileEnd;

use crate::fs::{FileIdentity, FileStat};
use crate::io::storage::cache::WRITE_BACK_FILE_MIN;
use crate::io::storage::file::OpenedFile;
use crate::receiver::durability::fsync::SyncedFileSystem;
use crate::receiver::entry::ReceiverEntry;
use crate::receiver::file::ReceivingFile;

/// A complete file.
pub struct CompleteFile {
    /// The entry.
    pub entry: EntryId,
    /// The receiver's data about the file.
    pub item: Arc<ReceiverEntry>,
    /// Size in bytes.
    pub size: u64,
    /// BLAKE3, if the source was asked for it.
    pub digest: Digest,
    /// Its data.
    pub bytes: ContentState,
    /// The file system to sync before it gets its name; `None` without a wait.
    pub disk: Option<Arc<SyncedFileSystem>>,
    /// Modification time.
    pub modified: Timestamp,
    /// State of its frames; `None` for a file from a pack.
    pub end: Option<Box<FileEnd>>,
}

/// A file under its final name, closed.
pub struct PublishedFile {
    /// The entry.
    pub entry: EntryId,
    /// The receiver's data about the file.
    pub item: Arc<ReceiverEntry>,
    /// Size in bytes.
    pub size: u64,
    /// BLAKE3, if the source was asked for it.
    pub digest: Digest,
    /// The file system to sync for its name.
    pub disk: Option<Arc<SyncedFileSystem>>,
    /// Modification time.
    pub modified: Timestamp,
}

/// The data of a complete file.
pub enum ContentState {
    /// A file without a name.
    Nameless(OwnedFd),
    /// A temporary file, or a special file.
    Open(Arc<OpenedFile>),
    /// Written to a pipe.
    Gone,
}

impl CompleteFile {
    /// The state of the file's reception.
    pub fn file(&self) -> &ReceivingFile {
        file(&self.item)
    }

    /// The open file.
    pub fn fd(&self) -> &OwnedFd {
        match &self.bytes {
            ContentState::Nameless(file) => file,
            ContentState::Open(file) => file.fd(),
            ContentState::Gone => unreachable!("data of a pipe is never synced"),
        }
    }

    /// The file of the final name.
    pub fn identity(&self) -> io::Result<FileIdentity> {
        match self.file().in_place() {
            Some((base, _)) => Ok(base.version.identity),
            None => Ok(FileStat::at_fd(self.fd())?.identity),
        }
    }

    /// Bytes possibly not yet on disk: for large files, write-back started early.
    pub fn unwritten_bytes(&self) -> u64 {
        self.size.min(WRITE_BACK_FILE_MIN)
    }
}

impl PublishedFile {
    /// The state of the file's reception.
    pub fn file(&self) -> &ReceivingFile {
        file(&self.item)
    }
}

impl From<CompleteFile> for PublishedFile {
    fn from(CompleteFile { entry, item, size, digest, disk, modified, .. }: CompleteFile) -> Self {
        Self { entry, item, size, digest, disk, modified }
    }
}

/// # Panics
/// If it is a directory: a bug.
pub(crate) fn file(item: &ReceiverEntry) -> &ReceivingFile {
    match item {
        ReceiverEntry::File(file) => file,
        ReceiverEntry::Directory { .. } | ReceiverEntry::HardLink | ReceiverEntry::Compared(_) => {
            unreachable!("directories are never whole files")
        }
    }
}
