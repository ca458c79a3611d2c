//! A worker that answers file operations instead of copying. It reads regular files, lists directories, and makes and
//! removes entries if its Request says so.
//!
//! A thread performs the operations, so that the main thread always reads its control channel. Every read belongs to
//! the version that was opened: a file that changed is an error.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

use haul_base::control_channel::ControlWriter;
use haul_base::copy::account::{WorkDone, WorkKind};
use haul_base::sys::sync::lock;
use haul_proto::entry::EntryKind;
use haul_proto::limits::{FILE_OPERATIONS_AHEAD, SESSION_FILES_MAX};
use haul_proto::path::escape;
use haul_proto::wire::control_channel::ControlChannel;
use haul_proto::wire::file_session::{FailedEntries, FileAnswer, FileOperation, OpenFileVersion};
use haul_proto::wire::report::WorkerMessage;
use rustix::fs::{FileType, OFlags};

use crate::fs::remove_tree::ProtectedDirectories;
use crate::fs::watch::TreeWatch;
use crate::fs::{FileStat, lookup};
use crate::net::rate_limiter::RateLimiter;
use crate::policy::audit::{AuditAction, AuditLog, AuditRecord};
use crate::worker::client_refusal::ClientRefusal;
use crate::worker::directory_operations::{self, OpenListing};
use crate::worker::error::MessageOrderError;
use crate::worker::file_operation_error::FileOperationError;
use crate::worker::partial_search::PartialSearch;

/// An operation, or why a server refuses it.
type PermittedOperation = Result<FileOperation, ClientRefusal>;

/// What a session may use.
pub(super) struct FileSessionRights {
    /// Limit of the bytes that it sends; 0 for none.
    pub rate_bytes_per_s: u64,
    /// The audit log, if the host requires one.
    pub audit: Option<Arc<AuditLog>>,
    /// Directories that it never removes; `None` if it changes no names.
    pub changes: Option<ProtectedDirectories>,
    /// Whether it removes partial files.
    pub removes_partials: bool,
    /// The mask of new directories' modes.
    pub umask: u16,
}

/// The running session of a worker.
pub(super) struct FileSessionRuntime {
    operations: SyncSender<PermittedOperation>,
    work: Arc<SessionWork>,
}

/// What a session has done so far.
#[derive(Default)]
struct SessionWork {
    files: AtomicU64,
    bytes: AtomicU64,
    failed: AtomicU64,
    /// The kind of the first work, and its path, escaped.
    first: Mutex<Option<(WorkKind, String)>>,
}

impl SessionWork {
    fn count(&self, what: WorkKind, path: &[u8], files: u64) {
        self.files.fetch_add(files, Ordering::Relaxed);
        lock(&self.first).get_or_insert_with(|| (what, escape(path)));
    }
}

struct OpenFile {
    file: File,
    version: OpenFileVersion,
}

struct FileServer {
    control: ControlWriter,
    limiter: RateLimiter,
    rights: FileSessionRights,
    files: BTreeMap<u32, OpenFile>,
    listings: BTreeMap<u32, OpenListing>,
    watch: Option<TreeWatch>,
    searches: BTreeMap<u32, PartialSearch>,
    next: u32,
    work: Arc<SessionWork>,
}

impl FileSessionRuntime {
    /// Starts the thread of a session.
    pub fn start(control: ControlWriter, rights: FileSessionRights) -> io::Result<Self> {
        let (operations, incoming) = sync_channel(FILE_OPERATIONS_AHEAD);
        let work = Arc::<SessionWork>::default();
        let server = FileServer {
            control,
            limiter: RateLimiter::new(rights.rate_bytes_per_s),
            rights,
            files: BTreeMap::new(),
            listings: BTreeMap::new(),
            watch: None,
            searches: BTreeMap::new(),
            next: 0,
            work: Arc::clone(&work),
        };
        thread::Builder::new().name("haul-files".into()).spawn(move || server.answer_all(&incoming))?;
        Ok(Self { operations, work })
    }

    /// Queues an operation. A controller with too many unanswered ones breaks the protocol.
    pub fn queue(&self, operation: PermittedOperation) -> Result<(), MessageOrderError> {
        match self.operations.try_send(operation) {
            // The thread ends before the control channel only if that is broken.
            Ok(()) | Err(TrySendError::Disconnected(_)) => Ok(()),
            Err(TrySendError::Full(_)) => Err(MessageOrderError::FileOperationsAhead),
        }
    }

