//! Reads a directory's listing in chunks of some hundred names.
//!
//! It does not stat the entries; a chunk has fields for the results of lookups.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::vec::IntoIter;

use haul_proto::path::Name;
use rustix::fs::{FileType, RawDir, SeekFrom, seek};
use rustix::io::Errno;

use super::Dir;
use crate::fs::listing_buffer::ListingBuffer;
use crate::fs::prefetch::task::{LookupHandle, LookupTask, TaskOrder};
use crate::fs::prefetch::worker::PrefetchWorker;
use crate::fs::walk_lookup::{WalkLookup, WalkStep};
use crate::fs::{FileStat, FollowLinks};

/// Fewest names of a chunk, except the last, so that a small directory is one chunk.
const CHUNK_NAMES_MIN: usize = 128;

/// Most names in a chunk that are only counted, so that a walk can be stopped.
const COUNTED_MAX: u64 = 100_000;

/// The smallest entry that the system returns: 19 bytes of numbers, a name of
/// one byte and its NUL, rounded up to 8.
#[cfg(test)]
const SMALLEST_ENTRY: usize = 24;

/// Most names of a chunk.
#[cfg(test)]
pub(super) const MAX_NAMES: usize = CHUNK_NAMES_MIN - 1 + super::listing_buffer::LISTING_BUFFER / SMALLEST_ENTRY;

/// A position in a directory's listing. Clones share the state of the descriptor's position.
#[derive(Clone)]
pub(super) struct ListingPosition {
    cookie: u64,
    standing: Arc<Mutex<CursorOwner>>,
}

/// The position of a directory's descriptor.
#[derive(Default)]
struct CursorOwner {
    fd: Weak<OwnedFd>,
    cookie: u64,
}

/// Some names of a directory.
pub(super) struct ListingChunk {
    names: Vec<u8>,
    entries: IntoIter<ListedName>,
    /// Number of names that were only counted.
    pub counted: u64,
    /// The position after them; `None` at the end.
    pub rest: Option<ListingPosition>,
    /// Its prefetch, if requested.
    pub rest_ahead: Option<LookupHandle<ReadListing>>,
}

/// A name and its listed type.
pub(super) struct ListedName {
    start: usize,
    end: usize,
    /// The type; [`FileType::Unknown`] if the file system does not list it.
    pub kind: FileType,
    /// The result of prefetching.
    pub known: KnownName,
}

/// Prefetched knowledge of a name.
pub(super) enum KnownName {
    /// None.
    Nothing,
    /// Result of the lookup.
    Seen(io::Result<WalkLookup>),
    /// A directory with a requested prefetch.
    Asked(LookupHandle<OpenSubdirectory>),
}

impl ListingPosition {
    /// Starts a listing without other readers.
    pub fn beginning() -> Self {
        Self { cookie: 0, standing: Arc::default() }
    }

    /// Whether nothing was listed before it.
    fn is_beginning(&self) -> bool {
        self.cookie == 0
    }

    /// Reads some names of `dir` from here. Counts names of the kinds `only_counts`, without keeping them.
    pub fn read(
        &self,
        dir: &Dir,
        only_counts: impl Fn(FileType) -> bool,
        ListingBuffer(buffer): &mut ListingBuffer,
    ) -> io::Result<ListingChunk> {
        let fd = dir.fd()?;
        // Locked while reading: all readers share the descriptor's position.
        let mut standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        // The descriptor differs if the directory was closed meanwhile, or is new.
        if !std::ptr::eq(standing.fd.as_ptr(), Arc::as_ptr(&fd)) || standing.cookie != self.cookie {
            seek(&*fd, SeekFrom::Start(self.cookie))?;
        }
        *standing = CursorOwner::default();
        let (mut names, mut entries, mut counted, mut cookie) = (Vec::new(), Vec::new(), 0, self.cookie);
        let mut listing = RawDir::new(&*fd, buffer.spare_capacity_mut());
        let ended = loop {
            match listing.next() {
                None => break true,
                Some(Err(Errno::INTR)) => continue,
                // Return the names before the error, which recurs at the next read.
                Some(Err(_)) if !entries.is_empty() || counted > 0 => break false,
                Some(entry) => {
                    let entry = entry?;
                    cookie = entry.next_entry_cookie();
                    let name = entry.file_name().to_bytes();
                    if only_counts(entry.file_type()) {
                        counted += 1;
                    } else if name != b"." && name != b".." {
                        let start = names.len();
                        names.extend_from_slice(name);
                        let (end, kind) = (names.len(), entry.file_type());
                        entries.push(ListedName { start, end, kind, known: KnownName::Nothing });
                    }
                }
            }
            if listing.is_buffer_empty() && (entries.len() >= CHUNK_NAMES_MIN || counted >= COUNTED_MAX) {
                *standing = CursorOwner { fd: Arc::downgrade(&fd), cookie };
                break false;
            }
        };
        let rest = (!ended).then(|| Self { cookie, standing: Arc::clone(&self.standing) });
        Ok(ListingChunk { names, entries: entries.into_iter(), counted, rest, rest_ahead: None })
    }
}

