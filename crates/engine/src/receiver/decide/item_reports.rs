//! Reports of individual creations, changes and removals, on request. A dry run only reports.

use crate::receiver::job::ReceiverJob;
use haul_proto::entry::EntryKind;
use haul_proto::overwrite_policy::OverwriteRules;
use haul_proto::sync::{ChangeKind, ItemChange};
use haul_proto::wire::report::{ItemReport, WorkerMessage};

use crate::metrics::counter::add;
use crate::policy::audit::AuditAction;

impl ReceiverJob {
    /// Whether this is a dry run.
    pub(crate) fn is_dry(&self) -> bool {
        self.request.sync.is_dry
    }

    /// The rules for existing entries.
    pub(crate) fn overwrite_rules(&self) -> OverwriteRules {
        OverwriteRules::new(self.request.write.overwrite, &self.request.sync)
    }

    /// Reports a creation, change or removal, or in a dry run its plan. `relative` returns the path below the
    /// destination; it is called only if a report is sent. The size is that of a file.
    pub(crate) fn report_item(
        &self,
        relative: impl FnOnce() -> Vec<u8>,
        (what, size): (EntryKind, Option<u64>),
        change: ChangeKind,
    ) {
        let tally = &self.reporter.sync;
        match change {
            ChangeKind::Adjusted(_) => add(&tally.adjusted, 1),
            ChangeKind::Linked => add(&tally.linked, 1),
            ChangeKind::Removed => add(&tally.removed, 1),
            ChangeKind::Made | ChangeKind::Replaced(_) => {}
        }
        let is_told = self.request.sync.tells_items;
        let audited = audited(what, change).filter(|_| self.reporter.is_audited() && !self.is_dry());
        if !is_told && audited.is_none() {
            return;
        }
        let path = self.destination.path(&relative());
        if let Some(action) = audited {
            self.reporter.audit_change(action, what, &path);
        }
        if is_told {
            self.reporter.send(&WorkerMessage::Item(ItemReport { path, item: ItemChange { what, change }, size }));
        }
    }

    /// Reports a file linked to an earlier copy.
    pub(crate) fn report_linked(&self, relative: impl Fn() -> Vec<u8>, size: u64) {
        self.report_item(&relative, (EntryKind::File, Some(size)), ChangeKind::Linked);
        self.reporter.file_there(&relative, size, None);
    }
}

/// The audit log's term for a change. Received and unchanged files have records of their own.
fn audited(what: EntryKind, change: ChangeKind) -> Option<AuditAction> {
    match (what, change) {
        (_, ChangeKind::Removed) => Some(AuditAction::Removed),
        (_, ChangeKind::Adjusted(_)) => Some(AuditAction::Changed),
        (EntryKind::File, _) => None,
        (_, ChangeKind::Made | ChangeKind::Linked) => Some(AuditAction::Made),
        (_, ChangeKind::Replaced(_)) => Some(AuditAction::Replaced),
    }
}
