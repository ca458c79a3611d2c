//! What is at the target alone is removed, where that was asked for: in each directory when all that belongs in it is
//! there, or when everything is ([`Delete`]).
//!
//! Never removed are unfinished files of haul, what filters leave out, the directory for backups, earlier copies, the
//! sources themselves, and what lies on another file system.

use haul_proto::filter::Scope;
use haul_proto::manifest::{Entry, Kind, Place};
use haul_proto::need::Refusal;
use haul_proto::path::Name;
use haul_proto::session::target::{Answer, Parent};
use haul_proto::wire::listed::ListedKinds;
use haul_proto::wire::report::WorkerMessage;
use haul_proto::wire::request::{Operand, TargetRequest};
use haul_proto::wire::sync::Delete;
use rustix::fs::FileType;
use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::backup::from_landing;
use super::clear::{Clearing, Enough, remove_directory, sorted_names};
use super::landing::{Landing, LandingKind, Refused};
use super::names::Names;
use super::spelling::folds;
use super::{Item, Target};
use crate::fs::{Dir, Identity, Links, Look, describe};
use crate::os::machine;
use crate::worker::lock;

/// Most entries that are remembered for the end.
const LATER_MAX: usize = 1_000_000;
/// Most rules of filters that are remembered with them.
const LATER_RULES_MAX: usize = 1 << 17;
/// Said of a source that would be removed.
const IS_SOURCE: &str =
    "the source lies in the target, where it is not among what the source has: it stays\nmove one of them";
/// Said where a source could not be listed.
const HINDERED: &str = "the source could not be listed to its end: nothing more is removed at the target; --ignore-errors removes it all the same";
/// Said where more would be remembered than may be.
const TOO_MANY: &str = "more is at the target alone than can be remembered: nothing of it was removed\nuse --delete=during, which removes it as it is found";
/// Said of a directory of whose names too many would have to be kept.
const TOO_MANY_NAMES: &str =
    "it has too many names: what is at the target alone was not removed\nremove it by hand, or copy it by itself";
/// Said where what is in the way cannot go as a whole.
const NOT_ALL: &str = "a directory stands there, and not all that is in it can be removed\nmove it away";

/// Said where a job ended meanwhile.
const STOPPED: &str = "the job was stopped";
/// Said where it cannot be known what belongs into a directory.
const MERGED: &str = "what is in several directories goes into one, and what is there alone cannot be told\nwith --delete, name one source whose contents are meant, or name all of them without a slash at the end";

/// What is known of what is removed.
pub struct Removal {
    /// What is never removed; with what is said of it, if anything.
    kept: Vec<(Identity, Option<&'static str>)>,
    /// Some of them are no directories.
    keeps_files: bool,
    state: Mutex<State>,
    stopped: AtomicBool,
}

#[derive(Default)]
struct State {
    /// How many entries were removed.
    removed: u64,
    /// It was told that there are more than may be.
    is_over: bool,
    /// A source could not be listed to its end, which was told.
    is_hindered: bool,
    /// What is removed in the end.
    later: Vec<Later>,
    later_entries: usize,
    /// Where the directories of filters are that are remembered, and how many rules they have.
    scopes: HashSet<usize>,
    rules: usize,
    /// There was too much to be remembered, which was told.
    is_too_much: bool,
}

/// What is to be removed in a directory.
struct Later {
    /// The directory.
    item: Arc<Item>,
    extras: Vec<(Name, FileType)>,
    scope: Option<Arc<Scope>>,
}

impl Removal {
    /// What is never removed, is looked at now.
    pub fn prepare(request: &TargetRequest, landing: &Landing, backup: Option<&Dir>) -> Result<Self, Refused> {
        let sync = &request.sync;
        let removes = sync.deletes() || sync.replaces_trees;
        if sync.deletes() && request.operands.len() > 1 && request.operands.iter().any(|one| one.name.is_none()) {
            return Err(Refused::usage(MERGED.into()));
        }
        let earlier = sync.link_dests.iter().filter(|_| removes).filter_map(|path| {
            let stat = rustix::fs::stat(from_landing(request, landing, path)).ok()?;
            Some((Look::from(&stat).identity, None))
        });
        let is_here = removes && request.source_boot == machine::boot_id();
        let operands = || request.operands.iter().filter(|_| is_here);
        let identity = |operand: &Operand| Identity { device: operand.device, inode: operand.inode };
        let sources = operands().map(|operand| (identity(operand), Some(IS_SOURCE)));
        let backup = backup.map(|dir| (dir.identity(), None));
        Ok(Self {
            kept: backup.into_iter().chain(earlier).chain(sources).collect(),
            keeps_files: operands().any(|operand| !operand.directory),
            state: Mutex::default(),
            stopped: AtomicBool::new(false),
        })
    }

