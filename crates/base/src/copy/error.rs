//! Reasons for the failure of a whole copy. A failed file is an event, not an error.

use crate::copy::summary::Summary;

/// Last line of errors after which a rerun resumes.
pub const GO_ON: &str = "rerun the command to resume";

/// The same where nothing was kept.
pub const START_OVER: &str = "rerun the command";

/// The error of a copy that ended at its first failed file ([`crate::copy::spec::StopOptions::at_failure`]).
pub const FIRST_FAILURE: &str = "the first failure ended the copy";

/// Error of a file that changed after its ranges were planned.
pub const CHANGED_SINCE_PLAN: &str = "has changed since the job was planned\nplan a new job with haul job plan";
/// The error of a file that changed while it was read.
pub const CHANGED_WHILE_READ: &str =
    "changed while being read\ncopy it when nothing writes to it, or follow it with --realtime";

/// The error that ended a copy. `Display` has lines for the event, its place, and remedies.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operands or options contradict each other or existing files. Exit status 2.
    #[error("{0}")]
    Usage(String),
    /// The other end could not be reached, started or understood. Exit status 3.
    #[error("{0}")]
    Connect(String),
    /// The caller stopped the copy; a rerun resumes. Exit status 4.
    #[error("interrupted")]
    Interrupted,
    /// The connection broke during the copy; a rerun resumes. Exit status 4.
    #[error("{0}")]
    Broken(String),
    /// The copy failed as a whole. Exit status 1.
    #[error("{0}")]
    Failed(String),
}

impl Error {
    /// The error of a copy of which nothing was kept: a rerun starts from the beginning.
    pub fn of_nothing_kept(self) -> Self {
        match self {
            Self::Broken(text) => Self::Broken(match text.strip_suffix(GO_ON) {
                Some(before) => format!("{before}{START_OVER}"),
                None => text,
            }),
            error => error,
        }
    }
}

/// Result of a copy: a summary, perhaps with failed files, or the reason for none.
pub type Outcome = Result<Summary, Error>;
