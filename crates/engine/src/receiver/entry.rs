//! The target's data about an entry, and about a frame on its way to it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use haul_proto::entry::{EntryMetadata, Timestamp};
use haul_proto::entry_extras::ExtendedAttribute;
use haul_proto::path::Name;
use haul_proto::wire::difference::Difference;
use haul_proto::wire::frame::DataFrame;

use crate::fs::Dir;
use crate::io::storage::extents::FileExtents;
use crate::receiver::file::ReceivingFile;
use crate::receiver::place::error::FileError;
use crate::receiver::source_names::SourceNames;

/// The target's data about an entry.
#[allow(clippy::large_enum_variant, reason = "each lies in an Arc of its own, and most of them are files")]
pub enum ReceiverEntry {
    /// A directory.
    Directory {
        /// The created or existing directory; a dry run may only plan it.
        dir: Dir,
        /// Created in this run, hence still empty.
        fresh: bool,
        /// The source's names in it, for the removal of extraneous entries.
        names: Option<SourceNames>,
        /// Metadata to set once it is complete.
        meta: EntryMetadata,
        /// Extended attributes to set then, if preserved.
        attributes: Option<Box<[ExtendedAttribute]>>,
    },
    /// A wanted file.
    File(ReceivingFile),
    /// A hard link.
    HardLink,
    /// An existing entry that is only compared.
    Compared(Compared),
}

/// The counterpart of a source entry.
pub enum Compared {
    /// A file of the same size.
    File(ComparedFile),
    /// A directory.
    Directory(ComparedDirectory),
}

/// A file of the same size as the source's.
pub struct ComparedFile {
    /// Its directory.
    pub dir: Dir,
    /// Its name in that directory.
    pub name: Name,
    /// Size in bytes.
    pub size: u64,
    /// Time of last modification at the check.
    pub modified: Timestamp,
    /// A read error was reported.
    pub failed: AtomicBool,
    /// Its extents, shared by the readers of its chunks.
    pub extents: Arc<FileExtents>,
    /// Differences found so far.
    pub(crate) differences: Vec<Difference>,
}

/// A directory.
pub struct ComparedDirectory {
    pub(crate) dir: Dir,
    /// The source's names in it; `None` if other entries may belong there too.
    pub(crate) names: Option<SourceNames>,
}

impl Compared {
    /// Adds source names that are excluded, hence not offered.
    pub fn not_offered(&self, not_offered: &[Name]) {
        if let Self::Directory(ComparedDirectory { names: Some(names), .. }) = self {
            not_offered.iter().for_each(|name| names.add(name));
        }
    }
}

impl ComparedDirectory {
    /// The path of an entry in it, below the destination.
    pub fn path_of(&self, name: &Name) -> Vec<u8> {
        self.dir.path_of(name.as_bytes())
    }
}

impl ComparedFile {
    /// Path below the destination.
    pub(crate) fn relative(&self) -> Vec<u8> {
        self.dir.path_of(self.name.as_bytes())
    }
}

/// A frame whose write has ended.
pub struct WrittenFrame {
    /// The file.
    pub item: Arc<ReceiverEntry>,
    /// The frame.
    pub frame: DataFrame,
    /// Bytes of its payload.
    pub len: usize,
    /// Its bytes that had to be written, without holes and shared blocks; or why it could not be written.
    pub result: Result<u64, FileError>,
}
