//! rsync's filter rules (rsync(1), "FILTER RULES") as typed, and their expansion: a list without files to merge, CVS's
//! patterns and `!`, in which each rule states its side.
//!
//! The expanded text has one rule for each NUL-terminated line: `+`, `-` or `:`, modifiers, a space, and the pattern or
//! the name of the file to read in each directory.

use std::{fmt, io};

use super::pattern::PATTERN_MAX;
use super::rsync_rule::RsyncAction;
use crate::path::{Name, escape};

/// Most files that merge each other.
const MERGE_DEPTH_MAX: usize = 32;
/// The patterns of `-C`.
const CVS_PATTERNS: &[u8] =
    b"RCS SCCS CVS CVS.adm RCSLOG cvslog.* tags TAGS .make.state .nse_depinfo *~ #* .#* ,* _$* \
    *$ *.old *.bak *.BAK *.orig *.rej .del-* *.a *.olb *.o *.obj *.so *.exe *.Z *.elc *.ln core .svn/ .git/ .hg/ .bzr/";
/// Each action with its letter, its word, and the modifiers of its letter.
const ACTIONS: [(RsyncAction, u8, &[u8], &[u8]); 9] = [
    (RsyncAction::Exclude, b'-', b"exclude", b""),
    (RsyncAction::Include, b'+', b"include", b""),
    (RsyncAction::Hide, b'H', b"hide", b"s"),
    (RsyncAction::Show, b'S', b"show", b"s"),
    (RsyncAction::Protect, b'P', b"protect", b"r"),
    (RsyncAction::Risk, b'R', b"risk", b"r"),
    (RsyncAction::Merge, b'.', b"merge", b""),
    (RsyncAction::DirMerge, b':', b"dir-merge", b""),
    (RsyncAction::Clear, b'!', b"clear", b""),
];

/// Modifiers of a rule, as letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RsyncModifiers(u16);

impl RsyncModifiers {
    const LETTERS: &'static [u8; 10] = b"!Csrp-+enw";

    fn of(letters: &[u8]) -> Option<Self> {
        letters.iter().try_fold(Self::default(), |all, letter| all.with(*letter))
    }

    /// Whether it contains a letter.
    pub fn has(self, letter: u8) -> bool {
        self.with(letter) == Some(self)
    }

    fn has_any(self, letters: &[u8]) -> bool {
        letters.iter().any(|letter| self.has(*letter))
    }

    fn with(self, letter: u8) -> Option<Self> {
        let at = Self::LETTERS.iter().position(|known| *known == letter)?;
        Some(Self(self.0 | 1 << at))
    }

    fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn only(self, letters: &[u8]) -> Self {
        Self(self.0 & Self::of(letters).unwrap_or_default().0)
    }

    /// Whether the lines of a file with these modifiers are patterns without a prefix.
    fn are_patterns(self) -> bool {
        self.has_any(b"-+C")
    }
}

/// The option that a rule was given by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RsyncRuleOption {
    /// `--filter`: a rule.
    Filter,
    /// `--include`: a pattern.
    Include,
    /// `--exclude`: a pattern.
    Exclude,
    /// `--include-from`: the name of a file of patterns.
    IncludeFrom,
    /// `--exclude-from`: the name of a file of patterns.
    ExcludeFrom,
}

/// What rules need besides their text.
pub struct RsyncSurroundings<'r> {
    /// Reads a file by its name as typed. `InvalidInput` is the error of a file outside the directory.
    pub read: &'r mut dyn FnMut(&[u8]) -> io::Result<Vec<u8>>,
    /// Additional patterns of `-C`, between spaces: `~/.cvsignore` and `$CVSIGNORE`.
    pub cvs: &'r [u8],
    /// Whether NUL separates the lines of files (`--from0`).
    pub has_nul_lines: bool,
}

/// Error of a rule.
#[derive(Debug, thiserror::Error)]
#[error("{}{fault}", place.as_ref().map(RulePlace::to_string).unwrap_or_default())]
pub struct RsyncRuleError {
    /// Number of the option, from 0.
    pub option: usize,
    place: Option<RulePlace>,
    fault: RsyncRuleFault,
}

impl RsyncRuleError {
    /// Whether a file that an option names cannot be read.
    pub fn is_unreadable(&self) -> bool {
        matches!(self.fault, RsyncRuleFault::Read { .. } | RsyncRuleFault::ReadNamed)
    }
}

