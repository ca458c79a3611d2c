//! `--interactive`: asks about each conflict, before anything changes.

use std::io::{self, BufRead, IsTerminal, Write};

use haul_control::controller::twoway::TwowayRun;
use haul_proto::twoway::ReplicaSide;
use haul_proto::twoway::prefer::decide_for;
use haul_proto::twoway::reconcile::{PathDecision, PathVerdict};
use haul_show::output::print;

use super::shown::{conflict_text, difference, root_text};
use crate::args::UsageError;

const KEYS: &str = "\
a  A's version goes to B          b  B's version goes to A
A  the same for all that is left  B  the same for all that is left
s  skip: leave the conflict       u  undo the last answer
d  show the difference            g  go: leave all others, and start
q  quit, and change nothing       ?  this list
";

/// Asks whether to go on.
pub fn ask_yes(question: &str) -> anyhow::Result<bool> {
    let answer = ask(question)?;
    Ok(answer.is_some_and(|answer| ["y", "yes"].contains(&answer.trim())))
}

/// Asks a question; `None` at the end of the input.
fn ask(question: &str) -> io::Result<Option<String>> {
    let mut out = io::stderr();
    out.write_all(question.as_bytes())?;
    out.flush()?;
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer)?;
    Ok((read > 0).then_some(answer))
}

/// What an answer means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Side(ReplicaSide),
    All(ReplicaSide),
    Skip,
    Undo,
    Difference,
    Go,
    Quit,
    Help,
}

impl Answer {
    fn of(text: &str) -> Option<Self> {
        Some(match text.trim() {
            "a" => Self::Side(ReplicaSide::A),
            "b" => Self::Side(ReplicaSide::B),
            "A" => Self::All(ReplicaSide::A),
            "B" => Self::All(ReplicaSide::B),
            "s" => Self::Skip,
            "u" => Self::Undo,
            "d" => Self::Difference,
            "g" => Self::Go,
            "q" => Self::Quit,
            "?" => Self::Help,
            _ => return None,
        })
    }
}

/// The conflicts, and the answers so far.
struct Conflicts<'d> {
    decisions: &'d mut [PathDecision],
    /// Indices of conflicts.
    open: Vec<usize>,
    /// Number of answers.
    at: usize,
    /// The decisions before each answer.
    before: Vec<Vec<(usize, PathDecision)>>,
}

impl<'d> Conflicts<'d> {
    fn new(decisions: &'d mut [PathDecision]) -> Self {
        let is_open = |(_, decision): &(usize, &PathDecision)| matches!(decision.verdict, PathVerdict::Conflict(_));
        let open = decisions.iter().enumerate().filter(is_open).map(|(index, _)| index).collect();
        Self { decisions, open, at: 0, before: Vec::new() }
    }

    fn present(&self) -> Option<&PathDecision> {
        self.open.get(self.at).map(|index| &self.decisions[*index])
    }

    /// Decides the next conflict, with all below it, or skips it.
    fn answer(&mut self, side: Option<ReplicaSide>) {
        let Some(first) = self.open.get(self.at).copied() else { return };
        let top = self.decisions[first].path.clone();
        let below =
            |decision: &PathDecision| decision.verdict == PathVerdict::WithinConflict && decision.path.is_below(&top);
        let covered = self.decisions[first + 1..].iter().take_while(|decision| below(decision)).count();
        let mut saved = Vec::new();
        if let Some(side) = side {
            for index in first..=first + covered {
                saved.push((index, self.decisions[index].clone()));
                decide_for(&mut self.decisions[index], side);
            }
        }
        self.before.push(saved);
        self.at += 1;
    }

    fn undo(&mut self) {
        let Some(saved) = self.before.pop() else { return };
        saved.into_iter().for_each(|(index, decision)| self.decisions[index] = decision);
        self.at -= 1;
    }
}

