//! The source's data about a file, from its offer until it is complete.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, UNIX_EPOCH};

use haul_base::copy::null;
use haul_proto::entry::Timestamp;
use haul_proto::integrity::FrameLen;
use rustix::fs::FileType;

use crate::fs::{FileIdentity, FileStat};
use crate::io::checksum::FileChecksum;
use crate::io::storage::FileAccess;
use crate::io::storage::file::OpenedFile;
use crate::source::flow_feed::{FlowFeed, FlowPipe, FlowRead};
use crate::source::input_file::InputFile;
use crate::source::own_unlinks::{OwnUnlinkRecords, OwnUnlinks};
use crate::source::path::{SourceFileError, SourcePath};
use crate::source::removable::RemovableFile;
use crate::source::state::{FileChange, SourceState};

/// An offered entry.
pub struct SourceEntry {
    /// Path of its source argument, as typed.
    pub operand: Arc<[u8]>,
    content: SourceContent,
    /// Its state at the offer.
    pub offered: SourceState,
    /// The file; zeros for input without one.
    identity: FileIdentity,
    /// The greatest change since its offer with which it is copied, if a second reading equals the first.
    pub tolerates: FileChange,
    /// The greatest such change seen.
    change: AtomicU8,
    /// Data for its removal, once it is verified at the target.
    pub removable: Option<Box<RemovableFile>>,
    /// Changed while being read, and offered again.
    is_again: bool,
    /// State of its transfer, made on first use: an entry that the target has needs none.
    transfer: OnceLock<Box<EntryTransfer>>,
}

/// What most entries of a large tree never have.
#[derive(Default)]
pub(super) struct EntryTransfer {
    /// A large file: opened by its first stream, closed when the entry is complete.
    opened: OnceLock<Result<Arc<OpenedFile>, SourceFileError>>,
    /// Input for reading in order, opened on first use.
    feed: OnceLock<FlowFeed>,
    /// Time of the audit log's entry for the start of its transfer.
    audited_since: OnceLock<Instant>,
    /// Its requested digest, if the source computes one.
    pub(super) sum: OnceLock<FileChecksum>,
    /// The digest of a small file, once reported.
    pub(super) reported_sum: OnceLock<Vec<u8>>,
}

/// Where the bytes of an entry come from.
enum SourceContent {
    /// A path below the source argument, or the argument itself.
    Path(SourcePath),
    /// A directory, of which only the listing is read.
    Directory,
    /// Memory (`null:SIZE`).
    Zeros,
    /// A pipe.
    Pipe,
    /// Standard input that is a regular file.
    Input(Arc<InputFile>),
}

impl SourceEntry {
    /// A directory.
    pub fn directory(operand: Arc<[u8]>) -> Self {
        Self::of(operand, SourceContent::Directory, 0, Timestamp::default())
    }

    /// Zeros: see [`null`].
    pub fn null(operand: Arc<[u8]>, size: u64, modified: Timestamp) -> Self {
        Self::of(operand, SourceContent::Zeros, size, modified)
    }

    /// A file or a hard link.
    pub fn file(operand: Arc<[u8]>, place: SourcePath, stat: &FileStat) -> Self {
        Self {
            offered: SourceState::from(stat),
            identity: stat.identity,
            ..Self::of(operand, SourceContent::Path(place), stat.size, stat.meta.modified)
        }
    }

    /// A symbolic link or a special file.
    pub fn without_content(operand: Arc<[u8]>, place: SourcePath, modified: Timestamp) -> Self {
        Self::of(operand, SourceContent::Path(place), 0, modified)
    }

    /// Output of a pipe.
    pub fn pipe(operand: Arc<[u8]>, pipe: Arc<FlowPipe>) -> Self {
        let transfer = EntryTransfer { feed: OnceLock::from(FlowFeed::of_pipe(pipe)), ..EntryTransfer::default() };
        let transfer = OnceLock::from(Box::new(transfer));
        Self { transfer, ..Self::of(operand, SourceContent::Pipe, 0, Timestamp::default()) }
    }

    /// Standard input that is a regular file.
    pub fn input(operand: Arc<[u8]>, file: Arc<InputFile>) -> Self {
        let stat = file.stat;
        Self {
            offered: SourceState::from(&stat),
            identity: stat.identity,
            ..Self::of(operand, SourceContent::Input(file), stat.size, stat.meta.modified)
        }
    }

    fn of(operand: Arc<[u8]>, content: SourceContent, size: u64, modified: Timestamp) -> Self {
        Self {
            operand,
            content,
            offered: SourceState { size, modified, changed: Timestamp::default() },
            identity: FileIdentity { device: 0, inode: 0 },
            tolerates: FileChange::Nothing,
            change: AtomicU8::new(FileChange::Nothing as u8),
            removable: None,
            is_again: false,
            transfer: OnceLock::new(),
        }
    }

