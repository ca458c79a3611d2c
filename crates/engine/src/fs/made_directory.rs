//! A directory that haul creates for its own use, and removes. It is held by descriptor, so that another directory
//! under its name is not removed. A marker file lets a later run recognise it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use haul_proto::path::Name;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::io::Errno;

use super::{Dir, FileStat, FollowLinks, each_name};

/// The file that identifies the directory.
pub const MARKER: &str = ".haul-made";
/// Longest token.
const TOKEN_MAX: u64 = 64;

/// A directory created by haul.
pub struct MadeDirectory {
    parent: Dir,
    name: Name,
    dir: Dir,
    fd: Arc<OwnedFd>,
}

impl MadeDirectory {
    /// Creates the directory `name` in `parent`, for this user alone.
    pub fn create(parent: &Dir, name: Name) -> io::Result<Self> {
        mkdirat(&*parent.fd()?, name.as_bytes(), Mode::RWXU)?;
        let made = Self::open(parent, name)?;
        let mut is_empty = true;
        each_name(&made.dir, |_, _| is_empty = false)?;
        match is_empty {
            true => Ok(made),
            false => Err(io::Error::other("another directory has its name")),
        }
    }

    /// Creates the directory at `path`.
    pub fn create_at(path: &Path) -> io::Result<Self> {
        let (parent, name) = split(path)?;
        Self::create(&parent, name)
    }

    /// Writes the marker file. Its token must be a secret of this user: others could mark directories with it.
    pub fn mark(&self, token: &[u8]) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(&*self.fd, MARKER, flags, Mode::RUSR | Mode::WUSR)?);
        file.write_all(token)?;
        file.sync_all()
    }

    /// Opens a directory of an earlier run; `None` if no directory has this name and token.
    pub fn find(parent: &Dir, name: Name, token: &[u8]) -> Option<Self> {
        let made = Self::open(parent, name).ok()?;
        let (marker, _) = made.dir.open_file(&marker().ok()?, FollowLinks::Itself).ok()?;
        let mut written = Vec::new();
        File::from(marker).take(TOKEN_MAX + 1).read_to_end(&mut written).ok()?;
        (!token.is_empty() && written.trim_ascii_end() == token).then_some(made)
    }

    /// Opens the directory of an earlier run at `path`.
    pub fn find_at(path: &Path, token: &[u8]) -> Option<Self> {
        let (parent, name) = split(path).ok()?;
        Self::find(&parent, name, token)
    }

    fn open(parent: &Dir, name: Name) -> io::Result<Self> {
        let dir = parent.child(&name)?;
        Ok(Self { fd: dir.fd()?, parent: parent.clone(), name, dir })
    }

    /// Returns the parent directory.
    pub fn parent(&self) -> &Dir {
        &self.parent
    }

    /// Returns the name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Returns the descriptor.
    pub fn fd(&self) -> &Arc<OwnedFd> {
        &self.fd
    }

    /// Removes the directory and the entries that `is_made` accepts. Fails if another entry remains, with the
    /// directory.
    pub fn remove(&self, is_made: impl Fn(&Name) -> bool) -> io::Result<()> {
        let marker = marker()?;
        let (mut entries, mut has_others) = (Vec::new(), false);
        each_name(&self.dir, |name, kind| match is_made(name) {
            true => entries.push((name.clone(), kind)),
            false => has_others |= *name != marker,
        })?;
        for (name, kind) in entries {
            match kind {
                FileType::Directory => remove_tree(&self.dir, &name)?,
                _ => unlinkat(&*self.fd, name.as_bytes(), AtFlags::empty())?,
            }
        }
        if has_others {
            return Err(io::Error::other("it contains entries that are not haul's"));
        }
        match unlinkat(&*self.fd, marker.as_bytes(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let now = FileStat::at_name(&*self.parent.fd()?, &self.name, FollowLinks::Itself)?;
        if now.identity != self.dir.identity() {
            return Err(io::Error::other("another directory has its name"));
        }
        Ok(unlinkat(&*self.parent.fd()?, self.name.as_bytes(), AtFlags::REMOVEDIR)?)
    }
}

fn marker() -> io::Result<Name> {
    Name::new(MARKER.as_bytes()).map_err(io::Error::other)
}

fn split(path: &Path) -> io::Result<(Dir, Name)> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let name = Name::new(name.as_bytes()).map_err(io::Error::other)?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    Ok((Dir::open_root(parent.unwrap_or(Path::new(".")))?, name))
}

