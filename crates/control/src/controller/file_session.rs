//! A file session with a host: one worker that stays, and reads, lists and changes what is there, one operation at a
//! time. Unlike a copy's, its data passes through the controller.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use haul_base::copy::error::Error;
use haul_base::copy::event::Observer;
use haul_base::copy::location::Location;
use haul_base::copy::spec::{CopyOptions, CopySpec, RemoteAccess, WorkerProgram};
use haul_base::sys::cancel::Cancel;
use haul_proto::feature::Features;
use haul_proto::filter::definition::FilterOptions;
use haul_proto::limits::FILE_READ_MAX;
use haul_proto::path::Name;
use haul_proto::watch::ChangedPart;
use haul_proto::wire::file_session::{
    DiskUsage, FailedEntries, FileAnswer, FileFailure, FileOperation, FileSessionRequest, FoundEntry, OpenFileVersion,
    SessionRights, WatchCoverage,
};
use haul_proto::wire::partials::FoundPartial;
use haul_proto::wire::report::WorkerMessage;
use haul_proto::wire::request::ControllerMessage;

use super::expansion::expand_sources;
use super::settings::workers_silence_ms;
use super::worker_role::WorkerRole;
use super::workers::Workers;

/// The only worker's role in messages.
const ROLE: WorkerRole = WorkerRole::Source;

/// A running session. Dropping it ends its worker.
pub struct FileSession {
    workers: Workers,
    cancel: Cancel,
}

/// The number of an open file in its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileNumber(pub u32);

/// Some entries of a directory.
pub struct ListedPage {
    /// The entries, in no order.
    pub entries: Vec<(Name, FoundEntry)>,
    /// The number of the listing; `None` after its end.
    pub rest: Option<u32>,
}

/// Some partial files of a search.
pub struct PartialsPage {
    /// The partial files.
    pub found: Vec<FoundPartial>,
    /// What could not be read or removed.
    pub failures: FailedEntries,
    /// The number of the search; `None` after its end.
    pub rest: Option<u32>,
}

/// The error of an operation.
#[derive(Debug, thiserror::Error)]
pub enum FileSessionError {
    /// The operation failed. The session continues.
    #[error("{text}")]
    Operation {
        /// Kind of the failure.
        failure: FileFailure,
        /// Reason and remedy.
        text: String,
    },
    /// The session is over: the connection was lost, or the worker refused it or broke the protocol.
    #[error("{0}")]
    Over(#[from] Error),
}

impl FileSession {
    /// Starts a worker on the host of the sources of `copy`, and expands patterns. It has no more than these `rights`.
    pub fn open(
        copy: &mut CopySpec,
        rights: SessionRights,
        program: &WorkerProgram,
        cancel: &Cancel,
        observer: &mut dyn Observer,
    ) -> Result<Self, Error> {
        let target = Location { host: copy.source_host().clone(), path: Default::default() };
        let access = copy.access.clone();
        // One host, reached in one way, has one worker.
        let access = RemoteAccess { target_command: access.source_command.clone(), target_login: None, ..access };
        let (options, sources) = (CopyOptions::default(), copy.sources.clone());
        let spec = CopySpec { sources, list: None, target, options, access };
        let mut workers = Workers::start(&spec, program, cancel, observer)?;
        workers.require(Features::FILE_SESSIONS)?;
        if rights == SessionRights::RemovePartials {
            workers.require(Features::PARTIALS)?;
        }
        expand_sources(copy, &mut workers, cancel, observer)?;
        let mut session = Self { workers, cancel: cancel.clone() };
        let request = FileSessionRequest { silence_ms: workers_silence_ms(spec.access.silence), rights };
        match session.exchange(&ControllerMessage::FileSession(request))? {
            FileAnswer::Ready => Ok(session),
            _ => Err(session.out_of_order()),
        }
    }

    /// Opens a regular file for reading.
    pub fn open_file(&mut self, path: &Path) -> Result<(FileNumber, OpenFileVersion), FileSessionError> {
        match self.perform(FileOperation::Open { path: bytes_of(path) })? {
            FileAnswer::Opened { file, version } => Ok((FileNumber(file), version)),
            _ => Err(self.out_of_order().into()),
        }
    }

    /// Reads at most `length` bytes at `offset`: fewer at the end of the file, or beyond [`FILE_READ_MAX`]. A file that
    /// changed after it was opened is an error.
    pub fn read(&mut self, file: FileNumber, offset: u64, length: u32) -> Result<Vec<u8>, FileSessionError> {
        let length = length.min(FILE_READ_MAX);
        match self.perform(FileOperation::Read { file: file.0, offset, length })? {
            FileAnswer::Data { bytes } if bytes.len() <= length as usize => Ok(bytes),
            _ => Err(self.out_of_order().into()),
        }
    }

    /// Closes a file.
    pub fn close(&mut self, file: FileNumber) -> Result<(), FileSessionError> {
        match self.perform(FileOperation::Close { file: file.0 })? {
            FileAnswer::Closed => Ok(()),
            _ => Err(self.out_of_order().into()),
        }
    }

