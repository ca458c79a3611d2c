//! A file being received, until its last byte; [`crate::receiver::commit`] continues from there.

pub mod base;
pub mod frame_parts;
pub mod in_order_queue;
pub mod length;
pub mod named;
pub mod partial;
pub mod patch;
pub mod written_bytes;

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use haul_proto::entry::EntryContent;
use haul_proto::file_range::FileRange;
use haul_proto::integrity::FrameLen;
use haul_proto::journal::JournalHeader;
use haul_proto::wire::resource_metrics::Stage;
use rustix::fs::{CWD, FileType, Mode, OFlags, SeekFrom, openat, seek};
use rustix::io::Errno;

use crate::fs::{Dir, FileStat};
use crate::io::checksum::FileChecksum;
use crate::io::storage::FileAccess;
use crate::io::storage::calls::{write_at, write_on};
use crate::io::storage::file::OpenedFile;
use crate::io::storage::policy::IoPlan;
use crate::metrics::stage_timer::during;
use crate::receiver::file::base::BaseSource;
use crate::receiver::file::in_order_queue::InOrderQueue;
use crate::receiver::file::named::{FrameRecording, NamedFile, Saving};
use crate::receiver::file::partial::PartialFile;
use crate::receiver::file::patch::InPlaceUpdate;
use crate::receiver::file::written_bytes::WrittenBytes;
use crate::receiver::place::copy_locks::CopyLocks;
use crate::receiver::place::destination::Destination;
use crate::receiver::place::error::FileError;
use crate::receiver::place::in_order_sink::InOrderSink;
use crate::receiver::place::journal::OpenJournal;
use crate::receiver::place::target_path::FileName;
use crate::receiver::place::temp_files::TempFiles;

/// Placeholder for a size that is unknown until the end.
pub const UNKNOWN_SIZE: u64 = u64::MAX;

/// A wanted file.
pub struct ReceivingFile {
    /// Where its bytes go.
    pub kind: Receiving,
    size: u64,
    opened: OnceLock<Result<Arc<OpenedFile>, FileError>>,
    /// Its digest, if the target computes one.
    pub(crate) sum: DigestCheck,
    written: WrittenBytes,
}

/// Where a file's bytes go.
#[allow(clippy::large_enum_variant, reason = "most files are named")]
pub enum Receiving {
    /// Into a temporary file that gets a final name.
    Named(NamedFile),
    /// Into a device, FIFO or socket.
    Special(SpecialDestination),
    /// Into a descriptor that was open before the offer, in order.
    Pipe(Arc<InOrderSink>, InOrderQueue),
}

/// A device, FIFO or socket.
pub struct SpecialDestination {
    path: PathBuf,
    /// For messages: its path in a tree written to the null device; otherwise empty.
    relative: Vec<u8>,
    /// Queue of frames, if they must be written in order.
    queue: Option<InOrderQueue>,
}

impl ReceivingFile {
    /// A file with a final name.
    pub fn new(named: NamedFile, size: u64) -> Self {
        Self::of(Receiving::Named(named), size, OnceLock::new())
    }

    /// Adds a journal of written frames, which starts with `header`.
    pub fn recorded(named: NamedFile, leaf: FileName, header: JournalHeader) -> Self {
        let size = header.size;
        Self::new(NamedFile { recording: Some(Box::new(FrameRecording::new(leaf, header))), ..named }, size)
    }

    /// Continues the partial file of an earlier run, or of other runs that write other ranges.
    pub fn resumed(named: NamedFile, leaf: FileName, header: JournalHeader, part: PartialFile) -> Self {
        let size = header.size;
        let journal = OnceLock::from(Some(part.journal));
        let recording =
            FrameRecording { journal, compare: part.compare, may_hold_data: true, ..FrameRecording::new(leaf, header) };
        let named = NamedFile { recording: Some(Box::new(recording)), ..named };
        Self::of(Receiving::Named(named), size, OnceLock::from(Ok(part.file)))
    }

