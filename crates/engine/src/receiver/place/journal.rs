//! The journal of a partial file on disk: its location, and reading and writing of records. `haul_proto::journal`
//! defines its contents.

use std::cell::LazyCell;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use haul_proto::integrity::{FrameLen, frame_check};
use haul_proto::journal::{
    HEADER_BYTES, JournalHeader, JournalRecord, RangeEnd, SLOT_BYTES, decode_slot, encode_slot, slot_offset,
};
use haul_proto::path::Name;
use haul_proto::ranges::RangeSet;
use haul_proto::wire::write_options::{JOURNAL_FILE_MIN, SMALL_JOURNAL_FILE_MIN};
use rustix::fs::{AtFlags, Mode, OFlags, fdatasync, fstat, ftruncate, openat, unlinkat};
use rustix::io::Errno;

use crate::fs::{Dir, FileStat, FollowLinks};
use crate::io::storage::FileAccess;
use crate::io::storage::calls::{read_at, write_at};
use crate::io::storage::extents::FileExtents;
use crate::receiver::place::target_path::{FileName, TargetPath};
use crate::receiver::place::temp_files::{is_ours, remove_journal};
use crate::receiver::place::temp_names::temporary_name;
use crate::sys::confine::{ConfineBounds, ConfineRights};

/// Slots read at a time.
const SLOTS_AT_A_TIME: u64 = 4096;

/// Location of a copy's journals: beside the partial files, or in a common directory.
pub struct JournalLocation {
    wanted: bool,
    /// Size of the smallest file with a journal.
    file_min: u64,
    directory: Option<Dir>,
}

/// An open journal.
pub struct OpenJournal {
    file: OwnedFd,
    /// The frames that have slots.
    frames: Range<u64>,
    /// A write failed: recorded frames remain usable, but none are added.
    broken: AtomicBool,
}

impl JournalLocation {
    /// The location by request; `directory` is the common one.
    pub fn new(wanted: bool, small: bool, directory: Option<&Path>) -> io::Result<Self> {
        let file_min = if small { SMALL_JOURNAL_FILE_MIN } else { JOURNAL_FILE_MIN };
        Ok(Self { wanted, file_min, directory: directory.map(Dir::open_root_path).transpose()? })
    }

    /// Permits access to a common directory outside the destination.
    pub fn allow(&self, bounds: &mut ConfineBounds) {
        // Without a journal, an interrupted run starts over.
        let directory = self.directory.as_ref().and_then(|directory| directory.fd().ok());
        directory.iter().for_each(|directory| bounds.allow(&**directory, ConfineRights::OwnFiles));
    }

    /// Location of the journal for a file of `size` bytes; `None` if it has none. Removes an unwanted journal of an
    /// earlier run, which would not match the new data.
    pub fn place(&self, path: &TargetPath, size: u64) -> Option<FileName> {
        if size < self.file_min {
            return None;
        }
        let leaf = self.leaf(path);
        if !self.wanted {
            remove_journal(&leaf);
        }
        self.wanted.then_some(leaf)
    }

    /// Removes the journals of a complete file of `size` bytes, including one beside the file from a run without a
    /// common directory. A new run creates its partial file first; while that exists, its journals are left alone.
    /// Returns journal names occupied by entries that haul did not create.
    pub fn tidy(&self, path: &TargetPath, size: u64) -> Vec<Name> {
        // Before any name is made: most unchanged files are smaller.
        if size < self.file_min {
            return Vec::new();
        }
        let part = temporary_name(&path.name, b"file");
        if path.dir.fd().is_ok_and(|dir| FileStat::at_name(&*dir, &part, FollowLinks::Itself).is_ok()) {
            return Vec::new();
        }
        let beside = self.directory.is_some().then(|| leaf_beside(path));
        let leaves = [self.leaf(path)].into_iter().chain(beside);
        leaves.filter(remove_journal).map(|leaf| leaf.name).collect()
    }

    /// Location of this file's journal, if there is one.
    pub fn leaf(&self, path: &TargetPath) -> FileName {
        match &self.directory {
            None => leaf_beside(path),
            Some(directory) => {
                let identity = path.dir.identity();
                let (device, inode) = (identity.device.to_le_bytes(), identity.inode.to_le_bytes());
                FileName { dir: directory.clone(), name: journal_name(&[&device, &inode, path.name.as_bytes()]) }
            }
        }
    }
}

fn leaf_beside(path: &TargetPath) -> FileName {
    FileName { dir: path.dir.clone(), name: journal_name(&[b"file\0", path.name.as_bytes()]) }
}

/// See [`Name::is_reserved`].
fn journal_name(parts: &[&[u8]]) -> Name {
    let mut hasher = blake3::Hasher::new();
    parts.iter().for_each(|part| {
        hasher.update(part);
    });
    Name::reserved(&hasher.finalize().to_hex()[..24], "journal")
}

