//! Entries: the files, directories and links that the source offers.

use crate::codec::{wire_enum, wire_struct};
use crate::entry_extras::EntryExtras;
pub(crate) use crate::entry_metadata::BAD_MODE;
pub use crate::entry_metadata::{EntryMetadata, Timestamp};
use crate::field_codecs::Varint;
use crate::ids::EntryId;
use crate::path::Name;

wire_struct! {
    /// Identity and change time of a source file. A partial copy is valid only while they are unchanged; the target uses
    /// them for nothing else.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct FileVersion {
        /// `st_dev`; may change when a file system is mounted anew.
        pub device: u64 as Varint,
        /// `st_ino`.
        pub inode: u64 as Varint,
        /// `st_ctime`: last change of bytes or metadata.
        pub changed: Timestamp,
    }
}

/// Type of an entry, with its contents where they are small.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryContent {
    /// A directory; its children name it as their parent.
    Directory,
    /// A regular file, or for a source argument any readable object of known size.
    File {
        /// Size in bytes at the time of the stat.
        size: u64,
    },
    /// A sequential input of unknown size: a pipe, a FIFO or the output of a program.
    Stream,
    /// A symbolic link.
    Symlink {
        /// Link target of 1 to 4095 bytes, without NUL. haul recreates it and never follows it.
        points_to: Box<[u8]>,
    },
    /// Another hard link to a file offered earlier.
    HardLink {
        /// The file offered earlier.
        to: EntryId,
        /// Size of the file in bytes.
        size: u64,
    },
    /// A special file without contents.
    Node(SpecialFile),
}

wire_enum! {
    /// A device, FIFO or socket.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum SpecialFile: "device, FIFO or socket" {
        /// A character device.
        Character(device: DeviceNumber) = 1,
        /// A block device.
        Block(device: DeviceNumber) = 2,
        /// A FIFO.
        Fifo = 3,
        /// A socket; the copy has no listener.
        Socket = 4,
    }
}

wire_struct! {
    /// A device number.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct DeviceNumber {
        /// Major number: the driver.
        pub major: u32,
        /// Minor number: the device of that driver.
        pub minor: u32,
    }
}

/// Location of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryLocation {
    /// The source argument of this number, from 0; the Request gives its name at the target.
    Operand(u32),
    /// A name in a directory offered earlier.
    Child {
        /// The directory.
        parent: EntryId,
        /// The name in that directory.
        name: Name,
    },
    /// The location of an earlier entry whose file changed while it was read. The file is offered anew.
    Again(EntryId),
}

impl EntryLocation {
    /// The directory and the name in it, of an entry below a source argument.
    pub fn child(&self) -> Option<(EntryId, &Name)> {
        if let Self::Child { parent, name } = self { Some((*parent, name)) } else { None }
    }
}

/// One entry of an Offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Location.
    pub place: EntryLocation,
    /// Type and contents.
    pub kind: EntryContent,
    /// Metadata.
    pub meta: EntryMetadata,
    /// Version of a large file, where the source has one.
    pub version: Option<FileVersion>,
    /// Rare attributes.
    pub more: Option<Box<EntryExtras>>,
}

impl Entry {
    /// Returns the bytes that the entry counts towards [`UNSETTLED_BYTES_MAX`](crate::limits::UNSETTLED_BYTES_MAX): its
    /// name, its link target and its extras.
    pub fn held_bytes(&self) -> usize {
        let name = if let EntryLocation::Child { name, .. } = &self.place { name.as_bytes().len() } else { 0 };
        let link = if let EntryContent::Symlink { points_to } = &self.kind { points_to.len() } else { 0 };
        name + link + self.more.as_ref().map_or(0, |more| more.bytes())
    }

    /// Returns the number of other hard links to the file; `None` where there are none or the number is unknown.
    pub fn further_names(&self) -> Option<u64> {
        self.more.as_ref()?.names?.checked_sub(1).filter(|further| *further > 0)
    }
}

wire_enum! {
    /// Type of an entry.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum EntryKind: "kind of entry content" {
        /// A directory.
        Directory = 1,
        /// A regular file.
        File = 2,
        /// A symbolic link.
        Symlink = 3,
        /// A device, FIFO or socket.
        Special = 4,
    }
}

impl From<&EntryContent> for EntryKind {
    fn from(kind: &EntryContent) -> Self {
        match kind {
            EntryContent::Directory => Self::Directory,
            EntryContent::File { .. } | EntryContent::Stream | EntryContent::HardLink { .. } => Self::File,
            EntryContent::Symlink { .. } => Self::Symlink,
            EntryContent::Node(_) => Self::Special,
        }
    }
}
