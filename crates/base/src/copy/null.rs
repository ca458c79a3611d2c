//! `null:SIZE` as a source and `null:` as a target: memory to memory, to measure everything but the disks.
//!
//! The source is SIZE zeros, read from `/dev/zero`, under the name `null`; the target is `/dev/null`.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};

use crate::quantity::parse_size;

/// The name of a source's zeros at the target.
pub const NAME: &str = "null";
/// The source of zeros.
const ZEROS: &str = "/dev/zero";
/// The device that discards bytes.
pub const NOTHING: &str = "/dev/null";
const PREFIX: &[u8] = b"null:";

/// Opens the source of zeros.
pub fn open_zeros() -> io::Result<OwnedFd> {
    Ok(openat(CWD, ZEROS, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Opens the device that discards bytes.
pub fn open_null_sink() -> io::Result<OwnedFd> {
    Ok(openat(CWD, NOTHING, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?)
}

/// The size of `null:SIZE`. `None` for every other path; a file of such a name is `./null:1g`.
pub fn null_size(path: &Path) -> Option<u64> {
    let size = path.as_os_str().as_bytes().strip_prefix(PREFIX)?;
    // A file's size is signed in every system call.
    parse_size(std::str::from_utf8(size).ok()?).ok().filter(|size| i64::try_from(*size).is_ok())
}

/// Whether a target is `null:`.
pub fn is_null(path: &Path) -> bool {
    path.as_os_str().as_bytes() == PREFIX
}

/// Whether a typed operand is one of the two.
pub fn names_null(operand: &OsStr) -> bool {
    is_null(Path::new(operand)) || null_size(Path::new(operand)).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_zeros_and_everything_else_is_a_path() {
        let size = |text: &str| null_size(Path::new(text));
        assert_eq!(size("null:0"), Some(0));
        assert_eq!(size("null:16G"), Some(16 << 30));
        assert_eq!(size("null:3t"), Some(3 << 40));
        assert_eq!([size("null:7"), size("null:1kb"), size("null:1.5MiB")], [Some(7), Some(1000), Some(3 << 19)]);
        for path in
            ["null", "null:", "null:g", "null:1kbit", "./null:1g", "a/null:1g", "null:-1", "null:+1", "null:9999999t"]
        {
            assert_eq!(size(path), None, "{path}");
        }
        assert!(is_null(Path::new("null:")) && !is_null(Path::new("null:1")) && !is_null(Path::new("null")));
        assert!(
            names_null(OsStr::new("null:")) && names_null(OsStr::new("null:1k")) && !names_null(OsStr::new("null:x"))
        );
    }
}