impl OpenJournal {
    /// Creates a journal, replacing an existing one.
    pub fn create(leaf: &FileName, header: &JournalHeader) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let dir = leaf.dir.fd()?;
        let open = |flags| openat(&*dir, leaf.name.as_bytes(), flags, Mode::from_raw_mode(0o600));
        let (file, is_new) = match open(flags | OFlags::CREATE | OFlags::EXCL) {
            Err(Errno::EXIST) => (open(flags)?, false),
            file => (file?, true),
        };
        if !is_ours(&file)? {
            if is_new {
                // Where new files belong to another user, no run could find this one again.
                unlinkat(&*dir, leaf.name.as_bytes(), AtFlags::empty())?;
            }
            return Err(io::Error::from(Errno::EXIST));
        }
        Self::begin(file, header)
    }

    /// Begins a journal in an open file, whatever it contains.
    pub fn begin(file: OwnedFd, header: &JournalHeader) -> io::Result<Self> {
        if FileStat::at_fd(&file)?.size > 0 {
            ftruncate(&file, 0)?;
        }
        write_at(&file, &header.encode(), 0)?;
        Ok(Self::of(file, header))
    }

    fn of(file: OwnedFd, header: &JournalHeader) -> Self {
        Self { file, frames: header.frames(), broken: AtomicBool::new(false) }
    }

    /// Opens an earlier run's journal, to read or to continue it; `None` if there is no valid one.
    pub fn open(leaf: &FileName, access: FileAccess) -> io::Result<Option<(Self, JournalHeader)>> {
        let access = if access == FileAccess::Read { OFlags::RDONLY } else { OFlags::RDWR };
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(&*leaf.dir.fd()?, leaf.name.as_bytes(), flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            file => file?,
        };
        if !is_ours(&file)? {
            return Ok(None);
        }
        let header = read_header(&file)?;
        Ok(header.map(|header| (Self::of(file, &header), header)))
    }

    /// Continues the journal in an open file with this header.
    pub fn continued(file: OwnedFd, header: &JournalHeader) -> Self {
        Self::of(file, header)
    }

    /// Records a written frame. A failed write of the journal is no error, since the frame itself is written.
    pub fn record(&self, index: u64, record: &JournalRecord) {
        if self.broken.load(Ordering::Relaxed) {
            return;
        }
        if write_at(&self.file, &encode_slot(index, record), self.slot_offset(index)).is_err() {
            self.broken.store(true, Ordering::Relaxed);
        }
    }

    fn slot_offset(&self, index: u64) -> u64 {
        slot_offset(index.saturating_sub(self.frames.start))
    }

    /// Records the end of a range, on the disk: from here on, its data is trusted unread.
    pub fn end(&self, end: &RangeEnd) -> io::Result<()> {
        write_at(&self.file, &end.encode(), self.slot_offset(self.frames.end))?;
        Ok(fdatasync(&self.file)?)
    }

    /// The end of a range, once it is recorded.
    pub fn recorded_end(&self) -> io::Result<Option<RangeEnd>> {
        let mut slot = [0; SLOT_BYTES];
        let read = read_at(&self.file, &mut slot, self.slot_offset(self.frames.end))?;
        Ok(RangeEnd::decode(&slot).filter(|_| read == SLOT_BYTES))
    }

    /// Removes the end of a range, on the disk, before its data changes.
    pub fn reopen(&self) -> io::Result<()> {
        ftruncate(&self.file, self.slot_offset(self.frames.end))?;
        Ok(fdatasync(&self.file)?)
    }

    /// Syncs the journal. A failure does not matter: recorded frames are verified before they count.
    pub fn save(&self) {
        let _ = fdatasync(&self.file);
    }

    /// Makes the records unusable.
    pub fn void(&self) {
        self.broken.store(true, Ordering::Relaxed);
        let _ = ftruncate(&self.file, 0);
    }

    /// Records of `count` frames from `first`.
    pub fn records(&self, first: u64, count: usize) -> io::Result<Vec<Option<JournalRecord>>> {
        let mut bytes = vec![0; count * SLOT_BYTES];
        read_at(&self.file, &mut bytes, self.slot_offset(first))?;
        let slots = bytes.as_chunks::<SLOT_BYTES>().0.iter();
        Ok(slots.zip(first..).map(|(slot, index)| decode_slot(index, slot)).collect())
    }

    /// Where recorded bytes of a file of `size` bytes have become a hole: another program has truncated the file, or
    /// punched it. Some file systems turn zeros into holes, so each such frame is compared with its record.
    pub fn removed_bytes(&self, file: &OwnedFd, frame: FrameLen, size: u64) -> io::Result<Option<u64>> {
        let frame_bytes = u64::from(frame.get());
        let end = self.frames.end.saturating_mul(frame_bytes).min(size);
        let (extents, mut buffer) = (FileExtents::default(), Vec::new());
        let check_of_zeros = LazyCell::new(|| frame_check(&vec![0; frame.bytes()]));
        let mut at = self.frames.start * frame_bytes;
        while let Some(hole) = extents.next_hole(file, at, end) {
            for index in hole.start / frame_bytes..hole.end.min(end).div_ceil(frame_bytes) {
                at = ((index + 1) * frame_bytes).min(end);
                let [Some(recorded)] = self.records(index, 1)?[..] else { continue };
                let whole = index * frame_bytes..(index + 1) * frame_bytes;
                if hole.start <= whole.start && whole.end <= hole.end && recorded.check == *check_of_zeros {
                    continue;
                }
                buffer.resize(frame.frame_len(size, index).unwrap_or(0), 0);
                let read = read_at(file, &mut buffer, index * frame_bytes)?;
                if frame_check(&buffer[..read]) != recorded.check {
                    return Ok(Some(hole.start));
                }
            }
        }
        Ok(None)
    }

    /// Which frames are recorded.
    pub fn recorded(&self) -> io::Result<RangeSet> {
        let Range { start, end } = self.frames;
        let len = u64::try_from(fstat(&self.file)?.st_size).unwrap_or(0);
        // Nothing is recorded after its end, whatever length the journal's header claims.
        let slots = len.saturating_sub(HEADER_BYTES as u64).div_ceil(SLOT_BYTES as u64).min(end - start);
        let mut recorded = RangeSet::new();
        let mut first = start;
        while first < start + slots {
            let count = (start + slots - first).min(SLOTS_AT_A_TIME);
            let records = self.records(first, usize::try_from(count).unwrap_or(0))?;
            for (index, record) in (first..).zip(records) {
                if record.is_some() {
                    recorded.insert(index);
                }
            }
            first += count;
        }
        Ok(recorded)
    }
}