    /// The file in its present state, for a second offer after a change. `None` after a second change: a file that
    /// keeps changing fails.
    pub fn again(&self, own_unlinks: &OwnUnlinkRecords) -> Result<Option<(Self, FileStat)>, SourceFileError> {
        if self.is_again {
            return Ok(None);
        }
        let Some(place) = self.place() else { return Ok(None) };
        let file = self.open()?;
        let stat = wait_for_write(&file)?;
        let item = Self::file(Arc::clone(&self.operand), place.clone(), &stat);
        let removable = self.removable.as_ref().map(|removable| Box::new(removable.now(&stat, own_unlinks)));
        Ok(Some((Self { is_again: true, removable, tolerates: self.tolerates, ..item }, stat)))
    }

    /// Device number of its file system; 0 for input without one.
    pub fn device(&self) -> u64 {
        self.identity.device
    }

    /// Whether it changed while being read, and is offered again.
    pub fn is_again(&self) -> bool {
        self.is_again
    }

    /// State of its transfer.
    pub(super) fn transfer(&self) -> &EntryTransfer {
        self.transfer.get_or_init(Box::default)
    }

    /// Input for reading in order.
    pub fn feed(&self) -> &FlowFeed {
        self.transfer().feed.get_or_init(FlowFeed::of_file)
    }

    /// Marks the transfer as audited. Returns whether this is the first call.
    pub fn begin_audit(&self) -> bool {
        self.transfer().audited_since.set(Instant::now()).is_ok()
    }

    /// Returns the time since [`Self::begin_audit`].
    pub fn audited_for(&self) -> Option<Duration> {
        self.transfer.get()?.audited_since.get().map(Instant::elapsed)
    }

    /// Its path, if it has one.
    pub fn place(&self) -> Option<&SourcePath> {
        if let SourceContent::Path(place) = &self.content { Some(place) } else { None }
    }

    /// Whether its input is a pipe.
    pub fn is_pipe(&self) -> bool {
        matches!(self.content, SourceContent::Pipe)
    }

    /// Standard input, if it is a regular file.
    pub fn input_file(&self) -> Option<&InputFile> {
        if let SourceContent::Input(file) = &self.content { Some(file) } else { None }
    }

    /// Offset of its first byte in its file.
    fn begins(&self) -> u64 {
        self.input_file().map_or(0, |file| file.begins)
    }

    /// Whether it is zeros from memory.
    pub fn is_null(&self) -> bool {
        matches!(self.content, SourceContent::Zeros)
    }

