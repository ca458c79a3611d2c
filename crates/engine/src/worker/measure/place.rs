//! A scratch directory of a probe at the target: created under a unique name, locked while in use, and removed with its
//! contents. A killed probe releases its lock, and the next probe removes its directory.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use haul_proto::path::{Name, escape};
use haul_proto::wire::measure::TargetDirectoryFigures;
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, flock, fstat, fstatfs, fstatvfs, mkdirat, unlinkat};
use rustix::process::geteuid;

use crate::fs::{Dir, each_name};
use crate::sys::describe::describe;
use crate::sys::random::random;

/// Prefix of scratch directory names.
const PREFIX: &str = ".haul-probe-";
/// Time limit for another worker to exit.
const PATIENCE: Duration = Duration::from_secs(4);
const PAUSE: Duration = Duration::from_millis(50);
/// Magic numbers of file systems with compression (statfs(2)): btrfs, bcachefs, ZFS, F2FS.
const COMPRESSING: [u64; 4] = [0x9123_683e, 0xca45_1a4e, 0x2fc1_2fc1, 0xf2f5_2010];

/// A scratch directory.
pub struct ScratchDirectory {
    parent: Dir,
    name: Name,
    dir: Dir,
    path: PathBuf,
    /// The descriptor that holds the lock.
    _locked: Arc<OwnedFd>,
    removed: u32,
}

impl ScratchDirectory {
    /// Creates a scratch directory in `path`, or in its parent if `path` is a file or absent. The error message is for
    /// the user.
    pub fn make(path: &Path) -> Result<Self, String> {
        let shown = |path: &Path| escape(path.as_os_str().as_bytes());
        let (parent, place) = open(path).map_err(|error| format!("{}: {}", shown(path), describe(&error)))?;
        let made = Self::below(parent, &place);
        made.map_err(|error| format!("{}: no directory can be made there: {}", shown(&place), describe(&error)))
    }

    fn below(parent: Dir, place: &Path) -> io::Result<Self> {
        let removed = remove_abandoned(&parent);
        let number = u64::from_le_bytes(random()?);
        let name = format!("{PREFIX}{number:016x}");
        let path = place.join(&name);
        let name = Name::new(name.as_bytes()).map_err(io::Error::other)?;
        mkdirat(&*parent.fd()?, name.as_bytes(), Mode::RWXU)?;
        let dir = parent.child(&name)?;
        let locked = dir.fd()?;
        // On a file system without locks, no other probe can take the directory for abandoned either.
        let _ = flock(&*locked, FlockOperation::NonBlockingLockExclusive);
        Ok(Self { parent, name, dir, path, _locked: locked, removed })
    }

    /// Returns the parent directory.
    pub fn parent(&self) -> &Dir {
        &self.parent
    }

    /// Returns the properties of the file system.
    pub fn figures(&self) -> Result<TargetDirectoryFigures, String> {
        let failed = |error: io::Error| format!("{}: {}", escape(self.path.as_os_str().as_bytes()), describe(&error));
        let dir = self.dir.fd().map_err(failed)?;
        let space = fstatvfs(&*dir).map_err(|error| failed(error.into()))?;
        let kind = fstatfs(&*dir).map_err(|error| failed(error.into()))?.f_type as u64;
        Ok(TargetDirectoryFigures {
            scratch: self.path.as_os_str().as_bytes().to_vec(),
            free_bytes: space.f_bavail.saturating_mul(space.f_frsize),
            free_files: space.f_favail,
            counts_files: space.f_files > 0,
            may_compress: COMPRESSING.contains(&(kind & 0xffff_ffff)),
            removed: self.removed,
        })
    }

    /// Removes the directory. The worker of a terminated copy may still use it, so removal is retried for a while.
    pub fn remove(self) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match remove_tree(&self.parent, &self.name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && self.parent.child(&self.name).is_err() => {
                    return Ok(());
                }
                Err(_) if Instant::now() < deadline => thread::sleep(PAUSE),
                removed => return removed,
            }
        }
    }
}

/// Returns the directory in which a copy to `path` would create an entry, and its path.
fn open(path: &Path) -> io::Result<(Dir, PathBuf)> {
    let directory = match std::fs::metadata(path) {
        Ok(found) if !found.is_dir() => path.parent().map(Path::to_owned),
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.parent().map(Path::to_owned),
        _ => None,
    };
    let directory = directory.unwrap_or_else(|| path.to_owned());
    let directory = if directory.as_os_str().is_empty() { PathBuf::from(".") } else { directory };
    let absolute = std::path::absolute(&directory)?;
    Ok((Dir::open_root(&absolute)?, absolute))
}

