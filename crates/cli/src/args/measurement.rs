//! Options of commands that measure a copy without making one: their own, and those of a copy for performance and
//! connections.

use super::flags::COPY;
use super::row::{HelpSection, OptionRow};
use super::values::Values;

/// `own`, a copy's options for performance and connections, and `others`.
pub fn rows(own: &[OptionRow], others: &[&OptionRow]) -> Vec<OptionRow> {
    let is_kept = |row: &&OptionRow| {
        matches!(row.section, HelpSection::Performance | HelpSection::Connecting) || row.is_any(others)
    };
    own.iter().chain(COPY.iter().filter(is_kept)).cloned().collect()
}

/// Separates the command's `own` options from those of the copy.
pub fn split(values: &Values, own: &'static [OptionRow]) -> (Values, Values) {
    let is_own = |row: &OptionRow| own.iter().any(|own| own.is(row));
    let given = values.given().iter().cloned();
    let (of_command, of_copy) = given.partition(|(row, _)| is_own(row));
    let undone = values.undone().iter().copied().filter(|row| !is_own(row)).collect();
    let dialect = values.dialect();
    (Values::new(own, dialect, of_command), Values::new(COPY, dialect, of_copy).undoing(undone))
}
