//! Options of `haul net`: its own, and those of a copy that say how data travels and hosts are reached.

use std::sync::LazyLock;

use super::row::{HelpSection, OptionRow};
use super::table::{COPY, NET};
use super::values::Values;

/// Options that it shares with a copy.
const OTHERS: [&str; 4] = ["json", "quiet", "progress", "config"];

static ALL: LazyLock<Vec<OptionRow>> = LazyLock::new(|| {
    let is_kept = |row: &&OptionRow| {
        matches!(row.section, HelpSection::Performance | HelpSection::Connecting) || OTHERS.contains(&row.id)
    };
    NET.iter().chain(COPY.iter().filter(is_kept)).cloned().collect()
});

/// All of them.
pub fn rows() -> &'static [OptionRow] {
    &ALL
}

/// Whether data comes from the host, and the options of the copy.
pub fn split(values: &Values) -> (bool, Values) {
    let is_own = |id: &str| NET.iter().any(|row| row.id == id);
    let copy = values.given().iter().filter(|(row, _)| !is_own(row.id)).cloned().collect();
    let undone = values.undone().iter().copied().filter(|row| !is_own(row.id)).collect();
    (values.flag("reverse"), Values::new(COPY, values.dialect(), copy).undoing(undone))
}
