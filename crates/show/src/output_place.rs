//! Where an output goes: a held directory and a name in it. Links of other users lead nowhere, so that nobody who can
//! write to a directory on the way chooses which file of this user haul replaces.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use haul_proto::path::escape;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, Stat, fcntl_setfl, fstatfs, openat, readlinkat, statat,
};
use rustix::io::Errno;

/// Most links on the way, as in path_resolution(7).
const LINKS_MAX: u32 = 40;

/// Interval between checks for a FIFO's reader.
const READER_EVERY: Duration = Duration::from_millis(50);

/// A signal or the time limit has begun to end the command.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// Ends every wait for the reader of a FIFO.
pub fn stop_waiting() {
    IS_ENDING.store(true, Ordering::Release);
}

/// The place of an output.
#[derive(Debug)]
pub struct OutputPlace {
    dir: OwnedFd,
    name: OsString,
    /// Whether the name is that of an open descriptor without a path, such as a pipe of the shell.
    is_descriptor: bool,
}

impl OutputPlace {
    /// Finds the place that `path` names, through links of this user and of root.
    pub fn find(path: &Path) -> io::Result<Self> {
        Self::find_as(path, rustix::process::geteuid().as_raw())
    }

    fn find_as(path: &Path, user: u32) -> io::Result<Self> {
        let mut left = Vec::new();
        push(&mut left, path);
        let (mut dir, mut links) = (open_directory(CWD, Path::new("."))?, 0);
        while let Some(name) = left.pop() {
            let stat = match statat(&dir, &*name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) if left.is_empty() => None,
                found => Some(found?),
            };
            let link = stat.filter(|stat| FileType::from_raw_mode(stat.st_mode).is_symlink());
            match link {
                Some(link) if ![0, user].contains(&link.st_uid) => {
                    return Err(io::Error::other(format!(
                        "{} is a link of another user (number {})\nname a file in a directory of your own",
                        escape(name.as_bytes()),
                        link.st_uid
                    )));
                }
                Some(_) if links == LINKS_MAX => return Err(Errno::LOOP.into()),
                Some(_) => {
                    let text = PathBuf::from(OsString::from_vec(readlinkat(&dir, &*name, Vec::new())?.into_bytes()));
                    let is_descriptor =
                        text.as_os_str().as_bytes().contains(&b':') && fstatfs(&dir)?.f_type == PROC_SUPER_MAGIC;
                    if is_descriptor && left.is_empty() {
                        return Ok(Self { dir, name, is_descriptor });
                    }
                    links += 1;
                    push(&mut left, &text);
                }
                None if left.is_empty() && name != "/" => return Ok(Self { dir, name, is_descriptor: false }),
                None => dir = open_directory(dir.as_fd(), Path::new(&name))?,
            }
        }
        Err(io::ErrorKind::IsADirectory.into())
    }

    /// The directory that has the name.
    pub fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// The name.
    pub fn name(&self) -> &OsString {
        &self.name
    }

    /// What is there; `None` if there is nothing.
    pub fn stat(&self) -> io::Result<Option<Stat>> {
        let flags = if self.is_descriptor { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        match statat(&self.dir, &*self.name, flags) {
            Err(Errno::NOENT) => Ok(None),
            found => Ok(Some(found?)),
        }
    }

    /// Opens it. A link that has come since is not followed. Waits for the reader of a FIFO until a signal ends the
    /// command: an open that waits in the kernel would hide the signal.
    pub fn open(&self, flags: OFlags) -> io::Result<File> {
        let follow = if self.is_descriptor { OFlags::empty() } else { OFlags::NOFOLLOW };
        let now = flags | follow | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        loop {
            match openat(&self.dir, &*self.name, now, Mode::from_raw_mode(0o666)) {
                Err(Errno::NXIO) if self.is_fifo() && !flags.contains(OFlags::NONBLOCK) => {
                    if IS_ENDING.load(Ordering::Acquire) {
                        return Err(io::Error::other("interrupted while waiting for a reader"));
                    }
                    std::thread::sleep(READER_EVERY);
                }
                opened => {
                    let file = opened?;
                    fcntl_setfl(&file, flags & OFlags::NONBLOCK | flags & OFlags::APPEND)?;
                    return Ok(file.into());
                }
            }
        }
    }

    fn is_fifo(&self) -> bool {
        let is_fifo = |stat: Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo;
        self.stat().is_ok_and(|stat| stat.is_some_and(is_fifo))
    }
}

