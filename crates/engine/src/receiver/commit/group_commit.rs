//! From whole files to settled entries. Files that have to be on the disk first go there in groups: contents and
//! metadata, then they get their names; the next group's wait brings the names there, and then the machine is told of all
//! at once. Meanwhile more gather. Files for which nothing is waited for get their names at once, by the same steps.
//!
//! The thread that carries groups waits for the disk and for writing to the link, and for nobody else.

use crate::receiver::commit::Committer;
use crate::receiver::commit::outcomes::EntryOutcomes;
use crate::receiver::finisher::EntryFinisher;
use haul_proto::entry::EntryKind;
use haul_proto::ids::EntryId;
use haul_proto::session::step::FileEnd;
use haul_proto::wire::resource_metrics::Stage;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use crate::fs::{Dir, FileIdentity};
use crate::metrics::counter::add;
use crate::metrics::stage_timer::during;
use crate::receiver::ReceiverEntry;
use crate::receiver::commit::commit_queue::{CommitTask, PendingCommit};
use crate::receiver::commit::finalize::{CompleteFile, FinalizeOutcome, PublishedFile};
use crate::receiver::commit::fsync::{FsyncTarget, SyncedFileSystem, sync_all};
use crate::receiver::commit::outcomes::FileLoss;
use crate::sys::describe::describe;

impl EntryFinisher {
    /// Carries groups to the disk until the job is over, and sees to checkpoints.
    pub fn settle_groups(&self) {
        let mut named = Vec::new();
        while let Some(task) = self.committer.settling.next(!named.is_empty()) {
            match task {
                CommitTask::Group(group) => named = self.carry(group, named),
                CommitTask::Checkpoint => self.committer.checkpoint(),
            }
        }
    }

    /// A large file is whole.
    pub(crate) fn finish_file(&self, entry: EntryId, item: Arc<ReceiverEntry>, end: Box<FileEnd>) {
        let mut ends = EntryOutcomes::default();
        match during(Stage::Room, || self.committer.complete(entry, &item, end)) {
            Ok(whole) if whole.disk.is_some() => return self.committer.settling.add(vec![whole]),
            Ok(whole) => self.committer.name_at_once(whole, &mut ends),
            Err(text) => self.committer.give_up(entry, &item, text, &mut ends),
        }
        self.settle_ends(ends);
    }

    /// Puts a group on the disk and gives its files their names. The same wait brings those names to the disk that the
    /// group before got: these files are settled, and those of this group returned.
    fn carry(&self, group: Vec<PendingCommit>, named: Vec<PublishedFile>) -> Vec<PublishedFile> {
        let (mut files, mut directories) = (Vec::new(), HashMap::new());
        for pending in group {
            match pending {
                PendingCommit::File(whole) => files.push(whole),
                PendingCommit::Directory(dir, disk) => drop(directories.insert(dir.identity(), (dir, disk, true))),
            }
        }
        for named in &named {
            if let (Some(dir), Some(disk)) = (named.incoming().dir(), &named.disk) {
                let directory = || (dir.clone(), Arc::clone(disk), false);
                directories.entry(dir.identity()).or_insert_with(directory);
            }
        }
        let directories: Vec<_> = directories.into_values().collect();
        let contents = files.iter().filter_map(|whole| Some((whole.disk.as_ref()?, FsyncTarget::File(whole.fd()))));
        let names = directories.iter().map(|(dir, disk, _)| (disk, FsyncTarget::Directory(dir)));
        let mut results = sync_all(&contents.chain(names).collect::<Vec<_>>()).into_iter();
        if self.committer.settling.is_stopped() {
            return Vec::new();
        }
        let results_of_files: Vec<_> = results.by_ref().take(files.len()).collect();
        let mut ends = EntryOutcomes::default();
        self.committer.conclude_named(named, &self.committer.lost_names(&directories, results), &mut ends);
        if self.committer.reads_back() {
            // What is settled does not wait for what takes long.
            self.settle_ends(std::mem::take(&mut ends));
        }
        let on_disk = self.committer.without_lost(files.into_iter().zip(results_of_files), &mut ends);
        let named = self.committer.name_all(on_disk, &mut ends);
        self.settle_ends(ends);
        named
    }

    /// Settles entries with one look at the machine, then finishes the directories that this completes.
    pub(crate) fn settle_ends(&self, mut ends: EntryOutcomes) {
        self.committer.ask_again(std::mem::take(&mut ends.lost), &mut ends);
        let mut state = self.session.lock();
        let complete: Vec<_> =
            ends.settled.iter().filter_map(|(entry, done)| state.machine.settle(*entry, *done)).collect();
        drop(state);
        complete.into_iter().for_each(|directory| self.finish(Some(directory)));
        self.deltas.old_files_room.notify_all();
        self.session.outbox.notify_all();
        for (entry, done) in &ends.settled {
            self.settle_links(*entry, *done || ends.lacking.contains(entry));
        }
    }
}

impl Committer {
    /// A directory has its metadata, and all in it has its name. Both have to be on the disk at the job's end.
    pub(crate) fn settle_directory(&self, dir: &Dir) -> io::Result<()> {
        if self.settling.is_full()
            && let Some(disk) = self.settling.disk_of(Some(dir))?
        {
            self.settling.add_directory(dir, &disk);
        }
        Ok(())
    }

    /// Everything is settled. What was made in the directory that it all landed in has to be on the disk as well: now,
    /// or from an earlier run of the job that did not come to its end.
    pub(crate) fn settle_landing(&self) {
        if let Some(dir) = self.job.landing.dir()
            && let Err(error) = self.settle_directory(dir)
        {
            self.job.fail(self.job.landing.path(b""), describe(&error));
        }
        self.metadata.restore_modes();
        self.settling.end();
    }

