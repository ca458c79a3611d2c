//! Options of commands that measure a copy without making one: their own, and those of a copy that say how data travels
//! and hosts are reached.

use super::flags::COPY;
use super::row::{HelpSection, OptionRow};
use super::values::Values;

/// `own`, and a copy's: those for performance and connections, and `others` besides.
pub fn rows(own: &[OptionRow], others: &[&OptionRow]) -> Vec<OptionRow> {
    let is_kept = |row: &&OptionRow| {
        matches!(row.section, HelpSection::Performance | HelpSection::Connecting) || row.is_any(others)
    };
    own.iter().chain(COPY.iter().filter(is_kept)).cloned().collect()
}

/// The command's `own` options, and those of the copy that it has in mind.
pub fn split(values: &Values, own: &'static [OptionRow]) -> (Values, Values) {
    let is_own = |row: &OptionRow| own.iter().any(|own| own.is(row));
    let given = values.given().iter().cloned();
    let (of_command, of_copy) = given.partition(|(row, _)| is_own(row));
    let undone = values.undone().iter().copied().filter(|row| !is_own(row)).collect();
    let dialect = values.dialect();
    (Values::new(own, dialect, of_command), Values::new(COPY, dialect, of_copy).undoing(undone))
}