/// Puts the components of a path before those that are left.
fn push(left: &mut Vec<OsString>, path: &Path) {
    left.extend(path.components().rev().map(|part| part.as_os_str().to_owned()));
}

fn open_directory(at: BorrowedFd<'_>, name: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(at, name, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, lchown, symlink};

    use super::*;

    /// A directory with links of somebody else's, and the user to whom they are foreign.
    fn with_links(links: &[(&str, &str)]) -> (tempfile::TempDir, u32) {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("home")).unwrap();
        fs::write(dir.path().join("home/rc"), "mine").unwrap();
        for (name, to) in links {
            symlink(to, dir.path().join(name)).unwrap();
        }
        let own = fs::metadata(dir.path()).unwrap().uid();
        if own == 0 {
            links.iter().for_each(|(name, _)| lchown(dir.path().join(name), Some(54_321), None).unwrap());
        }
        (dir, if own == 0 { 0 } else { own + 1 })
    }

    #[test]
    fn a_link_of_another_user_is_not_followed() {
        let (dir, user) = with_links(&[("file", "home/rc"), ("new", "home/none"), ("way", "home"), ("loop", "loop")]);
        for path in ["file", "new", "way/rc", "way/none", "home/../way/rc", "loop"] {
            let error = OutputPlace::find_as(&dir.path().join(path), user).unwrap_err().to_string();
            assert!(error.contains("is a link of another user"), "{path}: {error}");
        }
        let place = OutputPlace::find_as(&dir.path().join("home/rc"), user).unwrap();
        assert!(place.stat().unwrap().is_some());
        fs::rename(dir.path().join("home"), dir.path().join("away")).unwrap();
        symlink("elsewhere", dir.path().join("away/late")).unwrap();
        assert!(place.open(OFlags::RDONLY).is_ok(), "its directory is held");
        let late = OutputPlace { name: "late".into(), ..place };
        assert!(late.open(OFlags::WRONLY | OFlags::CREATE).is_err() && !dir.path().join("away/elsewhere").exists());
    }

    #[test]
    fn own_links_lead_to_files_that_are_there_or_not() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        symlink(dir.path().join("a/b"), dir.path().join("way")).unwrap();
        symlink("../file", dir.path().join("a/b/up")).unwrap();
        symlink("loop", dir.path().join("loop")).unwrap();
        let place = OutputPlace::find(&dir.path().join("way/up")).unwrap();
        assert_eq!((place.name().to_str(), place.stat().unwrap().is_some()), (Some("file"), false));
        place.open(OFlags::WRONLY | OFlags::CREATE).unwrap();
        assert!(dir.path().join("a/file").exists());
        for path in [dir.path().join("loop"), dir.path().join("none/x"), "/".into(), "".into()] {
            assert!(OutputPlace::find(&path).is_err(), "{path:?}");
        }
    }

    #[test]
    fn a_pipe_of_the_shell_is_opened() {
        let (reader, writer) = io::pipe().unwrap();
        let path = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&writer));
        let place = OutputPlace::find(Path::new(&path)).unwrap();
        assert!(FileType::from_raw_mode(place.stat().unwrap().unwrap().st_mode) == FileType::Fifo);
        io::Write::write_all(&mut place.open(OFlags::WRONLY).unwrap(), b"x").unwrap();
        drop((place, writer));
        assert_eq!(io::read_to_string(reader).unwrap(), "x");
    }
}
