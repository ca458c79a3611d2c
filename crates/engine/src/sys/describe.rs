//! Words for what the system refuses: what happened and, for the common
//! cases, what to do about it.

use std::io;

use rustix::io::Errno;

/// What happened, without the error's number, and on a second line what to do
/// where there is something to do. Where it happened (host, path) is the caller's to say.
pub fn describe(error: &io::Error) -> String {
    let what = what_happened(error);
    match error.raw_os_error().and_then(|code| remedy(Errno::from_raw_os_error(code))) {
        Some(remedy) => format!("{what}\n{remedy}"),
        None => what,
    }
}

/// Whether a text of [`describe`] says that a file system or a quota is full.
pub fn is_no_space(text: &str) -> bool {
    [Errno::NOSPC, Errno::DQUOT].into_iter().any(|errno| text == describe(&errno.into()))
}

fn what_happened(error: &io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error ") {
        Some(end) if error.raw_os_error().is_some() => text[..end].to_owned(),
        _ => text,
    }
}

/// One line each, to follow the line that says what happened.
fn remedy(errno: Errno) -> Option<&'static str> {
    Some(match errno {
        Errno::NOSPC => "make room there (see `df` and `df -i`), then run the same command again to go on",
        Errno::DQUOT => {
            "the user's quota there is used up (see `quota`): free some of it or have it raised, then run the same command again"
        }
        Errno::ACCESS => {
            "check the permissions of the file and of all directories above it, or use an account that may"
        }
        Errno::PERM => "only the owner or root may do that, and not where the file is immutable (see `lsattr`)",
        Errno::ROFS => {
            "the file system is mounted read-only: remount it read-write (after a look at `dmesg`) or choose another target"
        }
        Errno::NAMETOOLONG => {
            "the file system there takes shorter names only: rename the file or choose another target"
        }
        Errno::MFILE => "raise the limit of open files for this account (`ulimit -n`) or use fewer streams (-s)",
        Errno::NFILE => "the whole machine has run out of open files: raise `fs.file-max` or close some programs",
        Errno::IO => {
            "the device reported an error: look at `dmesg` and at the disk's health (`smartctl -a`) before trying again"
        }
        Errno::LOOP => "a symbolic link leads back to itself: remove it, or keep links as they are (--symlinks keep)",
        Errno::NOTDIR => "something on the way is not a directory: check each part of the path",
        Errno::ISDIR => "there is a directory where a file was wanted: name another target, or copy with -r",
        Errno::STALE => {
            "the file server no longer knows it: mount the file system again, then run the same command again"
        }
        Errno::FBIG => "the file system or the limit of this account (`ulimit -f`) does not take files that large",
        Errno::TXTBSY => "the file is a program that is running: stop it first",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_happened_without_numbers() {
        let text = describe(&Errno::EXIST.into());
        assert_eq!(text, "File exists");
        assert_eq!(describe(&io::Error::other("odd (os error 3)")), "odd (os error 3)");
    }

    #[test]
    fn has_a_remedy_for_the_common_ones() {
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
        let no_space = |errno: Errno| is_no_space(&describe(&errno.into()));
        assert!(no_space(Errno::NOSPC) && no_space(Errno::DQUOT) && !no_space(Errno::FBIG));
        assert!(describe(&Errno::NOSPC.into()).starts_with("No space left on device\nmake room"));
    }
}