    /// Whether this is never removed; with what is to be said of it, if anything.
    pub fn is_kept(&self, identity: Identity) -> Option<Option<&'static str>> {
        self.kept.iter().find(|(kept, _)| *kept == identity).map(|(_, why)| *why)
    }

    /// Whether that can be said of what is no directory.
    pub fn keeps_files(&self) -> bool {
        self.keeps_files
    }

    /// One that was counted was not removed.
    pub fn give_back(&self) {
        let mut state = lock(&self.state);
        state.removed = state.removed.saturating_sub(1);
    }

    /// Whoever removes something, stops.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether nothing more is to be removed.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

impl Target {
    /// Makes room for something that replaces what stands there. A directory goes with all that is in it where that was
    /// asked for; else it has to be empty. What stands there itself is not told.
    pub(super) fn make_way(&self, dir: &Dir, name: &Name) -> io::Result<()> {
        let kind = match Look::at_name(&*dir.fd()?, name, Links::Itself) {
            Ok(look) => look.kind,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let refused = |text: String| Err(io::Error::other(text));
        if kind == FileType::Directory && !self.request.sync.replaces_trees {
            return match self.remove_empty(dir, name) {
                Ok(true) => Ok(()),
                Ok(false) => refused(Refusal::IsDirectory.text().into()),
                Err(error) => Err(error),
            };
        }
        let mut counting = Clearing::counting(self).below();
        match counting.clear(dir, name, kind, None) {
            Ok(true) => {}
            Ok(false) if kind == FileType::Directory => return refused(NOT_ALL.into()),
            Ok(false) => return refused(IS_SOURCE.into()),
            Err(Enough) => return refused(STOPPED.into()),
        }
        if let Some(most) = self.most_removed_with(counting.entries) {
            let entries = counting.entries;
            return refused(format!(
                "a directory of {entries} entries stands there, and at most {most} may be removed\nallow more with --max-delete"
            ));
        }
        match Clearing::new(self).below().clear(dir, name, kind, None) {
            Ok(true) => Ok(()),
            Ok(false) => refused(NOT_ALL.into()),
            Err(Enough) => refused(STOPPED.into()),
        }
    }

    /// Removes a directory if nothing is in it; `false` where something is.
    fn remove_empty(&self, dir: &Dir, name: &Name) -> io::Result<bool> {
        let is_empty = sorted_names(&dir.child(name)?)?.is_empty();
        if is_empty && !self.is_dry() {
            remove_directory(dir, name)?;
        }
        Ok(is_empty)
    }

    /// How many may be removed, where so many more are too many.
    fn most_removed_with(&self, entries: u64) -> Option<u64> {
        let removed = lock(&self.removal.state).removed;
        self.request.sync.delete_max.filter(|most| removed.saturating_add(entries) > *most)
    }

    /// One more is to be removed. Where no more may be, that is told once.
    pub(super) fn take_from_max(&self) -> Result<(), Enough> {
        let mut state = lock(&self.removal.state);
        let Some(most) = self.request.sync.delete_max.filter(|most| state.removed >= *most) else {
            state.removed += 1;
            return Ok(());
        };
        if !std::mem::replace(&mut state.is_over, true) {
            drop(state);
            let text = format!(
                "at most {most} entries may be removed, and more are at the target alone: the others stay\nallow more with --max-delete"
            );
            self.fail(self.landing.path(b""), text);
        }
        Err(Enough)
    }

    /// Whether this is a source itself; says so where it `tells`.
    pub(super) fn is_operand(&self, dir: &Dir, name: &Name, tells: bool) -> bool {
        let look = dir.fd().and_then(|fd| Look::at_name(&*fd, name, Links::Itself));
        let why = look.ok().and_then(|look| self.removal.is_kept(look.identity)).flatten();
        if let Some(why) = why.filter(|_| tells) {
            self.fail(self.landing.path(&dir.path_of(name.as_bytes())), why);
        }
        why.is_some()
    }
}

#[cfg(test)]
#[path = "removal_tests.rs"]
mod tests;
