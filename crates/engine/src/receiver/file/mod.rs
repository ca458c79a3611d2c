//! A file being received, until its last byte; [`crate::receiver::commit`] continues from there.

pub mod base;
pub mod checkpoint_state;
pub mod digest_check;
pub mod in_order_queue;
pub mod length;
pub mod partial;
pub mod patch;
pub mod written_bytes;
pub mod written_frame;

use crate::receiver::place::job_locks::JobLocks;
use crate::receiver::place::target_path::FileDestination;
use crate::receiver::place::target_path::TargetPath;
use haul_proto::entry::EntryMetadata;
use haul_proto::entry_extras::{EntryExtras, ExtendedAttribute};
use haul_proto::file_range::FileRange;
use haul_proto::integrity::FrameLen;
use haul_proto::journal::{JournalHeader, JournalRecord};
use haul_proto::overwrite_policy::OverwriteDecision;
use haul_proto::sync::ChangeKind;
use haul_proto::wire::resource_metrics::Stage;
use haul_proto::wire::sparse::DataMap;
use rustix::fs::{CWD, FallocateFlags, FileType, Mode, OFlags, SeekFrom, fallocate, ftruncate, openat, seek};
use rustix::io::Errno;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::fs::{Dir, FileStat};
use crate::io::storage::FileAccess;
use crate::io::storage::cache;
use crate::io::storage::cache::{DropBehind, WRITE_BACK_FILE_MIN};
use crate::io::storage::calls::{write_at, write_on};
use crate::io::storage::file::OpenedFile;
use crate::io::storage::holes::punch;
use crate::io::storage::policy::IoPlan;
use crate::metrics::stage_timer::during;
use crate::receiver::file::base::BaseSource;
use crate::receiver::file::checkpoint_state::Saving;
use crate::receiver::file::digest_check::DigestCheck;
use crate::receiver::file::in_order_queue::InOrderQueue;
use crate::receiver::file::partial::PartialFile;
use crate::receiver::file::patch::InPlaceUpdate;
use crate::receiver::file::written_bytes::WrittenBytes;
use crate::receiver::place::destination::Destination;
use crate::receiver::place::entry_position::EntryDecision;
use crate::receiver::place::entry_position::TreeReplacement;
use crate::receiver::place::error::FileError;
use crate::receiver::place::in_order_sink::InOrderSink;
use crate::receiver::place::journal::OpenJournal;
use crate::receiver::place::range_files::OpenRange;
use crate::receiver::place::target_path::FileName;
use crate::receiver::place::temp_files::{TempFiles, is_taken};
use crate::sys::clone_range::clone_range;
use crate::sys::sync::lock;

/// Placeholder for a size that is unknown until the end.
pub const UNKNOWN_SIZE: u64 = u64::MAX;

/// A wanted file.
pub struct ReceivingFile {
    place: FileDestination,
    size: u64,
    meta: EntryMetadata,
    opened: OnceLock<Result<Arc<OpenedFile>, FileError>>,
    /// Result of allocating its space or setting its length: see [`ReceivingFile::make_room`].
    room: OnceLock<Result<(), Errno>>,
    /// Serialises writes of frames: see [`ReceivingFile::write_frame`].
    writing: Mutex<DropBehind>,
    /// Reflinks with its source are unsupported.
    unshared: AtomicBool,
    /// State for resuming after an interruption.
    recording: Option<Box<FrameRecording>>,
    /// Frames retransmitted because the disk returned wrong data.
    sent_again: OnceLock<Vec<Range<u64>>>,
    /// Queue for frames to be written in order, if necessary.
    order: Option<Box<InOrderQueue>>,
    /// Its digest, if the target computes one.
    pub(crate) sum: DigestCheck,
    sink: Option<Arc<InOrderSink>>,
    /// The base file in its place, if usable.
    base: Option<Box<BaseSource>>,
    /// Rare attributes (extended attributes, holes).
    more: Option<Box<EntryExtras>>,
    /// The directory that it replaces.
    pub(crate) replaces_tree: Option<Box<TreeReplacement>>,
    /// The change to report on completion.
    pub(crate) change: Option<ChangeKind>,
    /// The attributes that could not be set, and why.
    lacking: OnceLock<String>,
    written: WrittenBytes,
}

