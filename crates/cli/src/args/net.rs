//! Options of `haul net`: its own, and those of a copy for performance and connections.

use std::sync::LazyLock;

use super::row::OptionRow;
use super::values::Values;
use super::{flags, measurement};

/// Options that it shares with a copy.
const OTHERS: [&OptionRow; 4] = [&flags::JSON.row, &flags::QUIET.row, &flags::PROGRESS.row, &flags::CONFIG.row];

static ALL: LazyLock<Vec<OptionRow>> = LazyLock::new(|| measurement::rows(flags::net::ALL, &OTHERS));

/// All options of `haul net`.
pub fn rows() -> &'static [OptionRow] {
    &ALL
}

/// Whether the host is the source, and the options of the copy.
pub fn split(values: &Values) -> (bool, Values) {
    let (own, copy) = measurement::split(values, flags::net::ALL);
    (own.is_set(&flags::net::REVERSE), copy)
}
