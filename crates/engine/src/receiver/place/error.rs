//! Why an entry cannot be received, or not completed.

use std::sync::Arc;
use std::{fmt, io};

use haul_base::copy::allowance::AllowanceError;
use haul_base::copy::error::CHANGED_WHILE_READ;
use haul_base::size_text::size;
use haul_base::sys::describe::describe;
use haul_proto::overwrite_policy::OverwriteRefusal;
use rustix::io::Errno;

use crate::io::checksum::DigestMismatch;
use crate::io::program::ProgramError;

/// Advice where a file differs from its written data.
const OTHER_WRITER: &str = "another program writes to it: end that program, then rerun the command";

/// Another run that holds a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OtherRun {
    /// Its process, if the kernel reports it.
    pub process: Option<u32>,
}

impl fmt::Display for OtherRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.process {
            Some(process) => write!(f, "another haul (process {process})"),
            None => write!(f, "another haul"),
        }
    }
}

/// Why an entry cannot be received, with a remedy on the next line. The caller reports its path.
#[derive(Debug, Clone, thiserror::Error)]
pub enum FileError {
    /// A system call failed.
    #[error("{}", describe(.0))]
    Io(#[source] Arc<io::Error>),
    /// The sync of its data failed.
    #[error("not written to the disk: {}", describe(.0))]
    Sync(#[source] Arc<io::Error>),
    /// The sync of its directory failed.
    #[error("its name was not written to the disk: {}", describe(.0))]
    NameSync(#[source] Arc<io::Error>),
    #[error("cannot be read again: {}", describe(.0))]
    Reread(#[source] Arc<io::Error>),
    #[error("cannot be read back: {}", describe(.0))]
    ReadBack(#[source] Arc<io::Error>),
    #[error("cannot back up the replaced entry: {}", describe(.0))]
    Backup(#[source] Arc<io::Error>),
    /// The rename to its final name failed.
    #[error("{}", describe_rename(.0))]
    Rename(#[source] Arc<io::Error>),
    #[error("{}\nrerun the command to resume", describe(.0))]
    Patch(#[source] Arc<io::Error>),
    #[error("the copy was stopped")]
    Stopped,
    #[error("the source offered it again")]
    OfferedAgain,
    #[error("{CHANGED_WHILE_READ}")]
    ChangedWhileRead,
    #[error("is a directory")]
    IsDirectory,
    #[error("{}", .0.text())]
    Refused(OverwriteRefusal),
    #[error("{0}")]
    Quota(#[source] Arc<AllowanceError>),
    #[error(
        "no space: the file has {}, {} more than is free\nfree space, or copy to another file system",
        size(*.needed), size(needed.saturating_sub(*.free))
    )]
    NoSpace { needed: u64, free: u64 },
    #[error("{0} is writing this file now\nwait for it, or end it")]
    Held(OtherRun),
    #[error("{0} is copying into it\nwait for it, or end it")]
    DirectoryHeld(OtherRun),
    #[error("{0} is copying into another directory of this copy\nwait for it, or end it")]
    OtherDirectoryHeld(OtherRun),
    #[error("its temporary name is taken by an entry that is not haul's\ndelete foreign `.haul-*.part` there")]
    NameTaken,
    #[error("its temporary file was deleted during the copy")]
    Deleted,
    #[error(
        "this file system takes an existing name, spelled differently, for the same\nrename one of them, or copy to another file system"
    )]
    OtherSpelling,
    #[error(
        "this symbolic link may lead out of the served directory\ncopy its target with --symlinks follow, or skip it with --exclude"
    )]
    LeadsOut,
    #[error("unrequested device, FIFO or socket")]
    UnrequestedNode,
    #[error("only root can create devices\nuse root, or omit --devices")]
    NotRoot,
    #[error(
        "the existing file belongs to another user, who may have it open, so its owner is not changed\nuse -f to copy it again"
    )]
    OfOtherUser,
    #[error(
        "the existing file's contents were not compared, so it gets no set-id bits or capabilities\nuse -f to copy it again"
    )]
    UncomparedRights,
    #[error("has {found} bytes instead of {size}\n{OTHER_WRITER}")]
    Length { found: u64, size: u64 },
    #[error("bytes at {0} were removed after they were written\n{OTHER_WRITER}")]
    Removed(u64),
    #[error("the base file changed at the target during the copy\nrerun the command when nothing writes to it")]
    BaseChanged,
    #[error("the received data differs from what the source read\nrerun the command")]
    Mismatch,
    #[error("{0}\nit matches the source and was deleted here: check the file at the source, or the expected digest")]
    Digest(#[source] DigestMismatch),
    #[error("{0}\nthe existing file is kept, since -f replaces no file of the source's size and time: delete it first")]
    ExistingDigest(#[source] DigestMismatch),
    #[error("{0}")]
    Damaged(#[from] DiskDamage),
    #[error("{0}")]
    Program(#[from] ProgramError),
    #[error("the existing file changes at the target\nrerun the command when nothing writes to it")]
    ChangesAtTarget,
    #[error("has no such range\nplan the job again")]
    NoRange,
    #[error("none of its {0} ranges is at the target\nrun their shards")]
    NoRanges(u64),
    #[error(
        "range {number} of {ranges} is not complete at the target, or of another version\nrun its shard again: haul job shard JOB N"
    )]
    IncompleteRange { number: u64, ranges: u64 },
    #[error("bytes at {at} were removed after they were written\nrun the shard of range {number} of {ranges} again")]
    RemovedRange { number: u64, ranges: u64, at: u64 },
    #[error(
        "{}: this file system may have no symbolic links\ncopy what they point to (--symlinks follow), or skip them (--symlinks ignore)",
        describe_only(.0)
    )]
    NoSymlinks(#[source] Arc<io::Error>),
    #[error("{}: this file system may have no hard links\nrerun the command without --hard-links", describe_only(.0))]
    NoHardLinks(#[source] Arc<io::Error>),
    #[error("not linked: the file with its contents was not copied")]
    LinkedFileAbsent,
    #[error(
        "not linked: the place of its file is taken by another entry, which is kept\nrerun the command without --hard-links"
    )]
    LinkedNameKept,
    #[error(
        "not linked: its file was replaced during the copy\nrerun the command when nobody else writes to the target"
    )]
    LinkedFileReplaced,
    #[error(
        "not linked: its file belongs to another user, who could change it\nrerun the command without --hard-links"
    )]
    LinkedFileOfOther,
    #[error(
        "not linked: this host forbids hard links between directories\nrerun the command without --hard-links, or use Linux 5.19 or later"
    )]
    LinkForbidden,
    #[error(
        "too many entries: extraneous ones were not deleted\ndelete them by hand, or copy this directory separately"
    )]
    ExtraneousUndeleted,
    #[error("the source is inside the target, so it is kept\nmove it, or skip it with --exclude")]
    SourceInside,
    #[error("cannot replace a directory: not all of its entries can be deleted\nmove it")]
    UndeletableTree,
    #[error(
        "cannot replace a directory: the filters or kinds of this copy protect entries in it\nmove it, or add --delete-excluded"
    )]
    ProtectedTree,
    #[error("cannot replace a directory of {entries} entries: --max-delete permits {max}\nraise --max-delete")]
    LargeTree { entries: u64, max: u64 },
    #[error("too many entries: extraneous ones were not searched for\ncompare this directory separately")]
    ExtraneousUnknown,
}

