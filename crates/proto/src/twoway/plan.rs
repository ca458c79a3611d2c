//! The plan: actions in an order that is safe to apply, and the next archive once they are done.

use std::collections::{BTreeMap, BTreeSet};

use super::ReplicaSide;
use super::attributes::ActionAttributes;
use super::entry::{FileStamp, PathEntry, ReplicaContent, ReplicaEntry, TreePath};
use super::join::{AtPath, TreeJoin};
use super::merge::{DIRECTORY_WORK_MODE, MetadataRules};
use super::reconcile::{PathDecision, PathVerdict};
use crate::codec::{Wire, wire_enum, wire_struct};
use crate::encoding::Writer;
use crate::entry::Timestamp;
use crate::error::ProtocolError;
use crate::integrity::Digest;

wire_enum! {
    /// What an action does at its side.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub enum ActionKind: "action of a plan" {
        /// Makes a directory, in place of a file if one is there. Its mode has [`DIRECTORY_WORK_MODE`] added.
        MakeDirectory = 1,
        /// Copies contents and metadata from the other side, in place of what is there.
        Copy {
            /// The state that the other side must still be in.
            source: ReplicaEntry,
        } = 2,
        /// Renames a file of this side to this path, where nothing is, and sets its metadata.
        Move {
            /// Where it is.
            from: TreePath,
            /// The state that it must still be in.
            source: ReplicaEntry,
        } = 3,
        /// Sets metadata.
        SetMetadata = 4,
        /// Removes a file or an empty directory.
        Delete = 5,
        /// Makes a further name of a file that this run copied, in place of what is there.
        Link {
            /// The name that the file has.
            to: TreePath,
            /// The state that the other side must still be in.
            source: ReplicaEntry,
        } = 6,
    }
}

wire_struct! {
    /// One step of a plan. It is performed at once or not at all.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct TwowayAction {
        /// The path.
        pub path: TreePath,
        /// The side that changes.
        pub side: ReplicaSide,
        /// What is done.
        pub kind: ActionKind,
        /// The entry that results; `None` for a deletion.
        pub entry: Option<ReplicaEntry>,
        /// The state that this side must still be in. A file without a stamp is as this side's archive has it.
        pub expected: Option<ReplicaEntry>,
        /// A new name for the file that a directory or a copy replaces.
        pub keep_as: Option<TreePath>,
        /// Extended attributes.
        pub attributes: ActionAttributes,
    }
}

/// A path on which both sides agree once its actions are done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathAgreement {
    /// The path.
    pub path: TreePath,
    /// The entry; `None`: there is none.
    pub entry: Option<ReplicaEntry>,
    /// Stamps from the scans, where no action changes the file.
    pub stamps: [Option<FileStamp>; 2],
    /// The other path of a move: one is agreed only with the other.
    pub partner: Option<TreePath>,
}

/// What a run is to do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TwowayPlan {
    /// Actions, in the order in which they are performed.
    pub actions: Vec<TwowayAction>,
    /// Paths for the next archive, in the order of the tree.
    pub agreements: Vec<PathAgreement>,
    /// Conflicts, without what is below them.
    pub conflicts: Vec<PathDecision>,
}

/// Steps of a plan by their turn.
#[derive(Debug, Default)]
struct Turns {
    /// Creations and changes, parents first.
    first: Vec<TwowayAction>,
    /// Copies of kept losers, which exist from here on.
    kept: Vec<TwowayAction>,
    /// Deletions and what must wait for them; performed backwards, children first.
    last: Vec<TwowayAction>,
}

impl TwowayPlan {
    /// Makes a plan of decisions in the order of the tree.
    pub fn new(decisions: Vec<PathDecision>, rules: &MetadataRules) -> Self {
        let mut plan = Self::default();
        let mut turns = Turns::default();
        let sources: BTreeMap<TreePath, ReplicaEntry> = decisions
            .iter()
            .filter(|decision| decision.moved_to.is_some())
            .filter_map(|decision| Some((decision.path.clone(), decision.base.clone()?)))
            .collect();
        for decision in decisions {
            match &decision.verdict {
                PathVerdict::Conflict(_) => plan.conflicts.push(decision),
                PathVerdict::WithinConflict => {}
                PathVerdict::Agreed { entry, from } => {
                    for side in [from.other(), *from] {
                        let source = decision.moved_from.as_ref().and_then(|from| sources.get(from));
                        turns.add(&decision, side, entry.as_ref(), rules, source);
                    }
                    plan.agreements.push(PathAgreement {
                        path: decision.path.clone(),
                        entry: entry.clone(),
                        stamps: decision.sides.each_ref().map(|state| state.entry.as_ref()?.stamp),
                        partner: decision.moved_from.or(decision.moved_to),
                    });
                }
            }
        }
        let Turns { first, kept, last } = turns;
        plan.actions = first.into_iter().chain(kept).chain(last.into_iter().rev()).collect();
        plan
    }

