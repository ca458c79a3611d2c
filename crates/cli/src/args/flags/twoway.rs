//! Options of `haul twoway`.

use super::*;

/// A side of `--prefer`, or a measure, for all paths or those of a pattern.
const PREFERENCES: &str = "newer, older, larger, a or b, alone or before a pattern: 'b:*.log'";

options! {
    /// Options of `haul twoway` besides those of a copy ([`crate::args::shared`]).
    ALL;
    PLAN: Switch = row("plan", Some('n'), Nothing, Syncing, "show what would happen, and change nothing").own_letter().switch();
    PLAN_FILE: Single<OsString> = row("plan-file", None, One("FILE"), Syncing, "apply what --plan --json printed into FILE, if nothing has changed since").one(raw);
    PREFER: Repeated<OsString> = row("prefer", None, Each("WHICH"), Syncing, "decide conflicts for newer, older, larger, a or b; b:'*.log' decides for a pattern").each(|a| preference(a, PREFERENCES));
    KEEP_BOTH: Switch = row("keep-both", None, Nothing, Syncing, "keep the loser of a conflict as NAME.conflict-HOST-DATE.EXT").switch();
    INTERACTIVE: Switch = row("interactive", None, Nothing, Syncing, "ask about each conflict before anything changes").switch();
    BATCH: Switch = row("batch", None, Nothing, Syncing, "ask nothing: refuse what needs a confirmation").switch();
    WATCH.with_help("stay, and synchronise again whenever a side has changed");
    MAX_DELETE.with_help("delete up to N entries of a side without asking (default: half of them, at most 1000, at least 10)");
    ALLOW_EMPTY_SOURCE.with_help("delete everything at a side if the other side has become empty");
    BACKUP_DIR.with_help("keep replaced and deleted files in DIR at each side (relative to the replica)");
    COMPARE.with_help("find changed files by time (default: size, times and inode) or digest");
    JSON.with_help("print one JSON object a line");
    SHOW_HELP;
}

/// Checks the argument of `--prefer`.
fn preference(
    argument: super::super::argument::Argument<'_>,
    known: &str,
) -> Result<OsString, super::super::UsageError> {
    use std::os::unix::ffi::OsStrExt;
    let bytes = argument.value.as_bytes();
    let word = bytes.split(|byte| *byte == b':').next().unwrap_or_default();
    let is_known = [&b"newer"[..], b"older", b"larger", b"a", b"b"].contains(&word);
    match is_known && !bytes.ends_with(b":") {
        true => Ok(argument.value.to_owned()),
        false => Err(argument.bad(&format!("must be {known}"))),
    }
}
