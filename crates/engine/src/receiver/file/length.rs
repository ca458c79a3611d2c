//! The length of a file whose frames are all written.

use std::io;
use std::os::fd::OwnedFd;

use haul_proto::wire::sparse::BLOCK;
use rustix::fs::{FallocateFlags, fallocate, ftruncate};

use crate::fs::FileStat;
use crate::receiver::place::error::FileError;

/// Truncates bytes after the end of a file, whichever program wrote them, and frees blocks allocated there. xfs keeps
/// those of a file that was opened several times.
pub(crate) fn cut_to(file: &OwnedFd, size: u64) -> io::Result<()> {
    let stat = FileStat::at_fd(file)?;
    if stat.size > size {
        return Ok(ftruncate(file, size)?);
    }
    let end = size.next_multiple_of(BLOCK as u64);
    if stat.room > end {
        // Metadata blocks may count too. A truncation to the same length would wait for unwritten data.
        let _ = fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, end, stat.room);
    }
    Ok(())
}

/// Checks the length of a file, the last check before its final name.
pub(crate) fn check_length(file: &OwnedFd, size: u64) -> Result<(), FileError> {
    let found = FileStat::at_fd(file)?.size;
    if found == size { Ok(()) } else { Err(FileError::Length { found, size }) }
}
