//! Options of `haul copies` and `haul jobs`.

use super::*;

options! {
    /// Options of `haul copies` and `haul jobs`.
    ALL;
    JSON.with_help("print one JSON object a line");
    SHOW_HELP;
}
