//! The source's walk: everything below a directory, depth first, as it is found.
//!
//! A directory's listing is read one buffer at a time: first what is in the
//! buffer, then the subdirectories that it names, then the next buffer. So the
//! first file is found before a directory has been read to its end, and what
//! is held is one buffer of names for each level, however many files there
//! are. Nothing is opened but directories.

use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use haul_proto::manifest::{Meta, Version};
use haul_proto::path::Name;
use rustix::fs::{FileType, readlinkat};
use rustix::io::Errno;

use super::dir::Dir;
use super::listing::{Listed, Listing};
use super::meta::{Identity, Links, Look};
use crate::spec::Symlinks;

/// What a walk does with what it finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalkOptions {
    /// Whether subdirectories are walked; they are left out otherwise.
    pub recursive: bool,
    /// What becomes of symbolic links.
    pub symlinks: Symlinks,
    /// A directory that is left out wherever it is found: the target, when it lies inside the source.
    pub skip: Option<Identity>,
}

/// One thing that a walk came across. Whatever stands between an
/// [`Found::EnterDir`] and its [`Found::LeaveDir`] is in that directory or below.
#[derive(Debug)]
pub enum Found {
    /// A directory, before anything in it. The first one is the root.
    EnterDir {
        /// The directory; it knows its name and its parent, which is the directory entered last and not left yet.
        dir: Dir,
        /// Its metadata.
        meta: Meta,
    },
    /// A regular file.
    File {
        /// Where it is.
        parent: Dir,
        /// Its name there.
        name: Name,
        /// Whether `name` has to be followed as a link to get at the file (only with [`Symlinks::Follow`]).
        links: Links,
        /// Bytes.
        size: u64,
        /// Its metadata.
        meta: Meta,
        /// Which file it is, and since when it is unchanged.
        version: Version,
    },
    /// A symbolic link (only with [`Symlinks::Keep`]).
    Symlink {
        /// Where it is.
        parent: Dir,
        /// Its name there.
        name: Name,
        /// What it holds.
        points_to: Box<[u8]>,
        /// Its own metadata.
        meta: Meta,
    },
    /// A directory, after everything in it.
    LeaveDir {
        /// The directory.
        dir: Dir,
        /// Whether all that is in it was found, or left out with a reason. `false` after a failure in
        /// this directory itself; a subdirectory's incompleteness is the subdirectory's.
        complete: bool,
    },
    /// Something that is not copied, on purpose.
    LeftOut {
        /// Where it is.
        parent: Dir,
        /// Its name there.
        name: Name,
        /// Why, to follow the name: `is a FIFO`.
        reason: &'static str,
    },
    /// Something that could not be looked at. The walk goes on.
    Failed {
        /// From the root down. Bytes, not text.
        path: Vec<u8>,
        /// Why; [`super::describe`] has the words.
        error: io::Error,
    },
}

/// An iterator over what is below a root, the root included. The listing of
/// each directory must not be read by anyone else through the same [`Dir`] meanwhile.
pub struct Walker {
    options: WalkOptions,
    root: Option<Dir>,
    levels: Vec<Level>,
    /// Names of the innermost level that were listed and not looked at yet.
    listing: Listing,
    /// Directories that were entered and not left: kept only where links can lead back to one.
    entered: HashSet<Identity>,
    link_buffer: Vec<u8>,
}

/// A directory that was entered and not left.
struct Level {
    dir: Dir,
    /// Subdirectories that the last buffer named. At most one buffer's worth.
    waiting: Vec<(Name, Links)>,
    /// Where the listing goes on.
    cookie: u64,
    /// The descriptor that stands there.
    standing: Weak<OwnedFd>,
    ended: bool,
    complete: bool,
}

impl Level {
    fn new(dir: Dir) -> Self {
        Self { dir, waiting: Vec::new(), cookie: 0, standing: Weak::new(), ended: false, complete: true }
    }

