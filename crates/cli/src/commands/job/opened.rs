//! A job's directory and description.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use haul_job::confirmation::{Confirmation, digest};
use haul_job::description::JobDescription;
use haul_job::directory::JobDirectory;
use haul_job::error::JobError;
use haul_job::options::JobOptions;

use crate::args::flags;
use crate::args::values::Values;
use crate::user_dirs::state_dir;

/// An existing job.
#[derive(Debug, Clone)]
pub struct OpenedJob {
    /// Its files.
    pub directory: JobDirectory,
    /// Its sources, target and options.
    pub description: JobDescription,
    /// What this user confirmed.
    pub confirmation: Confirmation,
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
        Ok(Self { directory, description, confirmation: confirmation("shard JOB N", None) })
    }

    /// This user's job in this directory, for a step that takes `--confirm`.
    pub fn open_for(step: &'static str, path: &OsStr, values: &Values) -> anyhow::Result<Self> {
        let confirmation = confirmation(step, values.get(&flags::job::CONFIRM)?);
        Ok(Self { confirmation, ..Self::open(path)? })
    }

    /// A job by its command line, which confirms what it starts.
    pub fn typed(directory: JobDirectory, description: JobDescription) -> Self {
        let mut job = Self { directory, description, confirmation: confirmation("shard JOB N", None) };
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
        Ok(digest.map_or(Vec::new(), |digest| vec![flags::job::CONFIRM.typed(), digest]))
    }

    /// The path of the source below the base, for a copy of the whole source.
    pub fn full_source(&self) -> OsString {
        // With `./`, a name with a colon is no host.
        [OsStr::new("./"), &self.description.name].into_iter().collect()
    }
}

fn confirmation(step: &'static str, typed: Option<String>) -> Confirmation {
    Confirmation::new(step, typed, state_dir().map(|state| state.join("confirmed")))
}

/// This program's version, as a job records it.
pub fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Makes a path absolute.
pub fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