/// A difference between the data on the disk and the written data.
#[derive(Debug, Clone, thiserror::Error)]
#[error(
    "the disk returned other data than was written: {len} bytes at {start}{}{}\nthe disk or its connection is failing: see `dmesg` and `smartctl -a`, and use another disk",
    describe_others(*.others),
    .cause.as_deref().map(describe_cause).unwrap_or_default()
)]
pub struct DiskDamage {
    /// Offset of the first difference.
    pub start: u64,
    /// Its length.
    pub len: u64,
    /// Number of further differences.
    pub others: usize,
    /// The last failed read.
    pub cause: Option<Arc<io::Error>>,
}

impl FileError {
    /// The error of creating an entry under its final name: a file system that cannot hold the name says so in many
    /// ways.
    pub fn of_name(error: io::Error) -> Self {
        match Errno::from_io_error(&error) {
            Some(Errno::INVAL | Errno::NOENT | Errno::ILSEQ | Errno::NAMETOOLONG) => Self::Rename(error.into()),
            _ => error.into(),
        }
    }

    /// The error of creating a symbolic link.
    pub fn of_symlink(error: io::Error) -> Self {
        if lacks(&error) { Self::NoSymlinks(error.into()) } else { Self::of_name(error) }
    }

    /// The error of creating a hard link.
    pub fn of_hard_link(error: Self) -> Self {
        match error {
            Self::Io(error) if lacks(&error) => Self::NoHardLinks(error),
            error => error,
        }
    }

