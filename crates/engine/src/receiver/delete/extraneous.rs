//! Extraneous entries of a directory: found once it is complete, and removed at once or at the end of the copy. They
//! are kept if an entry failed.

use std::collections::HashSet;
use std::sync::Arc;

use haul_base::sys::describe::describe;
use haul_proto::filter::FilterScope;
use haul_proto::ids::EntryId;
use haul_proto::path::Name;
use haul_proto::sync::DeleteMode;
use haul_proto::wire::report::WorkerMessage;
use rustix::fs::FileType;

use crate::fs::meta::apply;
use crate::fs::{Dir, FileStat, MetadataParts};
use crate::receiver::delete::Removals;
use crate::receiver::delete::remove_tree::{RemovalLimit, TreeClearing};
use crate::receiver::entry::ReceiverEntry;
use crate::receiver::place::case_sensitivity::folds;
use crate::receiver::place::error::FileError;
use crate::receiver::session::ReceiverSession;
use crate::receiver::source_names::SourceNames;

/// Most names remembered until the end.
const LATER_MAX: usize = 1_000_000;
/// Most filter rules remembered with them.
const LATER_RULES_MAX: usize = 1 << 17;
/// Error when the limit of remembered names is exceeded.
const TOO_MANY: &str = "too many extraneous entries to remember: nothing was deleted\nuse --delete=during, which deletes them as it finds them";
/// Error when an empty source would empty the target.
const EMPTY_SOURCE: &str =
    "the source is empty (not mounted?): nothing was deleted at the target\nto empty it, add --allow-empty-source";

/// Removals at the end of the copy.
#[derive(Default)]
pub struct DeferredRemovals {
    directories: Vec<DeferredRemoval>,
    entries: usize,
    /// Filter scopes of remembered directories, by address, to count the rules of each once.
    scopes: HashSet<usize>,
    rules: usize,
    /// A memory limit was exceeded and reported.
    is_too_much: bool,
}

/// Names to remove in one directory.
struct DeferredRemoval {
    /// The directory.
    item: Arc<ReceiverEntry>,
    extras: Vec<(Name, FileType)>,
    scope: Option<Arc<FilterScope>>,
}

impl DeferredRemovals {
    /// Remembers names to remove in a directory. `false` beyond the limit, after which nothing more is remembered.
    fn remember(&mut self, later: DeferredRemoval) -> bool {
        self.entries += later.extras.len();
        let mut scope = later.scope.as_ref();
        while let Some(one) = scope.filter(|one| self.scopes.insert(Arc::as_ptr(one).addr())) {
            self.rules += one.own_rules();
            scope = one.above();
        }
        self.directories.push(later);
        self.is_too_much = self.entries > LATER_MAX || self.rules > LATER_RULES_MAX;
        if self.is_too_much {
            self.directories.clear();
        }
        !self.is_too_much
    }
}

impl DeferredRemoval {
    fn dir(&self) -> Option<&Dir> {
        if let ReceiverEntry::Directory { dir, .. } = &*self.item { Some(dir) } else { None }
    }

    fn clear(&self, clearing: &mut TreeClearing<'_>) -> Result<(), RemovalLimit> {
        let Some(dir) = self.dir() else { return Ok(()) };
        let scope = self.scope.as_ref();
        self.extras.iter().try_for_each(|(name, kind)| clearing.clear(dir, name, *kind, scope).map(|_| ()))
    }
}

impl Removals {
    /// Removes the extraneous entries of a directory that the source has listed completely, or remembers them for the
    /// end.
    pub(crate) fn sweep(
        &self,
        item: &Arc<ReceiverEntry>,
        dir: &Dir,
        names: &SourceNames,
        scope: Option<&Arc<FilterScope>>,
        is_listed: bool,
    ) {
        let is_listed = is_listed || self.copy.request.sync.delete_despite_errors;
        let state = self.removing();
        let is_decided = names.reserved().is_some();
        let is_over = state.is_hindered || state.is_over && !is_decided || state.laters.is_too_much;
        drop(state);
        if self.extraneous.is_stopped() || is_over || !is_listed {
            return names.clear();
        }
        let scope = scope.filter(|_| self.protects_excluded());
        let extras = self.extras(dir, names, scope);
        let is_source_empty = names.is_empty_argument();
        names.clear();
        match extras {
            Ok(extras) if extras.is_empty() => {}
            Ok(_) if is_source_empty => self.copy.fail(self.copy.destination.path(&dir.path_bytes()), EMPTY_SOURCE),
            Ok(extras) if self.keeps_after_failure() => {
                let mut counting = TreeClearing::counting(self);
                let _ = extras.iter().try_for_each(|(name, kind)| counting.clear(dir, name, *kind, scope).map(|_| ()));
                self.removing().kept += counting.entries;
            }
            Ok(extras) if self.copy.request.sync.delete == DeleteMode::During => {
                // Leftovers of a killed run were not counted.
                let (left_over, extras): (Vec<_>, Vec<_>) =
                    extras.into_iter().partition(|(name, _)| name.is_reserved());
                for (extras, reserved) in [(extras, names.reserved()), (left_over, None)] {
                    let mut clearing = TreeClearing::new(self).within(reserved);
                    let mut clear =
                        |(name, kind): &(Name, FileType)| clearing.clear(dir, name, *kind, scope).map(|_| ());
                    let _ = extras.iter().try_for_each(&mut clear);
                }
            }
            Ok(extras) => {
                let scope = scope.filter(|_| extras.iter().any(|(_, kind)| kind.is_dir())).cloned();
                if !self.removing().laters.remember(DeferredRemoval { item: Arc::clone(item), extras, scope }) {
                    self.copy.fail(self.copy.destination.path(b""), TOO_MANY);
                }
            }
            Err(error) => self.copy.fail(self.copy.destination.path(&dir.path_bytes()), error),
        }
    }

