//! Messages for the system's errors, with remedies for common cases.

use std::borrow::Cow;
use std::io;

use rustix::io::Errno;

/// The error without its number, and a remedy on a second line, if there is one. The caller adds the place (host,
/// path).
pub fn describe(error: &io::Error) -> String {
    let what = error_text(error);
    match error.raw_os_error().and_then(|code| remedy(Errno::from_raw_os_error(code))) {
        Some(remedy) => format!("{what}\n{remedy}"),
        None => what,
    }
}

/// As [`describe`], for the start of a thread or a process. It has a limit that the error does not name.
pub fn describe_start(error: &io::Error) -> String {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::AGAIN) => format!(
            "{}\nraise the limit of processes (`ulimit -u`, or pids.max of the control group) or of memory (`ulimit -v`), \
             or use fewer streams (-s)",
            error_text(error)
        ),
        _ => describe(error),
    }
}

/// Whether a thread or a process could not start because of a limit of this account or host.
pub fn is_limit(error: &io::Error) -> bool {
    let limits = [Errno::AGAIN, Errno::NOMEM, Errno::MFILE, Errno::NFILE];
    error.raw_os_error().is_some_and(|code| limits.contains(&Errno::from_raw_os_error(code)))
}

fn error_text(error: &io::Error) -> String {
    let text = error.to_string();
    if error.raw_os_error().is_some() { without_numbers(&text).into_owned() } else { text }
}

/// The text without the numbers that `io::Error` adds, such as " (os error 2)".
pub fn without_numbers(text: &str) -> Cow<'_, str> {
    const BEFORE: &str = " (os error ";
    if !text.contains(BEFORE) {
        return Cow::Borrowed(text);
    }
    let mut pieces = text.split(BEFORE);
    let mut shown = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let rest = piece.trim_start_matches(|c: char| c.is_ascii_digit());
        match rest.strip_prefix(')') {
            Some(rest) if rest.len() + 1 < piece.len() => shown.push_str(rest),
            _ => shown.extend([BEFORE, piece]),
        }
    }
    Cow::Owned(shown)
}

/// The remedy for an error, one line.
fn remedy(errno: Errno) -> Option<&'static str> {
    Some(match errno {
        Errno::NOSPC => "free space there (see `df` and `df -i`), then rerun the command to resume",
        Errno::DQUOT => "free space or raise the quota there (see `quota`), then rerun the command to resume",
        Errno::ACCESS => "check the permissions of the file and of its parent directories, or use another account",
        Errno::PERM => "only the owner or root may do this, and nobody if the file is immutable (see `lsattr`)",
        Errno::ROFS => "remount the file system read-write (see `dmesg` first), or choose another target",
        Errno::NAMETOOLONG => "the file system permits only shorter names: rename the file or choose another target",
        Errno::MFILE => "raise the account's limit of open files (`ulimit -n`) or use fewer streams (-s)",
        Errno::NFILE => "raise the host's limit of open files (`fs.file-max`) or end other programs",
        Errno::NOMEM => "free memory, or raise the limit of the account (`ulimit -v`) or of the control group",
        Errno::IO => "a device error: see `dmesg` and the disk's health (`smartctl -a`) before the next try",
        Errno::LOOP => "remove the loop of symbolic links, or keep links as they are (--symlinks keep)",
        Errno::NOTDIR => "check each component of the path: one is not a directory",
        Errno::ISDIR => "name another target, or copy directories with -r",
        Errno::STALE => "the file server has lost the file: remount the file system, then rerun the command",
        Errno::FBIG => "the file is too large for the file system or for the account's limit (`ulimit -f`)",
        Errno::TXTBSY => "stop the running program first",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn describes_errors_without_numbers() {
        let text = describe(&Errno::EXIST.into());
        assert_eq!(text, "File exists");
        assert_eq!(describe(&io::Error::other("odd (os error 3)")), "odd (os error 3)");
    }

    #[test]
    fn numbers_are_left_out_anywhere_in_a_text() {
        let cases = [
            ("a: No such file (os error 2); b: refused (os error 111)\ntry", "a: No such file; b: refused\ntry"),
            ("plain", "plain"),
            ("(os error ) (os error x) (os error 2", "(os error ) (os error x) (os error 2"),
        ];
        for (text, shown) in cases {
            assert_eq!(without_numbers(text), shown);
        }
    }

    #[test]
    fn common_errors_have_a_remedy() {
        let common = [
            Errno::NOSPC,
            Errno::DQUOT,
            Errno::ACCESS,
            Errno::PERM,
            Errno::ROFS,
            Errno::NAMETOOLONG,
            Errno::MFILE,
            Errno::IO,
            Errno::LOOP,
            Errno::NOTDIR,
            Errno::ISDIR,
        ];
        for errno in common {
            let text = describe(&errno.into());
            assert_eq!(text.lines().count(), 2, "{text}");
            assert!(!text.contains("os error"), "{text}");
        }
        assert!(describe_start(&Errno::AGAIN.into()).contains("ulimit -u") && is_limit(&Errno::NOMEM.into()));
        assert!(!describe(&Errno::AGAIN.into()).contains("ulimit"), "also the error of a busy descriptor");
        assert!(describe(&Errno::NOSPC.into()).starts_with("No space left on device\nfree space"));
    }
}