impl ListingChunk {
    /// An empty chunk at the end of its directory.
    pub fn empty() -> Self {
        Self { names: Vec::new(), entries: Vec::new().into_iter(), counted: 0, rest: None, rest_ahead: None }
    }

    /// The next entry.
    pub fn next_name(&mut self) -> Option<ListedName> {
        self.entries.next()
    }

    /// The name of an entry of this chunk.
    pub fn name(&self, entry: &ListedName) -> &[u8] {
        &self.names[entry.start..entry.end]
    }

    /// The remaining entries, with their names.
    pub fn left(&mut self) -> impl Iterator<Item = (&[u8], &mut ListedName)> {
        let names = &self.names;
        self.entries.as_mut_slice().iter_mut().map(|entry| (&names[entry.start..entry.end], entry))
    }

    /// Keeps the names that `keep` accepts, by name and type.
    pub fn retain(&mut self, mut keep: impl FnMut(&[u8], FileType) -> bool) {
        let entries = std::mem::take(&mut self.entries);
        let names = &self.names;
        let kept = entries.filter(|entry| keep(&names[entry.start..entry.end], entry.kind));
        self.entries = kept.collect::<Vec<_>>().into_iter();
    }

    /// Its approximate memory, in bytes.
    pub fn bytes(&self) -> usize {
        let points_to = |entry: &ListedName| match &entry.known {
            KnownName::Seen(Ok(WalkLookup { points_to: Some(points_to), .. })) => points_to.len(),
            _ => 0,
        };
        let entries = self.entries.as_slice();
        size_of_val(entries) + self.names.len() + entries.iter().map(points_to).sum::<usize>()
    }

    /// A chunk of files with these names.
    #[cfg(test)]
    pub fn of_names(all: &[&str], rest: Option<ListingPosition>) -> Self {
        let (mut names, mut entries) = (Vec::new(), Vec::new());
        for name in all {
            let start = names.len();
            names.extend_from_slice(name.as_bytes());
            let kind = FileType::RegularFile;
            entries.push(ListedName { start, end: names.len(), kind, known: KnownName::Nothing });
        }
        Self { names, entries: entries.into_iter(), counted: 0, rest, rest_ahead: None }
    }

    /// Number of remaining names.
    #[cfg(test)]
    pub fn names_held(&self) -> usize {
        self.entries.len()
    }
}

/// Bytes charged for an open directory: more than its memory, since descriptors are scarce.
const DIRECTORY_BYTES: usize = 2048;

/// Opens a subdirectory.
pub(super) struct OpenSubdirectory {
    pub parent: Dir,
    pub name: Name,
}

/// An opened subdirectory.
pub(super) struct OpenedSubdirectory {
    pub dir: Dir,
    pub stat: FileStat,
    /// Its listing.
    pub rest: ListingPosition,
    /// Its prefetch, if requested.
    pub rest_ahead: Option<LookupHandle<ReadListing>>,
}

impl LookupTask for OpenSubdirectory {
    type Fetched = OpenedSubdirectory;

    fn run(&self, worker: &mut PrefetchWorker<'_>) -> Option<io::Result<OpenedSubdirectory>> {
        let opened = worker.waits.time(|| self.parent.child_with_stat(&self.name, FollowLinks::Itself));
        Some(opened.map(|(dir, stat)| {
            let rest = ListingPosition::beginning();
            let read = ReadListing { dir: dir.clone(), rest: rest.clone() };
            // The walk excludes entries later.
            let is_walked = worker.options().skip != Some(stat.identity);
            let rest_ahead = if is_walked { worker.ask(read, TaskOrder::Nearest) } else { None };
            OpenedSubdirectory { dir, stat, rest, rest_ahead }
        }))
    }

