//! Lookup of a Request's paths.
//!
//! A worker started by ssh or a user looks them up like the kernel. A served worker calls [`confine`] in the served
//! directory: from then on, every path begins there, no component may be a symbolic link, and none leads up. The lookup
//! goes component by component, by descriptors: a directory exchanged for a link is an error (ELOOP, ENOTDIR), even on
//! kernels without Landlock.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, mkdirat, openat, statat};
use rustix::io::{Errno, Result};

/// Whether paths are looked up below the working directory only. Global, like the working directory.
static CONFINED: AtomicBool = AtomicBool::new(false);

/// Flags of a directory that is only traversed.
const PASSED: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Confines all lookups of this process to its working directory permanently.
pub fn confine() {
    CONFINED.store(true, Ordering::SeqCst);
}

/// Whether lookups are confined to the working directory.
pub fn is_confined() -> bool {
    CONFINED.load(Ordering::SeqCst)
}

/// Opens the entry at `path`.
pub fn open(path: &Path, flags: OFlags) -> Result<OwnedFd> {
    if is_confined() { open_beneath(CWD, path, flags) } else { openat(CWD, path, flags, Mode::empty()) }
}

/// Returns the properties of the entry at `path`. In a confined process, a symbolic link is an error.
pub fn stat(path: &Path) -> Result<Stat> {
    if is_confined() { stat_beneath(CWD, path) } else { rustix::fs::stat(path) }
}

/// Creates a directory.
pub fn create_dir(path: &Path, mode: Mode) -> Result<()> {
    match is_confined() {
        true => create_beneath(CWD, path, mode),
        false => rustix::fs::mkdir(path, mode),
    }
}

/// Creates a directory and its missing parents.
pub fn create_dir_all(path: &Path, mode: Mode) -> io::Result<()> {
    if !is_confined() {
        use std::os::unix::fs::DirBuilderExt;
        return std::fs::DirBuilder::new().recursive(true).mode(mode.bits()).create(path);
    }
    Ok(create_all_beneath(CWD, path, mode)?)
}

/// The path of the entry for other processes. In a confined lookup it is `path` itself: no component is a link.
pub fn real_path(path: &Path) -> io::Result<PathBuf> {
    if !is_confined() {
        return std::fs::canonicalize(path);
    }
    let mut real = std::env::current_dir()?;
    names(path)?.iter().for_each(|name| real.push(name));
    Ok(real)
}

/// Opens a directory by a path without symbolic links from the root of the file system.
pub fn open_absolute(path: &Path) -> Result<OwnedFd> {
    let root = rustix::fs::open("/", PASSED, Mode::empty())?;
    let below = path.strip_prefix("/").map_err(|_| Errno::INVAL)?;
    open_beneath(root.as_fd(), below, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC)
}

