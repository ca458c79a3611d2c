//! Directories between the target and source arguments (`--dirbase`): created if missing, one component at a time and
//! never through a symbolic link (except with `--keep-dirlinks`).

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io;
use std::sync::Mutex;

use haul_base::sys::describe::describe;
use haul_base::sys::sync::lock;
use haul_proto::entry::{Entry, EntryContent, EntryLocation, EntryMetadata};
use haul_proto::overwrite_policy::{OverwritePolicy, OverwriteRefusal};
use haul_proto::path::Name;
use haul_proto::sync::{ChangeKind, ChangeReasons};
use haul_proto::wire::list_batch::ListedKinds;
use haul_proto::wire::write_options::ParentMetadata;
use rustix::fs::{FileType, Mode, fchmod};
use rustix::io::Errno;

use super::directories::{is_link, make_directory};
use crate::fs::remove_tree::remove_name;
use crate::fs::{Dir, FileStat, FollowLinks};
use crate::receiver::tree::TargetTree;
use crate::sys::refusal::refusal;

/// The most recent of these directories, by their names below the destination.
#[derive(Default)]
pub struct Below(Mutex<KnownBelow>);

#[derive(Default)]
struct KnownBelow {
    directories: HashMap<Box<[Name]>, DirectoryBelow>,
    /// The latest one: consecutive source arguments often share it.
    latest: Option<(Box<[Name]>, DirectoryBelow)>,
}

/// A directory above a source argument.
#[derive(Clone)]
pub struct DirectoryBelow {
    pub dir: Dir,
    /// Whether it was empty at first, and only this copy's entries are in it: no lookup is needed for a new one.
    pub fresh: bool,
    /// Whether it is new, and the source's metadata, if it gets that at the end.
    end: Option<(bool, EntryMetadata)>,
}

/// Most remembered directories: a list may name files in any number of them.
const KNOWN_MAX: usize = 4096;

impl TargetTree {
    /// The directory of these names below `root`. `above` is the metadata at the source, nearest first.
    pub(crate) fn directory_below(
        &self,
        root: &Dir,
        names: &[Name],
        above: &[EntryMetadata],
    ) -> io::Result<DirectoryBelow> {
        let mut known = lock(&self.parents.0);
        if let Some((_, latest)) = known.latest.as_ref().filter(|(below, _)| **below == *names) {
            return Ok(latest.clone());
        }
        let mut at = DirectoryBelow { dir: root.clone(), fresh: root.is_absent(), end: None };
        if let Some(base) = above.get(names.len()).filter(|_| self.takes_base()) {
            self.copy.report_base(root, base);
            let end = Some((self.copy.destination.is_new, *base));
            known.directories.entry(Box::default()).or_insert_with(|| DirectoryBelow { end, ..at.clone() });
        }
        for (depth, name) in names.iter().enumerate() {
            let below = &names[..=depth];
            at = match known.directories.get(below) {
                Some(parent) => parent.clone(),
                None => {
                    let is_walked = (0..=depth).any(|end| self.walked.contains(&names[..=end]));
                    let source = above.get(names.len() - 1 - depth).filter(|_| !is_walked);
                    let entered = self.enter_or_make(&at.dir, name, source)?;
                    if known.directories.len() >= KNOWN_MAX {
                        self.finish_all(&mut known);
                    }
                    known.directories.insert(below.into(), entered.clone());
                    entered
                }
            };
        }
        known.latest = Some((names.into(), at.clone()));
        Ok(at)
    }

    /// Has an offered directory get its metadata once more at the end, if other source arguments go into it.
    pub(crate) fn finish_again(&self, dir: &Dir, is_new: bool, meta: &EntryMetadata) {
        if self.walked.is_empty() || self.above_operands.is_empty() || self.removals.removes_only() {
            return;
        }
        let path = dir.path_bytes();
        let names = path.split(|byte| *byte == b'/').map(Name::new).collect::<Result<Box<[Name]>, _>>();
        if let Some(names) = names.ok().filter(|names| self.above_operands.contains(names)) {
            let at = DirectoryBelow { dir: dir.clone(), fresh: false, end: Some((is_new, *meta)) };
            lock(&self.parents.0).directories.insert(names, at);
        }
    }

    fn takes_base(&self) -> bool {
        self.copy.request.directory.parents == ParentMetadata::AllFromBase
    }

    /// Gives the directories their metadata, once all entries are complete.
    pub(crate) fn finish_parents(&self) {
        self.finish_all(&mut lock(&self.parents.0));
    }

    fn finish_all(&self, known: &mut KnownBelow) {
        let mut directories: Vec<_> = known.directories.drain().collect();
        // A change of a mode may close what is below.
        directories.sort_by_key(|(names, _)| Reverse(names.len()));
        for (_, DirectoryBelow { dir, end, .. }) in directories {
            let Some((is_new, meta)) = end.filter(|_| !self.copy.is_dry()) else { continue };
            if let Err(error) = self.metadata.complete_directory(&dir, is_new, &meta, None, true) {
                self.copy.fail(self.copy.destination.path(&dir.path_bytes()), describe(&error));
            }
        }
    }

