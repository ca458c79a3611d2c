//! Metadata that cannot be set: no reason to lose the data. The entry gets its name with what could be set. Each kind
//! is reported once, with a count, at the copy's end: as a failure where the user asked for it by an option, else as a
//! warning. Calls without effect are found by reading back, until each file system has proved itself once.

use std::collections::HashSet;
use std::fmt::Display;
use std::io;
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use haul_base::sys::describe::describe;
use haul_base::sys::sync::lock;
use haul_proto::entry::EntryMetadata;
use haul_proto::path::{Name, escape};
use haul_proto::timestamps::may_be_stored;
use haul_proto::wire::report::WorkerMessage;
use rustix::io::Errno;

use crate::fs::meta::AppliedMetadata;
use crate::fs::{Dir, FileStat, MetadataParts};
use crate::receiver::metadata::MetadataWriter;
use crate::receiver::place::target_path::TargetPath;

/// Why metadata of an entry stays as it is, where no call failed.
const WITHOUT_EFFECT: &str = "this file system ignores it";
/// The permissions of all users except the owner.
const OTHERS: u16 = 0o077;

/// A kind of metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetadataKind {
    Mode,
    Time,
    Attributes,
    /// A mode that gives others more than the wanted one does.
    Privacy,
}

/// An entry whose metadata is set: the one of this name in the directory, or the directory itself.
#[derive(Clone, Copy)]
pub struct EntryPlace<'a> {
    pub dir: &'a Dir,
    pub name: Option<&'a Name>,
    /// Whether the name may belong to an entry that is replaced.
    pub replaces: bool,
    /// Whether a refusal is reported.
    pub is_reported: bool,
}

impl<'a> EntryPlace<'a> {
    /// An entry in a directory.
    pub fn in_directory(dir: &'a Dir, name: &'a Name) -> Self {
        Self { dir, name: Some(name), replaces: false, is_reported: true }
    }

    /// A directory.
    pub fn of_directory(dir: &'a Dir) -> Self {
        Self { dir, name: None, replaces: false, is_reported: true }
    }

    /// A file.
    pub fn of_file(path: &'a TargetPath) -> Self {
        Self { replaces: path.replaces, ..Self::in_directory(&path.dir, &path.name) }
    }
}

/// Metadata that could not be set in this copy.
#[derive(Default)]
pub struct UnsetMetadata {
    kinds: [Mutex<Option<UnsetKind>>; MetadataKind::ALL.len()],
    /// Devices whose file systems keep modes and times.
    proven: Mutex<HashSet<u64>>,
    /// A file system without owners was reported.
    is_owner_reported: AtomicBool,
}

/// The first entry that lacks a kind of metadata, and the number of the others.
struct UnsetKind {
    path: Vec<u8>,
    why: String,
    others: u64,
}

impl MetadataKind {
    const ALL: [Self; 4] = [Self::Mode, Self::Time, Self::Attributes, Self::Privacy];

    /// What is reported of an entry.
    fn report(self) -> &'static str {
        match self {
            Self::Mode => "complete, but the mode cannot be set",
            Self::Time => "complete, but the time cannot be set",
            Self::Attributes => "complete, but not all extended attributes can be set",
            Self::Privacy => "open to more users than the mode permits",
        }
    }
}

impl UnsetKind {
    fn text(&self, kind: MetadataKind) -> String {
        let others = match self.others {
            0 => String::new(),
            1 => ", as in 1 other entry".to_owned(),
            others => format!(", as in {others} other entries"),
        };
        format!("{}{others}: {}", kind.report(), self.why)
    }
}

impl MetadataWriter {
    /// Whether a kind of metadata that cannot be set is a failure: the user asked for it by an option.
    fn is_required(&self, kind: MetadataKind) -> bool {
        match kind {
            MetadataKind::Mode | MetadataKind::Time => self.copy.request.metadata.is_required,
            MetadataKind::Attributes => true,
            MetadataKind::Privacy => false,
        }
    }