/// Whether a component of `path`, from the working directory down, is a symbolic link now. For messages only: a later
/// open checks again.
pub fn has_link(path: &Path) -> bool {
    let Ok(names) = names(path) else { return false };
    let mut at: Option<OwnedFd> = None;
    for name in names {
        let dir = at.as_ref().map_or(CWD, AsFd::as_fd);
        let opened = openat(dir, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
        match opened.and_then(|fd| fstat(&fd).map(|stat| (fd, FileType::from_raw_mode(stat.st_mode)))) {
            Ok((_, FileType::Symlink)) => return true,
            Ok((fd, FileType::Directory)) => at = Some(fd),
            _ => return false,
        }
    }
    false
}

/// Whether a symbolic link with the text `points_to`, this many levels below `dir`, may lead out of the working
/// directory: an absolute link, one that climbs above `dir`, or one that climbs behind another name, which may itself
/// be a link to a higher directory.
pub fn leads_out(dir: impl AsFd, below: usize, points_to: &[u8]) -> bool {
    climbs(points_to)
        .is_none_or(|levels| levels > below && !is_deeper_than(dir.as_fd(), CWD, levels - below).unwrap_or(false))
}

/// Number of levels that a link climbs at its beginning; `None` if it climbs later too.
fn climbs(points_to: &[u8]) -> Option<usize> {
    let mut levels = 0;
    let mut descends = false;
    for component in Path::new(OsStr::from_bytes(points_to)).components() {
        match component {
            Component::ParentDir if !descends => levels += 1,
            Component::Normal(_) => descends = true,
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(levels)
}

/// Whether `dir` is at least this many levels below `root`. Levels above `root` do not count.
fn is_deeper_than(dir: BorrowedFd<'_>, root: BorrowedFd<'_>, levels: usize) -> Result<bool> {
    let identity = |stat: Stat| (stat.st_dev, stat.st_ino);
    let root = identity(statat(root, c".", AtFlags::empty())?);
    let mut at = openat(dir, c".", PASSED, Mode::empty())?;
    for _ in 0..levels {
        if identity(fstat(&at)?) == root {
            return Ok(false);
        }
        at = openat(&at, c"..", PASSED, Mode::empty())?;
    }
    Ok(true)
}

/// Returns the components of a path; EXDEV, as openat2(2), for a path with `..`.
fn names(path: &Path) -> Result<Vec<&OsStr>> {
    let names =
        path.components().filter(|component| *component != Component::CurDir).map(|component| match component {
            Component::Normal(name) => Ok(name),
            _ => Err(Errno::XDEV),
        });
    names.collect()
}

/// The parent directory of `path`, and its last component; `.` without one.
fn parent_of<'p>(root: BorrowedFd<'_>, path: &'p Path) -> Result<(OwnedFd, &'p OsStr)> {
    let names = names(path)?;
    let (last, above) = names.split_last().map_or((OsStr::new("."), &[][..]), |(last, above)| (*last, above));
    let mut parent = openat(root, c".", PASSED, Mode::empty())?;
    for name in above {
        parent = openat(&parent, *name, PASSED, Mode::empty())?;
    }
    Ok((parent, last))
}

/// Whether `path` has the form of a directory's.
fn names_directory(path: &Path) -> bool {
    let path = path.as_os_str().as_bytes();
    path.ends_with(b"/") || path.ends_with(b"/.")
}

fn open_beneath(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd> {
    let (parent, last) = parent_of(root, path)?;
    let directory = if names_directory(path) { OFlags::DIRECTORY } else { OFlags::empty() };
    let opened = openat(&parent, last, flags | directory | OFlags::NOFOLLOW, Mode::empty())?;
    // O_PATH can open a link itself.
    if flags.contains(OFlags::PATH) && FileType::from_raw_mode(fstat(&opened)?.st_mode) == FileType::Symlink {
        return Err(Errno::LOOP);
    }
    Ok(opened)
}

fn stat_beneath(root: BorrowedFd<'_>, path: &Path) -> Result<Stat> {
    let (parent, last) = parent_of(root, path)?;
    let stat = statat(&parent, last, AtFlags::SYMLINK_NOFOLLOW)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => Err(Errno::LOOP),
        FileType::Directory => Ok(stat),
        _ if names_directory(path) => Err(Errno::NOTDIR),
        _ => Ok(stat),
    }
}

fn create_beneath(root: BorrowedFd<'_>, path: &Path, mode: Mode) -> Result<()> {
    let (parent, last) = parent_of(root, path)?;
    mkdirat(&parent, last, mode)
}

fn create_all_beneath(root: BorrowedFd<'_>, path: &Path, mode: Mode) -> Result<()> {
    let mut at = openat(root, c".", PASSED, Mode::empty())?;
    for name in names(path)? {
        match mkdirat(&at, name, mode) {
            Ok(()) | Err(Errno::EXIST) => at = openat(&at, name, PASSED, Mode::empty())?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn neither_links_nor_dot_dot_lead_outside() {
        let place = tempfile::tempdir().unwrap();
        let at = |path: &str| place.path().join(path);
        fs::create_dir_all(at("root/dir")).unwrap();
        fs::create_dir_all(at("outside/dir")).unwrap();
        for file in ["root/dir/file", "outside/file"] {
            fs::write(at(file), file).unwrap();
        }
        symlink("../outside", at("root/up")).unwrap();
        symlink(at("outside/file"), at("root/out")).unwrap();
        symlink("dir", at("root/within")).unwrap();
        let root = rustix::fs::open(at("root"), PASSED, Mode::empty()).unwrap();
        let (read, handle) = (OFlags::RDONLY | OFlags::CLOEXEC, OFlags::PATH | OFlags::CLOEXEC);
        for flags in [read, handle] {
            let open = |path: &str| open_beneath(root.as_fd(), Path::new(path), flags);
            assert!(["dir/file", "./dir/./file", ".", "", "dir/", "dir/."].iter().all(|path| open(path).is_ok()));
            for (path, error) in [
                ("up/file", Errno::NOTDIR),
                ("up", Errno::LOOP),
                ("out", Errno::LOOP),
                ("within/file", Errno::NOTDIR),
                ("..", Errno::XDEV),
                ("dir/../../outside/file", Errno::XDEV),
                ("/etc/passwd", Errno::XDEV),
                ("dir/file/", Errno::NOTDIR),
                ("missing", Errno::NOENT),
            ] {
                assert_eq!(open(path).err(), Some(error), "{path}");
                assert_eq!(stat_beneath(root.as_fd(), Path::new(path)).err(), Some(error), "{path}");
            }
        }
        let make = |path: &str| create_beneath(root.as_fd(), Path::new(path), Mode::RWXU);
        let make_all = |path: &str| create_all_beneath(root.as_fd(), Path::new(path), Mode::RWXU);
        assert_eq!((make("new"), make_all("new/a/b"), make_all("dir")), (Ok(()), Ok(()), Ok(())));
        assert!(at("root/new/a/b").is_dir());
        for path in ["up/new", "../outside/new", "within/new"] {
            assert!(make(path).is_err() && make_all(path).is_err(), "{path}");
        }
        assert_eq!(fs::read_dir(at("outside")).unwrap().count(), 2);
        assert!(open_absolute(&at("root/dir").canonicalize().unwrap()).is_ok());
        assert!(open_absolute(&at("root/within")).is_err() && open_absolute(Path::new("relative")).is_err());
    }

    #[test]
    fn links_that_may_lead_outside_are_recognised() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir_all(place.path().join("root/a/b")).unwrap();
        let open = |path: &str| rustix::fs::open(place.path().join(path), PASSED, Mode::empty()).unwrap();
        let root = open("root");
        let leads_out = |dir: &str, points_to: &str| {
            climbs(points_to.as_bytes())
                .is_none_or(|levels| !is_deeper_than(open(dir).as_fd(), root.as_fd(), levels).unwrap())
        };
        for inside in ["x", "./x", "x/y", "missing"] {
            assert!(!leads_out("root", inside), "{inside}");
        }
        for (dir, points_to, out) in [
            ("root", "..", true),
            ("root", "../root/x", true),
            ("root", "/etc/passwd", true),
            ("root/a", "../x", false),
            ("root/a", "../../x", true),
            ("root/a/b", "../../x", false),
            ("root/a/b", "../../../x", true),
            ("root/a/b", "x/../../../../y", true),
            ("root/a/b", "x/../y", true),
        ] {
            assert_eq!(leads_out(dir, points_to), out, "{dir} {points_to}");
        }
    }
}
