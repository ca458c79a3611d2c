//! The argument of an option as it was typed, and its conversion with errors that name the option.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use haul_base::quantity::{QuantityError, parse_rate, parse_size, parse_time};
use haul_proto::path::escape;

use super::UsageError;
use super::nearest::nearest;
use super::row::OptionRow;

/// An argument, or a part of one.
#[derive(Clone, Copy)]
pub struct Argument<'a> {
    /// The option.
    pub row: &'a OptionRow,
    /// The typed text.
    pub value: &'a OsStr,
}

impl<'a> Argument<'a> {
    /// `--option value: why`.
    pub fn bad(self, why: &str) -> UsageError {
        let error = UsageError::new(format!("{} {}: {why}", self.row.typed(), escape(self.value.as_bytes())));
        if self.value == "auto" { error.remedy("omit it for the default") } else { error }
    }

    /// Text.
    pub fn text(self) -> Result<&'a str, UsageError> {
        self.value.to_str().ok_or_else(|| self.bad("must be UTF-8"))
    }

    /// A number in `range`.
    pub fn number<T: TryFrom<u64> + PartialOrd + Display>(self, range: RangeInclusive<T>) -> Result<T, UsageError> {
        let digits = self.value.to_str().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
        let number = digits.and_then(|text| T::try_from(text.parse().ok()?).ok());
        let why = || format!("must be a whole number from {} to {}", range.start(), range.end());
        number.filter(|number| range.contains(number)).ok_or_else(|| self.bad(&why()))
    }

    /// A size in bytes, in `range`; `limits` says the range to people.
    pub fn size<T: TryFrom<u64> + PartialOrd>(self, range: RangeInclusive<T>, limits: &str) -> Result<T, UsageError> {
        self.quantity(parse_size, range, &format!("a size {limits}"), "a size, for example 65536, 512k, 1.5g or 2GB")
    }

    /// A rate in bytes per second, in `range`; `limits` says the range to people.
    pub fn rate(self, range: RangeInclusive<u64>, limits: &str) -> Result<u64, UsageError> {
        let is_bare = |text: &str| text.trim_end_matches("/s").ends_with('b');
        let forms = match self.value.to_str().is_some_and(is_bare) {
            true => "a rate in bytes or bits: 10MB/s or 10Mbit/s",
            false => "a rate, for example 50m (MiB/s), 50MB/s or 400Mbit/s",
        };
        self.quantity(parse_rate, range, &format!("a rate {limits}"), forms)
    }

    /// A time in `range`; `limits` says the range to people.
    pub fn time(self, range: RangeInclusive<Duration>, limits: &str) -> Result<Duration, UsageError> {
        self.quantity(parse_time, range, &format!("a time {limits}"), "a time, for example 90, 10m, 1h30m or 7d")
    }

    /// A value in `range`, which `limited` says to people, as `forms` does possible forms.
    fn quantity<V, T: TryFrom<V> + PartialOrd>(
        self,
        parse: fn(&str) -> Result<V, QuantityError>,
        range: RangeInclusive<T>,
        limited: &str,
        forms: &str,
    ) -> Result<T, UsageError> {
        let value = match parse(self.value.to_str().unwrap_or_default()) {
            Ok(value) => T::try_from(value).ok().filter(|value| range.contains(value)),
            Err(QuantityError::TooLarge) => None,
            Err(QuantityError::Form) => return Err(self.bad(&format!("must be {forms}"))),
        };
        value.ok_or_else(|| self.bad(&format!("must be {limited}")))
    }

    /// A list of numbers below `end` and ranges of them, such as `0-7,16`; ascending, each once.
    pub fn numbers(self, end: u16) -> Result<Vec<u16>, UsageError> {
        let number = |text: &str| {
            let digits = Some(text).filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
            digits.and_then(|text| text.parse::<u16>().ok()).filter(|number| *number < end)
        };
        let range = |text: &str| {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            Some(number(first)?..=number(last)?).filter(|range| !range.is_empty())
        };
        let ranges: Option<Vec<_>> = self.value.to_str().unwrap_or_default().split(',').map(range).collect();
        let numbers: Option<BTreeSet<_>> = ranges.map(|ranges| ranges.into_iter().flatten().collect());
        let why = || format!("must be numbers below {end} or ranges, for example 0-7,16");
        numbers.map(|numbers| numbers.into_iter().collect()).ok_or_else(|| self.bad(&why()))
    }

    /// Returns its value among `choices`.
    pub fn choice<T: Copy>(self, choices: &[(&str, T)]) -> Result<T, UsageError> {
        if let Some((_, meaning)) = choices.iter().find(|(word, _)| self.value == *word) {
            return Ok(*meaning);
        }
        let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
        let list = match words.as_slice() {
            [several @ .., last] if !several.is_empty() => format!("{} or {last}", several.join(", ")),
            words => words.concat(),
        };
        let error = self.bad(&format!("must be {list}"));
        Err(match nearest(self.value.to_str().unwrap_or_default(), &words) {
            Some(word) if words.len() > 1 => error.remedy(format!("did you mean: {} {word}", self.row.typed())),
            _ => error,
        })
    }
}

/// `--option value: why`.
pub fn bad(row: &OptionRow, value: &OsStr, why: &str) -> UsageError {
    Argument { row, value }.bad(why)
}