/// The header in an open file; `None` without a valid one.
pub fn read_header(file: &OwnedFd) -> io::Result<Option<JournalHeader>> {
    let mut bytes = [0; HEADER_BYTES];
    let is_whole = read_at(file, &mut bytes, 0)? == HEADER_BYTES;
    Ok(JournalHeader::decode(&bytes).ok().filter(|_| is_whole))
}

#[cfg(test)]
mod tests {
    use haul_proto::entry::{FileVersion, Timestamp};
    use haul_proto::file_range::RangeLen;

    use super::*;

    #[test]
    fn a_foreign_file_is_left_unchanged() {
        let place = tempfile::tempdir().unwrap();
        let leaf = FileName { dir: Dir::open_root(place.path()).unwrap(), name: Name::new(b"journal").unwrap() };
        std::fs::write(place.path().join("valuable"), "valuable").unwrap();
        std::fs::hard_link(place.path().join("valuable"), place.path().join("journal")).unwrap();
        let version = FileVersion { device: 1, inode: 2, changed: Timestamp::default() };
        let (modified, frame) = (Timestamp::default(), FrameLen::DEFAULT);
        let header =
            JournalHeader { name: leaf.name.clone(), size: JOURNAL_FILE_MIN, modified, version, frame, range: None };
        assert!(OpenJournal::create(&leaf, &header).is_err());
        assert_eq!(std::fs::read(place.path().join("valuable")).unwrap(), b"valuable");
        std::fs::remove_file(place.path().join("journal")).unwrap();
        assert!(
            OpenJournal::create(&leaf, &header).is_ok()
                && OpenJournal::open(&leaf, FileAccess::Write).unwrap().is_some()
        );
    }

    #[test]
    fn slots_of_a_range_begin_at_its_first_frame_and_its_end_follows_them() {
        let place = tempfile::tempdir().unwrap();
        let leaf = FileName { dir: Dir::open_root(place.path()).unwrap(), name: Name::new(b"journal").unwrap() };
        let version = FileVersion { device: 1, inode: 2, changed: Timestamp::default() };
        let (modified, frame) = (Timestamp::default(), FrameLen::new(256 << 10).unwrap());
        let range = RangeLen::MIN.range(1);
        let header = JournalHeader { name: leaf.name.clone(), size: 1 << 30, modified, version, frame, range };
        let journal = OpenJournal::create(&leaf, &header).unwrap();
        let record = JournalRecord { check: 7, value: None };
        [4, 6, 7].iter().for_each(|index| journal.record(*index, &record));
        assert_eq!(journal.recorded().unwrap().iter().collect::<Vec<_>>(), [4..5, 6..8]);
        assert_eq!(journal.records(5, 2).unwrap(), [None, Some(record)]);
        assert_eq!(journal.recorded_end().unwrap(), None);
        let end = RangeEnd { value: Some([1; 32]), inode: 5 };
        journal.end(&end).unwrap();
        let (again, found) = OpenJournal::open(&leaf, FileAccess::Write).unwrap().unwrap();
        assert_eq!((found, again.recorded_end().unwrap()), (header, Some(end)));
        assert_eq!(again.recorded().unwrap().len(), 3);
        again.reopen().unwrap();
        assert_eq!((again.recorded_end().unwrap(), again.recorded().unwrap().len()), (None, 3));
    }
}
