//! Filters: entries that a walk excludes, and the rules that decide.
//!
//! Patterns are gitignore's ([`pattern`]). Patterns of the command line apply in order, and the first match decides, as
//! in rsync. In a filter file the last matching line decides, as in git. Without a match so far, the per-directory
//! filter files apply, the innermost first ([`FilterScope`]). An entry without any match is included.
//!
//! An excluded directory is not entered, so no rule can include anything below it.

mod class;
pub mod definition;
pub mod pattern;
mod rsync_rule;
mod rules;
mod scope;
pub mod source_pattern;

pub use self::pattern::PATTERN_MAX;
pub use self::rsync_rule::{RsyncAction, RsyncRule};
pub use self::rules::{PatternList, PatternListError, PatternRule, PatternRules};
pub use self::scope::FilterScope;
use crate::entry::Timestamp;
use crate::filter::definition::{FileLimits, FilterOptions};

/// A walk's filters, parsed.
#[derive(Debug)]
pub struct Matcher {
    lists: Vec<PatternRules>,
    limits: FileLimits,
}

/// The rule that decides about a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilterDecision {
    /// Origin of the rule.
    pub by: RuleOrigin,
    /// Line number of the rule there, from 1.
    pub line: u32,
    /// Whether the name is included; otherwise it is excluded.
    pub includes: bool,
}

/// Origin of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleOrigin {
    /// The command line: number of the list, from 0.
    List(usize),
    /// A filter file in a directory.
    File {
        /// Number of directories above that of the name.
        above: usize,
        /// Index of the filter file's name, from 0.
        number: usize,
    },
}

/// A limit that a file exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExceededLimit {
    /// The file is smaller.
    MinSize,
    /// The file is larger.
    MaxSize,
    /// The file was last modified before this time.
    Newer,
    /// The file was last modified at this time or later.
    Older,
}

impl Matcher {
    /// Parses the patterns.
    pub fn new(filters: &FilterOptions) -> Result<Self, PatternListError> {
        let lists = filters.lists.iter().map(PatternRules::of).collect::<Result<_, _>>()?;
        Ok(Self { lists, limits: filters.limits })
    }

    /// Returns the rule that decides about `name` in the directory of `scope`; `None` where none matches, and the name
    /// is included.
    pub fn decide(&self, scope: &FilterScope, name: &[u8], is_directory: bool) -> Option<FilterDecision> {
        let path = scope.lazy_path(name);
        let typed = self.lists.iter().enumerate().find_map(|(number, rules)| {
            let rule = rules.decide(|| path.whole(), name, is_directory)?;
            Some((RuleOrigin::List(number), rule))
        });
        let (by, rule) = typed.or_else(|| scope.decide(&path, name, is_directory))?;
        Some(FilterDecision { by, line: rule.line, includes: rule.includes })
    }

    /// Whether `name` in the directory of `scope` is excluded.
    pub fn leaves_out(&self, scope: &FilterScope, name: &[u8], is_directory: bool) -> bool {
        self.decide(scope, name, is_directory).is_some_and(|decision| !decision.includes)
    }

    /// Returns the limit that a file of this size and time exceeds.
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

    /// Whether the lists exclude all that is no directory, whatever its name.
    pub fn leaves_out_all_files(&self) -> bool {
        let decides = |rules: &&PatternRules| rules.leaves_out_all_files() || rules.may_include_files();
        self.lists.iter().find(decides).is_some_and(PatternRules::leaves_out_all_files)
    }

    /// Returns the list that excludes every name without an earlier match, if no list before it includes anything.
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
