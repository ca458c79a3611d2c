//! The options of a command line and of configuration files, as they were given.

use std::ffi::{OsStr, OsString};
use std::fmt;

use super::argument::Argument;
use super::flag::{Flag, Repeated, Single, Switch};
use super::row::{OptionRow, Takes};
use super::{Dialect, UsageError};

/// Options that were given, of one table.
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
    pub fn is_typed(&self, option: &OptionRow) -> bool {
        self.given.iter().take(self.typed).any(|(row, _)| row.is(option))
    }

    /// The program of the command line.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// All options that were given, in their order.
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

    /// Returns its last argument. For an option without one: the implied argument, if any.
    pub fn last<T>(&self, flag: &Flag<Single<T>>) -> Option<&OsStr> {
        self.argument(flag).map(|argument| argument.value)
    }

    /// The same for a conversion of its own.
    pub fn argument<T>(&self, flag: &Flag<Single<T>>) -> Option<Argument<'_>> {
        self.of(flag).last()
    }

    /// What its last argument stands for.
    pub fn get<T>(&self, flag: &Flag<Single<T>>) -> Result<Option<T>, UsageError> {
        self.argument(flag).map(flag.kind.0).transpose()
    }

    /// All its arguments.
    pub fn each<T>(&self, flag: &Flag<Repeated<T>>) -> Vec<&OsStr> {
        self.of(flag).map(|argument| argument.value).collect()
    }

    /// What all its arguments stand for.
    pub fn all<T>(&self, flag: &Flag<Repeated<T>>) -> Result<Vec<T>, UsageError> {
        self.of(flag).map(flag.kind.0).collect()
    }

    /// A command without some options of a copy may still ask for them: they were not given.
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
