//! A row of the table of options: an option, its names, its argument and its place in the help.
//!
//! [`Takes`] has a variant for each form of argument, so that none needs a special case.

use std::fmt;

/// An option.
#[derive(Clone, Copy)]
pub struct OptionRow {
    /// Its name in the code, and its long form if `long` is set.
    pub id: &'static str,
    /// Whether `--id` can be typed (bbcp has options with a letter only).
    pub long: bool,
    /// Another long form.
    pub alias: Option<&'static str>,
    /// The letter.
    pub letter: Option<char>,
    /// Another letter for it.
    pub other_letter: Option<char>,
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
pub enum Bbcp {
    /// The letter alone.
    Letter,
    /// A further long form with its shortest accepted abbreviation, in letters.
    Long(&'static str, usize),
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
    /// A directory or none: see [`super::scan`].
    Place(&'static str),
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
        long: true,
        alias: None,
        letter,
        other_letter: None,
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

    pub(super) const fn letter_only(mut self) -> Self {
        self.long = false;
        self
    }

    pub(super) const fn or(mut self, alias: &'static str) -> Self {
        self.alias = Some(alias);
        self
    }

    pub(super) const fn or_letter(mut self, letter: char) -> Self {
        self.other_letter = Some(letter);
        self
    }

    /// bbcp's name for it, with its shortest accepted abbreviation, in letters.
    pub(super) const fn bbcp(self, letters: usize) -> Self {
        let id = self.id;
        self.bbcp_as(id, letters)
    }

    pub(super) const fn bbcp_as(mut self, name: &'static str, letters: usize) -> Self {
        self.bbcp = Some(Bbcp::Long(name, letters));
        self
    }

    pub(super) const fn bbcp_letter(mut self) -> Self {
        self.bbcp = Some(Bbcp::Letter);
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

    /// Its typed form without an argument: `--streams`, or `-S` without a long form.
    pub fn typed(&self) -> String {
        match self.letter {
            Some(letter) if !self.long => format!("-{letter}"),
            _ => format!("--{}", self.id),
        }
    }

    /// Whether this is one of its letters.
    pub fn has_letter(&self, letter: char) -> bool {
        self.letter == Some(letter) || self.other_letter == Some(letter)
    }

    /// Its long forms.
    pub fn long_forms(&self) -> impl Iterator<Item = &'static str> {
        self.long.then_some(self.id).into_iter().chain(self.alias)
    }

    /// Its usage: `-s, --streams N`.
    pub fn signature(&self) -> String {
        let mut shown = match self.letter {
            Some(letter) if self.long => format!("-{letter}, --{}", self.id),
            Some(letter) => format!("-{letter}"),
            None => format!("    --{}", self.id),
        };
        match self.takes {
            Takes::Nothing | Takes::Repeats => {}
            Takes::One(name) | Takes::Each(name) => shown.push_str(&format!(" {name}")),
            Takes::Perhaps(name) | Takes::Place(name) | Takes::Word { name, .. } | Takes::Time { name, .. } => {
                shown.push_str(&format!(" [{name}]"))
            }
        }
        shown
    }

    /// Its usage with all names: `-w, --windowsz [=]SIZE, -W`.
    pub fn full_signature(&self) -> String {
        let mut shown = self.signature().trim_start().to_owned();
        self.alias.iter().for_each(|alias| shown.push_str(&format!(", --{alias}")));
        self.other_letter.iter().for_each(|letter| shown.push_str(&format!(", -{letter}")));
        shown
    }
}