    /// Returns a digest of all that the plan does, and of what both sides have there now. A reviewed plan has it again
    /// only if nothing has changed since.
    pub fn digest(&self) -> Digest {
        let mut out = Writer::new();
        self.actions.iter().for_each(|action| action.encode(&mut out));
        self.conflicts.iter().for_each(|conflict| conflict.path.encode(&mut out));
        *blake3::hash(&out.into_bytes()).as_bytes()
    }

    /// Returns what the next archive of `side` takes from the run, in the order of the tree. `scanned_at` is that side's
    /// clock at the start of its scan; `restamped` are the files that its scan read and found unchanged.
    pub fn archive_changes(
        &self,
        side: ReplicaSide,
        scanned_at: Timestamp,
        results: &RunResults,
        restamped: impl IntoIterator<Item = PathEntry>,
    ) -> Vec<ArchiveChange> {
        let trusted = |stamp: Option<FileStamp>| stamp.and_then(|stamp| stamp.trusted(scanned_at));
        let restamped = restamped.into_iter().map(|PathEntry { path, mut entry }| {
            entry.stamp = trusted(entry.stamp);
            (path, Some(entry))
        });
        let mut changes: BTreeMap<TreePath, Option<ReplicaEntry>> = restamped.collect();
        for agreement in self.agreements.iter().filter(|agreement| results.is_finished(agreement)) {
            let made = results.made.get(&agreement.path).copied().unwrap_or_default();
            let entry = agreement.entry.clone().map(|mut entry| {
                entry.stamp = made.stamps[side.index()].or_else(|| trusted(agreement.stamps[side.index()]));
                if let ReplicaContent::File { digest, .. } = &mut entry.content {
                    *digest = made.digest.or(*digest);
                }
                entry
            });
            changes.insert(agreement.path.clone(), entry);
        }
        changes.into_iter().map(|(path, entry)| ArchiveChange { path, entry }).collect()
    }
}

/// What became of a plan's actions, at both sides.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunResults {
    /// Paths of actions that were skipped or failed.
    pub unfinished: BTreeSet<TreePath>,
    /// Files that actions changed.
    pub made: BTreeMap<TreePath, MadeFile>,
}

impl RunResults {
    fn is_finished(&self, agreement: &PathAgreement) -> bool {
        let mut paths = [Some(&agreement.path), agreement.partner.as_ref()].into_iter().flatten();
        !paths.any(|path| self.unfinished.contains(path))
    }
}

impl Turns {
    fn add(
        &mut self,
        decision: &PathDecision,
        side: ReplicaSide,
        entry: Option<&ReplicaEntry>,
        rules: &MetadataRules,
        moved: Option<&ReplicaEntry>,
    ) {
        let state = decision.side(side).entry.as_ref();
        let action = |kind| TwowayAction {
            path: decision.path.clone(),
            side,
            attributes: attributes_of(decision, side, &kind, entry, rules),
            kind,
            entry: entry.cloned(),
            expected: state.cloned(),
            keep_as: decision.keep_as.clone().filter(|_| !is_from(decision, side)),
        };
        let is_directory = |entry: Option<&ReplicaEntry>| entry.is_some_and(|entry| entry.content.is_directory());
        match kind_of(decision, side, entry, rules, moved) {
            None => {}
            Some(ActionKind::MakeDirectory) => {
                let mode = entry.map_or(0, |entry| entry.metadata.basic.mode);
                self.first.push(action(ActionKind::MakeDirectory));
                if mode & DIRECTORY_WORK_MODE != DIRECTORY_WORK_MODE {
                    let made = entry.map(with_work_mode);
                    let (keep_as, attributes) = (None, ActionAttributes::Kept);
                    let set = action(ActionKind::SetMetadata);
                    self.last.push(TwowayAction { expected: made, keep_as, attributes, ..set });
                }
            }
            Some(kind) if decision.is_kept => self.kept.push(action(kind)),
            Some(ActionKind::Delete) => self.last.push(action(ActionKind::Delete)),
            Some(kind) if is_directory(state) => self.last.push(action(kind)),
            Some(kind) => self.first.push(action(kind)),
        }
    }
}

