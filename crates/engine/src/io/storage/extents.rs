//! The extents of a file: data and holes (lseek(2), SEEK_DATA and SEEK_HOLE). Written zeros are data.
//!
//! On tmpfs, SEEK_HOLE walks every page up to the next hole. A call per frame would take time quadratic in the file's
//! size. So each extent is looked up once, and remembered for all readers of the file.

use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Mutex;

use haul_base::sys::sync::lock;
use haul_proto::wire::sparse::DataMap;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

/// Most remembered extents: one per stream, which may read anywhere.
const REMEMBERED_MAX: usize = 64;
/// Extents that [`FileExtents::data_bytes`] counts one by one; the rest of the file counts as data.
const COUNTED_MAX: u32 = 100_000;

/// Bytes of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileExtent {
    bytes: Range<u64>,
    is_data: bool,
}

/// The extents of one file at the time of their lookup. Readers of new bytes need new ones.
///
/// The offset of the descriptor moves, so the file must be read by offset (pread(2)).
#[derive(Debug, Default)]
pub struct FileExtents {
    /// Lookups, the latest last.
    remembered: Mutex<VecDeque<FileExtent>>,
}

impl FileExtents {
    /// Returns the data blocks of these bytes; `None`: all blocks, or the file system reports no holes.
    pub fn map_of(&self, file: impl AsFd, offset: u64, len: usize) -> Option<DataMap> {
        let end = offset.saturating_add(len as u64);
        let mut map = DataMap::HOLE;
        let mut at = offset;
        while at < end {
            let FileExtent { bytes, is_data } = self.at(&file, at)?;
            if is_data {
                let within = |place: u64| usize::try_from(place.saturating_sub(offset)).unwrap_or(len).min(len);
                map.add(within(at)..within(bytes.end));
            }
            at = bytes.end;
        }
        (!map.is_full(len)).then_some(map)
    }

    /// Whether all of these bytes are a hole.
    pub fn is_hole(&self, file: impl AsFd, offset: u64, len: u64) -> bool {
        let end = offset.saturating_add(len);
        self.at(file, offset).is_some_and(|extent| !extent.is_data && extent.bytes.end >= end)
    }

    /// The offset of the first data from `at` on; `None` without data up to `end`, or if the file system does not tell.
    pub fn next_data(&self, file: impl AsFd, at: u64, end: u64) -> Option<u64> {
        self.next(file, at, end, true).map(|data| data.start)
    }

    /// The first hole from `at` on, up to `end`; `None` without one, or if the file system does not tell.
    pub fn next_hole(&self, file: impl AsFd, at: u64, end: u64) -> Option<Range<u64>> {
        self.next(file, at, end, false)
    }

    /// Returns the number of bytes outside of holes, of a file of `size` bytes: all, if the file system reports no
    /// holes.
    pub fn data_bytes(&self, file: impl AsFd, size: u64) -> u64 {
        let (mut at, mut bytes) = (0, 0);
        for _ in 0..COUNTED_MAX {
            if at >= size {
                return bytes;
            }
            let Some(extent) = self.at(&file, at) else { break };
            let end = extent.bytes.end.min(size);
            bytes += if extent.is_data { end - at } else { 0 };
            at = end;
        }
        bytes + size.saturating_sub(at)
    }

    fn next(&self, file: impl AsFd, mut at: u64, end: u64, is_data: bool) -> Option<Range<u64>> {
        while at < end {
            let extent = self.at(&file, at)?;
            if extent.is_data == is_data {
                return Some(at..extent.bytes.end.min(end));
            }
            at = extent.bytes.end;
        }
        None
    }

    /// The extent with the byte at `at`, from there or from an earlier byte to its end; `None` if the file system does
    /// not tell.
    fn at(&self, file: impl AsFd, at: u64) -> Option<FileExtent> {
        let mut remembered = lock(&self.remembered);
        if let Some(known) = remembered.iter().rev().find(|extent| extent.bytes.contains(&at)) {
            return Some(known.clone());
        }
        let found = find(file, at)?;
        remembered.retain(|known| known.bytes.start < found.bytes.start || known.bytes.end > found.bytes.end);
        if remembered.len() == REMEMBERED_MAX {
            remembered.pop_front();
        }
        remembered.push_back(found.clone());
        Some(found)
    }
}

/// Looks up the extent at `at`.
fn find(file: impl AsFd, at: u64) -> Option<FileExtent> {
    match counted_seek(&file, SeekFrom::Data(at)) {
        // A hole up to the end of the file.
        Err(Errno::NXIO) => Some(FileExtent { bytes: at..u64::MAX, is_data: false }),
        Ok(data) if data > at => Some(FileExtent { bytes: at..data, is_data: false }),
        Ok(_) => {
            let hole = counted_seek(&file, SeekFrom::Hole(at)).ok()?;
            // Another program may have truncated the file meanwhile: the read will fail.
            (hole > at).then_some(FileExtent { bytes: at..hole, is_data: true })
        }
        Err(_) => None,
    }
}

fn counted_seek(file: impl AsFd, to: SeekFrom) -> rustix::io::Result<u64> {
    #[cfg(test)]
    SEEKS.with(|seeks| seeks.set(seeks.get() + 1));
    seek(file, to)
}

#[cfg(test)]
thread_local! {
    static SEEKS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Look-ups by this thread: one system call each.
#[cfg(test)]
pub fn seeks() -> u64 {
    SEEKS.with(std::cell::Cell::get)
}

#[cfg(test)]
#[path = "extents_tests.rs"]
mod tests;
