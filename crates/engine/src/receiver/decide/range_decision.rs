//! Files that several runs copy, a range each: a range to receive, and a file that is complete.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use haul_proto::entry::{Entry, EntryMetadata};
use haul_proto::file_range::{FileRange, RangeLen};
use haul_proto::integrity::{Digest, FrameTree};
use haul_proto::journal::JournalHeader;
use haul_proto::overwrite_policy::OverwriteDecision;
use haul_proto::session::step::EntryAnswer;
use haul_proto::wire::storage::Fsync;
use rustix::fs::fsync;

use crate::fs::FileStat;
use crate::metrics::counter::add;
use crate::receiver::decide::transfer_decision::target_path_at;
use crate::receiver::decide::{EntryDecider, EntryResult};
use crate::receiver::entry::ReceiverEntry;
use crate::receiver::file::ReceivingFile;
use crate::receiver::file::length::{check_length, cut_to};
use crate::receiver::file::named::NamedFile;
use crate::receiver::file::partial::PartialFile;
use crate::receiver::metadata::unset::EntryPlace;
use crate::receiver::place::entry_position::{EntryDecision, EntryPosition};
use crate::receiver::place::error::FileError;
use crate::receiver::place::existing_entry::{ExistingStat, attributes};
use crate::receiver::place::range_files::{
    FoundRange, OpenRange, complete_range, has_partial, lock_partial, make_private, open_range, partial_name,
    reclaim_partial, remove_journals, remove_left,
};
use crate::receiver::place::target_path::TargetPath;
use crate::receiver::place::temp_files::rename;

/// A complete file that has its final name.
struct CompletedFile {
    digest: Option<Digest>,
    /// It has all metadata that were asked for.
    is_complete: bool,
}

impl EntryDecider {
    /// Answers a file of `size` bytes of which a range is received.
    pub(crate) fn receive_range(
        &self,
        position: &EntryPosition,
        entry: &Entry,
        size: u64,
        range: FileRange,
        decided: &EntryDecision,
        there: &ExistingStat,
    ) -> EntryResult {
        let report_existing = || {
            let path = || position.dir.path_of(position.name.as_bytes());
            self.parts.copy.reporter.file_existed(path, range.bytes_in(size), None);
            Ok(EntryAnswer::Settled)
        };
        let path = target_path_at(position, decided);
        if decided.decision == OverwriteDecision::Keep {
            if range.is_in(size) && has_partial(&path, range.len()) {
                remove_left(&path, range.len(), size);
            }
            return report_existing();
        }
        let header = self.header(&path, entry, size, Some(range)).filter(|_| range.is_in(size));
        let header = header.ok_or(FileError::NoRange)?;
        let bytes = range.bytes_in(size);
        self.parts.tree.quota.reserve(bytes)?;
        let striping = self.parts.copy.striping_of(Some(size), entry.more.as_deref());
        let tree = &self.parts.tree;
        let open = || open_range(&path, range, &header, striping, &tree.temp_files, &tree.copy_locks);
        let found = self.reclaimed(&path, range.len(), &header, &entry.meta, open)?;
        // Another run has completed the file while this one waited for its lock.
        if !is_unchanged(position, there)? {
            drop(found);
            if ExistingStat::at(&position.dir, &position.name)?.stat.is_some() {
                remove_left(&path, range.len(), size);
            }
            if position.decided_again {
                return Err(FileError::ChangesAtTarget);
            }
            return self.try_answer(&EntryPosition { fresh: false, decided_again: true, ..position.clone() }, entry);
        }
        let item = |OpenRange { leaf, file, journal }| {
            let named = NamedFile { more: entry.more.clone(), ..NamedFile::new(path.clone(), entry.meta) };
            let part = PartialFile { file, journal, compare: false };
            Arc::new(ReceiverEntry::File(ReceivingFile::resumed(named, leaf, header, part)))
        };
        Ok(match found {
            FoundRange::Complete => return report_existing(),
            FoundRange::Partial(part) => EntryAnswer::Partial(item(part)),
            FoundRange::New(part) => {
                let data_bytes = entry.more.as_ref().and_then(|more| more.data_bytes);
                self.check_space(&path, bytes, data_bytes, false)?;
                EntryAnswer::Needed(item(part))
            }
        })
    }

