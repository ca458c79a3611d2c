//! A complete file, between its last byte and its final name. Under a final name, a file is absent, old or complete,
//! never partial.
//!
//! The file gets its metadata first, so that one sync makes contents and metadata durable. Until the rename, its time
//! has no meaning. The finisher waits for fsync in between.

use crate::receiver::durability::complete_file::CompleteFile;
use crate::receiver::durability::complete_file::ContentState;
use crate::receiver::durability::complete_file::file;
use crate::receiver::file::length::check_length;
use crate::receiver::file::length::cut_to;
use haul_proto::entry::{EntryMetadata, Timestamp};
use haul_proto::journal::RangeEnd;
use haul_proto::path::Name;
use rustix::fs::{FileType, Mode, OFlags, fdatasync, fsync, openat};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use crate::fs::{FileStat, link_open_file};
use crate::io::storage::IoMethod;
use crate::io::storage::cache::WRITE_BACK_FILE_MIN;
use crate::io::storage::calls::write_at;
use crate::io::storage::file::{is_served, magic_of};
use crate::io::storage::policy::IoPlan;
use crate::receiver::commit::Committer;
use crate::receiver::durability::fsync::SyncedFileSystem;
use crate::receiver::file::named::NamedFile;
use crate::receiver::file::{Receiving, ReceivingFile};
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

impl CompleteFile {
    /// The state of the file's reception.
    pub fn file(&self) -> &ReceivingFile {
        file(&self.item)
    }

    /// The open file.
    pub fn fd(&self) -> &OwnedFd {
        match &self.bytes {
            ContentState::Nameless(file) => file,
            ContentState::Open(file) => file.fd(),
            ContentState::Gone => unreachable!("what went into a pipe is waited for by nobody"),
        }
    }

    /// Metadata of the file after its rename.
    pub fn stat_named(&self) -> io::Result<FileStat> {
        match self.file().in_place() {
            Some((base, _)) => FileStat::at_fd(base.open_to_change()?),
            None => FileStat::at_fd(self.fd()),
        }
    }

    /// Bytes possibly not yet on disk: for large files, write-back started early.
    pub fn unwritten_bytes(&self) -> u64 {
        self.size.min(WRITE_BACK_FILE_MIN)
    }

    /// Detects holes in written frames: another program has truncated the file or punched them. Some file systems turn
    /// zeros into holes, so each such frame is compared with its record.
    fn check_holes(&self, committer: &Committer) -> Result<(), FileError> {
        let file = self.file();
        let Some(journal) = file.journal().filter(|_| file.with_holes().is_none()) else { return Ok(()) };
        let frame = committer.job.request.settings.frame;
        let removed = journal.removed_bytes(self.fd(), frame, self.size)?;
        removed.map_or(Ok(()), |at| Err(FileError::Removed(at)))
    }

    /// Ends a range: its data is on the disk before its journal says so. The file gets no name.
    fn end_range(&self, journal: &OpenJournal, committer: &Committer) -> io::Result<()> {
        self.file().saved()?;
        fdatasync(self.fd())?;
        let value = committer.job.request.settings.blake3.then_some(self.digest);
        journal.end(&RangeEnd { value, inode: FileStat::at_fd(self.fd())?.identity.inode })?;
        if let Some(dir) = self.file().dir() {
            // Not every file system syncs directories.
            let _ = fsync(&*dir.fd()?);
        }
        Ok(())
    }

    /// Gives the file its final name.
    pub fn give_name(&self, committer: &Committer) -> FinalizeOutcome {
        let Some(named) = self.file().named() else { return FinalizeOutcome::Named };
        if let (Some(_), Some(journal)) = (named.range(), self.file().journal()) {
            return match self.end_range(journal, committer) {
                Ok(()) => FinalizeOutcome::Named,
                Err(error) => {
                    // The next run would accept cached pages that are not on the disk.
                    journal.void();
                    FinalizeOutcome::Failed(FileError::Sync(error.into()))
                }
            };
        }
        if let Some((base, in_place)) = self.file().in_place() {
            let patch = (in_place, self.fd());
            let (modified, to_disk) = (self.modified, self.disk.is_some());
            return committer.deltas.apply_patch((named, self.file().size()), base, patch, modified, to_disk).into();
        }
        if let Err(error) = check_length(self.fd(), self.size).and_then(|()| self.check_holes(committer)) {
            return FinalizeOutcome::Lost(error);
        }
        let (path, temp_files) = (&named.path, &committer.tree.temp_files);
        match (&self.bytes, named.replaces_tree.as_deref()) {
            (ContentState::Gone, _) => FinalizeOutcome::Named,
            (ContentState::Open(file), Some(removal)) => {
                let replace =
                    |temporary: &Name| committer.removals.replace_directory(&path.dir, temporary, &path.name, removal);
                temp_files.finish_with(path, file.fd(), replace).into()
            }
            (ContentState::Open(file), None) => {
                committer.removals.keep_old(path).and_then(|()| temp_files.finish(path, file.fd())).into()
            }
            (ContentState::Nameless(file), _) => {
                match path.dir.fd().and_then(|dir| link_open_file(file, &dir, &path.name)) {
                    Ok(()) => FinalizeOutcome::Named,
                    Err(error) if is_unsupported(&error) => {
                        committer.nameless_files.store(false, Ordering::Relaxed);
                        FinalizeOutcome::Lost(error.into())
                    }
                    Err(error) => FinalizeOutcome::Failed(FileError::Rename(error.into())),
                }
            }
        }
    }
}