/// Records of a growing file, for resuming.
struct FrameRecording {
    leaf: FileName,
    header: JournalHeader,
    journal: OnceLock<Option<OpenJournal>>,
    /// The source compares the verified frames of an earlier run.
    compare: bool,
    saving: Saving,
    /// An earlier run wrote to it: holes may contain old data.
    may_hold_data: bool,
}

impl FrameRecording {
    fn new(leaf: FileName, header: JournalHeader) -> Self {
        let (journal, saving) = (OnceLock::new(), Saving::default());
        Self { leaf, header, journal, compare: false, saving, may_hold_data: false }
    }
}

impl ReceivingFile {
    /// A file with a final name.
    pub fn new(path: TargetPath, size: u64, meta: EntryMetadata) -> Self {
        Self::at(FileDestination::Named(path), size, meta, OnceLock::new())
    }

    /// Adds a journal of written frames, which starts with `header`.
    pub fn recorded(path: TargetPath, meta: EntryMetadata, leaf: FileName, header: JournalHeader) -> Self {
        let size = header.size;
        Self { recording: Some(Box::new(FrameRecording::new(leaf, header))), ..Self::new(path, size, meta) }
    }

    /// Continues the partial file of an earlier run.
    pub fn resumed(
        path: TargetPath,
        meta: EntryMetadata,
        leaf: FileName,
        header: JournalHeader,
        part: PartialFile,
    ) -> Self {
        let size = header.size;
        let journal = OnceLock::from(Some(part.journal));
        let recording =
            FrameRecording { journal, compare: part.compare, may_hold_data: true, ..FrameRecording::new(leaf, header) };
        let opened = OnceLock::from(Ok(part.file));
        Self { recording: Some(Box::new(recording)), ..Self::at(FileDestination::Named(path), size, meta, opened) }
    }

    /// A range of a file that other runs write, too.
    pub fn of_range(path: TargetPath, meta: EntryMetadata, header: JournalHeader, part: OpenRange) -> Self {
        let OpenRange { leaf, file, journal } = part;
        Self::resumed(path, meta, leaf, header, PartialFile { file, journal, compare: false })
    }

    /// The range that is received of it, if others receive the rest.
    pub fn range(&self) -> Option<FileRange> {
        self.recording.as_ref()?.header.range
    }

    /// The frames that are received.
    pub fn frames(&self, frame: FrameLen) -> Range<u64> {
        self.range().map_or_else(|| 0..frame.frames(self.size), |range| range.frames(frame, self.size))
    }

    /// Offset and number of the bytes that are received.
    pub fn extent(&self) -> (u64, u64) {
        self.range().map_or((0, self.size), |range| (range.offset(), range.bytes_in(self.size)))
    }

    /// A device, FIFO or socket. Also returns whether frames may be written in any order; `in_order` forbids that.
    pub fn special(path: &Path, size: u64, in_order: bool) -> io::Result<(Self, bool)> {
        let kind = FileStat::from(&rustix::fs::stat(path)?).kind;
        let opened = OnceLock::new();
        let mut seekable = false;
        if matches!(kind, FileType::CharacterDevice | FileType::BlockDevice) {
            let device = openat(CWD, path, OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty())?;
            seekable = !in_order && seek(&device, SeekFrom::Current(0)).is_ok();
            let _ = opened.set(Ok(Arc::new(OpenedFile::new(device, FileAccess::Write)?)));
        }
        let place = FileDestination::Special { path: path.into(), seekable, relative: Vec::new() };
        let order = (!seekable).then(Box::default);
        Ok((Self { order, ..Self::at(place, size, EntryMetadata::default(), opened) }, seekable))
    }

    /// A file of a tree written to the null device; `relative` is its path in that tree.
    pub fn discarded(path: &Path, relative: Vec<u8>, size: u64, in_order: bool) -> Self {
        let place = FileDestination::Special { path: path.into(), seekable: !in_order, relative };
        let order = in_order.then(Box::default);
        Self { order, ..Self::at(place, size, EntryMetadata::default(), OnceLock::new()) }
    }

