//! A file on its way in, until its last byte is there: `whole` says what follows then.

use haul_proto::entry::Meta;
use haul_proto::entry_extras::{Attribute, More};
use haul_proto::journal::{Header, Record};
use haul_proto::overwrite_policy::Decision;
use haul_proto::path::Name;
use haul_proto::sync::Change;
use haul_proto::wire::resource_metrics::Stage;
use haul_proto::wire::sparse::Map;
use rustix::fs::{CWD, FallocateFlags, FileType, Mode, OFlags, SeekFrom, fallocate, ftruncate, openat, seek};
use rustix::io::Errno;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use super::Target;
use super::basis::Basis;
use super::checkpoint::Saving;
use super::examine::Decided;
use super::in_place::InPlace;
use super::journal::{Journal, Leaf};
use super::landing::Landing;
use super::order::Order;
use super::proof::Part;
use super::removal::TreeRemoval;
use super::sink::Sink;
use super::sum::Checking;
use super::temporary::Unfinished;
use crate::fs::{Dir, Look};
use crate::io::storage::Access;
use crate::io::storage::cache;
use crate::io::storage::cache::{DropBehind, WRITE_BACK_FILE_MIN};
use crate::io::storage::calls::{write_at, write_on};
use crate::io::storage::file::Opened;
use crate::io::storage::holes::punch;
use crate::io::storage::policy::Way;
use crate::metrics::stage_timer::during;
use crate::sys::clone_range::clone_range;
use crate::sys::describe::describe;
use crate::sys::sync::lock;

/// Stands for the size of what has one only when it has ended.
pub const UNKNOWN_SIZE: u64 = u64::MAX;

/// A file that is needed.
pub struct Incoming {
    place: Place,
    size: u64,
    meta: Meta,
    opened: OnceLock<Result<Arc<Opened>, String>>,
    /// Its space is allocated, as far as that can be, or it has its length: see [`Incoming::make_room`].
    room: OnceLock<Result<(), Errno>>,
    /// Held while a frame is written: see [`Incoming::write_frame`].
    writing: Mutex<DropBehind>,
    /// It was found that it cannot share blocks with its source.
    unshared: AtomicBool,
    /// How a broken run can be gone on with.
    recording: Option<Box<Recording>>,
    /// Its frames that the disk did not return as they were sent, and that come again.
    sent_again: OnceLock<Vec<Range<u64>>>,
    /// Its frames are written in their order, and wait here for that.
    pub(super) order: Option<Box<Order>>,
    /// Its digest, where one is computed here.
    pub(super) sum: Checking,
    sink: Option<Arc<Sink>>,
    /// The old file in its place, where something can be made of that.
    basis: Option<Box<Basis>>,
    /// What few files have.
    more: Option<Box<More>>,
    /// It takes the place of a directory.
    pub(super) replaces_tree: Option<Box<TreeRemoval>>,
    /// What is reported when it is there.
    pub(super) change: Option<Change>,
    /// Which of its attributes could not be set, and why.
    lacking: OnceLock<String>,
}

/// What is recorded of a file while it grows.
struct Recording {
    leaf: Leaf,
    header: Header,
    journal: OnceLock<Option<Journal>>,
    /// What an earlier run left is to be compared with the source.
    compare: bool,
    saving: Saving,
    /// An earlier run has left something in it: where there is a hole now, data may be.
    may_hold_data: bool,
}

impl Recording {
    fn new(leaf: Leaf, header: Header) -> Self {
        let (journal, saving) = (OnceLock::new(), Saving::default());
        Self { leaf, header, journal, compare: false, saving, may_hold_data: false }
    }
}

/// Where a file goes.
#[derive(Clone)]
pub enum Place {
    /// A name in a directory.
    Spot(Spot),
    /// A device, FIFO or socket, and whether frames may be written anywhere in it.
    Special {
        /// Its path.
        path: PathBuf,
        /// Whether that is so.
        seekable: bool,
    },
}

/// A name in a directory.
#[derive(Clone)]
pub struct Spot {
    /// The directory.
    pub dir: Dir,
    /// The final name.
    pub name: Name,
    /// Whether it takes the place of something.
    pub replaces: bool,
}

impl Incoming {
    /// A file that gets a name.
    pub fn new(spot: Spot, size: u64, meta: Meta) -> Self {
        Self::at(Place::Spot(spot), size, meta, OnceLock::new())
    }

