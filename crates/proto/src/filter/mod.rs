//! Filters: which of what a walk comes across is left out, and which rule says so.
//!
//! Patterns are gitignore's ([`pattern`]). What was typed is asked in its order, and the first that has something to say
//! decides, as in rsync; in a file of patterns, the last line that matches decides, as in git. When none of them has said
//! anything, the files in the directories are asked, the innermost first ([`FilterScope`]). What nobody speaks of is taken.
//!
//! A directory that is left out is not looked into, so that no rule can take anything below it.

mod class;
pub mod definition;
pub mod pattern;
mod rules;
mod scope;

use crate::entry::Timestamp;
use crate::filter::definition::{FileLimits, FilterOptions};

pub use self::pattern::PATTERN_MAX;
pub use self::rules::{PatternList, PatternListError, PatternRule, PatternRules};
pub use self::scope::FilterScope;

/// What a walk is filtered by, ready to be asked.
#[derive(Debug)]
pub struct Matcher {
    lists: Vec<PatternRules>,
    limits: FileLimits,
}

/// The rule that decides of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilterDecision {
    /// Who has it.
    pub by: RuleOrigin,
    /// Its line there, from 1.
    pub line: u32,
    /// The name is taken; else it is left out.
    pub includes: bool,
}

/// Who has a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleOrigin {
    /// What was typed: the number of the list, from 0.
    List(usize),
    /// A file in a directory.
    File {
        /// So many directories above the one that the name is in.
        above: usize,
        /// Which of the names of such files it has, from 0.
        number: usize,
    },
}

/// A limit that a file does not keep to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExceededLimit {
    /// It is smaller.
    MinSize,
    /// It is larger.
    MaxSize,
    /// It was last modified before that.
    Newer,
    /// It was last modified then or later.
    Older,
}

impl Matcher {
    /// Makes rules of patterns.
    pub fn new(filters: &FilterOptions) -> Result<Self, PatternListError> {
        let lists = filters.lists.iter().map(PatternRules::of).collect::<Result<_, _>>()?;
        Ok(Self { lists, limits: filters.limits })
    }

    /// Which rule decides of `name` in the directory of `scope`; `None` where none does, and it is taken.
    pub fn decide(&self, scope: &FilterScope, name: &[u8], is_directory: bool) -> Option<FilterDecision> {
        let path = scope.lazy_path(name);
        let typed = self.lists.iter().enumerate().find_map(|(number, rules)| {
            let rule = rules.decide(|| path.whole(), name, is_directory)?;
            Some((RuleOrigin::List(number), rule))
        });
        let (by, rule) = typed.or_else(|| scope.decide(&path, name, is_directory))?;
        Some(FilterDecision { by, line: rule.line, includes: rule.includes })
    }

    /// Whether `name` in the directory of `scope` is left out.
    pub fn leaves_out(&self, scope: &FilterScope, name: &[u8], is_directory: bool) -> bool {
        self.decide(scope, name, is_directory).is_some_and(|decision| !decision.includes)
    }

    /// The limit that a file of this size and time does not keep to.
    pub fn limit(&self, size: u64, modified: Timestamp) -> Option<ExceededLimit> {
        let FileLimits { min_size, max_size, newer_s, older_s } = self.limits;
        let broken = [
            (ExceededLimit::MinSize, min_size.is_some_and(|least| size < least)),
            (ExceededLimit::MaxSize, max_size.is_some_and(|most| size > most)),
            (ExceededLimit::Newer, newer_s.is_some_and(|time| modified.seconds < time)),
            (ExceededLimit::Older, older_s.is_some_and(|time| modified.seconds >= time)),
        ];
        broken.into_iter().find(|(_, is_broken)| *is_broken).map(|(limit, _)| limit)
    }

    /// The list that leaves out whatever comes as far as that, where nothing before it takes anything.
    pub fn leaves_out_everything(&self) -> Option<usize> {
        for (number, rules) in self.lists.iter().enumerate() {
            if rules.leaves_out_everything() {
                return Some(number);
            }
            if rules.may_include() {
                return None;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
