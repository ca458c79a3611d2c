//! A base file: the existing file to be replaced by a new one.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use haul_base::sys::random::random;
use haul_base::sys::sync::lock;
use haul_proto::delta::DeltaMethod;
use haul_proto::delta::base::{BaseFile, BaseId, FramePosition};
use haul_proto::delta::instructions::{DeltaInstruction, make};
use haul_proto::delta::rolling::{RollingSignature, SignatureFormat};
use haul_proto::entry::Timestamp;
use haul_proto::error::ProtocolError;
use haul_proto::path::Name;
use rustix::fs::{FileType, Mode, OFlags, openat};

use super::patch::InPlaceUpdate;
use crate::fs::{Dir, FileIdentity, FileStat, FollowLinks};
use crate::io::storage::FileAccess;
use crate::io::storage::calls::read_at;
use crate::io::storage::extents::FileExtents;
use crate::io::storage::file::OpenedFile;
use crate::receiver::file::frame_parts::FramePart;
use crate::receiver::place::error::FileError;

/// Collected rolling signatures.
#[derive(Default)]
struct Gathered {
    /// Keyed by the number of the first block.
    parts: BTreeMap<u64, Vec<RollingSignature>>,
    /// Number of blocks in all parts.
    count: u64,
}

/// Which file it is, and in which state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BaseVersion {
    /// Size in bytes.
    pub size: u64,
    /// Time of last modification.
    modified: Timestamp,
    /// Device and inode.
    pub identity: FileIdentity,
}

impl From<&FileStat> for BaseVersion {
    fn from(stat: &FileStat) -> Self {
        Self { size: stat.size, modified: stat.meta.modified, identity: stat.identity }
    }
}

/// A base file.
pub struct BaseSource {
    dir: Dir,
    name: Name,
    /// The checked file.
    pub version: BaseVersion,
    /// How its reusable blocks are found.
    pub method: DeltaMethod,
    /// Key of its rolling signatures.
    key: u64,
    /// State of an update in place, if that is the method.
    pub in_place: Option<InPlaceUpdate>,
    /// Opened for reads once a frame is rebuilt from it.
    opened: OnceLock<Result<Arc<OpenedFile>, FileError>>,
    /// Its extents, shared by the readers of its ranges.
    extents: Arc<FileExtents>,
    /// Rolling signatures, until all have been collected.
    sums: Mutex<Gathered>,
    /// Frames to report as missing after the signatures; all if unset.
    wanted: OnceLock<Vec<Range<u64>>>,
    /// A read failed.
    failed: AtomicBool,
    /// Not signed: it is too small, an earlier delta of it was wrong, or the host's policy forbids signatures.
    pub is_lost: bool,
}

impl BaseSource {
    /// The file of this name, which is not changed.
    pub fn of(dir: Dir, name: Name, method: DeltaMethod) -> io::Result<Self> {
        let stat = FileStat::at_name(&*dir.fd()?, &name, FollowLinks::Itself)?;
        match stat.kind {
            FileType::RegularFile => Self::new(dir, name, &stat, method),
            _ => Err(io::Error::other("is not a regular file")),
        }
    }

    pub fn new(dir: Dir, name: Name, stat: &FileStat, method: DeltaMethod) -> io::Result<Self> {
        Ok(Self {
            dir,
            name,
            version: BaseVersion::from(stat),
            method,
            key: u64::from_le_bytes(random()?),
            in_place: None,
            opened: OnceLock::new(),
            extents: Arc::default(),
            sums: Mutex::default(),
            wanted: OnceLock::new(),
            failed: AtomicBool::new(false),
            is_lost: false,
        })
    }

    /// The same file, with or without an update in place; usable for deltas or not.
    pub fn with(self, in_place: Option<InPlaceUpdate>, is_lost: bool) -> Self {
        Self { in_place, is_lost, ..self }
    }

    /// Its identifier for the protocol.
    pub fn id(&self) -> BaseId {
        BaseId { device: self.version.identity.device, inode: self.version.identity.inode }
    }

    /// Path below the destination.
    pub fn path(&self) -> Vec<u8> {
        self.dir.path_of(self.name.as_bytes())
    }

    /// Whether it has changed since the check, by the kernel's timestamps.
    pub fn has_changed(&self) -> bool {
        let Some(Ok(file)) = self.opened.get() else { return false };
        FileStat::at_fd(file.fd()).is_ok_and(|now| self.check_unchanged(&now).is_err())
    }

    /// Opens it, and verifies that it is the checked file.
    pub fn open(&self) -> Result<Arc<OpenedFile>, FileError> {
        let (fd, stat) = self.dir.open_file(&self.name, FollowLinks::Itself)?;
        self.check_unchanged(&stat)?;
        let opened = OpenedFile::new(fd, FileAccess::Read)?;
        Ok(Arc::new(opened.with_extents(Arc::clone(&self.extents))))
    }

    /// Verifies that it is the checked file, unchanged.
    pub fn check_unchanged(&self, now: &FileStat) -> Result<(), FileError> {
        if BaseVersion::from(now) == self.version { Ok(()) } else { Err(FileError::BaseChanged) }
    }

