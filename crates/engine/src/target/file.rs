//! A file on its way in: without a name or under a temporary one until it is whole, then renamed. A final name is
//! absent, old or complete, never partial.

use haul_proto::journal::{Header, Record};
use haul_proto::manifest::{Meta, Stamp};
use haul_proto::path::Name;
use rustix::fs::{AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags, SeekFrom, fallocate, linkat, openat, seek};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use super::Target;
use super::journal::{Journal, Leaf};
use super::landing::Landing;
use super::proof::Part;
use super::temporary::Unfinished;
use crate::fs::meta::apply;
use crate::fs::{Dir, Keep, Look, describe, mode_without_preserve};
use crate::os::clone_range::clone_range;
use crate::storage::cache::{self, DropBehind, WRITE_BACK_FILE_MIN};
use crate::storage::calls::{write_at, write_on};
use crate::storage::file::Opened;
use crate::storage::policy::Way;
use crate::storage::{Access, Method};
use crate::worker::lock;

/// A file that is needed.
pub struct Incoming {
    place: Place,
    size: u64,
    meta: Meta,
    opened: OnceLock<Result<Arc<Opened>, String>>,
    /// Its space is allocated, as far as that can be: see [`Incoming::make_room`].
    room: OnceLock<Result<(), Errno>>,
    /// Held while a frame is written: see [`Incoming::write_frame`].
    writing: Mutex<DropBehind>,
    /// It was found that it cannot share blocks with its source.
    unshared: AtomicBool,
    /// How a broken run can be gone on with.
    recording: Option<Box<Recording>>,
}

/// What is recorded of a file while it grows.
struct Recording {
    leaf: Leaf,
    header: Header,
    journal: OnceLock<Option<Journal>>,
    /// What an earlier run left is to be compared with the source.
    compare: bool,
}

/// Where a file goes.
enum Place {
    /// A name in a directory.
    Spot(Spot),
    /// A device, FIFO or socket, and whether frames may be written anywhere in it.
    Special { path: PathBuf, seekable: bool },
}