/// The line with an error in a file that an option or a directory names. Names and texts that only files contain are
/// not shown: a peer may choose what is read as rules.
#[derive(Debug)]
struct RulePlace {
    /// Empty for a directory's file, whose name the caller shows.
    file: String,
    line: usize,
    /// The error is in a file that this line names.
    is_named_there: bool,
}

impl fmt::Display for RulePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, is_named_there } = self;
        let comma = if file.is_empty() { "" } else { ", " };
        let named = if *is_named_there { "in the file named there: " } else { "" };
        write!(f, "{file}{comma}line {line}: {named}")
    }
}

#[derive(Debug, thiserror::Error)]
enum RsyncRuleFault {
    #[error("not an rsync filter rule (rsync(1), FILTER RULES)")]
    Unknown,
    #[error("modifier {0:?} is not valid in this rule")]
    Modifier(char),
    #[error("rules for absolute paths (/) and for extended attributes (x) are not supported")]
    Unsupported,
    #[error("a rule without a pattern or file name")]
    Empty,
    #[error("! takes no pattern")]
    Clear,
    #[error("pattern longer than {PATTERN_MAX} bytes, or with a NUL byte")]
    Pattern,
    #[error("not the name of a file in each directory")]
    Name,
    #[error("a file for one side contains a rule with a side")]
    Sides,
    #[error("merge-file include depth limit exceeded: {MERGE_DEPTH_MAX} files")]
    Depth,
    #[error("the file is outside its directory")]
    Outside,
    #[error("cannot read the file that this rule names")]
    ReadNamed,
    #[error("cannot read {}: {error}", escape(.file))]
    Read { file: Vec<u8>, error: io::Error },
}

/// A rule of the expansion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExpandedRule<'t> {
    /// `+`, `-`, or `:`.
    pub letter: u8,
    pub modifiers: RsyncModifiers,
    pub argument: &'t [u8],
}

impl<'t> ExpandedRule<'t> {
    /// Parses a line of the expanded text.
    pub fn parse(line: &'t [u8]) -> Option<Self> {
        let (&letter, rest) = line.split_first().filter(|(letter, _)| b"+-:".contains(letter))?;
        let space = rest.iter().position(|byte| *byte == b' ')?;
        let argument = Some(&rest[space + 1..]).filter(|argument| !argument.is_empty())?;
        Some(Self { letter, modifiers: RsyncModifiers::of(&rest[..space])?, argument })
    }
}

/// rsync's filter rules, expanded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RsyncRules {
    lines: Vec<Vec<u8>>,
    /// Whether the rules of directories above do not apply.
    is_cleared: bool,
}

/// The first line of a file that does not inherit the rules of directories above.
pub(super) const CLEARED: &[u8] = b"!";

impl RsyncRules {
    /// Parses the rules of options in their order. Files are read at once, except those in each directory.
    pub fn parse<'t>(
        options: impl IntoIterator<Item = (RsyncRuleOption, &'t [u8])>,
        surroundings: RsyncSurroundings<'_>,
    ) -> Result<Self, RsyncRuleError> {
        let mut expansion = RuleExpansion { rules: Self::default(), first: 0, depth: 0, place: None, surroundings };
        for (number, (option, text)) in options.into_iter().enumerate() {
            let (modifiers, is_file) = match option {
                RsyncRuleOption::Filter => (&b""[..], false),
                RsyncRuleOption::Include => (&b"+"[..], false),
                RsyncRuleOption::Exclude => (&b""[..], false),
                RsyncRuleOption::IncludeFrom => (&b"+"[..], true),
                RsyncRuleOption::ExcludeFrom => (&b""[..], true),
            };
            let modifiers = RsyncModifiers::of(modifiers).unwrap_or_default();
            let template = RuleTemplate { modifiers, has_old_prefixes: option != RsyncRuleOption::Filter };
            let added = if is_file { expansion.merge(text, template) } else { expansion.add(text, template) };
            added.map_err(|fault| RsyncRuleError { option: number, place: expansion.place.take(), fault })?;
        }
        Ok(expansion.rules)
    }

