//! Removal of extraneous entries on request, in each directory after its last entry, or after the whole copy
//! ([`crate::receiver::delete::extraneous`]). Also removal of entries that the source's replace.
//!
//! Never removed: haul's partial files, excluded entries, the backup directory, earlier copies, the sources themselves,
//! and other file systems.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use haul_base::sys::describe::describe;
use haul_base::sys::sync::lock;
use haul_proto::entry::{Entry, EntryLocation};
use haul_proto::filter::FilterScope;
use haul_proto::ids::EntryId;
use haul_proto::overwrite_policy::OverwriteRefusal;
use haul_proto::path::Name;
use haul_proto::session::step::ParentDirectory;
use haul_proto::sync::DeleteMode;
use haul_proto::wire::list_batch::ListedKinds;
use haul_proto::wire::report::WorkerMessage;
use haul_proto::wire::request::{TargetOperand, TargetRequest};
use rustix::fs::FileType;

use crate::fs::{Dir, FileIdentity, FileStat, FollowLinks};
use crate::receiver::delete::Removals;
use crate::receiver::delete::extraneous::DeferredRemovals;
use crate::receiver::delete::remove_tree::{KeptEntry, RemovalLimit, TreeClearing, sorted_names};
use crate::receiver::entry::ReceiverEntry;
use crate::receiver::place::destination::RefusedRequest;
use crate::receiver::place::entry_position::TreeReplacement;
use crate::receiver::place::error::FileError;
use crate::receiver::session::ReceiverSession;
use crate::receiver::source_names::SourceNames;
use crate::sys::machine;

/// Warning when a source could not be listed.
const HINDERED: &str =
    "the source was not listed completely, so nothing more is deleted (--ignore-errors deletes anyway)";
/// Error when the expected contents of a directory are unknown.
const MERGED: &str = "--delete cannot be used where the contents of several sources go into one directory\nuse one source with a trailing slash, or several without";

/// State of all removals.
pub struct ExtraneousRemoval {
    /// Entries that are never removed.
    kept: HashMap<FileIdentity, KeptEntry>,
    /// Paths of several source arguments, and the directories above them.
    operand_paths: HashSet<Vec<u8>>,
    /// Some sources are not directories.
    keeps_files: bool,
    state: Mutex<RemovalState>,
    stopped: AtomicBool,
}

/// Progress of removals.
#[derive(Default)]
pub(crate) struct RemovalState {
    /// Removed entries, including earlier attempts.
    removed: u64,
    /// `--max-delete` was exceeded and reported.
    pub is_over: bool,
    /// A source could not be listed completely, which was reported.
    pub is_hindered: bool,
    /// Extraneous entries kept because another entry had failed before.
    pub kept: u64,
    /// Removals at the end of the copy.
    pub laters: DeferredRemovals,
}

impl ExtraneousRemoval {
    /// The sources are never removed, and neither are the directories `kept`.
    pub fn prepare(request: &TargetRequest, kept: impl Iterator<Item = FileIdentity>) -> Result<Self, RefusedRequest> {
        let sync = &request.sync;
        if sync.deletes() && has_nested_directories(request) {
            return Err(RefusedRequest::usage(MERGED.into()));
        }
        let is_here = (sync.deletes() || sync.replaces_trees) && request.source_boot == machine::boot_id();
        let sources = || request.operands.iter().filter(|_| is_here);
        let identity = |source: &TargetOperand| FileIdentity { device: source.device, inode: source.inode };
        let has_several = sync.deletes() && request.operands.len() > 1;
        let paths = (0..request.operands.len()).filter(|_| has_several).map(|number| operand_path(request, number));
        let with_parents = |path: Vec<&[u8]>| (1..=path.len()).map(|len| path[..len].join(&b'/')).collect::<Vec<_>>();
        let operand_paths = paths.flat_map(with_parents).collect();
        let sources_kept = sources().map(|one| (identity(one), KeptEntry::Source));
        Ok(Self {
            // An entry of both groups is not reported.
            kept: sources_kept.chain(kept.map(|dir| (dir, KeptEntry::Copy))).collect(),
            operand_paths,
            keeps_files: sources().any(|source| !source.directory),
            state: Mutex::new(RemovalState { removed: sync.removed_before, ..RemovalState::default() }),
            stopped: AtomicBool::new(false),
        })
    }

