//! A seed: a history of edits, runs and faults, with checks after each run.

use haul_lab::Rng;
use haul_proto::twoway::ReplicaSide;
use haul_proto::twoway::entry::TreePath;
use haul_proto::twoway::plan::TwowayPlan;
use haul_proto::twoway::prefer::{ConflictRules, KeepBoth, PreferenceRule, ReplicaPreference};

use super::edits::SimPair;
use super::end::generations;
use super::replica::{ReplicaNode, ReplicaNodeContent, SECOND};
use super::run::{RunSetting, TwowayRunEnd, is_in_conflict, run_once};
use super::{TwowayMistake, TwowayOutcome};

/// Runs a seed; an error names the broken rule.
pub fn run_twoway(seed: u64, mistake: TwowayMistake, verbose: bool) -> Result<TwowayOutcome, String> {
    let mut history =
        History { rng: Rng::new(seed), pair: SimPair::default(), outcome: TwowayOutcome::default(), mistake, verbose };
    history.pair.replicas.iter_mut().for_each(|replica| replica.clock = 1000 * SECOND);
    for _ in 0..2 + history.rng.below(6) {
        history.edit();
        history.lose_archives();
        history.disturbed_run()?;
        if history.rng.chance(500) {
            history.undisturbed_run()?;
        }
    }
    history.preferred_run()?;
    Ok(history.outcome)
}

struct History {
    rng: Rng,
    pair: SimPair,
    outcome: TwowayOutcome,
    mistake: TwowayMistake,
    verbose: bool,
}

impl History {
    fn edit(&mut self) {
        for _ in 0..self.rng.below(12) {
            let side = self.rng.pick(&ReplicaSide::BOTH);
            self.pair.edit(&mut self.rng, side);
        }
    }

    /// Now and then an archive is lost, torn or damaged.
    fn lose_archives(&mut self) {
        if !self.rng.chance(100) {
            return;
        }
        // What was removed may come back now.
        self.pair.removed.clear();
        self.pair.agreed.clear();
        let replica = &mut self.pair.replicas[self.rng.index(2)];
        for bytes in replica.archives.values_mut() {
            match self.rng.below(3) {
                0 => bytes.clear(),
                1 => bytes.truncate(self.rng.index(bytes.len().max(1))),
                _ => {
                    let at = self.rng.index(bytes.len().max(1));
                    bytes.get_mut(at).into_iter().for_each(|byte| *byte ^= 4);
                }
            }
        }
    }

    fn run(&mut self, rules: &ConflictRules, has_edits: bool, steps: Option<u64>) -> Result<TwowayRunEnd, String> {
        let setting = RunSetting { rules, steps, has_edits, mistake: self.mistake, verbose: self.verbose };
        let end = run_once(&mut self.pair, &mut self.rng, setting, &mut self.outcome)?;
        if self.verbose {
            println!("run: {steps:?} steps, edits: {has_edits}, {:?}", self.outcome);
        }
        Ok(end)
    }

    fn disturbed_run(&mut self) -> Result<(), String> {
        let (has_edits, crashes, steps) = (self.rng.chance(500), self.rng.chance(400), self.rng.below(20));
        self.run(&ConflictRules::default(), has_edits, crashes.then_some(steps)).map(drop)
    }

    /// Both sides are equal but for conflicts, nothing came back, and a second run has nothing to do.
    fn undisturbed_run(&mut self) -> Result<(), String> {
        let plan = self.complete_run(&ConflictRules::default())?;
        self.check_equal(|path| is_in_conflict(&plan, path))?;
        let back = self.pair.removed.iter().find(|path| {
            let is_there = self.pair.replicas.iter().any(|replica| replica.nodes.contains_key(path));
            is_there && !is_in_conflict(&plan, path)
        });
        if let Some(path) = back {
            return Err(format!("{path} came back"));
        }
        self.pair.removed.clear();
        let again = self.complete_run(&ConflictRules::default())?;
        if !again.actions.is_empty() || again.conflicts.len() != plan.conflicts.len() {
            return Err(format!("a second run has something to do: {:?}", again.actions));
        }
        Ok(())
    }