    /// Parses a file of a directory, which was named with these modifiers; `read` reads others there.
    pub fn of_directory(
        text: &[u8],
        modifiers: RsyncModifiers,
        read: &mut dyn FnMut(&[u8]) -> io::Result<Vec<u8>>,
    ) -> Result<Self, RsyncRuleError> {
        let surroundings = RsyncSurroundings { read, cvs: b"", has_nul_lines: false };
        let mut expansion = RuleExpansion { rules: Self::default(), first: 0, depth: 0, place: None, surroundings };
        let template = RuleTemplate { modifiers, has_old_prefixes: false };
        let added = expansion.file(b"", text, template);
        added.map_err(|fault| RsyncRuleError { option: 0, place: expansion.place.take(), fault })?;
        Ok(expansion.rules)
    }

    /// The expanded text, which [`PatternList::rsync`](super::PatternList::rsync) makes a list of a copy's filters.
    pub fn text(&self) -> Vec<u8> {
        let cleared = self.is_cleared.then_some(CLEARED);
        let lines = cleared.into_iter().chain(self.lines.iter().map(Vec::as_slice));
        lines.flat_map(|line| line.iter().copied().chain([0])).collect()
    }

    fn push(&mut self, letter: u8, modifiers: RsyncModifiers, argument: &[u8]) {
        let letters = RsyncModifiers::LETTERS.iter().filter(|letter| modifiers.has(**letter)).copied();
        let head: Vec<u8> = [letter].into_iter().chain(letters).chain([b' ']).collect();
        self.lines.push([&head, argument].concat());
    }
}

/// What the rules of a file or option have in common.
#[derive(Clone, Copy)]
struct RuleTemplate {
    modifiers: RsyncModifiers,
    /// Whether only `+ ` and `- ` are prefixes, and may be missing.
    has_old_prefixes: bool,
}

struct RuleExpansion<'r> {
    rules: RsyncRules,
    /// The first rule that `!` removes.
    first: usize,
    depth: usize,
    /// Where an error is, if in a file.
    place: Option<RulePlace>,
    surroundings: RsyncSurroundings<'r>,
}

