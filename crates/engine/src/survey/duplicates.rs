//! Files that are the same: of those that have one size, those that begin alike ([`HEAD`] bytes), and of those, the ones
//! with one BLAKE3 value. Names of one file are one file. Whoever could save most is looked at first, for the case that
//! the time is up.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::catalog::{Catalog, FileId, Opener};
use super::tally::Sum;
use super::top::Top;
use crate::cancel::Cancel;
use crate::fs::{Identity, Links};
use crate::os::machine::cores;
use crate::storage::calls::read_at;

/// Bytes at the beginning of a file that are compared before the whole.
const HEAD: u64 = 64 << 10;
/// Read at a time.
const PIECE: usize = 1 << 20;
/// Sets that are named.
const SETS: usize = 20;
/// Paths that are named of a set.
const PATHS: usize = 3;
/// Most that read at a time.
const THREADS: u16 = 8;
/// How often it is said how far it is.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// Files that are the same.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Duplicates {
    /// How many sets of files with the same bytes.
    pub sets: u64,
    /// Files beyond the first of each set, and their bytes: what could be saved.
    pub spare: Sum,
    /// The sets with which most could be saved, these first.
    pub biggest: Vec<Set>,
    /// Bytes that were read for that.
    pub read: u64,
    /// Files of equal size that were not compared: the time was up.
    pub late: Sum,
    /// Files whose names were not held, for want of room.
    pub left_out: Sum,
    /// All of those are smaller than this, or there was no room even for bigger ones.
    pub held_from: u64,
    /// Files that could not be read, or changed meanwhile.
    pub failed: u64,
}

/// Files with the same bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Set {
    /// Bytes of each.
    pub bytes: u64,
    /// How many.
    pub files: u64,
    /// The BLAKE3 value of each.
    pub digest: [u8; 32],
    /// The first few of them.
    pub paths: Vec<Vec<u8>>,
}

/// Files of one size.
struct Group {
    size: u64,
    files: Range<FileId>,
}

/// What the threads share.
struct Search<'c> {
    catalog: &'c Catalog,
    groups: &'c [Group],
    next: AtomicUsize,
    links: Links,
    deadline: Instant,
    cancel: &'c Cancel,
    read: AtomicU64,
    found: Mutex<Found>,
}

struct Found {
    so_far: Duplicates,
    biggest: Top<Set>,
}

/// The digest of a file's bytes, its device and inode, and which file it is.
type Read = ([u8; 32], u64, u64, FileId);

/// Why a file has no digest.
enum Refused {
    /// There is no time.
    Late,
    /// It cannot be read.
    Failed,
}

impl From<io::Error> for Refused {
    fn from(_: io::Error) -> Self {
        Self::Failed
    }
}

/// Finds them, until the deadline. `links`: whether directories may be links to directories.
pub fn find(
    mut catalog: Catalog,
    links: Links,
    deadline: Instant,
    cancel: &Cancel,
    mut tell: impl FnMut(u64),
) -> Duplicates {
    let mut groups = Vec::new();
    catalog.groups(|size, files| {
        if files.len() > 1 {
            groups.push(Group { size, files });
        }
    });
    groups.sort_by_key(|group| std::cmp::Reverse(group.size.saturating_mul(group.files.len() as u64 - 1)));
    let found = Mutex::new(Found { so_far: Duplicates::default(), biggest: Top::new(SETS) });
    let (next, read) = (AtomicUsize::new(0), AtomicU64::new(0));
    let search = Search { catalog: &catalog, groups: &groups, next, links, deadline, cancel, read, found };
    let waiting = thread::current();
    thread::scope(|scope| {
        let threads = usize::from(cores().clamp(1, THREADS)).min(groups.len());
        let started: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    search.take_part();
                    waiting.unpark();
                })
            })
            .collect();
        while started.iter().any(|thread| !thread.is_finished()) {
            tell(search.read.load(Ordering::Relaxed));
            thread::park_timeout(TELL_EVERY);
        }
    });
    let read = search.read.into_inner();
    let Found { so_far, biggest } = search.found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (left_out, held_from) = catalog.left_out();
    let mut biggest = biggest.into_sorted();
    biggest.sort_by(|a, b| (b.saves(), &a.paths).cmp(&(a.saves(), &b.paths)));
    Duplicates { biggest, read, left_out, held_from, ..so_far }
}