    /// Records metadata that could not be set. Returns whether the entry counts as complete.
    pub(super) fn record_unset(&self, place: EntryPlace<'_>, kind: MetadataKind, why: impl Display) -> bool {
        let is_required = self.is_required(kind);
        if place.is_reported {
            let mut unset = lock(&self.unset.kinds[kind as usize]);
            match &mut *unset {
                Some(unset) => unset.others += 1,
                None => {
                    let path = self.copy.destination.path(&place.path());
                    *unset = Some(UnsetKind { path, why: why.to_string(), others: 0 });
                }
            }
        }
        !is_required
    }

    /// Records refused modes and times. Returns whether the entry counts as complete.
    pub(crate) fn record_refusals(&self, place: EntryPlace<'_>, applied: &AppliedMetadata) -> bool {
        let record = |refused: Option<Errno>, kind| {
            refused.is_none_or(|error| self.record_unset(place, kind, describe(&error.into())))
        };
        let has_mode = record(applied.refused_mode, MetadataKind::Mode);
        record(applied.refused_time, MetadataKind::Time) && has_mode
    }

    /// Reads metadata back that were set without an error, unless the file system has proved to keep them. `wanted` has
    /// the mode that the file should have. Returns whether the entry counts as complete.
    pub(super) fn check_effect(
        &self,
        place: EntryPlace<'_>,
        fd: impl AsFd,
        wanted: &EntryMetadata,
        keep: MetadataParts,
        applied: &AppliedMetadata,
    ) -> io::Result<bool> {
        let device = place.dir.identity().device;
        if lock(&self.unset.proven).contains(&device) {
            return Ok(true);
        }
        let there = FileStat::at_fd(fd)?.meta;
        let has_mode = (there.mode ^ wanted.mode) & 0o777 == 0;
        let has_time = there.modified == wanted.modified || may_be_stored(wanted.modified, there.modified);
        let is_private = there.mode & !wanted.mode & OTHERS == 0;
        if has_mode && has_time {
            lock(&self.unset.proven).insert(device);
            return Ok(true);
        }
        let mut is_complete = true;
        if keep.mode.is_some() && !has_mode && applied.refused_mode.is_none() {
            is_complete &= self.record_unset(place, MetadataKind::Mode, WITHOUT_EFFECT);
        }
        if keep.times && !has_time && applied.refused_time.is_none() {
            is_complete &= self.record_unset(place, MetadataKind::Time, WITHOUT_EFFECT);
        }
        if !is_private {
            let why = format!("this file system shows mode {:03o} instead of {:03o}", there.mode, wanted.mode & 0o777);
            is_complete &= self.record_unset(place, MetadataKind::Privacy, why);
        }
        Ok(is_complete)
    }

    /// Reports once that files keep another owner than root wanted to set.
    pub(super) fn report_kept_owner(&self, place: EntryPlace<'_>, owner: u32, wanted: u32) {
        if owner == wanted || wanted == u32::MAX || self.unset.is_owner_reported.swap(true, Ordering::Relaxed) {
            return;
        }
        let path = escape(&self.copy.destination.path(&place.path()));
        let text =
            format!("{path}: this file system sets no owners, so files stay with user {owner} instead of {wanted}");
        self.copy.reporter.send(&WorkerMessage::Warning { text });
    }

    /// Reports what could not be set, each kind once.
    pub(crate) fn report_unset(&self) {
        for kind in MetadataKind::ALL {
            let Some(unset) = lock(&self.unset.kinds[kind as usize]).take() else { continue };
            let text = unset.text(kind);
            if self.is_required(kind) {
                self.copy.fail(unset.path, text);
            } else {
                let text = format!("{}: {text}", escape(&unset.path));
                self.copy.reporter.send(&WorkerMessage::Warning { text });
            }
        }
    }
}

impl EntryPlace<'_> {
    fn path(&self) -> Vec<u8> {
        self.name.map_or_else(|| self.dir.path_bytes(), |name| self.dir.path_of(name.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_counts_the_other_entries_and_ends_with_the_remedy() {
        let text =
            |others, why: &str| UnsetKind { path: Vec::new(), why: why.to_owned(), others }.text(MetadataKind::Mode);
        assert_eq!(text(0, "refused"), "complete, but the mode cannot be set: refused");
        assert_eq!(text(1, "refused"), "complete, but the mode cannot be set, as in 1 other entry: refused");
        let last = "complete, but the mode cannot be set, as in 2 other entries: refused\nuse another account";
        assert_eq!(text(2, "refused\nuse another account"), last);
    }
}