    /// The same, with a journal of what is written, which begins with `header`.
    pub fn recorded(spot: Spot, meta: Meta, leaf: Leaf, header: Header) -> Self {
        let size = header.size;
        Self { recording: Some(Box::new(Recording::new(leaf, header))), ..Self::new(spot, size, meta) }
    }

    /// The same, of which an earlier run left a part.
    pub fn resumed(spot: Spot, meta: Meta, leaf: Leaf, header: Header, part: Part) -> Self {
        let size = header.size;
        let journal = OnceLock::from(Some(part.journal));
        let recording =
            Recording { journal, compare: part.compare, may_hold_data: true, ..Recording::new(leaf, header) };
        let opened = OnceLock::from(Ok(part.file));
        Self { recording: Some(Box::new(recording)), ..Self::at(Place::Spot(spot), size, meta, opened) }
    }

    /// A device, FIFO or socket. Says whether frames may be written to it in any order, unless that is not wanted.
    pub fn special(path: &Path, size: u64, in_order: bool) -> io::Result<(Self, bool)> {
        let kind = Look::from(&rustix::fs::stat(path)?).kind;
        let opened = OnceLock::new();
        let mut seekable = false;
        if matches!(kind, FileType::CharacterDevice | FileType::BlockDevice) {
            let device = openat(CWD, path, OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty())?;
            seekable = !in_order && seek(&device, SeekFrom::Current(0)).is_ok();
            let _ = opened.set(Ok(Arc::new(Opened::new(device, Access::Write)?)));
        }
        let place = Place::Special { path: path.into(), seekable };
        let order = (!seekable).then(Box::default);
        Ok((Self { order, ..Self::at(place, size, Meta::default(), opened) }, seekable))
    }

    /// What is open already and takes bytes in order.
    pub fn pipe(sink: Arc<Sink>, size: u64) -> Self {
        let place = Place::Special { path: PathBuf::new(), seekable: false };
        let incoming = Self::at(place, size, Meta::default(), OnceLock::new());
        Self { order: Some(Box::default()), sink: Some(sink), ..incoming }
    }

    /// What it goes into, if that was open before it came.
    pub fn sink(&self) -> Option<&Sink> {
        self.sink.as_deref()
    }

    fn at(place: Place, size: u64, meta: Meta, opened: OnceLock<Result<Arc<Opened>, String>>) -> Self {
        Self {
            place,
            size,
            meta,
            opened,
            room: OnceLock::new(),
            writing: Mutex::default(),
            unshared: AtomicBool::new(false),
            recording: None,
            sent_again: OnceLock::new(),
            order: None,
            sum: Checking::default(),
            sink: None,
            basis: None,
            more: None,
            replaces_tree: None,
            change: None,
            lacking: OnceLock::new(),
        }
    }

    /// The same, of which this old file has something.
    pub fn of(self, basis: Option<Basis>) -> Self {
        Self { basis: basis.map(Box::new), ..self }
    }

    /// The old file in its place.
    pub fn basis(&self) -> Option<&Basis> {
        self.basis.as_deref()
    }

    /// What is known of it where it is changed in its own place.
    pub fn in_place(&self) -> Option<(&Basis, &InPlace)> {
        let basis = self.basis()?;
        Some((basis, basis.in_place.as_ref()?))
    }

    /// The journal, once there is one.
    pub fn journal(&self) -> Option<&Journal> {
        self.recording.as_ref()?.journal.get()?.as_ref()
    }

    /// Whether what an earlier run left is to be compared with the source.
    pub fn is_to_be_compared(&self) -> bool {
        self.recording.as_ref().is_some_and(|recording| recording.compare)
    }

    /// A frame is written.
    pub fn record(&self, index: u64, record: &Record) {
        if let Some(journal) = self.journal() {
            journal.record(index, record);
        }
    }

    /// Where its journal lies, and how far its checkpoints are; `None` where it has none.
    pub fn saving(&self) -> Option<(&Dir, &Saving)> {
        self.recording.as_deref().map(|recording| (&recording.leaf.dir, &recording.saving))
    }