    /// Called when the source has listed a directory. With a limit, decides now how many extraneous entries are
    /// removed, in the source's order of directories, whatever the order of arrival. A dry run thus decides alike.
    pub(crate) fn reserve_removals(&self, session: &ReceiverSession, entry: EntryId, is_incomplete: bool) {
        let sync = &self.copy.request.sync;
        let is_wanted = sync.delete == DeleteMode::During && sync.delete_max.is_some();
        if !is_wanted || self.removing().is_hindered || is_incomplete && !sync.delete_despite_errors {
            return;
        }
        let item = session.read(|machine| machine.directory(entry));
        let Some(ReceiverEntry::Directory { dir, names: Some(names), .. }) = item.as_deref() else { return };
        let scope = self.filter.scope_in(entry).filter(|_| self.protects_excluded());
        names.reserve(|| {
            let mut counting = TreeClearing::counting(self);
            // The removal reports a directory that cannot be listed.
            for (name, kind) in self.extras(dir, names, scope.as_ref()).unwrap_or_default() {
                if !name.is_reserved() && counting.clear(dir, &name, kind, scope.as_ref()).is_err() {
                    break;
                }
            }
            self.reserve_some(counting.entries)
        });
    }

    /// Extraneous names of a directory, sorted.
    fn extras(
        &self,
        dir: &Dir,
        names: &SourceNames,
        scope: Option<&Arc<FilterScope>>,
    ) -> Result<Vec<(Name, FileType)>, FileError> {
        let mut extras = Vec::new();
        let is_known = names.each_extraneous(dir, |name, kind| {
            let is_backup = self.protects_backup(name) || self.may_be_new_backup(name, names);
            if !is_unfinished(name, kind)
                && !is_backup
                && !self.extraneous.leads_to_operand(&dir.path_of(name.as_bytes()))
                && !self.filter.leaves_out(scope, name, kind == FileType::Directory)
            {
                extras.push((name.clone(), kind));
            }
        })?;
        if !is_known {
            return Err(FileError::ExtraneousUndeleted);
        }
        // If the file system folds case, the source's name was refused, and this one is the reason.
        extras.retain(|(name, _)| !names.has_in_other_case(name) || folds(dir, name) != Some(true));
        extras.sort_unstable_by(|(one, _), (other, _)| one.as_bytes().cmp(other.as_bytes()));
        Ok(extras)
    }
}

impl Removals {
    /// After the last entry, removes all remembered names, or none.
    pub(crate) fn remove_extraneous_after(&self) {
        let mut state = self.removing();
        let mut later = std::mem::take(&mut state.laters.directories);
        let (is_over, kept) = (state.is_hindered, state.kept);
        drop(state);
        if is_over {
            return;
        }
        if self.keeps_after_failure() {
            return self.report_kept(&later, kept);
        }
        if later.is_empty() {
            return;
        }
        later.sort_by_cached_key(|later| later.dir().map(Dir::path_bytes));
        if self.copy.request.sync.delete_max.is_some() {
            let mut counting = TreeClearing::counting(self);
            if later.iter().try_for_each(|later| later.clear(&mut counting)).is_err() {
                return;
            }
            if let Some(text) = self.too_many_with(counting.entries) {
                return self.copy.fail(self.copy.destination.path(b""), text);
            }
        }
        let mut clearing = TreeClearing::new(self);
        for later in &later {
            let was = later.dir().and_then(|dir| FileStat::at_fd(&*dir.fd().ok()?).ok());
            let cleared = later.clear(&mut clearing);
            later.dir().into_iter().filter(|_| self.removes_only()).for_each(|dir| self.metadata.restore_mode(dir));
            if !self.copy.is_dry() {
                self.restore(later, was);
            }
            if cleared.is_err() {
                return;
            }
        }
    }

    /// Reports the number of extraneous entries kept: `later`, and `kept` others.
    fn report_kept(&self, later: &[DeferredRemoval], kept: u64) {
        let mut counting = TreeClearing::counting(self);
        let is_stopped = later.iter().try_for_each(|later| later.clear(&mut counting)).is_err();
        let kept = kept + counting.entries;
        if kept > 0 && !is_stopped {
            let text =
                format!("entries failed (--ignore-errors deletes all the same); extraneous entries kept: {kept}");
            self.copy.reporter.send(&WorkerMessage::Warning { text });
        }
    }

    /// Sets the metadata of a directory after removals: its final metadata or, if it only had removals, its earlier
    /// times.
    fn restore(&self, later: &DeferredRemoval, was: Option<FileStat>) {
        let ReceiverEntry::Directory { dir, fresh, meta, attributes, .. } = &*later.item else { return };
        let restored = match (self.removes_only(), was) {
            (false, _) => self.metadata.complete_directory(dir, *fresh, meta, attributes.as_deref(), false).map(|_| ()),
            (true, Some(was)) => {
                let keep = MetadataParts { owner: false, group: false, mode: None, times: true };
                dir.fd()
                    .and_then(|fd| apply(&*fd, &was.meta, keep))
                    .and_then(|_| self.metadata.commit_queue.queue_directory(dir))
            }
            (true, None) => Ok(()),
        };
        if let Err(error) = restored {
            self.copy.fail(self.copy.destination.path(&dir.path_bytes()), describe(&error));
        }
    }
}

/// Partial files are kept for the next run. A directory with such a name was replaced by a run that was then killed.
fn is_unfinished(name: &Name, kind: FileType) -> bool {
    name.is_reserved() && kind != FileType::Directory
}

#[cfg(test)]
#[path = "extraneous_tests.rs"]
mod tests;
