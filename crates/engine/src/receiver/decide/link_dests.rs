//! Earlier copies of the same tree: a new file that one of them has is hard-linked to it (`--link-dest`) or copied
//! (`--copy-dest`), or is not created (`--compare-dest`).

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use haul_base::sys::describe::describe;
use haul_base::sys::sync::lock;
use haul_proto::delta::method;
use haul_proto::entry::{Entry, EntryContent};
use haul_proto::overwrite_policy::{OverwriteDecision, OverwriteRules, decide};
use haul_proto::path::{Name, escape};
use haul_proto::sync::{EarlierCopyUse, SyncOptions};
use haul_proto::wire::report::WorkerMessage;
use rustix::fs::FileType;
use rustix::io::Errno;

use crate::fs::trusted_links::LinkRules;
use crate::fs::{Dir, FileIdentity, FileStat, FollowLinks, HeldFile};
use crate::metrics::counter::add;
use crate::metrics::reporter::Reporter;
use crate::receiver::decide::EntryDecider;
use crate::receiver::file::base::BaseSource;
use crate::receiver::metadata::unset::EntryPlace;
use crate::receiver::place::entry_position::EntryPosition;
use crate::receiver::place::error::FileError;
use crate::receiver::place::existing_entry::attributes;
use crate::receiver::place::target_path::TargetPath;
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
    pub fn open(sync: &SyncOptions, destination: &Path, reporter: &Reporter) -> Self {
        let option = match sync.earlier_use {
            EarlierCopyUse::Link => "--link-dest",
            EarlierCopyUse::Copy => "--copy-dest",
            EarlierCopyUse::Compare => "--compare-dest",
        };
        let rules = LinkRules { follows_all: sync.insecure_links, make: None };
        let open = |path: &Vec<u8>| {
            let path = Path::new(OsStr::from_bytes(path));
            let whole = join(destination, path);
            let opened = match destination.is_dir() {
                true => Dir::open_named(destination, path, rules),
                false => Dir::open_named(Path::new("."), &whole, rules),
            };
            match opened {
                Ok(root) => Some(LinkDest { root, latest: Mutex::default() }),
                Err(error) => {
                    let (path, why) = (escape(whole.as_os_str().as_bytes()), describe(&error));
                    let why = why.lines().next().unwrap_or_default();
                    let text = format!("{path}: cannot read the earlier copy ({option}): {why}");
                    reporter.send(&WorkerMessage::Warning { text });
                    None
                }
            }
        };
        Self { copies: sync.link_dests.iter().filter_map(open).collect(), is_reported: AtomicBool::new(false) }
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
    /// Takes an entry from an earlier copy that has it: links or copies a missing file, or leaves none. `false` if it
    /// is to be transferred. A dry run changes nothing.
    pub(crate) fn has_from_earlier(
        &self,
        position: &EntryPosition,
        entry: &Entry,
        decision: OverwriteDecision,
    ) -> Result<bool, FileError> {
        if self.link_dests.copies.is_empty() || !self.may_be_earlier(entry, decision) {
            return Ok(false);
        }
        let above = position.dir.path_bytes();
        let mut equal = None;
        for copy in &self.link_dests.copies {
            let Some(dir) = copy.directory(&above) else { continue };
            let Some((found, is_identical)) = self.find_equal(&dir, &position.name, entry)? else { continue };
            match (self.parts.copy.request.sync.earlier_use, is_identical) {
                (EarlierCopyUse::Link, true) if self.has_link(&dir, found, position, entry) => return Ok(true),
                (EarlierCopyUse::Link, _) => {}
                (EarlierCopyUse::Compare, true) => return self.leave_none(position, entry, decision).map(|()| true),
                (EarlierCopyUse::Compare | EarlierCopyUse::Copy, _) => equal = equal.or(Some((dir, found))),
            }
        }
        let (Some((dir, found)), EntryContent::File { size }) = (equal, &entry.kind) else { return Ok(false) };
        let is_copied = decision == OverwriteDecision::Create
            && (self.parts.copy.is_dry() || self.copy_earlier(&dir, found, position, entry, *size)?);
        if is_copied {
            self.parts.copy.reporter.file_existed(|| self.parts.copy.relative(position), *size, None);
        }
        Ok(is_copied)
    }

    /// The file of this name in an earlier copy, as the base file of a new one. Deltas within one process gain nothing.
    pub(crate) fn find_earlier_base(&self, path: &TargetPath, size: u64) -> Option<BaseSource> {
        let rules = self.parts.copy.request.delta;
        let is_near = self.parts.copy.is_within_process() && !rules.applies_within_host();
        if is_near || size <= self.parts.copy.request.settings.frame.pack_file_max() {
            return None;
        }
        let above = path.dir.path_bytes();
        self.link_dests.copies.iter().filter_map(|copy| copy.directory(&above)).find_map(|dir| {
            let stat = FileStat::at_name(&*dir.fd().ok()?, &path.name, FollowLinks::Itself).ok()?;
            let method = method(rules.delta, false, stat.size, size).filter(|_| stat.kind == FileType::RegularFile)?;
            let base = BaseSource::new(dir, path.name.clone(), &stat, method).ok()?;
            self.parts.deltas.may_use(&base).then_some(base)
        })
    }

    /// Whether earlier copies matter for an entry: for missing files and, if equal entries are not created, for others
    /// than directories and hard links.
    fn may_be_earlier(&self, entry: &Entry, decision: OverwriteDecision) -> bool {
        let is_missing = decision == OverwriteDecision::Create;
        match self.parts.copy.request.sync.earlier_use {
            EarlierCopyUse::Link | EarlierCopyUse::Copy => {
                is_missing && matches!(entry.kind, EntryContent::File { .. })
            }
            EarlierCopyUse::Compare => {
                let is_alone = entry.further_names().is_none();
                let is_comparable = !matches!(
                    entry.kind,
                    EntryContent::Directory | EntryContent::HardLink { .. } | EntryContent::Stream
                );
                let is_file = matches!(entry.kind, EntryContent::File { .. });
                let is_there = is_file && matches!(decision, OverwriteDecision::Keep | OverwriteDecision::Replace);
                is_alone && is_comparable && (is_missing || is_there)
            }
        }
    }

    /// The entry of this name, if it equals the source's, and whether all preserved metadata do.
    fn find_equal(&self, dir: &Dir, name: &Name, entry: &Entry) -> io::Result<Option<(FileIdentity, bool)>> {
        let there = self.parts.tree.existing_stat(dir, name, entry)?;
        let Some(stat) = there.stat else { return Ok(None) };
        // A newer file is not equal.
        let rules = OverwriteRules { update: false, ..self.parts.copy.overwrite_rules() };
        let is_equal = match decide(&entry.kind, entry.meta.modified, &there.existing, rules) {
            OverwriteDecision::Keep => true,
            OverwriteDecision::Compare => self.has_digest(dir, name, entry)?,
            _ => false,
        };
        let is_identical = || self.parts.tree.metadata_reasons(dir, name, entry, &stat).is_empty();
        Ok(is_equal.then(|| (stat.identity, is_identical())))
    }

    /// Links a file of an earlier copy, and reports it. `false` if that fails, or if the file was replaced since the
    /// comparison: it is copied.
    fn has_link(&self, from: &Dir, found: FileIdentity, position: &EntryPosition, entry: &Entry) -> bool {
        let linked = if self.parts.copy.is_dry() { Ok(true) } else { self.link(from, found, position, entry) };
        if let Err(error) = &linked {
            self.warn_of_copy(error);
        }
        let is_linked = linked.unwrap_or(false);
        if is_linked {
            self.parts.copy.report_linked(|| self.parts.copy.relative(position), entry);
        }
        is_linked
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

    /// An entry that an earlier copy has is not created; an existing file is removed.
    fn leave_none(
        &self,
        position: &EntryPosition,
        entry: &Entry,
        decision: OverwriteDecision,
    ) -> Result<(), FileError> {
        if decision != OverwriteDecision::Create && !self.parts.copy.is_dry() {
            self.parts.removals.remove_or_back_up(&position.dir, &position.name)?;
        }
        match entry.kind {
            EntryContent::File { size } => {
                self.parts.copy.reporter.file_existed(|| self.parts.copy.relative(position), size, None);
            }
            EntryContent::Symlink { .. } => add(&self.parts.copy.reporter.tally.symlinks, 1),
            _ => {}
        }
        Ok(())
    }

    /// Copies the file `found` with the source's metadata; where the file system can, the copy shares its blocks.
    /// `false` if `from` has another file of that name by now, or one of another user, whose contents are unknown.
    fn copy_earlier(
        &self,
        from: &Dir,
        found: FileIdentity,
        position: &EntryPosition,
        entry: &Entry,
        size: u64,
    ) -> Result<bool, FileError> {
        let (file, stat) = from.open_file(&position.name, FollowLinks::Itself)?;
        if stat.identity != found || !self.parts.metadata.is_trusted(&entry.meta, &stat) {
            return Ok(false);
        }
        let tree = &self.parts.tree;
        let path = TargetPath { dir: position.dir.clone(), name: position.name.clone(), replaces: false };
        tree.quota.reserve(size)?;
        let mut into = File::from(tree.temp_files.open(&path, None, None, &tree.copy_locks)?);
        let copied = io::copy(&mut File::from(file), &mut into);
        let is_complete = copied.and_then(|bytes| {
            let place = EntryPlace::in_directory(&path.dir, &path.name);
            self.parts.metadata.set_file_metadata(place, &into, &entry.meta, true, attributes(entry))?;
            if self.parts.commit_queue.is_wanted() {
                into.sync_all()?;
            }
            Ok(bytes == size)
        });
        if !matches!(is_complete, Ok(true)) {
            tree.temp_files.discard(&path);
            return Ok(is_complete?);
        }
        tree.temp_files.finish(&path, &into.into()).map(|()| true)
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
