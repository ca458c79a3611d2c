//! Directories, held by descriptor instead of path.
//!
//! A [`Dir`] has its parent, its name there and its identity. So its descriptor can be closed to save descriptors, and
//! the directory reopened later, one component at a time; an exchanged directory is detected. Nothing is created,
//! listed or changed here.

use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

use haul_proto::path::Name;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, StatxFlags, accessat, openat, statx};
use rustix::io::Errno;

use super::fd_cache::{FdCache, FdSlot, MAX_OPEN_DIRECTORIES};
use super::lookup;
use super::meta::{FileIdentity, FileStat, FollowLinks};
use super::trusted_links::{LinkRules, open_directory};

/// The identity of a directory that does not exist: no file system has an inode 0.
const ABSENT: FileIdentity = FileIdentity { device: 0, inode: 0 };
/// Error of a reopened directory with another identity.
const REPLACED: &str = "directory was replaced during the copy";
/// Error for a directory of an option behind another user's link.
const FOREIGN_LINK: &str = "a symbolic link of another user leads there\nname the directory that it leads to";

/// A directory that is open or can be reopened. Cheap to clone.
///
/// All directories below one root share an [`FdCache`]. Any depth works: no operation recurses, and full paths are made
/// only for messages.
#[derive(Clone)]
pub struct Dir(Arc<DirNode>);

struct DirNode {
    above: Option<ParentDir>,
    /// For a root that may be closed: the path and access to reopen it.
    operand: Option<(PathBuf, DirAccess)>,
    identity: FileIdentity,
    slot: Arc<FdSlot>,
    cache: Arc<FdCache>,
}

/// Position of a directory that is not a root.
struct ParentDir {
    parent: Dir,
    name: Name,
    links: FollowLinks,
}

/// The purpose of an open directory, which determines the required permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirAccess {
    /// Listing.
    List,
    /// Opens a directory for access by name: search permission is enough.
    Search,
}

impl DirAccess {
    /// Opens a directory.
    pub fn open(self, path: &Path, cache: &FdCache) -> io::Result<OwnedFd> {
        let access = match self {
            Self::List => OFlags::RDONLY,
            Self::Search => OFlags::PATH,
        };
        let flags = access | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(cache.open(|| lookup::open(path, flags))?)
    }
}

impl Dir {
    /// Opens an operand. Symbolic links in `path` are followed, also as its last component, unless lookups are confined
    /// ([`lookup`]). The root keeps its descriptor for life.
    pub fn open_root(path: &Path) -> io::Result<Self> {
        Self::open_root_in(path, FdCache::new(MAX_OPEN_DIRECTORIES))
    }

    /// Opens an operand, sharing `cache` with other roots.
    pub fn open_root_in(path: &Path, cache: Arc<FdCache>) -> io::Result<Self> {
        Self::root(DirAccess::List.open(path, &cache)?, cache)
    }

    /// Opens a root for creation and renaming by name, without permission to list it. It keeps its descriptor for life.
    pub fn open_root_path(path: &Path) -> io::Result<Self> {
        let cache = FdCache::new(MAX_OPEN_DIRECTORIES);
        Self::root(DirAccess::Search.open(path, &cache)?, cache)
    }

    /// Opens a root that `cache` may close like any other directory, for copies of many operands. It is reopened by
    /// `path`; another directory at that path is then an error.
    pub fn open_operand(path: &Path, access: DirAccess, cache: Arc<FdCache>) -> io::Result<Self> {
        let fd = access.open(path, &cache)?;
        let identity = FileStat::at_fd(&fd)?.identity;
        let operand = Some((path.to_owned(), access));
        let opened = Self(Arc::new(DirNode { above: None, operand, identity, slot: Arc::default(), cache }));
        opened.0.cache.insert(&opened.0.slot, fd);
        Ok(opened)
    }