    /// A device, FIFO or socket. `in_order` forbids writes in any order, which seekable devices permit.
    pub fn special(path: &Path, size: u64, in_order: bool) -> io::Result<Self> {
        let kind = FileStat::from(&rustix::fs::stat(path)?).kind;
        let opened = OnceLock::new();
        let mut is_seekable = false;
        if matches!(kind, FileType::CharacterDevice | FileType::BlockDevice) {
            let device = openat(CWD, path, OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty())?;
            is_seekable = !in_order && seek(&device, SeekFrom::Current(0)).is_ok();
            let _ = opened.set(Ok(Arc::new(OpenedFile::new(device, FileAccess::Write)?)));
        }
        let queue = (!is_seekable).then(InOrderQueue::default);
        let special = SpecialDestination { path: path.into(), relative: Vec::new(), queue };
        Ok(Self::of(Receiving::Special(special), size, opened))
    }

    /// A file of a tree written to the null device; `relative` is its path in that tree.
    pub fn discarded(path: &Path, relative: Vec<u8>, size: u64, in_order: bool) -> Self {
        let queue = in_order.then(InOrderQueue::default);
        Self::of(Receiving::Special(SpecialDestination { path: path.into(), relative, queue }), size, OnceLock::new())
    }

    /// An open descriptor that accepts bytes in order.
    pub fn pipe(sink: Arc<InOrderSink>, size: u64) -> Self {
        Self::of(Receiving::Pipe(sink, InOrderQueue::default()), size, OnceLock::new())
    }

    fn of(kind: Receiving, size: u64, opened: OnceLock<Result<Arc<OpenedFile>, FileError>>) -> Self {
        Self { kind, size, opened, sum: DigestCheck::default(), written: WrittenBytes::default() }
    }

    /// The same file before its first frame.
    pub fn afresh(&self, named: &NamedFile) -> Self {
        Self { sum: self.sum.again(), ..Self::new(named.afresh(), self.size) }
    }

    /// The file, if it gets a final name.
    pub fn named(&self) -> Option<&NamedFile> {
        if let Receiving::Named(named) = &self.kind { Some(named) } else { None }
    }

    /// The queue of frames to be written in order, if the destination requires order.
    pub fn in_order_queue(&self) -> Option<&InOrderQueue> {
        match &self.kind {
            Receiving::Named(_) => None,
            Receiving::Special(special) => special.queue.as_ref(),
            Receiving::Pipe(_, queue) => Some(queue),
        }
    }

    /// The base file.
    pub fn base(&self) -> Option<&BaseSource> {
        self.named()?.base.as_deref()
    }

    /// The base file and the state of an update in place.
    pub fn in_place(&self) -> Option<(&BaseSource, &InPlaceUpdate)> {
        let base = self.base()?;
        Some((base, base.in_place.as_ref()?))
    }

    fn recording(&self) -> Option<&FrameRecording> {
        self.named()?.recording.as_deref()
    }

    /// The journal, once created.
    pub fn journal(&self) -> Option<&OpenJournal> {
        self.recording()?.journal.get()?.as_ref()
    }

    /// Whether the source compares the verified frames of an earlier run.
    pub fn is_to_be_compared(&self) -> bool {
        self.recording().is_some_and(|recording| recording.compare)
    }

    /// The journal's directory and the state of checkpoints; `None` without a journal.
    pub fn saving(&self) -> Option<(&Dir, &Saving)> {
        self.recording().map(|recording| (&recording.leaf.dir, &recording.saving))
    }

    /// The range that is received of it, if others receive the rest.
    pub fn range(&self) -> Option<FileRange> {
        self.named()?.range()
    }

    /// The frames that are received.
    pub fn frames(&self, frame: FrameLen) -> Range<u64> {
        self.range().map_or_else(|| 0..frame.frames(self.size), |range| range.frames(frame, self.size))
    }