    /// The same file, of which nothing has come yet.
    pub fn afresh(&self) -> Self {
        let again = |recording: &Recording| Box::new(Recording::new(recording.leaf.clone(), recording.header.clone()));
        let recording = self.recording.as_deref().map(again);
        let (sum, more) = (self.sum.again(), self.more.clone());
        let (replaces_tree, change) = (self.replaces_tree.clone(), self.change);
        Self {
            recording,
            sum,
            more,
            replaces_tree,
            change,
            ..Self::at(self.place.clone(), self.size, self.meta, OnceLock::new())
        }
    }

    /// These frames come again, into what there is of it. Once.
    pub fn send_again(&self, frames: Vec<Range<u64>>) {
        let _ = self.sent_again.set(frames);
    }

    /// Its frames that came again; `None` if none did.
    pub fn sent_again(&self) -> Option<&[Range<u64>]> {
        self.sent_again.get().map(Vec::as_slice)
    }

    /// Where it goes.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The directory that it gets its name in; `None` for what is no file.
    pub fn dir(&self) -> Option<&Dir> {
        match &self.place {
            Place::Spot(spot) => Some(&spot.dir),
            Place::Special { .. } => None,
        }
    }

    /// Its metadata, as offered.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The file, if a stream has needed it.
    pub fn opened(&self) -> Option<&Result<Arc<Opened>, String>> {
        self.opened.get()
    }

    /// Bytes, as offered.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether its size is known only when it has ended.
    pub fn is_open_ended(&self) -> bool {
        self.size == UNKNOWN_SIZE
    }

    /// Whether it is a device, FIFO or socket.
    pub fn is_special(&self) -> bool {
        matches!(self.place, Place::Special { .. })
    }

    /// Where it goes, if that is a name in a directory.
    pub fn spot(&self) -> Option<&Spot> {
        match &self.place {
            Place::Spot(spot) => Some(spot),
            Place::Special { .. } => None,
        }
    }

    /// From the landing down.
    pub fn relative(&self) -> Vec<u8> {
        match &self.place {
            Place::Spot(spot) => spot.dir.path_of(spot.name.as_bytes()),
            Place::Special { .. } => Vec::new(),
        }
    }

    /// As it is shown.
    pub fn path(&self, landing: &Landing) -> Vec<u8> {
        landing.path(&self.relative())
    }

    /// The file, opened by the first stream that needs it.
    pub fn open_once(&self, target: &Target) -> Result<Arc<Opened>, String> {
        let open = || {
            let opened = Opened::new(self.open(target)?, Access::Write).map_err(|error| describe(&error))?;
            Ok(Arc::new(opened))
        };
        self.opened.get_or_init(open).clone()
    }

    /// Allocates the whole file before its first write past the page cache: writes that extend a file take turns in the
    /// kernel, and wait for each other there. Where the file system cannot, they do. Where holes are to stay, the file gets
    /// its length and nothing else.
    pub fn make_room(&self, file: &Opened) -> io::Result<()> {
        let fd = &**file.fd();
        let allocate = || match fallocate(fd, FallocateFlags::empty(), 0, self.size) {
            Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => Err(error),
            _ => Ok(()),
        };
        let made = self.room.get_or_init(|| if self.has_holes() { ftruncate(fd, self.size) } else { allocate() });
        Ok((*made)?)
    }

    fn has_holes(&self) -> bool {
        self.more.as_ref().is_some_and(|more| more.data_bytes.is_some())
    }

    /// Writes a frame at its offset, through the page cache.
    ///
    /// Streams that write to one file take turns here. In the kernel they would too (a write through the page cache
    /// holds the inode's lock), but there the one that waits spins, and burns a core that others have work for.
    pub fn write_frame(&self, file: &Opened, bytes: &[u8], offset: u64, way: &Way) -> io::Result<()> {
        let len = bytes.len() as u64;
        let fd = &**file.fd();
        match &self.place {
            Place::Special { seekable: true, .. } => return write_at(fd, bytes, offset),
            Place::Special { seekable: false, .. } => return write_on(fd, bytes),
            Place::Spot(_) => {}
        }
        let mut turn = during(Stage::Turn, || lock(&self.writing));
        write_at(fd, bytes, offset)?;
        let far_behind = if way.drop { turn.wrote(offset, len) } else { None };
        drop(turn);
        if !file.in_memory() && (way.drop || self.size >= WRITE_BACK_FILE_MIN) {
            cache::write_back(fd, offset, len);
        }
        if let Some((offset, len)) = far_behind {
            cache::written_back(fd, offset, len);
            cache::drop_pages(fd, offset, len);
        }
        Ok(())
    }