    fn complete(&self, entry: EntryId, item: &Arc<ReceiverEntry>, end: Box<FileEnd>) -> Result<CompleteFile, String> {
        let ReceiverEntry::File(incoming) = &**item else { return Err("it is a directory".into()) };
        let disk = self.settling.disk_of(incoming.dir()).map_err(|error| describe(&error))?;
        self.digests.check(incoming, &end.digest)?;
        let bytes = incoming.complete(self, disk.as_deref(), end.size, end.modified)?;
        let (item, size, digest) = (Arc::clone(item), end.size, end.digest);
        Ok(CompleteFile { entry, item, size, digest, bytes, disk, end: Some(end) })
    }

    /// Gives a file for which nothing is waited for its name.
    pub(crate) fn name_at_once(&self, whole: CompleteFile, ends: &mut EntryOutcomes) {
        for whole in self.read_back(vec![whole], ends) {
            let fate = whole.give_name(self);
            self.conclude(whole, fate, ends);
        }
    }

    /// Those whose contents have reached the disk.
    fn without_lost(
        &self,
        files: impl Iterator<Item = (CompleteFile, io::Result<()>)>,
        ends: &mut EntryOutcomes,
    ) -> Vec<CompleteFile> {
        let mut there = Vec::new();
        for (whole, synced) in files {
            match whole.incoming().saved().and(synced) {
                Ok(()) => there.push(whole),
                Err(error) => {
                    let text = format!("it did not reach the disk: {}", describe(&error));
                    if whole.incoming().in_place().is_some() {
                        self.give_up(whole.entry, &whole.item, text, ends);
                        continue;
                    }
                    ends.lost.push(FileLoss::of_all(whole, text));
                }
            }
        }
        there
    }

    /// Directories that did not reach the disk. Tells of those of which nobody else will: which are here for themselves,
    /// and not for a file.
    fn lost_names(
        &self,
        directories: &[(Dir, Arc<SyncedFileSystem>, bool)],
        results: impl Iterator<Item = io::Result<()>>,
    ) -> HashMap<FileIdentity, String> {
        let mut lost = HashMap::new();
        for ((dir, _, for_itself), result) in directories.iter().zip(results) {
            let Err(error) = result else { continue };
            let text = format!("its name did not reach the disk: {}", describe(&error));
            if *for_itself {
                self.job.fail(self.job.landing.path(&dir.path_bytes()), text.clone());
            }
            lost.insert(dir.identity(), text);
        }
        lost
    }

    /// Settles files whose names are on the disk now, but for those in directories that are not.
    fn conclude_named(
        &self,
        named: Vec<PublishedFile>,
        lost: &HashMap<FileIdentity, String>,
        ends: &mut EntryOutcomes,
    ) {
        for named in named {
            match named.incoming().dir().and_then(|dir| lost.get(&dir.identity())) {
                Some(text) => self.give_up(named.entry, &named.item, text.clone(), ends),
                None => {
                    let is_sure = named.disk.as_ref().is_some_and(|disk| disk.is_sure());
                    add(&self.job.reporter.tally.files_durable, u64::from(is_sure));
                    self.succeed(named, ends);
                }
            }
        }
    }

    /// Gives files their names, whose contents are on the disk. Returns those whose names have to get there, too.
    fn name_all(&self, files: Vec<CompleteFile>, ends: &mut EntryOutcomes) -> Vec<PublishedFile> {
        let mut named = Vec::new();
        for whole in self.read_back(files, ends) {
            match whole.give_name(self) {
                FinalizeOutcome::Named if self.settling.is_full() => named.push(whole.into()),
                fate => self.conclude(whole, fate, ends),
            }
        }
        named
    }

    fn succeed(&self, named: PublishedFile, ends: &mut EntryOutcomes) {
        if let Some(change) = named.incoming().change {
            self.job.tell_item(|| named.incoming().relative(), EntryKind::File, change);
        }
        if let Some(text) = named.incoming().lacking() {
            self.job.fail(named.incoming().path(&self.job.landing), text);
            ends.lacking.push(named.entry);
            ends.settled.push((named.entry, false));
            return;
        }
        self.digests.tell_sum(named.incoming(), &named.digest);
        let digest = self.job.request.settings.blake3.then_some(named.digest);
        self.job.reporter.file_done(|| named.incoming().relative(), named.size, digest);
        if named.incoming().basis().is_some() {
            self.job.reporter.delta.file(named.size);
        }
        if let Some(Ok(opened)) = named.incoming().opened() {
            self.job.reporter.slowest.tell(opened.age(), named.size, || named.incoming().relative());
        }
        ends.settled.push((named.entry, true));
    }

    /// Tells what became of a whole file.
    fn conclude(&self, whole: CompleteFile, fate: FinalizeOutcome, ends: &mut EntryOutcomes) {
        match fate {
            FinalizeOutcome::Named => self.succeed(whole.into(), ends),
            FinalizeOutcome::Lost(text) => ends.lost.push(FileLoss::of_all(whole, text)),
            FinalizeOutcome::Failed(text) => self.give_up(whole.entry, &whole.item, text, ends),
        }
    }

    /// A file will not be there.
    pub(crate) fn give_up(
        &self,
        entry: EntryId,
        item: &ReceiverEntry,
        text: impl Into<String>,
        ends: &mut EntryOutcomes,
    ) {
        if let ReceiverEntry::File(incoming) = item {
            incoming.discard(&self.places.unfinished);
            self.job.fail(incoming.path(&self.job.landing), text);
        }
        ends.settled.push((entry, false));
    }
}
