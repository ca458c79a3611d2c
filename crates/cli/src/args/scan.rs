//! From words to options and operands, by the table of options.
//!
//! Two styles are accepted. haul's is that of most programs: options in any position, `-s4` for `-s 4`, and `--` as
//! their end. bbcp's has options before operands, and the letters of one word take arguments from the following words
//! in order (`-sP 4 2`). In both, an option takes an optional argument only if it is valid and enough operands remain:
//! `haul --compress 3 db1:` copies the file 3. clap can decide neither, so haul has its own scanner.

use std::ffi::{OsStr, OsString};
use std::iter::Peekable;
use std::os::unix::ffi::OsStrExt;
use std::vec::IntoIter;

use haul_base::quantity::parse_time;
use haul_proto::path::escape;

use super::letters::is_option;
use super::local_files::LocalFiles;
use super::meaning::Meaning;
use super::names::{self, Named};
use super::row::{OptionRow, Takes};
use super::values::Values;
use super::{Dialect, UsageError, flags, habits, letters, rsync};

/// The command that lists all options.
const HELP: &str = "haul --help all";

/// `--OPTION=default` resets an option, whether it was typed before or is set in a file.
pub const DEFAULT: &[u8] = b"default";

/// Rules for a scan.
#[derive(Clone, Copy)]
pub struct Grammar<'a> {
    /// The program of the command line.
    pub dialect: Dialect,
    /// Minimum number of operands. An optional argument never takes one of them.
    pub operands: usize,
    /// Whether words after `--` are returned separately.
    pub has_rest: bool,
    /// They decide what some letters mean.
    pub files: &'a dyn LocalFiles,
    /// The command, for messages; empty for a copy.
    pub command: &'a str,
}

/// The scanned words.
#[derive(Debug)]
pub struct Scanned {
    /// The options.
    pub values: Values,
    /// The operands.
    pub operands: Vec<OsString>,
    /// Words after `--`, if returned separately.
    pub rest: Vec<OsString>,
}

/// Separates options from operands.
pub fn scan(table: &'static [OptionRow], words: Vec<OsString>, grammar: Grammar<'_>) -> Result<Scanned, UsageError> {
    let mut scan = Scan {
        table,
        grammar,
        has_one_word: words.len() == 1,
        words: words.into_iter().peekable(),
        given: Vec::new(),
        undone: Vec::new(),
        found: Vec::new(),
        rest: Vec::new(),
    };
    scan.run()?;
    Ok(scan.decide())
}

/// A word that is not an option.
struct ScannedWord {
    word: OsString,
    /// The option before it, which may take it as an argument.
    follows: Option<usize>,
}

