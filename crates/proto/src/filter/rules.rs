//! The rules of one list: patterns and their effect.

use super::FilterSide;
use super::pattern::{PATTERN_MAX, Pattern, crosses_directories};
use super::rsync_rule::RsyncRule;
use super::rsync_rules::{CLEARED, ExpandedRule, RsyncModifiers, RsyncRules};
use crate::limits::FILTER_NAMES_MAX;
use crate::path::Name;

/// Rules in order.
#[derive(Debug, Clone, Default)]
pub struct PatternRules {
    rules: Vec<PatternRule>,
    /// Whether a rule needs more than the name.
    needs_path: bool,
    /// Files to read in each directory, from here on (rsync).
    merged: Vec<MergedFile>,
    /// Whether the same file in directories above does not apply (rsync).
    pub(super) is_cleared: bool,
}

/// A file of rsync's rules to read in each directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergedFile {
    /// Its name.
    pub name: Name,
    /// What its rules have in common.
    pub modifiers: RsyncModifiers,
}

/// A pattern and its effect.
#[derive(Debug, Clone)]
pub struct PatternRule {
    pattern: Pattern,
    /// Whether it matches the path relative to its list's directory instead of the name.
    is_of_path: bool,
    /// Whether it applies only to directories.
    is_of_directories: bool,
    /// Whether a match is included; otherwise it is excluded.
    pub includes: bool,
    /// Line number, from 1.
    pub line: u32,
    rsync: RsyncMarks,
}

/// Properties of rsync's rules alone.
#[derive(Debug, Clone, Default)]
struct RsyncMarks {
    /// It applies to what the pattern does not match.
    is_negated: bool,
    /// The path begins at its file's directory, not at the root of the transfer.
    is_anchored: bool,
    /// The pattern matches a directory as its contents.
    is_of_contents: bool,
    /// It does not apply in directories that are removed.
    is_perishable: bool,
    /// Instead of a pattern, the rules of a file in each directory: its number, and whether directories below inherit.
    merges: Option<(usize, bool)>,
}

/// The name that rules decide about.
pub(super) struct AskedName<'n> {
    /// Returns its path from the root of the transfer.
    pub path: &'n dyn Fn() -> &'n [u8],
    pub name: &'n [u8],
    pub is_directory: bool,
    /// Whether its directory is to be removed.
    pub is_in_removed: bool,
}

/// One pattern, or the contents of a filter file.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PatternList {
    /// Text as typed, or as in the file.
    pub text: Vec<u8>,
    /// Its syntax.
    pub syntax: ListSyntax,
    /// Whether a match is included; otherwise it is excluded. A `!` in a file inverts it.
    pub includes: bool,
}

/// The syntax of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum ListSyntax {
    /// One pattern.
    Pattern,
    /// A file: of its lines, the last match decides.
    File,
    /// rsync's rules, expanded ([`super::RsyncRules`]): the first match decides.
    Rsync,
}

/// Error of a list. Lines count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PatternListError {
    /// A pattern exceeds [`PATTERN_MAX`] bytes.
    #[error("line {line}: pattern longer than {PATTERN_MAX} bytes")]
    TooLong {
        /// Line of the pattern.
        line: u32,
    },
    /// A line has the form of an rsync filter rule (rsync(1), "FILTER RULES").
    #[error("line {line}: an rsync filter rule, not a pattern (\\ before its first character makes it one)")]
    RsyncRule {
        /// Line of the rule.
        line: u32,
    },
    /// A line is no expanded rsync filter rule.
    #[error("line {line}: not an expanded rsync filter rule")]
    Unexpanded {
        /// Line of the rule.
        line: u32,
    },
    /// rsync's rules name too many files in each directory.
    #[error("more than {FILTER_NAMES_MAX} names of filter files")]
    MergedFiles,
}

impl PatternRules {
    /// Parses a list. A filter file named by the user may be meant for rsync, so rsync filter rules are an error.
    pub fn of(list: &PatternList) -> Result<Self, PatternListError> {
        match list.syntax {
            ListSyntax::Pattern => Self::of_pattern(&list.text, list.includes),
            ListSyntax::Rsync => Self::of_rsync(&list.text, &[], FilterSide::Source),
            ListSyntax::File => match lines(&list.text).find(|(line, _)| RsyncRule::parse(line).is_some()) {
                Some((_, line)) => Err(PatternListError::RsyncRule { line }),
                None => Self::of_file(&list.text, list.includes),
            },
        }
    }