    /// Answers a file of `size` bytes with complete ranges, as the copy plan says: it gets its final name at once.
    pub(crate) fn finish_ranges(
        &self,
        position: &EntryPosition,
        entry: &Entry,
        size: u64,
        len: RangeLen,
        decided: &EntryDecision,
    ) -> EntryResult {
        let path = target_path_at(position, decided);
        let header = self.header(&path, entry, size, None).filter(|_| len.divides(size));
        let header = header.ok_or(FileError::NoRange)?;
        let lock = || lock_partial(&path, len, &self.parts.tree.copy_locks);
        let locked = self.reclaimed(&path, len, &header, &entry.meta, lock)?;
        let file = locked.ok_or_else(|| FileError::NoRanges(len.ranges_of(size)))?;
        let CompletedFile { digest, is_complete } = self.complete_file(&path, entry, &file, &header, len, decided)?;
        let relative = || path.dir.path_of(path.name.as_bytes());
        if let Some(change) = decided.change {
            self.parts.copy.report_item(relative, entry.into(), change);
        }
        add(&self.parts.copy.reporter.tally.bytes_skipped, size);
        self.parts.copy.reporter.file_done(relative, size, None, digest);
        Ok(if is_complete { EntryAnswer::Settled } else { EntryAnswer::Refused })
    }

    /// Opens a partial file; once more if a killed run had given it to its final owner.
    fn reclaimed<T>(
        &self,
        path: &TargetPath,
        len: RangeLen,
        header: &JournalHeader,
        meta: &EntryMetadata,
        open: impl Fn() -> Result<T, FileError>,
    ) -> Result<T, FileError> {
        match open() {
            Err(FileError::NameTaken)
                if self.parts.copy.request.metadata.rights.owner && reclaim_partial(path, len, header, meta)? =>
            {
                open()
            }
            opened => opened,
        }
    }

    /// Checks all ranges, and gives the file its metadata and its final name.
    fn complete_file(
        &self,
        path: &TargetPath,
        entry: &Entry,
        file: &OwnedFd,
        header: &JournalHeader,
        len: RangeLen,
        decided: &EntryDecision,
    ) -> Result<CompletedFile, FileError> {
        let digest = check_ranges(path, file, header, len)?;
        // It changes the file's time.
        cut_to(file, header.size)?;
        // Runs could not open a partial file of another owner.
        let is_complete = self.name_file(path, entry, file, len, decided).inspect_err(|_| make_private(file))?;
        if self.parts.copy.request.fsync == Fsync::Full {
            fsync(&*path.dir.fd()?)?;
        }
        remove_journals(path, len, header.size);
        Ok(CompletedFile { digest, is_complete })
    }

    /// Gives a file its metadata and its final name. Returns whether it counts as complete.
    fn name_file(
        &self,
        path: &TargetPath,
        entry: &Entry,
        file: &OwnedFd,
        len: RangeLen,
        decided: &EntryDecision,
    ) -> Result<bool, FileError> {
        let place = EntryPlace::of_file(path);
        let is_complete = self.parts.metadata.set_file_metadata(place, file, &entry.meta, true, attributes(entry))?;
        if self.parts.copy.request.fsync != Fsync::None {
            fsync(file)?;
        }
        let partial = partial_name(&path.name, len);
        self.parts.removals.back_up_existing(path)?;
        let named = match decided.decision {
            OverwriteDecision::ReplaceTree => {
                self.parts.removals.replace_directory(&path.dir, &partial, &path.name, &decided.removal)
            }
            _ => rename(path, &partial).map_err(io::Error::from),
        };
        named.map_err(|error| FileError::Rename(error.into()))?;
        Ok(is_complete)
    }

    fn header(&self, path: &TargetPath, entry: &Entry, size: u64, range: Option<FileRange>) -> Option<JournalHeader> {
        let (name, modified, frame) = (path.name.clone(), entry.meta.modified, self.parts.copy.request.settings.frame);
        entry.version.map(|version| JournalHeader { name, size, modified, version, frame, range })
    }
}

