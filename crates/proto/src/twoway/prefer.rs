//! Preferences: which side wins a conflict, and under which name the loser stays.

use std::cmp::Ordering;
use std::collections::HashSet;

use super::ReplicaSide;
use super::entry::{ReplicaEntry, TreePath};
use super::merge::nanoseconds;
use super::reconcile::{ConflictKind, PathDecision, PathVerdict, SideState};
use crate::filter::pattern::Pattern;
use crate::path::MAX_NAME;

/// Which side wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplicaPreference {
    /// The later time of modification; a removal loses.
    Newer,
    /// The earlier time of modification; a removal loses.
    Older,
    /// The larger file; a removal loses.
    Larger,
    /// This side, a removal included.
    Side(ReplicaSide),
}

impl ReplicaPreference {
    /// Returns the winner; `None` where both are equal by this measure.
    fn winner(self, decision: &PathDecision) -> Option<ReplicaSide> {
        let entries = decision.sides.each_ref().map(|state| state.entry.as_ref());
        let [a, b] = match (self, entries) {
            (Self::Side(side), _) => return Some(side),
            (_, [Some(a), Some(b)]) => [a, b],
            (_, [a, _]) => return Some(if a.is_some() { ReplicaSide::A } else { ReplicaSide::B }),
        };
        let times = [a, b].map(|entry| nanoseconds(entry.metadata.basic.modified));
        let order = match self {
            Self::Older => times[1].cmp(&times[0]),
            Self::Larger => a.content.file_size()?.cmp(&b.content.file_size()?),
            _ => times[0].cmp(&times[1]),
        };
        match order {
            Ordering::Greater => Some(ReplicaSide::A),
            Ordering::Less => Some(ReplicaSide::B),
            Ordering::Equal => None,
        }
    }
}

/// A preference, for all paths or those of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreferenceRule {
    /// Matches the whole path if it contains a slash, else the name; `None` matches all.
    pub pattern: Option<Pattern>,
    /// Which side wins.
    pub preference: ReplicaPreference,
}

impl PreferenceRule {
    /// Parses the pattern of a rule, at most [`PATTERN_MAX`](crate::filter::pattern::PATTERN_MAX) bytes.
    pub fn of_pattern(text: &[u8], preference: ReplicaPreference) -> Self {
        Self { pattern: Some(Pattern::new(text)), preference }
    }

    fn matches(&self, path: &TreePath) -> bool {
        let (_, name) = path.split_name();
        self.pattern.as_ref().is_none_or(|pattern| pattern.matches(path.as_bytes()) || pattern.matches(name))
    }
}

/// Where a kept loser may stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptName {
    /// Neither end has this name.
    Free,
    /// The loser's end has the loser's contents there already: an earlier run was interrupted.
    Kept,
    /// Something else has it.
    Taken,
}

/// Looks whether a name is free for the loser of a decision, which that side has.
pub type NameLook<'l> = dyn FnMut(&PathDecision, ReplicaSide, &TreePath) -> KeptName + 'l;

/// Names for losers that stay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeepBoth {
    /// Host names of A and B.
    pub hosts: [Vec<u8>; 2],
    /// Date of the run: `2026-01-31`.
    pub date: Vec<u8>,
}

/// Most numbers that are tried for the name of a loser.
const NUMBERS_MAX: u32 = 1000;

impl KeepBoth {
    /// Returns `name.conflict-HOST-DATE.ext`, from the second on with the number behind the date. Of a long name, the end
    /// of the stem is cut off.
    pub fn name(&self, path: &TreePath, loser: ReplicaSide, number: u32) -> Option<TreePath> {
        let (directory, name) = path.split_name();
        let dot = name.iter().rposition(|byte| *byte == b'.').filter(|dot| *dot > 0).unwrap_or(name.len());
        let (stem, extension) = name.split_at(dot);
        let host: Vec<u8> =
            self.hosts[loser.index()].iter().map(|byte| if *byte == b'/' { b'_' } else { *byte }).collect();
        let count = if number > 1 { format!("-{number}") } else { String::new() };
        let middle = [b".conflict-", &host[..], b"-", &self.date, count.as_bytes()].concat();
        let room = MAX_NAME.checked_sub(middle.len() + extension.len())?;
        let stem = &stem[..stem.len().min(room)];
        TreePath::new(&[directory, stem, &middle, extension].concat()).ok()
    }
}

/// What to do about conflicts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConflictRules {
    /// The first rule that matches a path decides about it.
    pub preferences: Vec<PreferenceRule>,
    /// Keeps the loser as well. Without a preference, A's file has the name.
    pub keep_both: Option<KeepBoth>,
}

