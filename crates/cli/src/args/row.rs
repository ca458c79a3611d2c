//! A row of the table of options: an option, its names, its argument and its place in the help.
//!
//! How a row takes its argument is a variant of [`Takes`], so that optional arguments and prefixes get a variant each
//! and no special case.

use std::fmt;

/// An option.
#[derive(Clone, Copy)]
pub struct OptionRow {
    /// The name that code uses for it; also its long form, unless `long` says otherwise.
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
    /// What can be its argument, where that is one of a few words.
    pub words: &'static [&'static str],
    /// Description in the help: one line, wrapped when printed.
    pub help: &'static str,
    /// Where the help lists it.
    pub section: HelpSection,
    /// Whether it is one of the few on the first screen of help.
    pub essential: bool,
    /// Whether it says what one job does: it has no place in a configuration file.
    pub of_one_job: bool,
    /// It is known and cannot be had: why, and on a second line what to do instead.
    pub refusal: Option<&'static str>,
}

/// What bbcp has of an option.
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
    /// None. Typed twice, it is still set once.
    Nothing,
    /// None, and it counts how often it was typed.
    Repeats,
    /// One, called this in the help. Typed twice, the last one holds.
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
        /// The time that is meant where there is none.
        absent: &'static str,
    },
    /// One of a few words, or none.
    Word {
        /// Name in the help.
        name: &'static str,
        /// All words.
        known: &'static [&'static str],
        /// The word that is meant where there is none.
        absent: &'static str,
    },
}

/// The parts of the full help, in its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HelpSection {
    /// Selection of files, and treatment of existing ones.
    Copying,
    /// Which files are copied.
    Filtering,
    /// How the target is made to match the sources.
    Syncing,
    /// Streams, rates and I/O.
    Performance,
    /// How the other host is reached.
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
    /// Those that are listed, with their headings.
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
        of_one_job: false,
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

    pub(super) const fn of_one_job(mut self) -> Self {
        self.of_one_job = true;
        self
    }

    pub(super) const fn words(mut self, words: &'static [&'static str]) -> Self {
        self.words = words;
        self
    }

    /// The same with another help text, in a command that bbcp does not have.
    pub(super) const fn says(mut self, help: &'static str) -> Self {
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

    /// Whether it is the same option, perhaps of another command.
    pub fn is(&self, other: &Self) -> bool {
        self.id == other.id
    }

    /// Whether it is one of `others`.
    pub fn is_any(&self, others: &[&Self]) -> bool {
        others.iter().any(|other| self.is(other))
    }

    /// Whether it is of this name in a configuration file, where each has one.
    pub fn has_key(&self, key: &str) -> bool {
        self.id == key || self.alias == Some(key)
    }

    /// How a person types it, without its argument: `--streams`, or `-S` where there is no long form.
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

    /// How it is written: `-s, --streams N`.
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

    /// The same with its other names: `-w, --windowsz [=]SIZE, -W`.
    pub fn full_signature(&self) -> String {
        let mut shown = self.signature().trim_start().to_owned();
        self.alias.iter().for_each(|alias| shown.push_str(&format!(", --{alias}")));
        self.other_letter.iter().for_each(|letter| shown.push_str(&format!(", -{letter}")));
        shown
    }
}
