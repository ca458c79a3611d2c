//! One run, step by step. A step may be the last before a crash, and each is checked against the truth.

use std::collections::BTreeSet;

use haul_lab::Rng;
use haul_proto::entry::Timestamp;
use haul_proto::error::ProtocolError;
use haul_proto::twoway::ReplicaSide;
use haul_proto::twoway::archive::ArchiveReader;
use haul_proto::twoway::base::{Generation, common_base, is_retained, next_number};
use haul_proto::twoway::entry::{ReplicaEntry, TreePath};
use haul_proto::twoway::merge::DIRECTORY_WORK_MODE;
use haul_proto::twoway::plan::{ActionKind, MadeFile, RunResults, TwowayAction, TwowayPlan, with_work_mode};
use haul_proto::twoway::prefer::{ConflictRules, KeptName, decide_for};
use haul_proto::twoway::reconcile::{ConflictKind, PathDecision, PathVerdict, Reconcile, wanted_digests};
use haul_proto::twoway::renames::find_renames;
use haul_proto::twoway::unreadable::leave_unreadable;

use super::edits::SimPair;
use super::end::{RULES, SimEnd, generations};
use super::replica::{ReplicaNode, ReplicaNodeContent, SECOND, digest_of};
use super::{TwowayMistake, TwowayOutcome};

/// How a run goes.
#[derive(Debug)]
pub struct RunSetting<'r> {
    /// What decides conflicts.
    pub rules: &'r ConflictRules,
    /// Steps until a crash; `None`: it does not crash.
    pub steps: Option<u64>,
    /// Whether users go on during the run.
    pub has_edits: bool,
    /// The planted mistake.
    pub mistake: TwowayMistake,
    /// Prints each action.
    pub verbose: bool,
}

/// How a run ended.
#[derive(Debug, PartialEq, Eq)]
pub enum TwowayRunEnd {
    /// It crashed.
    Crashed,
    /// It ended, with this plan.
    Ended(TwowayPlan),
}

/// A run in progress.
pub struct SimRun<'r> {
    pair: &'r mut SimPair,
    rng: &'r mut Rng,
    setting: RunSetting<'r>,
    ends: [SimEnd; 2],
    base: Option<Generation>,
    number: u64,
    results: RunResults,
    /// Paths about which a preference decided.
    decided: BTreeSet<TreePath>,
    outcome: &'r mut TwowayOutcome,
}

/// Performs a run. An error names the broken rule.
pub fn run_once(
    pair: &mut SimPair,
    rng: &mut Rng,
    setting: RunSetting<'_>,
    outcome: &mut TwowayOutcome,
) -> Result<TwowayRunEnd, String> {
    let lists = pair.replicas.each_ref().map(generations);
    let base = common_base(&lists[0], &lists[1]);
    outcome.unions += u64::from(base.is_none());
    let mut ends = Vec::new();
    for side in ReplicaSide::BOTH {
        let edits = if setting.has_edits && rng.chance(300) { Some(&mut *rng) } else { None };
        ends.push(SimEnd::scan(pair, side, base, edits).map_err(|error| error.to_string())?);
    }
    let ends = ends.try_into().map_err(|_| "two ends".to_owned())?;
    let number = next_number(&lists[0], &lists[1]);
    let (results, decided) = (RunResults::default(), BTreeSet::new());
    let mut run = SimRun { pair, rng, setting, ends, base, number, results, decided, outcome };
    let plan = run.plan().map_err(|error| error.to_string())?;
    Ok(if run.perform(&plan)? { TwowayRunEnd::Ended(plan) } else { TwowayRunEnd::Crashed })
}

