//! Removal of files and symbolic links once they are verified at the target. These are files sent in this copy that the
//! target has reported complete, links that it has created, and entries that it has reported equal. Each is removed
//! only if it still equals its offer. Directories stay, and so do existing entries without verification.
//!
//! A separate thread removes them, so that messages are not delayed. The session bounds the queue.

use haul_base::sys::describe::describe;
use haul_proto::wire::request::Symlinks;

use super::session::{Source, State};
use super::source_removal::{SourceRemoval, SourceRemovalOutcome};
use crate::fs::FileStat;
use crate::metrics::counter::add;
use crate::policy::audit::AuditAction;
use crate::source::entry::SourceEntry;
use crate::source::operands;
use crate::source::removable::{RemovableFile, RemovalNames};
use crate::source::state::FileChange;
use crate::sys::confine::{ConfineBounds, ConfineRights};

/// Most files removed in one batch.
const BATCH_MAX: usize = 64;
/// Error for a file that differs from the sent version.
const NOT_THE_SAME: &str = "copied, but not deleted: it has changed since\nrerun the command to copy the new version";
/// Remedy for a failed removal.
const REMEDY: &str = "check the permissions of its directory, and delete it: its copy is verified";

impl Source {
    /// Whether files are removed once they are verified.
    pub fn removes_files(&self) -> bool {
        self.request.remove_files && !self.compares()
    }

    /// Permits removals below the source arguments, if requested.
    pub(super) fn allow_removal(&self, bounds: &mut ConfineBounds) {
        if !self.removes_files() {
            return;
        }
        match &self.request.base {
            _ if !self.request.listed => {}
            None => bounds.allow_anywhere(ConfineRights::RemoveFiles),
            Some(base) => operands::allow_base(base, bounds, ConfineRights::RemoveFiles),
        }
        let below = !self.request.links.follows();
        self.operands.roots.iter().flatten().for_each(|root| root.allow_removal(bounds, below));
    }

    /// Removal data of a file; `None` if it stays. With followed links, a file may have several paths: removed by one,
    /// it would be unreadable by another.
    pub(super) fn removable(&self, item: &SourceEntry, stat: &FileStat) -> Option<RemovableFile> {
        let is_operand = item.place().is_some_and(|place| place.is_operand);
        let may_be = self.removes_files() && (is_operand || !self.request.links.follows());
        may_be.then(|| RemovableFile::file(stat, &self.own_unlinks))
    }

    /// Removal data of a symbolic link.
    pub(super) fn removable_link(&self, points_to: &[u8]) -> Option<RemovableFile> {
        let may_be = self.removes_files() && matches!(self.request.links, Symlinks::Keep | Symlinks::Safe);
        may_be.then(|| RemovableFile::link(points_to))
    }

    /// Queues the entries that the session has verified since the last call.
    pub(super) fn take_verified(&self, state: &mut State) {
        let proven = state.machine.take_verified();
        add(&self.reporter.sync.left_at_source, state.machine.take_unproven());
        // A file that was offered again may follow its hard links.
        proven.iter().filter_map(|item| item.removable.as_deref()).for_each(RemovableFile::prove);
        for item in proven {
            match SourceRemoval::new(&item) {
                Some(removal) => state.removals.push_back(removal),
                None => {
                    let is_other_name =
                        item.removable.as_ref().is_some_and(|it| matches!(it.names, RemovalNames::Other(_)));
                    let is_left = is_other_name || item.has_changed(FileChange::Growth);
                    add(&self.reporter.sync.left_at_source, u64::from(is_left));
                    state.machine.release_verified(1);
                }
            }
        }
    }

    /// Removes verified files until all entries are complete. A stopped copy leaves the rest.
    pub fn remove_verified(&self) {
        while let Some(batch) = self.wait_for_removals() {
            for removal in &batch {
                if self.walk.cancel.is_cancelled() {
                    return;
                }
                self.remove(removal);
            }
            self.lock().machine.release_verified(batch.len());
            self.signals.window.notify_all();
        }
    }

    fn wait_for_removals(&self) -> Option<Vec<SourceRemoval>> {
        let mut state = self.lock();
        loop {
            if state.stopped {
                return None;
            }
            if !state.removals.is_empty() {
                let count = state.removals.len().min(BATCH_MAX);
                return Some(state.removals.drain(..count).collect());
            }
            if state.is_over() {
                return None;
            }
            state = self.signals.removals.wait(state);
        }
    }

    fn remove(&self, removal: &SourceRemoval) {
        match removal.carry_out() {
            Ok(SourceRemovalOutcome::Removed) => {
                add(&self.reporter.sync.removed_at_source, 1);
                if self.reporter.is_audited() {
                    self.reporter.audit_change(AuditAction::Removed, removal.what(), &removal.path());
                }
            }
            Ok(SourceRemovalOutcome::Nothing) => {}
            Ok(SourceRemovalOutcome::Changed) => self.reporter.failed(removal.path(), NOT_THE_SAME),
            Err(error) => {
                let why = describe(&error);
                let why = why.lines().next().unwrap_or_default();
                self.reporter.failed(removal.path(), format!("copied, but not deleted: {why}\n{REMEDY}"));
            }
        }
    }
}

#[cfg(test)]
#[path = "removal_tests.rs"]
mod tests;
