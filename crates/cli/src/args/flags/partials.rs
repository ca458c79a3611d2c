//! Options of `haul status` and `haul clean`.

use super::*;

options! {
    /// Options of `haul status` and `haul clean`.
    ALL;
    APPEND: Single<OsString> = row("append", Some('a'), One("DIR"), Copying, "the DIR of the copies' -a, where their resume journals are").one(raw);
    JSON.with_help("print one JSON object a line");
    CONFIG.without_bbcp();
    SHOW_HELP;
}
