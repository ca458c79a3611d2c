//! Clones a range of a file into another file (ioctl_ficlonerange(2)): rustix has this only for whole files.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};

/// Copies the bytes of `range` in `from` to `offset` in `to` by shared blocks (FICLONERANGE). On success, all bytes are
/// copied.
///
/// # Errors
/// EXDEV, EOPNOTSUPP, ENOTTY and others if the files cannot share blocks; EINVAL if this range cannot, since it is not
/// aligned to blocks and does not end with `from`. Then no byte is copied.
pub fn clone_range(from: impl AsFd, to: impl AsFd, range: Range<u64>, offset: u64) -> io::Result<()> {
    // For the kernel, 0 means up to the end.
    if range.is_empty() {
        return Ok(());
    }
    let request = libc::file_clone_range {
        src_fd: from.as_fd().as_raw_fd().into(),
        src_offset: range.start,
        src_length: range.end - range.start,
        dest_offset: offset,
    };
    // SAFETY: FICLONERANGE reads one `file_clone_range`, which lives until the call returns, and touches no other
    // memory of this process. Both descriptors are borrowed, so they are open.
    #[allow(unsafe_code)]
    let status = unsafe { libc::ioctl(to.as_fd().as_raw_fd(), libc::FICLONERANGE, &raw const request) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, Write};

    use super::*;

    /// What the temporary directory is on may do it or not: but never something else.
    #[test]
    fn a_range_is_all_there_or_untouched() {
        let (mut from, mut to) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        from.write_all(&[7; 100_001]).unwrap();
        let cloned = clone_range(&from, &to, 65_536..100_001, 65_536);
        let mut content = Vec::new();
        to.rewind().unwrap();
        to.read_to_end(&mut content).unwrap();
        let expected = if cloned.is_ok() { [vec![0; 65_536], vec![7; 34_465]].concat() } else { Vec::new() };
        assert!(content == expected, "{cloned:?}: {} bytes", content.len());
        assert!(clone_range(&from, &to, 0..0, 0).is_ok() && to.metadata().unwrap().len() == content.len() as u64);
    }

    #[test]
    fn an_impossible_clone_is_an_error() {
        let (one, _) = std::os::unix::net::UnixStream::pair().unwrap();
        let file = tempfile::tempfile().unwrap();
        assert!(clone_range(&one, &file, 0..4096, 0).is_err());
        assert!(clone_range(&file, &one, 0..4096, 0).is_err());
    }
}
