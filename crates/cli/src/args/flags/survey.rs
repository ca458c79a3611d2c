//! Options of `haul survey`.

use super::*;

options! {
    /// Options of `haul survey`.
    ALL;
    TO: Single<OsString> = row("to", None, One("TARGET"), Copying, "show what exists at TARGET (a local directory), or estimate the time of a copy (host:path)").one(raw);
    RECURSIVE.with_help("accepted, as in a copy: directories are always walked");
    SYMLINKS.without_bbcp();
    ONE_FILE_SYSTEM;
    INCLUDE;
    EXCLUDE;
    INCLUDE_FROM;
    EXCLUDE_FROM;
    FILTER_FILES;
    FILTER;
    MIN_SIZE;
    MAX_SIZE;
    NEWER;
    OLDER;
    NO_DUPLICATES: Switch = row("no-duplicates", None, Nothing, Integrity, "do not read files to find duplicates").switch();
    NO_SAMPLE: Switch = row("no-sample", None, Nothing, Performance, "do not read files to estimate compression").switch();
    TIME: Single<Duration> = row("time", None, One("TIME"), Output, "read files for at most TIME in total (default: 60s)").one(|a| a.time(SECOND..=DAY * 7, "from 1s to 7d"));
    HTML: Single<OsString> = row("html", None, One("FILE"), Output, "write a page with a map of the bytes").one(raw);
    JSON.with_help("print one JSON object a line");
    CONFIG.without_bbcp();
    SHOW_HELP;
}