    /// Returns what the session has done so far.
    pub fn did(&self) -> WorkDone {
        let SessionWork { files, bytes, failed, first } = &*self.work;
        let [files, bytes, failed] = [files, bytes, failed].map(|count| count.load(Ordering::Relaxed));
        let (what, path) = lock(first).clone().unwrap_or((WorkKind::Sent, String::new()));
        WorkDone { what, files, bytes, failed, path }
    }
}

impl FileServer {
    fn answer_all(mut self, incoming: &Receiver<PermittedOperation>) {
        for operation in incoming {
            let answer = operation.map_err(FileOperationError::from).and_then(|operation| self.perform(operation));
            let answer = answer.unwrap_or_else(|error| {
                self.work.failed.fetch_add(1, Ordering::Relaxed);
                FileAnswer::Failed { failure: error.failure(), text: error.to_string() }
            });
            let message = WorkerMessage::FileAnswer(answer).encode();
            if self.control.send(ControlChannel::Controller, &message).is_err() {
                return;
            }
        }
    }

    fn perform(&mut self, operation: FileOperation) -> Result<FileAnswer, FileOperationError> {
        match operation {
            FileOperation::Open { path } => self.open(&path),
            FileOperation::Read { file, offset, length } => {
                let opened = self.files.get(&file).ok_or(FileOperationError::NotOpen)?;
                let bytes = opened.read(offset, length as usize)?;
                self.pace(bytes.len());
                self.work.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                Ok(FileAnswer::Data { bytes })
            }
            FileOperation::Close { file } => {
                let was_open = self.files.remove(&file).is_some()
                    || self.listings.remove(&file).is_some()
                    || self.searches.remove(&file).is_some();
                if was_open { Ok(FileAnswer::Closed) } else { Err(FileOperationError::NotOpen) }
            }
            FileOperation::Stat { path, follows } => {
                Ok(FileAnswer::Found(directory_operations::find_at(path_of(&path), follows)?))
            }
            FileOperation::List { path, has_details } => {
                let listing = OpenListing::open(path_of(&path), has_details)?;
                let number = self.new_number()?;
                self.list_on(number, listing)
            }
            FileOperation::ListOn { listing } => {
                let open = self.listings.remove(&listing).ok_or(FileOperationError::NotOpen)?;
                self.list_on(listing, open)
            }
            FileOperation::Measure { path } => Ok(FileAnswer::Measured(directory_operations::measure(path_of(&path))?)),
            FileOperation::MakeDirectory { path, has_parents } => {
                self.rights.changes.as_ref().ok_or(FileOperationError::ReadOnly)?;
                let mode = 0o777 & !self.rights.umask;
                if directory_operations::make_directory(path_of(&path), has_parents, mode)? {
                    self.record(AuditAction::Made, &path, EntryKind::Directory)?;
                    self.work.count(WorkKind::Made, &path, 1);
                }
                Ok(FileAnswer::Made)
            }
            FileOperation::Remove { path, is_recursive } => self.remove(&path, is_recursive),
            FileOperation::Watch { path, filters } => {
                // A new watch replaces the earlier one.
                let watch = self.watch.insert(TreeWatch::start(path_of(&path), &filters)?);
                Ok(FileAnswer::Watching(watch.coverage()))
            }
            FileOperation::NextChanges => {
                let watch = self.watch.as_mut().ok_or(FileOperationError::NotOpen)?;
                Ok(FileAnswer::Changed(watch.next_changes()?))
            }
            FileOperation::FindPartials { path, journals, removes } => {
                if removes && !self.rights.removes_partials {
                    return Err(FileOperationError::ReadOnly);
                }
                let journals = (!journals.is_empty()).then(|| path_of(&journals));
                let search = PartialSearch::open(path_of(&path), journals, removes)?;
                let number = self.new_number()?;
                self.search_on(number, search)
            }
            FileOperation::FindPartialsOn { search } => {
                let open = self.searches.remove(&search).ok_or(FileOperationError::NotOpen)?;
                self.search_on(search, open)
            }
        }
    }

    /// Answers with the next entries of a listing, which stays open until its end.
    fn list_on(&mut self, number: u32, mut listing: OpenListing) -> Result<FileAnswer, FileOperationError> {
        let (entries, is_last) = listing.next_entries()?;
        if !is_last {
            self.listings.insert(number, listing);
        }
        Ok(FileAnswer::Listed { listing: number, entries, is_last })
    }