    /// Parses rsync's rules, expanded, as they apply at one side. A file in each directory that is read already, as
    /// `above` says, is not read again.
    pub fn of_rsync(text: &[u8], above: &[MergedFile], side: FilterSide) -> Result<Self, PatternListError> {
        let mut rules = Self { needs_path: true, ..Self::default() };
        for (text, line) in text.split(|byte| *byte == 0).zip(1..).filter(|(text, _)| !text.is_empty()) {
            if text == CLEARED {
                rules.is_cleared = true;
                continue;
            }
            let rule = ExpandedRule::parse(text).ok_or(PatternListError::Unexpanded { line })?;
            if rule.argument.len() > PATTERN_MAX {
                return Err(PatternListError::TooLong { line });
            }
            let mut parsed = PatternRule::rsync(&rule, line);
            if rule.letter == b':' {
                let name = Name::new(rule.argument).map_err(|_| PatternListError::Unexpanded { line })?;
                if above.iter().chain(&rules.merged).any(|file| file.name == name) {
                    continue;
                }
                let number = above.len() + rules.merged.len();
                if number == FILTER_NAMES_MAX {
                    return Err(PatternListError::MergedFiles);
                }
                let is_inherited = !(rule.modifiers.has(b'n') || rule.modifiers.has(b'C'));
                parsed.rsync.merges = Some((number, is_inherited));
                rules.merged.push(MergedFile { name, modifiers: rule.modifiers });
            }
            if parsed.rsync.merges.is_some() || side.has(rule.modifiers) {
                rules.rules.push(parsed);
            }
        }
        Ok(rules)
    }

    /// Returns the files to read in each directory from here on, which rsync's rules name.
    pub fn merged_files(&self) -> &[MergedFile] {
        &self.merged
    }

    /// Returns the first of rsync's rules that applies to a name. `len` is the length of the name's path in their
    /// file's directory; `None` for the root of the transfer. `merged` decides by the files in each directory.
    pub(super) fn first<'r, R>(
        &'r self,
        asked: &AskedName<'_>,
        len: Option<usize>,
        here: impl Fn(&'r PatternRule) -> R,
        merged: impl Fn(usize, bool) -> Option<R>,
    ) -> Option<R> {
        self.rules.iter().find_map(|rule| match rule.rsync.merges {
            Some((number, is_inherited)) => merged(number, is_inherited),
            None => rule.applies(asked, len).then(|| here(rule)),
        })
    }

    /// Parses a file; lines with `!` have the opposite effect.
    pub fn of_file(text: &[u8], includes: bool) -> Result<Self, PatternListError> {
        let mut rules = Self::default();
        for (line, number) in lines(text) {
            match line {
                [] | [b'#', ..] => {}
                [b'!', pattern @ ..] => rules.add(pattern, !includes, number)?,
                pattern => rules.add(pattern, includes, number)?,
            }
        }
        Ok(rules)
    }

    /// Parses a single pattern; `!`, `#` and spaces are literal.
    pub fn of_pattern(pattern: &[u8], includes: bool) -> Result<Self, PatternListError> {
        let mut rules = Self::default();
        rules.add(pattern, includes, 1)?;
        Ok(rules)
    }

    fn add(&mut self, pattern: &[u8], includes: bool, line: u32) -> Result<(), PatternListError> {
        if pattern.len() > PATTERN_MAX {
            return Err(PatternListError::TooLong { line });
        }
        let (pattern, is_of_directories) = match pattern {
            [pattern @ .., b'/'] => (pattern, true),
            _ => (pattern, false),
        };
        let is_of_path = pattern.contains(&b'/');
        let pattern = Pattern::new(pattern.strip_prefix(b"/").unwrap_or(pattern));
        self.needs_path |= is_of_path;
        let rsync = RsyncMarks::default();
        self.rules.push(PatternRule { pattern, is_of_path, is_of_directories, includes, line, rsync });
        Ok(())
    }

