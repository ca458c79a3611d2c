//! Lookup through symbolic links of this user and of root only: of directories that options name below a target, of links
//! that stay there (`--keep-dirlinks`), and of files that options name. Another user's link may lead anywhere.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, mkdirat, openat, readlinkat};
use rustix::io::{Errno, Result};
use rustix::process::geteuid;

use super::lookup;

/// Most links in one lookup, as in the kernel.
const LINKS_MAX: usize = 40;
/// Flags of a component.
const COMPONENT: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Flags of the directory itself.
const LISTED: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Flags of a file.
const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NOCTTY);

/// The rules of a lookup.
#[derive(Debug, Clone, Copy, Default)]
pub struct LinkRules {
    /// All links are followed (`--insecure-links`).
    pub follows_all: bool,
    /// Missing directories are created with this mode.
    pub make: Option<Mode>,
}

/// Opens the directory at `path`, from `dir` unless it is absolute, one component at a time. ELOOP for another user's
/// link, ENOTDIR if it is no directory. A confined process follows no link.
pub fn open_directory(dir: impl AsFd, path: &Path, rules: LinkRules) -> Result<OwnedFd> {
    match look_up(dir, path, rules)? {
        Found::Directory(at) => openat(&at, c".", LISTED, Mode::empty()),
        Found::Other { .. } => Err(Errno::NOTDIR),
    }
}

/// Opens the file at `path` to read it, under the rules of [`open_directory`].
pub fn open_file(path: &Path, rules: LinkRules) -> Result<OwnedFd> {
    match look_up(CWD, path, rules)? {
        Found::Directory(_) => Err(Errno::ISDIR),
        Found::Other { above, name, .. } => openat(&above, &name, READ | OFlags::NOFOLLOW, Mode::empty()),
    }
}

/// Whether no other user owns it.
pub fn is_trusted(owner: u32) -> bool {
    [0, geteuid().as_raw()].contains(&owner)
}

/// What a path leads to.
enum Found {
    Directory(OwnedFd),
    /// No directory: its name in the one above.
    Other {
        above: OwnedFd,
        name: Vec<u8>,
    },
}

fn look_up(dir: impl AsFd, path: &Path, rules: LinkRules) -> Result<Found> {
    let start = if path.is_absolute() { Path::new("/") } else { Path::new(".") };
    let mut at = openat(dir, start, COMPONENT | OFlags::DIRECTORY, Mode::empty())?;
    let mut ahead = components(path.as_os_str().as_bytes()).map(<[u8]>::to_vec).collect::<VecDeque<_>>();
    let mut links = 0;
    while let Some(component) = ahead.pop_front() {
        let open = || openat(&at, &component, COMPONENT, Mode::empty());
        let found = match (open(), rules.make) {
            (Err(Errno::NOENT), Some(mode)) => {
                mkdirat(&at, &component, mode)?;
                open()?
            }
            (found, _) => found?,
        };
        let stat = fstat(&found)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => at = found,
            FileType::Symlink => {
                links += 1;
                if links > LINKS_MAX || !(rules.follows_all || is_trusted(stat.st_uid)) || lookup::is_confined() {
                    return Err(Errno::LOOP);
                }
                let text = readlinkat(&found, c"", Vec::new())?.into_bytes();
                if text.starts_with(b"/") {
                    at = openat(&at, c"/", COMPONENT | OFlags::DIRECTORY, Mode::empty())?;
                }
                components(&text).rev().for_each(|component| ahead.push_front(component.to_vec()));
            }
            _ if ahead.is_empty() => return Ok(Found::Other { above: at, name: component }),
            _ => return Err(Errno::NOTDIR),
        }
    }
    Ok(Found::Directory(at))
}

fn components(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|component| !component.is_empty())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{lchown, symlink};

    use super::*;
    use crate::fs::testing::name;
    use crate::fs::{Dir, FileStat};

    #[test]
    fn own_links_lead_to_directories_and_those_of_others_nowhere() {
        let temp = tempfile::tempdir().unwrap();
        let at = |path: &str| temp.path().join(path);
        fs::create_dir_all(at("real/deep")).unwrap();
        fs::write(at("file"), "").unwrap();
        let whole = at("real/deep").into_os_string().into_string().unwrap();
        let links = [
            ("relative", "real/./deep"),
            ("absolute", whole.as_str()),
            ("twice", "relative"),
            ("up", "real/../twice/"),
            ("to-file", "file"),
            ("through-file", "file/x"),
            ("dangling", "nothing"),
            ("circle", "circle"),
            ("real/others", "deep"),
            ("through-others", "real/others"),
        ];
        links.iter().for_each(|(link, to)| symlink(to, at(link)).unwrap());
        let dir = Dir::open_root(temp.path()).unwrap();
        let rules = LinkRules::default();
        let open = |link: &str| open_directory(&*dir.fd().unwrap(), Path::new(link), rules);
        let expected = Dir::open_root(&at("real/deep")).unwrap().identity();
        for link in ["relative", "absolute", "twice", "up", "through-others"] {
            let found = open(link).map(|fd| FileStat::at_fd(fd).unwrap().identity);
            assert_eq!(found, Ok(expected), "{link}");
            assert_eq!(dir.linked_child(&name(link)).unwrap().identity(), expected);
        }
        for (link, error) in [
            ("to-file", Errno::NOTDIR),
            ("through-file", Errno::NOTDIR),
            ("dangling", Errno::NOENT),
            ("circle", Errno::LOOP),
        ] {
            assert_eq!(open(link).map(|_| ()), Err(error), "{link}");
        }
        assert!(open(&whole).is_ok() && open("relative/new/er").is_err());
        let made = LinkRules { make: Some(Mode::RWXU), ..rules };
        open_directory(&*dir.fd().unwrap(), Path::new("relative/new/er"), made).unwrap();
        assert!(at("real/deep/new/er").is_dir());
        if geteuid().is_root() {
            lchown(at("real/others"), Some(65534), None).unwrap();
            assert_eq!(open("through-others").map(|_| ()), Err(Errno::LOOP));
            let all = LinkRules { follows_all: true, ..rules };
            assert!(open_file(&at("to-file"), rules).is_ok());
            assert_eq!(open_file(&at("relative"), rules).map(|_| ()), Err(Errno::ISDIR));
            lchown(at("to-file"), Some(65534), None).unwrap();
            assert_eq!(open_file(&at("to-file"), rules).map(|_| ()), Err(Errno::LOOP));
            assert!(open_file(&at("to-file"), all).is_ok() && open_file(Path::new("/dev/null"), rules).is_ok());
            assert!(open_directory(&*dir.fd().unwrap(), Path::new("through-others"), all).is_ok());
        }
    }
}