    /// What this entry is, if it is never removed.
    pub fn kept_entry(&self, identity: FileIdentity) -> Option<KeptEntry> {
        self.kept.get(&identity).copied()
    }

    /// Whether this is the path of one of several source arguments, or leads there.
    pub fn leads_to_operand(&self, path: &[u8]) -> bool {
        self.operand_paths.contains(path)
    }

    /// Whether entries other than directories may be protected.
    pub fn keeps_files(&self) -> bool {
        self.keeps_files
    }

    /// Returns the reservation of an entry that was not removed.
    pub fn give_back(&self) {
        let mut state = lock(&self.state);
        state.removed = state.removed.saturating_sub(1);
    }

    /// Stops all removals.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether removal has stopped.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

/// The path of a source argument below the destination.
fn operand_path(request: &TargetRequest, number: usize) -> Vec<&[u8]> {
    let below = request.below.get(number).into_iter().flatten();
    let name = request.operands.get(number).and_then(|operand| operand.name.as_ref());
    below.chain(name).map(Name::as_bytes).collect()
}

/// Whether a directory that is a source argument goes into that of another one, or they are the same.
fn has_nested_directories(request: &TargetRequest) -> bool {
    let directories = (0..request.operands.len()).filter(|number| request.operands[*number].directory);
    let mut paths: Vec<_> = directories.map(|number| operand_path(request, number)).collect();
    paths.sort_unstable();
    paths.windows(2).any(|pair| pair[1].starts_with(&pair[0]))
}

impl Removals {
    /// Whether the copy only removes, without copying.
    pub(crate) fn removes_only(&self) -> bool {
        self.copy.request.sync.delete == DeleteMode::Only
    }

    /// Storage for the source's names in a directory whose extraneous entries will be removed; `above` is the answer
    /// for its parent.
    pub(crate) fn names_for(&self, dir: &Dir, above: bool) -> Option<SourceNames> {
        let is_swept =
            above && self.copy.request.sync.deletes() && self.extraneous.kept_entry(dir.identity()).is_none();
        is_swept.then(|| SourceNames::new(&self.name_budget))
    }

    /// As [`Self::names_for`], for the directory of a source argument: without `--max-delete`, an empty one deletes
    /// nothing. Among changed paths alone, no name says nothing about the directory.
    pub(crate) fn names_for_argument(&self, dir: &Dir, above: bool) -> Option<SourceNames> {
        let names = self.names_for(dir, above)?;
        let is_guarded = self.copy.request.sync.delete_max.is_none() && self.copy.request.filters.changed.is_none();
        Some(if is_guarded { names.of_argument() } else { names })
    }

    /// Whether all entries of a directory that is a source argument are known. Those of a list arrive later.
    pub(crate) fn sweeps_operands(&self) -> bool {
        self.copy.request.listed == ListedKinds::No
    }

    /// Whether filters protect what they exclude. rsync's rules say themselves which do.
    pub(crate) fn protects_excluded(&self) -> bool {
        self.filter.is_rsync() || !self.copy.request.sync.delete_filtered
    }

    /// Enters an offered directory. Nothing more is removed if filter files of the target are not valid.
    pub(crate) fn enter_filtered(&self, id: EntryId, offered: &Entry, entered: &ReceiverEntry) {
        let dir = if let ReceiverEntry::Directory { dir, .. } = entered { Some(dir) } else { None };
        if let Err(error) = self.filter.enter(id, offered, dir) {
            self.extraneous.stop();
            let path = dir.map(Dir::path_bytes).unwrap_or_default();
            self.copy.fail(self.copy.destination.path(&path), describe(&error));
        }
    }

    /// Records excluded source names of a directory.
    pub(crate) fn note_excluded(&self, directory: &ReceiverEntry, left_out: &[Name]) {
        if !self.copy.request.sync.delete_filtered {
            self.keep_names(directory, left_out);
        }
    }

    /// Records names of a directory that are not extraneous.
    pub(crate) fn keep_names(&self, directory: &ReceiverEntry, kept: &[Name]) {
        if let ReceiverEntry::Directory { names: Some(names), .. } = directory {
            kept.iter().for_each(|name| names.add(name));
        }
    }