impl ConflictRules {
    fn winner(&self, decision: &PathDecision) -> Option<ReplicaSide> {
        let rule = self.preferences.iter().find(|rule| rule.matches(&decision.path));
        let winner = rule.and_then(|rule| rule.preference.winner(decision));
        if self.keep_both.is_none() || decision.verdict == PathVerdict::Conflict(ConflictKind::Metadata) {
            return winner;
        }
        let winner = winner.unwrap_or(ReplicaSide::A);
        // A removal keeps nothing, and a directory cannot be kept under another name unnoticed.
        let stays = |side| {
            let entry = decision.side(side).entry.as_ref();
            entry.is_some_and(|entry| entry.content.is_directory())
        };
        let loses = decision.side(winner).entry.is_none() || stays(winner.other());
        Some(if loses { winner.other() } else { winner })
    }

    /// Decides conflicts, each with all below it. `look` says whether a name for a kept loser is free.
    pub fn apply(&self, decisions: &mut Vec<PathDecision>, look: &mut NameLook<'_>) {
        let mut kept = Vec::new();
        let updated: HashSet<TreePath> = decisions.iter().map(|decision| decision.path.clone()).collect();
        let mut look = |decision: &PathDecision, loser, name: &TreePath| match look(decision, loser, name) {
            KeptName::Free if updated.contains(name) => KeptName::Taken,
            other => other,
        };
        let mut decided: Option<(TreePath, ReplicaSide)> = None;
        for decision in decisions.iter_mut() {
            let winner = match decision.verdict {
                PathVerdict::Conflict(kind) => {
                    let winner = self.winner(decision);
                    let winner = winner.filter(|winner| self.keep(decision, *winner, &mut look, &mut kept));
                    if kind == ConflictKind::Contents {
                        decided = winner.map(|winner| (decision.path.clone(), winner));
                    }
                    winner
                }
                PathVerdict::WithinConflict => {
                    decided.as_ref().filter(|(top, _)| decision.path.is_below(top)).map(|(_, winner)| *winner)
                }
                PathVerdict::Agreed { .. } => None,
            };
            if let Some(from) = winner {
                decide_for(decision, from);
            }
        }
        decisions.append(&mut kept);
        decisions.sort_by(|one, two| one.path.cmp(&two.path));
    }

    /// Finds the name under which the loser of a conflict stays; `false` where there is none.
    fn keep(
        &self,
        decision: &mut PathDecision,
        winner: ReplicaSide,
        look: &mut NameLook<'_>,
        kept: &mut Vec<PathDecision>,
    ) -> bool {
        let Some(keep_both) = &self.keep_both else { return true };
        let loser = winner.other();
        let is_metadata = decision.verdict == PathVerdict::Conflict(ConflictKind::Metadata);
        let Some(entry) = decision.side(loser).entry.clone().filter(|_| !is_metadata) else { return true };
        for number in 1..=NUMBERS_MAX {
            let Some(name) = keep_both.name(&decision.path, loser, number) else { return false };
            if kept.iter().any(|other| other.path == name) {
                continue;
            }
            match look(decision, loser, &name) {
                KeptName::Kept => return true,
                KeptName::Taken => {}
                KeptName::Free => {
                    let mut sides = [(); 2].map(|()| SideState { entry: None, is_updated: false });
                    sides[loser.index()] = SideState { entry: Some(entry.clone()), is_updated: true };
                    let verdict = PathVerdict::Agreed { entry: Some(entry.without_stamp()), from: loser };
                    let kept_file = PathDecision::new(name.clone(), None, sides, verdict);
                    kept.push(PathDecision { is_kept: true, ..kept_file });
                    decision.keep_as = Some(name);
                    return true;
                }
            }
        }
        false
    }
}

/// Decides for a side, whatever the other has.
pub fn decide_for(decision: &mut PathDecision, from: ReplicaSide) {
    let entry = decision.side(from).entry.as_ref().map(ReplicaEntry::without_stamp);
    decision.verdict = PathVerdict::Agreed { entry, from };
}

#[cfg(test)]
mod tests {
    use super::super::reconcile::tests::decisions;
    use super::super::samples::{directory, file, path, with_mode};
    use super::*;

    fn rules(preference: ReplicaPreference) -> ConflictRules {
        let preferences = vec![PreferenceRule { pattern: None, preference }];
        ConflictRules { preferences, keep_both: None }
    }

    fn keep_both() -> KeepBoth {
        KeepBoth { hosts: [b"here".to_vec(), b"there".to_vec()], date: b"2026-01-31".to_vec() }
    }

