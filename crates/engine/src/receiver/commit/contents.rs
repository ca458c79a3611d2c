//! Completes the contents of files: all bytes written, length and metadata set. The final name comes later.
//!
//! Metadata comes before fsync, so that one sync makes contents and metadata durable. Until the rename, the file's time
//! has no meaning.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use haul_proto::entry::{EntryMetadata, Timestamp};
use haul_proto::ids::EntryId;
use haul_proto::session::step::FileEnd;
use rustix::fs::{FileType, Mode, OFlags, fsync, openat};

use crate::fs::file_system::{is_served, magic_of};
use crate::fs::{FileStat, mode_without_preserve};
use crate::io::storage::IoMethod;
use crate::io::storage::calls::write_at;
use crate::io::storage::policy::IoPlan;
use crate::metrics::counter::add;
use crate::receiver::commit::{Committer, is_unsupported};
use crate::receiver::durability::complete_file::{CompleteFile, ContentState};
use crate::receiver::durability::fsync::SyncedFileSystem;
use crate::receiver::entry::ReceiverEntry;
use crate::receiver::file::length::cut_to;
use crate::receiver::file::named::NamedFile;
use crate::receiver::file::{Receiving, ReceivingFile};
use crate::receiver::metadata::unset::EntryPlace;
use crate::receiver::place::error::FileError;
use crate::receiver::receive::deliver::NeededFile;

impl Committer {
    /// Completes a file with all its frames written.
    pub(crate) fn complete(
        &self,
        entry: EntryId,
        item: &Arc<ReceiverEntry>,
        end: Box<FileEnd>,
    ) -> Result<CompleteFile, FileError> {
        let ReceiverEntry::File(file) = &**item else { return Err(FileError::IsDirectory) };
        let disk = self.parts.commit_queue.disk_of(file.dir())?;
        self.parts.digests.check(file, &end.digest)?;
        let bytes = self.complete_contents(file, disk.as_deref(), end.size, end.modified)?;
        let (item, size, digest, modified) = (Arc::clone(item), end.size, end.digest, end.modified);
        Ok(CompleteFile { entry, item, size, digest, bytes, disk, modified, end: Some(end) })
    }

    /// Writes and completes a file from a pack.
    pub(crate) fn write_packed(&self, needed: &NeededFile<'_>) -> Result<CompleteFile, FileError> {
        let NeededFile { packed, item, bytes } = needed;
        let ReceiverEntry::File(file) = &**item else { return Err(FileError::IsDirectory) };
        self.parts.digests.check_small(file, bytes, &packed.digest)?;
        if let Some(named) = file.named().filter(|named| !named.path.replaces) {
            self.parts.copy.check_full_disk(&named.path.dir, bytes.len() as u64)?;
        }
        let disk = self.parts.commit_queue.disk_of(file.dir())?;
        let written = self.write_complete(file, disk.as_deref(), bytes, packed.modified)?;
        let size = bytes.len() as u64;
        add(&self.parts.copy.reporter.tally.bytes_written, size);
        add(&self.parts.copy.reporter.tally.bytes_stored, size);
        if file.base().is_some() {
            self.parts.copy.reporter.delta.carried(bytes.len(), 0);
        }
        let (entry, item, digest, modified) = (packed.entry, Arc::clone(item), packed.digest, packed.modified);
        Ok(CompleteFile { entry, item, size, digest, bytes: written, disk, modified, end: None })
    }

    /// Writes a small file whole, with its metadata. `disk` is the file system to sync before the rename.
    fn write_complete(
        &self,
        file: &ReceivingFile,
        disk: Option<&SyncedFileSystem>,
        bytes: &[u8],
        modified: Timestamp,
    ) -> Result<ContentState, FileError> {
        if let Receiving::Named(named) = &file.kind
            && !named.path.replaces
            && disk.is_none_or(SyncedFileSystem::keeps_nameless_files)
            && self.nameless_files.load(Ordering::Relaxed)
        {
            match self.write_nameless(named, bytes, modified) {
                Err(error) if is_unsupported(&error) => self.nameless_files.store(false, Ordering::Relaxed),
                result => return Ok(ContentState::Nameless(result?)),
            }
        }
        if let Receiving::Pipe(sink, _) = &file.kind {
            sink.write(bytes)?;
        } else {
            let opened = file.open_once(&self.parts.tree.temp_files, &self.parts.tree.copy_locks)?;
            match file.in_place() {
                Some((_, in_place)) => in_place.write(opened.fd(), &[(0, bytes)], false)?,
                None => file.write_frame(&opened, bytes, 0, &IoPlan::by(IoMethod::Buffered))?,
            }
        }
        self.complete_contents(file, disk, bytes.len() as u64, modified)
    }

    /// Writes a file without a name, which leaves nothing behind.
    fn write_nameless(&self, named: &NamedFile, bytes: &[u8], modified: Timestamp) -> io::Result<OwnedFd> {
        // Private until it has attributes that only its owner may set.
        let is_for_later = self.parts.copy.request.metadata.rights.any()
            || named.attributes().is_some_and(|attributes| !attributes.is_empty());
        let mode =
            if is_for_later { 0o600 } else { mode_without_preserve(named.meta.mode, self.parts.copy.umask).into() };
        // Read-back may follow.
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = openat(&*named.path.dir.fd()?, c".", flags, Mode::from_raw_mode(mode))?;
        write_at(&file, bytes, 0)?;
        let meta = EntryMetadata { modified, ..named.meta };
        let place = EntryPlace::of_file(&named.path);
        named.record_metadata(self.parts.metadata.set_file_metadata(
            place,
            &file,
            &meta,
            is_for_later,
            named.attributes(),
        )?);
        Ok(file)
    }

    /// Sets length and metadata after all `size` bytes were written.
    fn complete_contents(
        &self,
        file: &ReceivingFile,
        disk: Option<&SyncedFileSystem>,
        size: u64,
        modified: Timestamp,
    ) -> Result<ContentState, FileError> {
        if let Receiving::Pipe(sink, _) = &file.kind {
            sink.finish(|| !self.parts.session.is_stopped())?;
            return Ok(ContentState::Gone);
        }
        // An empty file was never opened.
        let opened = file.open_once(&self.parts.tree.temp_files, &self.parts.tree.copy_locks)?;
        file.saving().iter().for_each(|(_, saving)| saving.end());
        if file.in_place().is_some() || file.range().is_some() {
            // The open file is a patch, whose file has its own metadata, or a file without its other ranges.
            return Ok(ContentState::Open(opened));
        }
        let fd = &**opened.fd();
        if file.named().is_some() {
            cut_to(fd, size)?;
        }
        if disk.is_none() {
            flush_if_close_reports_errors(fd)?;
        }
        if let Some(named) = file.named() {
            let meta = EntryMetadata { modified, ..named.meta };
            let place = EntryPlace::of_file(&named.path);
            named.record_metadata(self.parts.metadata.set_file_metadata(place, fd, &meta, true, named.attributes())?);
        }
        Ok(ContentState::Open(opened))
    }
}

/// Network file systems and FUSE report a full disk or a lost server only at a flush. There, a file is flushed before
/// it gets its final name, even without `--fsync`; so is a block device at the end.
fn flush_if_close_reports_errors(file: &OwnedFd) -> io::Result<()> {
    let block_device = || FileStat::at_fd(file).is_ok_and(|stat| stat.kind == FileType::BlockDevice);
    if is_served(magic_of(file)) || block_device() { Ok(fsync(file)?) } else { Ok(()) }
}
