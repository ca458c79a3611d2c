//! The window of entries that are offered and not complete. Both ends count it alike, so that a source knows what its
//! target accepts.

use crate::entry::{Entry, EntryContent};

/// What is counted of these entries.
#[derive(Debug, Default)]
pub(super) struct EntryWindow {
    /// Their number, without open directories.
    pub entries: usize,
    /// Directories whose offers have not ended.
    pub open_directories: usize,
    /// Bytes of names and attributes.
    pub bytes: usize,
    /// The part of these bytes for open directories.
    pub open_bytes: usize,
    /// Whether all entries have been offered.
    pub has_ended: bool,
}

impl EntryWindow {
    /// Counts an offered entry. Returns its bytes.
    pub fn add(&mut self, entry: &Entry) -> usize {
        let bytes = entry.held_bytes();
        self.bytes += bytes;
        if entry.kind == EntryContent::Directory {
            self.open_directories += 1;
            self.open_bytes += bytes;
        } else {
            self.entries += 1;
        }
        bytes
    }

    /// The offers in a directory of so many bytes have ended: it counts like any other entry.
    pub fn close_directory(&mut self, bytes: usize) {
        self.open_directories -= 1;
        self.open_bytes -= bytes;
        self.entries += 1;
    }

    /// An entry of so many bytes, no open directory, is complete or given up.
    pub fn remove(&mut self, bytes: usize) {
        self.entries -= 1;
        self.bytes -= bytes;
    }
}
