//! Reconciliation: joins the updates of both sides into a decision for each path.
//!
//! A path is a conflict where both sides updated it and the contents differ, or where one side removed a directory below
//! which the other has updates (Pierce and Vouillon, 2004). Such a conflict covers everything below the path.

use std::collections::{HashSet, VecDeque};

use super::ReplicaSide;
use super::detect::ReplicaUpdate;
use super::entry::{ReplicaContent, ReplicaEntry, TreePath};
use super::join::TreeJoin;
use super::merge::MetadataRules;
use crate::entry::Timestamp;
use crate::error::ProtocolError;

/// A path as one side has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SideState {
    /// The entry; of a side without an update, the base's, without a stamp.
    pub entry: Option<ReplicaEntry>,
    /// Whether this side changed it since the base.
    pub is_updated: bool,
}

/// What becomes of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathVerdict {
    /// Both sides get this entry.
    Agreed {
        /// The entry; `None`: there will be none.
        entry: Option<ReplicaEntry>,
        /// The side that has its contents.
        from: ReplicaSide,
    },
    /// Nothing happens here until somebody decides.
    Conflict(ConflictKind),
    /// Nothing happens: it is below a conflict.
    WithinConflict,
}

/// What conflicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConflictKind {
    /// Contents, or the existence of a path; it covers everything below.
    Contents,
    /// Metadata, of equal contents; what is below is free.
    Metadata,
}

/// The decision about a path that at least one side updated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathDecision {
    /// The path.
    pub path: TreePath,
    /// The base's entry, without a stamp.
    pub base: Option<ReplicaEntry>,
    /// State at A and at B.
    pub sides: [SideState; 2],
    /// What becomes of it.
    pub verdict: PathVerdict,
    /// A file that moves here instead of a copy (`renames`).
    pub moved_from: Option<TreePath>,
    /// The path to which a file moves instead of its deletion.
    pub moved_to: Option<TreePath>,
    /// The name under which the replaced file stays (`prefer`).
    pub keep_as: Option<TreePath>,
    /// Whether it is such a name, which exists only after the other file's action.
    pub is_kept: bool,
}

impl PathDecision {
    /// Returns the state at a side.
    pub fn side(&self, side: ReplicaSide) -> &SideState {
        &self.sides[side.index()]
    }

    pub(super) fn new(path: TreePath, base: Option<ReplicaEntry>, sides: [SideState; 2], verdict: PathVerdict) -> Self {
        Self { path, base, sides, verdict, moved_from: None, moved_to: None, keep_as: None, is_kept: false }
    }

    fn of_updates(pair: (Option<ReplicaUpdate>, Option<ReplicaUpdate>), rules: &MetadataRules) -> Option<Self> {
        let (a, b) = pair;
        let known = a.as_ref().or(b.as_ref())?;
        let (path, base) = (known.path.clone(), known.archived.as_ref().map(ReplicaEntry::without_stamp));
        let state = |update: Option<ReplicaUpdate>| match update {
            Some(update) => SideState { entry: update.found, is_updated: true },
            None => SideState { entry: base.clone(), is_updated: false },
        };
        let sides = [state(a), state(b)];
        let verdict = verdict(base.as_ref(), &sides, rules);
        Some(Self::new(path, base, sides, verdict))
    }

    /// Returns the side whose directory goes because the other side removed or replaced it.
    fn side_losing_directory(&self) -> Option<ReplicaSide> {
        let PathVerdict::Agreed { entry, from } = &self.verdict else { return None };
        let stays = entry.as_ref().is_some_and(|entry| entry.content.is_directory());
        let has = self.side(from.other()).entry.as_ref().is_some_and(|entry| entry.content.is_directory());
        (has && !stays).then_some(from.other())
    }
}

fn verdict(base: Option<&ReplicaEntry>, sides: &[SideState; 2], rules: &MetadataRules) -> PathVerdict {
    let agreed = |entry: Option<&ReplicaEntry>, from| PathVerdict::Agreed {
        entry: entry.map(ReplicaEntry::without_stamp),
        from,
    };
    let [a, b] = sides;
    match (&a.entry, &b.entry) {
        (None, None) => agreed(None, ReplicaSide::A),
        (Some(one), Some(two)) => both_present(base, sides, [one, two], rules),
        _ if a.is_updated && b.is_updated => PathVerdict::Conflict(ConflictKind::Contents),
        (entry, _) if a.is_updated => agreed(entry.as_ref(), ReplicaSide::A),
        (_, entry) => agreed(entry.as_ref(), ReplicaSide::B),
    }
}