impl Set {
    /// Bytes of all but one of them.
    pub fn saves(&self) -> u64 {
        self.bytes.saturating_mul(self.files.saturating_sub(1))
    }
}

impl Search<'_> {
    fn take_part(&self) {
        let mut opener = Opener::new(self.catalog, self.links);
        let mut buffer = vec![0; PIECE];
        while let Some(group) = self.groups.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            self.group(group, &mut opener, &mut buffer);
        }
    }

    fn group(&self, group: &Group, opener: &mut Opener<'_>, buffer: &mut [u8]) {
        let head = group.size.min(HEAD);
        let Some(alike) = self.digests(group, group.files.clone(), head, opener, buffer) else { return };
        for run in runs(&alike) {
            if group.size <= HEAD {
                self.count(group.size, run);
                continue;
            }
            let files = run.iter().map(|(.., file)| *file);
            let Some(same) = self.digests(group, files, group.size, opener, buffer) else { continue };
            runs(&same).for_each(|run| self.count(group.size, run));
        }
    }

    /// The first `len` bytes of each, those that are equal beside each other. `None` where there was no time.
    fn digests(
        &self,
        group: &Group,
        files: impl ExactSizeIterator<Item = FileId>,
        len: u64,
        opener: &mut Opener<'_>,
        buffer: &mut [u8],
    ) -> Option<Vec<Read>> {
        let count = files.len() as u64;
        let mut digests = Vec::with_capacity(files.len());
        for file in files {
            match self.digest(file, group.size, len, opener, buffer) {
                Ok((digest, device, inode)) => digests.push((digest, device, inode, file)),
                Err(Refused::Failed) => self.with_found(|found| found.so_far.failed += 1),
                Err(Refused::Late) => {
                    let late = Sum { files: count, bytes: group.size.saturating_mul(count) };
                    self.with_found(|found| found.so_far.late.add_all(&late));
                    return None;
                }
            }
        }
        // Two names of one file, or one file that was named twice, are one.
        digests.sort_unstable();
        digests.dedup_by_key(|(digest, device, inode, _)| (*digest, *device, *inode));
        digests.sort_unstable_by_key(|(digest, .., file)| (*digest, *file));
        Some(digests)
    }

    fn digest(
        &self,
        file: FileId,
        size: u64,
        len: u64,
        opener: &mut Opener<'_>,
        buffer: &mut [u8],
    ) -> Result<([u8; 32], u64, u64), Refused> {
        self.check_time()?;
        let (fd, look) = opener.open(file)?;
        if look.size != size {
            return Err(Refused::Failed);
        }
        let (mut hasher, mut at) = (blake3::Hasher::new(), 0);
        while at < len {
            let want = usize::try_from(len - at).map_or(PIECE, |left| left.min(PIECE));
            let got = read_at(&fd, &mut buffer[..want], at)?;
            if got < want {
                return Err(Refused::Failed);
            }
            hasher.update(&buffer[..got]);
            at += got as u64;
            self.read.fetch_add(got as u64, Ordering::Relaxed);
            self.check_time()?;
        }
        let Identity { device, inode } = look.identity;
        Ok((*hasher.finalize().as_bytes(), device, inode))
    }

    fn check_time(&self) -> Result<(), Refused> {
        let is_late = self.cancel.is_cancelled() || Instant::now() >= self.deadline;
        if is_late { Err(Refused::Late) } else { Ok(()) }
    }

    fn count(&self, size: u64, run: &[Read]) {
        let files = run.len() as u64;
        let spare = Sum { files: files - 1, bytes: size.saturating_mul(files - 1) };
        self.with_found(|Found { so_far, biggest }| {
            so_far.sets += 1;
            so_far.spare.add_all(&spare);
            biggest.offer(spare.bytes, || Set {
                bytes: size,
                files,
                digest: run[0].0,
                paths: run.iter().take(PATHS).map(|(.., file)| self.catalog.path(*file)).collect(),
            });
        });
    }

    fn with_found(&self, change: impl FnOnce(&mut Found)) {
        change(&mut self.found.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Two or more with one digest.
fn runs(digests: &[Read]) -> impl Iterator<Item = &[Read]> {
    digests.chunk_by(|a, b| a.0 == b.0).filter(|run| run.len() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::Dir;
    use haul_proto::path::Name;
    use std::path::Path;

    const LONG: Duration = Duration::from_secs(60);

    fn catalog(dir: &Path, files: &[(&str, &[u8])]) -> Catalog {
        let mut catalog = Catalog::new();
        catalog.enter_root(Dir::open_root(dir).unwrap(), b"t");
        for (name, bytes) in files {
            std::fs::write(dir.join(name), bytes).unwrap();
            catalog.add(&Name::new(name.as_bytes()).unwrap(), Links::Itself, bytes.len() as u64);
        }
        catalog
    }

    fn found(catalog: Catalog, time: Duration) -> Duplicates {
        find(catalog, Links::Itself, Instant::now() + time, &Cancel::new(), |_| {})
    }

    /// Bytes that begin alike and end as they are told.
    fn long(end: u8) -> Vec<u8> {
        let mut bytes = vec![1; 3 * PIECE + 5];
        bytes.push(end);
        bytes
    }

    #[test]
    fn the_same_bytes_are_found_whatever_their_size() {
        let temp = tempfile::tempdir().unwrap();
        let (one, other) = (long(1), long(2));
        let files: [(&str, &[u8]); 8] = [
            ("a", b"same"),
            ("b", b"same"),
            ("c", b"else"),
            ("d", b"same"),
            ("e", b"of another size"),
            ("f", &one),
            ("g", &other),
            ("h", &one),
        ];
        let found = found(catalog(temp.path(), &files), LONG);
        assert_eq!((found.sets, found.spare), (2, Sum { files: 3, bytes: 8 + one.len() as u64 }));
        let named: Vec<_> = found.biggest.iter().map(|set| (set.files, set.paths.clone())).collect();
        let paths = |names: &[&str]| names.iter().map(|name| name.as_bytes().to_vec()).collect::<Vec<_>>();
        assert_eq!(named, [(2, paths(&["t/f", "t/h"])), (3, paths(&["t/a", "t/b", "t/d"]))]);
        assert_eq!(found.biggest[0].digest, *blake3::hash(&one).as_bytes());
        // Four small ones, three beginnings, and three whole.
        assert_eq!(found.read, 16 + 3 * HEAD + 3 * one.len() as u64);
        assert_eq!((found.late, found.failed), (Sum::default(), 0));
    }

    #[test]
    fn names_of_one_file_are_one_file() {
        let temp = tempfile::tempdir().unwrap();
        let mut catalog = catalog(temp.path(), &[("a", b"1234"), ("b", b"5678")]);
        std::fs::hard_link(temp.path().join("a"), temp.path().join("c")).unwrap();
        catalog.add(&Name::new(b"c").unwrap(), Links::Itself, 4);
        assert_eq!(found(catalog, LONG).sets, 0);
    }

    #[test]
    fn what_begins_otherwise_is_not_read_to_its_end() {
        let temp = tempfile::tempdir().unwrap();
        let (one, mut other) = (long(1), long(1));
        other[0] = 2;
        let found = found(catalog(temp.path(), &[("a", &one), ("b", &other)]), LONG);
        assert_eq!((found.sets, found.read), (0, 2 * HEAD));
    }

    #[test]
    fn without_time_nothing_is_compared_and_that_is_said() {
        let temp = tempfile::tempdir().unwrap();
        let found = found(catalog(temp.path(), &[("a", b"1234"), ("b", b"1234"), ("c", b"1")]), Duration::ZERO);
        assert_eq!((found.sets, found.read, found.late), (0, 0, Sum { files: 2, bytes: 8 }));
    }

    #[test]
    fn what_has_changed_or_vanished_is_counted_and_nothing_else_suffers() {
        let temp = tempfile::tempdir().unwrap();
        let catalog = catalog(temp.path(), &[("a", b"1234"), ("b", b"1234"), ("c", b"1234"), ("d", b"1234")]);
        std::fs::remove_file(temp.path().join("a")).unwrap();
        std::fs::write(temp.path().join("b"), b"123456").unwrap();
        let found = found(catalog, LONG);
        assert_eq!((found.failed, found.sets, found.spare.files), (2, 1, 1));
    }
}