struct Scan<'a> {
    table: &'static [OptionRow],
    grammar: Grammar<'a>,
    has_one_word: bool,
    words: Peekable<IntoIter<OsString>>,
    given: Vec<(&'static OptionRow, Option<OsString>)>,
    /// Options to be reset, and their position.
    undone: Vec<(usize, &'static OptionRow)>,
    found: Vec<ScannedWord>,
    rest: Vec<OsString>,
}

impl Scan<'_> {
    fn run(&mut self) -> Result<(), UsageError> {
        while let Some(word) = self.words.next() {
            let bytes = word.as_bytes();
            if bytes == b"--" {
                self.end();
            } else if let Some(long) = bytes.strip_prefix(b"--") {
                self.long(long)?;
            } else if is_option(&word) {
                match self.grammar.dialect {
                    Dialect::Haul => self.letters(&word)?,
                    Dialect::Bbcp => self.bbcp_letters(&word)?,
                }
            } else {
                self.found.push(ScannedWord { word, follows: None });
                if self.grammar.dialect == Dialect::Bbcp {
                    self.only_operands()?;
                }
            }
        }
        Ok(())
    }

    /// `--`: the following words are not options.
    fn end(&mut self) {
        let words: Vec<_> = self.words.by_ref().collect();
        if self.grammar.has_rest {
            self.rest = words;
        } else {
            self.found.extend(words.into_iter().map(|word| ScannedWord { word, follows: None }));
        }
    }

    /// Refuses options after operands: bbcp would take them for files, and the last one for the target.
    fn only_operands(&mut self) -> Result<(), UsageError> {
        while let Some(word) = self.words.next() {
            if word == "--" {
                self.end();
            } else if is_option(&word) {
                let shown = shown(&word);
                return Err(UsageError::new(format!(
                    "{shown}: under the name bbcp, options come before sources and target"
                ))
                .remedy(format!("move it to the front, or write ./{shown} for a file of that name")));
            } else {
                self.found.push(ScannedWord { word, follows: None });
            }
        }
        Ok(())
    }

    fn long(&mut self, typed: &[u8]) -> Result<(), UsageError> {
        let (name, attached) = match typed.iter().position(|&byte| byte == b'=') {
            Some(at) => (&typed[..at], Some(&typed[at + 1..])),
            None => (typed, None),
        };
        let shown = format!("--{}", escape(name));
        let name = String::from_utf8_lossy(name);
        let is_haul = self.grammar.dialect == Dialect::Haul;
        if is_haul && names::exact(self.table, &name).is_none() && self.rsyncs(&shown, &name, attached)? {
            return Ok(());
        }
        if is_haul && names::exact(self.table, &name).is_none() && habits::meant_by(&shown).is_some() {
            return Err(self.unknown(&shown, None));
        }
        let row = match names::long(self.table, self.grammar.dialect, &name) {
            Named::One(row) => row,
            Named::Several(names) => {
                let all: Vec<_> = names.iter().map(|name| format!("--{name}")).collect();
                return Err(UsageError::new(format!("{shown} is ambiguous: {}", all.join(", "))));
            }
            Named::None(near) => return Err(self.unknown(&shown, near)),
        };
        if is_haul
            && row.is(&flags::CHECKSUM)
            && attached.is_none()
            && !self.words.peek().is_some_and(habits::is_digest)
        {
            return self.add(&shown, OsStr::new("--compare=digest"));
        }
        match (row.takes, attached) {
            (_, Some(DEFAULT)) if self.grammar.dialect == Dialect::Haul => {
                self.undone.push((self.given.len(), row));
                Ok(())
            }
            (Takes::Nothing | Takes::Repeats, Some(_)) => {
                let of_rsync = rsync::long(row.id).filter(|(option, _)| option.takes);
                Err(UsageError::new(format!("{} takes no argument", row.typed()))
                    .remedies(of_rsync.map(|_| "haul rsync takes rsync's argument")))
            }
            (_, Some(argument)) => {
                self.given.push((row, Some(OsStr::from_bytes(argument).to_owned())));
                Ok(())
            }
            (_, None) => self.take_argument(row),
        }
    }

    /// An option of rsync by its long name. Returns whether it is one.
    fn rsyncs(&mut self, shown: &str, name: &str, attached: Option<&[u8]>) -> Result<bool, UsageError> {
        let Some((option, is_negated)) = rsync::long(name) else { return Ok(false) };
        let argument = match (option.takes && !is_negated, attached) {
            (false, Some(_)) => return Err(UsageError::new(format!("{shown} takes no argument"))),
            (true, None) => match self.words.next_if(|word| !is_option(word)) {
                None => return Err(UsageError::new(format!("{shown} needs an argument"))),
                argument => argument,
            },
            (_, attached) => attached.map(|bytes| OsStr::from_bytes(bytes).to_owned()),
        };
        let default = format!("={}", String::from_utf8_lossy(DEFAULT));
        match (is_negated, option.negated.unwrap_or(option.meaning)) {
            (true, Meaning::Is(options)) if option.negated.is_none() => {
                let name = |option: &'static str| option.split('=').next().unwrap_or(option);
                options
                    .iter()
                    .try_for_each(|option| self.add(shown, OsStr::new(&(name(option).to_owned() + &default))))?
            }
            (true, Meaning::With(option, _)) => self.add(shown, OsStr::new(&(option.to_owned() + &default)))?,
            (true, Meaning::Is(options)) => {
                options.iter().try_for_each(|option| self.add(shown, OsStr::new(option)))?
            }
            (true, Meaning::Nothing | Meaning::Refused(_)) => {}
            (false, _) => match (option.meaning, argument) {
                (Meaning::Is(options), _) => {
                    options.iter().try_for_each(|option| self.add(shown, OsStr::new(option)))?
                }
                (Meaning::With(option, before), Some(argument)) => {
                    self.add(shown, &letters::with(option, before, &argument))?
                }
                (Meaning::Refused(instead), _) => return Err(letters::refused(shown, instead)),
                (Meaning::Nothing | Meaning::With(..), _) => {}
            },
        }
        Ok(true)
    }

    /// Letters of haul, or of the command.
    fn letters(&mut self, word: &OsStr) -> Result<(), UsageError> {
        if let Some(rows) = letters::own(self.table, word, self.has_one_word) {
            self.given.extend(rows.into_iter().map(|row| (row, None)));
            return Ok(());
        }
        let expanded = letters::expand(word, self.words.peek().map(OsString::as_os_str), self.grammar.files);
        let has_own_letters = self.table.iter().any(|row| row.has_own_letter);
        let expanded = expanded.map_err(|error| match has_own_letters {
            true => self.lacks(&shown(word)).remedy(format!("ssh HOST {} has more options", self.grammar.command)),
            false => error,
        })?;
        if expanded.took_next {
            self.words.next();
        }
        let shown = shown(word);
        expanded.options.iter().try_for_each(|option| self.add(&shown, option))
    }

    /// Adds a long option in place of `shown`.
    fn add(&mut self, shown: &str, option: &OsStr) -> Result<(), UsageError> {
        let bytes = option.as_bytes();
        let end = bytes.iter().position(|&byte| byte == b'=').unwrap_or(bytes.len());
        let name = String::from_utf8_lossy(&bytes[..end]);
        match names::exact(self.table, name.trim_start_matches('-')) {
            Some(_) => self.long(&bytes[2..]),
            None => Err(self.lacks(shown).remedies(habits::instead_of_guard(self.grammar.command, option))),
        }
    }

    fn lacks(&self, shown: &str) -> UsageError {
        let command = self.grammar.command;
        UsageError::new(format!("haul {command} has no {shown}"))
            .remedy(format!("haul help {command} lists the options of haul {command}"))
    }

    fn bbcp_letters(&mut self, word: &OsStr) -> Result<(), UsageError> {
        for &byte in &word.as_bytes()[1..] {
            match names::bbcp_letter(self.table, char::from(byte)) {
                Some(row) => self.take_argument(row)?,
                None => return Err(self.unknown(&format!("-{}", escape(&[byte])), None)),
            }
        }
        Ok(())
    }

    /// Adds an option; its argument, if any, is the next word.
    fn take_argument(&mut self, row: &'static OptionRow) -> Result<(), UsageError> {
        let is_haul = self.grammar.dialect == Dialect::Haul;
        match row.takes {
            Takes::Nothing | Takes::Repeats => self.given.push((row, None)),
            Takes::Attached(_) if is_haul => {
                let files = self.grammar.files;
                let argument = self.words.next_if(|word| letters::is_number(word) && !files.exists(word));
                self.given.push((row, argument));
            }
            Takes::Place(_) if is_haul => self.take_next(row)?,
            Takes::One(_) | Takes::Each(_) | Takes::Attached(_) => self.take_next(row)?,
            Takes::Perhaps(_) | Takes::Place(_) | Takes::Word { .. } | Takes::Time { .. } => {
                let follows = Some(self.given.len());
                self.given.push((row, None));
                if let Some(word) = self.words.next_if(|word| !is_option(word)) {
                    self.found.push(ScannedWord { word, follows });
                }
            }
        }
        Ok(())
    }

    fn take_next(&mut self, row: &'static OptionRow) -> Result<(), UsageError> {
        let argument = self.words.next_if(|word| !is_option(word)).ok_or_else(|| self.missing(row))?;
        self.given.push((row, Some(argument)));
        Ok(())
    }

    fn missing(&mut self, row: &OptionRow) -> UsageError {
        let typed = row.typed();
        let what = match self.words.peek() {
            Some(next) => format!("{typed} needs an argument, but {} is an option", shown(next)),
            None => format!("{typed} needs an argument"),
        };
        let error = UsageError::new(what);
        let signature = match self.grammar.dialect {
            Dialect::Haul => row.signature(),
            Dialect::Bbcp => row.bbcp_signature(),
        };
        error.remedy(format!("{}: {}", signature.trim_start(), row.help))
    }

    fn unknown(&self, shown: &str, near: Option<&str>) -> UsageError {
        if self.grammar.dialect == Dialect::Bbcp {
            return UsageError::new(format!("unknown option {shown}")).remedy("bbcp -h lists all options");
        }
        let unknown = UsageError::new(format!("unknown option {shown}"));
        let unknown = match (habits::meant_by(shown), near) {
            (Some(instead), _) => unknown.remedy(instead),
            (None, Some(near)) => unknown.remedy(format!("did you mean: --{near}")),
            (None, None) => unknown.remedy(format!("{HELP} lists all options")),
        };
        match self.grammar.files.exists(OsStr::new(shown)) {
            true => unknown.remedy(format!("for the file of that name, write ./{shown}")),
            false => unknown,
        }
    }

    /// Assigns optional arguments, as long as enough operands remain.
    fn decide(self) -> Scanned {
        let Self { grammar, mut given, undone, found, rest, table, .. } = self;
        let has = |option: &OptionRow| given.iter().any(|(row, _)| row.is(option));
        // Options may name all sources, and all targets.
        let named = usize::from(has(&flags::INFILES)) + usize::from(has(&flags::TO));
        let needed = if grammar.operands > 1 { grammar.operands.saturating_sub(named) } else { grammar.operands };
        let mut left = found.len();
        let mut operands = Vec::new();
        for ScannedWord { word, follows } in found {
            let option = follows.and_then(|at| given.get_mut(at));
            match option.filter(|(row, _)| knows(row, &word, grammar.dialect)) {
                Some((row, argument)) if left > needed || matches!(row.takes, Takes::Perhaps(_)) => {
                    *argument = Some(word);
                    left -= 1;
                }
                _ => operands.push(word),
            }
        }
        let is_undone =
            |at: usize, row: &OptionRow| undone.iter().any(|(before, undone)| at < *before && undone.is(row));
        let left = given.into_iter().enumerate().filter(|(at, (row, _))| !is_undone(*at, row)).map(|(_, given)| given);
        let values = Values::new(table, grammar.dialect, left.collect());
        Scanned { values: values.undoing(undone.into_iter().map(|(_, row)| row).collect()), operands, rest }
    }
}