    /// Opens it for an update, which its descriptor must still permit.
    pub fn open_to_change(&self, in_place: &InPlaceUpdate) -> Result<OwnedFd, FileError> {
        let fd = open_to_write(&self.dir, &self.name)?;
        let now = FileStat::at_fd(&fd)?;
        self.check_unchanged(&now)?;
        if in_place.still_permits(&now) { Ok(fd) } else { Err(FileError::BaseChanged) }
    }

    /// Frames to report as missing after the signatures.
    pub fn wants(&self, frames: Vec<Range<u64>>) {
        let _ = self.wanted.set(frames);
    }

    /// Frames to report as missing, for a file of this many frames.
    pub fn wanted(&self, frames: u64) -> Vec<Range<u64>> {
        self.wanted.get().cloned().unwrap_or_else(|| std::iter::once(0..frames).collect())
    }

    /// How its blocks of `block` bytes are signed.
    pub fn signature_format(&self, block: u32) -> SignatureFormat {
        SignatureFormat::new(self.version.size, block, self.key)
    }

    /// Collects signatures. Returns all of them once all `blocks` are signed.
    pub fn gather(&self, first: u64, sums: Vec<RollingSignature>, blocks: u64) -> Option<Vec<RollingSignature>> {
        let mut gathered = lock(&self.sums);
        gathered.count += sums.len() as u64;
        gathered.parts.insert(first, sums);
        (gathered.count == blocks).then(|| std::mem::take(&mut *gathered).parts.into_values().flatten().collect())
    }

    /// Records a read failure. Returns whether it is the first.
    pub fn is_first_failure(&self) -> bool {
        !self.failed.swap(true, Ordering::Relaxed)
    }

    /// Checks that instructions copy only signed blocks.
    pub fn check(&self, steps: &[DeltaInstruction<'_>], frame: FramePosition) -> Result<(), ProtocolError> {
        BaseFile { size: self.version.size, method: self.method }.check(steps, frame)
    }

    /// The file, opened for the first frame that is rebuilt from it.
    pub fn opened(&self) -> Result<Arc<OpenedFile>, FileError> {
        self.opened.get_or_init(|| self.open()).clone()
    }

    /// Rebuilds a frame at `frame_offset` of `new_file`. Reads cloned parts from there: what is verified is what the
    /// new file has, whatever has become of the base file.
    pub fn rebuild_frame(
        &self,
        parts: &[FramePart<'_>],
        new_file: &OpenedFile,
        frame_offset: u64,
        frame: &mut [u8],
    ) -> Result<(), FileError> {
        let base = self.opened()?;
        let steps: Vec<_> = parts.iter().map(|part| part.step).collect();
        let mut copies = parts.iter().filter(|part| matches!(part.step, DeltaInstruction::Old { .. }));
        let read = |offset, bytes: &mut [u8]| {
            let (file, offset) = match copies.next() {
                Some(part) if part.is_cloned => (new_file, frame_offset + part.bytes.start as u64),
                _ => (&*base, offset),
            };
            match read_at(&**file.fd(), bytes, offset) {
                Ok(read) if read == bytes.len() => Ok(()),
                Ok(_) => Err(FileError::BaseChanged),
                Err(error) => Err(error.into()),
            }
        };
        make(&steps, frame, read)
    }
}

/// Opens a regular file for writing, without following links.
pub fn open_to_write(dir: &Dir, name: &Name) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let fd = openat(&*dir.fd()?, name.as_bytes(), flags, Mode::empty())?;
    match FileStat::at_fd(&fd)?.kind {
        FileType::RegularFile => Ok(fd),
        _ => Err(io::Error::other("is no longer a regular file")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cloned_parts_are_read_from_the_new_file() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("base"), [b'b'; 30]).unwrap();
        std::fs::write(place.path().join("new"), [b'n'; 30]).unwrap();
        let dir = Dir::open_root(place.path()).unwrap();
        let new_file = std::fs::File::open(place.path().join("new")).unwrap();
        let new_file = OpenedFile::new(new_file.into(), FileAccess::Read).unwrap();
        let base = BaseSource::of(dir, Name::new(b"base").unwrap(), DeltaMethod::Blocks).unwrap();
        let old = |offset, bytes: Range<usize>, is_cloned| {
            let step = DeltaInstruction::Old { offset, len: bytes.len() };
            FramePart { step, bytes, is_cloned }
        };
        let given = FramePart { step: DeltaInstruction::New(b"given"), bytes: 4..9, is_cloned: false };
        let parts = [old(10, 0..4, false), given, old(19, 9..13, true), old(23, 13..15, false)];
        let mut frame = [0; 15];
        base.rebuild_frame(&parts, &new_file, 10, &mut frame).unwrap();
        assert_eq!(frame, *b"bbbbgivennnnnbb");
        // The new file ends before the cloned part.
        assert!(base.rebuild_frame(&parts, &new_file, 20, &mut frame).is_err());
    }
}