    fn found_file(&self, name: Name, links: Links, look: &Look) -> Found {
        Found::File { parent: self.dir.clone(), name, links, size: look.size, meta: look.meta, version: look.version() }
    }

    fn left_out(&self, name: Name, reason: &'static str) -> Found {
        Found::LeftOut { parent: self.dir.clone(), name, reason }
    }

    fn failed(&mut self, name: &[u8], error: io::Error) -> Found {
        self.complete = false;
        Found::Failed { path: self.dir.path_of(name), error }
    }

    /// Reads the next buffer of names into `listing`.
    fn read_on(&mut self, listing: &mut Listing) -> io::Result<()> {
        let fd = self.dir.fd()?;
        // Another descriptor when the directory had been closed meanwhile, or is new.
        let stands_there = std::ptr::eq(self.standing.as_ptr(), Arc::as_ptr(&fd));
        let seek_to = (!stands_there).then_some(self.cookie);
        self.standing = Arc::downgrade(&fd);
        match listing.read(&fd, seek_to)? {
            Some(cookie) => self.cookie = cookie,
            None => self.ended = true,
        }
        Ok(())
    }
}

impl Walker {
    /// A walk that has not looked at anything yet.
    pub fn new(root: Dir, options: WalkOptions) -> Self {
        Self {
            options,
            root: Some(root),
            levels: Vec::new(),
            listing: Listing::new(),
            entered: HashSet::new(),
            link_buffer: Vec::new(),
        }
    }

    fn enter_root(&mut self, root: Dir) -> Found {
        match root.fd().and_then(|fd| Look::at_fd(&*fd)) {
            Ok(look) => self.enter(root, &look),
            Err(error) => Found::Failed { path: root.path_bytes(), error },
        }
    }

    fn enter(&mut self, dir: Dir, look: &Look) -> Found {
        if self.options.symlinks == Symlinks::Follow {
            self.entered.insert(look.identity);
        }
        self.levels.push(Level::new(dir.clone()));
        Found::EnterDir { dir, meta: look.meta }
    }

    fn leave(&mut self) -> Option<Found> {
        let Level { dir, complete, .. } = self.levels.pop()?;
        self.entered.remove(&dir.identity());
        dir.keep_parent_open();
        Some(Found::LeaveDir { dir, complete })
    }

    /// One listed name of the innermost level. `None` when there is nothing to
    /// say: it has vanished, or it is a directory, which waits for its turn.
    fn examine(&mut self, entry: Listed) -> Option<Found> {
        let level = self.levels.last_mut()?;
        let bytes = self.listing.name(entry);
        let name = match Name::new(bytes) {
            Ok(name) => name,
            Err(error) => return Some(level.failed(bytes, io::Error::other(error))),
        };
        let keep_links = self.options.symlinks != Symlinks::Follow;
        match entry.kind {
            FileType::RegularFile => self.look_at(name, Links::Itself),
            FileType::Directory => self.wait_for(name, Links::Itself),
            FileType::Symlink | FileType::Unknown if keep_links => self.look_at(name, Links::Itself),
            FileType::Symlink | FileType::Unknown => self.look_at(name, Links::Followed),
            other => Some(level.left_out(name, special(other))),
        }
    }

    fn wait_for(&mut self, name: Name, links: Links) -> Option<Found> {
        let level = self.levels.last_mut()?;
        if !self.options.recursive {
            return Some(level.left_out(name, "is a directory (-r copies directories)"));
        }
        level.waiting.push((name, links));
        None
    }

    fn look_at(&mut self, name: Name, links: Links) -> Option<Found> {
        let level = self.levels.last_mut()?;
        let look = match level.dir.fd().and_then(|fd| Look::at_name(&*fd, &name, links)) {
            Ok(look) => look,
            Err(error) if is(&error, Errno::NOENT) => return dangling(level, &name, links),
            Err(error) => return Some(level.failed(name.as_bytes(), error)),
        };
        match look.kind {
            FileType::RegularFile => Some(level.found_file(name, links, &look)),
            FileType::Directory => self.wait_for(name, links),
            FileType::Symlink => self.link(name, look.meta),
            other => Some(level.left_out(name, special(other))),
        }
    }

