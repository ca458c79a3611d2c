//! A file's pages in the page cache, and early write-back: two calls that no safe crate offers.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

use crate::sys::refusal::is_refusal;

/// Bytes of a file's range in the page cache (cachestat(2), Linux 6.5). `None` if the kernel does not report them.
pub fn cached_bytes(file: impl AsFd, offset: u64, len: u64) -> Option<u64> {
    /// `struct cachestat_range` (linux/mman.h).
    #[repr(C)]
    struct Range {
        offset: u64,
        len: u64,
    }
    /// `struct cachestat` (linux/mman.h): numbers of pages.
    #[repr(C)]
    #[derive(Default)]
    struct Pages {
        cached: u64,
        dirty: u64,
        writeback: u64,
        evicted: u64,
        recently_evicted: u64,
    }
    /// Its number, the same on every architecture except Alpha; libc lacks it for some.
    const SYS_CACHESTAT: libc::c_long = 451;
    let range = Range { offset, len };
    let mut pages = Pages::default();
    let no_flags: libc::c_uint = 0;
    // SAFETY: the kernel reads one `Range` and writes one `Pages`; both are laid out as it has them and live until the
    // call returns. The descriptor is borrowed, so it is open. Where there is no such call, it fails with ENOSYS.
    #[allow(unsafe_code)]
    let status =
        unsafe { libc::syscall(SYS_CACHESTAT, file.as_fd().as_raw_fd(), &raw const range, &raw mut pages, no_flags) };
    (status == 0).then(|| pages.cached.saturating_mul(rustix::param::page_size() as u64))
}

/// Starts to write a range of a file to the disk, without waiting.
pub fn start_write_back(file: impl AsFd, offset: u64, len: u64) -> io::Result<()> {
    sync_range(file, offset, len, libc::SYNC_FILE_RANGE_WRITE)
}

/// Writes a range of a file to the disk, and waits for it. This makes pages clean, but not data durable: it covers
/// neither the disk's cache nor the file's metadata. A system without this call writes them later.
pub fn finish_write_back(file: impl AsFd, offset: u64, len: u64) -> io::Result<()> {
    let all = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    match sync_range(file, offset, len, all) {
        Err(error) if Errno::from_io_error(&error).is_some_and(is_refusal) => Ok(()),
        result => result,
    }
}

/// The error of a file's write-back, if any, since it was opened and last asked through this descriptor. Waits for
/// write-back in progress, and starts none.
pub fn write_back_error(file: impl AsFd) -> io::Result<()> {
    // For the kernel, 0 means up to the end.
    sync_range(file, 0, 0, libc::SYNC_FILE_RANGE_WAIT_BEFORE)
}

fn sync_range(file: impl AsFd, offset: u64, len: u64, flags: libc::c_uint) -> io::Result<()> {
    let too_far = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let (offset, len) = (i64::try_from(offset).map_err(too_far)?, i64::try_from(len).map_err(too_far)?);
    // SAFETY: sync_file_range(2) takes integers and has no memory to violate. The descriptor is borrowed, so it is
    // open.
    #[allow(unsafe_code)]
    let status = unsafe { libc::sync_file_range(file.as_fd().as_raw_fd(), offset, len, flags) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn written_data_is_cached_and_can_be_written_back() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 64 << 10]).unwrap();
        start_write_back(&file, 0, 64 << 10).unwrap();
        finish_write_back(&file, 0, 64 << 10).unwrap();
        write_back_error(&file).unwrap();
        // An old kernel reports nothing; a newer one reports this.
        assert!(cached_bytes(&file, 0, 64 << 10).is_none_or(|cached| cached == 64 << 10));
        assert!(cached_bytes(&file, 1 << 30, 64 << 10).is_none_or(|cached| cached == 0));
        assert!(start_write_back(&file, u64::MAX, 1).is_err());
    }
}
