//! The options of a command line and of configuration files, as given.

use std::ffi::{OsStr, OsString};
use std::fmt;

use super::argument::Argument;
use super::flag::{Flag, Repeated, Single, Switch};
use super::row::{OptionRow, Takes};
use super::{Dialect, UsageError};

/// Given options of one table.
#[derive(Clone)]
pub struct Values {
    table: &'static [OptionRow],
    dialect: Dialect,
    given: Vec<(&'static OptionRow, Option<OsString>)>,
    /// The number of typed options, which come first. The others are from files.
    typed: usize,
    /// Options that were reset to their defaults.
    undone: Vec<&'static OptionRow>,
    /// Options for the login at a remote target, if they differ from a remote source's.
    at_target: Option<Box<Values>>,
}

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.given.fmt(f)
    }
}

impl Values {
    /// The typed options of `table`, in their order.
    pub fn new(
        table: &'static [OptionRow],
        dialect: Dialect,
        given: Vec<(&'static OptionRow, Option<OsString>)>,
    ) -> Self {
        Self { table, dialect, typed: given.len(), given, undone: Vec::new(), at_target: None }
    }

    /// Resets `rows`, also those set in files.
    pub fn undoing(self, rows: Vec<&'static OptionRow>) -> Self {
        Self { undone: rows, ..self }
    }

    /// Adds the options of a file.
    pub fn and(mut self, more: Vec<(&'static OptionRow, Option<OsString>)>) -> Self {
        self.given.extend(more);
        self
    }

    /// Replaces all options.
    pub fn with(&self, given: Vec<(&'static OptionRow, Option<OsString>)>) -> Self {
        Self { typed: given.len(), given, ..self.clone() }
    }

    /// Sets other options for the login at the target.
    pub fn logging_in_at_target_as(self, target: Self) -> Self {
        Self { at_target: Some(Box::new(target)), ..self }
    }

    /// The options for the login at the target, if they differ from these.
    pub fn at_target(&self) -> Option<&Self> {
        self.at_target.as_deref()
    }

    /// All known options.
    pub fn table(&self) -> &'static [OptionRow] {
        self.table
    }

    /// Options that were reset to their defaults.
    pub fn undone(&self) -> &[&'static OptionRow] {
        &self.undone
    }

    /// Whether the command line has this option, not only a configuration file.
    pub fn is_typed(&self, option: &OptionRow) -> bool {
        self.given.iter().take(self.typed).any(|(row, _)| row.is(option))
    }

    /// The program of the command line.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// All given options, in order.
    pub fn given(&self) -> &[(&'static OptionRow, Option<OsString>)] {
        &self.given
    }

    /// Whether an option was given.
    pub fn is_set(&self, option: &OptionRow) -> bool {
        self.of(option).next().is_some()
    }

    /// The first of `options` that was given.
    pub fn first_of<'o>(&self, options: &[&'o OptionRow]) -> Option<&'o OptionRow> {
        options.iter().copied().find(|option| self.is_set(option))
    }

    /// How often it was given.
    pub fn count(&self, switch: &Flag<Switch>) -> u8 {
        u8::try_from(self.of(switch).count()).unwrap_or(u8::MAX)
    }

    /// Returns its last argument, or the implied one of an option without an argument.
    pub fn last<T>(&self, flag: &Flag<Single<T>>) -> Option<&OsStr> {
        self.argument(flag).map(|argument| argument.value)
    }

    /// Its last argument with the option, for conversions.
    pub fn argument<T>(&self, flag: &Flag<Single<T>>) -> Option<Argument<'_>> {
        self.of(flag).last()
    }

    /// The value of its last argument.
    pub fn get<T>(&self, flag: &Flag<Single<T>>) -> Result<Option<T>, UsageError> {
        self.argument(flag).map(flag.kind.0).transpose()
    }

    /// All its arguments.
    pub fn each<T>(&self, flag: &Flag<Repeated<T>>) -> Vec<&OsStr> {
        self.of(flag).map(|argument| argument.value).collect()
    }

    /// The values of all its arguments.
    pub fn all<T>(&self, flag: &Flag<Repeated<T>>) -> Result<Vec<T>, UsageError> {
        self.of(flag).map(flag.kind.0).collect()
    }

    /// A command without an option of a copy may still query it: it is unset.
    fn of(&self, option: &OptionRow) -> impl Iterator<Item = Argument<'_>> {
        let id = option.id;
        self.given.iter().filter(move |(row, _)| row.id == id).map(|(row, argument)| {
            let absent = match row.takes {
                Takes::Word { absent, .. } | Takes::Time { absent, .. } => absent,
                _ => "",
            };
            Argument { row, value: argument.as_deref().unwrap_or(OsStr::new(absent)) }
        })
    }
}