    /// A link that was looked at itself.
    fn link(&mut self, name: Name, meta: Meta) -> Option<Found> {
        let level = self.levels.last_mut()?;
        match self.options.symlinks {
            Symlinks::Ignore => Some(level.left_out(name, "is a symbolic link")),
            // It was listed as a file and is a link now.
            Symlinks::Follow => self.look_at(name, Links::Followed),
            Symlinks::Keep => {
                let buffer = std::mem::take(&mut self.link_buffer);
                let read = level.dir.fd().and_then(|fd| Ok(readlinkat(&*fd, name.as_bytes(), buffer)?));
                match read {
                    Ok(target) => {
                        let points_to = target.to_bytes().into();
                        self.link_buffer = target.into_bytes();
                        Some(Found::Symlink { parent: level.dir.clone(), name, points_to, meta })
                    }
                    Err(error) if is(&error, Errno::NOENT) => None,
                    Err(error) => Some(level.failed(name.as_bytes(), error)),
                }
            }
        }
    }

    /// Opens a subdirectory of the innermost level. `None` when it has vanished.
    fn descend(&mut self, name: &Name, links: Links) -> Option<Found> {
        let level = self.levels.last_mut()?;
        let (dir, look) = match level.dir.child_looked_at(name, links) {
            Ok(opened) => opened,
            Err(error) if is(&error, Errno::NOENT) => return None,
            Err(error) => return Some(level.failed(name.as_bytes(), error)),
        };
        if self.options.skip == Some(look.identity) {
            return Some(level.left_out(name.clone(), "is the target of this copy"));
        }
        if self.entered.contains(&look.identity) {
            let error = io::Error::other("symbolic link loop: this directory contains itself");
            return Some(level.failed(name.as_bytes(), error));
        }
        Some(self.enter(dir, &look))
    }

    /// Names that are held: what bounds a walk's memory.
    #[cfg(test)]
    pub(super) fn names_held(&self) -> usize {
        self.listing.names_held() + self.levels.iter().map(|level| level.waiting.len()).sum::<usize>()
    }
}

impl Iterator for Walker {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        if let Some(root) = self.root.take() {
            return Some(self.enter_root(root));
        }
        loop {
            if let Some(entry) = self.listing.take() {
                if let Some(found) = self.examine(entry) {
                    return Some(found);
                }
                continue;
            }
            let level = self.levels.last_mut()?;
            if let Some((name, links)) = level.waiting.pop() {
                if let Some(found) = self.descend(&name, links) {
                    return Some(found);
                }
            } else if level.ended {
                return self.leave();
            } else if let Err(error) = level.read_on(&mut self.listing) {
                level.ended = true;
                level.complete = false;
                return Some(Found::Failed { path: level.dir.path_bytes(), error });
            }
        }
    }
}

/// What to say of a name that leads nowhere: nothing if it has vanished.
fn dangling(level: &mut Level, name: &Name, links: Links) -> Option<Found> {
    let itself = || level.dir.fd().and_then(|fd| Look::at_name(&*fd, name, Links::Itself));
    if links == Links::Followed && itself().is_ok() {
        let error = io::Error::new(io::ErrorKind::NotFound, "symbolic link to something that does not exist");
        return Some(level.failed(name.as_bytes(), error));
    }
    None
}

/// Why a file that is neither regular, directory nor link is left out.
fn special(kind: FileType) -> &'static str {
    match kind {
        FileType::Fifo => "is a FIFO",
        FileType::Socket => "is a socket",
        FileType::CharacterDevice => "is a character device",
        FileType::BlockDevice => "is a block device",
        _ => "is no kind of file that haul knows",
    }
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}