    /// Returns the last rule that matches `name`; `path` is its path relative to the list's directory.
    pub fn decide<'p>(&self, path: impl Fn() -> &'p [u8], name: &[u8], is_directory: bool) -> Option<&PatternRule> {
        let path = if self.needs_path { path() } else { name };
        self.rules.iter().rev().find(|rule| {
            let text = if rule.is_of_path { path } else { name };
            (is_directory || !rule.is_of_directories) && rule.pattern.matches(text)
        })
    }

    /// Returns the number of rules.
    pub fn count(&self) -> usize {
        self.rules.len()
    }

    /// Whether any rule includes.
    pub fn may_include(&self) -> bool {
        self.rules.iter().any(|rule| rule.includes)
    }

    /// Whether any rule includes files.
    pub fn may_include_files(&self) -> bool {
        self.rules.iter().any(|rule| rule.includes && !rule.is_of_directories)
    }

    /// Whether a rule excludes every file that no later rule matches, and no later rule includes files.
    pub fn leaves_out_all_files(&self) -> bool {
        let of_files = self.rules.iter().rev().filter(|rule| !rule.is_of_directories);
        let matches_all = |rule: &PatternRule| match rule.is_of_path {
            true => rule.pattern.matches_every_path(),
            false => rule.pattern.matches_everything(),
        };
        of_files.take_while(|rule| !rule.includes).any(matches_all)
    }

    /// Whether a rule excludes every name that no later rule matches, and no later rule includes.
    pub fn leaves_out_everything(&self) -> bool {
        let last = self.rules.iter().rev().take_while(|rule| !rule.includes);
        last.into_iter().any(|rule| !rule.is_of_directories && rule.pattern.matches_everything())
    }
}

impl PatternList {
    /// The list of rsync's rules, the only one of a copy.
    pub fn rsync(rules: &RsyncRules) -> Self {
        Self { text: rules.text(), syntax: ListSyntax::Rsync, includes: false }
    }
}

impl PatternRule {
    fn rsync(rule: &ExpandedRule<'_>, line: u32) -> Self {
        let (text, is_of_directories) = match rule.argument {
            [text @ .., b'/'] if !text.is_empty() => (text, true),
            text => (text, false),
        };
        let is_anchored = text.starts_with(b"/");
        let rsync = RsyncMarks {
            is_negated: rule.modifiers.has(b'!'),
            is_anchored,
            is_of_contents: text.ends_with(b"***"),
            is_perishable: rule.modifiers.has(b'p'),
            merges: None,
        };
        Self {
            pattern: Pattern::rsync(text.strip_prefix(b"/").unwrap_or(text), is_anchored),
            is_of_path: text.contains(&b'/') || crosses_directories(text),
            is_of_directories,
            includes: rule.letter == b'+',
            line,
            rsync,
        }
    }

    fn applies(&self, asked: &AskedName<'_>, len: Option<usize>) -> bool {
        let RsyncMarks { is_negated, is_anchored, is_of_contents, is_perishable, .. } = self.rsync;
        if is_perishable && asked.is_in_removed {
            return false;
        }
        let text = match (self.is_of_path, len.filter(|_| is_anchored)) {
            (false, _) => asked.name,
            (true, None) => (asked.path)(),
            (true, Some(len)) => {
                let whole = (asked.path)();
                &whole[whole.len().saturating_sub(len)..]
            }
        };
        let is_kind = asked.is_directory || !self.is_of_directories;
        let matches = || match is_of_contents && asked.is_directory {
            true => self.pattern.matches(&[text, b"/"].concat()),
            false => self.pattern.matches(text),
        };
        (is_kind && matches()) != is_negated
    }
}

/// Returns the lines of a file with their numbers, without line ends and trailing spaces.
fn lines(text: &[u8]) -> impl Iterator<Item = (&[u8], u32)> {
    let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
    let content = |line| without_trailing_spaces(strip_carriage_return(line));
    text.split(|byte| *byte == b'\n').map(content).zip(1..)
}

