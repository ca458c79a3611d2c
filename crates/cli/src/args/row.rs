//! A row of the table of options: an option, its names, its argument and its place in the help.
//!
//! [`Takes`] has a variant for each form of argument, so that none needs a special case.

use std::fmt;

/// An option.
#[derive(Clone, Copy)]
pub struct OptionRow {
    /// Its name in the code, and its long form if `long` is set.
    pub id: &'static str,
    /// Whether only bbcp has it.
    pub bbcp_only: bool,
    /// Another long form.
    pub alias: Option<&'static str>,
    /// haul's letter (see [`super::letters`]).
    pub letter: Option<char>,
    /// Whether the letter is the command's own, whatever it means elsewhere.
    pub has_own_letter: bool,
    /// bbcp's form; `None` for haul's own options.
    pub bbcp: Option<Bbcp>,
    /// Its argument.
    pub takes: Takes,
    /// The permitted words, if its argument is one of a few.
    pub words: &'static [&'static str],
    /// Description in the help: one line, wrapped when printed.
    pub help: &'static str,
    /// Its section in the help.
    pub section: HelpSection,
    /// Whether the first screen of help lists it.
    pub essential: bool,
    /// Whether it belongs to one copy, so that configuration files cannot have it.
    pub of_one_copy: bool,
    /// For an unsupported option: the reason, and a remedy on a second line.
    pub refusal: Option<&'static str>,
}

/// bbcp's form of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bbcp {
    /// The letter.
    pub letter: char,
    /// Another letter for it.
    pub other_letter: Option<char>,
    /// The long form with its shortest accepted abbreviation, in letters.
    pub long: Option<(&'static str, usize)>,
}

/// How an option takes its argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// None. Repetition has no effect.
    Nothing,
    /// None. Repetitions are counted.
    Repeats,
    /// One, with this name in the help. The last one counts.
    One(&'static str),
    /// Repeatable; all values count.
    Each(&'static str),
    /// One or none.
    Perhaps(&'static str),
    /// A directory; bbcp takes none, too.
    Place(&'static str),
    /// A number, or none; bbcp requires one.
    Attached(&'static str),
    /// A time, or none.
    Time {
        /// Name in the help.
        name: &'static str,
        /// The default time.
        absent: &'static str,
    },
    /// One of a few words, or none.
    Word {
        /// Name in the help.
        name: &'static str,
        /// All words.
        known: &'static [&'static str],
        /// The default word.
        absent: &'static str,
    },
}

/// The parts of the full help, in its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HelpSection {
    /// Selection of files, and treatment of existing ones.
    Copying,
    /// Selection of files.
    Filtering,
    /// Synchronisation of the target.
    Syncing,
    /// Streams, rates and I/O.
    Performance,
    /// Connections to the other host.
    Connecting,
    /// Verification.
    Integrity,
    /// Output.
    Output,
    /// Accepted for command lines of bbcp, scp and rsync; without effect.
    Accepted,
    /// Known, refused and not listed.
    Unlisted,
}

impl HelpSection {
    /// Listed sections with their headings.
    pub const LISTED: [(Self, &'static str); 8] = [
        (Self::Copying, "Copying"),
        (Self::Filtering, "Filtering"),
        (Self::Syncing, "Syncing"),
        (Self::Performance, "Performance"),
        (Self::Connecting, "Connecting"),
        (Self::Integrity, "Integrity"),
        (Self::Output, "Output"),
        (Self::Accepted, "Accepted for compatibility"),
    ];
}

pub(super) const fn row(
    id: &'static str,
    letter: Option<char>,
    takes: Takes,
    section: HelpSection,
    help: &'static str,
) -> OptionRow {
    OptionRow {
        id,
        bbcp_only: false,
        alias: None,
        letter,
        has_own_letter: false,
        bbcp: None,
        takes,
        words: if let Takes::Word { known, .. } = takes { known } else { &[] },
        help,
        section,
        essential: false,
        of_one_copy: false,
        refusal: None,
    }
}

impl fmt::Debug for OptionRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id)
    }
}

impl OptionRow {
    pub(super) const fn essential(mut self) -> Self {
        self.essential = true;
        self
    }

    pub(super) const fn own_letter(mut self) -> Self {
        self.has_own_letter = true;
        self
    }

    pub(super) const fn or(mut self, alias: &'static str) -> Self {
        self.alias = Some(alias);
        self
    }