    /// Opens the file without checking its state.
    pub fn open(&self) -> io::Result<OwnedFd> {
        match &self.content {
            SourceContent::Zeros => null::open_zeros(),
            SourceContent::Path(place) => place.parent.open_unseen(&place.name, place.links),
            SourceContent::Input(file) => file.duplicate(),
            SourceContent::Directory | SourceContent::Pipe => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    /// The state of the open file. Zeros never change, and haul's removal of a hard link is no change. Fails if the
    /// entry is not a regular file, or no longer one.
    pub fn stat_state(&self, file: &OwnedFd) -> io::Result<SourceState> {
        if self.is_null() {
            return Ok(self.offered);
        }
        let stat = || Ok(self.state_in(&stat_regular_file(file)?));
        match self.own_unlinks() {
            None => stat(),
            Some(own) => own.without_removals(|span| Ok(span.as_offered(stat()?, &self.offered))),
        }
    }

    /// The state that a file's properties show.
    fn state_in(&self, stat: &FileStat) -> SourceState {
        SourceState::from(&FileStat { size: stat.size.saturating_sub(self.begins()), ..*stat })
    }

    fn own_unlinks(&self) -> Option<&OwnUnlinks> {
        self.removable.as_deref().and_then(RemovableFile::own_unlinks)
    }

    /// Whether the open file still equals its offer.
    pub fn is_as_offered(&self, file: &OwnedFd) -> io::Result<bool> {
        Ok(self.stat_state(file)? == self.offered)
    }

    /// Whether the open file has changed since its offer, so that a second reading is needed. Fails after a change that
    /// is not tolerated.
    pub fn needs_second_reading(&self, file: &OwnedFd) -> Result<bool, SourceFileError> {
        self.tolerate(file, &self.stat_state(file)?)
    }

    /// As [`Self::needs_second_reading`], for a file in this state.
    fn tolerate(&self, file: &OwnedFd, now: &SourceState) -> Result<bool, SourceFileError> {
        let change = now.change_since(&self.offered);
        if change == FileChange::Nothing {
            return Ok(false);
        }
        if !self.is_tolerable(file, change)? {
            return Err(SourceFileError::Changed);
        }
        self.note_change(change);
        Ok(true)
    }

    /// Whether a second reading proves the contents of the open file after this change. Another file of the same name
    /// is no grown one.
    pub fn is_tolerable(&self, file: &OwnedFd, change: FileChange) -> io::Result<bool> {
        Ok(change <= self.tolerates && FileStat::at_fd(file)?.identity == self.identity)
    }

    /// Records a tolerated change.
    pub fn note_change(&self, change: FileChange) {
        self.change.fetch_max(change as u8, Ordering::Relaxed);
    }

    /// Whether a change as great as this one was tolerated.
    pub fn has_changed(&self, change: FileChange) -> bool {
        self.change.load(Ordering::Relaxed) >= change as u8
    }

    /// The file, opened once for all streams, which also share the error. Fails if the file differs from its offer.
    pub fn open_shared(&self) -> Result<Arc<OpenedFile>, SourceFileError> {
        self.transfer().opened.get_or_init(|| self.open_as_offered()).clone()
    }

    /// The open file, shared by concurrent users. Fails if the file differs from its offer more than is tolerated.
    pub fn open_as_offered(&self) -> Result<Arc<OpenedFile>, SourceFileError> {
        let file = self.open()?;
        // One stat shows a write under way, changes since the offer, and the properties.
        let stat = if self.is_null() { FileStat::at_fd(&file)? } else { wait_for_write(&file)? };
        let now = match self.own_unlinks() {
            None if !self.is_null() => self.state_in(&stat),
            // A state counts only if haul removed no name of the file meanwhile.
            _ => self.stat_state(&file)?,
        };
        self.tolerate(&file, &now)?;
        // Only a hint: its failure has no effect.
        let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Sequential);
        Ok(Arc::new(OpenedFile::with_stat(file, FileAccess::Read, &stat).beginning_at(self.begins())))
    }

    /// Reads a frame of a file in order. After the last one, the file must equal its offer, or need a second reading.
    pub fn read_in_order(&self, frame: FrameLen, index: u64, room: &mut [u8]) -> Result<FlowRead, SourceFileError> {
        let file = self.open_shared()?;
        let len = frame.frame_len(self.offered.size, index).ok_or(SourceFileError::Changed)?;
        let offset = index.saturating_mul(frame.get().into());
        if file.read_at(&mut room[..len], offset)? < len {
            return Err(SourceFileError::Changed);
        }
        let is_last = index + 1 == frame.frames(self.offered.size);
        if is_last {
            self.needs_second_reading(file.fd())?;
        }
        Ok(FlowRead { len, end: is_last.then_some((self.offered.size, self.offered.modified)) })
    }

    /// Rereads bytes of the file.
    pub fn read_again(&self, room: &mut [u8], offset: u64) -> Result<usize, SourceFileError> {
        Ok(self.open_shared()?.read_at(room, offset)?)
    }

    /// The path for messages, below the path that the user typed.
    pub fn path(&self) -> Vec<u8> {
        self.place().map_or_else(|| self.operand.to_vec(), |place| place.path(&self.operand))
    }
}

/// Longest expected duration of one write(2) call.
const ONE_WRITE: Duration = Duration::from_millis(100);
/// Smaller writes take negligible time.
const LONG_WRITE_MIN: u64 = 256 << 10;

/// Waits until the write(2) call that set the file's change time is complete. The kernel records the time at the start
/// of a call, so a concurrent read would mix old and new data undetected. Returns the file's properties after it.
fn wait_for_write(file: &OwnedFd) -> io::Result<FileStat> {
    let stat = stat_regular_file(file)?;
    let Some(rest) = under_way(&stat) else { return Ok(stat) };
    std::thread::sleep(rest);
    stat_regular_file(file)
}

fn under_way(stat: &FileStat) -> Option<Duration> {
    let Timestamp { seconds, nanoseconds } = stat.changed;
    let changed = UNIX_EPOCH + Duration::new(u64::try_from(seconds).ok()?, nanoseconds);
    let rest = ONE_WRITE.checked_sub(changed.elapsed().ok()?)?;
    (stat.size >= LONG_WRITE_MIN).then_some(rest)
}

fn stat_regular_file(file: &OwnedFd) -> io::Result<FileStat> {
    let stat = FileStat::at_fd(file)?;
    if stat.kind == FileType::RegularFile { Ok(stat) } else { Err(io::Error::other(NO_FILE)) }
}

/// Error for a name that is no longer a regular file's.
const NO_FILE: &str = "is no longer a regular file";
