//! Group commit: from complete files to complete entries. Files that need fsync are synced in groups, with contents and
//! metadata, and then renamed. The next group's sync makes the names durable; then the session completes the entries
//! together. Meanwhile the next group gathers. Other files are renamed immediately, by the same steps.
//!
//! The commit thread waits only for the disk and for writes to the control channel.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use haul_proto::entry::EntryKind;
use haul_proto::ids::EntryId;

use crate::fs::{Dir, FileIdentity};
use crate::metrics::counter::add;
use crate::receiver::commit::Committer;
use crate::receiver::commit::finalize::FinalizeOutcome;
use crate::receiver::commit::outcomes::{EntryOutcomes, FileLoss};
use crate::receiver::copy::ReportedEntry;
use crate::receiver::durability::commit_queue::PendingCommit;
use crate::receiver::durability::complete_file::{CompleteFile, PublishedFile};
use crate::receiver::durability::fsync::{FsyncTarget, SyncedFileSystem, sync_all};
use crate::receiver::entry::ReceiverEntry;
use crate::receiver::place::error::FileError;
use crate::receiver::place::foreign_partials::remove_foreign_partial;

impl Committer {
    /// Syncs a group and names its files. The same sync makes the previous group's names durable: those files are
    /// complete, and this group's are returned. `settle` learns of ended entries.
    pub(crate) fn commit_group(
        &self,
        group: Vec<PendingCommit>,
        named: Vec<PublishedFile>,
        settle: impl Fn(EntryOutcomes),
    ) -> Vec<PublishedFile> {
        let (mut files, mut directories) = (Vec::new(), HashMap::new());
        for pending in group {
            match pending {
                PendingCommit::File(whole) => files.push(whole),
                PendingCommit::Directory(dir, disk) => drop(directories.insert(dir.identity(), (dir, disk, true))),
            }
        }
        for named in &named {
            if let (Some(dir), Some(disk)) = (named.file().dir(), &named.disk) {
                let directory = || (dir.clone(), Arc::clone(disk), false);
                directories.entry(dir.identity()).or_insert_with(directory);
            }
        }
        let directories: Vec<_> = directories.into_values().collect();
        let contents = files.iter().filter_map(|whole| Some((whole.disk.as_ref()?, FsyncTarget::File(whole.fd()))));
        let names = directories.iter().map(|(dir, disk, _)| (disk, FsyncTarget::Directory(dir)));
        let mut results = sync_all(&contents.chain(names).collect::<Vec<_>>()).into_iter();
        if self.parts.commit_queue.is_stopped() {
            return Vec::new();
        }
        let results_of_files: Vec<_> = results.by_ref().take(files.len()).collect();
        let mut ends = EntryOutcomes::default();
        self.conclude_named(named, &self.lost_names(&directories, results), &mut ends);
        if self.reads_back() {
            // Complete files do not wait for slow ones.
            settle(std::mem::take(&mut ends));
        }
        let on_disk = self.without_lost(files.into_iter().zip(results_of_files), &mut ends);
        let named = self.name_all(on_disk, &mut ends);
        settle(ends);
        named
    }

    /// Names a complete file, unless it has to wait for fsync: then it is returned.
    pub(crate) fn name_unless_synced(
        &self,
        entry: EntryId,
        item: &ReceiverEntry,
        completed: Result<CompleteFile, FileError>,
        ends: &mut EntryOutcomes,
    ) -> Option<CompleteFile> {
        match completed {
            Ok(whole) if whole.disk.is_some() => return Some(whole),
            Ok(whole) => {
                for whole in self.read_back(vec![whole], ends) {
                    let fate = self.publish(&whole);
                    self.conclude(whole, fate, ends);
                }
            }
            Err(error) => self.fail_entry(entry, item, &error, ends),
        }
        None
    }

    /// Gives a file its final name, and records it for its hard links.
    fn publish(&self, whole: &CompleteFile) -> FinalizeOutcome {
        let outcome = self.give_name(whole);
        if matches!(outcome, FinalizeOutcome::Named) && whole.file().range().is_none() {
            self.parts.links.record_first_file(whole.entry, || whole.identity());
            let foreign_dir = &self.parts.copy.request.partial.foreign_dir;
            if let Some(named) = whole.file().named().filter(|_| !foreign_dir.is_empty()) {
                remove_foreign_partial(&named.path, foreign_dir);
            }
        }
        outcome
    }

