//! Exit statuses, which scripts rely on.

use std::process::ExitCode;

use haul_base::copy::error::{Error, Outcome};

/// An exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Everything is complete and verified.
    Done = 0,
    /// Some files failed or differ, each reported by name; or the copy failed.
    Failed = 1,
    /// The command line, or its request, is invalid.
    Usage = 2,
    /// The other host could not be reached.
    Unreachable = 3,
    /// Interrupted or broken; the same command resumes.
    Interrupted = 4,
    /// Entries vanished at the source; everything else is complete and verified.
    Vanished = 5,
    /// Both replicas changed something: conflicts are left, and everything else is complete.
    Conflicts = 6,
}

impl Exit {
    /// The status for a copy's result.
    pub fn of(outcome: &Outcome) -> Self {
        match outcome {
            Ok(summary) if summary.files.failed == 0 && !summary.differs() => Self::of_vanished(summary.files.vanished),
            Ok(_) | Err(Error::Failed(_)) => Self::Failed,
            Err(Error::Usage(_)) => Self::Usage,
            Err(Error::Connect(_)) => Self::Unreachable,
            Err(Error::Interrupted | Error::Broken(_)) => Self::Interrupted,
        }
    }

    /// The status of complete work, apart from this many vanished entries.
    pub fn of_vanished(entries: u64) -> Self {
        if entries == 0 { Self::Done } else { Self::Vanished }
    }

    /// Whether nothing failed.
    pub fn is_complete(self) -> bool {
        matches!(self, Self::Done | Self::Vanished)
    }

    /// The status of this number.
    pub fn of_number(number: u8) -> Option<Self> {
        let all = [
            Self::Done,
            Self::Failed,
            Self::Usage,
            Self::Unreachable,
            Self::Interrupted,
            Self::Vanished,
            Self::Conflicts,
        ];
        all.into_iter().find(|exit| exit.number() == number)
    }

    /// The number.
    pub const fn number(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.number())
    }
}
