//! Exit statuses under the name bbcp, for scripts written for it. docs/BBCP.md has the same table.
//!
//! bbcp ends with an error number, or with its negative modulo 256; haul's own statuses are in [`haul_show::exit`].

use haul_base::copy::error::{Error, Outcome};
use haul_show::exit::Exit;

use crate::args::UsageError;

/// A status and its messages of haul.
struct StatusRow {
    /// The exit status.
    status: u8,
    /// Its meaning, as in docs/BBCP.md.
    #[cfg_attr(not(test), expect(dead_code, reason = "a test compares it with the document"))]
    meaning: &'static str,
    /// Phrases of messages. The first row with a matching phrase counts.
    phrases: &'static [&'static str],
}

const fn row(status: u8, meaning: &'static str, phrases: &'static [&'static str]) -> StatusRow {
    StatusRow { status, meaning, phrases }
}

/// Success.
const DONE: u8 = 0;
/// An invalid argument, or no source or target.
const USAGE: u8 = 1;
/// Death by SIGINT, as a shell reports it.
const INTERRUPTED: u8 = 130;
/// Anything else: bbcp's -1.
const OTHER: u8 = 255;
/// Damaged data; with `-E %`, a source that has changed.
pub const DAMAGED: u8 = 84;
/// A target with another digest.
pub const MISMATCH: u8 = 172;

const A_PIPE: &str = "a pipe is one file, but there are several sources";
const DIRECTORY: &str = "is a directory";
const EMPTY: &str = "a source or target is empty";

/// All statuses.
const TABLE: &[StatusRow] = &[
    row(DONE, "every file is complete", &[]),
    row(USAGE, "an invalid value, an unknown long option, no source, or no target", &["unknown option --"]),
    row(21, "EISDIR: the target ends with a slash and does not exist", &["/ does not exist"]),
    row(
        2,
        "ENOENT: a source, a list of sources, the target directory or a program does not exist; a source is a \
         directory without `-r`, or a device",
        &["No such file or directory", "does not exist", DIRECTORY, "is a device", "the program ended with status 127"],
    ),
    row(5, "EIO: the log of `-l` cannot be opened; a disk fails", &["Input/output error"]),
    row(13, "EACCES: a source or the target is not accessible", &["Permission denied"]),
    row(20, "ENOTDIR: a path's component is not a directory; several sources for a pipe", &["Not a directory", A_PIPE]),
    row(
        22,
        "EINVAL: the target exists (without `-f`, `-O` and `-a`), or a file stands where a directory is needed",
        &[
            "already exists",
            "already exists and differs",
            "is the source itself",
            "is not a directory",
            "a directory cannot be copied onto it",
            "is not a directory, but the source is",
            "a directory of this name exists",
        ],
    ),
    row(28, "ENOSPC: the target has too little free space; nothing was written", &["no space:"]),
    row(30, "EROFS: the target is read-only", &["Read-only file system"]),
    row(36, "ENAMETOOLONG: a name is too long", &["File name too long"]),
    row(
        DAMAGED,
        "EILSEQ: data arrives damaged, again and again; the checksum of `-E %` does not match",
        &["the received data differs from what the source read"],
    ),
    row(128, "the time limit of `-t` is over, or the source program failed", &["the time limit of"]),
    row(INTERRUPTED, "interrupted; bbcp dies of the signal, which a shell shows as 130 or 143", &[]),
    row(MISMATCH, "the checksum of `-E` does not match", &[" mismatch: "]),
    row(
        224,
        "EPIPE: the target program ended before it had read everything",
        &["the program ended before it had read everything"],
    ),
    row(228, "ENOSPC: the target became full while it was written", &["No space left on device"]),
    row(
        OTHER,
        "an option is unknown or lacks its argument; a host cannot be reached; any other error",
        &["unknown option", "needs an argument", "is an option", "empty file name", "the command is empty", EMPTY],
    ),
];

/// The status of a finished copy. `failure` is the message of its first failed file.
pub fn of_outcome(outcome: &Outcome, failure: Option<&str>) -> u8 {
    match (outcome, failure) {
        (_, Some(message)) => of_failure(message),
        (Ok(summary), None) if summary.files.failed == 0 && summary.files.vanished > 0 => 2,
        (Ok(summary), None) if summary.files.failed == 0 => DONE,
        (Ok(_), None) => OTHER,
        (Err(Error::Interrupted), None) => INTERRUPTED,
        (Err(error), None) => of_text(&error.to_string()).unwrap_or(OTHER),
    }
}

/// The status of a command that started no copy.
pub fn of_refusal(error: &anyhow::Error) -> u8 {
    let text = error.to_string();
    let status = of_text(&text);
    // `-P1 f1`: bbcp refuses `f1`, the argument of `-P`, before it reads `-1`.
    let is_digit =
        text.strip_prefix("unknown option -").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    match (error.is::<UsageError>(), status) {
        _ if text.starts_with("--logfile ") => 5,
        (true, Some(OTHER)) if !is_digit => OTHER,
        (true, Some(20)) if text.starts_with(A_PIPE) => 20,
        (true, Some(2)) if text.starts_with("--infiles ") && !first_line(&text).ends_with(DIRECTORY) => 2,
        (true, _) => USAGE,
        (false, status) => status.unwrap_or(OTHER),
    }
}

/// The status of a copy that is complete apart from its lists of checksums and other outputs.
pub fn of_incomplete(exit: Exit) -> u8 {
    if exit == Exit::Done { DONE } else { OTHER }
}

/// Whether bbcp prints its usage to standard output after this error with this status.
pub fn shows_usage(error: &str, status: u8) -> bool {
    let lacks_sources = ["no source ", "no target ", "--infiles "].iter().any(|phrase| error.starts_with(phrase));
    (status == OTHER && !error.starts_with(EMPTY)) || (status == USAGE && lacks_sources)
}

/// A file's message has no path in it, so a phrase may stand anywhere in its first line.
fn of_failure(message: &str) -> u8 {
    let first = first_line(message);
    let failed_source = first.starts_with("the program ended with status ") && !first.ends_with(" 127");
    match find(|phrase| first.contains(phrase)) {
        None if failed_source => 128,
        found => found.unwrap_or(OTHER),
    }
}

/// Paths may hold anything, so a phrase counts only at the beginning or the end.
fn of_text(text: &str) -> Option<u8> {
    let first = first_line(text);
    find(|phrase| first.starts_with(phrase) || first.ends_with(phrase))
}

fn find(matches: impl Fn(&str) -> bool) -> Option<u8> {
    TABLE.iter().find(|row| row.phrases.iter().any(|phrase| matches(phrase))).map(|row| row.status)
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use haul_base::copy::summary::{Summary, TransferTotals};

    use super::*;

    const DOCUMENT: &str = include_str!("../../../../../docs/BBCP.md");
    const MESSAGES: &str = include_str!("../../../../../xtask/src/messages.txt");
    /// Texts of the system and parts of texts with a value in them.
    const OF_THE_SYSTEM: &[&str] = &[
        "No such file or directory",
        "Input/output error",
        "Permission denied",
        "Not a directory",
        "Read-only file system",
        "No space left on device",
        "/ does not exist",
        "the program ended with status 127",
        "File name too long",
        "unknown option --",
        "is an option",
        "is a device",
    ];

    #[test]
    fn the_document_has_this_table() {
        let rows: Vec<_> = TABLE.iter().map(|row| format!("| {} | {} |", row.status, row.meaning)).collect();
        let is_status = |line: &&str| {
            line.strip_prefix("| ")
                .and_then(|rest| rest.split(' ').next())
                .is_some_and(|word| word.parse::<u8>().is_ok())
        };
        let mut documented: Vec<_> = DOCUMENT.lines().filter(is_status).map(str::to_owned).collect();
        let mut expected = rows;
        expected.sort();
        documented.sort();
        assert_eq!(documented, expected);
    }

    #[test]
    fn each_phrase_occurs_in_hauls_messages() {
        for phrase in TABLE.iter().flat_map(|row| row.phrases) {
            let is_said = OF_THE_SYSTEM.contains(phrase) || MESSAGES.contains(phrase.trim_end_matches(':'));
            assert!(is_said, "{phrase}: no such message");
        }
    }

    #[test]
    fn the_first_failure_decides() {
        let failed = |message: &str| of_outcome(&Err(Error::Failed("stopped".into())), Some(message));
        let statuses = [
            "No such file or directory",
            "is a directory\nhint: use -r",
            "already exists",
            "already exists and differs",
            "md5 mismatch: 00 instead of 11",
            "No space left on device",
            "no space: the file has 9 bytes, 8 bytes more than is free",
            "the received data differs from what the source read",
            "the program ended before it had read everything",
            "the program ended with status 3",
            "the program ended with status 127",
            "changed while being read",
        ]
        .map(failed);
        assert_eq!(statuses, [2, 2, 22, 22, 172, 228, 28, 84, 224, 128, 2, 255]);
    }

    #[test]
    fn outcomes_without_a_failed_file_have_their_own() {
        let of = |error| of_outcome(&Err(error), None);
        assert_eq!(of_outcome(&Ok(Summary::default()), None), 0);
        assert_eq!(
            of_outcome(
                &Ok(Summary { files: TransferTotals { failed: 1, ..TransferTotals::default() }, ..Summary::default() }),
                None
            ),
            255
        );
        assert_eq!(of(Error::Interrupted), 130);
        assert_eq!(of(Error::Broken("the time limit of 1 s (-t) is over\nrerun".into())), 128);
        assert_eq!(of(Error::Connect("cannot resolve db1".into())), 255);
        assert_eq!(of(Error::Usage("this host: the directory new/ does not exist\nhint: -A".into())), 21);
        assert_eq!(of(Error::Usage("this host: the directory no/such does not exist".into())), 2);
        assert_eq!(of(Error::Usage("this host: f1 is the source itself".into())), 22);
        assert_eq!(
            of(Error::Failed("this host: already exists: cannot be started".into())),
            255,
            "a name is no phrase"
        );
    }

    #[test]
    fn a_refused_command_line_is_1_or_255() {
        let usage = |text: &str| of_refusal(&UsageError::of_lines(text).into());
        assert_eq!(usage("--streams 0: must be a whole number from 1 to 256"), 1);
        assert_eq!(usage("no source and no target given"), 1);
        assert_eq!(usage("nosuch: no such file"), 1);
        assert_eq!(usage("unknown option -j\nhint: -h"), 255);
        assert_eq!(usage("--streams needs an argument"), 255);
        assert_eq!(usage("--infiles nolist: No such file or directory"), 2);
        assert_eq!(of_refusal(&anyhow::anyhow!("--logfile nodir/log: No such file or directory")), 5);
        assert_eq!(of_refusal(&anyhow::anyhow!("--checksum nodir/x: No such file or directory")), 2);
    }
}
