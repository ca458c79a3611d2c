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
    /// The job in this directory.
    pub fn open(path: &OsStr) -> Result<Self, JobError> {
        let directory = JobDirectory::open(&absolute(Path::new(path)))?;
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
