//! Updates in place that never leave a mixture of old and new data. Changes are collected in a patch beside the file.
//! The complete, verified patch is synced and named; only then is it applied. An interruption before that leaves the
//! old file; one afterwards leaves a patch that the next run applies first.
//!
//! Unchanged blocks are neither written nor reread: their chaining values and those of new blocks form the frame's
//! digest.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use haul_proto::delta::instructions::DeltaInstruction;
use haul_proto::delta::patch::{CHUNK_HEAD, HEADER_LEN, PatchChunk, PatchHeader};
use haul_proto::entry::{Entry, EntryContent, EntryMetadata, Timestamp};
use haul_proto::error::ProtocolError;
use haul_proto::overwrite_policy::{ExistingEntry, OverwritePolicy};
use haul_proto::session::target::Rebuilt;
use haul_proto::sync::EqualityTest;
use haul_proto::wire::frame::{DataFrame, DeltaFrame};
use haul_proto::wire::sparse::BLOCK;
use rustix::fs::{FallocateFlags, OFlags, fallocate, fdatasync, fsync, ftruncate};
use rustix::io::Errno;

use crate::fs::{FileStat, FollowLinks};
use crate::io::storage::calls::{read_at, write_at};
use crate::io::storage::file::OpenedFile;
use crate::io::storage::holes::punch;
use crate::receiver::delta::DeltaStage;
use crate::receiver::entry::{ReceiverEntry, WrittenFrame};
use crate::receiver::file::ReceivingFile;
use crate::receiver::file::base::{BaseSource, open_to_write};
use crate::receiver::file::length::check_length;
use crate::receiver::file::named::NamedFile;
use crate::receiver::file::patch::{InPlaceUpdate, patch_name};
use crate::receiver::metadata::unset::EntryPlace;
use crate::receiver::place::entry_position::EntryPosition;
use crate::receiver::place::error::FileError;
use crate::receiver::place::existing_entry::ExistingStat;
use crate::receiver::place::target_path::TargetPath;
use crate::receiver::place::temp_files::{LockedTempFile, lock_own, remove};

/// Read size for patches: the longest piece fits.
const READ_BYTES: usize = 2 << 20;
/// Smallest reserve: a file system needs some space for its own blocks.
const RESERVE_BYTES_MIN: u64 = 64 << 10;

