//! rsync's exit statuses (rsync(1), "EXIT VALUES").

use haul_base::copy::error::{Error, Outcome};

/// Success.
pub const DONE: u8 = 0;
/// Syntax or usage error.
pub const USAGE: u8 = 1;
/// Partial transfer due to an error.
pub const PARTIAL: u8 = 23;
/// A source or a target cannot be used (RERR_FILESELECT).
pub const PLACE: u8 = 3;
/// Partial transfer due to vanished source files.
pub const VANISHED: u8 = 24;
/// Error in file I/O (RERR_FILEIO).
pub const FILE_IO: u8 = 11;
/// Timeout in data transfer (RERR_TIMEOUT).
pub const TIMEOUT: u8 = 30;

/// Phrases in errors of a copy whose statuses differ from those of their kinds.
const OF_ERRORS: [(&str, u8); 6] = [
    ("--mkdir creates it", FILE_IO),
    (": Not a directory", PLACE),
    ("no message for ", TIMEOUT),
    (" did not answer within ", TIMEOUT),
    ("haul did not start on ", TIMEOUT),
    ("no answer within ", TIMEOUT),
];
/// Phrases in errors of a file after which rsync ends.
const OF_FILES: [(&str, u8); 3] =
    [("no space: ", FILE_IO), ("No space left on device", FILE_IO), ("Disk quota exceeded", FILE_IO)];

/// The status of the first phrase in this text.
fn find(phrases: &[(&str, u8)], text: &str) -> Option<u8> {
    phrases.iter().find(|(phrase, _)| text.contains(phrase)).map(|(_, status)| *status)
}

/// The status of an error of a file with which rsync ends at once; haul copies the other files first.
pub fn of_file(message: &str) -> Option<u8> {
    let first = message.lines().next().unwrap_or_default();
    let is_rule = first.starts_with("cannot read its filter file") && first.contains(": line ");
    if is_rule { Some(USAGE) } else { find(&OF_FILES, first) }
}

/// The status of a finished copy, of which this many entries failed. `last` is that of an error that ends rsync.
pub fn of(outcome: &Outcome, failed: u64, last: Option<u8>) -> u8 {
    if let Some(status) = outcome.as_ref().err().and_then(|error| find(&OF_ERRORS, &error.to_string())) {
        return status;
    }
    match outcome {
        Ok(_) if last.is_some() => last.unwrap_or(PARTIAL),
        Ok(_) if failed > 0 => PARTIAL,
        Ok(summary) if summary.files.vanished > 0 => VANISHED,
        Ok(_) => DONE,
        // ssh's own status, which rsync passes on.
        Err(Error::Connect(_)) => 255,
        Err(Error::Interrupted) => 20,
        Err(Error::Broken(_)) => 12,
        Err(Error::Usage(_)) => PLACE,
        // The target cannot be created or entered.
        Err(Error::Failed(_)) => FILE_IO,
    }
}

/// What rsync says about a status at the end.
pub fn words(status: u8) -> Option<&'static str> {
    Some(match status {
        USAGE => "syntax or usage error",
        PLACE => "errors selecting input/output files, dirs",
        FILE_IO => "error in file IO",
        TIMEOUT => "timeout in data send/receive",
        12 => "error in rsync protocol data stream",
        20 => "received SIGINT, SIGTERM, or SIGHUP",
        PARTIAL => "some files/attrs were not transferred (see previous errors)",
        VANISHED => "some files vanished before they could be transferred",
        255 => "unexplained error",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use haul_base::copy::summary::Summary;

    use super::*;

    #[test]
    fn a_target_that_cannot_be_made_is_an_error_of_files_and_silence_a_timeout() {
        let of = |error| of(&Err(error), 0, None);
        assert_eq!(of(Error::Usage("the directory x does not exist\n--mkdir creates it".into())), FILE_IO);
        assert_eq!(of(Error::Usage("f is a file: a directory cannot be copied onto it".into())), PLACE);
        assert_eq!(of(Error::Failed("this host: t/n: Read-only file system".into())), FILE_IO);
        assert_eq!(of(Error::Failed("this host: f/: Not a directory".into())), PLACE);
        assert_eq!(of(Error::Broken("db1 was lost: no message for 3 s".into())), TIMEOUT);
        assert_eq!(of(Error::Connect("haul did not start on db1 within 3 s of the login".into())), TIMEOUT);
        assert_eq!((of(Error::Broken("db1 was lost".into())), of(Error::Connect("no route".into()))), (12, 255));
    }

    #[test]
    fn errors_of_files_after_which_rsync_ends_have_their_status() {
        assert_eq!(of_file("no space: the file has 2 MB, 1 MB more than is free\nfree space"), Some(FILE_IO));
        assert_eq!(of_file("cannot read its filter file: .f: line 1: not a rule"), Some(USAGE));
        assert_eq!(of_file("cannot read its filter file: .f: Permission denied"), None);
        assert_eq!(of_file("Permission denied\nNo space left on device"), None);
        let done = Ok(Summary::default());
        assert_eq!((of(&done, 1, Some(FILE_IO)), of(&done, 1, None), of(&done, 0, None)), (FILE_IO, PARTIAL, DONE));
    }
}