/// Removes a directory tree, one component at a time, without following links.
fn remove_tree(parent: &Dir, name: &Name) -> io::Result<()> {
    let mut open = vec![MadeTreeLevel::enter(parent, name)?];
    while let Some(level) = open.last_mut() {
        match level.below.pop() {
            Some(below) => {
                let level = MadeTreeLevel::enter(&level.dir, &below)?;
                open.push(level);
            }
            None => {
                let MadeTreeLevel { above, name, .. } = open.pop().ok_or(io::ErrorKind::Other)?;
                unlinkat(&*above.fd()?, name.as_bytes(), AtFlags::REMOVEDIR)?;
            }
        }
    }
    Ok(())
}

struct MadeTreeLevel {
    above: Dir,
    name: Name,
    dir: Dir,
    below: Vec<Name>,
}

impl MadeTreeLevel {
    /// Removes the entries of a directory except subdirectories, which it returns. The directory must be on its
    /// parent's file system.
    fn enter(above: &Dir, name: &Name) -> io::Result<Self> {
        let dir = above.child(name)?;
        if dir.identity().device != above.identity().device {
            return Err(io::Error::other("another file system is mounted in it"));
        }
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
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn is_data(name: &Name) -> bool {
        name.as_bytes() == b"data"
    }

    #[test]
    fn it_is_removed_with_its_known_entries_and_links_are_not_followed() {
        let temp = tempfile::tempdir().unwrap();
        fs::write(temp.path().join("kept"), "x").unwrap();
        let path = temp.path().join("made");
        let made = MadeDirectory::create_at(&path).unwrap();
        made.mark(b"token").unwrap();
        fs::create_dir_all(path.join("data/a/b")).unwrap();
        fs::write(path.join("data/a/file"), "y").unwrap();
        symlink(temp.path(), path.join("data/a/link")).unwrap();
        fs::write(path.join("theirs"), "z").unwrap();
        let error = made.remove(is_data).unwrap_err().to_string();
        assert!(error.contains("not haul's") && path.join("theirs").exists() && !path.join("data").exists(), "{error}");
        fs::remove_file(path.join("theirs")).unwrap();
        made.remove(is_data).unwrap();
        assert!(!path.exists() && temp.path().join("kept").exists());
    }

    #[test]
    fn another_directory_with_its_name_is_not_removed() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("made");
        let made = MadeDirectory::create_at(&path).unwrap();
        made.mark(b"token").unwrap();
        fs::rename(&path, temp.path().join("moved")).unwrap();
        fs::create_dir_all(path.join("data/tree")).unwrap();
        assert!(made.remove(is_data).is_err() && path.join("data/tree").exists());
        // Without the token it is nobody's.
        for (marker, is_found) in [("", false), ("other", false), ("token", true)] {
            fs::write(path.join(MARKER), marker).unwrap();
            assert_eq!(MadeDirectory::find_at(&path, b"token").is_some(), is_found, "{marker}");
            assert!(MadeDirectory::find_at(&path, b"").is_none());
        }
        fs::remove_file(path.join(MARKER)).unwrap();
        symlink("data", path.join(MARKER)).unwrap();
        assert!(MadeDirectory::find_at(&path, b"token").is_none());
        symlink("made", temp.path().join("link")).unwrap();
        assert!(MadeDirectory::find_at(&temp.path().join("link"), b"token").is_none());
        assert!(MadeDirectory::create_at(&path).is_err());
    }
}
