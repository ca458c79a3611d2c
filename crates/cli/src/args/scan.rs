//! From words to options and operands, by the table of options.
//!
//! Two styles are accepted. haul's is that of most programs: options in any position, `-s4` for `-s 4`, and `--` as
//! their end. bbcp's has options before operands, and the letters of one word take arguments from the following words
//! in order (`-sP 4 2`). In both, an option takes an optional argument only if it is valid and enough operands remain:
//! `haul -c 3 db1:` copies the file 3. clap can decide neither, so haul has its own scanner.

use std::ffi::{OsStr, OsString};
use std::iter::Peekable;
use std::os::unix::ffi::OsStrExt;
use std::vec::IntoIter;

use haul_proto::path::escape;

use super::names::{self, Named};
use super::row::{OptionRow, Takes};
use super::time::parse_time;
use super::values::Values;
use super::{Dialect, UsageError, flags, habits};

/// The command that lists all options.
const HELP: &str = "haul --help all";

/// `--OPTION=default` resets an option, whether it was typed before or is set in a file.
pub const DEFAULT: &[u8] = b"default";

/// Rules for a scan.
#[derive(Clone, Copy)]
pub struct Grammar {
    /// The program of the command line.
    pub dialect: Dialect,
    /// Minimum number of operands. An optional argument never takes one of them.
    pub operands: usize,
    /// Whether words after `--` are returned separately.
    pub has_rest: bool,
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
pub fn scan(table: &'static [OptionRow], words: Vec<OsString>, grammar: Grammar) -> Result<Scanned, UsageError> {
    let mut scan = Scan {
        table,
        grammar,
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

struct Scan {
    table: &'static [OptionRow],
    grammar: Grammar,
    words: Peekable<IntoIter<OsString>>,
    given: Vec<(&'static OptionRow, Option<OsString>)>,
    /// Options to be reset, and their position.
    undone: Vec<(usize, &'static OptionRow)>,
    found: Vec<ScannedWord>,
    rest: Vec<OsString>,
}

impl Scan {
    fn run(&mut self) -> Result<(), UsageError> {
        while let Some(word) = self.words.next() {
            let bytes = word.as_bytes();
            if bytes == b"--" {
                self.end();
            } else if let Some(long) = bytes.strip_prefix(b"--") {
                self.long(long)?;
            } else if is_option(&word) {
                self.letters(&word)?;
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
        let row = match names::long(self.table, self.grammar.dialect, &String::from_utf8_lossy(name)) {
            Named::One(row) => row,
            Named::Several(names) => {
                let all: Vec<_> = names.iter().map(|name| format!("--{name}")).collect();
                let error = UsageError::new(format!("{shown} is ambiguous: {}", all.join(", ")));
                return Err(self.meant(&shown).map_or(error.clone(), |instead| error.remedy(instead)));
            }
            Named::None(near) => return Err(self.unknown(&shown, near)),
        };
        // rsync's --group would abbreviate --groupmap.
        if self.meant(&shown).is_some() && !row.long_forms().any(|form| form.as_bytes() == name) {
            return Err(self.unknown(&shown, None));
        }
        match (row.takes, attached) {
            (_, Some(DEFAULT)) if self.grammar.dialect == Dialect::Haul => {
                self.undone.push((self.given.len(), row));
                Ok(())
            }
            (Takes::Nothing | Takes::Repeats, Some(_)) => {
                Err(UsageError::new(format!("{} takes no argument", row.typed())))
            }
            (_, Some(argument)) => {
                self.given.push((row, Some(OsStr::from_bytes(argument).to_owned())));
                Ok(())
            }
            (_, None) => self.take_argument(row),
        }
    }

    fn letters(&mut self, word: &OsStr) -> Result<(), UsageError> {
        let bytes = &word.as_bytes()[1..];
        for (at, &byte) in bytes.iter().enumerate() {
            let Some(row) = names::letter(self.table, self.grammar.dialect, char::from(byte)) else {
                return Err(self.unknown(&format!("-{}", escape(&[byte])), None));
            };
            if self.grammar.dialect == Dialect::Haul {
                habits::refuse_letter(row)?;
            }
            let undoes = bytes[at + 1..].strip_prefix(b"=") == Some(DEFAULT);
            if undoes && self.grammar.dialect == Dialect::Haul {
                self.undone.push((self.given.len(), row));
                return Ok(());
            }
            match self.attached(row, &bytes[at + 1..]) {
                Some(argument) => {
                    self.given.push((row, Some(OsStr::from_bytes(argument).to_owned())));
                    return Ok(());
                }
                None => self.take_argument(row)?,
            }
        }
        Ok(())
    }

    /// The argument within the same word, if `rest` is one.
    fn attached<'w>(&self, row: &OptionRow, rest: &'w [u8]) -> Option<&'w [u8]> {
        if rest.is_empty() || self.grammar.dialect == Dialect::Bbcp {
            return None;
        }
        let begins_with_a_letter = || names::letter(self.table, self.grammar.dialect, char::from(rest[0])).is_some();
        let without_equals = || rest.strip_prefix(b"=").unwrap_or(rest);
        match row.takes {
            Takes::Nothing | Takes::Repeats | Takes::Perhaps(_) => None,
            // There, the `=` is significant.
            Takes::One(name) if name.starts_with("[=]") => Some(rest),
            Takes::One(_) | Takes::Each(_) => Some(without_equals()),
            Takes::Place(_) => matches!(rest[0], b'=' | b'/').then(without_equals),
            Takes::Time { .. } => parse_time(&String::from_utf8_lossy(without_equals())).map(|_| without_equals()),
            Takes::Word { known, .. } => {
                let is_known = known.iter().any(|word| word.as_bytes() == rest);
                (is_known || !begins_with_a_letter()).then(without_equals)
            }
        }
    }

    /// Adds an option; its argument, if any, is the next word.
    fn take_argument(&mut self, row: &'static OptionRow) -> Result<(), UsageError> {
        match row.takes {
            Takes::Nothing | Takes::Repeats => self.given.push((row, None)),
            Takes::One(_) | Takes::Each(_) => {
                let argument = self.words.next_if(|word| !is_option(word)).ok_or_else(|| self.missing(row))?;
                if self.grammar.dialect == Dialect::Haul {
                    habits::refuse_argument(row, &argument)?;
                }
                self.given.push((row, Some(argument)));
            }
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

    fn missing(&mut self, row: &OptionRow) -> UsageError {
        let typed = row.typed();
        let what = match self.words.peek() {
            Some(next) => format!("{typed} needs an argument, but {} is an option", shown(next)),
            None => format!("{typed} needs an argument"),
        };
        let error = UsageError::new(what);
        let habit = habits::meant_without_argument(row).filter(|_| self.grammar.dialect == Dialect::Haul);
        habit.map_or(error.clone(), |instead| error.remedy(instead)).remedy(format!(
            "{}: {}",
            row.signature().trim_start(),
            row.help
        ))
    }

    fn unknown(&self, shown: &str, near: Option<&str>) -> UsageError {
        if self.grammar.dialect == Dialect::Bbcp {
            return UsageError::new(format!("unknown option {shown}"))
                .remedy("bbcp -h lists bbcp's options, and haul --help all those of haul");
        }
        let unknown = UsageError::new(format!("unknown option {shown}"));
        match (self.meant(shown), near) {
            (Some(instead), _) => unknown.remedy(instead),
            (None, Some(near)) => unknown.remedy(format!("did you mean --{near}?")),
            (None, None) => unknown,
        }
        .remedy(format!("{HELP} lists all options; for a file of that name, write ./{shown}"))
    }

    /// The replacement for an option of scp or rsync.
    fn meant(&self, shown: &str) -> Option<&'static str> {
        habits::meant_by(shown).filter(|_| self.grammar.dialect == Dialect::Haul)
    }

    /// Assigns optional arguments, as long as enough operands remain.
    fn decide(self) -> Scanned {
        let Self { grammar, mut given, undone, found, rest, table, .. } = self;
        let is_listed = given.iter().any(|(row, _)| row.is(&flags::INFILES));
        let needed = grammar.operands - usize::from(is_listed && grammar.operands > 1);
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
    let bytes = word.as_bytes();
    match row.takes {
        Takes::Perhaps(_) => true,
        // bbcp takes any. For haul, it may be a file to copy.
        Takes::Place(_) => dialect == Dialect::Bbcp || (bytes.starts_with(b"/") && bytes.ends_with(b"/")),
        Takes::Word { known, .. } => known.iter().any(|known| word == *known),
        Takes::Time { .. } => word.to_str().is_some_and(|word| parse_time(word).is_some()),
        _ => false,
    }
}

/// `-` alone is an operand.
fn is_option(word: &OsStr) -> bool {
    matches!(word.as_bytes(), [b'-', _, ..])
}

fn shown(word: &OsStr) -> String {
    escape(word.as_bytes())
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
