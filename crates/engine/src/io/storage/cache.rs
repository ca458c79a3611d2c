//! Advice to the page cache: read-ahead, early write-back, dropped pages.
//!
//! Reads and writes work without it, so errors are ignored.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::os::fd::AsFd;

use rustix::fs::{Advice, fadvise};
use rustix::system::sysinfo;

use crate::sys::page_cache::{cached_bytes, start_write_back};

/// Smallest size of large files, and their smallest part of memory. Their pages are dropped behind the copy, to keep
/// other programs' pages in the cache.
const LARGE_BYTES: u64 = 1 << 30;
const LARGE_PART_OF_MEMORY: u64 = 8;
/// Smaller files are left to the kernel's own write-back.
pub const WRITE_BACK_FILE_MIN: u64 = 64 << 20;
/// Distance between the newest bytes and dropped pages: the disk writes them meanwhile, and nobody waits.
const DROP_BEHIND_BYTES: u64 = 32 << 20;

/// The smallest size of a large file on this machine.
pub fn large_file_bytes() -> u64 {
    let info = sysinfo();
    // Its width depends on the machine.
    #[allow(clippy::useless_conversion)]
    let units = u64::from(info.totalram);
    let memory = u64::from(info.mem_unit).saturating_mul(units);
    LARGE_BYTES.min(memory / LARGE_PART_OF_MEMORY)
}

/// Whether most of a range is in the page cache; `false` where the kernel does not report it.
pub fn is_cached(file: impl AsFd, offset: u64, len: u64) -> bool {
    cached_bytes(file, offset, len).is_some_and(|cached| cached >= len.div_ceil(2))
}

/// Starts to read a range.
pub fn read_ahead(file: impl AsFd, offset: u64, len: u64) {
    let _ = fadvise(file, offset, NonZeroU64::new(len), Advice::WillNeed);
}

/// Drops the clean pages of a range from the page cache.
pub fn drop_pages(file: impl AsFd, offset: u64, len: u64) {
    let _ = fadvise(file, offset, NonZeroU64::new(len), Advice::DontNeed);
}

/// Starts to write a range to the disk.
pub fn write_back(file: impl AsFd, offset: u64, len: u64) {
    let _ = start_write_back(file, offset, len);
}

/// Written ranges of a file, whose pages are dropped once on disk.
#[derive(Debug, Default)]
pub struct DropBehind {
    ranges: VecDeque<(u64, u64)>,
    bytes: u64,
}

impl DropBehind {
    /// Adds a written range with started write-back. Returns the range to wait for and drop now: so far behind that its
    /// write-back should be complete.
    pub fn wrote(&mut self, offset: u64, len: u64) -> Option<(u64, u64)> {
        self.ranges.push_back((offset, len));
        self.bytes += len;
        if self.bytes <= DROP_BEHIND_BYTES {
            return None;
        }
        let oldest = self.ranges.pop_front()?;
        self.bytes -= oldest.1;
        Some(oldest)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn pages_are_dropped_well_behind_and_in_turn() {
        let (mut behind, len) = (DropBehind::default(), 1 << 20);
        let dropped: Vec<_> = (0..40).filter_map(|i| behind.wrote(i * len, len)).collect();
        assert_eq!(dropped, (0..8).map(|i| (i * len, len)).collect::<Vec<_>>());
        assert_eq!(behind.bytes, DROP_BEHIND_BYTES);
    }

    #[test]
    fn dropped_pages_are_gone_and_the_bytes_stay() {
        // Beside the test's own executable: there is a disk, unlike in /tmp.
        let place = std::env::current_exe().unwrap().parent().unwrap().to_owned();
        let mut file = tempfile::tempfile_in(place).unwrap();
        file.write_all(&vec![7; 1 << 20]).unwrap();
        if !is_cached(&file, 0, 1 << 20) {
            println!("SKIPPED: this kernel does not tell what is cached");
            return;
        }
        write_back(&file, 0, 1 << 20);
        crate::sys::page_cache::finish_write_back(&file, 0, 1 << 20).unwrap();
        drop_pages(&file, 0, 1 << 20);
        assert!(!is_cached(&file, 0, 1 << 20));
        let mut bytes = vec![0; 1 << 20];
        assert_eq!(crate::io::storage::calls::read_at(&file, &mut bytes, 0).unwrap(), 1 << 20);
        assert!(bytes.iter().all(|byte| *byte == 7));
    }

    #[test]
    fn large_is_a_part_of_the_memory() {
        assert!((1..=LARGE_BYTES).contains(&large_file_bytes()));
    }
}
