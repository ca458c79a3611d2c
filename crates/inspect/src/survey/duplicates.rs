//! Duplicate files: files of equal size, then equal beginnings ([`HEAD`] bytes), then equal BLAKE3 digests. Hard links
//! are one file. The largest possible savings are examined first, in case time runs out.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Builder};
use std::time::{Duration, Instant};

use haul_base::sys::cancel::Cancel;
use haul_base::sys::sync::lock;
use haul_engine::fs::{FileIdentity, FollowLinks};
use haul_engine::read_at;
use haul_engine::sys::machine::cores;
use serde::Serialize;

use super::catalog::{Catalog, CatalogOpener, FileId};
use super::tally::FileTotals;
use crate::survey::top_n::TopN;

/// Bytes at the beginning of a file, compared before the whole.
const HEAD: u64 = 64 << 10;
/// Read size in bytes.
const PIECE: usize = 1 << 20;
/// Most listed sets.
const SETS: usize = 20;
/// Most listed paths of a set.
const PATHS: usize = 3;
/// Files per batch; groups of equal size stay together.
const BATCH: usize = 1 << 16;
/// Files per thread at a time.
const CHUNK: usize = 16;
/// Most reading threads: some wait for the disk while others hash.
const READERS: usize = 8;
/// Interval of progress reports.
const REPORT_EVERY: Duration = Duration::from_millis(100);

/// Results of the search for duplicates.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct DuplicateFiles {
    /// Number of sets of equal files.
    pub sets: u64,
    /// Files beyond the first of each set, and their bytes: the possible savings.
    pub spare: FileTotals,
    /// The sets with the largest savings, largest first.
    #[serde(skip)]
    pub biggest: Vec<DuplicateSet>,
    /// Read bytes.
    #[serde(rename = "read_bytes")]
    pub read: u64,
    /// Files of equal size that were not compared for lack of time.
    pub late: FileTotals,
    /// Files dropped from the catalog for lack of room.
    #[serde(rename = "not_held")]
    pub left_out: FileTotals,
    /// The smallest size without dropped files, unless the catalog was closed.
    pub held_from: u64,
    /// Files that were unreadable, or changed meanwhile.
    pub failed: u64,
}

/// A set of equal files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DuplicateSet {
    /// Bytes of each.
    pub bytes: u64,
    /// Their number.
    pub files: u64,
    /// The BLAKE3 value of each.
    pub digest: [u8; 32],
    /// The first few paths.
    pub paths: Vec<Vec<u8>>,
}

/// State shared by the threads.
struct DuplicateSearch<'c> {
    catalog: &'c Catalog,
    links: FollowLinks,
    deadline: Instant,
    cancel: &'c Cancel,
    read: AtomicU64,
    found: Mutex<DuplicateFiles>,
}

/// The digest of a file of the catalog, with its device and inode.
struct DuplicateDigest {
    size: u64,
    digest: [u8; 32],
    identity: (u64, u64),
    file: FileId,
}

/// Why a file has no digest.
enum DigestRefusal {
    /// The time is up.
    Late,
    /// It cannot be read.
    Failed,
}

impl From<io::Error> for DigestRefusal {
    fn from(_: io::Error) -> Self {
        Self::Failed
    }
}

/// Finds duplicates until the deadline. `links`: whether directories may be symbolic links.
pub fn find(
    mut catalog: Catalog,
    links: FollowLinks,
    deadline: Instant,
    cancel: &Cancel,
    mut tell: impl FnMut(u64),
) -> DuplicateFiles {
    let mut groups = Vec::new();
    catalog.groups(|size, files| {
        if files.len() > 1 {
            groups.push((size.saturating_mul(files.len() as u64 - 1), files));
        }
    });
    groups.sort_by_key(|(spare, _)| std::cmp::Reverse(*spare));
    let found = Mutex::default();
    let search = DuplicateSearch { catalog: &catalog, links, deadline, cancel, read: AtomicU64::new(0), found };
    let mut biggest = TopN::new(SETS);
    let (mut batch, mut groups) = (Vec::new(), groups.into_iter().peekable());
    while let Some((_, files)) = groups.next() {
        batch.extend(files);
        if batch.len() >= BATCH || groups.peek().is_none() {
            search.compare(std::mem::take(&mut batch), &mut biggest, &mut tell);
        }
    }
    let read = search.read.into_inner();
    let found = search.found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (left_out, held_from) = catalog.left_out();
    DuplicateFiles { biggest: biggest.into_sorted(), read, left_out, held_from, ..found }
}

impl DuplicateSet {
    /// Bytes of all copies but one.
    pub fn saves(&self) -> u64 {
        self.bytes.saturating_mul(self.files.saturating_sub(1))
    }
}

