//! A file or folder in a job's directory, opened relative to the held directory.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use haul_base::held_directory::{HeldDirectory, UnnamedFile};

use crate::error::JobError;

/// Largest file that is read as a whole, in bytes, except for the plan.
const FILE_MAX: u64 = 64 << 20;

/// A path in a job's directory. It may be absent.
#[derive(Debug, Clone)]
pub struct JobFile {
    /// Empty until the job's directory is created.
    pub(crate) held: Arc<OnceLock<HeldDirectory>>,
    pub(crate) path: PathBuf,
}

impl JobFile {
    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path in this folder.
    pub fn join(&self, name: impl AsRef<Path>) -> Self {
        Self { held: Arc::clone(&self.held), path: self.path.join(name) }
    }

    /// A file beside this one.
    pub fn with_ending(&self, ending: &str) -> Self {
        let mut path = self.path.clone().into_os_string();
        path.push(ending);
        Self { held: Arc::clone(&self.held), path: path.into() }
    }

    fn held(&self) -> io::Result<&HeldDirectory> {
        self.held.get().ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn error(&self, error: &io::Error) -> JobError {
        JobError::io(&self.path, error)
    }

    /// Whether it exists.
    pub fn exists(&self) -> bool {
        self.held().is_ok_and(|held| held.has(&self.path))
    }

    /// Its whole text; `None` if it is absent.
    pub fn read_text(&self) -> Result<Option<String>, JobError> {
        self.read_text_of(FILE_MAX)
    }

    /// Its whole text of at most `limit` bytes; `None` if it is absent.
    pub fn read_text_of(&self, limit: u64) -> Result<Option<String>, JobError> {
        let text = |bytes| String::from_utf8(bytes).map_err(|_| JobError::damaged(&self.path, "not UTF-8"));
        match self.held().and_then(|held| held.read(&self.path, limit)) {
            Ok(bytes) => text(bytes).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.error(&error)),
        }
    }

    /// Opens it for reading.
    pub fn open(&self) -> io::Result<File> {
        self.held()?.open(&self.path)
    }

    /// Opens it for appending, and creates it if absent.
    pub fn append(&self) -> io::Result<File> {
        self.held()?.append(&self.path)
    }

    /// Creates it.
    pub fn create_new(&self) -> io::Result<File> {
        self.held()?.create_new(&self.path)
    }

    /// Opens it for writing, if it is still the file `known`.
    pub fn reopen(&self, known: &Metadata) -> io::Result<File> {
        self.held()?.reopen(&self.path, known)
    }

    /// Gives it a further name.
    pub fn link(&self, to: &Self) -> io::Result<()> {
        self.held()?.link(&self.path, &to.path)
    }

    /// Creates it under a temporary name until it is complete.
    pub fn create_unnamed(&self) -> Result<UnnamedFile, JobError> {
        self.held().and_then(|held| held.create_unnamed(&self.path)).map_err(|error| self.error(&error))
    }

    /// Names the complete file.
    pub fn publish(&self, file: UnnamedFile) -> Result<(), JobError> {
        file.publish().map_err(|error| self.error(&error))
    }

    /// Writes it as a whole, in place of an older one.
    pub fn replace(&self, bytes: &[u8]) -> Result<(), JobError> {
        self.held().and_then(|held| held.replace(&self.path, bytes)).map_err(|error| self.error(&error))
    }

    /// Removes the file, if it exists.
    pub fn remove(&self) -> Result<(), JobError> {
        self.held().and_then(|held| held.remove(&self.path)).map_err(|error| self.error(&error))
    }

    /// Removes the folder, if it exists.
    pub fn remove_tree(&self) -> Result<(), JobError> {
        self.held().and_then(|held| held.remove_tree(&self.path)).map_err(|error| self.error(&error))
    }

    /// Creates the folder, if it is absent.
    pub fn make_directory(&self) -> Result<(), JobError> {
        self.held().and_then(|held| held.make_directory(&self.path)).map_err(|error| self.error(&error))
    }

    /// The names in the folder.
    pub fn names(&self) -> Result<Vec<OsString>, JobError> {
        self.held().and_then(|held| held.names(&self.path)).map_err(|error| self.error(&error))
    }
}