    /// Files whose contents are durable. Reports the others.
    fn without_lost(
        &self,
        files: impl Iterator<Item = (CompleteFile, io::Result<()>)>,
        ends: &mut EntryOutcomes,
    ) -> Vec<CompleteFile> {
        let mut there = Vec::new();
        for (whole, synced) in files {
            match whole.file().saved().and(synced) {
                Ok(()) => there.push(whole),
                Err(error) => {
                    let error = FileError::Sync(error.into());
                    if whole.file().in_place().is_some() || whole.file().range().is_some() {
                        // The next run would accept cached pages that are not on the disk.
                        whole.file().journal().iter().for_each(|journal| journal.void());
                        self.fail_entry(whole.entry, &whole.item, &error, ends);
                        continue;
                    }
                    ends.lost.push(FileLoss::of_all(whole, error));
                }
            }
        }
        there
    }

    /// Directories whose sync failed. Reports those queued in their own right.
    fn lost_names(
        &self,
        directories: &[(Dir, Arc<SyncedFileSystem>, bool)],
        results: impl Iterator<Item = io::Result<()>>,
    ) -> HashMap<FileIdentity, FileError> {
        let mut lost = HashMap::new();
        for ((dir, _, for_itself), result) in directories.iter().zip(results) {
            let Err(error) = result else { continue };
            let error = FileError::NameSync(error.into());
            if *for_itself {
                self.parts.copy.fail_entry(self.parts.copy.destination.path(&dir.path_bytes()), &error);
            }
            lost.insert(dir.identity(), error);
        }
        lost
    }

    /// Completes files whose names are durable now, except in directories whose sync failed.
    fn conclude_named(
        &self,
        named: Vec<PublishedFile>,
        lost: &HashMap<FileIdentity, FileError>,
        ends: &mut EntryOutcomes,
    ) {
        for named in named {
            match named.file().dir().and_then(|dir| lost.get(&dir.identity())) {
                Some(error) => self.fail_entry(named.entry, &named.item, error, ends),
                None => {
                    let is_sure = named.disk.as_ref().is_some_and(|disk| disk.is_sure());
                    add(&self.parts.copy.reporter.tally.files_durable, u64::from(is_sure));
                    self.succeed(named, ends);
                }
            }
        }
    }

    /// Names files with durable contents. Returns those whose names must become durable too.
    fn name_all(&self, files: Vec<CompleteFile>, ends: &mut EntryOutcomes) -> Vec<PublishedFile> {
        let mut named = Vec::new();
        for whole in self.read_back(files, ends) {
            match self.publish(&whole) {
                FinalizeOutcome::Named if self.parts.commit_queue.is_full() => named.push(whole.into()),
                fate => self.conclude(whole, fate, ends),
            }
        }
        named
    }

    fn succeed(&self, named: PublishedFile, ends: &mut EntryOutcomes) {
        let file = named.file().named();
        if let Some(change) = file.and_then(|file| file.change) {
            let (size, modified) = (Some(named.file().size()), Some(named.modified));
            let entry = ReportedEntry { what: EntryKind::File, size, modified, first_name: None };
            self.parts.copy.report_item(|| named.file().relative(), entry, change);
        }
        self.parts.digests.report_checksum(named.file(), &named.digest);
        let is_whole = named.file().range().is_none();
        let digest = (self.parts.copy.request.settings.blake3 && is_whole).then_some(named.digest);
        let size = if is_whole { named.size } else { named.file().received_bytes() };
        let duration = named.file().opened().and_then(|opened| opened.as_ref().ok()).map(|opened| opened.age());
        self.parts.copy.reporter.file_done(|| named.file().relative(), size, duration, digest);
        if named.size > 0 {
            self.parts.copy.full_disk.record_success();
        }
        if named.file().base().is_some() {
            self.parts.copy.reporter.delta.file(named.size);
        }
        if let Some(duration) = duration {
            self.parts.copy.reporter.slowest.record(duration, size, || named.file().relative());
        }
        let is_lacking = file.is_some_and(|file| file.lacks_metadata.load(Ordering::Relaxed));
        if is_lacking {
            ends.lacking.push(named.entry);
        }
        ends.settled.push((named.entry, !is_lacking));
    }

    /// Reports the outcome of a complete file.
    fn conclude(&self, whole: CompleteFile, fate: FinalizeOutcome, ends: &mut EntryOutcomes) {
        match fate {
            FinalizeOutcome::Named => self.succeed(whole.into(), ends),
            FinalizeOutcome::Lost(error) => ends.lost.push(FileLoss::of_all(whole, error)),
            FinalizeOutcome::Failed(error) => self.fail_entry(whole.entry, &whole.item, &error, ends),
        }
    }

    /// Fails a file.
    pub(crate) fn fail_entry(&self, entry: EntryId, item: &ReceiverEntry, error: &FileError, ends: &mut EntryOutcomes) {
        if let ReceiverEntry::File(file) = item {
            file.discard(&self.parts.tree.temp_files);
            self.parts.copy.fail_file(file, error);
        }
        ends.settled.push((entry, false));
    }
}
