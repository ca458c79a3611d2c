//! The actions of a plan, at one end. Each looks just before, and is performed at once or not at all, so that every path
//! has its old or its final contents at every moment.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use haul_base::sys::describe::describe;
use haul_base::sys::random::random;
use haul_proto::checksum::hex;
use haul_proto::integrity::Digest;
use haul_proto::path::Name;
use haul_proto::twoway::attributes::ActionAttributes;
use haul_proto::twoway::entry::{FileStamp, ReplicaContent, ReplicaEntry, TreePath};
use haul_proto::twoway::plan::{ActionKind, TwowayAction, with_work_mode};
use haul_proto::wire::replica_session::ActionOutcome;
use rustix::fs::{
    AtFlags, DirEntry, FileType, Mode, OFlags, RenameFlags, linkat, mkdirat, openat, renameat, renameat_with, unlinkat,
};
use rustix::io::Errno;

use super::attributes::set_attributes;
use super::look::ReplicaView;
use super::root::{below, digest_of, entry_at, entry_of, now, stamp_of};
use super::scan::ReplicaFilter;
use crate::fs::meta::{apply, apply_to_node, apply_to_symlink, apply_with};
use crate::fs::{Dir, FileStat, FollowLinks, MetadataParts};
use crate::receiver::place::temp_files::{rename_new, rename_new_into};

/// Performs actions.
pub struct ActionPerformer<'v> {
    /// The replica.
    pub view: &'v mut ReplicaView,
    /// The directory with the files of copies.
    pub staged: Option<&'v Dir>,
    /// The directory for replaced and removed entries.
    pub backups: Option<&'v Dir>,
    /// What does not belong to the replica.
    pub filter: &'v ReplicaFilter,
}

/// Why a removed directory stays.
const EXCLUDED_INSIDE: &str = "it still has entries that the filters exclude";

/// An entry's directory and its name there.
type NamedEntry = (Dir, Name);

/// Why an action was not performed.
enum Refusal {
    /// The path changed since the scan.
    Touched,
    Failed(io::Error),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        match Errno::from_io_error(&error) {
            // Something came to the path, or into a directory, in the meantime.
            Some(Errno::EXIST | Errno::NOTEMPTY) => Self::Touched,
            _ => Self::Failed(error),
        }
    }
}

impl From<Errno> for Refusal {
    fn from(error: Errno) -> Self {
        io::Error::from(error).into()
    }
}