impl RuleExpansion<'_> {
    /// Adds a rule.
    fn add(&mut self, text: &[u8], template: RuleTemplate) -> Result<(), RsyncRuleFault> {
        let includes = if template.modifiers.has(b'+') { RsyncAction::Include } else { RsyncAction::Exclude };
        let none = Vec::new();
        let (action, own, argument) = match text {
            b"!" if template.has_old_prefixes || template.modifiers.has(b'C') => (RsyncAction::Clear, none, text),
            [b'-', b' ', pattern @ ..] if template.has_old_prefixes => (RsyncAction::Exclude, none, pattern),
            [b'+', b' ', pattern @ ..] if template.has_old_prefixes => (RsyncAction::Include, none, pattern),
            _ if template.has_old_prefixes || template.modifiers.are_patterns() => (includes, none, text),
            _ => split(text)?,
        };
        if action == RsyncAction::Clear {
            self.rules.is_cleared |= self.first == 0;
            self.rules.lines.truncate(self.first);
            return Ok(());
        }
        let own = RsyncModifiers::of(&own).ok_or(RsyncRuleFault::Unsupported)?;
        if template.modifiers.has_any(b"sr") && own.has_any(b"sr") {
            return Err(RsyncRuleFault::Sides);
        }
        let modifiers = own.and(template.modifiers.only(b"srp"));
        let is_merge = matches!(action, RsyncAction::Merge | RsyncAction::DirMerge);
        let argument = match argument {
            b"" if own.has(b'C') && is_merge => b".cvsignore",
            b"" if !own.has(b'C') => return Err(RsyncRuleFault::Empty),
            argument if argument.len() > PATTERN_MAX || argument.contains(&0) => return Err(RsyncRuleFault::Pattern),
            argument => argument,
        };
        let name = argument.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if own.has(b'e') {
            self.rules.push(b'-', RsyncModifiers::default(), name);
        }
        match action {
            RsyncAction::Merge => self.merge(argument, RuleTemplate { modifiers, has_old_prefixes: false })?,
            RsyncAction::DirMerge => {
                Name::new(name).map_err(|_| RsyncRuleFault::Name)?;
                if argument.split(|byte| *byte == b'/').any(|name| name == b"..") {
                    return Err(RsyncRuleFault::Outside);
                }
                self.rules.push(b':', modifiers, name);
            }
            _ if own.has(b'C') => self.add_cvs_patterns(modifiers)?,
            RsyncAction::Include | RsyncAction::Show | RsyncAction::Risk => self.rules.push(b'+', modifiers, argument),
            _ => self.rules.push(b'-', modifiers, argument),
        }
        Ok(())
    }

    fn add_cvs_patterns(&mut self, modifiers: RsyncModifiers) -> Result<(), RsyncRuleFault> {
        let before = std::mem::replace(&mut self.first, self.rules.lines.len());
        let of = |modifiers| RuleTemplate { modifiers, has_old_prefixes: false };
        let perishable = of(modifiers.with(b'p').unwrap_or_default());
        words(CVS_PATTERNS).try_for_each(|word| self.add(word, perishable))?;
        words(self.surroundings.cvs).try_for_each(|word| self.add(word, of(modifiers)))?;
        self.first = before;
        Ok(())
    }

    /// Adds the rules of a file.
    fn merge(&mut self, name: &[u8], template: RuleTemplate) -> Result<(), RsyncRuleFault> {
        if self.depth == MERGE_DEPTH_MAX {
            return Err(RsyncRuleFault::Depth);
        }
        let text =
            (self.surroundings.read)(name).map_err(|error| RsyncRuleFault::Read { file: name.to_vec(), error })?;
        self.depth += 1;
        self.file(name, &text, template)?;
        self.depth -= 1;
        Ok(())
    }

    fn file(&mut self, name: &[u8], text: &[u8], template: RuleTemplate) -> Result<(), RsyncRuleFault> {
        if template.modifiers.has_any(b"wC") {
            return words(text).try_for_each(|word| self.add(word, template));
        }
        let (end, also) = if self.surroundings.has_nul_lines { (0, 0) } else { (b'\n', b'\r') };
        let lines = text.split(|byte| *byte == end).zip(1..);
        for (line, number) in lines.flat_map(|(line, at)| line.split(move |byte| *byte == also).map(move |it| (it, at)))
        {
            if !matches!(line, [] | [b'#' | b';', ..])
                && let Err(fault) = self.add(line, template)
            {
                let is_named_there = self.place.is_some();
                self.place = Some(RulePlace { file: escape(name), line: number, is_named_there });
                return Err(match fault {
                    RsyncRuleFault::Read { error, .. } if error.kind() == io::ErrorKind::InvalidInput => {
                        RsyncRuleFault::Outside
                    }
                    RsyncRuleFault::Read { .. } => RsyncRuleFault::ReadNamed,
                    fault => fault,
                });
            }
        }
        Ok(())
    }
}

