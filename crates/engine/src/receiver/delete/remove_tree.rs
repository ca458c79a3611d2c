//! Removes an extraneous entry with everything below, children first. With a backup directory, everything except
//! directories is moved there instead.
//!
//! It uses open directories and single names, follows no link, crosses no mount point, and keeps its own stack. Memory
//! is bounded by the names in the directories on the current path.

use std::io;
use std::sync::Arc;
use std::vec::IntoIter;

use haul_base::sys::describe::describe;
use haul_proto::filter::FilterScope;
use haul_proto::path::Name;
use haul_proto::sync::ChangeKind;
use rustix::fs::FileType;

use crate::fs::remove_tree::remove_name;
use crate::fs::{Dir, each_name};
use crate::policy::audit::AuditAction;
use crate::receiver::copy::ReportedEntry;
use crate::receiver::delete::Removals;
use crate::receiver::place::error::FileError;
use crate::receiver::place::existing_entry::entry_kind;

/// An entry that is never removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptEntry {
    /// A source, which is reported.
    Source,
    /// An earlier copy or the backup directory.
    Copy,
}

/// Error for a mount point.
const MOUNTED: &str = "extraneous mount point, so it is kept\nunmount it, or skip it with --exclude";

/// End of removals: the limit is reached, or the copy is over.
#[derive(Debug)]
pub struct RemovalLimit;

/// Walks a tree to remove it.
pub struct TreeClearing<'t> {
    removals: &'t Removals,
    /// Only counts: removes and reports nothing.
    only_counts: bool,
    /// The top entry itself is neither reported nor counted.
    only_below: bool,
    /// A renamed directory with its earlier name, which reports use.
    renamed: Option<[Name; 2]>,
    /// Entries that may still be removed and are already counted; `None` to count each at its removal.
    reserved: Option<u64>,
    /// The number of counted entries.
    pub entries: u64,
    /// Some entries stay because filters or this copy's types exclude them.
    pub is_protected: bool,
}

/// A directory on the current path.
struct TreeLevel {
    dir: Dir,
    mount: Option<u64>,
    names: IntoIter<(Name, FileType)>,
    scope: Option<Arc<FilterScope>>,
    /// Some of its entries stay.
    stays: bool,
}

/// The result of entering a directory.
enum EnteredDirectory {
    Level(TreeLevel),
    Vanished,
    Stays,
}

impl<'t> TreeClearing<'t> {
    /// Removes and reports.
    pub fn new(removals: &'t Removals) -> Self {
        Self {
            removals,
            only_counts: false,
            only_below: false,
            renamed: None,
            reserved: None,
            entries: 0,
            is_protected: false,
        }
    }

    /// Only counts what would be removed.
    pub fn counting(removals: &'t Removals) -> Self {
        Self { only_counts: true, ..Self::new(removals) }
    }

    /// Treats the top entry as replaced, not removed.
    pub fn below(self) -> Self {
        Self { only_below: true, ..self }
    }

    /// Removes no more entries than were counted as removed before.
    pub fn within(self, reserved: Option<u64>) -> Self {
        Self { reserved, ..self }
    }

    /// Reports the entries of the directory `now` under its earlier name `before`.
    pub fn renamed(self, now: &Name, before: &Name) -> Self {
        Self { renamed: Some([now.clone(), before.clone()]), ..self }
    }

    /// Reported path of an entry, below the destination.
    fn path(&self, dir: &Dir, name: &Name) -> Vec<u8> {
        let path = dir.path_of(name.as_bytes());
        let Some([now, before]) = &self.renamed else { return path };
        let renamed = |part| if part == now.as_bytes() { before.as_bytes() } else { part };
        path.split(|byte| *byte == b'/').map(renamed).collect::<Vec<_>>().join(&b'/')
    }

    /// Removes the entry `name`, except for entries excluded in the directory of `scope` and below. Returns whether
    /// nothing is left, or would be left; failures are reported.
    pub fn clear(
        &mut self,
        dir: &Dir,
        name: &Name,
        kind: FileType,
        scope: Option<&Arc<FilterScope>>,
    ) -> Result<bool, RemovalLimit> {
        let own = scope.filter(|_| kind == FileType::Directory);
        let own = own.map(|above| Arc::new(FilterScope::below(Arc::clone(above), name.clone(), Vec::new())));
        self.clear_within(dir, name, kind, own)
    }

    /// As [`Self::clear`], with the scope of the directory `name` itself.
    pub fn clear_within(
        &mut self,
        dir: &Dir,
        name: &Name,
        kind: FileType,
        scope: Option<Arc<FilterScope>>,
    ) -> Result<bool, RemovalLimit> {
        if kind != FileType::Directory {
            return self.remove(dir, name, kind, !self.only_below);
        }
        let mount = dir.mount_id();
        let mut levels = match self.enter(dir, mount, name, scope) {
            EnteredDirectory::Level(level) => vec![level],
            EnteredDirectory::Vanished => return Ok(true),
            EnteredDirectory::Stays => return Ok(false),
        };
        while let Some(level) = levels.last_mut() {
            let Some((name, kind)) = level.names.next() else {
                let is_gone = self.leave(dir, &mut levels, name)?;
                match levels.last_mut() {
                    Some(above) => above.stays |= !is_gone,
                    None => return Ok(is_gone),
                }
                continue;
            };
            let is_directory = kind == FileType::Directory;
            let scope = level.scope.as_ref();
            let is_protected = self.removals.filter.leaves_out_of_removed(scope, &name, is_directory)
                || self.removals.protects_backup(&name)
                || self.only_below && self.removals.leaves_out_kind(kind);
            self.is_protected |= is_protected;
            if name.is_reserved() || is_protected {
                level.stays = true;
            } else if is_directory {
                let scope =
                    scope.map(|above| Arc::new(FilterScope::below(Arc::clone(above), name.clone(), Vec::new())));
                match self.enter(&level.dir, level.mount, &name, scope) {
                    EnteredDirectory::Level(next) => levels.push(next),
                    EnteredDirectory::Vanished => {}
                    EnteredDirectory::Stays => level.stays = true,
                }
            } else {
                level.stays |= !self.remove(&level.dir, &name, kind, true)? || self.removals.leaves_backup(&name);
            }
        }
        Ok(false)
    }

