//! Paths that name an open descriptor of this process: `/dev/stdin`, `/dev/stdout`, `/dev/stderr`, `/dev/fd/N`.
//!
//! What haul starts has other descriptors under these paths, and opening one anew may wait or begin at the start of a
//! file. So the descriptor itself is used.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use haul_base::sys::inherited_fds::duplicate;
use rustix::fs::{OFlags, fcntl_getfl};

/// Directories of descriptors.
const DIRECTORIES: [&str; 2] = ["/dev/fd/", "/proc/self/fd/"];

/// The number of the descriptor that `path` names.
pub fn number(path: &Path) -> Option<u32> {
    match path.to_str()? {
        "/dev/stdin" => Some(0),
        "/dev/stdout" => Some(1),
        "/dev/stderr" => Some(2),
        path => {
            let digits = DIRECTORIES.iter().find_map(|directory| path.strip_prefix(directory))?;
            digits.parse().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()))
        }
    }
}

/// The output that `path` names, if it is a descriptor of this process.
pub fn output(path: &Path) -> Option<io::Result<OwnedFd>> {
    number(path).map(|number| open(number, true))
}

/// The descriptor with this number, for writing or for reading.
pub fn open(number: u32, writes: bool) -> io::Result<OwnedFd> {
    let fd = duplicate(number)?;
    let wrong = if writes { OFlags::RDONLY } else { OFlags::WRONLY };
    match fcntl_getfl(&fd)? & OFlags::ACCMODE {
        mode if mode == wrong => {
            let direction = if writes { "reading" } else { "writing" };
            Err(io::Error::other(format!("the descriptor is open for {direction} only")))
        }
        _ => Ok(fd),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn paths_of_descriptors_are_known_and_nothing_else() {
        for (path, found) in [
            ("/dev/stdin", Some(0)),
            ("/dev/stdout", Some(1)),
            ("/dev/stderr", Some(2)),
            ("/dev/fd/63", Some(63)),
            ("/proc/self/fd/7", Some(7)),
            ("/dev/fd/", None),
            ("/dev/fd/+1", None),
            ("/dev/fd/99999999999", None),
            ("/dev/fd/3/x", None),
            ("/dev/null", None),
            ("dev/stdin", None),
        ] {
            assert_eq!(number(Path::new(path)), found, "{path}");
        }
    }

    #[test]
    fn a_descriptor_is_used_where_it_is_and_only_in_its_direction() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let file = File::create(&path).unwrap();
        (&file).write_all(b"first ").unwrap();
        rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
        let number = u32::try_from(file.as_raw_fd()).unwrap();
        File::from(open(number, true).unwrap()).write_all(b"second").unwrap();
        assert_eq!(std::fs::read_to_string(path).unwrap(), "first second");
        assert!(open(number, false).unwrap_err().to_string().contains("writing only"));
        let own = File::open("/dev/null").unwrap();
        assert!(open(u32::try_from(own.as_raw_fd()).unwrap(), false).is_err(), "not one of the caller's");
    }
}
