//! A file that gets a final name, and its state for resuming.

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

use haul_base::sys::sync::lock;
use haul_proto::entry::EntryMetadata;
use haul_proto::entry_extras::{EntryExtras, ExtendedAttribute};
use haul_proto::file_range::FileRange;
use haul_proto::journal::JournalHeader;
use haul_proto::striping::Striping;
use haul_proto::sync::ChangeKind;
use haul_proto::wire::resource_metrics::Stage;
use haul_proto::wire::sparse::DataMap;
use rustix::fs::{FallocateFlags, fallocate, ftruncate};
use rustix::io::Errno;

use crate::io::storage::cache::{self, DropBehind, WRITE_BACK_FILE_MIN};
use crate::io::storage::calls::write_at;
use crate::io::storage::file::OpenedFile;
use crate::io::storage::holes::{map_of_zeros, punch};
use crate::io::storage::policy::IoPlan;
use crate::metrics::stage_timer::during;
use crate::receiver::file::base::BaseSource;
use crate::receiver::place::copy_locks::CopyLocks;
use crate::receiver::place::entry_position::TreeReplacement;
use crate::receiver::place::error::FileError;
use crate::receiver::place::journal::OpenJournal;
use crate::receiver::place::target_path::{FileName, TargetPath};
use crate::receiver::place::temp_files::{TempFiles, is_taken};
use crate::sys::clone_range::clone_range;

/// A file with a final name.
pub struct NamedFile {
    /// Its directory and final name.
    pub path: TargetPath,
    /// The offered metadata.
    pub meta: EntryMetadata,
    /// Rare attributes (extended attributes, holes).
    pub more: Option<Box<EntryExtras>>,
    /// Its striping, where it is not the directory's default.
    pub striping: Option<Striping>,
    /// The base file in its place, if usable.
    pub base: Option<Box<BaseSource>>,
    /// State for resuming after an interruption.
    pub recording: Option<Box<FrameRecording>>,
    /// The directory that it replaces.
    pub replaces_tree: Option<Box<TreeReplacement>>,
    /// The change to report on completion.
    pub change: Option<ChangeKind>,
    /// Metadata that were asked for could not be set.
    pub lacks_metadata: AtomicBool,
    /// Frames retransmitted into it because the disk returned wrong data.
    pub sent_again: OnceLock<Vec<Range<u64>>>,
    /// Result of allocating its space or setting its length.
    pub room: OnceLock<Result<(), Errno>>,
    /// Serialises writes of frames.
    ///
    /// A buffered write holds the inode's lock in the kernel anyway. But waiting streams would spin there, on cores
    /// that others could use.
    pub writing: Mutex<DropBehind>,
    /// Reflinks with its source are unsupported.
    pub unshared: AtomicBool,
    /// It shares blocks with another file: holes may contain that file's data.
    pub holds_clones: AtomicBool,
}

/// Records of a growing file, for resuming.
pub struct FrameRecording {
    /// Name of the journal.
    pub leaf: FileName,
    /// Start of the journal.
    pub header: JournalHeader,
    /// Set once created; `None` if that failed.
    pub journal: OnceLock<Option<OpenJournal>>,
    /// The source compares the verified frames of an earlier run.
    pub compare: bool,
    /// State of checkpoints.
    pub saving: Saving,
    /// An earlier run wrote to it: holes may contain old data.
    pub may_hold_data: bool,
}

impl FrameRecording {
    /// A journal to be created.
    pub fn new(leaf: FileName, header: JournalHeader) -> Self {
        let (journal, saving) = (OnceLock::new(), Saving::default());
        Self { leaf, header, journal, compare: false, saving, may_hold_data: false }
    }
}

impl NamedFile {
    /// A new file.
    pub fn new(path: TargetPath, meta: EntryMetadata) -> Self {
        Self {
            path,
            meta,
            more: None,
            striping: None,
            base: None,
            recording: None,
            replaces_tree: None,
            change: None,
            lacks_metadata: AtomicBool::new(false),
            sent_again: OnceLock::new(),
            room: OnceLock::new(),
            writing: Mutex::default(),
            unshared: AtomicBool::new(false),
            holds_clones: AtomicBool::new(false),
        }
    }

