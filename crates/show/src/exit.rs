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

    /// The status of several copies: the first of these that one of them has. Whatever cannot be mended by the same
    /// command comes first: 2, 1, 3, 4, 5, 0.
    pub fn of_several(copies: &[Self]) -> Self {
        let worst = [Self::Usage, Self::Failed, Self::Unreachable, Self::Interrupted, Self::Conflicts, Self::Vanished];
        worst.into_iter().find(|exit| copies.contains(exit)).unwrap_or(Self::Done)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_copies_have_the_status_of_all_or_the_worst() {
        let of = |numbers: &[u8]| {
            let exits: Vec<_> = numbers.iter().filter_map(|number| Exit::of_number(*number)).collect();
            Exit::of_several(&exits).number()
        };
        assert_eq!([of(&[0, 0]), of(&[3, 3]), of(&[5, 5, 5])], [0, 3, 5]);
        assert_eq!([of(&[0, 5]), of(&[5, 4]), of(&[3, 4]), of(&[1, 3, 0]), of(&[2, 1])], [5, 4, 3, 1, 2]);
    }
}
