//! Removes an entry that a user named, with everything below, children first.
//!
//! It uses open directories and single names, follows no link, crosses no mount point, and keeps its own stack. Memory
//! has a page of names for each level. Removals that a copy makes are in `crate::receiver::delete`: those have
//! filters, limits and backups.

use std::collections::HashSet;
use std::io;
use std::vec::IntoIter;

use haul_base::sys::describe::describe;
use haul_proto::path::Name;
use rustix::fs::{AtFlags, FileType, OFlags, openat, unlinkat};
use rustix::io::Errno;

use super::lookup;
use super::{Dir, DirectoryPages, FileIdentity, FileStat};

/// Why an entry stays.
#[derive(Debug, thiserror::Error)]
pub enum RemovalError {
    /// A system call failed.
    #[error("{}", describe(.0))]
    System(#[from] io::Error),
    /// It is a mount point.
    #[error("is a mount point, so it is kept\nunmount it first")]
    Mounted,
    /// It is the working or home directory, or one above them.
    #[error("is never removed: it is the working or home directory, or contains it")]
    Protected,
}

/// Directories that are never removed: the working and the home directory, and all above them.
#[derive(Debug, Default)]
pub struct ProtectedDirectories(HashSet<FileIdentity>);

impl ProtectedDirectories {
    /// Looks up the working directory and `others`, which may be missing.
    pub fn with<'p>(others: impl IntoIterator<Item = &'p std::path::Path>) -> Self {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut all = HashSet::new();
        for start in [std::path::Path::new(".")].into_iter().chain(others) {
            let mut at = lookup::open(start, flags);
            // The parent of the root is the root.
            while let Ok(dir) = at
                && FileStat::at_fd(&dir).is_ok_and(|stat| all.insert(stat.identity))
            {
                at = openat(&dir, c"..", flags, rustix::fs::Mode::empty());
            }
        }
        Self(all)
    }

    /// Whether it is one of them.
    pub fn contains(&self, directory: FileIdentity) -> bool {
        self.0.contains(&directory)
    }
}

/// Removes an entry other than a directory, or an empty directory. `false` if it does not exist.
pub fn remove_name(dir: &Dir, name: &Name, kind: FileType) -> io::Result<bool> {
    let flags = if kind == FileType::Directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
    match unlinkat(&*dir.fd()?, name.as_bytes(), flags) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A removal in progress.
pub struct TreeRemoval<'a> {
    /// Directories that are never removed.
    pub protected: &'a ProtectedDirectories,
    /// Called for each removed entry, and each one that stays, with its path below the first directory.
    pub tell: &'a mut dyn FnMut(Vec<u8>, FileType, Result<(), RemovalError>),
}

/// A directory on the current path.
struct RemovalLevel {
    pages: DirectoryPages,
    names: IntoIter<(Name, FileType)>,
    /// Something in it was removed since its listing began.
    has_removed: bool,
    /// Some of its entries stay.
    stays: bool,
}

impl RemovalLevel {
    fn of(dir: Dir) -> Self {
        let pages = DirectoryPages::new(dir);
        Self { pages, names: Vec::new().into_iter(), has_removed: false, stays: false }
    }

    fn next(&mut self) -> io::Result<Option<(Name, FileType)>> {
        loop {
            if let Some(next) = self.names.next() {
                return Ok(Some(next));
            }
            let mut names = Vec::new();
            if !self.pages.next_page(|_| false, |name, kind| names.push((name.clone(), kind)))? {
                return Ok(None);
            }
            self.names = names.into_iter();
        }
    }

    /// Adds an entry of this directory that is gone or stays.
    fn count(&mut self, is_gone: bool) {
        self.stays |= !is_gone;
        self.has_removed |= is_gone;
    }
}

