//! The names in a directory, some hundred at a time: memory does not grow with the directory.

use std::io;

use haul_proto::path::Name;
use rustix::fs::FileType;

use super::Dir;
use super::listing::ListingPosition;
use super::listing_buffer::ListingBuffer;
use super::meta::{FileStat, FollowLinks};

/// A listing in progress. No other reader may use the listing of this [`Dir`] meanwhile.
pub struct DirectoryPages {
    dir: Dir,
    /// `None` at the end.
    rest: Option<ListingPosition>,
    buffer: ListingBuffer,
}

impl DirectoryPages {
    /// Starts at the beginning.
    pub fn new(dir: Dir) -> Self {
        Self { dir, rest: Some(ListingPosition::beginning()), buffer: ListingBuffer::new() }
    }

    /// The directory.
    pub fn dir(&self) -> &Dir {
        &self.dir
    }

    /// Whether nothing is left to list.
    pub fn is_at_end(&self) -> bool {
        self.rest.is_none()
    }

    /// Calls `tell` with each name of the next page and its type, except for names that `skips` recognises by their
    /// bytes: those cost no allocation and no stat(2). Vanished entries are skipped, too. `false` at the end.
    pub fn next_page(
        &mut self,
        mut skips: impl FnMut(&[u8]) -> bool,
        mut tell: impl FnMut(&Name, FileType),
    ) -> io::Result<bool> {
        let Some(from) = self.rest.take() else { return Ok(false) };
        let mut chunk = from.read(&self.dir, |_| false, &mut self.buffer)?;
        while let Some(listed) = chunk.next_name() {
            if skips(chunk.name(&listed)) {
                continue;
            }
            let name = Name::new(chunk.name(&listed)).map_err(io::Error::other)?;
            match self.kind_of(&name, listed.kind) {
                Ok(kind) => tell(&name, kind),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        self.rest = chunk.rest;
        Ok(true)
    }

    fn kind_of(&self, name: &Name, listed: FileType) -> io::Result<FileType> {
        match listed {
            FileType::Unknown => Ok(FileStat::at_name(&*self.dir.fd()?, name, FollowLinks::Itself)?.kind),
            known => Ok(known),
        }
    }
}
