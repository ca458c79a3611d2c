//! A worker that answers file operations instead of copying. It reads regular files, and changes nothing.
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
use haul_base::sys::describe::describe;
use haul_base::sys::sync::lock;
use haul_proto::limits::{FILE_OPERATIONS_AHEAD, SESSION_FILES_MAX};
use haul_proto::path::escape;
use haul_proto::wire::control_channel::ControlChannel;
use haul_proto::wire::file_session::{FileAnswer, FileFailure, FileOperation, OpenFileVersion};
use haul_proto::wire::report::WorkerMessage;
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use crate::fs::{FileStat, lookup};
use crate::net::rate_limiter::RateLimiter;
use crate::policy::audit::{AuditAction, AuditLog, AuditRecord};
use crate::worker::client_refusal::ClientRefusal;
use crate::worker::error::MessageOrderError;

/// An operation, or why a server refuses it.
type PermittedOperation = Result<FileOperation, ClientRefusal>;

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
    /// The first path, escaped.
    path: Mutex<String>,
}

/// A failed operation.
#[derive(Debug, thiserror::Error)]
enum FileOperationError {
    /// A system call failed.
    #[error("{}", describe(.0))]
    System(#[from] io::Error),
    /// The server's limits exclude it.
    #[error("{0}")]
    Client(#[from] ClientRefusal),
    /// It is a directory.
    #[error("is a directory")]
    Directory,
    /// It is no regular file.
    #[error("not a regular file")]
    NotRegular,
    /// It changed after it was opened.
    #[error("the file has changed since it was opened\nopen it again")]
    Changed,
    /// Too many are open.
    #[error("a session holds at most {SESSION_FILES_MAX} files open\nclose one of them")]
    TooMany,
    /// The number belongs to no open file.
    #[error("no open file has this number")]
    NotOpen,
    /// The audit log does not work.
    #[error("cannot write the audit log")]
    AuditLog,
}

struct OpenFile {
    file: File,
    version: OpenFileVersion,
}

struct FileServer {
    control: ControlWriter,
    limiter: RateLimiter,
    audit: Option<Arc<AuditLog>>,
    files: BTreeMap<u32, OpenFile>,
    next: u32,
    work: Arc<SessionWork>,
}

impl FileSessionRuntime {
    /// Starts the thread of a session that sends at most `rate_bytes_per_s`; 0 for no limit.
    pub fn start(control: ControlWriter, rate_bytes_per_s: u64, audit: Option<Arc<AuditLog>>) -> io::Result<Self> {
        let (operations, incoming) = sync_channel(FILE_OPERATIONS_AHEAD);
        let work = Arc::<SessionWork>::default();
        let server = FileServer {
            control,
            limiter: RateLimiter::new(rate_bytes_per_s),
            audit,
            files: BTreeMap::new(),
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
        let SessionWork { files, bytes, failed, path } = &*self.work;
        let [files, bytes, failed] = [files, bytes, failed].map(|count| count.load(Ordering::Relaxed));
        WorkDone { what: WorkKind::Sent, files, bytes, failed, path: lock(path).clone() }
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
                self.files.remove(&file).map(|_| FileAnswer::Closed).ok_or(FileOperationError::NotOpen)
            }
        }
    }

    fn open(&mut self, path: &[u8]) -> Result<FileAnswer, FileOperationError> {
        if self.files.len() >= SESSION_FILES_MAX {
            return Err(FileOperationError::TooMany);
        }
        let opened = OpenFile::open(Path::new(OsStr::from_bytes(path)))?;
        let record = AuditRecord { bytes: Some(opened.version.size), ..AuditRecord::of(AuditAction::Begun, path) };
        let written = self.audit.as_ref().map_or(Ok(()), |audit| audit.write(&record));
        written.map_err(|_| FileOperationError::AuditLog)?;
        self.next = self.next.checked_add(1).ok_or(FileOperationError::TooMany)?;
        if self.work.files.fetch_add(1, Ordering::Relaxed) == 0 {
            *lock(&self.work.path) = escape(path);
        }
        let version = opened.version;
        self.files.insert(self.next, opened);
        Ok(FileAnswer::Opened { file: self.next, version })
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

impl FileOperationError {
    fn failure(&self) -> FileFailure {
        match self {
            Self::System(error) => match error.raw_os_error().map(Errno::from_raw_os_error) {
                Some(Errno::NOENT | Errno::NOTDIR) => FileFailure::Gone,
                Some(Errno::ACCESS | Errno::PERM) => FileFailure::Denied,
                _ => FileFailure::Other,
            },
            Self::Client(_) => FileFailure::Denied,
            Self::Directory => FileFailure::Directory,
            Self::NotRegular => FileFailure::NotRegular,
            Self::Changed => FileFailure::Changed,
            Self::TooMany => FileFailure::TooMany,
            Self::NotOpen => FileFailure::NotOpen,
            Self::AuditLog => FileFailure::Other,
        }
    }
}

#[cfg(test)]
#[path = "file_session_tests.rs"]
mod tests;