    /// The same file before its first frame.
    pub fn afresh(&self) -> Self {
        let again = |recording: &FrameRecording| FrameRecording::new(recording.leaf.clone(), recording.header.clone());
        Self {
            more: self.more.clone(),
            striping: self.striping,
            recording: self.recording.as_deref().map(again).map(Box::new),
            replaces_tree: self.replaces_tree.clone(),
            change: self.change,
            ..Self::new(self.path.clone(), self.meta)
        }
    }

    /// Its extended attributes, if preserved.
    pub fn attributes(&self) -> Option<&[ExtendedAttribute]> {
        self.more.as_ref()?.attributes.as_deref()
    }

    /// Whether the source reports holes.
    pub fn has_holes(&self) -> bool {
        self.more.as_ref().is_some_and(|more| more.data_bytes.is_some())
    }

    /// Records whether all metadata that were asked for could be set.
    pub fn record_metadata(&self, is_complete: bool) {
        self.lacks_metadata.fetch_or(!is_complete, Ordering::Relaxed);
    }

    /// Whether to try reflinks.
    pub fn takes_blocks(&self) -> bool {
        // Reflinked frames are not recorded, and a range is trusted by its records.
        self.range().is_none() && !self.unshared.load(Ordering::Relaxed)
    }

    /// Creates its temporary file, and its journal.
    pub fn open(&self, temp_files: &TempFiles, locks: &CopyLocks) -> Result<OwnedFd, FileError> {
        let leaf = self.recording.as_ref().map(|recording| &recording.leaf);
        let file = temp_files.open(&self.path, leaf, self.striping, locks)?;
        if let Some(FrameRecording { leaf, header, journal, .. }) = self.recording.as_deref() {
            // Without a journal, an interrupted run starts over; the copy still works.
            let made = journal.get_or_init(|| OpenJournal::create(leaf, header).ok());
            if made.is_none() && is_taken(&leaf.dir, &leaf.name) {
                temp_files.report_foreign(&self.path, &leaf.name);
            }
        }
        Ok(file)
    }

    /// The range that is received of it, if others receive the rest.
    pub fn range(&self) -> Option<FileRange> {
        self.recording.as_ref()?.header.range
    }

    /// Allocates the file of `size` bytes, or its range, before its first direct write, because the kernel serialises
    /// writes that extend a file. Where the file system cannot allocate, that cost stays. A file that has holes, or may
    /// share blocks with a base file, only gets its length.
    pub fn make_room(&self, file: &OpenedFile, size: u64) -> io::Result<()> {
        let fd = &**file.fd();
        let allocate = |offset, len| match fallocate(fd, FallocateFlags::empty(), offset, len) {
            Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => Err(error),
            _ => Ok(()),
        };
        let is_sparse = self.has_holes() || self.base.is_some() && self.takes_blocks();
        let made = self.room.get_or_init(|| match (is_sparse, self.range()) {
            (false, None) => allocate(0, size),
            (false, Some(range)) => allocate(range.offset(), range.bytes_in(size)),
            (true, None) => ftruncate(fd, size),
            (true, Some(_)) => Ok(()),
        });
        Ok((*made)?)
    }

    /// Writes a frame of a file of `size` bytes at its offset, through the page cache. Streams take turns.
    pub fn write_frame(
        &self,
        file: &OpenedFile,
        bytes: &[u8],
        offset: u64,
        size: u64,
        plan: &IoPlan,
    ) -> io::Result<()> {
        let (fd, len) = (&**file.fd(), bytes.len() as u64);
        let mut turn = during(Stage::Turn, || lock(&self.writing));
        write_at(fd, bytes, offset)?;
        let far_behind = if plan.drop { turn.wrote(offset, len) } else { None };
        drop(turn);
        if !file.in_memory() && (plan.drop || size >= WRITE_BACK_FILE_MIN) {
            cache::write_back(fd, offset, len);
        }
        if let Some((offset, len)) = far_behind {
            file.await_write_back(offset, len);
            cache::drop_pages(fd, offset, len);
        }
        Ok(())
    }

    /// Writes the data blocks of a frame of a file of `size` bytes, and skips its holes. Returns the bytes written.
    pub fn write_sparse(
        &self,
        file: &OpenedFile,
        bytes: &[u8],
        offset: u64,
        size: u64,
        map: &DataMap,
    ) -> io::Result<u64> {
        self.write_runs(file, bytes, offset, size, &map.runs(bytes.len()))
    }