    /// An open descriptor that accepts bytes in order.
    pub fn pipe(sink: Arc<InOrderSink>, size: u64) -> Self {
        let place = FileDestination::Special { path: PathBuf::new(), seekable: false, relative: Vec::new() };
        let file = Self::at(place, size, EntryMetadata::default(), OnceLock::new());
        Self { order: Some(Box::default()), sink: Some(sink), ..file }
    }

    /// Its descriptor, if that was open before the offer.
    pub fn sink(&self) -> Option<&InOrderSink> {
        self.sink.as_deref()
    }

    fn at(
        place: FileDestination,
        size: u64,
        meta: EntryMetadata,
        opened: OnceLock<Result<Arc<OpenedFile>, FileError>>,
    ) -> Self {
        Self {
            place,
            size,
            meta,
            opened,
            room: OnceLock::new(),
            writing: Mutex::default(),
            unshared: AtomicBool::new(false),
            recording: None,
            sent_again: OnceLock::new(),
            order: None,
            sum: DigestCheck::default(),
            sink: None,
            base: None,
            more: None,
            replaces_tree: None,
            change: None,
            lacking: OnceLock::new(),
            written: WrittenBytes::default(),
        }
    }

    /// Adds a base file.
    pub fn of(self, base: Option<BaseSource>) -> Self {
        Self { base: base.map(Box::new), ..self }
    }

    /// The base file.
    pub fn base(&self) -> Option<&BaseSource> {
        self.base.as_deref()
    }

    /// The base file and the state of an update in place.
    pub fn in_place(&self) -> Option<(&BaseSource, &InPlaceUpdate)> {
        let base = self.base()?;
        Some((base, base.in_place.as_ref()?))
    }

    /// The journal, once created.
    pub fn journal(&self) -> Option<&OpenJournal> {
        self.recording.as_ref()?.journal.get()?.as_ref()
    }

    /// Whether the source compares the verified frames of an earlier run.
    pub fn is_to_be_compared(&self) -> bool {
        self.recording.as_ref().is_some_and(|recording| recording.compare)
    }

    /// Records a written frame.
    pub fn record(&self, index: u64, record: &JournalRecord) {
        if let Some(journal) = self.journal() {
            journal.record(index, record);
        }
    }

    /// The journal's directory and the state of checkpoints; `None` without a journal.
    pub fn saving(&self) -> Option<(&Dir, &Saving)> {
        self.recording.as_deref().map(|recording| (&recording.leaf.dir, &recording.saving))
    }

    /// The same file before its first frame.
    pub fn afresh(&self) -> Self {
        let again = |recording: &FrameRecording| {
            Box::new(FrameRecording::new(recording.leaf.clone(), recording.header.clone()))
        };
        let recording = self.recording.as_deref().map(again);
        let (sum, more) = (self.sum.again(), self.more.clone());
        let (replaces_tree, change) = (self.replaces_tree.clone(), self.change);
        Self {
            recording,
            sum,
            more,
            replaces_tree,
            change,
            ..Self::at(self.place.clone(), self.size, self.meta, OnceLock::new())
        }
    }

    /// Marks frames for retransmission into the existing file. Only once.
    pub fn send_again(&self, frames: Vec<Range<u64>>) {
        let _ = self.sent_again.set(frames);
    }

    /// The retransmitted frames; `None` if there are none.
    pub fn sent_again(&self) -> Option<&[Range<u64>]> {
        self.sent_again.get().map(Vec::as_slice)
    }

    /// The file's destination.
    pub fn place(&self) -> &FileDestination {
        &self.place
    }

    /// The parent directory; `None` for special files.
    pub fn dir(&self) -> Option<&Dir> {
        match &self.place {
            FileDestination::Named(path) => Some(&path.dir),
            FileDestination::Special { .. } => None,
        }
    }

    /// The offered metadata.
    pub fn meta(&self) -> &EntryMetadata {
        &self.meta
    }

    /// The open file, once a stream has needed it.
    pub fn opened(&self) -> Option<&Result<Arc<OpenedFile>, FileError>> {
        self.opened.get()
    }

    /// The offered size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether its size is unknown until the end.
    pub fn is_open_ended(&self) -> bool {
        self.size == UNKNOWN_SIZE
    }

    /// Whether it is a device, FIFO or socket.
    pub fn is_special(&self) -> bool {
        matches!(self.place, FileDestination::Special { .. })
    }

