//! A job's directory and description.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::confirmation::{Confirmation, digest};
use crate::description::JobDescription;
use crate::directory::JobDirectory;
use crate::error::JobError;
use crate::options::JobOptions;

/// An existing job.
#[derive(Debug, Clone)]
pub struct OpenedJob {
    /// Its files.
    pub directory: JobDirectory,
    /// Its sources, target and options.
    pub description: JobDescription,
    /// The directory of this user's state; `None` without a known place.
    pub state: Option<PathBuf>,
    /// What this user confirmed.
    pub confirmation: Confirmation,
}

impl OpenedJob {
    /// This user's job in this directory.
    pub fn open(path: &OsStr, state: Option<PathBuf>) -> Result<Self, JobError> {
        Self::of(JobDirectory::open(&absolute(Path::new(path)))?, state)
    }

    /// The job in this directory, perhaps another user's: nothing is started or written for it.
    pub fn open_to_read(path: &OsStr) -> Result<Self, JobError> {
        Self::of(JobDirectory::open_to_read(&absolute(Path::new(path)))?, None)
    }

    fn of(directory: JobDirectory, state: Option<PathBuf>) -> Result<Self, JobError> {
        let description = JobDescription::read(&directory, version())?;
        let confirmation = confirmation("shard JOB N", None, state.as_deref());
        Ok(Self { directory, description, state, confirmation })
    }

    /// This user's job in this directory, for a step that takes `--confirm`.
    pub fn open_for(
        step: &'static str,
        path: &OsStr,
        confirm: Option<String>,
        state: Option<PathBuf>,
    ) -> Result<Self, JobError> {
        let confirmation = confirmation(step, confirm, state.as_deref());
        Ok(Self { confirmation, ..Self::open(path, state)? })
    }

    /// A job by its command line, which confirms what it starts.
    pub fn typed(directory: JobDirectory, description: JobDescription, state: Option<PathBuf>) -> Self {
        let confirmation = confirmation("shard JOB N", None, state.as_deref());
        let mut job = Self { directory, description, state, confirmation };
        job.confirmation.confirm(&job.description.options.program_words());
        job
    }

    /// The options of its copies, if this user confirmed those that can start programs.
    pub fn options(&self) -> Result<&JobOptions, JobError> {
        let options = &self.description.options;
        self.confirmation.check(self.directory.path(), &options.program_words())?;
        Ok(options)
    }

    /// `--confirm DIGEST` for steps on other hosts, once [`Self::options`] are confirmed. Empty if they start nothing.
    pub fn confirming_words(&self) -> Result<Vec<String>, JobError> {
        let digest = digest(&self.options()?.program_words());
        Ok(digest.map_or(Vec::new(), |digest| vec!["--confirm".to_owned(), digest]))
    }

    /// The path of the source below the base, for a copy of the whole source.
    pub fn full_source(&self) -> OsString {
        // With `./`, a name with a colon is no host.
        [OsStr::new("./"), &self.description.name].into_iter().collect()
    }
}

fn confirmation(step: &'static str, typed: Option<String>, state: Option<&Path>) -> Confirmation {
    Confirmation::new(step, typed, state.map(|state| state.join("confirmed")))
}

/// This program's version, as a job records it.
pub fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Makes a path absolute.
pub fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
