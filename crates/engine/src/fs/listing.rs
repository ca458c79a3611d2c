//! Reads a directory's listing piece by piece: one buffer of names at a time.
//!
//! Does not look at what the names stand for.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{FileType, RawDir, SeekFrom, seek};
use rustix::io::Errno;

/// Bytes that one call to the system may return: about 1,000 names. Whatever
/// a walk holds for a level of the tree is bounded by this.
pub(super) const LISTING_BUFFER: usize = 32 * 1024;

/// The smallest entry that the system returns: 19 bytes of numbers, a name of
/// one byte and its NUL, rounded up to 8.
const SMALLEST_ENTRY: usize = 24;

/// Most names that one buffer can hold.
#[cfg(test)]
pub(super) const MAX_NAMES: usize = LISTING_BUFFER / SMALLEST_ENTRY;

/// One buffer of a listing.
pub(super) struct Listing {
    buffer: Vec<u8>,
    names: Vec<u8>,
    entries: Vec<Listed>,
    taken: usize,
}

/// One name, and what the directory says that it is.
#[derive(Clone, Copy)]
pub(super) struct Listed {
    start: usize,
    end: usize,
    /// [`FileType::Unknown`] where the file system does not say.
    pub kind: FileType,
}

impl Listing {
    pub fn new() -> Self {
        Self {
            buffer: Vec::with_capacity(LISTING_BUFFER),
            names: Vec::with_capacity(LISTING_BUFFER),
            entries: Vec::with_capacity(LISTING_BUFFER / SMALLEST_ENTRY),
            taken: 0,
        }
    }

    /// Reads on from `cookie` (0 is the beginning; `None`: where `dir` stands)
    /// and returns the cookie of what comes next, or `None` at the end. Names
    /// that were not taken yet are forgotten.
    pub fn read(&mut self, dir: &OwnedFd, cookie: Option<u64>) -> io::Result<Option<u64>> {
        self.names.clear();
        self.entries.clear();
        self.taken = 0;
        if let Some(cookie) = cookie {
            seek(dir, SeekFrom::Start(cookie))?;
        }
        let mut entries = RawDir::new(dir, self.buffer.spare_capacity_mut());
        let mut next_cookie = None;
        while let Some(entry) = entries.next() {
            let entry = match entry {
                Err(Errno::INTR) => continue,
                entry => entry?,
            };
            let (name, kind) = (entry.file_name().to_bytes(), entry.file_type());
            next_cookie = Some(entry.next_entry_cookie());
            if name != b"." && name != b".." {
                let start = self.names.len();
                self.names.extend_from_slice(name);
                self.entries.push(Listed { start, end: self.names.len(), kind });
            }
            if entries.is_buffer_empty() {
                break;
            }
        }
        Ok(next_cookie)
    }

    /// The next entry of this buffer.
    pub fn take(&mut self) -> Option<Listed> {
        let entry = *self.entries.get(self.taken)?;
        self.taken += 1;
        Some(entry)
    }

    /// The name of an entry that was taken since the last read.
    pub fn name(&self, entry: Listed) -> &[u8] {
        &self.names[entry.start..entry.end]
    }

    /// Names that were read and not taken yet.
    #[cfg(test)]
    pub fn names_held(&self) -> usize {
        self.entries.len() - self.taken
    }
}
