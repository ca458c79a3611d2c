//! A file held by descriptor, for further names: no rename can exchange it between a check and its link.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use haul_proto::path::Name;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, linkat, openat};
use rustix::io::Errno;

use super::{Dir, FileIdentity, FileStat};

/// A regular file, neither readable nor writable through its descriptor (`O_PATH`).
#[derive(Debug)]
pub struct HeldFile {
    fd: OwnedFd,
    stat: FileStat,
}

impl HeldFile {
    /// Holds the file of this name. Any other kind of entry, also a symbolic link, is [`io::ErrorKind::InvalidInput`].
    pub fn open(dir: &Dir, name: &Name) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(&*dir.fd()?, name.as_bytes(), flags, Mode::empty())?;
        let stat = FileStat::at_fd(&fd)?;
        match stat.kind {
            FileType::RegularFile => Ok(Self { fd, stat }),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Holds the file of this name, if it is `expected`; `None` if another entry has the name by now.
    pub fn open_expected(dir: &Dir, name: &Name, expected: FileIdentity) -> io::Result<Option<Self>> {
        match Self::open(dir, name) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(None),
            opened => Ok(Some(opened?).filter(|file| file.stat.identity == expected)),
        }
    }

    /// Its metadata when it was opened.
    pub fn stat(&self) -> &FileStat {
        &self.stat
    }

    /// Gives it a further name, unless that exists.
    pub fn link(&self, dir: &OwnedFd, name: &Name) -> io::Result<()> {
        link_open_file(&self.fd, dir, name)
    }
}

/// Gives an open file a name, unless that exists.
pub fn link_open_file(file: &OwnedFd, dir: &OwnedFd, name: &Name) -> io::Result<()> {
    match linkat(file, c"", dir, name.as_bytes(), AtFlags::EMPTY_PATH) {
        // Before Linux 6.10, that needs a capability, but not through proc(5).
        Err(Errno::NOENT) => {
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            Ok(linkat(CWD, path, dir, name.as_bytes(), AtFlags::SYMLINK_FOLLOW)?)
        }
        linked => Ok(linked?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::testing::name;

    #[test]
    fn the_checked_file_gets_the_link_after_an_exchange_of_its_name() {
        let temp = tempfile::tempdir().unwrap();
        std::fs::write(temp.path().join("first"), "checked").unwrap();
        std::fs::write(temp.path().join("other"), "planted").unwrap();
        let dir = Dir::open_root(temp.path()).unwrap();
        let held = HeldFile::open(&dir, &name("first")).unwrap();
        std::fs::rename(temp.path().join("other"), temp.path().join("first")).unwrap();
        // Its last name is gone, so it cannot be linked again; with another name left, it is linked.
        assert!(held.link(&dir.fd().unwrap(), &name("link")).is_err());
        assert!(!temp.path().join("link").exists());

        std::fs::write(temp.path().join("a"), "checked").unwrap();
        std::fs::hard_link(temp.path().join("a"), temp.path().join("b")).unwrap();
        let held = HeldFile::open(&dir, &name("a")).unwrap();
        std::fs::rename(temp.path().join("first"), temp.path().join("a")).unwrap();
        held.link(&dir.fd().unwrap(), &name("link")).unwrap();
        assert_eq!(std::fs::read_to_string(temp.path().join("link")).unwrap(), "checked");
    }

    #[test]
    fn only_regular_files_are_opened() {
        let temp = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("file", temp.path().join("link")).unwrap();
        std::fs::write(temp.path().join("file"), "").unwrap();
        std::fs::create_dir(temp.path().join("directory")).unwrap();
        let dir = Dir::open_root(temp.path()).unwrap();
        assert!(HeldFile::open(&dir, &name("file")).is_ok());
        for other in ["link", "directory"] {
            assert_eq!(HeldFile::open(&dir, &name(other)).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        assert_eq!(HeldFile::open(&dir, &name("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
