//! An option with the type of its arguments. Product code reads it from [`super::values::Values`].

use std::ops::Deref;

use super::UsageError;
use super::argument::Argument;
use super::row::{OptionRow, Takes};

/// Parses an argument.
pub type Parse<T> = fn(Argument<'_>) -> Result<T, UsageError>;

/// An option. `K` is [`Switch`], [`Single`] or [`Repeated`].
pub struct Flag<K> {
    /// Its names and its help.
    pub row: OptionRow,
    /// The parser of its arguments.
    pub kind: K,
}

/// An option without an argument.
pub struct Switch;
/// An option whose last argument counts.
pub struct Single<T>(pub Parse<T>);
/// A repeatable option: all arguments count.
pub struct Repeated<T>(pub Parse<T>);

impl<K> Deref for Flag<K> {
    type Target = OptionRow;

    fn deref(&self) -> &OptionRow {
        &self.row
    }
}

/// Compile-time checks that a kind fits its [`Takes`].
impl OptionRow {
    pub(super) const fn switch(self) -> Flag<Switch> {
        assert!(matches!(self.takes, Takes::Nothing | Takes::Repeats));
        Flag { row: self, kind: Switch }
    }

    pub(super) const fn one<T>(self, parse: Parse<T>) -> Flag<Single<T>> {
        assert!(!matches!(self.takes, Takes::Nothing | Takes::Repeats | Takes::Each(_)));
        Flag { row: self, kind: Single(parse) }
    }

    pub(super) const fn each<T>(self, parse: Parse<T>) -> Flag<Repeated<T>> {
        assert!(matches!(self.takes, Takes::Each(_)));
        Flag { row: self, kind: Repeated(parse) }
    }
}

/// Declares options, and the list of all options of a command. A bare name lists an option declared elsewhere,
/// optionally with another help text.
macro_rules! options {
    ($(#[$doc:meta])* $list:ident;
     $($name:ident $(.$change:ident($($with:expr),*))* $(: $kind:ty = $flag:expr)?;)*) => {
        $($(pub const $name: Flag<$kind> = $flag;)?)*
        $(#[$doc])*
        pub const $list: &[OptionRow] = &[$($name.row$(.$change($($with),*))*),*];
    };
}

pub(super) use options;
