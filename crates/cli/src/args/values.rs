//! The arguments of options as they were typed, and their conversion with errors that name the option.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use clap::ArgMatches;
use haul_proto::path::escape;

use super::UsageError;
use super::nearest::nearest;
use super::size::{SizeError, parse_size};
use super::table::{Row, typed};
use super::time::parse_time;

/// Options that were given, by the ids of one table.
///
/// Every method panics for an id that the table does not have, or has with
/// another kind of argument: a mistake in this program.
#[derive(Debug)]
pub struct Values(ArgMatches);

impl Values {
    /// Those that clap found for `table`.
    pub fn new(table: &'static [Row], matches: ArgMatches) -> Self {
        debug_assert!(table.iter().all(|row| matches.try_contains_id(row.id).is_ok()));
        Self(matches)
    }

    /// Whether an option without argument was given.
    pub fn flag(&self, id: &str) -> bool {
        self.0.get_flag(id)
    }

    /// How often it was given.
    pub fn count(&self, id: &str) -> u8 {
        self.0.get_count(id)
    }

    /// Its argument; the last one if it was given more than once.
    pub fn last(&self, id: &str) -> Option<&OsStr> {
        self.0.get_one::<OsString>(id).map(OsString::as_os_str)
    }

    /// All its arguments.
    pub fn each(&self, id: &str) -> Vec<&OsStr> {
        self.0.get_many::<OsString>(id).into_iter().flatten().map(OsString::as_os_str).collect()
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
        let Some(value) = self.last(id) else { return Ok(None) };
        let number =
            value.to_str().filter(|text| text.bytes().all(|b| b.is_ascii_digit())).and_then(|text| text.parse().ok());
        match number.filter(|number| range.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(bad(id, value, &format!("needs a whole number from {} to {}", range.start(), range.end()))),
        }
    }

    /// Its argument as a size in bytes, in `range`; `limits` says the range to people.
    pub fn size(&self, id: &str, range: RangeInclusive<u64>, limits: &str) -> Result<Option<u64>, UsageError> {
        let Some(value) = self.last(id) else { return Ok(None) };
        match parse_size(value.to_str().unwrap_or_default()) {
            Ok(size) if range.contains(&size) => Ok(Some(size)),
            Ok(_) | Err(SizeError::TooLarge) => Err(bad(id, value, &format!("needs a size {limits}"))),
            Err(SizeError::Form) => {
                Err(bad(id, value, "needs a size: a whole number, with k, m or g for powers of 1024 (512k, 4m)"))
            }
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
            Some(_) => Err(bad(id, value, &format!("needs a time {limits}"))),
            None => Err(bad(id, value, "needs a time: seconds, or a whole number with s, m, h or d (90, 10m, 2h)")),
        }
    }

    /// Its argument as one of a few sizes in bytes; `names` says them to people.
    pub fn size_among<T: Copy + Into<u64>>(&self, id: &str, sizes: &[T], names: &str) -> Result<Option<T>, UsageError> {
        let Some(bytes) = self.size(id, 0..=u64::MAX, names)? else { return Ok(None) };
        match sizes.iter().find(|size| (**size).into() == bytes) {
            Some(size) => Ok(Some(*size)),
            None => Err(bad(id, self.last(id).unwrap_or_default(), &format!("needs a size {names}"))),
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
        let why = || format!("needs numbers below {end} and ranges of them, such as 0-7,16");
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
            [only] => format!("can only be {only}"),
            several => format!("not one of {}", several.join(", ")),
        };
        let error = bad(id, value, &list);
        Err(match nearest(value.to_str().unwrap_or_default(), &words) {
            Some(word) if words.len() > 1 => error.remedy(format!("did you mean {} {word}?", typed(id))),
            _ => error,
        })
    }
}

fn utf8(id: &str, value: &OsStr) -> Result<String, UsageError> {
    value.to_str().map(str::to_owned).ok_or_else(|| bad(id, value, "needs UTF-8 text"))
}

fn bad(id: &str, value: &OsStr, why: &str) -> UsageError {
    let option = typed(id);
    UsageError::new(format!("{option} {}: {why}", escape(value.as_bytes())))
}
