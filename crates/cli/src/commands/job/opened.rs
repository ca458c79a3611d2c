//! A job's directory and description.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use haul_job::description::JobDescription;
use haul_job::directory::JobDirectory;
use haul_job::error::JobError;

/// An existing job.
#[derive(Debug, Clone)]
pub struct OpenedJob {
    /// Its files.
    pub directory: JobDirectory,
    /// Its sources, target and options.
    pub description: JobDescription,
}

impl OpenedJob {
    /// This user's job in this directory.
    pub fn open(path: &OsStr) -> Result<Self, JobError> {
        Self::of(JobDirectory::open(&absolute(Path::new(path)))?)
    }

    /// The job in this directory, perhaps another user's: nothing is started or written for it.
    pub fn open_to_read(path: &OsStr) -> Result<Self, JobError> {
        Self::of(JobDirectory::open_to_read(&absolute(Path::new(path)))?)
    }

    fn of(directory: JobDirectory) -> Result<Self, JobError> {
        let description = JobDescription::read(&directory, version())?;
        Ok(Self { directory, description })
    }

    /// The path of the source below the base, for a copy of the whole source.
    pub fn full_source(&self) -> OsString {
        // With `./`, a name with a colon is no host.
        [OsStr::new("./"), &self.description.name].into_iter().collect()
    }
}

/// This program's version, as a job records it.
pub fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Makes a path absolute.
pub fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