    fn winner(rules: &ConflictRules, versions: [u8; 2]) -> Option<ReplicaSide> {
        let [a, b] = versions.map(|version| [file("f.log", version)]);
        let mut decided = decisions(&[], &a, &b);
        rules.apply(&mut decided, &mut |_, _, _| KeptName::Free);
        if let PathVerdict::Agreed { from, .. } = decided[0].verdict { Some(from) } else { None }
    }

    #[test]
    fn newer_older_and_a_side_decide_and_equal_measures_do_not() {
        use ReplicaPreference::{Larger, Newer, Older, Side};
        assert_eq!(winner(&rules(Newer), [3, 2]), Some(ReplicaSide::A));
        assert_eq!(winner(&rules(Older), [3, 2]), Some(ReplicaSide::B));
        assert_eq!(winner(&rules(Side(ReplicaSide::B)), [3, 2]), Some(ReplicaSide::B));
        assert_eq!(winner(&rules(Larger), [3, 2]), None);
        assert_eq!(winner(&ConflictRules::default(), [3, 2]), None);
    }

    #[test]
    fn the_first_pattern_that_matches_decides() {
        let mut several = rules(ReplicaPreference::Newer);
        several.preferences.insert(0, PreferenceRule::of_pattern(b"*.log", ReplicaPreference::Side(ReplicaSide::B)));
        assert_eq!(winner(&several, [3, 2]), Some(ReplicaSide::B));
        several.preferences[0] = PreferenceRule::of_pattern(b"*.txt", ReplicaPreference::Side(ReplicaSide::B));
        assert_eq!(winner(&several, [3, 2]), Some(ReplicaSide::A));
    }

    #[test]
    fn a_decision_covers_what_is_below_and_a_removal_loses_to_newer() {
        let base = [directory("d"), file("d/f", 1), file("d/g", 1)];
        let changed = [directory("d"), file("d/f", 2), file("d/g", 1)];
        for (preference, stays) in [(ReplicaPreference::Newer, true), (ReplicaPreference::Side(ReplicaSide::A), false)]
        {
            let mut decided = decisions(&base, &[], &changed);
            rules(preference).apply(&mut decided, &mut |_, _, _| KeptName::Free);
            for decision in &decided {
                let PathVerdict::Agreed { entry, .. } = &decision.verdict else { panic!("{decision:?}") };
                assert_eq!(entry.is_some(), stays);
            }
        }
    }

    #[test]
    fn a_conflict_of_metadata_is_decided_as_well() {
        let (a, b) = (with_mode(file("f.log", 1), 0o600), with_mode(file("f.log", 1), 0o640));
        let mut decided = decisions(&[], &[a], std::slice::from_ref(&b));
        rules(ReplicaPreference::Side(ReplicaSide::B)).apply(&mut decided, &mut |_, _, _| KeptName::Free);
        let entry = Some(b.entry.without_stamp());
        assert_eq!(decided[0].verdict, PathVerdict::Agreed { entry, from: ReplicaSide::B });
    }

    #[test]
    fn a_kept_loser_has_its_own_name_before_the_extension() {
        let name = |text: &str, number| keep_both().name(&path(text), ReplicaSide::B, number).unwrap().to_string();
        assert_eq!(name("d/photo.jpg", 1), "d/photo.conflict-there-2026-01-31.jpg");
        assert_eq!(name("d/photo.jpg", 2), "d/photo.conflict-there-2026-01-31-2.jpg");
        assert_eq!(name("d.x/.profile", 1), "d.x/.profile.conflict-there-2026-01-31");
        assert_eq!(name(&"n".repeat(255), 1).len(), 255);
    }

    #[test]
    fn both_files_are_kept_under_the_first_free_name() {
        let rules = ConflictRules { keep_both: Some(keep_both()), ..ConflictRules::default() };
        let mut decided = decisions(&[], &[file("f", 1)], &[file("f", 2)]);
        let mut asked = Vec::new();
        rules.apply(&mut decided, &mut |_, _, name| {
            asked.push(name.clone());
            if asked.len() == 1 { KeptName::Taken } else { KeptName::Free }
        });
        let kept = path("f.conflict-there-2026-01-31-2");
        assert_eq!(decided[0].keep_as.as_ref(), Some(&kept));
        assert_eq!((&decided[1].path, decided[1].is_kept), (&kept, true));
        assert!(matches!(decided[1].verdict, PathVerdict::Agreed { from: ReplicaSide::B, .. }));
    }
}
