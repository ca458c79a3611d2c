//! Filters: entries that a walk excludes, and the rules that decide.
//!
//! Patterns are gitignore's ([`pattern`]). Patterns of the command line apply in order, and the first match decides, as
//! in rsync. In a filter file the last matching line decides, as in git. Without a match so far, the per-directory
//! filter files apply, the innermost first ([`FilterScope`]). An entry without any match is included.
//!
//! rsync's rules ([`RsyncRules`]) are a list of their own, which excludes gitignore's: the first match decides, also
//! among rules of directories, which apply where the list names their file.
//!
//! An excluded directory is not entered, so no rule can include anything below it.

mod class;
pub mod definition;
pub mod pattern;
mod rsync_rule;
mod rsync_rules;
mod rules;
mod scope;
pub mod source_pattern;

pub use self::pattern::PATTERN_MAX;
pub use self::rsync_rule::{RsyncAction, RsyncRule};
pub use self::rsync_rules::{RsyncModifiers, RsyncRuleError, RsyncRuleOption, RsyncRules, RsyncSurroundings};
use self::rules::AskedName;
pub use self::rules::{ListSyntax, MergedFile, PatternList, PatternListError, PatternRule, PatternRules};
pub use self::scope::FilterScope;
use crate::entry::Timestamp;
use crate::filter::definition::{FileLimits, FilterOptions};
use crate::watch::ChangedPaths;

/// A walk's filters, parsed.
#[derive(Debug)]
pub struct Matcher {
    lists: Vec<PatternRules>,
    limits: FileLimits,
    /// The side of rsync's rules, if they are such.
    rsync: Option<FilterSide>,
    changed: Option<ChangedPaths>,
}

/// The side where rules apply. Only rsync's rules differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterSide {
    /// The source.
    Source,
    /// The target, which removes extraneous entries.
    Target {
        /// Whether those are extraneous too that rules without a side exclude.
        deletes_excluded: bool,
    },
}

impl FilterSide {
    /// Whether a rule with these modifiers applies here.
    fn has(self, modifiers: RsyncModifiers) -> bool {
        let is_of_both = modifiers.has(b's') == modifiers.has(b'r');
        match self {
            Self::Source => is_of_both || modifiers.has(b's'),
            Self::Target { deletes_excluded } => modifiers.has(b'r') || is_of_both && !deletes_excluded,
        }
    }
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
    /// Parses the patterns, as they apply at the source.
    pub fn new(filters: &FilterOptions) -> Result<Self, PatternListError> {
        Self::at(FilterSide::Source, filters)
    }

    /// Parses the patterns, as they apply at one side.
    pub fn at(side: FilterSide, filters: &FilterOptions) -> Result<Self, PatternListError> {
        let rules = |list: &PatternList| match list.syntax {
            ListSyntax::Rsync => PatternRules::of_rsync(&list.text, &[], side),
            ListSyntax::Pattern | ListSyntax::File => PatternRules::of(list),
        };
        let lists = filters.lists.iter().map(rules).collect::<Result<_, _>>()?;
        Ok(Self {
            lists,
            limits: filters.limits,
            rsync: filters.has_rsync_rules().then_some(side),
            changed: filters.changed.clone(),
        })
    }

    /// Whether the rules are rsync's: they apply to source arguments too, and what one side excludes, the other may
    /// not.
    pub fn is_rsync(&self) -> bool {
        self.rsync.is_some()
    }

    /// Returns the files of rsync's rules to read in a directory below `above`, in the order of their numbers.
    pub fn merged_files(&self, above: Option<&FilterScope>) -> Vec<MergedFile> {
        let mut all: Vec<_> = self.lists.iter().flat_map(PatternRules::merged_files).cloned().collect();
        above.into_iter().for_each(|above| above.add_merged(&mut all));
        all
    }

    /// Parses filter files of a directory below `above`, by their numbers.
    pub fn rules_of(
        &self,
        above: Option<&FilterScope>,
        files: &[(u8, Vec<u8>)],
    ) -> Result<Vec<(usize, PatternRules)>, PatternListError> {
        let mut merged = self.merged_files(above);
        let mut rules_of = |(number, text): &(u8, Vec<u8>)| {
            let rules = match self.rsync {
                // The directory's own files do not name it.
                Some(_) if usize::from(*number) >= merged.len() => return Ok(None),
                Some(side) => PatternRules::of_rsync(text, &merged, side)?,
                None => PatternRules::of_file(text, false)?,
            };
            merged.extend_from_slice(rules.merged_files());
            Ok(Some((usize::from(*number), rules)))
        };
        files.iter().filter_map(|file| rules_of(file).transpose()).collect()
    }

    /// Returns the rule that decides about `name` in the directory of `scope`; `None` where none matches, and the name
    /// is included.
    pub fn decide(&self, scope: &FilterScope, name: &[u8], is_directory: bool) -> Option<FilterDecision> {
        self.decide_in(scope, name, is_directory, false)
    }

    fn decide_in(
        &self,
        scope: &FilterScope,
        name: &[u8],
        is_directory: bool,
        is_in_removed: bool,
    ) -> Option<FilterDecision> {
        let path = scope.lazy_path(name);
        if self.is_rsync() {
            let asked = AskedName { path: &|| path.whole(), name, is_directory, is_in_removed };
            let mut lists = self.lists.iter().enumerate();
            let (by, rule) =
                lists.find_map(|(at, rules)| scope.decide_rsync(rules, (RuleOrigin::List(at), None), &asked))?;
            return Some(FilterDecision { by, line: rule.line, includes: rule.includes });
        }
        let typed = self.lists.iter().enumerate().find_map(|(number, rules)| {
            let rule = rules.decide(|| path.whole(), name, is_directory)?;
            Some((RuleOrigin::List(number), rule))
        });
        let (by, rule) = typed.or_else(|| scope.decide(&path, name, is_directory))?;
        Some(FilterDecision { by, line: rule.line, includes: rule.includes })
    }

    /// Whether `name` in the directory of `scope` is among the only paths to look at.
    pub fn covers(&self, scope: &FilterScope, name: &[u8]) -> bool {
        self.changed.as_ref().is_none_or(|changed| changed.covers(scope.lazy_path(name).whole()))
    }

    /// Whether `name` in the directory of `scope` is excluded.
    pub fn leaves_out(&self, scope: &FilterScope, name: &[u8], is_directory: bool) -> bool {
        !self.covers(scope, name) || self.excludes(scope, name, is_directory)
    }

    /// Whether a pattern excludes `name` in the directory of `scope`, changed or not.
    pub fn excludes(&self, scope: &FilterScope, name: &[u8], is_directory: bool) -> bool {
        self.decide(scope, name, is_directory).is_some_and(|decision| !decision.includes)
    }

    /// The same for a name in a directory that is removed, where perishable rules do not apply.
    pub fn leaves_out_of_removed(&self, scope: &FilterScope, name: &[u8], is_directory: bool) -> bool {
        !self.covers(scope, name)
            || self.decide_in(scope, name, is_directory, true).is_some_and(|decision| !decision.includes)
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
        !self.is_rsync() && self.lists.iter().find(decides).is_some_and(PatternRules::leaves_out_all_files)
    }

    /// Returns the list that excludes every name without an earlier match, if no list before it includes anything.
    pub fn leaves_out_everything(&self) -> Option<usize> {
        if self.is_rsync() {
            return None;
        }
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