impl SimRun<'_> {
    fn plan(&mut self) -> Result<TwowayPlan, ProtocolError> {
        let scanned_at = self.ends.each_ref().map(|end| end.scanned_at);
        if self.setting.mistake != TwowayMistake::MissUnreadable {
            let unreadable: Vec<_> = self.ends.iter().filter_map(|end| end.unreadable.clone()).collect();
            let mut updates = self.ends.each_mut().map(|end| std::mem::take(&mut end.updates));
            leave_unreadable(&mut updates, &unreadable);
            self.ends.iter_mut().zip(updates).for_each(|(end, updates)| end.updates = updates);
        }
        let wanted = wanted_digests(self.ends[0].stream(), self.ends[1].stream(), scanned_at)?;
        let by_size = self.setting.mistake == TwowayMistake::MoveBySize;
        for (end, wanted) in self.ends.iter_mut().zip(&wanted) {
            end.add_digests(&self.pair.replicas[end.side.index()], wanted, by_size);
        }
        let decided = Reconcile::new(self.ends[0].stream(), self.ends[1].stream(), RULES);
        let mut decisions = decided.collect::<Result<Vec<_>, _>>()?;
        self.prefer(&mut decisions);
        find_renames(&mut decisions);
        self.plant(&mut decisions);
        let mut plan = TwowayPlan::new(decisions, &RULES);
        if self.setting.mistake == TwowayMistake::ForgetRemovals {
            plan.actions.retain(|action| action.kind != ActionKind::Delete);
        }
        Ok(plan)
    }

    fn prefer(&mut self, decisions: &mut Vec<PathDecision>) {
        let is_open = |decision: &PathDecision| !matches!(decision.verdict, PathVerdict::Agreed { .. });
        let open: Vec<_> = decisions.iter().filter(|decision| is_open(decision)).map(|one| one.path.clone()).collect();
        let replicas = &self.pair.replicas;
        let before = decisions.clone();
        self.setting.rules.apply(decisions, &mut |decision, loser, name| {
            let node = |path: &TreePath| replicas[loser.index()].nodes.get(path).map(|node| node.content);
            let is_kept = node(name).is_some() && node(name) == node(&decision.path);
            let is_free = replicas.iter().all(|replica| !replica.nodes.contains_key(name));
            match is_free {
                true => KeptName::Free,
                false if is_kept => KeptName::Kept,
                false => KeptName::Taken,
            }
        });
        if self.setting.mistake == TwowayMistake::PreferTopOnly {
            for (decision, before) in decisions.iter_mut().zip(before) {
                if before.verdict == PathVerdict::WithinConflict {
                    decision.verdict = before.verdict;
                }
            }
        }
        let is_decided =
            |path: &TreePath| decisions.iter().any(|decision| decision.path == *path && !is_open(decision));
        self.decided = open.into_iter().filter(is_decided).collect();
    }

    fn plant(&self, decisions: &mut [PathDecision]) {
        let mistake = self.setting.mistake;
        let mut winner = None;
        for decision in decisions {
            let lacking = ReplicaSide::BOTH.into_iter().find(|side| decision.side(*side).entry.is_none());
            let is_top = decision.verdict == PathVerdict::Conflict(ConflictKind::Contents);
            match (mistake, lacking) {
                (TwowayMistake::OverwriteConflicts, _) if !matches!(decision.verdict, PathVerdict::Agreed { .. }) => {
                    decide_for(decision, ReplicaSide::A);
                }
                (TwowayMistake::RemoveWithoutBase, Some(side)) if self.base.is_none() => decide_for(decision, side),
                (TwowayMistake::RemoveUpdatesBelow, Some(side)) if is_top => {
                    winner = Some((decision.path.clone(), side));
                    decide_for(decision, side);
                }
                (TwowayMistake::RemoveUpdatesBelow, _) => {
                    if let Some((_, side)) = winner.iter().find(|(top, _)| decision.path.is_below(top)) {
                        decide_for(decision, *side);
                    }
                }
                (TwowayMistake::DropLoser, _) => decision.keep_as = None,
                _ => {}
            }
        }
    }

    /// Performs the plan; `false` after a crash.
    fn perform(&mut self, plan: &TwowayPlan) -> Result<bool, String> {
        self.outcome.conflicts += plan.conflicts.len() as u64;
        let is_early = self.setting.mistake == TwowayMistake::MarkEarly;
        if is_early && !self.write_archives(plan)? {
            return Ok(false);
        }
        for action in &plan.actions {
            self.pair.pass_time(self.rng);
            if self.setting.has_edits && self.rng.chance(150) {
                let side = self.rng.pick(&ReplicaSide::BOTH);
                self.pair.edit(self.rng, side);
            }
            if !self.act(action)? {
                self.outcome.crashes += 1;
                return Ok(false);
            }
        }
        if !is_early && !self.write_archives(plan)? {
            self.outcome.crashes += 1;
            return Ok(false);
        }
        self.outcome.runs += 1;
        Ok(true)
    }

    /// Counts a step; `false`: the crash comes before it.
    fn step(&mut self) -> bool {
        match &mut self.setting.steps {
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
            None => true,
        }
    }

    fn write_archives(&mut self, plan: &TwowayPlan) -> Result<bool, String> {
        if self.setting.mistake == TwowayMistake::MarkSkipped {
            self.results.unfinished.clear();
        }
        let first = self.rng.index(2);
        for at in [first, 1 - first] {
            if !self.step() {
                return Ok(false);
            }
            let end = &self.ends[at];
            let mut scanned_at = end.scanned_at;
            if self.setting.mistake == TwowayMistake::TrustStamps {
                scanned_at = Timestamp { seconds: i64::MAX, nanoseconds: 0 };
            }
            let restamped = end.restamped.values().cloned();
            let changes = plan.archive_changes(end.side, scanned_at, &self.results, restamped);
            let bytes = end.encode_archive(self.number, changes).map_err(|error| error.to_string())?;
            let archives = &mut self.pair.replicas[at].archives;
            archives.insert(self.number, bytes);
            archives.retain(|number, _| is_retained(*number, self.base, self.number));
        }
        self.record_agreed()?;
        Ok(true)
    }

    /// What both archives say now, and users may come back to.
    fn record_agreed(&mut self) -> Result<(), String> {
        let written = self.pair.replicas[0].archives.get(&self.number).map(Vec::as_slice).unwrap_or_default();
        let entries = ArchiveReader::new(written).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let entries = entries.map_err(|error| error.to_string())?;
        self.pair.agreed = entries.into_iter().map(|entry| (entry.path, entry.entry)).collect();
        Ok(())
    }

    /// Looks and performs one action; `false` after a crash.
    fn act(&mut self, action: &TwowayAction) -> Result<bool, String> {
        let replica = |side: ReplicaSide| &self.pair.replicas[side.index()];
        let end = |side: ReplicaSide| &self.ends[side.index()];
        let (side, other) = (action.side, action.side.other());
        let untouched = |side, path: &TreePath, expected, is_source| {
            end(side).is_untouched(replica(side), path, expected, is_source)
        };
        let is_source_untouched = match &action.kind {
            ActionKind::Copy { source, .. } => untouched(other, &action.path, Some(source), true),
            ActionKind::Move { from, source } => untouched(side, from, Some(source), false),
            _ => true,
        };
        let is_looking = self.setting.mistake != TwowayMistake::SkipLook;
        let is_as_planned = untouched(side, &action.path, action.expected.as_ref(), false) && is_source_untouched;
        if (is_looking && !is_as_planned) || !self.is_possible(action) {
            self.results.unfinished.insert(action.path.clone());
            self.outcome.skipped += 1;
            return Ok(true);
        }
        if let Some(name) = &action.keep_as {
            if !self.step() {
                return Ok(false);
            }
            self.keep(side, &action.path, name);
        }
        if !self.step() {
            return Ok(false);
        }
        if self.setting.verbose {
            println!("  {:?} {:?} {}", action.side, action.kind, action.path);
        }
        if self.ends.iter().any(|end| end.is_unreadable(&action.path)) {
            return Err(format!("an unreadable path is changed: {action:?}"));
        }
        self.check_truth(action)?;
        self.change(action);
        self.outcome.actions += 1;
        Ok(true)
    }

    /// What the file system itself refuses.
    fn is_possible(&self, action: &TwowayAction) -> bool {
        let replica = &self.pair.replicas[action.side.index()];
        let source = match &action.kind {
            ActionKind::Copy { .. } => Some((action.side.other(), &action.path)),
            ActionKind::Move { from, .. } => Some((action.side, from)),
            _ => None,
        };
        let has_source = source.is_none_or(|(side, path)| self.pair.replicas[side.index()].nodes.contains_key(path));
        let needs_empty = matches!(action.kind, ActionKind::Delete | ActionKind::Copy { .. });
        let needs_entry = matches!(action.kind, ActionKind::Delete | ActionKind::SetMetadata);
        let has_entry = replica.nodes.contains_key(&action.path);
        has_source
            && replica.has_parent(&action.path)
            && !(needs_empty && replica.has_below(&action.path))
            && (has_entry || !needs_entry)
    }

    /// Nothing goes that the other side never had: contents or mode.
    fn check_truth(&self, action: &TwowayAction) -> Result<(), String> {
        let node = |side: ReplicaSide| self.pair.replicas[side.index()].nodes.get(&action.path);
        let Some(present) = node(action.side) else { return Ok(()) };
        if self.decided.contains(&action.path) {
            return Ok(());
        }
        let goes = match action.kind {
            ActionKind::SetMetadata => {
                let mode = action.entry.as_ref().map(|entry| entry.metadata.basic.mode);
                // A directory with all rights of its owner yields: it may have been in the making.
                let work = if present.content == ReplicaNodeContent::Directory { DIRECTORY_WORK_MODE } else { 0 };
                !present.is_mode_shared && mode.map(|mode| mode | work) != Some(present.mode | work)
            }
            _ => {
                !present.is_shared
                    || (!present.is_mode_shared && !matches!(present.content, ReplicaNodeContent::Link(_)))
            }
        };
        let is_conflict = node(action.side.other()).is_some_and(|other| !other.is_shared && !present.is_shared);
        match goes {
            true if is_conflict => Err(format!("a conflict is overwritten: {action:?}")),
            // A mode that travels with new contents is merged.
            true if self.takes_mode(action, present) => Ok(()),
            true => Err(format!("an update is lost: {action:?}, {present:?}")),
            false => Ok(()),
        }
    }

    fn takes_mode(&self, action: &TwowayAction, present: &ReplicaNode) -> bool {
        let mode = action.entry.as_ref().map(|entry| entry.metadata.basic.mode);
        present.is_shared && mode == Some(present.mode)
    }

    fn keep(&mut self, side: ReplicaSide, path: &TreePath, name: &TreePath) {
        let replica = self.pair.side(side);
        let Some(node) = replica.nodes.get(path).copied() else { return };
        replica.make(name, node.content, node.mode);
        if let Some(kept) = replica.nodes.get_mut(name) {
            kept.modified = node.modified;
        }
        self.pair.compare(name);
        self.record_stamp(side, name);
        self.outcome.kept += 1;
    }

    fn change(&mut self, action: &TwowayAction) {
        let (side, path) = (action.side, &action.path);
        let source = self.pair.replicas[side.other().index()].nodes.get(path).map(|node| node.content);
        let replica = &mut self.pair.replicas[side.index()];
        match (&action.kind, source) {
            (ActionKind::Delete, _) => drop(replica.nodes.remove(path)),
            (ActionKind::Move { from, .. }, _) => {
                if let Some(node) = replica.nodes.remove(from) {
                    replica.nodes.insert(path.clone(), ReplicaNode { changed: replica.clock, ..node });
                    self.outcome.moves += 1;
                }
            }
            (ActionKind::MakeDirectory, _) => replica.make(path, ReplicaNodeContent::Directory, 0),
            (ActionKind::Copy { .. }, Some(content)) => replica.make(path, content, 0),
            _ => {}
        }
        let entry = match action.kind {
            ActionKind::MakeDirectory => action.entry.as_ref().map(with_work_mode),
            _ => action.entry.clone(),
        };
        if let (Some(entry), Some(node)) = (entry, replica.nodes.get_mut(path)) {
            node.mode = entry.metadata.basic.mode;
            node.changed = replica.clock;
            (node.is_shared, node.is_mode_shared) = (true, true);
            let is_late = self.setting.mistake == TwowayMistake::CopyWithNewTime;
            if node.content != ReplicaNodeContent::Directory && !is_late {
                let Timestamp { seconds, nanoseconds } = entry.metadata.basic.modified;
                node.modified = seconds * SECOND + i64::from(nanoseconds);
            }
        }
        self.pair.compare(path);
        self.record_stamp(side, path);
        self.record_digest(action);
    }

    fn record_stamp(&mut self, side: ReplicaSide, path: &TreePath) {
        let replica = &self.pair.replicas[side.index()];
        let Some(stamp) = replica.stat(path).and_then(|entry: ReplicaEntry| entry.stamp) else { return };
        self.ends[side.index()].made.insert(path.clone(), stamp);
        let made = self.results.made.entry(path.clone()).or_default();
        made.stamps[side.index()] = stamp.trusted(replica.now());
    }

    /// A copy's digest is known when it is complete.
    fn record_digest(&mut self, action: &TwowayAction) {
        let node = self.pair.replicas[action.side.index()].nodes.get(&action.path);
        if let (ActionKind::Copy { .. }, Some(ReplicaNodeContent::File(contents))) =
            (&action.kind, node.map(|node| node.content))
        {
            let made: &mut MadeFile = self.results.made.entry(action.path.clone()).or_default();
            made.digest = Some(digest_of(contents));
        }
    }
}

/// Whether a plan's conflict covers a path.
pub fn is_in_conflict(plan: &TwowayPlan, path: &TreePath) -> bool {
    plan.conflicts.iter().any(|conflict| {
        let covers_below = conflict.verdict == PathVerdict::Conflict(ConflictKind::Contents);
        conflict.path == *path || (covers_below && path.is_below(&conflict.path))
    })
}