/// Whether this is a valid optional argument.
fn knows(row: &OptionRow, word: &OsStr, dialect: Dialect) -> bool {
    match row.takes {
        Takes::Perhaps(_) => true,
        // bbcp takes any.
        Takes::Place(_) => dialect == Dialect::Bbcp,
        Takes::Word { known, .. } => known.iter().any(|known| word == *known),
        Takes::Time { .. } => word.to_str().is_some_and(|word| parse_time(word).is_ok()),
        _ => false,
    }
}

/// Whether this option of haul takes the next word, whatever that is.
pub fn takes_next(table: &'static [OptionRow], word: &OsStr) -> bool {
    let needs = |row: &OptionRow| matches!(row.takes, Takes::One(_) | Takes::Each(_) | Takes::Place(_));
    let text = word.to_str().unwrap_or_default();
    match text.strip_prefix("--") {
        Some(name) if name.contains('=') => false,
        Some(name) => match names::exact(table, name) {
            Some(row) => needs(row),
            None => rsync::long(name).is_some_and(|(option, is_negated)| option.takes && !is_negated),
        },
        None => text.len() == 2 && text.chars().nth(1).and_then(letters::named).is_some_and(needs),
    }
}

fn shown(word: &OsStr) -> String {
    escape(word.as_bytes())
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