    /// Number of the bytes that are received.
    pub fn received_bytes(&self) -> u64 {
        self.range().map_or(self.size, |range| range.bytes_in(self.size))
    }

    /// The parent directory of a named file.
    pub fn dir(&self) -> Option<&Dir> {
        self.named().map(|named| &named.path.dir)
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

    /// Path below the destination.
    pub fn relative(&self) -> Vec<u8> {
        match &self.kind {
            Receiving::Named(NamedFile { path, .. }) => path.dir.path_of(path.name.as_bytes()),
            Receiving::Special(special) => special.relative.clone(),
            Receiving::Pipe(..) => Vec::new(),
        }
    }

    /// The path for messages.
    pub fn display_path(&self, destination: &Destination) -> Vec<u8> {
        destination.path(&self.relative())
    }

    /// The file, opened by the first stream that needs it.
    pub fn open_once(&self, temp_files: &TempFiles, locks: &CopyLocks) -> Result<Arc<OpenedFile>, FileError> {
        if let Some(opened) = self.opened.get() {
            return opened.clone();
        }
        let open = || {
            let file = match &self.kind {
                Receiving::Named(named) => named.open(temp_files, locks)?,
                Receiving::Special(special) => open_special(&special.path)?,
                Receiving::Pipe(..) => return Err(Errno::NOENT.into()),
            };
            Ok(Arc::new(OpenedFile::new(file, FileAccess::Write)?))
        };
        // Streams that wait for the open count as idle: the opening is counted once.
        during(Stage::Rest, || self.opened.get_or_init(|| during(Stage::Create, open))).clone()
    }

    /// Allocates its space before its first direct write.
    pub fn make_room(&self, file: &OpenedFile) -> io::Result<()> {
        self.named().map_or(Ok(()), |named| named.make_room(file, self.size))
    }

    /// Writes a frame at its offset, through the page cache.
    pub fn write_frame(&self, file: &OpenedFile, bytes: &[u8], offset: u64, plan: &IoPlan) -> io::Result<()> {
        match &self.kind {
            Receiving::Named(named) => named.write_frame(file, bytes, offset, self.size, plan),
            Receiving::Special(SpecialDestination { queue: None, .. }) => write_at(&**file.fd(), bytes, offset),
            Receiving::Special(_) | Receiving::Pipe(..) => write_on(&**file.fd(), bytes),
        }
    }

    /// The file, if its holes are preserved: the source reports some, and the file's length is known.
    pub fn with_holes(&self) -> Option<&NamedFile> {
        self.named().filter(|named| named.has_holes() && !self.is_open_ended())
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

    /// Removes the temporary file, or ends the pipe.
    pub fn discard(&self, temp_files: &TempFiles) {
        match &self.kind {
            Receiving::Named(named) => temp_files.discard(&named.path),
            Receiving::Special(_) => {}
            Receiving::Pipe(sink, _) => sink.abandon(),
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

/// The size of a file; 0 for directories and links.
pub fn size_of(kind: &EntryContent) -> Option<u64> {
    match kind {
        EntryContent::File { size } => Some(*size),
        EntryContent::Stream => Some(UNKNOWN_SIZE),
        EntryContent::Directory
        | EntryContent::Symlink { .. }
        | EntryContent::HardLink { .. }
        | EntryContent::Node(_) => None,
    }
}

/// State of a file's digest.
#[derive(Default)]
pub struct DigestCheck {
    /// The running checksum.
    pub sum: OnceLock<Box<FileChecksum>>,
    /// The final digest.
    pub value: OnceLock<Vec<u8>>,
}

impl DigestCheck {
    /// State for the same file offered again. A large file keeps its checksum; a small one is reread.
    pub fn again(&self) -> Self {
        let value = if self.sum.get().is_some() { self.value.clone() } else { OnceLock::new() };
        Self { sum: OnceLock::new(), value }
    }
}