    /// Looks up an entry; with `follows`, a link's target.
    pub fn find(&mut self, path: &Path, follows: bool) -> Result<FoundEntry, FileSessionError> {
        match self.perform(FileOperation::Stat { path: bytes_of(path), follows })? {
            FileAnswer::Found(entry) => Ok(entry),
            _ => Err(self.out_of_order().into()),
        }
    }

    /// Begins to list a directory.
    pub fn list(&mut self, path: &Path, has_details: bool) -> Result<ListedPage, FileSessionError> {
        self.listed(FileOperation::List { path: bytes_of(path), has_details })
    }

    /// Returns the next entries of a listing.
    pub fn list_on(&mut self, listing: u32) -> Result<ListedPage, FileSessionError> {
        self.listed(FileOperation::ListOn { listing })
    }

    fn listed(&mut self, operation: FileOperation) -> Result<ListedPage, FileSessionError> {
        match self.perform(operation)? {
            FileAnswer::Listed { listing, entries, is_last } => {
                Ok(ListedPage { entries, rest: (!is_last).then_some(listing) })
            }
            _ => Err(self.out_of_order().into()),
        }
    }

    /// Sums up an entry and everything below.
    pub fn measure(&mut self, path: &Path) -> Result<DiskUsage, FileSessionError> {
        match self.perform(FileOperation::Measure { path: bytes_of(path) })? {
            FileAnswer::Measured(usage) => Ok(usage),
            _ => Err(self.out_of_order().into()),
        }
    }

    /// Makes a directory. With `has_parents`, also those above it, and an existing one is no failure.
    pub fn make_directory(&mut self, path: &Path, has_parents: bool) -> Result<(), FileSessionError> {
        match self.perform(FileOperation::MakeDirectory { path: bytes_of(path), has_parents })? {
            FileAnswer::Made => Ok(()),
            _ => Err(self.out_of_order().into()),
        }
    }

    /// Removes an entry; with `is_recursive`, a directory with everything below. Returns the number of removed entries,
    /// and those that stay.
    pub fn remove(&mut self, path: &Path, is_recursive: bool) -> Result<(u64, FailedEntries), FileSessionError> {
        match self.perform(FileOperation::Remove { path: bytes_of(path), is_recursive })? {
            FileAnswer::Removed { entries, failures } => Ok((entries, failures)),
            _ => Err(self.out_of_order().into()),
        }
    }

    /// Watches a directory and everything below.
    pub fn watch(&mut self, path: &Path, filters: &FilterOptions) -> Result<WatchCoverage, FileSessionError> {
        self.workers.require(Features::WATCH)?;
        match self.perform(FileOperation::Watch { path: bytes_of(path), filters: filters.clone() })? {
            FileAnswer::Watching(coverage) => Ok(coverage),
            _ => Err(self.out_of_order().into()),
        }
    }

    /// Waits for settled changes in the watched directory.
    pub fn next_changes(&mut self) -> Result<ChangedPart, FileSessionError> {
        match self.perform(FileOperation::NextChanges)? {
            FileAnswer::Changed(part) => Ok(part),
            _ => Err(self.out_of_order().into()),
        }
    }

    /// Begins to find partial files at or below `path`; with `removes`, removes them. Journals are beside them, or in
    /// `journals`.
    pub fn find_partials(
        &mut self,
        path: &Path,
        journals: Option<&Path>,
        removes: bool,
    ) -> Result<PartialsPage, FileSessionError> {
        self.workers.require(Features::PARTIALS)?;
        let journals = journals.map(bytes_of).unwrap_or_default();
        self.found_partials(FileOperation::FindPartials { path: bytes_of(path), journals, removes })
    }

    /// Returns the next partial files of a search.
    pub fn find_partials_on(&mut self, search: u32) -> Result<PartialsPage, FileSessionError> {
        self.found_partials(FileOperation::FindPartialsOn { search })
    }

    fn found_partials(&mut self, operation: FileOperation) -> Result<PartialsPage, FileSessionError> {
        match self.perform(operation)? {
            FileAnswer::Partials { search, found, failures, is_last } => {
                Ok(PartialsPage { found, failures, rest: (!is_last).then_some(search) })
            }
            _ => Err(self.out_of_order().into()),
        }
    }

    fn perform(&mut self, operation: FileOperation) -> Result<FileAnswer, FileSessionError> {
        match self.exchange(&ControllerMessage::FileOperation(operation)).map_err(of_lost_session)? {
            FileAnswer::Failed { failure, text } => Err(FileSessionError::Operation { failure, text }),
            answer => Ok(answer),
        }
    }

    fn exchange(&mut self, message: &ControllerMessage) -> Result<FileAnswer, Error> {
        match self.workers.ask(ROLE, message, &self.cancel)? {
            WorkerMessage::FileAnswer(answer) => Ok(answer),
            _ => Err(self.out_of_order()),
        }
    }

    fn out_of_order(&self) -> Error {
        Error::Failed(self.workers.with_host(ROLE, "protocol error: answer out of order"))
    }
}

impl Drop for FileSession {
    fn drop(&mut self) {
        self.workers.close();
    }
}

fn bytes_of(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

/// A connection that was open has broken.
fn of_lost_session(error: Error) -> Error {
    match error {
        Error::Connect(text) => Error::Broken(text),
        error => error,
    }
}