impl ActionPerformer<'_> {
    /// Performs an action.
    pub fn perform(&mut self, action: &TwowayAction) -> ActionOutcome {
        let linked = self.hold_linked(action);
        match self.try_perform(action) {
            Ok(digest) => {
                self.remember_kept(action);
                self.remember_linked(linked, action);
                let stamp = self.view.made.get(&action.path).copied().and_then(|stamp| stamp.trusted(now()));
                ActionOutcome::Done { stamp, digest }
            }
            Err(Refusal::Touched) => ActionOutcome::Skipped,
            Err(Refusal::Failed(error)) => ActionOutcome::Failed { text: describe(&error) },
        }
    }

    fn try_perform(&mut self, action: &TwowayAction) -> Result<Option<Digest>, Refusal> {
        if !self.view.is_untouched(&action.path, action.expected.as_ref(), false) {
            return Err(Refusal::Touched);
        }
        match (&action.attributes, &action.entry) {
            (ActionAttributes::Kept, _) => {}
            // They changed since the scan.
            (ActionAttributes::Given(list), Some(entry)) if list.digest() != entry.metadata.attributes => {
                return Err(Refusal::Touched);
            }
            (ActionAttributes::Given(_), Some(_)) => {}
            _ => return Err(Errno::INVAL.into()),
        }
        let place = self.view.root.parent_of(&action.path)?;
        match (&action.kind, &action.entry) {
            (ActionKind::MakeDirectory, Some(entry)) => self.make_directory(action, &place, &with_work_mode(entry)),
            (ActionKind::Copy { .. }, Some(entry)) => self.name_copy(action, &place, entry),
            (ActionKind::Link { to, .. }, Some(entry)) => self.link_file(action, &place, to, entry),
            (ActionKind::Move { from, source }, Some(entry)) => self.move_file(action, &place, (from, source), entry),
            (ActionKind::SetMetadata, Some(entry)) => {
                self.set_metadata(action, &place, entry)?;
                self.remember(&action.path, &place)?;
                Ok(None)
            }
            (ActionKind::Delete, None) => {
                self.save(action, &place)?;
                let is_directory = action.expected.as_ref().is_some_and(|entry| entry.content.is_directory());
                let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
                match unlinkat(&*place.0.fd()?, place.1.as_bytes(), flags) {
                    Err(Errno::NOTEMPTY) if self.has_only_excluded(&action.path, &place) => {
                        Err(Refusal::Failed(io::Error::other(EXCLUDED_INSIDE)))
                    }
                    removed => Ok(removed.map(|()| None)?),
                }
            }
            _ => Err(Errno::INVAL.into()),
        }
    }

    /// Whether the filters exclude all that is in a directory.
    fn has_only_excluded(&self, path: &TreePath, (dir, name): &NamedEntry) -> bool {
        let is_excluded = |entry: rustix::io::Result<DirEntry>| {
            let entry = entry.ok()?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                return Some(true);
            }
            let child = TreePath::child(Some(path), &Name::new(name).ok()?).ok()?;
            Some(self.filter.excludes(&child, entry.file_type() == FileType::Directory))
        };
        let entries = dir.child(name).and_then(|dir| Ok(rustix::fs::Dir::read_from(&*dir.fd()?)?));
        entries.is_ok_and(|mut entries| entries.all(|entry| is_excluded(entry) == Some(true)))
    }

    fn make_directory(
        &self,
        action: &TwowayAction,
        place: &NamedEntry,
        entry: &ReplicaEntry,
    ) -> Result<Option<Digest>, Refusal> {
        let dir = &place.0;
        self.save(action, place)?;
        let hidden = hidden_name()?;
        let fd = dir.fd()?;
        mkdirat(&*fd, hidden.as_bytes(), Mode::RWXU)?;
        let made = (dir.clone(), hidden);
        let placed =
            self.set_metadata(action, &made, entry).and_then(|()| put(&made, place, action.expected.is_some()));
        if placed.is_err() {
            let _ = unlinkat(&*fd, made.1.as_bytes(), AtFlags::REMOVEDIR);
        }
        placed?;
        Ok(None)
    }

    /// Gives a copied file its name.
    fn name_copy(
        &mut self,
        action: &TwowayAction,
        place: &NamedEntry,
        entry: &ReplicaEntry,
    ) -> Result<Option<Digest>, Refusal> {
        let staged = self.staged.ok_or(Errno::NOENT)?;
        let copy = below(staged, &action.path).map_err(|_| Refusal::Touched)?;
        // Its copy failed, or its source vanished: both were reported.
        let mut found = entry_at(&copy.0, &copy.1).map_err(|_| Refusal::Touched)?;
        let mut digest = None;
        if let ReplicaContent::File { digest: read, .. } = &mut found.content {
            digest = digest_of(&copy.0, &copy.1, None)?;
            *read = digest;
        }
        let is_unread = matches!(entry.content, ReplicaContent::File { digest: None, .. });
        let is_planned = match is_unread {
            true => found.content.file_size() == entry.content.file_size(),
            false => found.content.is_same(&entry.content) == Some(true),
        };
        if !is_planned {
            return Err(Refusal::Touched);
        }
        self.set_metadata(action, &copy, entry)?;
        self.save(action, place)?;
        put(&copy, place, action.expected.is_some())?;
        self.remember(&action.path, place)?;
        Ok(digest)
    }

    /// Gives a file that this run copied a further name.
    fn link_file(
        &mut self,
        action: &TwowayAction,
        place: &NamedEntry,
        to: &TreePath,
        entry: &ReplicaEntry,
    ) -> Result<Option<Digest>, Refusal> {
        let made = self.view.made.get(to).copied().ok_or(Refusal::Touched)?;
        let expected = self.view.linked.get(&made.inode).map_or(Some(made), |linked| linked.now.stamp);
        let first = self.view.root.parent_of(to)?;
        if entry_at(&first.0, &first.1)?.stamp != expected {
            return Err(Refusal::Touched);
        }
        let hidden = (place.0.clone(), hidden_name()?);
        keep(&first, &hidden)?;
        let placed = self.set_metadata(action, &hidden, entry).and_then(|()| {
            self.save(action, place)?;
            put(&hidden, place, action.expected.is_some())
        });
        if placed.is_err() {
            let _ = unlinkat(&*hidden.0.fd()?, hidden.1.as_bytes(), AtFlags::empty());
        }
        placed?;
        self.remember(&action.path, place)?;
        Ok(None)
    }

    fn move_file(
        &mut self,
        action: &TwowayAction,
        place: &NamedEntry,
        (from, source): (&TreePath, &ReplicaEntry),
        entry: &ReplicaEntry,
    ) -> Result<Option<Digest>, Refusal> {
        if !self.view.is_untouched(from, Some(source), false) {
            return Err(Refusal::Touched);
        }
        let old = self.view.root.parent_of(from)?;
        put(&old, place, false)?;
        self.set_metadata(action, place, entry)?;
        self.remember(&action.path, place)?;
        Ok(None)
    }

    /// Holds the file that an action changes, moves or takes a name from, if it has several names: its other names get a
    /// new stamp, too.
    fn hold_linked(&self, action: &TwowayAction) -> Option<(OwnedFd, FileStamp)> {
        let path = if let ActionKind::Move { from, .. } = &action.kind { from } else { &action.path };
        let (dir, name) = self.view.root.parent_of(path).ok()?;
        linked_file(&dir, &name)
    }

    fn remember_linked(&mut self, held: Option<(OwnedFd, FileStamp)>, action: &TwowayAction) {
        let is_set =
            matches!((&action.kind, &action.attributes), (ActionKind::SetMetadata, ActionAttributes::Given(_)));
        let attributes = action.entry.as_ref().filter(|_| is_set).map(|entry| entry.metadata.attributes);
        let made = self.view.root.parent_of(&action.path).ok().and_then(|(dir, name)| linked_file(&dir, &name));
        for (file, before) in held.into_iter().chain(made) {
            if let Ok(stat) = FileStat::at_fd(&file) {
                self.view.changed_linked(before, entry_of(&stat, Box::default()), attributes);
            }
        }
    }

    /// Returns the trusted stamp that the actions of a batch left of a file: later ones may have changed another name.
    pub fn last_stamp(&self, stamp: FileStamp) -> Option<FileStamp> {
        let linked = self.view.linked.get(&stamp.inode);
        linked.map_or(Some(stamp), |linked| linked.now.stamp).and_then(|stamp| stamp.trusted(now()))
    }

    /// Remembers the stamp that an action left.
    fn remember(&mut self, path: &TreePath, (dir, name): &NamedEntry) -> io::Result<()> {
        let stamp = entry_at(dir, name)?.stamp;
        self.view.made.extend(stamp.map(|stamp| (path.clone(), stamp)));
        Ok(())
    }

    /// Remembers the stamp of a file that an action kept: its change time is new.
    fn remember_kept(&mut self, action: &TwowayAction) {
        let Some(kept) = &action.keep_as else { return };
        // Without it, the look before the copy refuses the file, and the next run copies it.
        let _ = self.view.root.parent_of(kept).and_then(|place| self.remember(kept, &place));
    }

    /// Keeps what is about to go: under another name, and among the backups. Nothing keeps a directory, which is empty.
    fn save(&self, action: &TwowayAction, place: &NamedEntry) -> Result<(), Refusal> {
        if action.expected.as_ref().is_none_or(|entry| entry.content.is_directory()) {
            return Ok(());
        }
        if let Some(kept) = &action.keep_as {
            keep(place, &self.view.root.parent_of(kept)?)?;
        }
        if let Some(backups) = self.backups {
            let target = made_below(backups, &action.path)?;
            // A backup of an earlier run gives way.
            match unlinkat(&*target.0.fd()?, target.1.as_bytes(), AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(Refusal::Failed(error.into())),
            }
            keep(place, &target)?;
        }
        Ok(())
    }

    fn set_metadata(
        &self,
        action: &TwowayAction,
        (dir, name): &NamedEntry,
        entry: &ReplicaEntry,
    ) -> Result<(), Refusal> {
        let (meta, rules) = (&entry.metadata.basic, &self.view.rules);
        let times = rules.modified && !entry.content.is_directory();
        let keep =
            MetadataParts { owner: rules.owner, group: rules.owner, mode: rules.mode.then_some(meta.mode), times };
        let fd = dir.fd()?;
        let mut attributes = Ok(());
        let applied = match &entry.content {
            ReplicaContent::Symlink { .. } => apply_to_symlink(&*fd, name, meta, keep)?,
            ReplicaContent::Special(_) => apply_to_node(&*fd, name, meta, keep)?,
            ReplicaContent::Directory | ReplicaContent::File { .. } => {
                let file = dir.open_unseen(name, FollowLinks::Itself)?;
                // An access control list changes the mode, and a new owner removes capabilities.
                apply_with(&file, meta, keep, || {
                    if let ActionAttributes::Given(list) = &action.attributes {
                        attributes = set_attributes(&file, list, rules);
                    }
                })?
            }
        };
        attributes.map_err(Refusal::Failed)?;
        match applied.refused_mode.or(applied.refused_time) {
            Some(error) => Err(Refusal::Failed(error.into())),
            None => Ok(()),
        }
    }
}

