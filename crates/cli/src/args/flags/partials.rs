//! Options of `haul status` and `haul clean`.

use super::*;

options! {
    /// Options of `haul status` and `haul clean` besides those of a copy ([`crate::args::shared`]).
    ALL;
    JOURNAL_DIR: Single<OsString> = row("journal-dir", None, One("DIR"), Copying, "the directory of the copies' resume journals").one(raw);
    JSON.with_help("print one JSON object a line");
    SHOW_HELP;
}
