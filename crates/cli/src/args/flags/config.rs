//! Options of `haul config`.

use super::*;

options! {
    /// Options of `haul config` besides those of a copy ([`crate::args::shared`]).
    ALL;
    EVERY: Switch = row("all", None, Nothing, Output, "list the options with their defaults, too").switch();
    JSON.with_help("print one JSON object a line, for every option");
}
