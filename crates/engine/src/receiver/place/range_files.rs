//! The files of a large file that several runs copy, a range each: one partial file that all of them write, and a
//! journal for each range.
//!
//! A range locks its journal, so that no two runs write one range, and shares a lock of the partial file. The run that
//! completes the file locks it exclusively. Journals are apart, since nodes of a network file system cache whole pages.

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use haul_proto::entry::EntryMetadata;
use haul_proto::file_range::{FileRange, RangeLen};
use haul_proto::journal::{JournalHeader, RangeEnd};
use haul_proto::path::Name;
use haul_proto::striping::Striping;
use rustix::fs::{FileType, FlockOperation, Mode, OFlags, fchmod, fchown, flock, ftruncate, openat};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};

use crate::fs::{Dir, FileStat};
use crate::io::storage::FileAccess;
use crate::io::storage::file::OpenedFile;
use crate::receiver::place::copy_locks::{CopyLocks, LockedEntry};
use crate::receiver::place::error::{FileError, OtherRun};
use crate::receiver::place::journal::{OpenJournal, read_header};
use crate::receiver::place::target_path::{FileName, TargetPath};
use crate::receiver::place::temp_files::{
    TempFiles, flags_for, has_name, is_own_name, lock_file, open_locked, remove_journal, unlink,
};
use crate::receiver::place::temp_names::{sibling, temporary_name};
use crate::sys::refusal::refusal;

/// The set-user-ID and set-group-ID bits.
const SET_ID: u16 = 0o6000;

/// Most attempts to lock a range while other runs end.
const OPENS_MAX: usize = 8;

/// The partial file that all ranges of this length write. Plans with other lengths do not meet.
pub fn partial_name(name: &Name, len: RangeLen) -> Name {
    temporary_name(name, &[b"ranges", &len.get().to_le_bytes()[..]].concat())
}

/// The journal of a range, always beside the partial file: so all runs find it.
pub fn journal_of(dir: &Dir, name: &Name, range: FileRange) -> FileName {
    let what = [b"range", &range.len().get().to_le_bytes()[..], &range.offset().to_le_bytes()[..]].concat();
    FileName { dir: dir.clone(), name: sibling(&temporary_name(name, &what), "journal") }
}

/// A range that is being received: its files are locked.
pub struct OpenRange {
    /// Name of the journal.
    pub leaf: FileName,
    /// The partial file.
    pub file: Arc<OpenedFile>,
    /// The journal.
    pub journal: OpenJournal,
}

/// The state in which a range is found.
pub enum FoundRange {
    /// Nothing of this version is recorded.
    New(OpenRange),
    /// An earlier run recorded frames.
    Partial(OpenRange),
    /// An earlier run has completed it.
    Complete,
}

/// Opens a range to write it, with the range of `header`. The first range to create the partial file gives it its
/// striping.
pub fn open_range(
    path: &TargetPath,
    range: FileRange,
    header: &JournalHeader,
    striping: Option<Striping>,
    temp_files: &TempFiles,
    locks: &CopyLocks,
) -> Result<FoundRange, FileError> {
    let leaf = journal_of(&path.dir, &path.name, range);
    let (journal, file) = lock_range(path, &leaf, range, flags_for(striping), locks)?;
    // A finish that failed may have given it another mode.
    refusal(fchmod(&file, Mode::RUSR | Mode::WUSR))?;
    let stat = FileStat::at_fd(&file)?;
    if stat.size == 0 {
        temp_files.stripe(path, &partial_name(&path.name, range.len()), &file, striping);
    }
    if stat.size > header.size {
        remove_cut_ranges(path, range, header.size..stat.size);
    }
    if stat.size != header.size {
        ftruncate(&file, header.size)?;
    }
    let is_same = |found: &JournalHeader| found.is_same_version(header) && found.range == header.range;
    let found = read_header(&journal)?.filter(is_same);
    let usable = found.as_ref().filter(|found| found.frame == header.frame);
    if let Some(found) = &found {
        let journal = OpenJournal::continued(journal.try_clone()?, found);
        let has_ended = journal.recorded_end()?.is_some_and(|end| end.inode == stat.identity.inode);
        let has_its_data = || Ok::<_, io::Error>(journal.removed_bytes(&file, found.frame, found.size)?.is_none());
        if has_ended && stat.size == header.size && has_its_data()? {
            return Ok(FoundRange::Complete);
        }
    }
    let file = Arc::new(OpenedFile::new(file, FileAccess::Write)?);
    if usable.is_none() {
        let journal = OpenJournal::begin(journal, header)?;
        return Ok(FoundRange::New(OpenRange { leaf, file, journal }));
    }
    let journal = OpenJournal::continued(journal, header);
    journal.reopen()?;
    let is_new = journal.recorded()?.is_empty();
    let open = OpenRange { leaf, file, journal };
    Ok(if is_new { FoundRange::New(open) } else { FoundRange::Partial(open) })
}

