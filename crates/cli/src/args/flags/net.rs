//! Options of `haul net`.

use super::*;

/// `-P` of a copy, with a limit of its own.
pub const PROGRESS: Flag<Single<u32>> = super::PROGRESS.row.one(|a| a.number(1..=3600));

options! {
    /// Options of `haul net` besides those of a copy ([`crate::args::shared`]).
    ALL;
    REVERSE: Switch = row("reverse", None, Nothing, Performance, "send from HOST to this machine").switch();
    SHOW_HELP;
}
