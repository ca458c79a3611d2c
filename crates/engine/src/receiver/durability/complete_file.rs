//! A file of which every byte has arrived.

use crate::io::storage::file::OpenedFile;
use crate::receiver::ReceiverEntry;
use crate::receiver::durability::fsync::SyncedFileSystem;
use crate::receiver::file::ReceivingFile;
use haul_proto::ids::EntryId;
use haul_proto::integrity::Digest;
use haul_proto::session::step::FileEnd;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A whole file.
pub struct CompleteFile {
    /// The entry.
    pub entry: EntryId,
    /// What it is known by; a file.
    pub item: Arc<ReceiverEntry>,
    /// Bytes.
    pub size: u64,
    /// BLAKE3, as far as the source was asked for it.
    pub digest: Digest,
    /// Its bytes.
    pub bytes: ContentState,
    /// The file system to sync before it gets its name; `None` without a wait.
    pub disk: Option<Arc<SyncedFileSystem>>,
    /// What is known of its frames; `None`: it came in a pack.
    pub end: Option<Box<FileEnd>>,
}

/// A file that has its name, and is closed.
pub struct PublishedFile {
    /// The entry.
    pub entry: EntryId,
    /// What it is known by; a file.
    pub item: Arc<ReceiverEntry>,
    /// Bytes.
    pub size: u64,
    /// BLAKE3, as far as the source was asked for it.
    pub digest: Digest,
    /// The disk that its name has to reach.
    pub disk: Option<Arc<SyncedFileSystem>>,
}

/// Where the bytes of a whole file are.
pub enum ContentState {
    /// In a file without a name.
    Nameless(OwnedFd),
    /// In a temporary file, or in a special file.
    Open(Arc<OpenedFile>),
    /// Passed to a pipe's reader.
    Gone,
}

impl PublishedFile {
    /// What is known of it as a file.
    pub fn incoming(&self) -> &ReceivingFile {
        incoming(&self.item)
    }
}

impl From<CompleteFile> for PublishedFile {
    fn from(CompleteFile { entry, item, size, digest, disk, .. }: CompleteFile) -> Self {
        Self { entry, item, size, digest, disk }
    }
}

/// # Panics
/// If it is a directory: a mistake in this program.
pub(crate) fn incoming(item: &ReceiverEntry) -> &ReceivingFile {
    match item {
        ReceiverEntry::File(incoming) => incoming,
        ReceiverEntry::Directory { .. } | ReceiverEntry::HardLink | ReceiverEntry::Compared(_) => {
            unreachable!("directories are never whole files")
        }
    }
}