/// Removes the journals of other ranges with bytes in `cut`, before a shorter version of the file cuts them off.
/// Otherwise, a run of the longer version would trust zeros.
fn remove_cut_ranges(path: &TargetPath, own: FileRange, cut: Range<u64>) {
    let len = own.len();
    let numbers = cut.start / len.get()..len.ranges_of(cut.end);
    let ranges = numbers.filter_map(|number| len.range(number)).filter(|range| *range != own);
    for range in ranges {
        remove_journal(&journal_of(&path.dir, &path.name, range));
    }
}

/// Locks the journal, then shares the lock of the partial file. A run that held the exclusive lock meanwhile
/// may have removed the journal.
fn lock_range(
    path: &TargetPath,
    leaf: &FileName,
    range: FileRange,
    striped: OFlags,
    locks: &CopyLocks,
) -> Result<(OwnedFd, OwnedFd), FileError> {
    let flags = OFlags::RDWR | OFlags::CREATE;
    let absent = || FileError::from(Errno::NOENT);
    let partial = partial_name(&path.name, range.len());
    for _ in 0..OPENS_MAX {
        let journal = lock_file(&path.dir, &leaf.name, flags, locks)?.ok_or_else(absent)?;
        let file = open_locked(&path.dir, &partial, flags | striped, &|file| locks.lock_shared(file))?;
        let file = file.ok_or_else(absent)?;
        if has_name(&path.dir, &leaf.name, &journal)? {
            return Ok((journal, file));
        }
    }
    Err(FileError::Held(OtherRun { process: None }))
}

/// Locks the partial file of a file with complete ranges, as the copy plan says; `None` if there is none.
pub fn lock_partial(path: &TargetPath, len: RangeLen, locks: &CopyLocks) -> Result<Option<OwnedFd>, FileError> {
    let lock = |file: &OwnedFd| locks.lock(file, LockedEntry::File);
    open_locked(&path.dir, &partial_name(&path.name, len), OFlags::RDWR, &lock)
}

/// Makes a partial file root's again that a finish, killed before its last step, had given to its final owner. Returns
/// whether to open it again.
///
/// Its inode must be that of complete journals of all ranges: another user may have put a file of their own there.
/// Without working locks, a finish may still be at work. Set-id files are never reclaimed, since their owner could
/// write to them meanwhile.
pub fn reclaim_partial(
    path: &TargetPath,
    len: RangeLen,
    header: &JournalHeader,
    meta: &EntryMetadata,
) -> Result<bool, FileError> {
    if !geteuid().is_root() {
        return Ok(false);
    }
    let partial = partial_name(&path.name, len);
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match openat(&*path.dir.fd()?, partial.as_bytes(), flags, Mode::empty()) {
        // It has its final name by now.
        Err(Errno::NOENT) => return Ok(true),
        Err(_) => return Ok(false),
        Ok(file) => file,
    };
    let stat = FileStat::at_fd(&file)?;
    let is_given = stat.kind == FileType::RegularFile
        && stat.names == 1
        && stat.meta.uid == meta.uid
        && !stat.is_owned_by_this_user()
        && stat.meta.mode & SET_ID == 0;
    if !is_given || flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(false);
    }
    for number in 0..len.ranges_of(header.size) {
        let Some(range) = len.range(number) else { return Ok(false) };
        if complete_range(path, range, header, stat.identity.inode)?.is_none() {
            return Ok(false);
        }
    }
    if has_name(&path.dir, &partial, &file)? {
        make_private(&file);
    }
    Ok(true)
}

/// Makes a partial file this user's alone.
pub fn make_private(file: &OwnedFd) {
    let _ = fchown(file, Some(geteuid()), Some(getegid()));
    let _ = fchmod(file, Mode::RUSR | Mode::WUSR);
}

/// The journal of a complete range, and its end; `None` unless it has this version and ended in the partial file of
/// this inode.
pub fn complete_range(
    path: &TargetPath,
    range: FileRange,
    header: &JournalHeader,
    inode: u64,
) -> io::Result<Option<(OpenJournal, JournalHeader, RangeEnd)>> {
    let leaf = journal_of(&path.dir, &path.name, range);
    let Some((journal, found)) = OpenJournal::open(&leaf, FileAccess::Read)? else { return Ok(None) };
    if !found.is_same_version(header) || found.range != Some(range) {
        return Ok(None);
    }
    let end = journal.recorded_end()?.filter(|end| end.inode == inode);
    Ok(end.map(|end| (journal, found, end)))
}

