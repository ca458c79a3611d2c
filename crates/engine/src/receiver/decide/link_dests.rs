//! Earlier copies of the same tree (`--link-dest`): a new file that one of them has is hard-linked to it, and takes no
//! space.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use haul_base::sys::describe::describe;
use haul_base::sys::sync::lock;
use haul_proto::entry::{Entry, EntryContent};
use haul_proto::overwrite_policy::{ExistingEntry, OverwriteDecision, decide};
use haul_proto::path::{Name, escape};
use haul_proto::wire::report::WorkerMessage;
use rustix::io::Errno;

use crate::fs::{Dir, FileIdentity, HeldFile};
use crate::metrics::reporter::Reporter;
use crate::receiver::decide::EntryDecider;
use crate::receiver::place::entry_position::EntryPosition;
use crate::sys::confine::{ConfineBounds, ConfineRights};

/// Warning when files are copied instead of linked.
const CANNOT_LINK: &str = "cannot hard-link to the earlier copy (--link-dest), so files are copied";

/// Earlier copies, and the last directories found in them.
#[derive(Default)]
pub struct LinkDests {
    copies: Vec<LinkDest>,
    /// A failure to link was reported.
    is_reported: AtomicBool,
}

struct LinkDest {
    root: Dir,
    /// The directory searched for the previous file, by its path: neighbouring files follow each other.
    latest: Mutex<Option<(Vec<u8>, Option<Dir>)>>,
}

impl LinkDests {
    /// Opens the existing copies. A relative path starts at `landing`, or else at its future path `path`.
    pub fn open(paths: &[Vec<u8>], destination: &Path, reporter: &Reporter) -> Self {
        let open = |path: &Vec<u8>| {
            let whole = join(destination, Path::new(OsStr::from_bytes(path)));
            match Dir::open_root(&whole) {
                Ok(root) => Some(LinkDest { root, latest: Mutex::default() }),
                Err(error) => {
                    let (path, why) = (escape(whole.as_os_str().as_bytes()), describe(&error));
                    let why = why.lines().next().unwrap_or_default();
                    let text = format!("{path}: cannot read the earlier copy (--link-dest): {why}");
                    reporter.send(&WorkerMessage::Warning { text });
                    None
                }
            }
        };
        Self { copies: paths.iter().filter_map(open).collect(), is_reported: AtomicBool::new(false) }
    }

    /// Their root directories.
    pub fn dirs(&self) -> impl Iterator<Item = &Dir> {
        self.copies.iter().map(|copy| &copy.root)
    }

    /// Identities of their root directories, where nothing is removed.
    pub fn roots(&self) -> impl Iterator<Item = FileIdentity> + '_ {
        self.copies.iter().map(|copy| copy.root.identity())
    }

    /// Permits hard links to their files.
    pub fn allow(&self, bounds: &mut ConfineBounds, rights: ConfineRights) {
        self.copies.iter().for_each(|copy| drop(copy.root.fd().map(|fd| bounds.allow(&*fd, rights))));
    }
}

impl LinkDest {
    /// The directory with this path.
    fn directory(&self, path: &[u8]) -> Option<Dir> {
        let mut latest = lock(&self.latest);
        match &*latest {
            Some((known, found)) if known == path => found.clone(),
            _ => {
                let mut names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
                let enter = |at: Dir, name| at.child(&Name::new(name).ok()?).ok();
                let found = names.try_fold(self.root.clone(), enter);
                *latest = Some((path.to_vec(), found.clone()));
                found
            }
        }
    }
}

impl EntryDecider {
    /// Links a missing file to an earlier copy that has it. A dry run only returns whether it would.
    pub(crate) fn link_from_earlier(&self, position: &EntryPosition, entry: &Entry) -> io::Result<bool> {
        if self.link_dests.copies.is_empty() {
            return Ok(false);
        }
        let above = position.dir.path_bytes();
        for copy in &self.link_dests.copies {
            let Some((dir, found)) = self.has_it(copy, &above, &position.name, entry)? else { continue };
            if self.parts.copy.is_dry() {
                return Ok(true);
            }
            match self.link(&dir, found, position, entry) {
                Ok(true) => return Ok(true),
                // Replaced since the comparison: the file is copied.
                Ok(false) => {}
                Err(error) => self.warn_of_copy(&error),
            }
        }
        Ok(false)
    }