/// Whether the existing entry is still the one of the decision.
fn is_unchanged(position: &EntryPosition, decided_on: &ExistingStat) -> io::Result<bool> {
    let identity = |stat: &ExistingStat| stat.stat.map(|stat| stat.identity);
    Ok(identity(&ExistingStat::at(&position.dir, &position.name)?) == identity(decided_on))
}

/// Checks that all ranges of a file are complete and of one version, and still have their data. Returns the file's
/// BLAKE3, where the ranges have values.
fn check_ranges(
    path: &TargetPath,
    file: &OwnedFd,
    header: &JournalHeader,
    len: RangeLen,
) -> Result<Option<Digest>, FileError> {
    let (size, ranges) = (header.size, len.ranges_of(header.size));
    let inode = FileStat::at_fd(file)?.identity.inode;
    let mut tree = FrameTree::new(ranges);
    for number in 0..ranges {
        let incomplete = || FileError::IncompleteRange { number: number + 1, ranges };
        let range = len.range(number).ok_or_else(incomplete)?;
        let found = complete_range(path, range, header, inode)?;
        let (journal, written, end) = found.ok_or_else(incomplete)?;
        if let Some(at) = journal.removed_bytes(file, written.frame, size)? {
            return Err(FileError::RemovedRange { number: number + 1, ranges, at });
        }
        if let Some(value) = end.value {
            tree.insert(number, value);
        }
    }
    check_length(file, size)?;
    Ok(tree.digest())
}

#[cfg(test)]
mod tests {
    use haul_base::control_channel::ControlWriter;
    use haul_proto::entry::{EntryContent, EntryLocation, FileVersion, Timestamp};
    use haul_proto::overwrite_policy::{OverwritePolicy, OverwriteRefusal};
    use haul_proto::path::Name;
    use haul_proto::wire::request::TargetOperand;

    use super::*;
    use crate::fs::Dir;
    use crate::metrics::reporter::Reporter;
    use crate::receiver::TargetReceiver;
    use crate::receiver::copy::WorkerContext;
    use crate::receiver::place::entry_position::TreeReplacement;
    use crate::testing::target_request;

    #[test]
    fn a_changing_existing_file_is_decided_again_once_and_then_fails() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("f"), "of another run").unwrap();
        let name = Name::new(b"f").unwrap();
        let operand = TargetOperand { name: Some(name.clone()), directory: false, device: 0, inode: 0 };
        let reporter = Reporter::new(ControlWriter::new(io::sink()), false);
        let mut request = target_request(place.path(), vec![operand]);
        request.write.overwrite = OverwritePolicy::Report;
        let target = TargetReceiver::prepare(request, reporter, &WorkerContext::default(), None);
        let target = target.map_err(|refused| refused.text).unwrap();
        let (noon, size) = (Timestamp { seconds: 1_700_000_000, nanoseconds: 0 }, 3 * RangeLen::MIN.get());
        let entry = Entry {
            place: EntryLocation::Operand(0),
            kind: EntryContent::File { size },
            meta: EntryMetadata { mode: 0o644, uid: 0, gid: 0, modified: noon },
            version: Some(FileVersion { device: 1, inode: 2, changed: noon }),
            more: None,
        };
        let range = RangeLen::MIN.range(0).unwrap();
        let decided =
            EntryDecision { decision: OverwriteDecision::Create, change: None, removal: TreeReplacement::default() };
        let position = EntryPosition::in_directory(Dir::open_root(place.path()).unwrap(), name);
        // It was not there at the decision.
        let answer = |position: &EntryPosition| {
            target.decider.receive_range(position, &entry, size, range, &decided, &ExistingStat::NOTHING)
        };
        let first = answer(&position);
        assert!(matches!(first, Err(FileError::Refused(OverwriteRefusal::Exists))), "{:?}", first.err());
        let again = EntryPosition { decided_again: true, ..position };
        assert!(matches!(answer(&again), Err(FileError::ChangesAtTarget)));
    }
}