fn both_present(
    base: Option<&ReplicaEntry>,
    sides: &[SideState; 2],
    entries: [&ReplicaEntry; 2],
    rules: &MetadataRules,
) -> PathVerdict {
    let [a, b] = entries;
    let merged = |content| rules.merge(content, base.map(|base| &base.metadata), entries.map(|entry| &entry.metadata));
    let agreed = |content: &ReplicaContent, metadata, from| PathVerdict::Agreed {
        entry: Some(ReplicaEntry { content: content.clone(), metadata, stamp: None }),
        from,
    };
    if a.content.is_same(&b.content) == Some(true) {
        let conflict = PathVerdict::Conflict(ConflictKind::Metadata);
        return merged(&a.content).map_or(conflict, |metadata| agreed(&a.content, metadata, ReplicaSide::A));
    }
    let is_new = |side: ReplicaSide| {
        let same = base.and_then(|base| base.content.is_same(&entries[side.index()].content));
        sides[side.index()].is_updated && same != Some(true)
    };
    let from = match (is_new(ReplicaSide::A), is_new(ReplicaSide::B)) {
        (true, false) => ReplicaSide::A,
        (false, true) => ReplicaSide::B,
        _ => return PathVerdict::Conflict(ConflictKind::Contents),
    };
    let (new, other) = (entries[from.index()], entries[from.other().index()]);
    if !sides[from.other().index()].is_updated {
        return agreed(&new.content, new.metadata, from);
    }
    let is_same_kind = std::mem::discriminant(&new.content) == std::mem::discriminant(&other.content);
    match merged(&new.content).filter(|_| is_same_kind) {
        None => PathVerdict::Conflict(ConflictKind::Contents),
        Some(mut metadata) => {
            metadata.basic.modified = new.metadata.basic.modified;
            agreed(&new.content, metadata, from)
        }
    }
}

/// Joins the updates of both sides, each in the order of the tree, into decisions in that order. It holds the updates
/// below one removed directory at a time.
#[derive(Debug)]
pub struct Reconcile<A, B> {
    join: TreeJoin<A, B, ReplicaUpdate, ReplicaUpdate>,
    rules: MetadataRules,
    /// Decisions that were read ahead, final.
    ready: VecDeque<PathDecision>,
    /// A decision that was read ahead, not yet looked at.
    ahead: Option<PathDecision>,
    /// The conflict that covers what is below it.
    conflict: Option<TreePath>,
}

impl<A, B, E> Reconcile<A, B>
where
    A: Iterator<Item = Result<ReplicaUpdate, E>>,
    B: Iterator<Item = Result<ReplicaUpdate, E>>,
    E: From<ProtocolError>,
{
    /// Joins the updates of A and of B.
    pub fn new(a: A, b: B, rules: MetadataRules) -> Self {
        Self { join: TreeJoin::new(a, b), rules, ready: VecDeque::new(), ahead: None, conflict: None }
    }

    fn read(&mut self) -> Result<Option<PathDecision>, E> {
        if let Some(decision) = self.ahead.take() {
            return Ok(Some(decision));
        }
        let Some(pair) = self.join.next().transpose()? else { return Ok(None) };
        if let (Some(a), Some(b)) = &pair {
            let base_of = |update: &ReplicaUpdate| update.archived.as_ref().map(ReplicaEntry::without_stamp);
            if base_of(a) != base_of(b) {
                return Err(ProtocolError::Invalid("updates of different bases").into());
            }
        }
        Ok(PathDecision::of_updates(pair, &self.rules))
    }

    fn decide(&mut self) -> Result<Option<PathDecision>, E> {
        if let Some(decision) = self.ready.pop_front() {
            return Ok(Some(decision));
        }
        let Some(mut decision) = self.read()? else { return Ok(None) };
        if self.conflict.as_ref().is_some_and(|conflict| decision.path.is_below(conflict)) {
            decision.verdict = PathVerdict::WithinConflict;
            return Ok(Some(decision));
        }
        self.conflict = None;
        if let Some(losing) = decision.side_losing_directory() {
            self.look_below(&mut decision, losing)?;
        } else if decision.verdict == PathVerdict::Conflict(ConflictKind::Contents) {
            self.conflict = Some(decision.path.clone());
        }
        Ok(Some(decision))
    }

    /// Makes the removal of a directory a conflict where the losing side has updates below it.
    fn look_below(&mut self, directory: &mut PathDecision, losing: ReplicaSide) -> Result<(), E> {
        let mut is_conflict = false;
        while let Some(below) = self.read()? {
            if !below.path.is_below(&directory.path) {
                self.ahead = Some(below);
                break;
            }
            let state = below.side(losing);
            is_conflict |= state.is_updated && state.entry.is_some();
            self.ready.push_back(below);
        }
        if is_conflict {
            directory.verdict = PathVerdict::Conflict(ConflictKind::Contents);
            self.ready.iter_mut().for_each(|below| below.verdict = PathVerdict::WithinConflict);
        }
        Ok(())
    }
}

