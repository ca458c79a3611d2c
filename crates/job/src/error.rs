//! Errors of jobs.

use std::path::Path;
use std::{fmt, io};

use haul_base::usage_error::UsageError;
use haul_proto::path::escape;

/// The kind of a [`JobError`], which decides the exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobErrorKind {
    /// The command is invalid for this directory.
    Usage,
    /// The directory or the source could not be read or written.
    Io,
    /// The job was cancelled, or is held.
    Cancelled,
}

/// An error with its remedy. `Display` gives the error on one line and each remedy on a line of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobError {
    /// Its kind.
    pub kind: JobErrorKind,
    what: String,
    hint: Option<String>,
}

impl JobError {
    /// The error for an invalid command.
    pub fn usage(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { kind: JobErrorKind::Usage, what: what.into(), hint: Some(hint.into()) }
    }

    /// The error for a failure on this host.
    pub fn failed(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { kind: JobErrorKind::Io, ..Self::usage(what, hint) }
    }

    /// Another failure on this host, with its own remedy, if any.
    pub fn of_text(error: &dyn fmt::Display) -> Self {
        Self { kind: JobErrorKind::Io, what: error.to_string(), hint: None }
    }

    /// The error for a file of the job that cannot be read or written.
    pub fn io(path: &Path, error: &io::Error) -> Self {
        let what = format!("{}: {}", shown(path), haul_base::sys::describe::describe(error));
        Self { kind: JobErrorKind::Io, what, hint: None }
    }

    /// The error for a damaged file of the job.
    pub fn damaged(path: &Path, why: &str) -> Self {
        let what = format!("{}: {why}", shown(path));
        Self { kind: JobErrorKind::Io, what, hint: Some("plan the job again, in another directory".to_owned()) }
    }

    /// The error for a cancelled job.
    pub fn cancelled(job: &Path) -> Self {
        let shown = shown(job);
        Self {
            kind: JobErrorKind::Cancelled,
            what: format!("{shown}: the job was cancelled"),
            hint: Some(format!("haul job run {shown} continues it")),
        }
    }

    /// The error for a held job.
    pub fn held(job: &Path, reason: &str) -> Self {
        Self { what: format!("{}: the job is held: {reason}", shown(job)), ..Self::cancelled(job) }
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        self.hint.iter().flat_map(|hint| hint.lines()).try_for_each(|line| write!(f, "\nhint: {line}"))
    }
}

impl std::error::Error for JobError {}

impl From<UsageError> for JobError {
    fn from(error: UsageError) -> Self {
        Self { kind: JobErrorKind::Usage, ..Self::of_text(&error) }
    }
}

/// A path in a message.
pub fn shown(path: &Path) -> String {
    escape(path.as_os_str().as_encoded_bytes())
}