/// Opens a file with several names, without access to its contents.
fn linked_file(dir: &Dir, name: &Name) -> Option<(OwnedFd, FileStamp)> {
    let dir = dir.fd().ok()?;
    let stat = FileStat::at_name(&*dir, name, FollowLinks::Itself).ok()?;
    if stat.kind != FileType::RegularFile || stat.names < 2 {
        return None;
    }
    let file = openat(&*dir, name.as_bytes(), OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let stat = FileStat::at_fd(&file).ok()?;
    Some((file, stamp_of(&stat)))
}

/// A name that no scan sees.
fn hidden_name() -> io::Result<Name> {
    Ok(Name::reserved(&hex(&random::<12>()?), "part"))
}

/// Renames an entry to its place, without replacing anything, or in place of what is there. A directory that is replaced
/// has to be empty.
fn put(from: &NamedEntry, to: &NamedEntry, replaces: bool) -> Result<(), Refusal> {
    let (old, new) = (from.0.fd()?, to.0.fd()?);
    let (old_name, new_name) = (from.1.as_bytes(), to.1.as_bytes());
    if !replaces {
        return Ok(rename_new_into(&old, &from.1, &new, &to.1)?);
    }
    match renameat(&*old, old_name, &*new, new_name) {
        Err(Errno::ISDIR | Errno::NOTDIR) => {}
        renamed => return Ok(renamed?),
    }
    // A directory in place of a file, or a file in place of an empty directory.
    renameat_with(&*old, old_name, &*new, new_name, RenameFlags::EXCHANGE)?;
    let kind = FileStat::at_name(&*old, &from.1, FollowLinks::Itself)?.kind;
    let flags = if kind == FileType::Directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
    match unlinkat(&*old, old_name, flags) {
        Ok(()) => Ok(()),
        Err(error) => {
            renameat_with(&*old, old_name, &*new, new_name, RenameFlags::EXCHANGE)?;
            Err(error.into())
        }
    }
}

/// Gives an entry a further name: as a hard link, else as a copy. Whatever has the name stays.
fn keep(from: &NamedEntry, to: &NamedEntry) -> Result<(), Refusal> {
    let (old, new) = (from.0.fd()?, to.0.fd()?);
    match linkat(&*old, from.1.as_bytes(), &*new, to.1.as_bytes(), AtFlags::empty()) {
        Ok(()) => return Ok(()),
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK | Errno::XDEV | Errno::ACCESS) => {}
        Err(error) => return Err(error.into()),
    }
    let entry = entry_at(&from.0, &from.1)?;
    let copied = match &entry.content {
        ReplicaContent::File { .. } => copy_file(from, &new, &to.1, &entry),
        ReplicaContent::Symlink { points_to } => Ok(rustix::fs::symlinkat(&**points_to, &*new, to.1.as_bytes())?),
        // Nothing would be lost.
        ReplicaContent::Directory | ReplicaContent::Special(_) => Ok(()),
    };
    copied.map_err(Refusal::from)
}

