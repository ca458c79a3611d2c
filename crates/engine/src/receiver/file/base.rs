//! A base file: the existing file in the place of a new one.

use super::patch::InPlaceUpdate;
use crate::fs::{Dir, FileIdentity, FileStat, FollowLinks};
use crate::io::storage::FileAccess;
use crate::io::storage::calls::read_at;
use crate::io::storage::extents::FileExtents;
use crate::io::storage::file::OpenedFile;
use crate::sys::describe::describe;
use crate::sys::sync::lock;
use haul_proto::delta::DeltaMethod;
use haul_proto::delta::base::{BaseFile, BaseId, FramePosition};
use haul_proto::delta::instructions::{DeltaInstruction, make};
use haul_proto::delta::rolling::RollingSignature;
use haul_proto::entry::Timestamp;
use haul_proto::error::ProtocolError;
use haul_proto::path::Name;
use rustix::fs::{FileType, Mode, OFlags, openat};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// Reported for a base file that has changed since its check.
pub const OLD_CHANGED: &str =
    "the base file changed at the target during the copy\nrerun the command when nothing writes to it";

/// Sums of blocks.
#[derive(Default)]
struct Gathered {
    /// By the number of the first block.
    parts: BTreeMap<u64, Vec<RollingSignature>>,
    /// Blocks in all parts.
    count: u64,
}

/// An old file.
pub struct BaseSource {
    dir: Dir,
    name: Name,
    /// Bytes.
    pub size: u64,
    modified: Timestamp,
    /// Which file it is.
    pub identity: FileIdentity,
    /// How it is found out what it has.
    pub method: DeltaMethod,
    /// The new one is made in its place.
    pub in_place: Option<InPlaceUpdate>,
    /// Open to be copied from, once a frame is made of it.
    opened: OnceLock<Result<Arc<OpenedFile>, String>>,
    /// Its extents, for all who read a part of it.
    extents: Arc<FileExtents>,
    /// Sums of its blocks until all are there.
    sums: Mutex<Gathered>,
    /// Frames to report as missing after the signatures; all if unset.
    wanted: OnceLock<Vec<Range<u64>>>,
    /// Some of it could not be read.
    failed: AtomicBool,
    /// It is not signed: an earlier delta of it was wrong, or the host's policy forbids signatures.
    pub is_lost: bool,
}

impl BaseSource {
    /// A file of this name, which stays as it is.
    pub fn of(dir: Dir, name: Name, method: DeltaMethod) -> io::Result<Self> {
        let look = FileStat::at_name(&*dir.fd()?, &name, FollowLinks::Itself)?;
        match look.kind {
            FileType::RegularFile => Ok(Self::new(dir, name, &look, method)),
            _ => Err(io::Error::other("is not a regular file")),
        }
    }

    pub fn new(dir: Dir, name: Name, look: &FileStat, method: DeltaMethod) -> Self {
        Self {
            dir,
            name,
            size: look.size,
            modified: look.meta.modified,
            identity: look.identity,
            method,
            in_place: None,
            opened: OnceLock::new(),
            extents: Arc::default(),
            sums: Mutex::default(),
            wanted: OnceLock::new(),
            failed: AtomicBool::new(false),
            is_lost: false,
        }
    }

    /// The same file, updated in place or not, and usable as a base or not.
    pub fn with(self, in_place: Option<InPlaceUpdate>, is_lost: bool) -> Self {
        Self { in_place, is_lost, ..self }
    }

    /// Which file it is.
    pub fn id(&self) -> BaseId {
        BaseId { device: self.identity.device, inode: self.identity.inode }
    }

    /// From the landing down.
    pub fn path(&self) -> Vec<u8> {
        self.dir.path_of(self.name.as_bytes())
    }

    /// Whether it has changed since its check, by the kernel's timestamps.
    pub fn has_changed(&self) -> bool {
        let Some(Ok(file)) = self.opened.get() else { return false };
        FileStat::at_fd(file.fd()).is_ok_and(|now| self.is_unchanged(&now).is_err())
    }

    /// Opens the file of the check.
    pub fn open(&self) -> Result<Arc<OpenedFile>, String> {
        let (fd, look) = self.dir.open_file(&self.name, FollowLinks::Itself).map_err(|error| describe(&error))?;
        self.is_unchanged(&look)?;
        let opened = OpenedFile::new(fd, FileAccess::Read).map_err(|error| describe(&error))?;
        Ok(Arc::new(opened.with_extents(Arc::clone(&self.extents))))
    }

    /// Whether it equals the file of the check.
    pub fn is_unchanged(&self, now: &FileStat) -> Result<(), String> {
        let is_same = (now.size, now.meta.modified, now.identity) == (self.size, self.modified, self.identity);
        if is_same { Ok(()) } else { Err(OLD_CHANGED.into()) }
    }

    /// Opens it to be changed.
    pub fn open_to_change(&self) -> Result<OwnedFd, String> {
        let fd = open_to_write(&self.dir, &self.name).map_err(|error| describe(&error))?;
        self.is_unchanged(&FileStat::at_fd(&fd).map_err(|error| describe(&error))?)?;
        Ok(fd)
    }

    /// Frames to report as missing after the signatures.
    pub fn wants(&self, frames: Vec<Range<u64>>) {
        let _ = self.wanted.set(frames);
    }

    /// The same, for a file of this many frames.
    pub fn wanted(&self, frames: u64) -> Vec<Range<u64>> {
        self.wanted.get().cloned().unwrap_or_else(|| std::iter::once(0..frames).collect())
    }

    /// Keeps signatures. Returns all of them once the last ones of `blocks` are there.
    pub fn gather(&self, first: u64, sums: Vec<RollingSignature>, blocks: u64) -> Option<Vec<RollingSignature>> {
        let mut gathered = lock(&self.sums);
        gathered.count += sums.len() as u64;
        gathered.parts.insert(first, sums);
        (gathered.count == blocks).then(|| std::mem::take(&mut *gathered).parts.into_values().flatten().collect())
    }

    /// It cannot be read: whether that is news.
    pub fn is_first_failure(&self) -> bool {
        !self.failed.swap(true, Ordering::Relaxed)
    }

    /// Instructions may copy signed blocks, and nothing else.
    pub fn check(&self, steps: &[DeltaInstruction<'_>], frame: FramePosition) -> Result<(), ProtocolError> {
        BaseFile { size: self.size, method: self.method }.check(steps, frame)
    }

    /// Makes a frame.
    pub fn rebuild_frame(&self, steps: &[DeltaInstruction<'_>], frame: &mut [u8]) -> Result<(), String> {
        let file = self.opened.get_or_init(|| self.open()).clone()?;
        let read = |offset, bytes: &mut [u8]| match read_at(&**file.fd(), bytes, offset) {
            Ok(read) if read == bytes.len() => Ok(()),
            Ok(_) => Err(OLD_CHANGED.into()),
            Err(error) => Err(describe(&error)),
        };
        make(steps, frame, read)
    }
}

/// Opens a regular file to write to it; a link is not followed.
pub fn open_to_write(dir: &Dir, name: &Name) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let fd = openat(&*dir.fd()?, name.as_bytes(), flags, Mode::empty())?;
    match FileStat::at_fd(&fd)?.kind {
        FileType::RegularFile => Ok(fd),
        _ => Err(io::Error::other("is no longer a regular file")),
    }
}