    /// The directory and final name; `None` for special files.
    pub fn target_path(&self) -> Option<&TargetPath> {
        match &self.place {
            FileDestination::Named(path) => Some(path),
            FileDestination::Special { .. } => None,
        }
    }

    /// Path below the destination.
    pub fn relative(&self) -> Vec<u8> {
        match &self.place {
            FileDestination::Named(path) => path.dir.path_of(path.name.as_bytes()),
            FileDestination::Special { relative, .. } => relative.clone(),
        }
    }

    /// The path for messages.
    pub fn display_path(&self, destination: &Destination) -> Vec<u8> {
        destination.path(&self.relative())
    }

    /// The file, opened by the first stream that needs it.
    pub fn open_once(&self, temp_files: &TempFiles, locks: &JobLocks) -> Result<Arc<OpenedFile>, FileError> {
        if let Some(opened) = self.opened.get() {
            return opened.clone();
        }
        let open = || Ok(Arc::new(OpenedFile::new(self.open(temp_files, locks)?, FileAccess::Write)?));
        // Streams that wait for the open count as idle: the opening is counted once.
        during(Stage::Rest, || self.opened.get_or_init(|| during(Stage::Create, open))).clone()
    }

    /// Allocates the file, or its range, before its first direct write: in the kernel, writes that extend a file exclude each
    /// other. If the file system cannot allocate, they do so. A file with holes only gets its length.
    pub fn make_room(&self, file: &OpenedFile) -> io::Result<()> {
        let fd = &**file.fd();
        let (offset, len) = self.extent();
        let allocate = || match fallocate(fd, FallocateFlags::empty(), offset, len) {
            Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => Err(error),
            _ => Ok(()),
        };
        let made = self.room.get_or_init(|| {
            if !self.has_holes() {
                allocate()
            } else if self.range().is_some() {
                Ok(())
            } else {
                ftruncate(fd, self.size)
            }
        });
        Ok((*made)?)
    }

    fn has_holes(&self) -> bool {
        self.more.as_ref().is_some_and(|more| more.data_bytes.is_some())
    }

    /// Writes a frame at its offset, through the page cache.
    ///
    /// Streams that write to one file take turns here. A buffered write holds the inode's lock in the kernel anyway.
    /// But waiting streams would spin there, on cores that others could use.
    pub fn write_frame(&self, file: &OpenedFile, bytes: &[u8], offset: u64, plan: &IoPlan) -> io::Result<()> {
        let len = bytes.len() as u64;
        let fd = &**file.fd();
        match &self.place {
            FileDestination::Special { seekable: true, .. } => return write_at(fd, bytes, offset),
            FileDestination::Special { seekable: false, .. } => return write_on(fd, bytes),
            FileDestination::Named(_) => {}
        }
        let mut turn = during(Stage::Turn, || lock(&self.writing));
        write_at(fd, bytes, offset)?;
        let far_behind = if plan.drop { turn.wrote(offset, len) } else { None };
        drop(turn);
        if !file.in_memory() && (plan.drop || self.size >= WRITE_BACK_FILE_MIN) {
            cache::write_back(fd, offset, len);
        }
        if let Some((offset, len)) = far_behind {
            file.await_write_back(offset, len);
            cache::drop_pages(fd, offset, len);
        }
        Ok(())
    }

    /// Whether its holes are preserved: the source reports some, and the file's length is known.
    pub fn keeps_holes(&self) -> bool {
        self.has_holes() && !self.is_special() && !self.is_open_ended()
    }

    fn may_hold_data(&self) -> bool {
        self.recording.as_ref().is_some_and(|recording| recording.may_hold_data)
    }

    /// Writes the data blocks of a frame, and skips its holes.
    pub fn write_sparse(&self, file: &OpenedFile, bytes: &[u8], offset: u64, map: &DataMap) -> io::Result<()> {
        let fd = &**file.fd();
        let _turn = during(Stage::Turn, || lock(&self.writing));
        // A trailing hole is part of the file too.
        self.make_room(file)?;
        for (is_data, range) in map.runs(bytes.len()) {
            let at = offset + range.start as u64;
            match is_data {
                true => write_at(fd, &bytes[range], at)?,
                // An earlier run's data may be there.
                false if self.may_hold_data() || self.sent_again().is_some() => punch(fd, at, range.len() as u64)?,
                false => {}
            }
        }
        Ok(())
    }

