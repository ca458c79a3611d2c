//! The end of a comparison of one file.

use crate::receiver::Compared;
use crate::receiver::ReceiverEntry;
use crate::receiver::compare::entries::ComparedFile;
use crate::receiver::compare::entries::content;
use crate::receiver::finisher::EntryFinisher;
use haul_proto::ids::EntryId;
use haul_proto::session::differing::Differing;
use std::sync::atomic::Ordering;

impl EntryFinisher {
    /// Handles a compared file with differing frames.
    pub(crate) fn content_differs(&self, entry: EntryId, item: &ReceiverEntry, differing: &Differing) {
        if let ReceiverEntry::Compared(Compared::File(file)) = item {
            let content = content(differing, u64::from(self.job.request.settings.frame.get()), file.size);
            let mut differences = file.differences.clone();
            differences.insert(0, content);
            self.job.reporter.file_compared(|| file.relative(), file.size, None);
            self.comparer.report_differences(&file.relative(), differences);
        }
        self.settle(entry, true);
    }

    /// Handles a failed comparison.
    pub(crate) fn compare_failed(&self, entry: EntryId, file: &ComparedFile, text: &str) {
        if !file.failed.swap(true, Ordering::Relaxed) {
            self.job.fail(self.job.destination.path(&file.relative()), text);
            self.settle(entry, false);
        }
    }
}
