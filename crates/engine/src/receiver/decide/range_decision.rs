//! Files that several runs copy, a range each: a range to receive, and a file that is complete.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use haul_proto::entry::{Entry, EntryKind, EntryMetadata};
use haul_proto::file_range::{FileRange, RangeLen};
use haul_proto::integrity::{Digest, FrameTree};
use haul_proto::journal::JournalHeader;
use haul_proto::overwrite_policy::OverwriteDecision;
use haul_proto::session::step::EntryAnswer;
use haul_proto::wire::storage::Fsync;
use rustix::fs::fsync;
use thiserror::Error;

use crate::fs::FileStat;
use crate::metrics::counter::add;
use crate::receiver::ReceiverEntry;
use crate::receiver::decide::EntryDecider;
use crate::receiver::decide::transfer_decision::target_path_at;
use crate::receiver::file::ReceivingFile;
use crate::receiver::file::length::{OTHER_WRITER, cut_to};
use crate::receiver::place::entry_position::{EntryDecision, EntryPosition};
use crate::receiver::place::existing_entry::{ExistingStat, attributes};
use crate::receiver::place::range_files::{
    FoundRange, complete_range, has_partial, lock_partial, make_private, open_range, partial_name, reclaim_partial,
    remove_journals, remove_left,
};
use crate::receiver::place::target_path::TargetPath;
use crate::receiver::place::temp_files::{TempFileError, rename, why_unnamed};
use crate::sys::describe::describe;

/// Why a file cannot be completed from its ranges, or a range not be received.
#[derive(Debug, Error)]
enum RangeError {
    #[error("has no such range\nplan the job again")]
    NoRange,
    #[error("none of its {0} ranges is at the target\nrun their shards")]
    NothingThere(u64),
    #[error(
        "range {number} of {ranges} is not complete at the target, or of another version\nrun its shard again: haul job shard JOB N"
    )]
    Incomplete { number: u64, ranges: u64 },
    #[error("has {found} bytes instead of {size}\n{OTHER_WRITER}")]
    OtherLength { found: u64, size: u64 },
    #[error("bytes at {at} were removed after they were written\nrun the shard of range {number} of {ranges} again")]
    Removed { number: u64, ranges: u64, at: u64 },
    #[error("{0}")]
    Backup(String),
    #[error("{0}")]
    Unnamed(String),
    #[error("{}", describe(.0))]
    Io(#[from] io::Error),
}

/// A complete file that has its final name.
struct CompletedFile {
    digest: Option<Digest>,
    /// Names an attribute that could not be set.
    refused: Option<String>,
}

impl EntryDecider {
    /// Answers a file of `size` bytes of which a range is received.
    pub(crate) fn receive_range(
        &self,
        position: &EntryPosition,
        entry: &Entry,
        (size, range): (u64, FileRange),
        decided: &EntryDecision,
        there: &ExistingStat,
    ) -> io::Result<EntryAnswer<ReceiverEntry>> {
        let report_existing = || {
            let path = || position.dir.path_of(position.name.as_bytes());
            self.job.reporter.file_there(path, range.bytes_in(size), None);
            Ok(EntryAnswer::Settled)
        };
        let path = target_path_at(position, decided);
        if decided.decision == OverwriteDecision::Keep {
            if has_partial(&path, range.len()) {
                remove_left(&path, range.len(), size);
            }
            return report_existing();
        }
        let Some(header) = self.header(&path, entry, size, Some(range)).filter(|_| range.is_in(size)) else {
            return Ok(self.job.refuse(position, RangeError::NoRange.to_string()));
        };
        let bytes = range.bytes_in(size);
        if let Err(text) = self.tree.quota.reserve(bytes) {
            return Ok(self.job.refuse(position, text));
        }
        let open = || open_range(&path, (range, &header), &self.tree.job_locks);
        let found = match self.reclaimed(&path, range.len(), &entry.meta, open) {
            Ok(found) => found,
            Err(error) => return Ok(self.job.refuse(position, error.into_text())),
        };
        // Another run has completed the file while this one waited for its lock.
        if !is_unchanged(position, there)? {
            drop(found);
            return self.try_answer(&EntryPosition { fresh: false, ..position.clone() }, entry);
        }
        let item = |part| {
            let file = ReceivingFile::of_range(path.clone(), entry.meta, header, part).with(entry.more.clone());
            Arc::new(ReceiverEntry::File(file))
        };
        Ok(match found {
            FoundRange::Complete => return report_existing(),
            FoundRange::Partial(part) => EntryAnswer::Partial(item(part)),
            FoundRange::New(part) => {
                let data_bytes = entry.more.as_ref().and_then(|more| more.data_bytes);
                if let Some(text) = self.no_space(&path, bytes, data_bytes, false)? {
                    return Ok(self.job.refuse(position, text));
                }
                EntryAnswer::Needed(item(part))
            }
        })
    }

