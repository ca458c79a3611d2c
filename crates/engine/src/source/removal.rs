//! Removal of files and symbolic links once they are verified at the target: files sent in this job, each after the
//! target has reported it complete; links that it has created; and entries that it has reported as equal. Each is
//! removed only if it still equals its offer. Directories stay, and existing entries without verification.
//!
//! One thread removes them, so that messages are not held up. The session bounds the number that wait.

use crate::source::operands;
use crate::source::removable::RemovableFile;
use crate::source::removable::RemovalIdentity;
use crate::source::removable::RemovalNames;
use haul_proto::entry::EntryKind;
use haul_proto::wire::request::SymlinkMode as LinkRule;
use rustix::fs::{AtFlags, FileType, readlinkat, unlinkat};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Source, State};
use crate::fs::{FileStat, FollowLinks};
use crate::metrics::counter::add;
use crate::policy::audit::AuditAction;
use crate::source::entry::SourceEntry;
use crate::source::own_unlinks::UnlinkSpan;
use crate::source::path::SourcePath;
use crate::source::state::SourceState;
use crate::sys::confine::{ConfineBounds, ConfineRights};
use crate::sys::describe::describe;

/// Most files that the thread takes at once.
const BATCH_MAX: usize = 64;
/// Reported for a file that differs from the sent one.
const NOT_THE_SAME: &str = "copied, but not deleted: it has changed since\nrerun the command to copy the new version";
/// What to do about a file that cannot be removed.
const REMEDY: &str = "check the permissions of its directory, and delete it: its copy is verified";

/// A verified file: the part of a [`SourceEntry`] needed for its removal. It holds nothing open.
pub struct SourceRemoval {
    operand: Arc<[u8]>,
    place: SourcePath,
    offered: SourceState,
    removable: RemovableFile,
}

/// What came of it.
enum SourceRemovalOutcome {
    Removed,
    /// Somebody else has removed it, or it is only led to by a link.
    Nothing,
    Changed,
}

impl SourceRemoval {
    /// What is removed.
    fn what(&self) -> EntryKind {
        match self.removable.is {
            RemovalIdentity::File(_) => EntryKind::File,
            RemovalIdentity::Link(_) => EntryKind::Symlink,
        }
    }

    /// `None` for entries that are not removed.
    fn new(item: &SourceEntry) -> Option<Self> {
        let (place, removable) = (item.place.clone()?, item.removable.clone()?);
        // Of a file that was there already, nothing was sent.
        if let RemovalNames::Other(proof) = &removable.names
            && !proof.load(Ordering::Relaxed)
        {
            return None;
        }
        let operand = Arc::clone(&item.operand);
        Some(Self { operand, place, offered: item.offered(), removable })
    }

    fn path(&self) -> Vec<u8> {
        self.place.path(&self.operand)
    }

    /// Removes the file under this name. Between check and removal, another program may put another file there.
    fn carry_out(&self) -> io::Result<SourceRemovalOutcome> {
        match self.removable.own_unlinks() {
            None => self.remove_name(None),
            Some(own) => own.hold(|span| self.remove_name(Some(span))),
        }
    }

    fn remove_name(&self, span: Option<&mut UnlinkSpan>) -> io::Result<SourceRemovalOutcome> {
        let SourcePath { parent, name, .. } = &self.place;
        let dir = parent.fd()?;
        let look = match FileStat::at_name(&*dir, name, FollowLinks::Itself) {
            Ok(look) => look,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(SourceRemovalOutcome::Nothing),
            Err(error) => return Err(error),
        };
        if look.kind == FileType::Symlink && self.place.links != FollowLinks::Itself {
            return Ok(SourceRemovalOutcome::Nothing);
        }
        let is_same = match &self.removable.is {
            RemovalIdentity::File(identity) => {
                let now = SourceState::from(&look);
                let now = span.as_ref().map_or(now, |span| span.as_offered(now, &self.offered));
                look.kind == FileType::RegularFile && look.identity == *identity && now == self.offered
            }
            RemovalIdentity::Link(points_to) => {
                look.kind == FileType::Symlink
                    && look.meta.modified == self.offered.modified
                    && *readlinkat(&*dir, name.as_bytes(), Vec::new())?.as_bytes() == **points_to
            }
        };
        if !is_same {
            return Ok(SourceRemovalOutcome::Changed);
        }
        match span {
            None => unlinkat(&*dir, name.as_bytes(), AtFlags::empty())?,
            Some(span) => span.unlink(&*dir, name, &look)?,
        }
        Ok(SourceRemovalOutcome::Removed)
    }
}

impl Source {
    /// Whether files are removed once they are verified.
    pub fn removes_files(&self) -> bool {
        self.request.remove_files && !self.compares()
    }

    /// Lets files be removed where that may be wanted, and nowhere else.
    pub(super) fn allow_removal(&self, bounds: &mut ConfineBounds) {
        if !self.removes_files() {
            return;
        }
        match &self.request.base {
            _ if !self.request.listed => {}
            None => bounds.allow_anywhere(ConfineRights::RemoveFiles),
            Some(base) => operands::allow_base(base, bounds, ConfineRights::RemoveFiles),
        }
        let below = self.request.links != LinkRule::Follow;
        self.roots.iter().flatten().for_each(|root| root.allow_removal(bounds, below));
    }

    /// Data for a file's removal; `None` if it stays. Below an operand with followed links, one file may have several
    /// paths: removed on one, it could not be read on another.
    pub(super) fn removable(&self, item: &SourceEntry, look: &FileStat) -> Option<RemovableFile> {
        let is_operand = item.place.as_ref().is_some_and(|place| place.is_operand);
        let may_be = self.removes_files() && (is_operand || self.request.links != LinkRule::Follow);
        may_be.then(|| RemovableFile::file(look, &self.own_unlinks))
    }

    /// The same of a symbolic link.
    pub(super) fn removable_link(&self, points_to: &[u8]) -> Option<RemovableFile> {
        (self.removes_files() && matches!(self.request.links, LinkRule::Keep | LinkRule::KeepAll))
            .then(|| RemovableFile::link(points_to))
    }

    /// Takes the entries that the session has verified since.
    pub(super) fn take_proven(&self, state: &mut State) {
        let proven = state.machine.take_proven();
        add(&self.reporter.sync.left_at_source, state.machine.take_unproven());
        // A file that was offered again may come after its other names.
        proven.iter().filter_map(|item| item.removable.as_ref()).for_each(RemovableFile::prove);
        for item in proven {
            match SourceRemoval::new(&item) {
                Some(removal) => state.removals.push_back(removal),
                None => {
                    let is_other_name =
                        item.removable.as_ref().is_some_and(|it| matches!(it.names, RemovalNames::Other(_)));
                    add(&self.reporter.sync.left_at_source, u64::from(is_other_name));
                    state.machine.proven_seen_to(1);
                }
            }
        }
    }

    /// Removes verified files, until all entries are complete. The rest stays when the job is stopped.
    pub fn remove_proven(&self) {
        while let Some(batch) = self.wait_for_removals() {
            for removal in &batch {
                if self.walking.is_cancelled() {
                    return;
                }
                self.remove(removal);
            }
            self.lock().machine.proven_seen_to(batch.len());
            self.window.notify_all();
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
            state = self.removals.wait(state);
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

/// Those that wait for the thread.
pub type SourceRemovals = VecDeque<SourceRemoval>;

#[cfg(test)]
#[path = "removal_tests.rs"]
mod tests;