    /// Writes the parts of a frame of a file of `size` bytes that it does not share with its base file. Returns the
    /// bytes written.
    pub fn write_parts(
        &self,
        file: &OpenedFile,
        bytes: &[u8],
        offset: u64,
        size: u64,
        parts: &[Range<usize>],
    ) -> io::Result<u64> {
        let runs_of = |part: &Range<usize>| {
            // Instructions do not distinguish holes from zeros.
            let map = if self.has_holes() { map_of_zeros(&bytes[part.clone()]) } else { None };
            let runs = map.map_or_else(|| vec![(true, 0..part.len())], |map| map.runs(part.len()));
            let start = part.start;
            runs.into_iter().map(move |(is_data, run)| (is_data, start + run.start..start + run.end))
        };
        self.write_runs(file, bytes, offset, size, &parts.iter().flat_map(runs_of).collect::<Vec<_>>())
    }

    /// Writes runs of data, and leaves the others as holes.
    fn write_runs(
        &self,
        file: &OpenedFile,
        bytes: &[u8],
        offset: u64,
        size: u64,
        runs: &[(bool, Range<usize>)],
    ) -> io::Result<u64> {
        let fd = &**file.fd();
        let _turn = during(Stage::Turn, || lock(&self.writing));
        // A trailing hole is part of the file too.
        self.make_room(file, size)?;
        // An earlier run's data may be there, or wrong data.
        let may_hold_data = self.recording.as_ref().is_some_and(|recording| recording.may_hold_data)
            || self.sent_again.get().is_some()
            || self.holds_clones.load(Ordering::Relaxed);
        let mut written = 0;
        for (is_data, range) in runs {
            let at = offset + range.start as u64;
            match is_data {
                true => {
                    write_at(fd, &bytes[range.clone()], at)?;
                    written += range.len() as u64;
                }
                false if may_hold_data => punch(fd, at, range.len() as u64)?,
                false => {}
            }
        }
        Ok(written)
    }

    /// Reflinks a range of another file, to `offset`, instead of writing it. Streams take turns. After a failure,
    /// reflinks are not tried again for this file.
    pub fn share_range(&self, file: &OpenedFile, other: &OpenedFile, range: Range<u64>, offset: u64) -> io::Result<()> {
        let _turn = lock(&self.writing);
        self.holds_clones.store(true, Ordering::Relaxed);
        let shared = clone_range(&**other.fd(), &**file.fd(), range, offset);
        self.unshared.fetch_or(shared.is_err(), Ordering::Relaxed);
        shared
    }
}

/// Progress of a file's checkpoints.
#[derive(Default)]
pub struct Saving {
    /// It is listed for the next checkpoint.
    pub is_listed: AtomicBool,
    /// The names of the file and its journal are durable.
    pub is_named: AtomicBool,
    /// The file is complete, and needs no more checkpoints.
    pub is_over: AtomicBool,
    /// Error of a failed sync. The kernel reports an error once, so a later sync would succeed.
    pub failed: OnceLock<Errno>,
}

impl Saving {
    /// Ends checkpoints of a complete file.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, Write};

    use haul_proto::path::Name;

    use super::*;
    use crate::fs::Dir;
    use crate::io::storage::FileAccess;

    #[test]
    fn a_hole_replaces_a_clone_with_wrong_data() {
        const LEN: usize = 16 * 4096;
        let place = tempfile::tempdir().unwrap();
        let (dir, name) = (Dir::open_root(place.path()).unwrap(), Name::new(b"file").unwrap());
        let named = NamedFile::new(TargetPath { dir, name, replaces: false }, EntryMetadata::default());
        // As if cloned, where that fails.
        let mut files = [tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap()];
        files.iter_mut().for_each(|file| file.write_all(&[7; LEN]).unwrap());
        let [base, file] = &files;
        let open = |file: &std::fs::File| OpenedFile::new(file.try_clone().unwrap().into(), FileAccess::Write).unwrap();
        let (base, opened) = (open(base), open(file));
        let _ = named.share_range(&opened, &base, 0..LEN as u64, 0);
        assert_eq!(named.write_sparse(&opened, &[0; LEN], 0, LEN as u64, &DataMap::HOLE).unwrap(), 0);
        let [_, mut file] = files;
        let mut content = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut content).unwrap();
        assert!(content == [0; LEN]);
    }
}
