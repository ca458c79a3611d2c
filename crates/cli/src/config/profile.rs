//! Contents of a configuration file: options of a copy by their long names, for all hosts or for some.
//!
//! Values are parsed as on the command line. A file with any error is refused as a whole, even if the error is in
//! another host's section.

use std::ffi::OsString;
use std::ops::Range;
use std::rc::Rc;

use haul_proto::path::escape;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::pattern;
use crate::args::flags::COPY;
use crate::args::nearest::nearest;
use crate::args::row::{OptionRow, Takes};
use crate::args::scan::DEFAULT;
use crate::args::values::Values;
use crate::args::{Dialect, UsageError};
use crate::resolve::settings;

/// The table of host patterns.
const HOST: &str = "host";
/// The table of pairs for `haul twoway`.
pub(super) const PAIR: &str = "pair";
/// Highest level of `verbose`.
const VERBOSE_MAX: usize = 3;

/// A setting in a file.
#[derive(Debug, Clone)]
pub struct ProfileSetting {
    /// The option.
    pub row: &'static OptionRow,
    /// Its arguments, one per repetition; empty to reset it to its default.
    pub arguments: Vec<Option<OsString>>,
    /// Its position.
    pub place: ProfileLine,
}

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileLine {
    /// The file's name in messages.
    pub file: Rc<str>,
    /// The line, from 1.
    pub line: usize,
    /// The host pattern of its table.
    pub host: Option<Rc<str>>,
}

/// A section: settings for the same hosts.
#[derive(Debug)]
pub struct ProfileSection {
    /// The pattern of their names; `None` for every copy.
    pub host: Option<Rc<str>>,
    /// In the order of the lines.
    pub settings: Vec<ProfileSetting>,
}

impl ProfileSetting {
    /// The option, once per repetition.
    pub fn given(&self) -> impl Iterator<Item = (&'static OptionRow, Option<OsString>)> {
        self.arguments.iter().map(|argument| (self.row, argument.clone()))
    }
}

/// The sections of a file's text, the more specific first; of two equally specific ones, the later one.
pub fn parse(file: &str, text: &str) -> Result<Vec<ProfileSection>, UsageError> {
    let reader = ProfileReader { file: file.into(), text };
    let document = DeTable::parse(text).map_err(|error| {
        let wrong = reader.wrong(error.span().unwrap_or_default(), error.message());
        wrong.remedy(match text.lines().any(|line| line.starts_with('-')) {
            true => "haul's files have lines such as streams = 8; bbcp's are read under the name bbcp",
            false => "write OPTION = VALUE, with text in quotes: haul help config",
        })
    })?;
    let mut general = ProfileSection { host: None, settings: Vec::new() };
    let mut sections = Vec::new();
    for (key, value) in in_order(document.get_ref()) {
        match (&**key.get_ref(), value.get_ref()) {
            (HOST, DeValue::Table(hosts)) => {
                for (pattern, table) in in_order(hosts) {
                    sections.push((pattern.span().start, reader.section(pattern, table)?));
                }
            }
            (PAIR, DeValue::Table(_)) => {}
            (HOST, _) => return Err(reader.wrong(key.span(), "host is not an option").remedy("write [host.\"db*\"]")),
            _ => general.settings.push(reader.setting(None, key, value)?),
        }
    }
    sections.sort_by_key(|(at, section)| {
        let rank = section.host.as_deref().map(pattern::rank);
        std::cmp::Reverse((rank, *at))
    });
    let sections: Vec<_> = sections.into_iter().map(|(_, section)| section).chain([general]).collect();
    sections.iter().try_for_each(refuse_contradictions)?;
    Ok(sections)
}

