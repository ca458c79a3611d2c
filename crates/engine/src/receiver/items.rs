//! What is made, changed and removed, told one by one where that is asked for: in a dry run it is all that is done.

use haul_proto::entry::EntryKind;
use haul_proto::overwrite_policy::Conduct;
use haul_proto::sync::{Change, Item};
use haul_proto::wire::report::WorkerMessage;

use super::Target;
use crate::metrics::reporter::add;
use crate::policy::audit::Action;

impl Target {
    /// Whether nothing is to be made, changed or removed.
    pub(super) fn is_dry(&self) -> bool {
        self.request.sync.is_dry
    }

    /// By what it is decided what becomes of what is there.
    pub(super) fn conduct(&self) -> Conduct {
        Conduct::new(self.request.rules.in_the_way, &self.request.sync)
    }

    /// Tells of something that is made, changed or removed, or would be. `relative` is its path from the landing down, which
    /// is put together only where it is told.
    pub(super) fn tell_item(&self, relative: impl FnOnce() -> Vec<u8>, what: EntryKind, change: Change) {
        let tally = &self.reporter.sync;
        match change {
            Change::Adjusted(_) => add(&tally.adjusted, 1),
            Change::Linked => add(&tally.linked, 1),
            Change::Removed => add(&tally.removed, 1),
            Change::Made | Change::Replaced(_) => {}
        }
        let is_told = self.request.sync.tells_items;
        let audited = audited(what, change).filter(|_| self.reporter.is_audited() && !self.is_dry());
        if !is_told && audited.is_none() {
            return;
        }
        let path = self.landing.path(&relative());
        if let Some(action) = audited {
            self.reporter.audit_change(action, what, &path);
        }
        if is_told {
            self.reporter.send(&WorkerMessage::Item { path, item: Item { what, change } });
        }
    }

    /// A file becomes a name of an earlier copy's.
    pub(super) fn tell_linked(&self, relative: impl Fn() -> Vec<u8>, size: u64) {
        self.tell_item(&relative, EntryKind::File, Change::Linked);
        self.reporter.file_there(&relative, size, None);
    }
}

/// What the audit log calls a change. A file that is received or unchanged has a line of its own.
fn audited(what: EntryKind, change: Change) -> Option<Action> {
    match (what, change) {
        (_, Change::Removed) => Some(Action::Removed),
        (_, Change::Adjusted(_)) => Some(Action::Changed),
        (EntryKind::File, _) => None,
        (_, Change::Made | Change::Linked) => Some(Action::Made),
        (_, Change::Replaced(_)) => Some(Action::Replaced),
    }
}
