//! Ends entries: after the last frame, a failure, or the last child of a directory.

mod compared;
mod files;
mod hard_links;

use crate::receiver::ReceiverEntry;
use crate::receiver::commit::Committer;
use crate::receiver::compare::EntryComparer;
use crate::receiver::decide::EntryDecider;
use crate::receiver::delete::Removals;
use crate::receiver::job::ReceiverJob;
use crate::receiver::links::LinkTracker;
use crate::receiver::metadata::MetadataWriter;
use crate::receiver::session::ReceiverSession;
use haul_proto::ids::EntryId;
use haul_proto::path::Name;
use haul_proto::session::step::FinishedEntry;
use std::sync::Arc;

/// Completes entries in the session, up to the first directory that is still incomplete, and the hard links that wait
/// for them.
pub struct EntryFinisher {
    pub(super) job: Arc<ReceiverJob>,
    pub(super) metadata: Arc<MetadataWriter>,
    pub(super) session: Arc<ReceiverSession>,
    pub(super) links: Arc<LinkTracker>,
    pub(super) removals: Arc<Removals>,
    pub(super) committer: Arc<Committer>,
    pub(super) comparer: Arc<EntryComparer>,
    pub(super) decider: Arc<EntryDecider>,
}

impl EntryFinisher {
    pub(super) fn new(decider: &Arc<EntryDecider>) -> Self {
        Self {
            job: Arc::clone(&decider.job),
            metadata: Arc::clone(&decider.metadata),
            session: Arc::clone(&decider.session),
            links: Arc::clone(&decider.links),
            removals: Arc::clone(&decider.removals),
            committer: Arc::clone(&decider.committer),
            comparer: Arc::clone(&decider.comparer),
            decider: Arc::clone(decider),
        }
    }
}

impl EntryFinisher {
    pub(crate) fn fail_file(&self, entry: EntryId, item: &ReceiverEntry, text: &str) {
        if let ReceiverEntry::File(incoming) = item {
            let next = self.session.apply(|machine| {
                // Data of an entry that was offered again belongs to the new offer.
                if machine.is_known(entry) {
                    incoming.give_up(self.job.request.keep_partial, &self.committer.tree.temp_files);
                    // Under the lock: the job may end with this entry, and its summary counts the failure.
                    self.job.fail_file(incoming, text);
                }
                machine.settle(entry, false)
            });
            self.finish(next);
            self.settle_hard_links(entry, false);
        }
    }
}

impl EntryFinisher {
    /// Completes an entry, and upwards the directories that it completes. A directory gets its metadata; a file gets
    /// its metadata, and its name immediately or after fsync.
    pub(crate) fn finish(&self, mut next: Option<FinishedEntry<ReceiverEntry>>) {
        while let Some(FinishedEntry { entry, handle, end, complete }) = next {
            let scope = self.removals.filter.leave(entry);
            let done = match (&*handle, end) {
                (ReceiverEntry::Directory { dir, fresh, meta, attributes, names }, _) => {
                    if let Some(names) = names {
                        self.removals.sweep(&handle, dir, names, scope.as_ref());
                    }
                    self.removals.removes_only() && self.metadata.leave_unchanged(dir)
                        || self.metadata.finish_directory(dir, *fresh, meta, attributes.as_deref())
                }
                (ReceiverEntry::File(_), Some(end)) => return self.finish_file(entry, handle, end),
                (ReceiverEntry::File(_) | ReceiverEntry::HardLink, _) => false,
                (ReceiverEntry::Compared(compared), end) => {
                    let is_left_out =
                        |name: &Name, is_directory| self.removals.filter.leaves_out(scope.as_ref(), name, is_directory);
                    self.comparer.finish_compared(compared, end.map(|end| end.digest), complete, &is_left_out)
                }
            };
            next = self.session.apply(|machine| machine.settle(entry, done));
        }
    }

    pub(crate) fn settle(&self, entry: EntryId, done: bool) {
        self.finish(self.session.apply(|machine| machine.settle(entry, done)));
        self.settle_hard_links(entry, done);
    }
}