    fn enter(&self, dir: &Dir, mount: Option<u64>, name: &Name, scope: Option<Arc<FilterScope>>) -> EnteredDirectory {
        let stays = |text: &str| {
            if !self.only_counts {
                self.removals.copy.fail(self.removals.copy.destination.path(&self.path(dir, name)), text);
            }
            EnteredDirectory::Stays
        };
        let child = match self.removals.metadata.enter(dir, name) {
            Ok(child) => child,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return EnteredDirectory::Vanished,
            Err(error) => return stays(&describe(&error)),
        };
        match self.removals.extraneous.kept_entry(child.identity()) {
            Some(KeptEntry::Source) => return stays(&FileError::SourceInside.to_string()),
            Some(KeptEntry::Copy) => return EnteredDirectory::Stays,
            None => {}
        }
        if child.identity().device != dir.identity().device || child.mount_id() != mount {
            return stays(MOUNTED);
        }
        let scope = scope.map(|scope| self.removals.filter.scope_within(scope, &child)).transpose();
        match scope.and_then(|scope| Ok((sorted_names(&child)?, scope))) {
            Ok((names, scope)) => {
                EnteredDirectory::Level(TreeLevel { dir: child, mount, names: names.into_iter(), scope, stays: false })
            }
            Err(error) => stays(&describe(&error)),
        }
    }

    /// Removes the innermost directory if it is empty. `name`, in `dir`, is the top entry.
    fn leave(&mut self, dir: &Dir, levels: &mut Vec<TreeLevel>, name: &Name) -> Result<bool, RemovalLimit> {
        let Some(TreeLevel { dir: emptied, stays, .. }) = levels.pop() else { return Ok(false) };
        emptied.keep_parent_open();
        if stays || self.only_counts {
            self.removals.metadata.restore_mode(&emptied);
        }
        if stays {
            return Ok(false);
        }
        match (levels.last(), emptied.name()) {
            (Some(above), Some(own_name)) => self.remove(&above.dir, own_name, FileType::Directory, true),
            _ => self.remove(dir, name, FileType::Directory, !self.only_below),
        }
    }

    /// Removes an entry other than a directory, or an empty directory.
    fn remove(&mut self, dir: &Dir, name: &Name, kind: FileType, is_told: bool) -> Result<bool, RemovalLimit> {
        let removals = self.removals;
        if removals.extraneous.is_stopped() {
            return Err(RemovalLimit);
        }
        if removals.extraneous.keeps_files()
            && kind != FileType::Directory
            && removals.is_operand(dir, name, !self.only_counts)
        {
            return Ok(false);
        }
        self.entries += u64::from(is_told);
        if self.only_counts {
            return Ok(true);
        }
        if is_told {
            match &mut self.reserved {
                Some(0) => return Err(RemovalLimit),
                Some(left) => *left -= 1,
                None => removals.take_from_max()?,
            }
        }
        let widened = removals.metadata.widen(dir);
        let removed = match removals.copy.is_dry() {
            _ if widened.is_err() => widened.map(|()| true),
            true => Ok(true),
            false if kind == FileType::Directory => remove_name(dir, name, kind),
            false => removals.remove_or_back_up(dir, name),
        };
        match removed {
            Ok(true) if is_told => {
                let entry = ReportedEntry::without_source(entry_kind(kind));
                removals.copy.report_item(|| self.path(dir, name), entry, ChangeKind::Removed);
                return Ok(true);
            }
            Ok(true) if removals.copy.reporter.is_audited() && !removals.copy.is_dry() => {
                removals.copy.reporter.audit_change(
                    AuditAction::Removed,
                    entry_kind(kind),
                    &removals.copy.destination.path(&self.path(dir, name)),
                );
            }
            Ok(_) => {}
            Err(ref error) => {
                removals.copy.fail(removals.copy.destination.path(&self.path(dir, name)), describe(error))
            }
        }
        if is_told && !matches!(removed, Ok(true)) {
            match &mut self.reserved {
                Some(left) => *left += 1,
                None => removals.extraneous.give_back(),
            }
        }
        Ok(removed.is_ok())
    }
}

/// The names in a directory, in a reproducible order.
pub fn sorted_names(dir: &Dir) -> io::Result<Vec<(Name, FileType)>> {
    let mut names = Vec::new();
    each_name(dir, |name, kind| names.push((name.clone(), kind)))?;
    names.sort_unstable_by(|(one, _), (other, _)| one.as_bytes().cmp(other.as_bytes()));
    Ok(names)
}
