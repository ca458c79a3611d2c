//! Gives complete files their final names. Under a final name, a file is absent, old or complete, never partial.

use std::io;
use std::sync::atomic::Ordering;

use haul_proto::integrity::FrameLen;
use haul_proto::journal::RangeEnd;
use haul_proto::path::Name;
use rustix::fs::{fdatasync, fsync};

use crate::fs::{FileStat, link_open_file};
use crate::receiver::commit::{Committer, is_unsupported};
use crate::receiver::durability::complete_file::{CompleteFile, ContentState};
use crate::receiver::file::length::check_length;
use crate::receiver::place::error::FileError;
use crate::receiver::place::journal::OpenJournal;

/// The outcome of a complete file.
pub enum FinalizeOutcome {
    /// It has its final name.
    Named,
    /// Its verified data was lost; it may be sent again.
    Lost(FileError),
    /// It failed for good.
    Failed(FileError),
}

impl From<Result<(), FileError>> for FinalizeOutcome {
    fn from(named: Result<(), FileError>) -> Self {
        named.map_or_else(Self::Failed, |()| Self::Named)
    }
}

impl Committer {
    /// Gives a file its final name.
    pub(super) fn give_name(&self, whole: &CompleteFile) -> FinalizeOutcome {
        let file = whole.file();
        let Some(named) = file.named() else { return FinalizeOutcome::Named };
        if let (Some(_), Some(journal)) = (named.range(), file.journal()) {
            return match self.end_range(whole, journal) {
                Ok(()) => FinalizeOutcome::Named,
                Err(error) => {
                    // The next run would accept cached pages that are not on the disk.
                    journal.void();
                    FinalizeOutcome::Failed(FileError::Sync(error.into()))
                }
            };
        }
        if let Some((base, in_place)) = file.in_place() {
            let (patch, modified, to_disk) = (whole.fd(), whole.modified, whole.disk.is_some());
            let deltas = &self.parts.deltas;
            return deltas.apply_patch(named, file.size(), base, in_place, patch, modified, to_disk).into();
        }
        let frame = self.parts.copy.request.settings.frame;
        let checked = match whole.bytes {
            // Its one write was complete, and no other user can open it.
            ContentState::Nameless(_) => Ok(()),
            ContentState::Open(_) | ContentState::Gone => {
                check_length(whole.fd(), whole.size).and_then(|()| check_holes(whole, frame))
            }
        };
        if let Err(error) = checked {
            return FinalizeOutcome::Lost(error);
        }
        let (path, temp_files) = (&named.path, &self.parts.tree.temp_files);
        match (&whole.bytes, named.replaces_tree.as_deref()) {
            (ContentState::Gone, _) => FinalizeOutcome::Named,
            (ContentState::Open(opened), Some(removal)) => {
                let replace =
                    |temporary: &Name| self.parts.removals.replace_directory(&path.dir, temporary, &path.name, removal);
                temp_files.finish_with(path, opened.fd(), replace).into()
            }
            (ContentState::Open(opened), None) => {
                self.parts.removals.back_up_existing(path).and_then(|()| temp_files.finish(path, opened.fd())).into()
            }
            (ContentState::Nameless(nameless), _) => {
                match path.dir.fd().and_then(|dir| link_open_file(nameless, &dir, &path.name)) {
                    Ok(()) => FinalizeOutcome::Named,
                    Err(error) if is_unsupported(&error) => {
                        self.nameless_files.store(false, Ordering::Relaxed);
                        FinalizeOutcome::Lost(error.into())
                    }
                    Err(error) => FinalizeOutcome::Failed(FileError::Rename(error.into())),
                }
            }
        }
    }

    /// Ends a range: its data is on the disk before its journal says so. The file gets no name.
    fn end_range(&self, whole: &CompleteFile, journal: &OpenJournal) -> io::Result<()> {
        whole.file().saved()?;
        fdatasync(whole.fd())?;
        let value = self.parts.copy.request.settings.blake3.then_some(whole.digest);
        journal.end(&RangeEnd { value, inode: FileStat::at_fd(whole.fd())?.identity.inode })?;
        if let Some(dir) = whole.file().dir() {
            // Not every file system syncs directories.
            let _ = fsync(&*dir.fd()?);
        }
        Ok(())
    }
}

/// Detects holes in written frames: another program has truncated the file or punched them. Some file systems turn
/// zeros into holes, so each such frame is compared with its record.
fn check_holes(whole: &CompleteFile, frame: FrameLen) -> Result<(), FileError> {
    let file = whole.file();
    let Some(journal) = file.journal().filter(|_| file.with_holes().is_none()) else { return Ok(()) };
    let removed = journal.removed_bytes(whole.fd(), frame, whole.size)?;
    removed.map_or(Ok(()), |at| Err(FileError::Removed(at)))
}