    fn complete_run(&mut self, rules: &ConflictRules) -> Result<TwowayPlan, String> {
        // What was written within the last seconds may have to wait for the next run.
        self.pair.replicas.iter_mut().for_each(|replica| replica.clock += 5 * SECOND);
        let TwowayRunEnd::Ended(plan) = self.run(rules, false, None)? else {
            return Err("an undisturbed run crashed".into());
        };
        let [a, b] = self.pair.replicas.each_ref().map(generations);
        if a.last() != b.last() || a.is_empty() {
            return Err(format!("the archives differ: {a:?}, {b:?}"));
        }
        Ok(plan)
    }

    fn check_equal(&self, is_free: impl Fn(&TreePath) -> bool) -> Result<(), String> {
        let [a, b] = &self.pair.replicas;
        for path in a.nodes.keys().chain(b.nodes.keys()).filter(|path| !is_free(path)) {
            let [a, b] = [a, b].map(|replica| {
                let node = replica.nodes.get(path)?;
                let mode = if matches!(node.content, ReplicaNodeContent::Link(_)) { 0 } else { node.mode };
                let modified = if node.content == ReplicaNodeContent::Directory { 0 } else { node.modified };
                Some((node.content, mode, modified))
            });
            if a != b {
                return Err(format!("{path} differs: {a:?}, {b:?}"));
            }
        }
        Ok(())
    }

    /// After a preference both sides are equal. Losers that are to be kept are there.
    fn preferred_run(&mut self) -> Result<(), String> {
        let rule = |preference| PreferenceRule { pattern: None, preference };
        let mut preferences = vec![rule(ReplicaPreference::Side(self.rng.pick(&ReplicaSide::BOTH)))];
        let first = [ReplicaPreference::Newer, ReplicaPreference::Older, ReplicaPreference::Larger];
        let patterns = [&b"*.txt"[..], b"a", b"a/*", b"**"];
        if self.rng.chance(600) {
            let (pattern, preference) = (self.rng.pick(&patterns), self.rng.pick(&first));
            preferences.insert(0, PreferenceRule::of_pattern(pattern, preference));
        }
        let hosts = [b"one".to_vec(), b"two".to_vec()];
        let keep_both = self.rng.chance(500).then(|| KeepBoth { hosts, date: b"2026-01-31".to_vec() });
        let is_kept = keep_both.is_some();
        let rules = ConflictRules { preferences, keep_both };
        let before = self.contents(|node| !node.is_shared);
        if self.rng.chance(300) {
            let steps = self.rng.below(10);
            self.run(&rules, false, Some(steps))?;
        }
        let mut plan = self.complete_run(&rules)?;
        // A measure may be equal on both sides; the side then decides. A loser whose name was found is the next run's.
        let last = ConflictRules { preferences: vec![rule(ReplicaPreference::Side(ReplicaSide::A))], ..rules };
        for _ in 0..3 {
            plan = self.complete_run(&last)?;
        }
        if !plan.actions.is_empty() || !plan.conflicts.is_empty() {
            return Err(format!("a preference leaves something: {plan:?}"));
        }
        self.check_equal(|_| false)?;
        let after = self.contents(|_| true);
        let lost = before.into_iter().find(|contents| !after.contains(contents));
        match lost {
            Some(contents) if is_kept => Err(format!("the loser {contents} was not kept")),
            _ => Ok(()),
        }
    }

    /// Contents of files.
    fn contents(&self, is_wanted: impl Fn(&ReplicaNode) -> bool) -> Vec<u64> {
        let file = |content| if let ReplicaNodeContent::File(contents) = content { Some(contents) } else { None };
        let nodes = self.pair.replicas.iter().flat_map(|replica| replica.nodes.values());
        nodes.filter(|node| is_wanted(node)).filter_map(|node| file(node.content)).collect()
    }
}