fn strip_carriage_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Strips trailing spaces, unless a backslash precedes them.
fn without_trailing_spaces(line: &[u8]) -> &[u8] {
    let (mut end, mut at) = (0, 0);
    while at < line.len() {
        match line[at] {
            b' ' => at += 1,
            b'\\' => {
                at = (at + 2).min(line.len());
                end = at;
            }
            _ => {
                at += 1;
                end = at;
            }
        }
    }
    &line[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(text: &str, path: &str, is_directory: bool) -> Option<(bool, u32)> {
        let rules = PatternRules::of_file(text.as_bytes(), false).unwrap();
        let name = path.rsplit('/').next().unwrap();
        rules.decide(|| path.as_bytes(), name.as_bytes(), is_directory).map(|rule| (rule.includes, rule.line))
    }

    #[test]
    fn the_last_matching_line_decides() {
        let text = "*.o\n!keep.o\n# a comment\n\nsecret*\n";
        for (path, expected) in [
            ("x.o", Some((false, 1))),
            ("d/x.o", Some((false, 1))),
            ("keep.o", Some((true, 2))),
            ("secret.o", Some((false, 5))),
            ("# a comment", None),
            ("x.c", None),
        ] {
            assert_eq!(verdict(text, path, false), expected, "{path}");
        }
    }

    #[test]
    fn a_slash_anchors_and_one_at_the_end_means_directories() {
        for (pattern, path, is_directory, matches) in [
            ("/a", "a", false, true),
            ("/a", "d/a", false, false),
            ("a", "d/a", false, true),
            ("d/a", "d/a", false, true),
            ("d/a", "x/d/a", false, false),
            ("a/", "a", true, true),
            ("a/", "d/a", true, true),
            ("a/", "a", false, false),
            ("/a/", "d/a", true, false),
            ("**/d/a", "x/d/a", false, true),
            ("d/*", "d/a", false, true),
            ("a//", "a", true, false),
            ("/", "a", true, false),
        ] {
            assert_eq!(verdict(pattern, path, is_directory).is_some(), matches, "{pattern} {path}");
        }
    }

    #[test]
    fn lines_are_read_as_git_reads_them() {
        for (text, path) in [
            ("\u{feff}a", "a"),
            ("a\r\n", "a"),
            ("a  \n", "a"),
            ("a\\ \n", "a "),
            ("a\\  \n", "a "),
            ("\\#a", "#a"),
            ("\\!a", "!a"),
            (" a", " a"),
            ("a\tb", "a\tb"),
        ] {
            assert!(verdict(text, path, false).is_some(), "{text:?} {path:?}");
        }
        for (text, path) in [("a\\ \n", "a"), ("   ", ""), ("#a", "#a"), ("a\\", "a"), ("a\\", "a\\")] {
            assert_eq!(verdict(text, path, false), None, "{text:?} {path:?}");
        }
    }

    #[test]
    fn a_command_line_pattern_keeps_hashes_and_trailing_spaces() {
        for pattern in ["#a", "!a", "a "] {
            let rules = PatternRules::of_pattern(pattern.as_bytes(), false).unwrap();
            assert!(rules.decide(|| b"", pattern.as_bytes(), false).is_some(), "{pattern:?}");
        }
    }

    #[test]
    fn in_a_file_of_includes_an_exclamation_mark_excludes() {
        let rules = PatternRules::of_file(b"a\n!b", true).unwrap();
        let includes = |name: &'static str| rules.decide(|| b"", name.as_bytes(), false).map(|rule| rule.includes);
        assert_eq!((includes("a"), includes("b"), includes("c")), (Some(true), Some(false), None));
    }

    #[test]
    fn rsync_rules_in_a_named_file_are_refused_with_their_line() {
        for rule in
            ["- *.o", "+ a.c", ". more", ": .rules", "!", "- *.o \r", "P *.o", "hide,! *.o", "merge rules", "clear"]
        {
            let text = format!("# rules\n{rule}\n").into_bytes();
            assert!(PatternRules::of_file(&text, false).is_ok(), "as git has it, in the files of directories");
            let read = PatternRules::of(&PatternList { text, syntax: ListSyntax::File, includes: false });
            assert_eq!(read.unwrap_err(), PatternListError::RsyncRule { line: 2 }, "{rule:?}");
        }
        for (pattern, name) in
            [("-", "-"), ("-a", "-a"), ("\\- *.o", "- x.o"), ("\\P x", "P x"), ("\\!", "!"), ("+", "+"), ("..", "..")]
        {
            let list = PatternList { text: pattern.as_bytes().to_vec(), syntax: ListSyntax::File, includes: false };
            let rules = PatternRules::of(&list).unwrap();
            assert!(rules.decide(|| b"", name.as_bytes(), false).is_some(), "{pattern:?}");
        }
    }

    #[test]
    fn rules_that_exclude_everything_are_recognised() {
        for (text, leaves) in [
            ("*", true),
            ("a\n*\n", true),
            ("*\n!*.c\n", false),
            ("!*.c\n*\n", true),
            ("/**", true),
            ("*/", false),
            ("*\na\n", true),
            ("a", false),
        ] {
            assert_eq!(
                PatternRules::of_file(text.as_bytes(), false).unwrap().leaves_out_everything(),
                leaves,
                "{text:?}"
            );
        }
    }

    #[test]
    fn an_overlong_pattern_is_named_by_its_line() {
        let text = format!("a\n{}\n", "x".repeat(PATTERN_MAX + 1));
        assert_eq!(PatternRules::of_file(text.as_bytes(), false).unwrap_err(), PatternListError::TooLong { line: 2 });
    }
}
