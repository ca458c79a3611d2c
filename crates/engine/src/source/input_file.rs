//! Standard input that is a regular file. Its length is known, and all streams read it at once, like a file with a
//! name. The descriptor's offset belongs to the caller: reads leave it alone until all data is read.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{FileType, SeekFrom, seek, tell};
use rustix::io::fcntl_dupfd_cloexec;

use crate::fs::FileStat;
use crate::io::program::InheritedPipe;

/// The part of an inherited file from its offset to its end.
pub struct InputFile {
    /// The descriptor, which shares its offset with the caller's.
    pub fd: OwnedFd,
    /// Start offset in the file.
    pub begins: u64,
    /// State at the start of the copy; the size is that of the part.
    pub stat: FileStat,
}

impl InputFile {
    /// Wraps a regular file with more than `small_max` bytes after its offset; anything else is returned. A single
    /// small file gains nothing, and files of the kernel (proc, sysfs) do not know their lengths.
    pub fn new(pipe: InheritedPipe, small_max: u64) -> Result<Self, InheritedPipe> {
        let found = || {
            let stat = FileStat::at_fd(&pipe.fd).ok().filter(|stat| stat.kind == FileType::RegularFile)?;
            let begins = tell(&pipe.fd).ok()?;
            let size = stat.size.checked_sub(begins).filter(|size| *size > small_max)?;
            Some((begins, FileStat { size, ..stat }))
        };
        match found() {
            Some((begins, stat)) => Ok(Self { fd: pipe.fd, begins, stat }),
            None => Err(pipe),
        }
    }

    /// Another descriptor of the same open file.
    pub fn duplicate(&self) -> io::Result<OwnedFd> {
        Ok(fcntl_dupfd_cloexec(&self.fd, 0)?)
    }

    /// Moves the offset behind the data, where a program that reads in order leaves it.
    pub fn consume(&self) {
        // A seek within a regular file's length does not fail.
        let _ = seek(&self.fd, SeekFrom::Start(self.begins.saturating_add(self.stat.size)));
    }
}