/// Removes scratch directories left by killed probes of this user. A directory that cannot be removed does no harm.
fn remove_abandoned(parent: &Dir) -> u32 {
    let mut names = Vec::new();
    let told = each_name(parent, |name, kind| {
        if kind == FileType::Directory && name.as_bytes().starts_with(PREFIX.as_bytes()) {
            names.push(name.clone());
        }
    });
    if told.is_err() {
        return 0;
    }
    let removed = names.iter().filter(|name| is_abandoned(parent, name) && remove_tree(parent, name).is_ok());
    u32::try_from(removed.count()).unwrap_or(u32::MAX)
}

fn is_abandoned(parent: &Dir, name: &Name) -> bool {
    let Ok(fd) = parent.child(name).and_then(|dir| dir.fd()) else { return false };
    let is_ours = fstat(&*fd).is_ok_and(|found| found.st_uid == geteuid().as_raw());
    is_ours && flock(&*fd, FlockOperation::NonBlockingLockExclusive).is_ok()
}

/// Removes a directory tree, one component at a time; links are removed and never followed.
fn remove_tree(parent: &Dir, name: &Name) -> io::Result<()> {
    let mut open = vec![PlaceLevel::enter(parent, name)?];
    while let Some(level) = open.last_mut() {
        match level.below.pop() {
            Some(below) => {
                let level = PlaceLevel::enter(&level.dir, &below)?;
                open.push(level);
            }
            None => {
                let PlaceLevel { above, name, .. } = open.pop().ok_or(io::ErrorKind::Other)?;
                unlinkat(&*above.fd()?, name.as_bytes(), AtFlags::REMOVEDIR)?;
            }
        }
    }
    Ok(())
}

struct PlaceLevel {
    above: Dir,
    name: Name,
    dir: Dir,
    below: Vec<Name>,
}

impl PlaceLevel {
    /// Removes the entries of a directory except its subdirectories, which it collects.
    fn enter(above: &Dir, name: &Name) -> io::Result<Self> {
        let dir = above.child(name)?;
        let (mut below, mut failed) = (Vec::new(), None);
        let fd = dir.fd()?;
        each_name(&dir, |name, kind| match kind {
            FileType::Directory => below.push(name.clone()),
            _ => failed = unlinkat(&*fd, name.as_bytes(), AtFlags::empty()).err().or(failed),
        })?;
        match failed {
            Some(error) => Err(error.into()),
            None => Ok(Self { above: above.clone(), name: name.clone(), dir, below }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn it_goes_with_all_that_is_in_it_and_nothing_else_does() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("kept"), "x").unwrap();
        let scratch = ScratchDirectory::make(dir.path()).unwrap();
        assert!(scratch.path.starts_with(dir.path().canonicalize().unwrap()) && scratch.path.is_dir());
        let deep = scratch.path.join("a/b/c");
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("file"), "y").unwrap();
        fs::write(scratch.path.join("a/file"), "y").unwrap();
        symlink(dir.path(), scratch.path.join("a/link")).unwrap();
        let figures = scratch.figures().unwrap();
        assert!(figures.free_bytes > 0 && figures.removed == 0, "{figures:?}");
        scratch.remove().unwrap();
        assert_eq!(names(dir.path()), ["kept"]);
    }

    #[test]
    fn what_a_killed_probe_left_is_removed_and_what_a_running_one_has_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let left = dir.path().join(".haul-probe-left");
        fs::create_dir(&left).unwrap();
        fs::write(left.join("write"), "zeros").unwrap();
        fs::write(dir.path().join(".haul-probe-file"), "is no directory").unwrap();
        let running = ScratchDirectory::make(dir.path()).unwrap();
        assert_eq!(running.removed, 1);
        let next = ScratchDirectory::make(&dir.path().join("file-to-be")).unwrap();
        assert_eq!(next.removed, 0);
        assert_eq!(names(dir.path()).len(), 3);
        next.remove().unwrap();
        running.remove().unwrap();
        assert_eq!(names(dir.path()), [".haul-probe-file"]);
    }

    #[test]
    fn where_nothing_can_be_made_it_is_said() {
        let absent = ScratchDirectory::make(Path::new("/nonexistent/below/file")).err().unwrap();
        assert!(absent.starts_with("/nonexistent/below/file: "), "{absent}");
        let proc = ScratchDirectory::make(Path::new("/proc")).err().unwrap();
        assert!(proc.starts_with("/proc: no directory can be made there: "), "{proc}");
    }
}