fn kind_of(
    decision: &PathDecision,
    side: ReplicaSide,
    entry: Option<&ReplicaEntry>,
    rules: &MetadataRules,
    moved: Option<&ReplicaEntry>,
) -> Option<ActionKind> {
    let state = decision.side(side).entry.as_ref();
    let Some(entry) = entry else {
        return (state.is_some() && decision.moved_to.is_none()).then_some(ActionKind::Delete);
    };
    let source = decision.side(side.other()).entry.as_ref();
    let has_contents = |state: &ReplicaEntry| state.content.is_same(&entry.content) == Some(true);
    if is_from(decision, side) || state.is_some_and(has_contents) {
        let differs = !rules.is_same(&entry.content, &state?.metadata, &entry.metadata);
        return differs.then_some(ActionKind::SetMetadata);
    }
    match (&decision.moved_from, moved) {
        (Some(from), Some(moved)) => Some(ActionKind::Move { from: from.clone(), source: moved.clone() }),
        _ if entry.content.is_directory() => Some(ActionKind::MakeDirectory),
        _ => Some(ActionKind::Copy { source: source?.clone() }),
    }
}

/// Returns where an action takes the attributes from that its entry has. What it makes inherits others.
fn attributes_of(
    decision: &PathDecision,
    side: ReplicaSide,
    kind: &ActionKind,
    entry: Option<&ReplicaEntry>,
    rules: &MetadataRules,
) -> ActionAttributes {
    let has_any = |entry: &&ReplicaEntry| {
        rules.any_attributes() && matches!(entry.content, ReplicaContent::Directory | ReplicaContent::File { .. })
    };
    let Some(wanted) = entry.filter(has_any).map(|entry| entry.metadata.attributes) else {
        return ActionAttributes::Kept;
    };
    let has = |side| decision.side(side).entry.as_ref().is_some_and(|entry| entry.metadata.attributes == wanted);
    match kind {
        ActionKind::SetMetadata if has(side) => ActionAttributes::Kept,
        ActionKind::Move { source, .. } if source.metadata.attributes == wanted => ActionAttributes::Kept,
        _ if !has(side.other()) && has(side) => ActionAttributes::Of(side),
        _ => ActionAttributes::Of(side.other()),
    }
}

/// Whether a side has the contents that both get.
fn is_from(decision: &PathDecision, side: ReplicaSide) -> bool {
    matches!(decision.verdict, PathVerdict::Agreed { from, .. } if from == side)
}

/// The directory as [`ActionKind::MakeDirectory`] makes it.
pub fn with_work_mode(entry: &ReplicaEntry) -> ReplicaEntry {
    let mut entry = entry.clone();
    entry.metadata.basic.mode |= DIRECTORY_WORK_MODE;
    entry
}

/// What is known of a file after its actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MadeFile {
    /// Trusted stamps at the sides where an action changed it.
    pub stamps: [Option<FileStamp>; 2],
    /// Digest of what was copied; it may be newer than the scan.
    pub digest: Option<Digest>,
}

wire_struct! {
    /// A change of the archive.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ArchiveChange {
        /// The path.
        pub path: TreePath,
        /// The entry with this side's stamp; `None`: it is no longer in the archive.
        pub entry: Option<ReplicaEntry>,
    }
}

impl AtPath for ArchiveChange {
    fn path(&self) -> &TreePath {
        &self.path
    }
}

/// Returns the entries of the next archive: those of the base, with the changes. Changed entries without a stamp keep
/// the base's, which no longer fits where the file changed.
pub fn next_archive<E: From<ProtocolError>>(
    base: impl Iterator<Item = Result<PathEntry, E>>,
    changes: impl Iterator<Item = Result<ArchiveChange, E>>,
) -> impl Iterator<Item = Result<PathEntry, E>> {
    TreeJoin::new(base, changes).filter_map(|pair| match pair {
        Err(error) => Some(Err(error)),
        Ok((base, None)) => base.map(Ok),
        Ok((base, Some(ArchiveChange { path, entry }))) => {
            let mut entry = entry?;
            entry.stamp = entry.stamp.or_else(|| base?.entry.stamp);
            Some(Ok(PathEntry { path, entry }))
        }
    })
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