    /// Blocks removal because a source could not be listed completely. Reports this once.
    pub(crate) fn block_removal(&self) {
        let sync = &self.copy.request.sync;
        if sync.deletes() && !sync.delete_despite_errors && !std::mem::replace(&mut self.removing().is_hindered, true) {
            self.copy.reporter.send(&WorkerMessage::Warning { text: HINDERED.into() });
        }
    }

    /// Whether extraneous entries are kept because another entry failed: an extraneous entry may be the last copy,
    /// under an earlier name.
    pub(crate) fn keeps_after_failure(&self) -> bool {
        !self.copy.request.sync.delete_despite_errors && self.copy.has_failed_entries.load(Ordering::Relaxed)
    }

    pub(crate) fn removing(&self) -> MutexGuard<'_, RemovalState> {
        lock(&self.extraneous.state)
    }

    /// Whether an existing entry may be replaced. A directory is replaced only on request or if empty, and not if
    /// filters protect parts of it. Its contents count as removed from here on.
    pub(crate) fn may_clear(
        &self,
        dir: &Dir,
        name: &Name,
        place: &EntryLocation,
    ) -> Result<TreeReplacement, FileError> {
        self.may_still_clear(dir, name, TreeReplacement { scope: self.filter.scope_of(place), reserved: 0 })
    }

    /// The same check for a directory with an earlier decision: entries may have been added meanwhile.
    pub(crate) fn may_still_clear(
        &self,
        dir: &Dir,
        name: &Name,
        removal: TreeReplacement,
    ) -> Result<TreeReplacement, FileError> {
        let Some(kind) = kind_of(dir, name)? else { return Ok(removal) };
        if kind == FileType::Directory && !self.copy.request.sync.replaces_trees {
            return match sorted_names(&self.metadata.enter(dir, name)?)?.is_empty() {
                true => Ok(removal),
                false => Err(FileError::Refused(OverwriteRefusal::IsDirectory)),
            };
        }
        let protects = kind == FileType::Directory && self.protects_excluded();
        let scope = removal.scope.as_ref().filter(|_| protects);
        if self.filter.leaves_out(scope.and_then(|own| own.above()), name, true) {
            return Err(FileError::ProtectedTree);
        }
        let mut counting = TreeClearing::counting(self).below();
        match counting.clear_within(dir, name, kind, scope.cloned()) {
            Ok(true) => {}
            Ok(false) if counting.is_protected => return Err(FileError::ProtectedTree),
            Ok(false) if kind == FileType::Directory => return Err(FileError::UndeletableTree),
            Ok(false) => return Err(FileError::SourceInside),
            Err(RemovalLimit) => return Err(FileError::Stopped),
        }
        let entries = counting.entries;
        match self.reserve(entries.saturating_sub(removal.reserved)) {
            Ok(()) => Ok(TreeReplacement { reserved: entries.max(removal.reserved), ..removal }),
            Err(max) => Err(FileError::LargeTree { entries, max }),
        }
    }

    /// Removes an existing entry for its replacement, as decided. A directory is removed with its contents on request;
    /// otherwise it must be empty. The entry itself is not reported.
    pub(crate) fn clear_for_replacement(
        &self,
        dir: &Dir,
        name: &Name,
        removal: &TreeReplacement,
    ) -> Result<(), FileError> {
        let Some(kind) = kind_of(dir, name)? else { return Ok(()) };
        match self.clearing(removal).clear_within(dir, name, kind, self.protecting(removal)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(FileError::UndeletableTree),
            Err(RemovalLimit) => Err(FileError::Stopped),
        }
    }