    /// Answers a file of `size` bytes whose ranges are said to be complete: it gets its final name at once.
    pub(crate) fn finish_ranges(
        &self,
        position: &EntryPosition,
        entry: &Entry,
        (size, len): (u64, RangeLen),
        decided: &EntryDecision,
    ) -> io::Result<EntryAnswer<ReceiverEntry>> {
        let path = target_path_at(position, decided);
        let header = self.header(&path, entry, size, None).filter(|_| len.divides(size));
        let Some(header) = header else {
            return Ok(self.job.refuse(position, RangeError::NoRange.to_string()));
        };
        let lock = || lock_partial(&path, len, &self.tree.job_locks);
        let locked = match self.reclaimed(&path, len, &entry.meta, lock) {
            Ok(locked) => locked.ok_or(RangeError::NothingThere(len.ranges_of(size))),
            Err(TempFileError::Failed(error)) => Err(error.into()),
            Err(error) => return Ok(self.job.refuse(position, error.into_text())),
        };
        match locked.and_then(|file| self.complete_file(&path, entry, (&file, &header, len), decided)) {
            Ok(CompletedFile { digest, refused }) => {
                let relative = || path.dir.path_of(path.name.as_bytes());
                if let Some(change) = decided.change {
                    self.job.report_item(relative, EntryKind::File, change);
                }
                add(&self.job.reporter.tally.bytes_skipped, size);
                self.job.reporter.file_done(relative, size, None, digest);
                if let Some(text) = refused {
                    self.job.fail_entry(self.job.destination.path(&relative()), text);
                }
                Ok(EntryAnswer::Settled)
            }
            Err(error) => Ok(self.job.refuse(position, error.to_string())),
        }
    }

    /// Opens a partial file; once more if a killed run had given it to its final owner.
    fn reclaimed<T>(
        &self,
        path: &TargetPath,
        len: RangeLen,
        meta: &EntryMetadata,
        open: impl Fn() -> Result<T, TempFileError>,
    ) -> Result<T, TempFileError> {
        match open() {
            Err(TempFileError::Taken) if reclaim_partial(path, len, meta, &self.tree.job_locks)? => open(),
            opened => opened,
        }
    }

    /// Checks all ranges, and gives the file its metadata and its final name.
    fn complete_file(
        &self,
        path: &TargetPath,
        entry: &Entry,
        (file, header, len): (&OwnedFd, &JournalHeader, RangeLen),
        decided: &EntryDecision,
    ) -> Result<CompletedFile, RangeError> {
        let digest = check_ranges(path, (file, header, len))?;
        // It changes the file's time.
        cut_to(file, header.size)?;
        // Runs could not open a partial file of another owner.
        let refused = self.name_file(path, entry, (file, len), decided).inspect_err(|_| make_private(file))?;
        if self.job.request.fsync == Fsync::Full {
            fsync(&*path.dir.fd()?).map_err(io::Error::from)?;
        }
        remove_journals(path, len, header.size);
        Ok(CompletedFile { digest, refused })
    }

    /// Gives a file its metadata and its final name. Names an attribute that could not be set.
    fn name_file(
        &self,
        path: &TargetPath,
        entry: &Entry,
        (file, len): (&OwnedFd, RangeLen),
        decided: &EntryDecision,
    ) -> Result<Option<String>, RangeError> {
        let refused = self.metadata.put_on_file(file, &entry.meta, true, attributes(entry))?;
        if self.job.request.fsync != Fsync::None {
            fsync(file).map_err(io::Error::from)?;
        }
        let partial = partial_name(&path.name, len);
        self.removals.keep_old(path).map_err(RangeError::Backup)?;
        let named = match decided.decision {
            OverwriteDecision::ReplaceTree => {
                self.removals.replace_directory(&path.dir, &partial, &path.name, &decided.removal)
            }
            _ => rename(path, &partial).map_err(io::Error::from),
        };
        named.map_err(|error| RangeError::Unnamed(why_unnamed(&error)))?;
        Ok(refused)
    }

    fn header(&self, path: &TargetPath, entry: &Entry, size: u64, range: Option<FileRange>) -> Option<JournalHeader> {
        let (name, modified, frame) = (path.name.clone(), entry.meta.modified, self.job.request.settings.frame);
        entry.version.map(|version| JournalHeader { name, size, modified, version, frame, range })
    }
}

/// Whether the existing entry is still the one of the decision.
fn is_unchanged(position: &EntryPosition, decided_on: &ExistingStat) -> io::Result<bool> {
    let identity = |stat: &ExistingStat| stat.look.map(|look| look.identity);
    Ok(identity(&ExistingStat::at(&position.dir, &position.name)?) == identity(decided_on))
}

/// Checks that all ranges of a file are complete and of one version, and still have their data. Returns the file's
/// BLAKE3, where the ranges have values.
fn check_ranges(
    path: &TargetPath,
    (file, header, len): (&OwnedFd, &JournalHeader, RangeLen),
) -> Result<Option<Digest>, RangeError> {
    let (size, ranges) = (header.size, len.ranges_of(header.size));
    let look = FileStat::at_fd(file)?;
    let mut tree = FrameTree::new(ranges);
    for number in 0..ranges {
        let incomplete = || RangeError::Incomplete { number: number + 1, ranges };
        let range = len.range(number).ok_or_else(incomplete)?;
        let found = complete_range(path, range, header, look.identity.inode)?;
        let (journal, written, end) = found.ok_or_else(incomplete)?;
        if let Some(at) = journal.removed_bytes(file, written.frame, size)? {
            return Err(RangeError::Removed { number: number + 1, ranges, at });
        }
        if let Some(value) = end.value {
            tree.insert(number, value);
        }
    }
    if look.size != size {
        return Err(RangeError::OtherLength { found: look.size, size });
    }
    Ok(tree.digest())
}