/// Returns the action of a rule, its modifiers, with those of its letter, and its argument.
fn split(text: &[u8]) -> Result<(RsyncAction, Vec<u8>, &[u8]), RsyncRuleFault> {
    let is_end = |rest: &[u8]| matches!(rest, [] | [b' ' | b'_' | b',', ..]);
    let prefix = |(action, letter, word, own): &(RsyncAction, u8, &'static [u8], &'static [u8])| {
        let after_word = text.strip_prefix(*word).filter(|rest| is_end(rest));
        let rest = after_word.or_else(|| text.strip_prefix(&[*letter]))?;
        Some((*action, *own, rest.strip_prefix(b",").unwrap_or(rest)))
    };
    let (action, own, rest) = ACTIONS.iter().find_map(prefix).ok_or(RsyncRuleFault::Unknown)?;
    if action == RsyncAction::Clear {
        let is_alone = matches!(rest, [] | b" " | b"_");
        return if is_alone { Ok((action, Vec::new(), b"")) } else { Err(RsyncRuleFault::Clear) };
    }
    let end = rest.iter().position(|byte| matches!(byte, b' ' | b'_')).unwrap_or(rest.len());
    let (modifiers, argument) = (&rest[..end], rest.get(end + 1..).unwrap_or_default());
    let known = match action {
        RsyncAction::Merge | RsyncAction::DirMerge => &b"/Csrpx-+enw"[..],
        _ if own.is_empty() => b"/!Csrpx",
        _ => b"/!px",
    };
    let is_repeated = modifiers.iter().filter(|letter| b"-+C".contains(letter)).count() > 1;
    match modifiers.iter().find(|letter| !known.contains(letter) || is_repeated) {
        Some(letter) => Err(RsyncRuleFault::Modifier(char::from(*letter))),
        None => Ok((action, [own, modifiers].concat(), argument)),
    }
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| matches!(byte, b' ' | b'\t'..=b'\r')).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(options: &[(RsyncRuleOption, &str)]) -> Result<String, String> {
        let mut read = |name: &[u8]| match name {
            b"rules" => Ok(b"# a\r\n- a\r;b\n\n+s b c\n".to_vec()),
            b"patterns" => Ok(b"- a\n+ b\nc\n!\nd".to_vec()),
            b"words" => Ok(b"a -_b\t!".to_vec()),
            b"deep" => Ok(b". deep".to_vec()),
            b"outer" => Ok(b"- a\n. bad\n".to_vec()),
            b"lost" => Ok(b". secret".to_vec()),
            b"bad" => Ok(b"- a\r\n\r\nb\n".to_vec()),
            _ => Err(io::ErrorKind::NotFound.into()),
        };
        let surroundings = RsyncSurroundings { read: &mut read, cvs: b"! mine", has_nul_lines: false };
        let options = options.iter().map(|(option, text)| (*option, text.as_bytes()));
        let rules = RsyncRules::parse(options, surroundings).map_err(|error| error.to_string())?;
        let lines: Vec<_> = rules.lines.iter().map(|line| String::from_utf8_lossy(line)).collect();
        Ok(lines.join("|"))
    }

    #[test]
    fn rules_become_patterns_with_their_sides() {
        use RsyncRuleOption::*;
        for (options, expected) in [
            (&[(Filter, "- a"), (Filter, "+_b"), (Filter, "-,! c")][..], "- a|+ b|-! c"),
            (&[(Filter, "H a"), (Filter, "show,p b"), (Filter, "P c"), (Filter, "risk d")], "-s a|+sp b|-r c|+r d"),
            (&[(Filter, "-   a ")], "-   a "),
            (&[(Filter, "- a"), (Filter, "!"), (Filter, "- b")], "- b"),
            (
                &[(Exclude, "- a"), (Exclude, "+ b"), (Include, "c"), (Include, "- d"), (Exclude, "-e")],
                "- a|+ b|+ c|- d|- -e",
            ),
            (&[(Exclude, "a"), (Include, "!"), (Exclude, "!b")], "- !b"),
            (&[(ExcludeFrom, "patterns")], "- d"),
            (&[(IncludeFrom, "patterns")], "+ d"),
            (&[(Filter, ". rules")], "- a|+s b c"),
            (&[(Filter, ".p rules")], "-p a|+sp b c"),
            (&[(Filter, ".-s patterns")], "-s - a|-s + b|-s c|-s !|-s d"),
            (&[(Filter, ".w+ words")], "+ a|+ -_b|+ !"),
            (&[(Filter, ".C words")], ""),
            (&[(Filter, ": /a/.f"), (Filter, "dir-merge,ne- .g"), (Filter, ":C")], ": .f|- .g|:-en .g|:C .cvsignore"),
            (&[(Filter, "- a"), (Filter, "-C")], "- a|- mine"),
        ] {
            assert_eq!(expanded(options).as_deref(), Ok(expected), "{options:?}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for (rule, said) in [
            ("", "not an rsync"),
            ("a", "not an rsync"),
            ("excludes a", "not an rsync"),
            ("-", "without a pattern"),
            ("-a", "modifier 'a'"),
            ("-n a", "modifier 'n'"),
            ("Hs a", "modifier 's'"),
            (".! rules", "modifier '!'"),
            (":-C a", "modifier '-'"),
            ("-/ a", "not supported"),
            ("! a", "takes no pattern"),
            (": .", "not the name"),
            (".s rules", "contains a rule with a side"),
            (". deep", "merge-file include depth limit"),
            (". none", "cannot read none"),
            (". bad", "bad, line 3: not an rsync"),
            (". outer", "outer, line 2: in the file named there: not an rsync"),
            (". lost", "lost, line 1: cannot read the file that this rule names"),
            (": ../a", "outside its directory"),
        ] {
            let error = expanded(&[(RsyncRuleOption::Filter, rule)]).unwrap_err();
            assert!(error.contains(said), "{rule}: {error}");
        }
        let long = format!("- {}", "a".repeat(PATTERN_MAX + 1));
        assert!(expanded(&[(RsyncRuleOption::Filter, &long)]).is_err());
    }
}
