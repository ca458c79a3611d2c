//! Options of `haul read`: its own, and those of a copy for connections.

use std::sync::LazyLock;

use super::flags::{self, COPY};
use super::measurement;
use super::row::{HelpSection, OptionRow};
use super::values::Values;

static ALL: LazyLock<Vec<OptionRow>> = LazyLock::new(|| {
    let is_shared = |row: &&OptionRow| row.section == HelpSection::Connecting || row.is(&flags::CONFIG.row);
    flags::read::ALL.iter().chain(COPY.iter().filter(is_shared)).cloned().collect()
});

/// All options of `haul read`.
pub fn rows() -> &'static [OptionRow] {
    &ALL
}

/// Separates the own options from those of the copy.
pub fn split(values: &Values) -> (Values, Values) {
    measurement::split(values, flags::read::ALL)
}