    /// Opens a directory that an option names, relative to the directory at `target` unless `path` is absolute. Links
    /// on the way have to be this user's or root's.
    pub fn open_named(target: &Path, path: &Path, rules: LinkRules) -> io::Result<Self> {
        let start = if target.as_os_str().is_empty() { Path::new(".") } else { target };
        if lookup::is_confined() {
            return Self::open_root(&target.join(path));
        }
        let start = if path.is_absolute() { Path::new("/") } else { start };
        let start = lookup::open(start, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC)?;
        let opened = open_directory(&start, path, rules);
        Self::from_fd(opened.map_err(|error| match error {
            Errno::LOOP => io::Error::other(FOREIGN_LINK),
            error => error.into(),
        })?)
    }

    /// Makes a root from a directory that is open for reading. Other descriptors are ENOTDIR.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        Self::root(fd, FdCache::new(MAX_OPEN_DIRECTORIES))
    }

    /// A root that does not exist, for a dry run: it has a path in messages, and opening it fails with ENOENT.
    pub fn absent_root() -> Self {
        let cache = FdCache::new(MAX_OPEN_DIRECTORIES);
        Self(Arc::new(DirNode { above: None, operand: None, identity: ABSENT, slot: Arc::default(), cache }))
    }

    /// The absent directory `name` in this one: see [`Self::absent_root`].
    pub fn absent_child(&self, name: &Name) -> Self {
        self.new_node(ParentDir { parent: self.clone(), name: name.clone(), links: FollowLinks::Itself }, ABSENT)
    }

    /// Whether it represents a directory that does not exist.
    pub fn is_absent(&self) -> bool {
        self.0.identity == ABSENT
    }

    fn root(fd: OwnedFd, cache: Arc<FdCache>) -> io::Result<Self> {
        let stat = FileStat::at_fd(&fd)?;
        if stat.kind != FileType::Directory {
            return Err(Errno::NOTDIR.into());
        }
        let (identity, slot) = (stat.identity, FdSlot::pinned(fd));
        Ok(Self(Arc::new(DirNode { above: None, operand: None, identity, slot, cache })))
    }

    /// Opens the directory `name` in this one. A symbolic link is not followed: ENOTDIR.
    pub fn child(&self, name: &Name) -> io::Result<Self> {
        Ok(self.child_with_stat(name, FollowLinks::Itself)?.0)
    }

    /// Opens the directory `name` in this one, with its properties. With [`FollowLinks::Followed`], `name` may be a
    /// symbolic link to a directory.
    pub fn child_with_stat(&self, name: &Name, links: FollowLinks) -> io::Result<(Self, FileStat)> {
        let fd = self.open_directory(&*self.fd()?, name, links)?;
        let stat = FileStat::at_fd(&fd)?;
        let above = ParentDir { parent: self.clone(), name: name.clone(), links };
        let child = self.new_node(above, stat.identity);
        self.0.cache.insert(&child.0.slot, fd);
        Ok((child, stat))
    }

    /// Opens the directory that the symbolic link `name` in this one leads to, if only links of this user and of root
    /// lead there. A later opening by name checks its identity.
    pub fn linked_child(&self, name: &Name) -> io::Result<Self> {
        let dir = self.fd()?;
        let path = Path::new(OsStr::from_bytes(name.as_bytes()));
        let fd = self.0.cache.open(|| open_directory(&*dir, path, LinkRules::default()))?;
        let above = ParentDir { parent: self.clone(), name: name.clone(), links: FollowLinks::Followed };
        let child = self.new_node(above, FileStat::at_fd(&fd)?.identity);
        self.0.cache.insert(&child.0.slot, fd);
        Ok(child)
    }

    /// Opens the regular file `name` in this directory for reading, with its properties. It refuses any other kind of
    /// entry, and never blocks (for example for a FIFO's writer).
    pub fn open_file(&self, name: &Name, links: FollowLinks) -> io::Result<(OwnedFd, FileStat)> {
        let fd = self.open_unseen(name, links)?;
        let stat = FileStat::at_fd(&fd)?;
        if stat.kind != FileType::RegularFile {
            return Err(io::Error::other("is no longer a regular file"));
        }
        Ok((fd, stat))
    }

    /// Opens `name` without a check of its type, for callers that check it.
    pub fn open_unseen(&self, name: &Name, links: FollowLinks) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY | links.open_flags();
        let dir = self.fd()?;
        Ok(self.0.cache.open(|| openat(&*dir, name.as_bytes(), flags, Mode::empty()))?)
    }

    /// Whether this process may not read the file `name` in this directory.
    pub fn is_denied(&self, name: &Name, links: FollowLinks) -> io::Result<bool> {
        let follow = if links == FollowLinks::Itself { AtFlags::SYMLINK_NOFOLLOW } else { AtFlags::empty() };
        let dir = self.fd()?;
        match accessat(&*dir, name.as_bytes(), rustix::fs::Access::READ_OK, AtFlags::EACCESS | follow) {
            Ok(()) => Ok(false),
            Err(Errno::ACCESS | Errno::PERM) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns an `O_PATH` descriptor of `name` in this directory.
    pub fn open_handle(&self, name: &Name, links: FollowLinks) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::CLOEXEC | links.open_flags();
        let dir = self.fd()?;
        Ok(self.0.cache.open(|| openat(&*dir, name.as_bytes(), flags, Mode::empty()))?)
    }

    /// Returns the descriptor; reopens the directory after the cache closed it. Each component of the path is verified:
    /// another directory in its place is an error. Other calls name one component relative to the descriptor; its
    /// offset for listing belongs to the walk.
    pub fn fd(&self) -> io::Result<Arc<OwnedFd>> {
        match self.0.slot.get() {
            Some(fd) => Ok(fd),
            None if self.is_absent() => Err(Errno::NOENT.into()),
            None => self.reopen(),
        }
    }

    /// Reopens a closed parent through this directory's `..`, if this one is open. To be called after the work in a
    /// directory: otherwise, leaving a very deep tree would reopen each level from the root.
    pub fn keep_parent_open(&self) {
        let Some(above) = &self.0.above else { return };
        if above.parent.0.slot.is_open() {
            return;
        }
        let Some(fd) = self.0.slot.get() else { return };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(parent) = openat(&*fd, c"..", flags, Mode::empty()) else { return };
        // Another directory, if this one was moved, or reached through a link.
        if FileStat::at_fd(&parent).is_ok_and(|stat| stat.identity == above.parent.identity()) {
            self.0.cache.insert(&above.parent.0.slot, parent);
        }
    }

    /// Its identity.
    pub fn identity(&self) -> FileIdentity {
        self.0.identity
    }

    /// Its mount ID; `None` before Linux 5.8.
    pub fn mount_id(&self) -> Option<u64> {
        let stat = statx(&*self.fd().ok()?, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?;
        StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::MNT_ID).then_some(stat.stx_mnt_id)
    }

    /// The parent; `None` for a root.
    pub fn parent(&self) -> Option<&Dir> {
        self.0.above.as_ref().map(|above| &above.parent)
    }

    /// Whether the root above has not been removed.
    pub fn is_root_there(&self) -> bool {
        let root = std::iter::successors(Some(self), |dir| dir.parent()).last().unwrap_or(self);
        root.fd().is_ok_and(|fd| root.is_linked(&fd, false))
    }

    /// Whether the directory was removed. Unless `is_thorough`, one that is closed, or on a file system that does not
    /// count names, is taken for present.
    pub fn is_removed(&self, is_thorough: bool) -> bool {
        match self.0.slot.get() {
            Some(fd) => !self.is_linked(&fd, is_thorough),
            // Another directory in its place proves its removal, too.
            None => is_thorough && self.fd().is_err(),
        }
    }

    /// Whether an open directory has a name. `is_thorough` lists it in any case.
    fn is_linked(&self, fd: &OwnedFd, is_thorough: bool) -> bool {
        // Some file systems count no names. The system lists no removed directory.
        let is_listed = || {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let own = self.0.cache.open(|| openat(fd, c".", flags, Mode::empty()));
            own.is_ok_and(|own| {
                RawDir::new(own, &mut [MaybeUninit::uninit(); 1024]).next().is_some_and(|it| it.is_ok())
            })
        };
        FileStat::at_fd(fd).is_ok_and(|stat| stat.names > 0 && !is_thorough || is_listed())
    }

    /// The name in the parent; `None` for a root.
    pub fn name(&self) -> Option<&Name> {
        self.0.above.as_ref().map(|above| &above.name)
    }

    /// The path from the root, for messages only; empty for a root.
    pub fn path_bytes(&self) -> Vec<u8> {
        let mut names = Vec::new();
        let mut at = self;
        while let Some(above) = &at.0.above {
            names.push(above.name.as_bytes());
            at = &above.parent;
        }
        names.reverse();
        names.join(&b'/')
    }

    /// The path from the root to `name` in this directory, for messages only.
    pub fn path_of(&self, name: &[u8]) -> Vec<u8> {
        let mut path = self.path_bytes();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        path
    }

    fn new_node(&self, above: ParentDir, identity: FileIdentity) -> Self {
        let (slot, cache) = (Arc::default(), Arc::clone(&self.0.cache));
        Self(Arc::new(DirNode { above: Some(above), operand: None, identity, slot, cache }))
    }

    /// One component, relative to `above`.
    fn open_directory(&self, above: impl AsFd, name: &Name, links: FollowLinks) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | links.open_flags();
        Ok(self.0.cache.open(|| openat(above.as_fd(), name.as_bytes(), flags, Mode::empty()))?)
    }

    /// Reopens the path to this directory, from the nearest open ancestor or the root.
    fn reopen(&self) -> io::Result<Arc<OwnedFd>> {
        let mut closed = vec![self];
        let mut at = self;
        let mut open = None;
        while let Some(parent) = at.parent() {
            open = parent.0.slot.get();
            if open.is_some() {
                break;
            }
            closed.push(parent);
            at = parent;
        }
        // The last levels stay open, within reason: they will be used next.
        let levels_to_keep = self.0.cache.max_open() / 2;
        while let Some(dir) = closed.pop() {
            let opened = dir.open_again(open.as_deref())?;
            let keep = closed.len() <= levels_to_keep;
            open = Some(if keep { dir.0.cache.insert(&dir.0.slot, opened) } else { Arc::new(opened) });
        }
        Ok(open.ok_or(Errno::BADF)?)
    }

    /// Reopens this directory, in `above` if it is not a root, and checks its identity.
    fn open_again(&self, above: Option<&OwnedFd>) -> io::Result<OwnedFd> {
        let opened = match (&self.0.above, &self.0.operand, above) {
            (Some(here), _, Some(above)) => self.open_directory(above, &here.name, here.links),
            (None, Some((path, access)), _) => access.open(path, &self.0.cache),
            // Other roots are never closed.
            _ => Err(Errno::BADF.into()),
        };
        let fd = match opened {
            Err(error) if error.raw_os_error() == Some(Errno::NOTDIR.raw_os_error()) => {
                return Err(io::Error::other(REPLACED));
            }
            opened => opened?,
        };
        if FileStat::at_fd(&fd)?.identity != self.0.identity {
            return Err(io::Error::other(REPLACED));
        }
        Ok(fd)
    }
}

impl Drop for DirNode {
    /// Drops the parents one by one: a recursion of 100,000 levels would overflow the stack.
    fn drop(&mut self) {
        let mut above = self.above.take();
        while let Some(mut node) = above.and_then(|above| Arc::into_inner(above.parent.0)) {
            above = node.above.take();
        }
    }
}

impl fmt::Debug for Dir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dir({:?})", haul_proto::path::escape(&self.path_bytes()))
    }
}

#[cfg(test)]
#[path = "dir_tests.rs"]
mod tests;
