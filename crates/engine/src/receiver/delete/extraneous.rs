//! What a directory of the target has alone: found when all that belongs in it is there, and removed then, or remembered and
//! removed when everything is. It is kept where an entry failed.

use crate::receiver::delete::Removals;
use haul_proto::filter::FilterScope;
use haul_proto::ids::EntryId;
use haul_proto::path::Name;
use haul_proto::sync::DeleteMode;
use haul_proto::wire::report::WorkerMessage;
use rustix::fs::FileType;
use std::collections::HashSet;
use std::sync::Arc;

use crate::fs::meta::apply;
use crate::fs::{Dir, FileStat, MetadataParts, each_name};
use crate::receiver::ReceiverEntry;
use crate::receiver::delete::remove_tree::{RemovalLimit, TreeClearing};
use crate::receiver::delete::source_names::SourceNames;
use crate::receiver::metadata::rights::is_not_ours;
use crate::receiver::place::case_sensitivity::folds;
use crate::sys::describe::describe;

/// Most entries that are remembered for the end.
const LATER_MAX: usize = 1_000_000;
/// Most rules of filters that are remembered with them.
const LATER_RULES_MAX: usize = 1 << 17;
/// Said where more would be remembered than may be.
const TOO_MANY: &str = "too many extraneous entries to remember: nothing was deleted\nuse --delete=during, which deletes them as it finds them";
/// Said of a directory of whose names too many would have to be kept.
const TOO_MANY_NAMES: &str =
    "too many entries: extraneous ones were not deleted\ndelete them by hand, or copy this directory separately";

/// What is removed in the end.
#[derive(Default)]
pub struct DeferredRemovals {
    directories: Vec<DeferredRemoval>,
    entries: usize,
    /// Where the directories of filters are that are remembered, and how many rules they have.
    scopes: HashSet<usize>,
    rules: usize,
    /// The limit of memory was exceeded, and reported.
    is_too_much: bool,
}

/// Names to remove in a directory.
struct DeferredRemoval {
    /// The directory.
    item: Arc<ReceiverEntry>,
    extras: Vec<(Name, FileType)>,
    scope: Option<Arc<FilterScope>>,
}

impl DeferredRemovals {
    /// Remembers names to remove in a directory; `false` beyond the limit, after which nothing more is remembered.
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
    /// Everything that belongs in a directory is there: removes everything else, or remembers it for the end.
    pub(crate) fn sweep(
        &self,
        item: &Arc<ReceiverEntry>,
        dir: &Dir,
        names: &SourceNames,
        scope: Option<&Arc<FilterScope>>,
    ) {
        let state = self.removing();
        let is_decided = names.reserved().is_some();
        let is_over = state.is_hindered || state.is_over && !is_decided || state.laters.is_too_much;
        drop(state);
        if self.extraneous.is_stopped() || is_over {
            return names.clear();
        }
        let scope = scope.filter(|_| !self.job.request.sync.delete_filtered);
        let extras = self.extras(dir, names, scope);
        names.clear();
        match extras {
            Ok(extras) if extras.is_empty() => {}
            Ok(extras) if self.keeps_after_failure() => {
                let mut counting = TreeClearing::counting(self);
                let _ = extras.iter().try_for_each(|(name, kind)| counting.clear(dir, name, *kind, scope).map(|_| ()));
                self.removing().kept += counting.entries;
            }
            Ok(extras) if self.job.request.sync.delete == DeleteMode::During => {
                // What a killed run has left was no part of the decision.
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
                    self.job.fail(self.job.destination.path(b""), TOO_MANY);
                }
            }
            Err(text) => self.job.fail(self.job.destination.path(&dir.path_bytes()), text),
        }
    }

    /// The source has said all that is in a directory. With a limit, it is decided now how much of the rest goes: in the
    /// order of the source's directories, whenever their files arrive, so that a dry run decides the same.
    pub(crate) fn reserve_removals(&self, entry: EntryId, is_incomplete: bool) {
        let sync = &self.job.request.sync;
        let is_wanted = sync.delete == DeleteMode::During && sync.delete_max.is_some();
        if !is_wanted || self.removing().is_hindered || is_incomplete && !sync.delete_despite_errors {
            return;
        }
        let item = self.session.lock().machine.directory(entry);
        let Some(ReceiverEntry::Directory { dir, names: Some(names), .. }) = item.as_deref() else { return };
        let scope = self.filter.scope_in(entry).filter(|_| !sync.delete_filtered);
        names.reserve(|| {
            let mut counting = TreeClearing::counting(self);
            // A directory that cannot be listed is reported at its removal.
            for (name, kind) in self.extras(dir, names, scope.as_ref()).unwrap_or_default() {
                if !name.is_reserved() && counting.clear(dir, &name, kind, scope.as_ref()).is_err() {
                    break;
                }
            }
            self.reserve_some(counting.entries)
        });
    }

    /// What is in a directory and not at the source, in order.
    fn extras(
        &self,
        dir: &Dir,
        names: &SourceNames,
        scope: Option<&Arc<FilterScope>>,
    ) -> Result<Vec<(Name, FileType)>, String> {
        let (mut extras, mut too_many) = (Vec::new(), false);
        let listed = each_name(dir, |name, kind| match names.has(name) {
            None => too_many = true,
            Some(false)
                if !is_unfinished(name, kind) && !self.filter.leaves_out(scope, name, kind == FileType::Directory) =>
            {
                extras.push((name.clone(), kind));
            }
            Some(_) => {}
        });
        listed.map_err(|error| describe(&error))?;
        if too_many {
            return Err(TOO_MANY_NAMES.into());
        }
        // On a file system that folds case, the source's name was refused, and this one is not there by mistake.
        extras.retain(|(name, _)| !names.has_in_other_case(name) || folds(dir, name) != Some(true));
        extras.sort_unstable_by(|(one, _), (other, _)| one.as_bytes().cmp(other.as_bytes()));
        Ok(extras)
    }
}

