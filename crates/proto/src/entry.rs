//! Entries: what the source offers, as far as it can be known without a system call.

use crate::encoding::Decoded;
use crate::encoding::Reader;
use crate::encoding::Writer;
use crate::entry_extras::EntryExtras;
use crate::error::ProtocolError;
use crate::ids::EntryId;
use crate::path::Name;

/// A point in time as file systems keep it: seconds since 1970 (may be negative) and nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp {
    /// Seconds since 1970-01-01 UTC.
    pub seconds: i64,
    /// 0 to 999,999,999.
    pub nanoseconds: u32,
}

/// What is kept of an entry besides its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EntryMetadata {
    /// Permission bits with setuid, setgid and sticky: `0o7777` at most.
    pub mode: u16,
    /// Numeric owner at the source.
    pub uid: u32,
    /// Numeric group at the source.
    pub gid: u32,
    /// Time of last modification.
    pub modified: Timestamp,
}

/// Which file it is and since when it is unchanged, as far as the source's system tells: what a partial copy is good for
/// only while it stays the same. It means nothing to the target but that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileVersion {
    /// `st_dev`; another after some file systems are mounted again.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
    /// `st_ctime`: bytes or metadata changed.
    pub changed: Timestamp,
}

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryContent {
    /// A directory; its children name it as their parent.
    Directory,
    /// A regular file (or, for an operand, anything that is read to its end).
    File {
        /// Bytes, when the source looked.
        size: u64,
    },
    /// What is read from its beginning to its end, and has a size only then: a pipe, a FIFO, what a program says.
    Stream,
    /// A symbolic link, and the bytes it holds (1 to 4095, no NUL).
    Symlink {
        /// Where it points: never followed by haul, only recreated.
        points_to: Box<[u8]>,
    },
    /// Another name of a file that was offered before.
    HardLink {
        /// That file.
        to: EntryId,
        /// Its bytes.
        size: u64,
    },
    /// What is made and has no bytes.
    Node(SpecialFile),
}

/// A device, FIFO or socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SpecialFile {
    /// A character device.
    Character(DeviceNumber),
    /// A block device.
    Block(DeviceNumber),
    /// A FIFO.
    Fifo,
    /// A socket that nobody listens at.
    Socket,
}

/// The number of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeviceNumber {
    /// Which driver.
    pub major: u32,
    /// Which of its devices.
    pub minor: u32,
}

/// Where an entry stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryLocation {
    /// The operand of this number (0 is the first); the Request says what it is called at the target.
    Operand(u32),
    /// A name in a directory that was offered before.
    Child {
        /// The directory.
        parent: EntryId,
        /// The name in it.
        name: Name,
    },
    /// Where this file was to stand, which has changed while it was being read, and is offered anew.
    Again(EntryId),
}

/// One line of the manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where it stands.
    pub place: EntryLocation,
    /// What it is.
    pub kind: EntryContent,
    /// Its metadata.
    pub meta: EntryMetadata,
    /// Of a large file that has one.
    pub version: Option<FileVersion>,
    /// What few entries have besides.
    pub more: Option<Box<EntryExtras>>,
}

impl Entry {
    /// Bytes that it counts of [`UNSETTLED_BYTES_MAX`](crate::limits::UNSETTLED_BYTES_MAX): its name, the target of
    /// a link, its extras.
    pub fn held_bytes(&self) -> usize {
        let name = if let EntryLocation::Child { name, .. } = &self.place { name.as_bytes().len() } else { 0 };
        let link = if let EntryContent::Symlink { points_to } = &self.kind { points_to.len() } else { 0 };
        name + link + self.more.as_ref().map_or(0, |more| more.bytes())
    }

    /// How many more names a file has than the one that is offered; `None` where it has none, or that is not told.
    pub fn further_names(&self) -> Option<u64> {
        self.more.as_ref()?.names?.checked_sub(1).filter(|further| *further > 0)
    }
}

/// Writes a time: seconds i64, nanoseconds u32.
pub fn encode_stamp(out: &mut Writer, stamp: Timestamp) {
    out.i64(stamp.seconds).u32(stamp.nanoseconds);
}

/// Reads a time; more than 999,999,999 nanoseconds are a fault.
pub fn decode_stamp(reader: &mut Reader<'_>) -> Decoded<Timestamp> {
    let stamp = Timestamp { seconds: reader.i64()?, nanoseconds: reader.u32()? };
    if stamp.nanoseconds >= 1_000_000_000 {
        return Err(ProtocolError::Invalid("a time with too many nanoseconds"));
    }
    Ok(stamp)
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link.
    Symlink,
    /// A device, FIFO or socket.
    Special,
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

impl EntryKind {
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Directory => 1,
            Self::File => 2,
            Self::Symlink => 3,
            Self::Special => 4,
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        match reader.u8()? {
            1 => Ok(Self::Directory),
            2 => Ok(Self::File),
            3 => Ok(Self::Symlink),
            4 => Ok(Self::Special),
            value => Err(ProtocolError::Unknown { what: "kind of thing", value: value.into() }),
        }
    }
}