    /// Whether holes are left in it: the source said that it has some, and it is a file whose length is known.
    pub fn keeps_holes(&self) -> bool {
        self.has_holes() && !self.is_special() && !self.is_open_ended()
    }

    fn may_hold_data(&self) -> bool {
        self.recording.as_ref().is_some_and(|recording| recording.may_hold_data)
    }

    /// Writes what is data of a frame, and leaves holes where it has them.
    pub fn write_sparse(&self, file: &Opened, bytes: &[u8], offset: u64, map: &Map) -> io::Result<()> {
        let fd = &**file.fd();
        let _turn = during(Stage::Turn, || lock(&self.writing));
        // A hole at the end is part of the file, too.
        self.make_room(file)?;
        for (is_data, range) in map.runs(bytes.len()) {
            let at = offset + range.start as u64;
            match is_data {
                true => write_at(fd, &bytes[range], at)?,
                // What an earlier run left may lie there.
                false if self.may_hold_data() || self.sent_again().is_some() => punch(fd, at, range.len() as u64)?,
                false => {}
            }
        }
        Ok(())
    }

    /// The same with what few files have.
    pub fn with(self, more: Option<Box<More>>) -> Self {
        Self { more, ..self }
    }

    /// Its extended attributes, where they are kept.
    pub fn attributes(&self) -> Option<&[Attribute]> {
        self.more.as_ref()?.attributes.as_deref()
    }

    /// The same, where this was decided.
    pub(super) fn decided(self, decided: &Decided) -> Self {
        let replaces_tree = (decided.decision == Decision::ReplaceTree).then(|| Box::new(decided.removal.clone()));
        Self { replaces_tree, change: decided.change, ..self }
    }

    /// Records an attribute that could not be set.
    pub fn lacks(&self, refused: Option<String>) {
        refused.into_iter().for_each(|text| drop(self.lacking.set(text)));
    }

    /// Why it does not have all of its attributes.
    pub fn lacking(&self) -> Option<&str> {
        self.lacking.get().map(String::as_str)
    }

    /// Whether it is worth trying to share blocks with it.
    pub fn takes_blocks(&self) -> bool {
        !self.is_special() && !self.unshared.load(Ordering::Relaxed)
    }

    /// Shares a range of its source instead of writing it. Streams take turns, for the reason that
    /// [`Incoming::write_frame`] has. What fails once is not tried again with this file.
    pub fn share_range(&self, file: &Opened, source: &Opened, offset: u64, len: u64) -> io::Result<()> {
        let _turn = lock(&self.writing);
        let shared = clone_range(&**source.fd(), &**file.fd(), offset, len);
        self.unshared.fetch_or(shared.is_err(), Ordering::Relaxed);
        shared
    }

    /// Nothing more is written: a stream that has not opened it yet is not to.
    pub fn void(&self) {
        let _ = self.opened.set(Err("it was offered anew".into()));
    }

    /// It cannot be finished now. What the next run can go on with stays, if it is to.
    pub fn give_up(&self, target: &Target) {
        if !target.request.keep_partial || self.journal().is_none() {
            self.discard(&target.unfinished);
        }
    }

    /// Removes what there is of it.
    pub fn discard(&self, unfinished: &Unfinished) {
        self.sink.iter().for_each(|sink| sink.abandon());
        let Place::Spot(spot) = &self.place else { return };
        unfinished.discard(spot);
    }

    fn open(&self, target: &Target) -> Result<OwnedFd, String> {
        match &self.place {
            Place::Special { path, .. } => open_special(path).map_err(|error| describe(&error)),
            Place::Spot(spot) => {
                let leaf = self.recording.as_ref().map(|recording| &recording.leaf);
                let file = target.unfinished.open(spot, leaf, &target.rivals)?;
                if let Some(Recording { leaf, header, journal, .. }) = self.recording.as_deref() {
                    // Without a journal a broken run begins anew; that is no reason not to copy.
                    journal.get_or_init(|| Journal::create(leaf, header).ok());
                }
                Ok(file)
            }
        }
    }
}

/// Waits for a FIFO's reader; connects to a socket.
fn open_special(path: &Path) -> io::Result<OwnedFd> {
    match Look::from(&rustix::fs::stat(path)?).kind {
        FileType::Socket => Ok(UnixStream::connect(path)?.into()),
        _ => Ok(openat(CWD, path, OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty())?),
    }
}
