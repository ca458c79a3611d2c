//! What passes between the target's machine and its engine: what is to be done, and what came of it.

use std::sync::Arc;

use crate::entry::{Entry, Timestamp};
use crate::ids::{EntryId, PathId, StreamId};
use crate::integrity::{Digest, FrameTree};
use crate::path::Name;
use crate::session::differing::Differing;

/// What a directory is to its children.
#[derive(Debug)]
pub enum ParentDirectory<H> {
    /// There is none: the entry is an operand.
    Operand(u32),
    /// They go in here.
    Open(Arc<H>),
    /// The entry takes the place of this file, of which nothing is needed any more: remove what came of it.
    Again(Arc<H>),
    /// It was refused, and so are they.
    Refused,
}

/// What the engine found and decided about an offered entry.
#[derive(Debug)]
pub enum EntryAnswer<H> {
    /// Nothing has to be sent: it is there, or (a link) was made at once.
    Settled,
    /// The same, and what is there is known to be what the source has: who wants to remove that may do so.
    Same,
    /// A file: send it. A directory: send its children.
    Needed(Arc<H>),
    /// A large file: an earlier run left a part of it. What is proven of it, and what is lacking, follows by
    /// [`super::target::TargetSession::holds`] and [`super::target::TargetSession::lacks`].
    Partial(Arc<H>),
    /// A large file: an old one stands in its place. What that has follows by [`super::target::TargetSession::mark`], or by
    /// [`super::target::TargetSession::tell_sums`] and [`super::target::TargetSession::lacks`].
    Delta(Arc<H>),
    /// A file that is not empty: one of its size is here, and frame by frame it is to be compared. Nothing of it is sent.
    /// Their values follow by [`super::target::TargetSession::holds`].
    Compare(Arc<H>),
    /// A file: send it from its beginning to its end.
    NeededInOrder(Arc<H>),
    /// It cannot be taken; the engine has reported it, unless a directory above it was.
    Refused,
}

/// What follows for the engine from a message or a frame.
#[derive(Debug)]
pub enum TargetStep<H> {
    /// Nothing.
    None,
    /// Look at these entries and answer each with [`super::target::TargetSession::answer`], in order.
    Examine(EntryId, Vec<Entry>),
    /// This is whole and proven (a directory: everything in it is settled): give it its metadata and its name, then
    /// call [`super::target::TargetSession::settle`].
    Finish(FinishedEntry<H>),
    /// All frames of this large file of so many bytes are there: compute what is left of its other digest, then call
    /// [`super::target::TargetSession::summed`]; or settle it.
    Sum(EntryId, Arc<H>, u64),
    /// What came of this file is void: report it, remove it, then call [`super::target::TargetSession::abandoned`].
    Abandon(EntryId, Arc<H>, String),
    /// Make so many more streams over this path, if this end makes them.
    Connect(u16, PathId),
    /// Of the listed operands before this number, nothing more will be offered.
    Passed(u32),
    /// The source has these names in this directory and does not offer them.
    LeftOut(Arc<H>, Vec<Name>),
    /// The source calls this user, or group, so.
    Owner {
        /// Whether it is a group.
        is_group: bool,
        /// Its number there.
        id: u32,
        /// Its name.
        name: Vec<u8>,
    },
    /// In this directory lies a file with patterns: which of their names it has, and what is in it.
    Patterns(EntryId, u8, Vec<u8>),
    /// The source has given up these streams: nobody needs to listen to them any more.
    StreamsLost(Vec<StreamId>),
    /// The frames are not the file that the source says they are: report, remove, then call [`super::target::TargetSession::settle`].
    Mismatch(EntryId, Arc<H>),
    /// A file that was answered by [`EntryAnswer::Compare`] is not the same in these frames: report, then call
    /// [`super::target::TargetSession::settle`].
    Differs(EntryId, Arc<H>, Differing),
}

/// An entry that is whole.
#[derive(Debug)]
pub struct FinishedEntry<H> {
    /// The entry.
    pub entry: EntryId,
    /// What the engine knows it by.
    pub handle: Arc<H>,
    /// For a file that came in frames.
    pub end: Option<Box<FileEnd>>,
    /// For a directory: whether all that is in it was offered, or left out on purpose.
    pub complete: bool,
}

/// What is known of a file that came in frames, when all have come.
#[derive(Debug, Clone)]
pub struct FileEnd {
    /// Bytes.
    pub size: u64,
    /// Its time.
    pub modified: Timestamp,
    /// Its BLAKE3.
    pub digest: Digest,
    /// The values of its frames, as far as they are kept ([`super::target::TargetSession::keep_values`]).
    pub tree: FrameTree,
}

/// A whole file that is not on the disk as it was sent.
#[derive(Debug)]
pub struct LostFile<H> {
    /// The entry.
    pub entry: EntryId,
    /// What the engine knows it by from now on.
    pub handle: Arc<H>,
    /// For a file that came in frames: its size, and what is left of it. The frames that are not in the tree have to come
    /// again.
    pub left: Option<(u64, Box<FileEnd>)>,
}
