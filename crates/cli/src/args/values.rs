//! The arguments of options as they were typed, and their conversion with errors that name the option.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use haul_proto::path::escape;

use super::nearest::nearest;
use super::row::{OptionRow, Takes};
use super::size::{SizeError, parse_size};
use super::table::{COPY, typed};
use super::time::parse_time;
use super::{Dialect, UsageError};

/// Options that were given, by the ids of one table.
///
/// Every method panics for an id that the table does not have: a mistake in this program.
#[derive(Clone)]
pub struct Values {
    table: &'static [OptionRow],
    dialect: Dialect,
    given: Vec<(&'static OptionRow, Option<OsString>)>,
    /// So many of those, the first ones, were typed; the others come from a file.
    typed: usize,
    /// Options for which the default was asked for.
    undone: Vec<&'static OptionRow>,
    /// What holds for logging in at a remote target, where that is not the same as at a remote source.
    at_target: Option<Box<Values>>,
}

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.given.fmt(f)
    }
}

impl Values {
    /// Those of `table` that were found, in their order.
    pub fn new(
        table: &'static [OptionRow],
        dialect: Dialect,
        given: Vec<(&'static OptionRow, Option<OsString>)>,
    ) -> Self {
        Self { table, dialect, typed: given.len(), given, undone: Vec::new(), at_target: None }
    }

    /// Resets `rows`, whatever a file says.
    pub fn undoing(self, rows: Vec<&'static OptionRow>) -> Self {
        Self { undone: rows, ..self }
    }

    /// The same with what a file says.
    pub fn and(mut self, more: Vec<(&'static OptionRow, Option<OsString>)>) -> Self {
        self.given.extend(more);
        self
    }

    /// The same with other options instead of all.
    pub fn with(&self, given: Vec<(&'static OptionRow, Option<OsString>)>) -> Self {
        Self { typed: given.len(), given, ..self.clone() }
    }

    /// The same where other options hold for logging in at the target.
    pub fn logging_in_at_target_as(self, target: Self) -> Self {
        Self { at_target: Some(Box::new(target)), ..self }
    }

    /// The options that hold for logging in at the target, where they are not these.
    pub fn at_target(&self) -> Option<&Self> {
        self.at_target.as_deref()
    }

    /// The options that there are.
    pub fn table(&self) -> &'static [OptionRow] {
        self.table
    }

    /// Options for which the default was asked for.
    pub fn undone(&self) -> &[&'static OptionRow] {
        &self.undone
    }

    /// Whether the command line has this option; a configuration file alone does not count.
    pub fn is_typed(&self, id: &str) -> bool {
        self.given.iter().take(self.typed).any(|(row, _)| row.id == id)
    }

    /// Whose way of writing it was.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The row of an option.
    pub fn row(&self, id: &str) -> &'static OptionRow {
        self.table.iter().chain(COPY).find(|row| row.id == id).expect("the option is in the table")
    }

    /// All options that were given, in their order.
    pub fn given(&self) -> &[(&'static OptionRow, Option<OsString>)] {
        &self.given
    }

    /// Whether an option was given.
    pub fn flag(&self, id: &str) -> bool {
        self.of(id).next().is_some()
    }

    /// How often it was given.
    pub fn count(&self, id: &str) -> u8 {
        u8::try_from(self.of(id).count()).unwrap_or(u8::MAX)
    }

    /// Its argument; the last one if it was given more than once. Where it was given without one: what the table says
    /// is meant then, or nothing.
    pub fn last(&self, id: &str) -> Option<&OsStr> {
        self.each(id).pop()
    }

    /// All its arguments.
    pub fn each(&self, id: &str) -> Vec<&OsStr> {
        let absent = |row: &OptionRow| match row.takes {
            Takes::Word { absent, .. } | Takes::Time { absent, .. } => OsStr::new(absent),
            _ => OsStr::new(""),
        };
        self.of(id).map(|(row, argument)| argument.as_deref().unwrap_or_else(|| absent(row))).collect()
    }

    /// A command without some options of a copy may still ask for them: they were not given.
    fn of(&self, id: &str) -> impl Iterator<Item = &(&'static OptionRow, Option<OsString>)> {
        assert!(self.table.iter().chain(COPY).any(|row| row.id == id), "{id} is in the table");
        self.given.iter().filter(move |(row, _)| row.id == id)
    }

    /// Its argument as text.
    pub fn text(&self, id: &str) -> Result<Option<String>, UsageError> {
        self.last(id).map(|value| utf8(id, value)).transpose()
    }

    /// All its arguments as text.
    pub fn texts(&self, id: &str) -> Result<Vec<String>, UsageError> {
        self.each(id).into_iter().map(|value| utf8(id, value)).collect()
    }

    /// Its argument as a number in `range`.
    pub fn number(&self, id: &str, range: RangeInclusive<u32>) -> Result<Option<u32>, UsageError> {
        self.last(id).map(|value| Self::number_of(id, value, range)).transpose()
    }

    /// A number that is part of an argument.
    pub fn number_of(id: &str, value: &OsStr, range: RangeInclusive<u32>) -> Result<u32, UsageError> {
        let number =
            value.to_str().filter(|text| text.bytes().all(|b| b.is_ascii_digit())).and_then(|text| text.parse().ok());
        match number.filter(|number| range.contains(number)) {
            Some(number) => Ok(number),
            None => Err(bad(id, value, &format!("must be a whole number from {} to {}", range.start(), range.end()))),
        }
    }

    /// Its argument as a size in bytes, in `range`; `limits` says the range to people.
    pub fn size(&self, id: &str, range: RangeInclusive<u64>, limits: &str) -> Result<Option<u64>, UsageError> {
        self.last(id).map(|value| Self::size_of(id, value, range, limits)).transpose()
    }

    /// A size in bytes that is part of an argument.
    pub fn size_of(id: &str, value: &OsStr, range: RangeInclusive<u64>, limits: &str) -> Result<u64, UsageError> {
        match parse_size(value.to_str().unwrap_or_default()) {
            Ok(size) if range.contains(&size) => Ok(size),
            Ok(_) | Err(SizeError::TooLarge) => Err(bad(id, value, &format!("must be a size {limits}"))),
            Err(SizeError::Form) => Err(bad(id, value, "must be a size, for example 65536, 512k, 4m or 2g")),
        }
    }

    /// Its argument as a time in `range`; `limits` says the range to people.
    pub fn time(
        &self,
        id: &str,
        range: RangeInclusive<Duration>,
        limits: &str,
    ) -> Result<Option<Duration>, UsageError> {
        let Some(value) = self.last(id) else { return Ok(None) };
        match value.to_str().and_then(parse_time) {
            Some(time) if range.contains(&time) => Ok(Some(time)),
            Some(_) => Err(bad(id, value, &format!("must be a time {limits}"))),
            None => Err(bad(id, value, "must be a time, for example 90, 10m, 2h or 7d")),
        }
    }

    /// Its argument as one of a few sizes in bytes; `names` says them to people.
    pub fn size_among<T: Copy + Into<u64>>(&self, id: &str, sizes: &[T], names: &str) -> Result<Option<T>, UsageError> {
        let Some(bytes) = self.size(id, 0..=u64::MAX, names)? else { return Ok(None) };
        match sizes.iter().find(|size| (**size).into() == bytes) {
            Some(size) => Ok(Some(*size)),
            None => Err(bad(id, self.last(id).unwrap_or_default(), &format!("must be a size {names}"))),
        }
    }

    /// Its argument as a list of numbers below `end` and ranges of them, such as `0-7,16`; ascending, each once.
    pub fn numbers(&self, id: &str, end: u16) -> Result<Vec<u16>, UsageError> {
        let Some(value) = self.last(id) else { return Ok(Vec::new()) };
        let number = |text: &str| {
            let digits = Some(text).filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
            digits.and_then(|text| text.parse::<u16>().ok()).filter(|number| *number < end)
        };
        let range = |text: &str| {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            Some(number(first)?..=number(last)?).filter(|range| !range.is_empty())
        };
        let ranges: Option<Vec<_>> = value.to_str().unwrap_or_default().split(',').map(range).collect();
        let numbers: Option<BTreeSet<_>> = ranges.map(|ranges| ranges.into_iter().flatten().collect());
        let why = || format!("must be numbers below {end} or ranges, for example 0-7,16");
        numbers.map(|numbers| numbers.into_iter().collect()).ok_or_else(|| bad(id, value, &why()))
    }

    /// What its argument stands for among `choices`.
    pub fn choice<T: Copy>(&self, id: &str, choices: &[(&str, T)]) -> Result<Option<T>, UsageError> {
        let Some(value) = self.last(id) else { return Ok(None) };
        if let Some((_, meaning)) = choices.iter().find(|(word, _)| value == *word) {
            return Ok(Some(*meaning));
        }
        let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
        let list = match words.as_slice() {
            [several @ .., last] if !several.is_empty() => format!("{} or {last}", several.join(", ")),
            words => words.concat(),
        };
        let error = bad(id, value, &format!("must be {list}"));
        Err(match nearest(value.to_str().unwrap_or_default(), &words) {
            Some(word) if words.len() > 1 => error.remedy(format!("did you mean {} {word}?", typed(id))),
            _ => error,
        })
    }
}

fn utf8(id: &str, value: &OsStr) -> Result<String, UsageError> {
    value.to_str().map(str::to_owned).ok_or_else(|| bad(id, value, "must be UTF-8"))
}

/// `--option value: why`.
pub fn bad(id: &str, value: &OsStr, why: &str) -> UsageError {
    let option = typed(id);
    UsageError::new(format!("{option} {}: {why}", escape(value.as_bytes())))
}