impl DuplicateSearch<'_> {
    /// Compares whole groups of files of equal size. Beginnings are read in the order of discovery, which is their
    /// order on most disks.
    fn compare(&self, mut files: Vec<FileId>, biggest: &mut TopN<DuplicateSet>, tell: &mut impl FnMut(u64)) {
        files.sort_unstable_by_key(|file| self.catalog.order(*file));
        let heads = sorted(self.read_all(&files, HEAD, READERS, tell));
        drop(files);
        let mut longer = Vec::new();
        for run in runs(&heads) {
            match run[0].size {
                0..=HEAD => self.count(run, biggest),
                _ => longer.extend(run.iter().map(|read| read.file)),
            }
        }
        longer.sort_by_key(|file| std::cmp::Reverse(self.catalog.size(*file)));
        let whole = sorted(self.read_all(&longer, u64::MAX, usize::from(cores()).clamp(1, READERS), tell));
        runs(&whole).for_each(|run| self.count(run, biggest));
    }

    /// Reads the first `most` bytes of each file, or all, with this many threads.
    fn read_all(
        &self,
        files: &[FileId],
        most: u64,
        threads: usize,
        tell: &mut impl FnMut(u64),
    ) -> Vec<DuplicateDigest> {
        let (next, waiting) = (AtomicUsize::new(0), thread::current());
        let take_part = || {
            let (mut opener, mut buffer) = (CatalogOpener::new(self.catalog, self.links), vec![0; PIECE]);
            let mut all = Vec::new();
            while let Some(some) = files.chunks(CHUNK).nth(next.fetch_add(1, Ordering::Relaxed)) {
                all.extend(some.iter().filter_map(|file| self.read(*file, most, &mut opener, &mut buffer)));
            }
            waiting.unpark();
            all
        };
        thread::scope(|scope| {
            let threads = threads.min(files.len().div_ceil(CHUNK));
            let begin = |number| Builder::new().name(format!("haul-same{number}")).spawn_scoped(scope, take_part).ok();
            let started: Vec<_> = (0..threads).map_while(begin).collect();
            if started.is_empty() {
                // No threads are available, or nothing is to be read.
                return take_part();
            }
            while started.iter().any(|thread| !thread.is_finished()) {
                tell(self.read.load(Ordering::Relaxed));
                thread::park_timeout(REPORT_EVERY);
            }
            // A panic is a bug and must not be hidden.
            started.into_iter().flat_map(|thread| thread.join().expect("a thread reads to its end")).collect()
        })
    }

    fn read(
        &self,
        file: FileId,
        most: u64,
        opener: &mut CatalogOpener<'_>,
        buffer: &mut [u8],
    ) -> Option<DuplicateDigest> {
        let size = self.catalog.size(file);
        match self.digest(file, size, most, opener, buffer) {
            Ok((digest, identity)) => return Some(DuplicateDigest { size, digest, identity, file }),
            Err(DigestRefusal::Failed) => self.with_found(|found| found.failed += 1),
            Err(DigestRefusal::Late) => self.with_found(|found| found.late.add(size)),
        }
        None
    }

    fn digest(
        &self,
        file: FileId,
        size: u64,
        most: u64,
        opener: &mut CatalogOpener<'_>,
        buffer: &mut [u8],
    ) -> Result<([u8; 32], (u64, u64)), DigestRefusal> {
        self.check_time()?;
        let (fd, stat) = opener.open(file)?;
        if stat.size != size {
            return Err(DigestRefusal::Failed);
        }
        let (mut hasher, mut at, len) = (blake3::Hasher::new(), 0, size.min(most));
        while at < len {
            let want = usize::try_from(len - at).map_or(PIECE, |left| left.min(PIECE));
            let got = read_at(&fd, &mut buffer[..want], at)?;
            if got < want {
                return Err(DigestRefusal::Failed);
            }
            hasher.update(&buffer[..got]);
            at += got as u64;
            self.read.fetch_add(got as u64, Ordering::Relaxed);
            self.check_time()?;
        }
        let FileIdentity { device, inode } = stat.identity;
        Ok((*hasher.finalize().as_bytes(), (device, inode)))
    }

    fn check_time(&self) -> Result<(), DigestRefusal> {
        let is_late = self.cancel.is_cancelled() || Instant::now() >= self.deadline;
        if is_late { Err(DigestRefusal::Late) } else { Ok(()) }
    }

    /// Counts a set of equal files.
    fn count(&self, run: &[DuplicateDigest], biggest: &mut TopN<DuplicateSet>) {
        let [first, others @ ..] = run else { return };
        let (bytes, files) = (first.size, run.len() as u64);
        let spare = FileTotals { files: files - 1, bytes: bytes.saturating_mul(others.len() as u64) };
        self.with_found(|found| {
            found.sets += 1;
            found.spare.add_all(&spare);
        });
        let paths = || run.iter().take(PATHS).map(|read| self.catalog.path(read.file)).collect();
        biggest.offer(spare.bytes, || DuplicateSet { bytes, files, digest: first.digest, paths: paths() });
    }

    fn with_found(&self, change: impl FnOnce(&mut DuplicateFiles)) {
        change(&mut lock(&self.found));
    }
}