    /// A walk that removes a directory's contents, by an earlier decision.
    pub(crate) fn clearing(&self, removal: &TreeReplacement) -> TreeClearing<'_> {
        let reserved = self.copy.request.sync.delete_max.map(|_| removal.reserved);
        TreeClearing::new(self).below().within(reserved)
    }

    /// The filter scope that protects entries of such a directory.
    pub(crate) fn protecting(&self, removal: &TreeReplacement) -> Option<Arc<FilterScope>> {
        removal.scope.clone().filter(|_| self.protects_excluded())
    }

    /// Counts entries as removed. If that exceeds the limit, returns the limit as an error.
    fn reserve(&self, entries: u64) -> Result<(), u64> {
        let mut state = self.removing();
        let removed = state.removed.saturating_add(entries);
        match self.copy.request.sync.delete_max.filter(|most| removed > *most) {
            Some(most) => Err(most),
            None => {
                state.removed = removed;
                Ok(())
            }
        }
    }

    /// Reserves removals for up to this many entries. Returns the number reserved; a shortage is reported once.
    pub(crate) fn reserve_some(&self, entries: u64) -> u64 {
        let mut state = self.removing();
        let Some(most) = self.copy.request.sync.delete_max else { return entries };
        let reserved = entries.min(most.saturating_sub(state.removed));
        state.removed += reserved;
        let is_news = reserved < entries && !std::mem::replace(&mut state.is_over, true);
        drop(state);
        if is_news {
            self.copy.fail(self.copy.destination.path(b""), over_most(most));
        }
        reserved
    }

    /// Whether this copy excludes a type of entry: FIFOs, sockets and devices.
    pub(crate) fn leaves_out_kind(&self, kind: FileType) -> bool {
        let kept = self.copy.request.metadata.preserve;
        let is_carried = match kind {
            FileType::CharacterDevice | FileType::BlockDevice => kept.devices,
            FileType::Fifo | FileType::Socket => kept.specials,
            _ => true,
        };
        !is_carried && !self.copy.request.sync.delete_filtered
    }

    /// The error if these entries and those in replaced directories exceed the limit.
    pub(crate) fn too_many_with(&self, entries: u64) -> Option<String> {
        let sync = &self.copy.request.sync;
        let removed = self.removing().removed;
        let most = sync.delete_max.filter(|most| removed.saturating_add(entries) > *most)?;
        let (replaced, rest) = match removed.saturating_sub(sync.removed_before) {
            0 => (String::new(), "nothing was deleted"),
            replaced => (format!(" with {replaced} in replaced directories"), "the others are kept"),
        };
        let before = match sync.removed_before {
            0 => String::new(),
            before => format!(", including {before} deleted before"),
        };
        let all = entries.saturating_add(removed.saturating_sub(sync.removed_before));
        Some(format!(
            "{all} extraneous entries{replaced}, but --max-delete permits {most}{before}: {rest}\nraise --max-delete"
        ))
    }

    /// Reserves one removal. A shortage is reported once.
    pub(crate) fn take_from_max(&self) -> Result<(), RemovalLimit> {
        let mut state = self.removing();
        let Some(most) = self.copy.request.sync.delete_max.filter(|most| state.removed >= *most) else {
            state.removed += 1;
            return Ok(());
        };
        if !std::mem::replace(&mut state.is_over, true) {
            drop(state);
            self.copy.fail(self.copy.destination.path(b""), over_most(most));
        }
        Err(RemovalLimit)
    }

    /// Whether this is a source itself. Reports it if `reports` is set.
    pub(crate) fn is_operand(&self, dir: &Dir, name: &Name, reports: bool) -> bool {
        let stat = dir.fd().and_then(|fd| FileStat::at_name(&*fd, name, FollowLinks::Itself));
        let is_source = stat.is_ok_and(|stat| self.extraneous.kept_entry(stat.identity) == Some(KeptEntry::Source));
        if is_source && reports {
            self.copy.fail(self.copy.destination.path(&dir.path_of(name.as_bytes())), FileError::SourceInside);
        }
        is_source
    }
}

impl Removals {
    /// Records a name of the source.
    pub(crate) fn note_name(&self, session: &ReceiverSession, entry: &Entry) {
        let EntryLocation::Child { name, .. } = &entry.place else { return };
        if !self.copy.request.sync.deletes() {
            return;
        }
        let parent = session.read(|machine| machine.parent(&entry.place));
        if let ParentDirectory::Open(parent) = parent
            && let ReceiverEntry::Directory { names: Some(names), .. } = &*parent
        {
            names.add(name);
        }
    }
}

fn over_most(most: u64) -> String {
    format!("more extraneous entries than --max-delete permits ({most}): the others are kept\nraise --max-delete")
}

fn kind_of(dir: &Dir, name: &Name) -> io::Result<Option<FileType>> {
    match FileStat::at_name(&*dir.fd()?, name, FollowLinks::Itself) {
        Ok(stat) => Ok(Some(stat.kind)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
#[path = "removal_tests.rs"]
pub(crate) mod tests;