impl TreeRemoval<'_> {
    /// Removes the entry `name` of `dir`.
    pub fn remove(&mut self, dir: &Dir, name: &Name, kind: FileType) {
        if kind != FileType::Directory {
            self.remove_one(dir, name, kind);
            return;
        }
        let mut levels: Vec<_> = self.enter(dir, name).into_iter().collect();
        while let Some(level) = levels.last_mut() {
            match level.next() {
                Ok(Some((name, FileType::Directory))) => match self.enter(level.pages.dir(), &name) {
                    Some(next) => levels.push(next),
                    None => level.stays = true,
                },
                Ok(Some((name, kind))) => {
                    let is_gone = self.remove_one(level.pages.dir(), &name, kind);
                    level.count(is_gone);
                }
                Ok(None) => self.leave(dir, name, &mut levels),
                Err(error) => {
                    level.stays = true;
                    (self.tell)(level.pages.dir().path_bytes(), FileType::Directory, Err(error.into()));
                    self.leave(dir, name, &mut levels);
                }
            }
        }
    }

    fn enter(&mut self, dir: &Dir, name: &Name) -> Option<RemovalLevel> {
        let entered = dir.child(name).map_err(RemovalError::from).and_then(|child| match () {
            () if self.protected.contains(child.identity()) => Err(RemovalError::Protected),
            () if child.identity().device != dir.identity().device || child.mount_id() != dir.mount_id() => {
                Err(RemovalError::Mounted)
            }
            () => Ok(RemovalLevel::of(child)),
        });
        entered.map_err(|error| (self.tell)(dir.path_of(name.as_bytes()), FileType::Directory, Err(error))).ok()
    }

    /// Removes the innermost directory, if it is empty. `name`, in `dir`, is the first one.
    fn leave(&mut self, dir: &Dir, name: &Name, levels: &mut Vec<RemovalLevel>) {
        let Some(mut left) = levels.pop() else { return };
        let emptied = left.pages.dir().clone();
        emptied.keep_parent_open();
        let (above, name) = match (levels.last(), emptied.name()) {
            (Some(above), Some(own)) => (above.pages.dir(), own),
            _ => (dir, name),
        };
        let is_gone = !left.stays
            && match remove_name(above, name, FileType::Directory) {
                // Others write there, or its listing skipped names when earlier ones were removed.
                Err(error) if left.has_removed && is_not_empty(&error) => {
                    left = RemovalLevel::of(emptied);
                    levels.push(left);
                    return;
                }
                removed => self.report(above, name, FileType::Directory, removed),
            };
        if let Some(above) = levels.last_mut() {
            above.count(is_gone);
        }
    }

    fn remove_one(&mut self, dir: &Dir, name: &Name, kind: FileType) -> bool {
        let removed = remove_name(dir, name, kind);
        self.report(dir, name, kind, removed)
    }

    /// Reports a removal. Returns whether nothing is left.
    fn report(&mut self, dir: &Dir, name: &Name, kind: FileType, removed: io::Result<bool>) -> bool {
        let is_gone = removed.is_ok();
        match removed {
            Ok(true) => (self.tell)(dir.path_of(name.as_bytes()), kind, Ok(())),
            Ok(false) => {}
            Err(error) => (self.tell)(dir.path_of(name.as_bytes()), kind, Err(error.into())),
        }
        is_gone
    }
}

fn is_not_empty(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOTEMPTY | Errno::EXIST))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::super::testing::name;
    use super::*;

    fn removed(base: &Path, top: &str, during: &dyn Fn(&[u8])) -> (Vec<String>, Vec<String>) {
        let dir = Dir::open_root_path(base).unwrap();
        let (mut gone, mut stays) = (Vec::new(), Vec::new());
        let protected = ProtectedDirectories::with([base.join("tree/home").as_path()]);
        let mut tell = |path: Vec<u8>, _, outcome: Result<(), RemovalError>| {
            during(&path);
            let path = String::from_utf8(path).unwrap();
            match outcome {
                Ok(()) => gone.push(path),
                Err(error) => stays.push(format!("{path}: {error}")),
            }
        };
        TreeRemoval { protected: &protected, tell: &mut tell }.remove(&dir, &name(top), FileType::Directory);
        (gone, stays)
    }

    #[test]
    fn a_tree_of_any_width_is_removed_and_no_link_is_followed() {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir_all(temp.path().join("tree/a/b")).unwrap();
        fs::create_dir(temp.path().join("kept")).unwrap();
        fs::write(temp.path().join("kept/file"), "x").unwrap();
        (0..3000).for_each(|i| fs::write(temp.path().join(format!("tree/a/a file with a name {i}")), "").unwrap());
        symlink("../../kept", temp.path().join("tree/a/link")).unwrap();
        let (gone, stays) = removed(temp.path(), "tree", &|_| ());
        assert_eq!((gone.len(), stays), (3004, Vec::new()));
        assert!(!temp.path().join("tree").exists() && temp.path().join("kept/file").exists());
    }

    #[test]
    fn a_directory_exchanged_for_a_link_meanwhile_leads_nowhere() {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir_all(temp.path().join("tree/one")).unwrap();
        fs::create_dir_all(temp.path().join("tree/two")).unwrap();
        fs::create_dir(temp.path().join("kept")).unwrap();
        fs::write(temp.path().join("kept/file"), "x").unwrap();
        // After the first of both is gone, the other one becomes a link.
        let exchange = |_: &[u8]| {
            for other in ["tree/one", "tree/two"].map(|path| temp.path().join(path)) {
                if fs::remove_dir(&other).is_ok() {
                    symlink("../kept", &other).unwrap();
                }
            }
        };
        let (_, stays) = removed(temp.path(), "tree", &exchange);
        assert!(stays.iter().any(|line| line.starts_with("tree/")), "{stays:?}");
        assert!(temp.path().join("kept/file").exists());
    }

    #[test]
    fn files_that_appear_meanwhile_are_removed_too() {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir(temp.path().join("tree")).unwrap();
        fs::write(temp.path().join("tree/first"), "").unwrap();
        let write = |path: &[u8]| {
            if path == b"tree/first" {
                fs::write(temp.path().join("tree/second"), "").unwrap();
            }
        };
        let (gone, stays) = removed(temp.path(), "tree", &write);
        assert_eq!((gone, stays), (["tree/first", "tree/second", "tree"].map(String::from).to_vec(), Vec::new()));
    }

    #[test]
    fn the_home_directory_and_those_above_it_are_kept() {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir_all(temp.path().join("tree/home")).unwrap();
        fs::write(temp.path().join("tree/file"), "").unwrap();
        let (gone, stays) = removed(temp.path(), "tree", &|_| ());
        assert!(gone.is_empty() && stays[0].starts_with("tree: is never removed"), "{gone:?} {stays:?}");
        assert!(temp.path().join("tree/file").exists());
    }
}
