//! The mounts at, above and below a path (proc_pid_mountinfo(5)): an unmounted or newly mounted file system changes what
//! is there, and no watch reports it.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The mounts of this process.
const MOUNTS_FILE: &str = "/proc/self/mountinfo";

/// The mounts that matter for a path.
pub(super) struct Mounts {
    path: PathBuf,
    /// `None` without proc(5).
    file: Option<File>,
    known: Vec<Vec<u8>>,
}

impl Mounts {
    pub fn new(path: &Path) -> Self {
        let mut mounts = Self { path: path.to_owned(), file: File::open(MOUNTS_FILE).ok(), known: Vec::new() };
        mounts.have_changed();
        mounts
    }

    /// Becomes ready for an exceptional condition when any mount changes.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(AsFd::as_fd)
    }

    /// Whether the mounts at, above or below the path are others than at the last call.
    pub fn have_changed(&mut self) -> bool {
        let Some(file) = &mut self.file else { return false };
        let mut text = Vec::new();
        if file.rewind().and_then(|()| file.read_to_end(&mut text)).is_err() {
            return false;
        }
        let known: Vec<_> = text.split(|byte| *byte == b'\n').filter_map(|line| matters(line, &self.path)).collect();
        let is_other = known != self.known;
        self.known = known;
        is_other
    }
}

/// The number, device and place of a mount at, above or below a path.
fn matters(line: &[u8], path: &Path) -> Option<Vec<u8>> {
    let fields: Vec<_> = line.split(|byte| *byte == b' ').take(5).collect();
    let [number, _, device, _, place] = fields[..] else { return None };
    let place = unescape(place);
    let at = Path::new(std::ffi::OsStr::from_bytes(&place));
    let is_near = at.starts_with(path) || path.starts_with(at);
    is_near.then(|| [number, device, &place].join(&b' '))
}

/// A path as the kernel has it: blanks, newlines and backslashes are octal there.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [byte, tail @ ..] = rest {
        let code = tail.get(..3).filter(|_| *byte == b'\\').and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 8).ok()) {
            Some(code) => {
                path.push(code);
                rest = &tail[3..];
            }
            None => {
                path.push(*byte);
                rest = tail;
            }
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_at_above_and_below_matter() {
        let line = |place: &str| format!("36 35 98:0 /root {place} rw,noatime master:1 - ext3 /dev/root rw");
        let is_near = |place: &str| matters(line(place).as_bytes(), Path::new("/data/my photos")).is_some();
        assert!(is_near("/") && is_near("/data") && is_near("/data/my\\040photos") && is_near("/data/my\\040photos/a"));
        assert!(!is_near("/data/my") && !is_near("/data/my\\040photos2") && !is_near("/home"));
        assert_eq!(matters(b"", Path::new("/")), None);
        assert_eq!(unescape(b"a\\134\\n\\"), b"a\\\\n\\");
    }
}