    /// Adds rare attributes.
    pub fn with(self, more: Option<Box<EntryExtras>>) -> Self {
        Self { more, ..self }
    }

    /// The queue of frames to be written in order, if the destination requires order.
    pub fn in_order_queue(&self) -> Option<&InOrderQueue> {
        self.order.as_deref()
    }

    /// Its extended attributes, if preserved.
    pub fn attributes(&self) -> Option<&[ExtendedAttribute]> {
        self.more.as_ref()?.attributes.as_deref()
    }

    /// Adds the decision about the file.
    pub(crate) fn decided(self, decided: &EntryDecision) -> Self {
        let replaces_tree =
            (decided.decision == OverwriteDecision::ReplaceTree).then(|| Box::new(decided.removal.clone()));
        Self { replaces_tree, change: decided.change, ..self }
    }

    /// Records an attribute that could not be set.
    pub fn note_refused_attribute(&self, refused: Option<String>) {
        refused.into_iter().for_each(|text| drop(self.lacking.set(text)));
    }

    /// Why some of its attributes could not be set.
    pub fn lacking(&self) -> Option<&str> {
        self.lacking.get().map(String::as_str)
    }

    /// Whether to try reflinks.
    pub fn takes_blocks(&self) -> bool {
        // Reflinked frames are not recorded, and a range is trusted by its records.
        !self.is_special() && self.range().is_none() && !self.unshared.load(Ordering::Relaxed)
    }

    /// Reflinks a range of the source file instead of writing it. Streams take turns, for the same reason as in
    /// [`ReceivingFile::write_frame`]. After a failure, reflinks are not tried again for this file.
    pub fn share_range(&self, file: &OpenedFile, source: &OpenedFile, offset: u64, len: u64) -> io::Result<()> {
        let _turn = lock(&self.writing);
        let shared = clone_range(&**source.fd(), &**file.fd(), offset, len);
        self.unshared.fetch_or(shared.is_err(), Ordering::Relaxed);
        shared
    }

    /// Counts written bytes in `tally`, unless the file is void.
    pub fn count_written(&self, len: u64, tally: &AtomicU64) {
        self.written.add(len, tally);
    }

    /// Prevents further writes by streams that have not opened the file yet, and takes its bytes out of `tally`.
    pub fn void(&self, tally: &AtomicU64) {
        self.written.void(tally);
        let _ = self.opened.set(Err(FileError::OfferedAgain));
    }

    /// Fails the file. With `keeps_partial`, its partial file is kept for the next run.
    pub fn give_up(&self, keeps_partial: bool, temp_files: &TempFiles) {
        if !keeps_partial || self.journal().is_none() {
            self.discard(temp_files);
        }
    }

    /// Removes the temporary file.
    pub fn discard(&self, temp_files: &TempFiles) {
        self.sink.iter().for_each(|sink| sink.abandon());
        let FileDestination::Named(path) = &self.place else { return };
        temp_files.discard(path);
    }

    fn open(&self, temp_files: &TempFiles, locks: &JobLocks) -> Result<OwnedFd, FileError> {
        match &self.place {
            FileDestination::Special { path, .. } => Ok(open_special(path)?),
            FileDestination::Named(path) => {
                let leaf = self.recording.as_ref().map(|recording| &recording.leaf);
                let file = temp_files.open(path, leaf, locks)?;
                if let Some(FrameRecording { leaf, header, journal, .. }) = self.recording.as_deref() {
                    // Without a journal, an interrupted run starts over; the copy still works.
                    let made = journal.get_or_init(|| OpenJournal::create(leaf, header).ok());
                    if made.is_none() && is_taken(&leaf.dir, &leaf.name) {
                        temp_files.report_foreign(path, &leaf.name);
                    }
                }
                Ok(file)
            }
        }
    }
}

/// Waits for a FIFO's reader; connects to a socket.
fn open_special(path: &Path) -> io::Result<OwnedFd> {
    match FileStat::from(&rustix::fs::stat(path)?).kind {
        FileType::Socket => Ok(UnixStream::connect(path)?.into()),
        _ => Ok(openat(CWD, path, OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty())?),
    }
}