fn copy_file(from: &NamedEntry, to: &OwnedFd, name: &Name, entry: &ReplicaEntry) -> io::Result<()> {
    let (source, _) = from.0.open_file(&from.1, FollowLinks::Itself)?;
    let hidden = hidden_name()?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let target = openat(to, hidden.as_bytes(), flags, Mode::RUSR | Mode::WUSR)?;
    let (mut reader, mut writer) = (File::from(source), File::from(target));
    let copied = io::copy(&mut reader, &mut writer).and_then(|_| {
        let mode = Some(entry.metadata.basic.mode);
        let _ = apply(&writer, &entry.metadata.basic, MetadataParts { owner: true, group: true, mode, times: true })?;
        rename_new(to, &hidden, name).map_err(io::Error::from)
    });
    if copied.is_err() {
        let _ = unlinkat(to, hidden.as_bytes(), AtFlags::empty());
    }
    copied
}

/// Makes the directories of a path below `root`, for this user alone, and returns its location.
fn made_below(root: &Dir, path: &TreePath) -> io::Result<NamedEntry> {
    let (above, _) = path.split_name();
    for end in above.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at) {
        let directory = TreePath::new(&above[..end]).map_err(|_| Errno::INVAL)?;
        let (dir, name) = below(root, &directory)?;
        match mkdirat(&*dir.fd()?, name.as_bytes(), Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    below(root, path)
}

#[cfg(test)]
#[path = "act_tests.rs"]
mod tests;
