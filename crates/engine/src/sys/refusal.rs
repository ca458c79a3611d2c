//! Answers of file systems that refuse a call without a loss of data.

use std::io;

use rustix::io::Errno;

/// Whether an answer refuses a call: a right that this user lacks, a value or call that the file system does not
/// have. All else (EIO, ENOSPC, EDQUOT, ESTALE and others) is a failure of the entry.
pub fn is_refusal(error: Errno) -> bool {
    matches!(
        error,
        Errno::PERM | Errno::ACCESS | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::XDEV | Errno::ROFS
    )
}

/// Whether an answer says that renameat2(2) does not have a flag here: on this file system, in this kernel, or behind a
/// filter of system calls.
pub fn lacks_rename_flag(error: Errno) -> bool {
    matches!(error, Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM)
}

/// The refusal of a call that sets metadata; `None` if it succeeded. Any other answer is an error.
pub fn refusal(result: rustix::io::Result<()>) -> io::Result<Option<Errno>> {
    match result {
        Ok(()) => Ok(None),
        Err(error) if is_refusal(error) => Ok(Some(error)),
        Err(error) => Err(error.into()),
    }
}
