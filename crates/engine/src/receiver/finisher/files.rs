//! Complete files: from the commit queue to their final names.

use crate::metrics::stage_timer::during;
use crate::receiver::ReceiverEntry;
use crate::receiver::commit::outcomes::EntryOutcomes;
use crate::receiver::durability::commit_queue::{CommitTask, PendingCommit};
use crate::receiver::durability::complete_file::PublishedFile;
use crate::receiver::durability::fsync::{FsyncTarget, sync_all};
use crate::receiver::finisher::EntryFinisher;
use haul_proto::ids::EntryId;
use haul_proto::session::step::FileEnd;
use haul_proto::wire::resource_metrics::Stage;
use std::collections::HashMap;
use std::sync::Arc;

impl EntryFinisher {
    /// Commits groups until the job is over, and runs checkpoints.
    pub fn run_commits(&self) {
        let mut named = Vec::new();
        while let Some(task) = self.committer.commit_queue.next(!named.is_empty()) {
            match task {
                CommitTask::Group(group) => named = self.commit_group(group, named),
                CommitTask::Checkpoint => self.committer.commit_queue.checkpoint(&self.job),
            }
        }
    }

    /// Handles a complete large file.
    pub(crate) fn finish_file(&self, entry: EntryId, item: Arc<ReceiverEntry>, end: Box<FileEnd>) {
        let mut ends = EntryOutcomes::default();
        match during(Stage::Room, || self.committer.complete(entry, &item, end)) {
            Ok(whole) if whole.disk.is_some() => return self.committer.commit_queue.add(vec![whole]),
            Ok(whole) => self.committer.name_at_once(whole, &mut ends),
            Err(text) => self.committer.fail_entry(entry, &item, text, &mut ends),
        }
        self.end_entries(ends);
    }

    /// Syncs a group and names its files. The same sync makes the previous group's names durable: those files are
    /// complete, and this group's are returned.
    fn commit_group(&self, group: Vec<PendingCommit>, named: Vec<PublishedFile>) -> Vec<PublishedFile> {
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
        if self.committer.commit_queue.is_stopped() {
            return Vec::new();
        }
        let results_of_files: Vec<_> = results.by_ref().take(files.len()).collect();
        let mut ends = EntryOutcomes::default();
        self.committer.conclude_named(named, &self.committer.lost_names(&directories, results), &mut ends);
        if self.committer.reads_back() {
            // Complete files do not wait for slow ones.
            self.end_entries(std::mem::take(&mut ends));
        }
        let on_disk = self.committer.without_lost(files.into_iter().zip(results_of_files), &mut ends);
        let named = self.committer.name_all(on_disk, &mut ends);
        self.end_entries(ends);
        named
    }

    /// Completes entries under one lock of the session, then the directories that they complete.
    pub(crate) fn end_entries(&self, mut ends: EntryOutcomes) {
        self.committer.ask_again(std::mem::take(&mut ends.lost), &mut ends);
        let complete: Vec<_> = self
            .session
            .apply(|machine| ends.settled.iter().filter_map(|(entry, done)| machine.settle(*entry, *done)).collect());
        complete.into_iter().for_each(|directory| self.finish(Some(directory)));
        for (entry, done) in &ends.settled {
            self.settle_hard_links(*entry, *done || ends.lacking.contains(entry));
        }
    }
}
