//! Options of `haul net`: its own, and those of a copy that say how data travels and hosts are reached.

use std::sync::LazyLock;

use super::measurement;
use super::row::OptionRow;
use super::table::NET;
use super::values::Values;

/// Options that it shares with a copy.
const OTHERS: [&str; 4] = ["json", "quiet", "progress", "config"];

static ALL: LazyLock<Vec<OptionRow>> = LazyLock::new(|| measurement::rows(NET, &OTHERS));

/// All of them.
pub fn rows() -> &'static [OptionRow] {
    &ALL
}

/// Whether data comes from the host, and the options of the copy.
pub fn split(values: &Values) -> (bool, Values) {
    let (own, copy) = measurement::split(values, NET);
    (own.flag("reverse"), copy)
}
