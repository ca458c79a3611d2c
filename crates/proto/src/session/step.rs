//! Interface between the target's session and its engine: steps to take, and their results.

use std::sync::Arc;

use crate::entry::{Entry, Timestamp};
use crate::ids::{EntryId, PathId, StreamId};
use crate::integrity::{Digest, FrameTree};
use crate::path::Name;
use crate::session::differing::Differing;
use crate::wire::message::TransferNeed;

/// State of an entry's parent directory.
#[derive(Debug)]
pub enum ParentDirectory<H> {
    /// No parent: the entry is a source argument.
    Operand(u32),
    /// The open directory.
    Open(Arc<H>),
    /// The entry replaces this file, which is not wanted any more: remove its received data.
    Again(Arc<H>),
    /// The directory was refused, and so are its children.
    Refused,
}

/// The engine's decision about an offered entry.
#[derive(Debug)]
pub enum EntryAnswer<H> {
    /// Nothing to transfer: it exists, or (a link) was created at once.
    Settled,
    /// As Settled, and known to be equal to the source's, so that a source that removes its files may remove it.
    Same,
    /// A file: send it. A directory: send its children.
    Needed(Arc<H>),
    /// A large file with a partial file. Its verified and missing frames follow by
    /// [`super::target::TargetSession::holds`] and [`super::target::TargetSession::lacks`].
    Partial(Arc<H>),
    /// A large file with a base file. The base file's hashes follow by [`super::target::TargetSession::mark`], or by
    /// [`super::target::TargetSession::send_signatures`] and [`super::target::TargetSession::lacks`].
    Delta(Arc<H>),
    /// A non-empty file to compare frame by frame with an existing one of the same size. Nothing is sent. The frames'
    /// values follow by [`super::target::TargetSession::holds`].
    Compare(Arc<H>),
    /// A file to send in sequential order.
    NeededInOrder(Arc<H>),
    /// Refused. The engine has reported it, unless a directory above it was refused.
    Refused,
}

impl<H> EntryAnswer<H> {
    /// Returns the answer as the source receives it.
    pub(super) fn need(&self) -> TransferNeed {
        match self {
            Self::Settled => TransferNeed::Nothing,
            Self::Same => TransferNeed::Same,
            Self::Needed(_) => TransferNeed::All,
            Self::Partial(_) => TransferNeed::Rest,
            Self::Delta(_) => TransferNeed::Delta,
            Self::Compare(_) => TransferNeed::Compare,
            Self::NeededInOrder(_) => TransferNeed::InOrder,
            Self::Refused => TransferNeed::Refused,
        }
    }
}

/// The engine's next step after a message or frame.
#[derive(Debug)]
pub enum TargetStep<H> {
    /// No step.
    None,
    /// Check these entries and reply to each with [`super::target::TargetSession::answer`], in order.
    Examine(EntryId, Vec<Entry>),
    /// This entry is verified and whole (a directory: all its entries are complete). Set its metadata and final name,
    /// then call [`super::target::TargetSession::settle_entry`].
    Finish(FinishedEntry<H>),
    /// All frames of this large file of the given size exist. Compute the rest of its requested digest, then call
    /// [`super::target::TargetSession::summed`]; or settle it.
    Sum(EntryId, Arc<H>, u64),
    /// The received data of this file is void: remove it, then call [`super::target::TargetSession::abandoned`]. The flag
    /// is set if the file has vanished at the source, which is no failure.
    Abandon(EntryId, Arc<H>, bool),
    /// Open this number of further streams over this path, if this end connects.
    Connect(u16, PathId),
    /// Use small segments on later streams over this path, if this end connects.
    SmallSegments(PathId),
    /// The source has offered all listed source arguments before this number.
    Passed(u32),
    /// The source excludes these names in this directory.
    LeftOut(Arc<H>, Vec<Name>),
    /// These names of this directory are gone at the source.
    Vanished(Arc<H>, Vec<Name>),
    /// Name of a user or group at the source.
    Owner {
        /// Whether this is a group.
        is_group: bool,
        /// Numeric id at the source.
        id: u32,
        /// Name at the source.
        name: Vec<u8>,
    },
    /// A filter file in this directory: the index of its name, and its contents.
    Patterns(EntryId, u8, Vec<u8>),
    /// The source has given up these streams; stop reading them.
    StreamsLost(Vec<StreamId>),
    /// The frames do not match the source's digest of the file: report it, remove them, then call
    /// [`super::target::TargetSession::settle_entry`].
    Mismatch(EntryId, Arc<H>),
    /// A file under [`EntryAnswer::Compare`] differs in these frames: report it, then call
    /// [`super::target::TargetSession::settle_entry`].
    Differs(EntryId, Arc<H>, Differing),
}

/// An entry that is whole.
#[derive(Debug)]
pub struct FinishedEntry<H> {
    /// The entry.
    pub entry: EntryId,
    /// The engine's handle.
    pub handle: Arc<H>,
    /// The end of a file received in frames.
    pub end: Option<Box<FileEnd>>,
    /// For a directory: whether all its entries were offered, or excluded on purpose.
    pub complete: bool,
}

/// Properties of a fully received file.
#[derive(Debug, Clone)]
pub struct FileEnd {
    /// Size in bytes.
    pub size: u64,
    /// Modification time.
    pub modified: Timestamp,
    /// BLAKE3 of the file.
    pub digest: Digest,
    /// Values of its frames, where they are kept ([`super::target::TargetSession::keep_values`]).
    pub tree: FrameTree,
}

/// A whole file with other data on disk than was sent.
#[derive(Debug)]
pub struct LostFile<H> {
    /// The entry.
    pub entry: EntryId,
    /// The engine's new handle.
    pub handle: Arc<H>,
    /// For a file received in frames: its size and its intact frames. All frames missing from the tree have to be
    /// retransmitted.
    pub left: Option<(u64, Box<FileEnd>)>,
}