/// A name in a directory.
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
        let recording = Recording { leaf, header, journal: OnceLock::new(), compare: false };
        Self { recording: Some(Box::new(recording)), ..Self::new(spot, size, meta) }
    }

    /// The same, of which an earlier run left a part.
    pub fn resumed(spot: Spot, meta: Meta, leaf: Leaf, header: Header, part: Part) -> Self {
        let size = header.size;
        let recording = Recording { leaf, header, journal: OnceLock::from(Some(part.journal)), compare: part.compare };
        let opened = OnceLock::from(Ok(part.file));
        Self { recording: Some(Box::new(recording)), ..Self::at(Place::Spot(spot), size, meta, opened) }
    }

    /// A device, FIFO or socket. Says whether frames may be written to it in any order.
    pub fn special(path: &Path, size: u64) -> io::Result<(Self, bool)> {
        let kind = Look::from(&rustix::fs::stat(path)?).kind;
        let opened = OnceLock::new();
        let mut seekable = false;
        if matches!(kind, FileType::CharacterDevice | FileType::BlockDevice) {
            let device = openat(CWD, path, OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty())?;
            seekable = seek(&device, SeekFrom::Current(0)).is_ok();
            let _ = opened.set(Ok(Arc::new(Opened::new(device, Access::Write)?)));
        }
        let place = Place::Special { path: path.into(), seekable };
        Ok((Self::at(place, size, Meta::default(), opened), seekable))
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
        }
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

    /// What was written so far, to be read.
    pub fn open_to_read(&self) -> io::Result<OwnedFd> {
        match (&self.place, self.opened.get()) {
            (Place::Spot(spot), Some(Ok(file))) => Unfinished::open_to_read(spot, file.fd()),
            _ => Err(io::Error::from(Errno::BADF)),
        }
    }

    /// Bytes, as offered.
    pub fn size(&self) -> u64 {
        self.size
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
    /// kernel, and wait for each other there. Where the file system cannot, they do.
    pub fn make_room(&self, file: &Opened) -> io::Result<()> {
        let made = self.room.get_or_init(|| match fallocate(&**file.fd(), FallocateFlags::empty(), 0, self.size) {
            Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => Err(error),
            _ => Ok(()),
        });
        Ok((*made)?)
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
        let mut turn = lock(&self.writing);
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

    /// Gives the file its metadata and its final name.
    pub fn finish(&self, target: &Target, modified: Stamp) -> Result<(), String> {
        let Some(Ok(file)) = self.opened.get() else { return Err("nothing of it was written".into()) };
        let file = &**file.fd();
        let Place::Spot(spot) = &self.place else {
            return flush_where_close_tells(file).map_err(|error| describe(&error));
        };
        target.unfinished.finish(spot, file, || {
            flush_where_close_tells(file)?;
            apply(file, &Meta { modified, ..self.meta }, self.keep(target, true)).map(|_| ())
        })
    }

    /// Writes a whole small file and gives it its name.
    pub fn write_whole(&self, target: &Target, bytes: &[u8], modified: Stamp) -> Result<(), String> {
        let Place::Spot(spot) = &self.place else { return self.write_at_once(target, bytes) };
        let meta = Meta { modified, ..self.meta };
        if !spot.replaces && target.nameless_files.load(Ordering::Relaxed) {
            match self.write_nameless(target, spot, bytes, &meta) {
                Err(error) if is_unsupported(&error) => target.nameless_files.store(false, Ordering::Relaxed),
                result => return result.map_err(|error| describe(&error)),
            }
        }
        self.write_at_once(target, bytes)?;
        self.finish(target, modified)
    }

    fn write_at_once(&self, target: &Target, bytes: &[u8]) -> Result<(), String> {
        let file = self.open_once(target)?;
        let way = Way { method: Method::Buffered, trial: None, drop: false, cached: false };
        self.write_frame(&file, bytes, 0, &way).map_err(|error| describe(&error))
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
        let Place::Spot(spot) = &self.place else { return };
        unfinished.discard(spot);
    }

    /// A file without a name: written, then linked under its final one. Nothing of it can be left behind.
    fn write_nameless(&self, target: &Target, spot: &Spot, bytes: &[u8], meta: &Meta) -> io::Result<()> {
        let dir = spot.dir.fd()?;
        let mode = if target.request.preserve { 0o600 } else { u32::from(self.meta.mode & 0o777) };
        let file = openat(&*dir, c".", OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::from_raw_mode(mode))?;
        write_at(&file, bytes, 0)?;
        let _ = apply(&file, meta, self.keep(target, false))?;
        give_name(&file, &dir, &spot.name)
    }

    /// What metadata a file gets: with `set_mode`, also the mode, where the umask has not been at work.
    fn keep(&self, target: &Target, set_mode: bool) -> Keep {
        let mode = match target.request.preserve {
            true => Some(self.meta.mode),
            false => set_mode.then(|| mode_without_preserve(self.meta.mode, target.umask)),
        };
        Keep { owner: target.request.preserve, mode, times: true }
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

/// Gives a file that has none a name, where nothing has it.
pub(super) fn give_name(file: &OwnedFd, dir: &OwnedFd, name: &Name) -> io::Result<()> {
    match linkat(file, c"", dir, name.as_bytes(), AtFlags::EMPTY_PATH) {
        // Before Linux 6.10 that takes a capability; through proc(5) it never did.
        Err(Errno::NOENT) => {
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            Ok(linkat(CWD, path, dir, name.as_bytes(), AtFlags::SYMLINK_FOLLOW)?)
        }
        linked => Ok(linked?),
    }
}

/// Waits for a FIFO's reader; connects to a socket.
fn open_special(path: &Path) -> io::Result<OwnedFd> {
    match Look::from(&rustix::fs::stat(path)?).kind {
        FileType::Socket => Ok(UnixStream::connect(path)?.into()),
        _ => Ok(openat(CWD, path, OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty())?),
    }
}

/// Network file systems and FUSE tell of a full disk or a lost server only when a file is flushed: there it is
/// flushed before it gets its name. So is a block device at the end.
fn flush_where_close_tells(file: &OwnedFd) -> io::Result<()> {
    /// NFS, SMB 1 to 3, FUSE, Ceph, 9p, Lustre, AFS (statfs(2), linux/magic.h).
    const MAGICS: [u64; 9] =
        [0x6969, 0x517b, 0xff53_4d42, 0xfe53_4d42, 0x6573_5546, 0x00c3_6400, 0x0102_1997, 0x0bd0_0bd0, 0x5346_414f];
    #[allow(clippy::unnecessary_cast, clippy::cast_sign_loss)]
    let magic = rustix::fs::fstatfs(file)?.f_type as u64 & 0xffff_ffff;
    let block_device = || Look::at_fd(file).is_ok_and(|look| look.kind == FileType::BlockDevice);
    if MAGICS.contains(&magic) || block_device() { Ok(rustix::fs::fsync(file)?) } else { Ok(()) }
}

fn is_unsupported(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT | Errno::NOSYS | Errno::PERM | Errno::XDEV)
    )
}