    /// bbcp's letter and name for it, with its shortest accepted abbreviation, in letters.
    pub(super) const fn bbcp(self, letter: char, letters: usize) -> Self {
        let id = self.id;
        self.bbcp_as(id, letter, letters)
    }

    pub(super) const fn bbcp_as(mut self, name: &'static str, letter: char, letters: usize) -> Self {
        self.bbcp = Some(Bbcp { letter, other_letter: None, long: Some((name, letters)) });
        self
    }

    /// bbcp's letter for it, without a long name.
    pub(super) const fn bbcp_letter(mut self, letter: char) -> Self {
        self.bbcp = Some(Bbcp { letter, other_letter: None, long: None });
        self
    }

    /// A second letter of bbcp.
    pub(super) const fn or_letter(mut self, letter: char) -> Self {
        if let Some(bbcp) = &mut self.bbcp {
            bbcp.other_letter = Some(letter);
        }
        self
    }

    pub(super) const fn bbcp_only(mut self) -> Self {
        self.bbcp_only = true;
        self
    }

    pub(super) const fn of_one_copy(mut self) -> Self {
        self.of_one_copy = true;
        self
    }

    pub(super) const fn words(mut self, words: &'static [&'static str]) -> Self {
        self.words = words;
        self
    }

    /// Replaces the help text, for a command that bbcp lacks.
    pub(super) const fn with_help(mut self, help: &'static str) -> Self {
        self.help = help;
        self.without_bbcp()
    }

    pub(super) const fn without_bbcp(mut self) -> Self {
        self.bbcp = None;
        self
    }

    pub(super) const fn listed_in(mut self, section: HelpSection) -> Self {
        self.section = section;
        self
    }

    pub(super) const fn refused(mut self, why: &'static str) -> Self {
        self.refusal = Some(why);
        self
    }

    /// Whether it is the same option, also of another command.
    pub fn is(&self, other: &Self) -> bool {
        self.id == other.id
    }

    /// Whether it is one of `others`.
    pub fn is_any(&self, others: &[&Self]) -> bool {
        others.iter().any(|other| self.is(other))
    }

    /// Whether this is its key in a configuration file.
    pub fn has_key(&self, key: &str) -> bool {
        self.id == key || self.alias == Some(key)
    }

    /// Its typed form without an argument: `--streams`, or bbcp's letter for an option of bbcp alone.
    pub fn typed(&self) -> String {
        match self.bbcp {
            Some(Bbcp { letter, .. }) if self.bbcp_only => format!("-{letter}"),
            _ => format!("--{}", self.id),
        }
    }

    /// Whether this is one of its letters in bbcp.
    pub fn has_bbcp_letter(&self, letter: char) -> bool {
        self.bbcp.is_some_and(|bbcp| bbcp.letter == letter || bbcp.other_letter == Some(letter))
    }

    /// Its long forms in haul.
    pub fn long_forms(&self) -> impl Iterator<Item = &'static str> {
        (!self.bbcp_only).then_some(self.id).into_iter().chain(self.alias)
    }

    /// Its usage: `-s, --streams N`.
    pub fn signature(&self) -> String {
        match self.letter {
            Some(letter) => format!("-{letter}, --{}{}", self.id, self.argument()),
            None => format!("    --{}{}", self.id, self.argument()),
        }
    }

    /// Its usage in bbcp: `-t, --timelimit TIME`.
    pub fn bbcp_signature(&self) -> String {
        let letter = self.bbcp.map_or(' ', |bbcp| bbcp.letter);
        match self.bbcp.and_then(|bbcp| bbcp.long) {
            Some((name, _)) => format!("-{letter}, --{name}{}", self.argument()),
            None => format!("-{letter}{}", self.argument()),
        }
    }

    /// Its argument: ` N`, ` [N]` or nothing.
    pub fn argument(&self) -> String {
        match self.takes {
            Takes::Nothing | Takes::Repeats => String::new(),
            Takes::One(name) | Takes::Each(name) => format!(" {name}"),
            Takes::Attached(name) => format!("[={name}]"),
            Takes::Perhaps(name) | Takes::Place(name) | Takes::Word { name, .. } | Takes::Time { name, .. } => {
                format!(" [{name}]")
            }
        }
    }

    /// Its usage with all names: `-w, --windowsz [=]SIZE, --window`.
    pub fn full_signature(&self) -> String {
        let mut shown = self.signature().trim_start().to_owned();
        self.alias.iter().for_each(|alias| shown.push_str(&format!(", --{alias}")));
        shown
    }
}