impl<A, B, E> Iterator for Reconcile<A, B>
where
    A: Iterator<Item = Result<ReplicaUpdate, E>>,
    B: Iterator<Item = Result<ReplicaUpdate, E>>,
    E: From<ProtocolError>,
{
    type Item = Result<PathDecision, E>;

    fn next(&mut self) -> Option<Self::Item> {
        self.decide().transpose()
    }
}

/// Returns the files of A and of B that must be hashed before the reconciliation: both sides updated them to the same
/// size, or they may have been moved from a file of the same size that is gone. Where both sides updated a path, a file
/// that was written just before its side's scan is hashed as well: otherwise the look before an action cannot tell
/// whether it is still the same. `scanned_at` are the clocks of A and of B at the starts of their scans.
pub fn wanted_digests<E: From<ProtocolError>>(
    a: impl Iterator<Item = Result<ReplicaUpdate, E>>,
    b: impl Iterator<Item = Result<ReplicaUpdate, E>>,
    scanned_at: [Timestamp; 2],
) -> Result<[Vec<TreePath>; 2], E> {
    let (mut wanted, mut sides) = ([Vec::new(), Vec::new()], [MoveSizes::default(), MoveSizes::default()]);
    for pair in TreeJoin::new(a, b) {
        let pair: [Option<ReplicaUpdate>; 2] = pair?.into();
        let [one, two] = pair.each_ref().map(|update| update.as_ref()?.found.as_ref()?.content.file_size());
        for (side, update) in pair.iter().enumerate() {
            let Some(update) = update else { continue };
            let is_unread = update.found.as_ref().is_some_and(|found| found.content.fingerprint().is_none());
            let stamp = update.found.as_ref().and_then(|found| found.quick_identity());
            let is_recent = stamp.is_some_and(|(_, stamp)| stamp.trusted(scanned_at[side]).is_none());
            if is_unread && (one.is_some() && one == two || is_recent && pair.iter().all(Option::is_some)) {
                wanted[side].push(update.path.clone());
            } else {
                sides[side].add(update, is_unread);
            }
        }
    }
    for (wanted, MoveSizes { gone, new }) in wanted.iter_mut().zip(sides) {
        wanted.extend(new.into_iter().filter(|(_, size)| gone.contains(size)).map(|(path, _)| path));
        wanted.sort();
    }
    Ok(wanted)
}

/// Sizes of one side's removed files, and its new files.
#[derive(Debug, Default)]
struct MoveSizes {
    gone: HashSet<u64>,
    new: Vec<(TreePath, u64)>,
}

impl MoveSizes {
    fn add(&mut self, update: &ReplicaUpdate, is_unread: bool) {
        let size_of = |entry: &Option<ReplicaEntry>| entry.as_ref()?.content.file_size().filter(|size| *size > 0);
        match (size_of(&update.archived), size_of(&update.found)) {
            (Some(size), None) => drop(self.gone.insert(size)),
            (None, Some(size)) if is_unread => self.new.push((update.path.clone(), size)),
            _ => {}
        }
    }
}

#[cfg(test)]
#[path = "reconcile_tests.rs"]
pub(super) mod tests;
