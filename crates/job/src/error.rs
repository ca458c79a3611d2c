//! Why a job cannot be planned, run or shown.

use std::fmt;
use std::io;
use std::path::Path;

use haul_proto::path::escape;

/// The kind of a [`JobError`], which decides the exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobErrorKind {
    /// The command makes no sense for this directory.
    Usage,
    /// The directory or the source could not be read or written.
    Io,
    /// Somebody stopped the job.
    Cancelled,
}

/// An error with its remedy. `Display` gives the error on one line and each remedy on a line of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobError {
    /// What it means for the exit status.
    pub kind: JobErrorKind,
    what: String,
    hint: Option<String>,
}

impl JobError {
    /// A command that makes no sense here.
    pub fn usage(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { kind: JobErrorKind::Usage, what: what.into(), hint: Some(hint.into()) }
    }

    /// What cannot be done on this host.
    pub fn failed(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { kind: JobErrorKind::Io, ..Self::usage(what, hint) }
    }

    /// A file of the job that cannot be read or written.
    pub fn io(path: &Path, error: &io::Error) -> Self {
        let what = format!("{}: {}", shown(path), haul_base::sys::describe::describe(error));
        Self { kind: JobErrorKind::Io, what, hint: None }
    }

    /// A file of the job with contents that haul did not write.
    pub fn damaged(path: &Path, why: &str) -> Self {
        let what = format!("{}: {why}", shown(path));
        Self { kind: JobErrorKind::Io, what, hint: Some("plan the job again, in another directory".to_owned()) }
    }

    /// A job that somebody stopped.
    pub fn cancelled(job: &Path) -> Self {
        let shown = shown(job);
        Self {
            kind: JobErrorKind::Cancelled,
            what: format!("{shown}: the job was cancelled"),
            hint: Some(format!("haul job run {shown} continues it")),
        }
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        self.hint.iter().flat_map(|hint| hint.lines()).try_for_each(|line| write!(f, "\nhint: {line}"))
    }
}

impl std::error::Error for JobError {}

/// A path in a message.
pub fn shown(path: &Path) -> String {
    escape(path.as_os_str().as_encoded_bytes())
}