    /// Reports a directory that gets the source's metadata, and returns whether it is new, and that.
    fn end_of(
        &self,
        parent: &Dir,
        name: &Name,
        is_new: bool,
        meta: Option<&EntryMetadata>,
    ) -> Option<(bool, EntryMetadata)> {
        let meta = *meta.filter(|_| self.copy.request.directory.parents.is_all())?;
        let place = EntryLocation::Operand(0);
        let entry = Entry { place, kind: EntryContent::Directory, meta, version: None, more: None };
        let there = match is_new {
            true => None,
            false => parent.fd().and_then(|dir| FileStat::at_name(&*dir, name, FollowLinks::Itself)).ok(),
        };
        // With --keep-dirlinks, what the link leads to stays as it is.
        if there.as_ref().is_some_and(|there| there.kind == FileType::Symlink) {
            return None;
        }
        let reasons = || {
            Some(self.metadata_reasons(parent, name, &entry, there.as_ref()?))
                .filter(|reasons| *reasons != ChangeReasons::default())
        };
        let change = if is_new { Some(ChangeKind::Made) } else { reasons().map(ChangeKind::Adjusted) };
        if let Some(change) = change {
            self.copy.report_item(|| parent.path_of(name.as_bytes()), (&entry).into(), change);
        }
        Some((is_new, meta))
    }

    /// Whether an entry that is no directory makes way for one with all metadata of the source, as below it.
    fn gives_way(&self, error: &io::Error) -> bool {
        let replaces = self.copy.overwrite_rules().overwrite == OverwritePolicy::Follow;
        let is_other = matches!(Errno::from_io_error(error), Some(Errno::NOTDIR | Errno::LOOP));
        replaces && is_other && self.copy.request.directory.parents.is_all()
    }

    /// Opens a directory above a source argument, through a link where those get nothing of the source's.
    fn enter_above(&self, parent: &Dir, name: &Name) -> io::Result<Dir> {
        match self.copy.request.directory.parents {
            ParentMetadata::Nothing => self.metadata.enter(parent, name).or_else(|error| match is_link(&error) {
                true => parent.linked_child(name),
                false => Err(error),
            }),
            ParentMetadata::Modes | ParentMetadata::All | ParentMetadata::AllFromBase => self.enter(parent, name),
        }
    }

    fn enter_or_make(&self, parent: &Dir, name: &Name, source: Option<&EntryMetadata>) -> io::Result<DirectoryBelow> {
        if self.copy.is_dry() {
            return match self.enter_above(parent, name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound || self.gives_way(&error) => {
                    let end = self.end_of(parent, name, true, source);
                    Ok(DirectoryBelow { dir: parent.absent_child(name), fresh: true, end })
                }
                Ok(dir) => Ok(DirectoryBelow { dir, fresh: false, end: self.end_of(parent, name, false, source) }),
                Err(error) => Err(explained(parent, name, error)),
            };
        }
        let source = source.filter(|_| self.copy.request.directory.parents != ParentMetadata::Nothing);
        // Private to the owner until it has its mode.
        let first_mode = if source.is_some() { 0o700 } else { 0o777 };
        let is_new = match make_directory(parent, name, first_mode) {
            Ok(()) => {
                self.quota.take_names(1).map_err(io::Error::other)?;
                true
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(error),
        };
        let dir = match self.enter_above(parent, name) {
            Err(error) if self.gives_way(&error) => {
                self.removals.back_up(parent, name)?;
                remove_name(parent, name, FileType::RegularFile)?;
                return self.enter_or_make(parent, name, source);
            }
            entered => entered.map_err(|error| explained(parent, name, error))?,
        };
        if let Some(mode) =
            self.metadata.requested_directory_mode().or(source.map(|source| self.metadata.mode_above(source.mode)))
            && is_new
        {
            // An entry will be created in it.
            refusal(fchmod(&*dir.fd()?, Mode::from_raw_mode(u32::from(mode | 0o700))))?;
        }
        self.metadata.commit_queue.queue_directory(parent)?;
        // A listed tree could contain an entry that is listed, too.
        let fresh = is_new && self.copy.request.listed == ListedKinds::Files;
        Ok(DirectoryBelow { dir, fresh, end: self.end_of(parent, name, is_new, source) })
    }
}

/// The source's metadata of the directories above a source argument.
pub(crate) fn parents(entry: &Entry) -> &[EntryMetadata] {
    entry.more.as_ref().map_or(&[], |more| &more.parents)
}

/// The error for an existing entry in the place of a directory, in the wording for entries.
fn explained(parent: &Dir, name: &Name, error: io::Error) -> io::Error {
    let there = parent.fd().and_then(|dir| FileStat::at_name(&*dir, name, FollowLinks::Itself));
    let refusal = match there.map(|stat| stat.kind) {
        Ok(FileType::Directory) | Err(_) => return error,
        Ok(FileType::Symlink) => OverwriteRefusal::LinkForDirectory,
        Ok(_) => OverwriteRefusal::NotDirectory,
    };
    io::Error::other(refusal.text())
}
