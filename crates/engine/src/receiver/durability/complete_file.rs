//! A file of which all data has arrived.

use crate::io::storage::file::OpenedFile;
use crate::receiver::durability::fsync::SyncedFileSystem;
use crate::receiver::entry::ReceiverEntry;
use crate::receiver::file::ReceivingFile;
use haul_proto::entry::Timestamp;
use haul_proto::ids::EntryId;
use haul_proto::integrity::Digest;
use haul_proto::session::step::FileEnd;
use std::os::fd::OwnedFd;
use std::sync::Arc;

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

impl PublishedFile {
    /// The state of the file's reception.
    pub fn file(&self) -> &ReceivingFile {
        file(&self.item)
    }
}

impl From<CompleteFile> for PublishedFile {
    fn from(CompleteFile { entry, item, size, digest, disk, .. }: CompleteFile) -> Self {
        Self { entry, item, size, digest, disk }
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
