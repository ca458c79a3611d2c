//! A file that is open for all streams: once for buffered I/O and, on request, once for direct I/O.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use haul_proto::wire::sparse::DataMap;
use rustix::fs::{CWD, FileType, Mode, OFlags, openat};
use rustix::io::Errno;

use super::calls::read_at;
use super::extents::FileExtents;
use super::{ALIGNMENT, FileAccess};
use crate::fs::FileStat;
use crate::fs::file_system::{is_memory, magic_of};
use crate::sys::page_cache::finish_write_back;

/// An open file.
pub struct OpenedFile {
    fd: Arc<OwnedFd>,
    access: FileAccess,
    device: u64,
    in_memory: bool,
    /// A regular file or a block device. For a pipe, O_DIRECT has another meaning.
    has_blocks: bool,
    /// Whether fewer bytes are allocated than its size.
    may_have_holes: bool,
    extents: Arc<FileExtents>,
    direct: OnceLock<Option<Arc<OwnedFd>>>,
    /// Offset in the file of the first byte to be read: 0, except for standard input.
    begins: u64,
    since: Instant,
    /// The first error of an awaited write-back: the kernel reports each once, and a later fsync would succeed.
    lost: OnceLock<Errno>,
}

impl OpenedFile {
    /// Wraps a file that is open for `access`.
    pub fn new(fd: OwnedFd, access: FileAccess) -> io::Result<Self> {
        let stat = FileStat::at_fd(&fd)?;
        Ok(Self::with_stat(fd, access, &stat))
    }

    /// Wraps a file whose state after its opening is known.
    pub fn with_stat(fd: OwnedFd, access: FileAccess, stat: &FileStat) -> Self {
        let is_file = stat.kind == FileType::RegularFile;
        let has_blocks = is_file || stat.kind == FileType::BlockDevice;
        let in_memory = !is_file || is_memory(magic_of(&fd));
        let may_have_holes = stat.may_have_holes();
        let (direct, since, device) = (OnceLock::new(), Instant::now(), stat.identity.device);
        let (fd, extents, lost) = (Arc::new(fd), Arc::default(), OnceLock::new());
        let begins = 0;
        Self { fd, access, device, in_memory, has_blocks, may_have_holes, extents, direct, begins, since, lost }
    }

    /// Sets the offset in the file of the first byte to be read.
    pub fn beginning_at(self, begins: u64) -> Self {
        Self { begins, ..self }
    }

    /// Offset in the file of the first byte to be read.
    pub fn begins(&self) -> u64 {
        self.begins
    }

    /// Fills `room` with the bytes at `offset` after the first byte to be read; fewer at the end of the file.
    pub fn read_at(&self, room: &mut [u8], offset: u64) -> io::Result<usize> {
        read_at(&*self.fd, room, self.begins.saturating_add(offset))
    }

    /// Sets known extents, for a file that is reopened for each chunk.
    pub fn with_extents(self, extents: Arc<FileExtents>) -> Self {
        Self { extents, ..self }
    }

    /// The data blocks of these bytes; `None` without holes.
    pub fn map_of(&self, offset: u64, len: usize) -> Option<DataMap> {
        if self.may_have_holes { self.extents.map_of(&*self.fd, offset, len) } else { None }
    }

    /// Whether these bytes are a hole.
    pub fn is_hole(&self, offset: u64, len: u64) -> bool {
        self.may_have_holes && self.extents.is_hole(&*self.fd, offset, len)
    }

    /// Waits until a written range is on the disk. [`Self::written_back`] has its error.
    pub fn await_write_back(&self, offset: u64, len: u64) {
        if let Err(error) = finish_write_back(&*self.fd, offset, len) {
            let _ = self.lost.set(Errno::from_io_error(&error).unwrap_or(Errno::IO));
        }
    }

    /// The first error of the awaited write-backs, if any.
    pub fn written_back(&self) -> io::Result<()> {
        self.lost.get().map_or(Ok(()), |error| Err((*error).into()))
    }

    /// Time since its opening.
    pub fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// The same file for reading; its descriptor is open for both.
    pub fn to_read(fd: &OwnedFd) -> io::Result<Self> {
        Self::new(rustix::io::fcntl_dupfd_cloexec(fd, 0)?, FileAccess::Read)
    }

    /// The descriptor for buffered I/O.
    pub fn fd(&self) -> &Arc<OwnedFd> {
        &self.fd
    }

    /// The descriptor for direct I/O, opened on first use. `None` if the file system refuses, or no block begins where
    /// the first byte is.
    pub fn direct(&self) -> Option<&Arc<OwnedFd>> {
        let may_open = self.has_blocks && self.begins.is_multiple_of(ALIGNMENT as u64);
        let open = || may_open.then(|| self.open_direct().ok()).flatten().map(Arc::new);
        self.direct.get_or_init(open).as_ref()
    }

    /// `st_dev`, which identifies the file system.
    pub fn device(&self) -> u64 {
        self.device
    }

    /// Whether it is in memory: without read-ahead, write-back and dropped pages.
    pub fn in_memory(&self) -> bool {
        self.in_memory
    }

    /// Reopens the file, also if renamed (proc(5), `/proc/PID/fd`). fcntl(2) would change the flags of both
    /// descriptors.
    fn open_direct(&self) -> io::Result<OwnedFd> {
        let access = match self.access {
            FileAccess::Read => OFlags::RDONLY,
            FileAccess::Write => OFlags::WRONLY,
        };
        let path = format!("/proc/self/fd/{}", self.fd.as_raw_fd());
        Ok(openat(CWD, path, access | OFlags::DIRECT | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty())?)
    }
}
