//! The length of a file whose frames are all written.

use rustix::fs::ftruncate;
use std::io;
use std::os::fd::OwnedFd;

use crate::fs::FileStat;
use crate::sys::describe::describe;

/// Advice where a file differs from its written data.
pub const OTHER_WRITER: &str = "another program writes to it: end that program, then run the same command again";

/// Truncates bytes behind the end of a file, whichever program wrote them.
pub(crate) fn cut_to(file: &OwnedFd, size: u64) -> io::Result<()> {
    if FileStat::at_fd(file)?.size > size { Ok(ftruncate(file, size)?) } else { Ok(()) }
}

/// The length of a file, read back: the last check before it gets its name.
pub(crate) fn check_length(file: &OwnedFd, size: u64) -> Result<(), String> {
    match FileStat::at_fd(file) {
        Ok(look) if look.size == size => Ok(()),
        Ok(look) => Err(format!("it has {} bytes instead of {size}\n{OTHER_WRITER}", look.size)),
        Err(error) => Err(describe(&error)),
    }
}