    fn bytes(_: &OpenedSubdirectory) -> usize {
        DIRECTORY_BYTES
    }
}

/// Reads some names of a directory and looks them up.
pub(super) struct ReadListing {
    pub dir: Dir,
    pub rest: ListingPosition,
}

impl ReadListing {
    /// Requests what follows, before the lookups: the subdirectories, the last of which the walk enters first, and then
    /// the rest of the listing.
    fn ask_for_more(&self, chunk: &mut ListingChunk, worker: &PrefetchWorker<'_>) {
        let options = worker.options();
        let rest = chunk.rest.clone().map(|rest| Self { dir: self.dir.clone(), rest });
        let is_directory = |kind| options.recursive && matches!(WalkStep::of(kind, options.symlinks), WalkStep::Enter);
        let ask = |(name, entry): (&[u8], &mut ListedName), order| {
            let Ok(name) = Name::new(name) else { return };
            let asked = worker.ask_deeper(OpenSubdirectory { parent: self.dir.clone(), name }, order);
            entry.known = asked.map_or(KnownName::Nothing, KnownName::Asked);
        };
        let mut subdirectories: Vec<_> = chunk.left().filter(|(_, entry)| is_directory(entry.kind)).collect();
        if self.rest.is_beginning() {
            // All this comes before the other directories beside this one.
            let rest_ahead = rest.and_then(|rest| worker.ask(rest, TaskOrder::Nearest));
            subdirectories.into_iter().for_each(|subdirectory| ask(subdirectory, TaskOrder::Nearest));
            chunk.rest_ahead = rest_ahead;
        } else {
            // The walk comes to the subdirectories of earlier pieces first.
            subdirectories.drain(..).rev().for_each(|subdirectory| ask(subdirectory, TaskOrder::Farthest));
            drop(subdirectories);
            chunk.rest_ahead = rest.and_then(|rest| worker.ask(rest, TaskOrder::Farthest));
        }
    }
}

impl LookupTask for ReadListing {
    type Fetched = ListingChunk;

    fn run(&self, worker: &mut PrefetchWorker<'_>) -> Option<io::Result<ListingChunk>> {
        let options = *worker.options();
        let only_counts = |kind| options.only_counts(kind);
        let mut chunk = match worker.waits.time(|| self.rest.read(&self.dir, only_counts, &mut worker.buffer)) {
            Ok(chunk) => chunk,
            Err(error) => return Some(Err(error)),
        };
        self.ask_for_more(&mut chunk, worker);
        for (name, entry) in chunk.left() {
            if worker.is_stopped() {
                return None;
            }
            let (Ok(name), WalkStep::LookAt(links)) = (Name::new(name), WalkStep::of(entry.kind, options.symlinks))
            else {
                continue;
            };
            let seen = worker.waits.time(|| WalkLookup::at(&self.dir, &name, links, options.symlinks));
            entry.known = KnownName::Seen(seen);
        }
        Some(Ok(chunk))
    }

    fn bytes(chunk: &ListingChunk) -> usize {
        chunk.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::FdCache;
    use super::super::testing::write_file;
    use super::*;

    fn names(chunk: &mut ListingChunk) -> Vec<Vec<u8>> {
        chunk.left().map(|(name, _)| name.to_vec()).collect()
    }

    #[test]
    fn a_position_can_be_read_again_despite_other_readers() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open_root_in(temp.path(), FdCache::new(2)).unwrap();
        (0..1_000).for_each(|i| write_file(&dir, format!("a name of some length {i}"), b""));
        let mut buffer = ListingBuffer::new();
        let beginning = ListingPosition::beginning();
        let mut first = beginning.read(&dir, |_| false, &mut buffer).unwrap();
        let rest = first.rest.clone().expect("more than one piece");
        let mut second = rest.read(&dir, |_| false, &mut buffer).unwrap();
        assert_eq!(names(&mut rest.read(&dir, |_| false, &mut buffer).unwrap()), names(&mut second));
        assert_eq!(names(&mut beginning.read(&dir, |_| false, &mut buffer).unwrap()), names(&mut first));
        let mut all = [names(&mut first), names(&mut second)].concat();
        let mut next = second.rest.clone();
        while let Some(rest) = next {
            let mut chunk = rest.read(&dir, |_| false, &mut buffer).unwrap();
            assert!(chunk.names_held() <= MAX_NAMES);
            all.extend(names(&mut chunk));
            next = chunk.rest;
        }
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 1_000);
    }
}