    /// The first copy's directory with the file, and the file.
    fn has_it(
        &self,
        copy: &LinkDest,
        above: &[u8],
        name: &Name,
        entry: &Entry,
    ) -> io::Result<Option<(Dir, FileIdentity)>> {
        let is_file = matches!(entry.kind, EntryContent::File { .. });
        let Some(dir) = copy.directory(above).filter(|_| is_file) else { return Ok(None) };
        Ok(self.find_same(&dir, name, entry)?.map(|found| (dir, found)))
    }

    /// The file of this name, if it equals the source's in contents and all preserved metadata, which hard links share.
    fn find_same(&self, dir: &Dir, name: &Name, entry: &Entry) -> io::Result<Option<FileIdentity>> {
        let there = self.parts.tree.existing_stat(dir, name, entry)?;
        let Some(stat) = there.stat.filter(|_| matches!(there.existing, ExistingEntry::File { .. })) else {
            return Ok(None);
        };
        let is_same = match decide(&entry.kind, entry.meta.modified, &there.existing, self.parts.copy.overwrite_rules())
        {
            OverwriteDecision::Keep => true,
            OverwriteDecision::Compare => self.has_digest(dir, name, entry)?,
            _ => false,
        };
        let is_same = is_same && self.parts.tree.metadata_reasons(dir, name, entry, &stat).is_empty();
        Ok(is_same.then_some(stat.identity))
    }

    /// Links the file `found` into the position. `false` if `from` has another file of that name by now.
    fn link(&self, from: &Dir, found: FileIdentity, position: &EntryPosition, entry: &Entry) -> io::Result<bool> {
        let Some(file) = HeldFile::open_expected(from, &position.name, found)? else { return Ok(false) };
        let into = position.dir.fd()?;
        if !self.may_be_named_in(&file, &into, entry)? {
            return Err(io::Error::other("its files belong to another user"));
        }
        file.link(&into, &position.name).map(|()| true)
    }

    fn warn_of_copy(&self, error: &io::Error) {
        if !self.link_dests.is_reported.swap(true, Ordering::Relaxed) {
            let why = match Errno::from_io_error(error) {
                Some(Errno::XDEV) => "it is on another file system, or the kernel refuses".into(),
                _ => describe(error),
            };
            let why = why.lines().next().unwrap_or_default();
            self.parts.copy.reporter.send(&WorkerMessage::Warning { text: format!("{CANNOT_LINK}: {why}") });
        }
    }
}

/// Joins a path to a directory that need not exist: `..` is resolved by name.
fn join(destination: &Path, path: &Path) -> PathBuf {
    let mut whole = destination.to_owned();
    if destination.is_dir() {
        return whole.join(path);
    }
    let mut rest = path;
    while let Ok(below) = rest.strip_prefix("..") {
        whole = whole.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned();
        rest = below;
    }
    whole.join(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::testing::name;

    #[test]
    fn relative_paths_begin_at_the_target() {
        let temp = tempfile::tempdir().unwrap();
        let destination = temp.path().join("2");
        assert_eq!(join(&destination, Path::new("../1")), temp.path().join("1"));
        assert_eq!(join(&destination, Path::new("/x")), Path::new("/x"));
        assert_eq!(join(Path::new("2"), Path::new("../1")), Path::new("./1"));
        std::fs::create_dir(&destination).unwrap();
        assert_eq!(join(&destination, Path::new("../1")), destination.join("../1"));
    }

    #[test]
    fn the_same_directory_is_found_and_not_through_links() {
        let temp = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(temp.path().join("1/a/b")).unwrap();
        std::os::unix::fs::symlink("a", temp.path().join("1/c")).unwrap();
        let root = Dir::open_root(&temp.path().join("1")).unwrap();
        let copy = LinkDest { root: root.clone(), latest: Mutex::default() };
        let expected = root.child(&name("a")).unwrap().child(&name("b")).unwrap().identity();
        let found = |path: &str| copy.directory(path.as_bytes()).map(|dir| dir.identity());
        assert_eq!(found("a/b"), Some(expected));
        assert_eq!(found("a/b"), Some(expected), "remembered");
        assert_eq!((found("c"), found("a/x"), found("..")), (None, None, None));
        assert_eq!(found(""), Some(root.identity()));
    }
}