impl DeltaStage {
    /// Receives a frame as delta instructions. `None` if it is to be sent again.
    pub(crate) fn deliver_in_place(
        &self,
        item: &Arc<ReceiverEntry>,
        base: &BaseSource,
        in_place: &InPlaceUpdate,
        steps: &[DeltaInstruction<'_>],
        frame: &DeltaFrame,
    ) -> Result<Option<WrittenFrame>, ProtocolError> {
        let ReceiverEntry::File(file) = &**item else { return Ok(None) };
        let settings = self.copy.settings();
        let index = frame.offset / u64::from(settings.frame.get());
        let is_only = settings.frame.frames(file.size()) == 1;
        let changes = in_place.changes(index, steps, frame, is_only)?;
        let rebuilt = if changes.is_some() { Rebuilt::Right } else { Rebuilt::Wrong };
        let (true, Some(changes)) = (self.conclude_delta(base, frame, rebuilt)?, changes) else {
            return Ok(None);
        };
        let data =
            DataFrame { copy: frame.copy, entry: frame.entry, offset: frame.offset, check: 0, value: frame.value };
        Ok(Some(self.write_patch(item, file, in_place, &data, frame.plain, &changes)))
    }

    /// Writes the changed pieces of a frame of `len` bytes into the patch.
    pub(crate) fn write_patch(
        &self,
        item: &Arc<ReceiverEntry>,
        file: &ReceivingFile,
        in_place: &InPlaceUpdate,
        frame: &DataFrame,
        len: usize,
        chunks: &[(u64, &[u8])],
    ) -> WrittenFrame {
        let opened = file.open_once(&self.tree.temp_files, &self.tree.copy_locks);
        let bytes = chunks.iter().map(|(_, chunk)| chunk.len() as u64).sum();
        let write = |patch: Arc<OpenedFile>| in_place.write(patch.fd(), chunks, file.with_holes().is_some());
        let result = opened.and_then(|patch| Ok(write(patch).map(|()| bytes)?));
        WrittenFrame { item: Arc::clone(item), frame: frame.clone(), len, result }
    }

    /// Names a complete patch and applies it. One thread does so for all files, so two names of a file are not updated
    /// at the same time: the second one finds it changed. With `to_disk`, syncs the patch before, and the file after.
    pub(crate) fn apply_patch(
        &self,
        file: &NamedFile,
        size: u64,
        base: &BaseSource,
        in_place: &InPlaceUpdate,
        patch: &OwnedFd,
        modified: Timestamp,
        to_disk: bool,
    ) -> Result<(), FileError> {
        let path = &file.path;
        let base_file = base.open_to_change(in_place)?;
        let end = in_place.end.load(Ordering::Relaxed);
        let header = PatchHeader { inode: base.version.identity.inode, size, modified, end, applied: 0 };
        reserve(patch, &base_file, &header)?;
        write_at(patch, &header.encode(), 0)?;
        if to_disk {
            fdatasync(patch)?;
        }
        let name = self.tree.temp_files.name_patch(path, patch, &patch_name(&path.name))?;
        let carried = || -> io::Result<()> {
            if to_disk {
                fsync(&*path.dir.fd()?)?;
            }
            apply_changes(patch, &base_file, header, to_disk)?;
            let meta = EntryMetadata { modified, ..file.meta };
            let place = EntryPlace::in_directory(&path.dir, &path.name);
            file.record_metadata(self.metadata.set_file_metadata(
                place,
                &base_file,
                &meta,
                false,
                file.attributes(),
            )?);
            check_length(&base_file, header.size)?;
            if to_disk {
                fsync(&base_file)?;
            }
            remove(&path.dir, &name)
        };
        carried().map_err(|error| FileError::Patch(error.into()))
    }

    /// Whether an interrupted update may have half changed a file that would stay. Its time is then new, so `--update`
    /// would mistake it for another program's change; and its size may be right.
    pub(crate) fn is_half_changed(
        &self,
        position: &EntryPosition,
        entry: &Entry,
        there: &ExistingStat,
    ) -> io::Result<bool> {
        let sync = &self.copy.request.sync;
        let replaces = matches!(self.copy.request.write.overwrite, OverwritePolicy::Replace | OverwritePolicy::Follow);
        let (EntryContent::File { .. }, ExistingEntry::File { modified, .. }, Some(stat)) =
            (&entry.kind, &there.existing, &there.stat)
        else {
            return Ok(false);
        };
        // A complete file has the source's time.
        let has_other_time = *modified != entry.meta.modified;
        let may_be =
            sync.modify_window_s.is_some() || has_other_time && (sync.update || sync.equal == EqualityTest::Size);
        let may_be = replaces && may_be;
        if !may_be {
            return Ok(false);
        }
        match position.dir.open_file(&patch_name(&position.name), FollowLinks::Itself) {
            Ok((patch, found)) => Ok(found.is_owned_by_this_user()
                && read_header(&patch).is_some_and(|header| header.inode == stat.identity.inode)),
            // Another user's patch is irrelevant.
            Err(_) => Ok(false),
        }
    }

    /// Applies an earlier run's patch to the existing file, as far as possible. The result is verified like any base
    /// file: it may have changed since, or its inode may have been reused. Another user's file is replaced.
    pub(crate) fn recover(&self, path: &TargetPath, meta: &EntryMetadata) -> io::Result<()> {
        let locked = match lock_own(&path.dir, &patch_name(&path.name), OFlags::RDWR, &self.tree.copy_locks) {
            Ok(locked) => locked,
            // Another user's patch is irrelevant.
            Err(FileError::NameTaken) => None,
            Err(error) => return Err(error.into()),
        };
        let Some(LockedTempFile { name, file: patch, .. }) = locked else { return Ok(()) };
        let header = read_header(&patch);
        let is_of = |stat: &FileStat| {
            let is_file = header.as_ref().is_some_and(|header| header.inode == stat.identity.inode);
            is_file && self.metadata.is_trusted(meta, stat)
        };
        let stat = FileStat::at_name(&*path.dir.fd()?, &path.name, FollowLinks::Itself)?;
        let file = if is_of(&stat) { Some(open_to_write(&path.dir, &path.name)?) } else { None };
        if let (Some(file), Some(header)) = (file, header)
            && is_of(&FileStat::at_fd(&file)?)
        {
            let to_disk = self.metadata.commit_queue.is_wanted();
            match apply_changes(&patch, &file, header, to_disk) {
                // The rest of a damaged patch can never be applied.
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
                put => put?,
            }
            if to_disk {
                fsync(&file)?;
            }
        }
        // A patch for a file that no longer exists is useless.
        remove(&path.dir, &name)
    }
}

/// The header of a patch; `None` if it is missing or damaged.
pub(crate) fn read_header(patch: &OwnedFd) -> Option<PatchHeader> {
    let mut bytes = [0; HEADER_LEN];
    let read = read_at(patch, &mut bytes, 0).ok()?;
    PatchHeader::decode(&bytes).ok().filter(|_| read == HEADER_LEN)
}

/// Reserves space after the pieces of a patch if the file has none for the first of them. A named patch can then be
/// applied even if other programs fill the file system. Fails if the file cannot grow.
fn reserve(patch: &OwnedFd, file: &OwnedFd, header: &PatchHeader) -> io::Result<()> {
    let len = header.end.min(READ_BYTES as u64) + RESERVE_BYTES_MIN;
    let grows = FileStat::at_fd(file)?.room < header.size;
    match fallocate(patch, FallocateFlags::empty(), header.end, len) {
        Err(error) if grows && is_full(error) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Applies all pieces to the file, idempotently. If the file system is full, frees applied pieces of the patch.
fn apply_changes(patch: &OwnedFd, file: &OwnedFd, mut header: PatchHeader, to_disk: bool) -> io::Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    let mut at = header.start();
    while at < header.end {
        let read = read_at(patch, &mut buffer, at)?;
        let chunks = &buffer[..read.min(usize::try_from(header.end - at).unwrap_or(read))];
        at += match apply_chunks(chunks, file, &header) {
            Err(error) if Errno::from_io_error(&error).is_some_and(is_full) => {
                header = free_applied(patch, file, header, at, to_disk)?;
                apply_chunks(chunks, file, &header)?
            }
            put => put?,
        };
    }
    Ok(ftruncate(file, header.size)?)
}

/// Applies pieces to the file. Returns their length in the patch; the last piece may be truncated.
fn apply_chunks(chunks: &[u8], file: &OwnedFd, header: &PatchHeader) -> io::Result<u64> {
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "its recorded changes are damaged");
    let mut rest = chunks;
    while let Some((head, behind)) = rest.split_first_chunk::<CHUNK_HEAD>() {
        let PatchChunk { offset, len, is_hole } = header.chunk(*head).map_err(|_| damaged())?;
        let Some((chunk, behind)) = behind.split_at_checked(if is_hole { 0 } else { len }) else { break };
        if is_hole {
            punch(file, offset, len as u64)?
        } else {
            write_at(file, chunk, offset)?
        }
        rest = behind;
    }
    if rest.len() == chunks.len() { Err(damaged()) } else { Ok((chunks.len() - rest.len()) as u64) }
}

/// Frees the space of the applied pieces before `at`, and the reserve. The header records this first.
fn free_applied(
    patch: &OwnedFd,
    file: &OwnedFd,
    header: PatchHeader,
    at: u64,
    to_disk: bool,
) -> io::Result<PatchHeader> {
    ftruncate(patch, header.end)?;
    if to_disk {
        fdatasync(file)?;
    }
    let header = PatchHeader { applied: at - HEADER_LEN as u64, ..header };
    write_at(patch, &header.encode(), 0)?;
    if to_disk {
        fdatasync(patch)?;
    }
    let first = BLOCK as u64;
    if at > first {
        // Without hole punching, only the reserve is freed.
        let _ = fallocate(patch, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, first, at - first);
    }
    Ok(header)
}

fn is_full(error: Errno) -> bool {
    matches!(error, Errno::NOSPC | Errno::DQUOT)
}

#[cfg(test)]
#[path = "in_place_update_tests.rs"]
mod tests;