impl Removals {
    /// After the last entry: removes all remembered names, or none.
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
        if self.job.request.sync.delete_max.is_some() {
            let mut counting = TreeClearing::counting(self);
            if later.iter().try_for_each(|later| later.clear(&mut counting)).is_err() {
                return;
            }
            if let Some(most) = self.most_removed_with(counting.entries) {
                let before = match self.job.request.sync.removed_before {
                    0 => String::new(),
                    before => format!(", including {before} deleted before"),
                };
                let text = format!(
                    "{} extraneous entries, but --max-delete permits {most}{before}: nothing was deleted\nraise --max-delete",
                    counting.entries
                );
                return self.job.fail(self.job.destination.path(b""), text);
            }
        }
        let mut clearing = TreeClearing::new(self);
        for later in &later {
            let was = later.dir().and_then(|dir| FileStat::at_fd(&*dir.fd().ok()?).ok());
            let cleared = later.clear(&mut clearing);
            later.dir().into_iter().filter(|_| self.removes_only()).for_each(|dir| self.metadata.restore_mode(dir));
            if !self.job.is_dry() {
                self.restore(later, was);
            }
            if cleared.is_err() {
                return;
            }
        }
    }

    /// Says how many extraneous entries are kept: these, and `kept` others.
    fn report_kept(&self, later: &[DeferredRemoval], kept: u64) {
        let mut counting = TreeClearing::counting(self);
        let is_stopped = later.iter().try_for_each(|later| later.clear(&mut counting)).is_err();
        let kept = kept + counting.entries;
        if kept > 0 && !is_stopped {
            let text =
                format!("some entries failed, so extraneous entries kept: {kept} (--ignore-errors deletes them)");
            self.job.reporter.send(&WorkerMessage::Warning { text });
        }
    }

    /// Gives a directory in which something was removed the metadata that it is to have: where nothing else is done,
    /// its times from before.
    fn restore(&self, later: &DeferredRemoval, was: Option<FileStat>) {
        let ReceiverEntry::Directory { dir, fresh, meta, attributes, .. } = &*later.item else { return };
        let restored = match (self.removes_only(), was) {
            // An attribute that cannot be set was reported when the directory was complete.
            (false, _) => self.metadata.complete_directory(dir, *fresh, meta, attributes.as_deref()).map(|_| ()),
            (true, Some(was)) => {
                let keep = MetadataParts { owner: false, mode: None, times: true };
                dir.fd()
                    .and_then(|fd| apply(&*fd, &was.meta, keep))
                    .and_then(|_| self.metadata.commit_queue.settle_directory(dir))
            }
            (true, None) => Ok(()),
        };
        // Times of another user's directory cannot be restored.
        if let Err(error) =
            restored.or_else(|error| if self.removes_only() && is_not_ours(&error) { Ok(()) } else { Err(error) })
        {
            self.job.fail(self.job.destination.path(&dir.path_bytes()), describe(&error));
        }
    }
}

/// Unfinished files stay for the next run. A directory of such a name was replaced by a run that was killed then.
fn is_unfinished(name: &Name, kind: FileType) -> bool {
    name.is_reserved() && kind != FileType::Directory
}

#[cfg(test)]
#[path = "extraneous_tests.rs"]
mod tests;