/// Sorts equal files together. Two names of one file, or one file named twice, count once.
fn sorted(mut files: Vec<DuplicateDigest>) -> Vec<DuplicateDigest> {
    files.sort_unstable_by_key(|read| (read.size, read.digest, read.identity, read.file));
    files.dedup_by_key(|read| (read.size, read.digest, read.identity));
    files.sort_unstable_by_key(|read| (read.size, read.digest, read.file));
    files
}

/// Runs of two or more equal digests.
fn runs(files: &[DuplicateDigest]) -> impl Iterator<Item = &[DuplicateDigest]> {
    files.chunk_by(|a, b| (a.size, a.digest) == (b.size, b.digest)).filter(|run| run.len() > 1)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use haul_engine::fs::Dir;
    use haul_proto::path::Name;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn catalog(dir: &Path, files: &[(&str, &[u8])]) -> Catalog {
        let mut catalog = Catalog::new();
        catalog.enter_root(Dir::open_root(dir).unwrap(), b"t");
        for (name, bytes) in files {
            std::fs::write(dir.join(name), bytes).unwrap();
            catalog.add(&Name::new(name.as_bytes()).unwrap(), FollowLinks::Itself, bytes.len() as u64);
        }
        catalog
    }

    fn found(catalog: Catalog, time: Duration) -> DuplicateFiles {
        find(catalog, FollowLinks::Itself, Instant::now() + time, &Cancel::new(), |_| {})
    }

    /// Bytes with an equal beginning and a given end.
    fn long(end: u8) -> Vec<u8> {
        let mut bytes = vec![1; 3 * PIECE + 5];
        bytes.push(end);
        bytes
    }

    #[test]
    fn equal_bytes_are_found_at_any_size() {
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
        assert_eq!((found.sets, found.spare), (2, FileTotals { files: 3, bytes: 8 + one.len() as u64 }));
        let named: Vec<_> = found.biggest.iter().map(|set| (set.files, set.paths.clone())).collect();
        let paths = |names: &[&str]| names.iter().map(|name| name.as_bytes().to_vec()).collect::<Vec<_>>();
        assert_eq!(named, [(2, paths(&["t/f", "t/h"])), (3, paths(&["t/a", "t/b", "t/d"]))]);
        assert_eq!(found.biggest[0].digest, *blake3::hash(&one).as_bytes());
        // Four small ones, three beginnings, and three whole.
        assert_eq!(found.read, 16 + 3 * HEAD + 3 * one.len() as u64);
        assert_eq!((found.late, found.failed), (FileTotals::default(), 0));
    }

    #[test]
    fn names_of_one_file_are_one_file() {
        let temp = tempfile::tempdir().unwrap();
        let mut catalog = catalog(temp.path(), &[("a", b"1234"), ("b", b"5678")]);
        std::fs::hard_link(temp.path().join("a"), temp.path().join("c")).unwrap();
        catalog.add(&Name::new(b"c").unwrap(), FollowLinks::Itself, 4);
        assert_eq!(found(catalog, LONG).sets, 0);
    }

    #[test]
    fn files_with_different_starts_are_not_read_further() {
        let temp = tempfile::tempdir().unwrap();
        let (one, mut other) = (long(1), long(1));
        other[0] = 2;
        let found = found(catalog(temp.path(), &[("a", &one), ("b", &other)]), LONG);
        assert_eq!((found.sets, found.read), (0, 2 * HEAD));
    }

    #[test]
    fn without_time_nothing_is_compared_and_the_survey_says_so() {
        let temp = tempfile::tempdir().unwrap();
        let found = found(catalog(temp.path(), &[("a", b"1234"), ("b", b"1234"), ("c", b"1")]), Duration::ZERO);
        assert_eq!((found.sets, found.read, found.late), (0, 0, FileTotals { files: 2, bytes: 8 }));
    }

    #[test]
    fn changed_and_vanished_files_are_only_counted() {
        let temp = tempfile::tempdir().unwrap();
        let catalog = catalog(temp.path(), &[("a", b"1234"), ("b", b"1234"), ("c", b"1234"), ("d", b"1234")]);
        std::fs::remove_file(temp.path().join("a")).unwrap();
        std::fs::write(temp.path().join("b"), b"123456").unwrap();
        let found = found(catalog, LONG);
        assert_eq!((found.failed, found.sets, found.spare.files), (2, 1, 1));
    }
}