    /// Whether a file system or quota is full.
    pub fn is_no_space(&self) -> bool {
        match self {
            Self::Io(error) | Self::Rename(error) => {
                matches!(Errno::from_io_error(error), Some(Errno::NOSPC | Errno::DQUOT))
            }
            _ => false,
        }
    }

    /// What happened, without the remedy.
    pub fn summary(&self) -> String {
        self.to_string().lines().next().unwrap_or_default().to_owned()
    }
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        Self::Io(error.into())
    }
}

impl From<Errno> for FileError {
    fn from(error: Errno) -> Self {
        io::Error::from(error).into()
    }
}

impl From<FileError> for io::Error {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Io(error) => Arc::try_unwrap(error).unwrap_or_else(|error| match error.raw_os_error() {
                Some(number) => Self::from_raw_os_error(number),
                None => Self::new(error.kind(), error),
            }),
            error => Self::other(error),
        }
    }
}

fn describe_rename(error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::EXIST) => "another entry has got this name during the copy\nanother copy may be running, or the file system takes two names of the source for one".to_owned(),
        Some(Errno::INVAL | Errno::ILSEQ) => "the file system there does not permit this name\nrename the file, or copy to another file system".to_owned(),
        Some(Errno::NOENT) => "the file system there may not permit this name, or its directory was deleted\nrename the file, or copy to another file system".to_owned(),
        _ => describe(error),
    }
}

/// Whether a file system answers so to what it does not have.
fn lacks(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::PERM | Errno::NOSYS | Errno::OPNOTSUPP))
}

/// The error without its remedy.
fn describe_only(error: &io::Error) -> String {
    describe(error).lines().next().unwrap_or_default().to_owned()
}

fn describe_others(others: usize) -> String {
    match others {
        0 => String::new(),
        1 => " and in 1 more place".to_owned(),
        others => format!(" and in {others} more places"),
    }
}

fn describe_cause(error: &io::Error) -> String {
    format!(" ({})", describe_only(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_system_cannot_hold_is_named_by_that_reason() {
        for errno in [Errno::PERM, Errno::NOSYS, Errno::OPNOTSUPP] {
            let symlink = FileError::of_symlink(errno.into()).to_string();
            assert!(symlink.contains("no symbolic links\n") && symlink.contains("--symlinks follow"), "{symlink}");
            let hard_link = FileError::of_hard_link(errno.into()).to_string();
            assert!(hard_link.contains("no hard links\n") && !hard_link.contains("only the owner"), "{hard_link}");
        }
        for errno in [Errno::INVAL, Errno::NOENT, Errno::ILSEQ] {
            for error in [FileError::of_symlink(errno.into()), FileError::of_name(errno.into())] {
                let text = error.to_string();
                assert!(text.contains("permit this name") && text.contains("\nrename the file"), "{text}");
            }
        }
        assert!(FileError::of_name(Errno::NAMETOOLONG.into()).to_string().contains("shorter names"));
        assert!(FileError::of_symlink(Errno::NOSPC.into()).is_no_space());
    }
}
