//! Options of `haul status` and `haul clean`.

use super::*;

options! {
    /// Options of `haul status` and `haul clean`.
    ALL;
    JOURNAL_DIR: Single<OsString> = row("journal-dir", None, One("DIR"), Copying, "the directory of the copies' resume journals").one(raw);
    JSON.with_help("print one JSON object a line");
    CONFIG.without_bbcp();
    SHOW_HELP;
}