/// Asks about each conflict; `false`: the user quits.
pub fn choose(run: &TwowayRun, decisions: &mut [PathDecision]) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        return Err(UsageError::new("--interactive needs a terminal on standard input")
            .remedy("--prefer decides without one")
            .into());
    }
    let mut conflicts = Conflicts::new(decisions);
    let all = conflicts.open.len();
    if all == 0 {
        return Ok(true);
    }
    print(&format!("A {}\nB {}\n{KEYS}", root_text(run, ReplicaSide::A), root_text(run, ReplicaSide::B)));
    loop {
        let conflict = conflicts.present().cloned();
        let question = match &conflict {
            Some(conflict) => {
                print(&conflict_text(conflict));
                format!("{} of {all} [a b A B s u d g q ?] ", conflicts.at + 1)
            }
            None => format!("all {all} answered [u g q ?] "),
        };
        let Some(typed) = ask(&question)? else { return Ok(false) };
        match (Answer::of(&typed), conflict) {
            (Some(Answer::Side(side)), Some(_)) => conflicts.answer(Some(side)),
            (Some(Answer::All(side)), _) => (conflicts.at..all).for_each(|_| conflicts.answer(Some(side))),
            (Some(Answer::Skip), _) => conflicts.answer(None),
            (Some(Answer::Undo), _) => conflicts.undo(),
            (Some(Answer::Difference), Some(conflict)) => print(&difference(run, &conflict)),
            (Some(Answer::Go), _) => return Ok(true),
            (Some(Answer::Quit), _) => return Ok(false),
            _ => print(KEYS),
        }
    }
}

#[cfg(test)]
mod tests {
    use haul_proto::twoway::detect::ReplicaUpdate;
    use haul_proto::twoway::entry::{ReplicaContent, ReplicaEntry, ReplicaMetadata, TreePath};
    use haul_proto::twoway::merge::MetadataRules;
    use haul_proto::twoway::reconcile::Reconcile;

    use super::*;

    fn update(path: &str, content: Option<ReplicaContent>) -> Result<ReplicaUpdate, haul_proto::error::ProtocolError> {
        let metadata = ReplicaMetadata::default();
        let found = content.map(|content| ReplicaEntry { content, metadata, stamp: None });
        Ok(ReplicaUpdate { path: TreePath::new(path.as_bytes())?, archived: None, found })
    }

    fn file(size: u64) -> Option<ReplicaContent> {
        Some(ReplicaContent::File { size, digest: None })
    }

    /// Conflicts at `d`, which covers `d/f`, and at `g`.
    fn decisions() -> Vec<PathDecision> {
        let a = [update("d", Some(ReplicaContent::Directory)), update("d/f", file(1)), update("g", file(1))];
        let b = [update("d", file(2)), update("g", file(2))];
        let decided = Reconcile::new(a.into_iter(), b.into_iter(), MetadataRules::ALL);
        decided.collect::<Result<_, haul_proto::error::ProtocolError>>().unwrap()
    }

    fn from(decisions: &[PathDecision]) -> Vec<Option<ReplicaSide>> {
        let side = |decision: &PathDecision| match decision.verdict {
            PathVerdict::Agreed { from, .. } => Some(from),
            _ => None,
        };
        decisions.iter().map(side).collect()
    }

    #[test]
    fn an_answer_covers_what_is_below_and_can_be_undone() {
        let mut decided = decisions();
        let mut conflicts = Conflicts::new(&mut decided);
        conflicts.answer(Some(ReplicaSide::A));
        conflicts.answer(None);
        assert!(conflicts.present().is_none());
        conflicts.undo();
        assert_eq!(conflicts.present().map(|conflict| conflict.path.to_string()).as_deref(), Some("g"));
        conflicts.answer(Some(ReplicaSide::B));
        assert_eq!(from(&decided), [Some(ReplicaSide::A), Some(ReplicaSide::A), Some(ReplicaSide::B)]);
    }

    #[test]
    fn undoing_the_first_answer_restores_the_whole_subtree() {
        let (mut decided, before) = (decisions(), decisions());
        let mut conflicts = Conflicts::new(&mut decided);
        conflicts.answer(Some(ReplicaSide::B));
        conflicts.undo();
        conflicts.undo();
        assert_eq!(decided, before);
    }

    #[test]
    fn keys_are_letters_of_either_case() {
        assert_eq!(Answer::of("a\n"), Some(Answer::Side(ReplicaSide::A)));
        assert_eq!(Answer::of("A\n"), Some(Answer::All(ReplicaSide::A)));
        assert_eq!(Answer::of("x\n"), None);
    }
}