/// The entries of a table, in the order of the file.
fn in_order<'a, 't>(table: &'a DeTable<'t>) -> Vec<(&'a Spanned<toml::de::DeString<'t>>, &'a Spanned<DeValue<'t>>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

/// Refuses contradictory options. The error names the line of the last one.
fn refuse_contradictions(section: &ProfileSection) -> Result<(), UsageError> {
    let mut given = Vec::new();
    for setting in &section.settings {
        given.extend(setting.given());
        check(given.clone()).map_err(|error| setting.place.before(error))?;
    }
    Ok(())
}

/// Checks options by the parser of the command line.
pub fn check(given: Vec<(&'static OptionRow, Option<OsString>)>) -> Result<(), UsageError> {
    settings(&Values::new(COPY, Dialect::Haul, given), false).map(drop)
}

impl ProfileLine {
    /// Prefixes an error with its place in the file.
    pub fn before(&self, error: UsageError) -> UsageError {
        error.at(&format!("{}:{}", self.file, self.line))
    }
}

struct ProfileReader<'t> {
    file: Rc<str>,
    text: &'t str,
}

impl ProfileReader<'_> {
    fn place(&self, span: &Range<usize>, host: Option<Rc<str>>) -> ProfileLine {
        let before = self.text.as_bytes().iter().take(span.start);
        ProfileLine { file: self.file.clone(), line: before.filter(|byte| **byte == b'\n').count() + 1, host }
    }

    fn wrong(&self, span: Range<usize>, what: &str) -> UsageError {
        self.place(&span, None).before(UsageError::new(escape(what.as_bytes())))
    }

    fn section(
        &self,
        pattern: &Spanned<toml::de::DeString<'_>>,
        table: &Spanned<DeValue<'_>>,
    ) -> Result<ProfileSection, UsageError> {
        let host: Rc<str> = Rc::from(&**pattern.get_ref());
        let DeValue::Table(table) = table.get_ref() else {
            let what = format!("host.{host} is not an option");
            return Err(self
                .wrong(pattern.span(), &what)
                .remedy("write [host.\"db*\"], and its options on lines of their own"));
        };
        if let Some(odd) = host.chars().find(|letter| "@/".contains(*letter) || letter.is_whitespace()) {
            let what = format!("[host.\"{host}\"]: the name of a host contains no {odd:?}");
            return Err(self
                .wrong(pattern.span(), &what)
                .remedy("a pattern is a host name with * and ?, without a user"));
        }
        let settings = in_order(table).into_iter().map(|(key, value)| self.setting(Some(&host), key, value));
        Ok(ProfileSection { settings: settings.collect::<Result<_, _>>()?, host: Some(host) })
    }

    fn setting(
        &self,
        host: Option<&Rc<str>>,
        key: &Spanned<toml::de::DeString<'_>>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<ProfileSetting, UsageError> {
        let place = self.place(&key.span(), host.cloned());
        let row = row(key.get_ref()).map_err(|error| place.before(error))?;
        let arguments = self.arguments(row, value).ok_or_else(|| place.before(wrong_kind(row, key.get_ref())))?;
        let setting = ProfileSetting { row, arguments, place };
        check(setting.given().collect()).map_err(|error| setting.place.before(error))?;
        Ok(setting)
    }

    /// The arguments of a value; `None` if the option has none of that kind.
    fn arguments(&self, row: &OptionRow, value: &Spanned<DeValue<'_>>) -> Option<Vec<Option<OsString>>> {
        let takes_none = matches!(row.takes, Takes::Nothing | Takes::Repeats);
        let may_take_none = takes_none || !matches!(row.takes, Takes::One(_) | Takes::Each(_));
        let typed = |text: &str| Some(OsString::from(text));
        match value.get_ref() {
            DeValue::Boolean(false) if may_take_none => Some(Vec::new()),
            DeValue::Boolean(true) if may_take_none => Some(vec![None]),
            DeValue::String(text) if text.as_bytes() == DEFAULT => Some(Vec::new()),
            DeValue::String(text) if !takes_none && !text.contains('\0') => Some(vec![typed(text)]),
            DeValue::Integer(_) if row.takes == Takes::Repeats => {
                let times = self.text[value.span()].parse().ok().filter(|times| *times <= VERBOSE_MAX)?;
                Some(vec![None; times])
            }
            // The number as written: a file accepts the same forms as the command line.
            DeValue::Integer(_) if !takes_none => Some(vec![typed(&self.text[value.span()])]),
            DeValue::Array(several) if matches!(row.takes, Takes::Each(_)) => {
                let each = several.iter().map(|one| match one.get_ref() {
                    DeValue::Array(_) => None,
                    _ => self.arguments(row, one).filter(|arguments| !arguments.is_empty()),
                });
                Some(each.collect::<Option<Vec<_>>>()?.concat())
            }
            _ => None,
        }
    }
}

/// The option of a key, if files may have it.
fn row(key: &str) -> Result<&'static OptionRow, UsageError> {
    let shown = escape(key.as_bytes());
    match COPY.iter().find(|row| row.has_key(key)) {
        Some(row) if row.of_one_copy => Err(UsageError::new(format!("{shown}: only valid on the command line"))
            .remedy("haul help config lists these options")),
        Some(row) => Ok(row),
        None => {
            let names: Vec<_> = COPY
                .iter()
                .filter(|row| !row.of_one_copy)
                .flat_map(|row| [Some(row.id), row.alias])
                .flatten()
                .chain([HOST])
                .collect();
            let unknown = UsageError::new(format!("unknown option {shown}"));
            Err(match nearest(key, &names) {
                Some(HOST) => unknown.remedy("did you mean: [host.\"NAME\"]"),
                Some(near) => unknown.remedy(format!("did you mean: {near}")),
                None => unknown.remedy("use long names without dashes: haul help config"),
            })
        }
    }
}

fn wrong_kind(row: &OptionRow, key: &str) -> UsageError {
    let kind = match row.takes {
        Takes::Nothing => "true or false",
        Takes::Repeats => "true, false, or a number up to 3",
        Takes::One(_) => "text in quotes or a number",
        Takes::Each(_) => "text in quotes, or several: [\"...\", \"...\"]",
        _ => "text in quotes, true or false",
    };
    UsageError::new(format!("{key}: must be {kind}"))
}

#[cfg(test)]
#[path = "profile_tests.rs"]
mod tests;
