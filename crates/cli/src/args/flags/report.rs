//! Options of `haul report`.

use super::*;

options! {
    /// Options of `haul report`.
    ALL;
    OUT: Single<OsString> = row("out", None, One("FILE"), Output, "write the page to FILE, .html or .md (default: report.html)").one(raw);
    SHOW_HELP;
}