impl ReceivingFile {
    /// Writes a small file whole, with its metadata. `disk` is the file system to sync before the rename.
    pub fn write_whole(
        &self,
        committer: &Committer,
        disk: Option<&SyncedFileSystem>,
        bytes: &[u8],
        modified: Timestamp,
    ) -> Result<ContentState, FileError> {
        if let Receiving::Named(named) = &self.kind
            && !named.path.replaces
            && disk.is_none_or(SyncedFileSystem::keeps_nameless_files)
            && committer.nameless_files.load(Ordering::Relaxed)
        {
            match named.write_nameless(committer, bytes, modified) {
                Err(error) if is_unsupported(&error) => committer.nameless_files.store(false, Ordering::Relaxed),
                result => return Ok(ContentState::Nameless(result?)),
            }
        }
        if let Receiving::Pipe(sink, _) = &self.kind {
            sink.write(bytes)?;
        } else {
            let file = self.open_once(&committer.tree.temp_files, &committer.tree.job_locks)?;
            match self.in_place() {
                Some((_, in_place)) => in_place.write(file.fd(), &[(0, bytes)], false)?,
                None => self.write_frame(&file, bytes, 0, &IoPlan::by(IoMethod::Buffered))?,
            }
        }
        self.complete(committer, disk, bytes.len() as u64, modified)
    }

    /// Sets length and metadata after all `size` bytes were written.
    pub fn complete(
        &self,
        committer: &Committer,
        disk: Option<&SyncedFileSystem>,
        size: u64,
        modified: Timestamp,
    ) -> Result<ContentState, FileError> {
        if let Receiving::Pipe(sink, _) = &self.kind {
            sink.finish(|| !committer.session.is_stopped())?;
            return Ok(ContentState::Gone);
        }
        // An empty file was never opened.
        let file = self.open_once(&committer.tree.temp_files, &committer.tree.job_locks)?;
        self.saving().iter().for_each(|(_, saving)| saving.end());
        if self.in_place().is_some() || self.range().is_some() {
            // The open file is a patch, whose file has its own metadata, or a file without its other ranges.
            return Ok(ContentState::Open(file));
        }
        let fd = &**file.fd();
        if self.named().is_some() {
            cut_to(fd, size)?;
        }
        if disk.is_none() {
            flush_where_close_tells(fd)?;
        }
        if let Some(named) = self.named() {
            let meta = EntryMetadata { modified, ..named.meta };
            named.note_refused_attribute(committer.metadata.set_file_metadata(fd, &meta, true, named.attributes())?);
        }
        Ok(ContentState::Open(file))
    }
}

impl NamedFile {
    /// Writes a file without a name, which leaves nothing behind.
    fn write_nameless(&self, committer: &Committer, bytes: &[u8], modified: Timestamp) -> io::Result<OwnedFd> {
        // Private until it has attributes that only its owner may set.
        let is_for_later = committer.job.request.metadata.owner_and_mode
            || self.attributes().is_some_and(|attributes| !attributes.is_empty());
        let mode = if is_for_later { 0o600 } else { u32::from(self.meta.mode & 0o777) };
        // Read-back may follow.
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = openat(&*self.path.dir.fd()?, c".", flags, Mode::from_raw_mode(mode))?;
        write_at(&file, bytes, 0)?;
        let meta = EntryMetadata { modified, ..self.meta };
        self.note_refused_attribute(committer.metadata.set_file_metadata(
            &file,
            &meta,
            is_for_later,
            self.attributes(),
        )?);
        Ok(file)
    }
}

/// Network file systems and FUSE report a full disk or a lost server only at a flush. There, a file is flushed before
/// it gets its final name, even without `--fsync`; so is a block device at the end.
fn flush_where_close_tells(file: &OwnedFd) -> io::Result<()> {
    let block_device = || FileStat::at_fd(file).is_ok_and(|stat| stat.kind == FileType::BlockDevice);
    if is_served(magic_of(file)?) || block_device() { Ok(fsync(file)?) } else { Ok(()) }
}

fn is_unsupported(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT | Errno::NOSYS | Errno::PERM | Errno::XDEV)
    )
}