    /// Answers with the next partial files of a search, which stays open until its end.
    fn search_on(&mut self, number: u32, mut search: PartialSearch) -> Result<FileAnswer, FileOperationError> {
        let mut audited = Ok(());
        let answer = search.next_partials(number, &mut |path| {
            self.work.count(WorkKind::Removed, path, 1);
            if audited.is_ok() {
                audited = self.record(AuditAction::Removed, path, EntryKind::File);
            }
        });
        audited?;
        if matches!(answer, FileAnswer::Partials { is_last: false, .. }) {
            self.searches.insert(number, search);
        }
        Ok(answer)
    }

    fn remove(&mut self, path: &[u8], is_recursive: bool) -> Result<FileAnswer, FileOperationError> {
        let protected = self.rights.changes.as_ref().ok_or(FileOperationError::ReadOnly)?;
        let (mut entries, mut failures) = (0, FailedEntries::default());
        let mut audited = Ok(());
        directory_operations::remove(path, is_recursive, protected, &mut |path, kind, outcome| match outcome {
            Ok(()) => {
                entries += 1;
                if audited.is_ok() {
                    audited = self.record(AuditAction::Removed, &path, kind);
                }
            }
            Err(error) => failures.add(path, error.to_string()),
        })?;
        self.work.count(WorkKind::Removed, path, entries);
        audited.map(|()| FileAnswer::Removed { entries, failures })
    }

    fn record(&self, action: AuditAction, path: &[u8], kind: EntryKind) -> Result<(), FileOperationError> {
        self.write_audit(&AuditRecord { kind: Some(kind), ..AuditRecord::of(action, path) })
    }

    fn write_audit(&self, record: &AuditRecord<'_>) -> Result<(), FileOperationError> {
        let written = self.rights.audit.as_ref().map_or(Ok(()), |audit| audit.write(record));
        written.map_err(|_| FileOperationError::AuditLog)
    }

    /// The number of a file or listing to be opened.
    fn new_number(&mut self) -> Result<u32, FileOperationError> {
        if self.files.len() + self.listings.len() + self.searches.len() >= SESSION_FILES_MAX {
            return Err(FileOperationError::TooMany);
        }
        self.next = self.next.checked_add(1).ok_or(FileOperationError::TooMany)?;
        Ok(self.next)
    }

    fn open(&mut self, path: &[u8]) -> Result<FileAnswer, FileOperationError> {
        let number = self.new_number()?;
        let opened = OpenFile::open(path_of(path))?;
        self.write_audit(&AuditRecord {
            bytes: Some(opened.version.size),
            ..AuditRecord::of(AuditAction::Begun, path)
        })?;
        self.work.count(WorkKind::Sent, path, 1);
        let version = opened.version;
        self.files.insert(number, opened);
        Ok(FileAnswer::Opened { file: number, version })
    }

    /// Waits until these bytes may go.
    fn pace(&self, bytes: usize) {
        let permit = self.limiter.permit();
        let mut rest = bytes;
        while rest > 0 {
            rest -= permit.acquire(rest);
        }
    }
}

impl OpenFile {
    /// Opens a regular file. A FIFO or device is not opened for reading, which might block or have effects.
    fn open(path: &Path) -> Result<Self, FileOperationError> {
        let flags = OFlags::CLOEXEC | OFlags::NOCTTY;
        let found = FileStat::at_fd(lookup::open(path, flags | OFlags::PATH).map_err(io::Error::from)?)?;
        check_kind(&found)?;
        // Something else may have the name by now.
        let file = File::from(lookup::open(path, flags | OFlags::NONBLOCK).map_err(io::Error::from)?);
        let stat = FileStat::at_fd(&file)?;
        check_kind(&stat)?;
        Ok(Self { file, version: version(&stat) })
    }

    fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>, FileOperationError> {
        self.check()?;
        let rest = usize::try_from(self.version.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; length.min(rest)];
        let read = self.file.read_exact_at(&mut bytes, offset);
        self.check()?;
        Ok(read.map(|()| bytes)?)
    }

    fn check(&self) -> Result<(), FileOperationError> {
        let is_same = version(&FileStat::at_fd(&self.file)?) == self.version;
        if is_same { Ok(()) } else { Err(FileOperationError::Changed) }
    }
}

fn check_kind(stat: &FileStat) -> Result<(), FileOperationError> {
    match stat.kind {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(FileOperationError::Directory),
        _ => Err(FileOperationError::NotRegular),
    }
}

fn version(stat: &FileStat) -> OpenFileVersion {
    let FileStat { size, identity, changed, meta, .. } = *stat;
    OpenFileVersion { size, device: identity.device, inode: identity.inode, modified: meta.modified, changed }
}

fn path_of(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path))
}

#[cfg(test)]
#[path = "file_session_tests.rs"]
mod tests;
