//! Options of `haul read`.

use super::*;

options! {
    /// Options of `haul read` besides those of a copy ([`crate::args::shared`]).
    ALL;
    RANGE: Single<(u64, u64)> = row("range", None, One("OFFSET+LENGTH"), Output, "print LENGTH bytes from byte OFFSET on, each a SIZE").one(byte_range);
    SESSION: Switch = row("session", None, Nothing, Output, "for programs: answer requests on standard input until it ends").switch();
    CHANGES: Switch = row("changes", None, Nothing, Output, "with --session, also make directories and remove entries on request").switch();
    SHOW_HELP;
}
