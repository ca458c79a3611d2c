//! What is made, changed and removed, told one by one where that is asked for: in a dry run it is all that is done.

use haul_proto::need::Conduct;
use haul_proto::wire::report::{What, WorkerMessage};
use haul_proto::wire::sync::{Change, Item};

use super::Target;
use crate::report::add;

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
    pub(super) fn tell_item(&self, relative: impl FnOnce() -> Vec<u8>, what: What, change: Change) {
        let tally = &self.reporter.sync;
        match change {
            Change::Adjusted(_) => add(&tally.adjusted, 1),
            Change::Linked => add(&tally.linked, 1),
            Change::Removed => add(&tally.removed, 1),
            Change::Made | Change::Replaced(_) => {}
        }
        if self.request.sync.tells_items {
            let item = Item { what, change };
            self.reporter.send(&WorkerMessage::Item { path: self.landing.path(&relative()), item });
        }
    }

    /// A file becomes a name of an earlier copy's.
    pub(super) fn tell_linked(&self, relative: impl Fn() -> Vec<u8>, size: u64) {
        self.tell_item(&relative, What::File, Change::Linked);
        self.reporter.file_there(&relative, size, None);
    }
}