/// Removes the journals of a file of `size` bytes.
pub fn remove_journals(path: &TargetPath, len: RangeLen, size: u64) {
    for range in (0..len.ranges_of(size)).filter_map(|number| len.range(number)) {
        remove_journal(&journal_of(&path.dir, &path.name, range));
    }
}

/// Whether ranges of this length have left a partial file.
pub fn has_partial(path: &TargetPath, len: RangeLen) -> bool {
    is_own_name(&path.dir, &partial_name(&path.name, len))
}

/// Removes what ranges have left of a file of `size` bytes that has its final name, unless a run writes it.
pub fn remove_left(path: &TargetPath, len: RangeLen, size: u64) {
    let impatient = CopyLocks::with_patience(std::time::Duration::ZERO);
    let partial = partial_name(&path.name, len);
    let is_left = is_own_name(&path.dir, &partial);
    match lock_partial(path, len, &impatient) {
        Ok(Some(_locked)) => {
            remove_journals(path, len, size);
            unlink(&path.dir, &partial);
        }
        Ok(None) if !is_left => remove_journals(path, len, size),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use haul_proto::entry::{FileVersion, Timestamp};
    use haul_proto::integrity::{FrameLen, frame_check};
    use haul_proto::journal::JournalRecord;

    use super::*;

    const FRAME: u64 = 256 << 10;
    const SIZE: u64 = 9 * FRAME;

    struct Place {
        temp: tempfile::TempDir,
        path: TargetPath,
    }

    impl Place {
        fn new() -> Self {
            let temp = tempfile::tempdir().unwrap();
            let dir = Dir::open_root(temp.path()).unwrap();
            Self { temp, path: TargetPath { dir, name: Name::new(b"large").unwrap(), replaces: false } }
        }

        fn header(&self, number: u64, changed: i64) -> (FileRange, JournalHeader) {
            let range = RangeLen::MIN.range(number).unwrap();
            let changed = Timestamp { seconds: changed, nanoseconds: 0 };
            let version = FileVersion { device: changed.seconds.unsigned_abs(), inode: 2, changed };
            let frame = FrameLen::new(256 << 10).unwrap();
            let name = self.path.name.clone();
            let modified = Timestamp::default();
            (range, JournalHeader { name, size: SIZE, modified, version, frame, range: Some(range) })
        }

        fn open(&self, number: u64, changed: i64) -> Result<FoundRange, FileError> {
            let (range, header) = self.header(number, changed);
            open_range(
                &self.path,
                range,
                &header,
                None,
                &TempFiles::default(),
                &CopyLocks::with_patience(Duration::ZERO),
            )
        }

        fn new_range(&self, number: u64, changed: i64) -> OpenRange {
            match self.open(number, changed).unwrap() {
                FoundRange::New(open) => open,
                FoundRange::Partial(_) => panic!("a partial range"),
                FoundRange::Complete => panic!("a complete range"),
            }
        }

        /// Writes and records all frames of a range, and ends it.
        fn complete(&self, number: u64, changed: i64) {
            let open = self.new_range(number, changed);
            let frames = self.header(number, changed).1.frames();
            for index in frames {
                let bytes = vec![9; 256 << 10];
                crate::io::storage::calls::write_at(open.file.fd(), &bytes, index * FRAME).unwrap();
                open.journal.record(index, &JournalRecord { check: frame_check(&bytes), value: None });
            }
            let inode = FileStat::at_fd(open.file.fd()).unwrap().identity.inode;
            open.journal.end(&RangeEnd { value: None, inode }).unwrap();
        }

        fn partial(&self) -> std::path::PathBuf {
            self.temp.path().join(partial_name(&self.path.name, RangeLen::MIN).to_string())
        }
    }

    #[test]
    fn ranges_are_written_at_once_and_one_range_by_one_run() {
        let place = Place::new();
        let (first, last) = (place.new_range(0, 1), place.new_range(2, 1));
        assert!(matches!(place.open(2, 1), Err(FileError::Held(_))), "the same range");
        let impatient = CopyLocks::with_patience(Duration::ZERO);
        assert!(matches!(lock_partial(&place.path, RangeLen::MIN, &impatient), Err(FileError::Held(_))));
        drop((first, last));
        let alone = lock_partial(&place.path, RangeLen::MIN, &impatient).unwrap().unwrap();
        assert!(matches!(place.open(1, 1), Err(FileError::Held(_))), "somebody completes the file");
        assert_eq!(FileStat::at_fd(&alone).unwrap().size, SIZE);
    }

    #[test]
    fn a_range_is_resumed_complete_or_restarted() {
        let place = Place::new();
        place.new_range(0, 1).journal.record(3, &JournalRecord { check: 1, value: None });
        assert!(matches!(place.open(0, 1).unwrap(), FoundRange::Partial(_)));
        place.complete(1, 1);
        assert!(matches!(place.open(1, 1).unwrap(), FoundRange::Complete));
        // Another version of the file.
        drop(place.new_range(1, 2));
        drop(place.new_range(1, 1));
    }

    #[test]
    fn only_a_partial_file_with_all_ranges_is_reclaimed() {
        // A privileged user alone gives files away.
        if !geteuid().is_root() || haul_lab::is_emulated_without("other owner") {
            return;
        }
        let owner = 12_345;
        let meta = EntryMetadata { uid: owner, ..EntryMetadata::default() };
        let place = Place::new();
        let header = place.header(0, 1).1;
        let give = || std::os::unix::fs::chown(place.partial(), Some(owner), Some(owner)).unwrap();
        let reclaimed = || reclaim_partial(&place.path, RangeLen::MIN, &header, &meta).unwrap();
        let owned_by = || std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(place.partial()).unwrap());
        (0..2).for_each(|number| place.complete(number, 1));
        give();
        assert_eq!((reclaimed(), owned_by()), (false, owner), "a range is missing");
        std::os::unix::fs::chown(place.partial(), Some(0), Some(0)).unwrap();
        place.complete(2, 1);
        give();
        assert_eq!((reclaimed(), owned_by()), (true, 0));
        // Another user's file under this name.
        std::fs::rename(place.partial(), place.temp.path().join("moved")).unwrap();
        std::fs::write(place.partial(), "strange").unwrap();
        give();
        assert_eq!((reclaimed(), owned_by()), (false, owner));
    }

    #[test]
    fn a_range_with_lost_data_is_not_complete() {
        let place = Place::new();
        place.complete(1, 1);
        let file = std::fs::File::options().write(true).open(place.partial()).unwrap();
        file.set_len(FRAME).unwrap();
        file.set_len(SIZE).unwrap();
        assert!(matches!(place.open(1, 1).unwrap(), FoundRange::Partial(_)), "its bytes are holes");
        let place = Place::new();
        place.complete(1, 1);
        std::fs::write(place.temp.path().join("other"), vec![9; 9 * (256 << 10)]).unwrap();
        std::fs::rename(place.temp.path().join("other"), place.partial()).unwrap();
        assert!(matches!(place.open(1, 1).unwrap(), FoundRange::Partial(_)), "another partial file");
    }

    #[test]
    fn a_shorter_version_ends_the_trust_in_truncated_ranges() {
        let place = Place::new();
        (0..3).for_each(|number| place.complete(number, 1));
        let (range, header) = place.header(1, 2);
        let shorter = JournalHeader { size: SIZE - 1000, ..header };
        let impatient = CopyLocks::with_patience(Duration::ZERO);
        assert!(matches!(
            open_range(&place.path, range, &shorter, None, &TempFiles::default(), &impatient).unwrap(),
            FoundRange::New(_)
        ));
        assert!(matches!(place.open(0, 1).unwrap(), FoundRange::Partial(_)), "it is read again, and kept");
        assert!(matches!(place.open(2, 1).unwrap(), FoundRange::New(_)), "its last bytes are zeros");
    }

    #[test]
    fn a_partial_file_is_private_again_after_a_failed_finish() {
        use std::os::unix::fs::PermissionsExt;
        let place = Place::new();
        place.complete(0, 1);
        std::fs::set_permissions(place.partial(), std::fs::Permissions::from_mode(0o644)).unwrap();
        drop(place.new_range(1, 1));
        assert_eq!(std::fs::metadata(place.partial()).unwrap().permissions().mode() & 0o7777, 0o600);
    }

    #[test]
    fn remains_are_removed_only_without_a_writer() {
        let place = Place::new();
        place.complete(0, 1);
        let open = place.new_range(2, 1);
        remove_left(&place.path, RangeLen::MIN, SIZE);
        assert!(place.partial().exists());
        drop(open);
        remove_left(&place.path, RangeLen::MIN, SIZE);
        assert_eq!(std::fs::read_dir(place.temp.path()).unwrap().count(), 0);
    }
}
