//! Options of commands that measure a copy without making one: their own, and those of a copy that say how data travels
//! and hosts are reached.

use super::row::{HelpSection, OptionRow};
use super::table::COPY;
use super::values::Values;

/// `own`, and a copy's: those for performance and connections, and `others` by their ids.
pub fn rows(own: &[OptionRow], others: &[&str]) -> Vec<OptionRow> {
    let is_kept = |row: &&OptionRow| {
        matches!(row.section, HelpSection::Performance | HelpSection::Connecting) || others.contains(&row.id)
    };
    own.iter().chain(COPY.iter().filter(is_kept)).cloned().collect()
}

/// The command's `own` options, and those of the copy that it has in mind.
pub fn split(values: &Values, own: &'static [OptionRow]) -> (Values, Values) {
    let is_own = |id: &str| own.iter().any(|row| row.id == id);
    let given = values.given().iter().cloned();
    let (of_command, of_copy) = given.partition(|(row, _)| is_own(row.id));
    let undone = values.undone().iter().copied().filter(|row| !is_own(row.id)).collect();
    let dialect = values.dialect();
    (Values::new(own, dialect, of_command), Values::new(COPY, dialect, of_copy).undoing(undone))
}
