//! The existing entry in the place of an offered one, and the differences between them.

use std::io;
use std::sync::LazyLock;

use haul_proto::entry::{Entry, EntryContent, EntryKind, Timestamp};
use haul_proto::entry_extras::ExtendedAttribute;
use haul_proto::overwrite_policy::ExistingEntry;
use haul_proto::path::Name;
use haul_proto::sync::ChangeReasons;
use rustix::fs::{FileType, readlinkat};
use rustix::process::{getegid, geteuid, getgroups};
use rustix::thread::{CapabilitySet, capabilities};

use crate::fs::{Dir, FileStat, FollowLinks};

/// The existing entry of a name, with its stat result.
pub(crate) struct ExistingStat {
    pub existing: ExistingEntry,
    pub stat: Option<FileStat>,
}

impl ExistingStat {
    /// No existing entry.
    pub const NOTHING: Self = Self { existing: ExistingEntry::Absent, stat: None };

    /// Stats the entry.
    pub fn at(dir: &Dir, name: &Name) -> io::Result<Self> {
        Self::of(dir, name, FileStat::at_name(&*dir.fd()?, name, FollowLinks::Itself))
    }

    /// With the result of its stat.
    pub fn of(dir: &Dir, name: &Name, stat: io::Result<FileStat>) -> io::Result<Self> {
        let stat = match stat {
            Ok(stat) => stat,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::NOTHING),
            Err(error) => return Err(error),
        };
        let existing = match stat.kind {
            FileType::RegularFile => ExistingEntry::File { size: stat.size, modified: stat.meta.modified },
            FileType::Directory => ExistingEntry::Directory,
            FileType::Symlink => {
                let text = readlinkat(&*dir.fd()?, name.as_bytes(), Vec::new())?;
                ExistingEntry::Symlink(text.into_bytes().into())
            }
            _ => stat.node().map_or(ExistingEntry::Absent, ExistingEntry::Special),
        };
        Ok(Self { existing, stat: Some(stat) })
    }

    /// Replaces the time, to make it equal the source's.
    pub(crate) fn with_time(mut self, modified: Timestamp) -> Self {
        if let ExistingEntry::File { modified: found, .. } = &mut self.existing {
            *found = modified;
        }
        self.stat.iter_mut().for_each(|stat| stat.meta.modified = modified);
        self
    }

    /// Differences of an entry to be replaced.
    pub fn reasons(&self, entry: &Entry) -> ChangeReasons {
        let none = ChangeReasons::default();
        match (&entry.kind, &self.existing) {
            (
                EntryContent::File { size } | EntryContent::HardLink { size, .. },
                ExistingEntry::File { size: there, modified },
            ) => {
                let is_link = matches!(entry.kind, EntryContent::HardLink { .. });
                let differs = none
                    .and(ChangeReasons::LINK, is_link)
                    .and(ChangeReasons::SIZE, size != there)
                    .and(ChangeReasons::TIME, entry.meta.modified != *modified);
                differs.and(ChangeReasons::CONTENT, differs.is_empty())
            }
            (EntryContent::Symlink { .. }, ExistingEntry::Symlink(_)) => none.and(ChangeReasons::CONTENT, true),
            (EntryContent::Node(_), ExistingEntry::Special(_)) => {
                let has_time = self.stat.is_none_or(|stat| stat.meta.modified == entry.meta.modified);
                none.and(ChangeReasons::CONTENT, true).and(ChangeReasons::TIME, !has_time)
            }
            _ => none.and(ChangeReasons::KIND, true),
        }
    }
}

/// Extended attributes of an offered entry, where they are preserved.
pub(crate) fn attributes(entry: &Entry) -> Option<&[ExtendedAttribute]> {
    entry.more.as_ref()?.attributes.as_deref()
}

/// Whether this process is root.
pub(crate) fn is_root() -> bool {
    OWN.is_root
}

/// The rights of this process, cached as its user is.
struct ProcessIdentity {
    is_root: bool,
    sets_capabilities: bool,
    groups: Vec<u32>,
}

static OWN: LazyLock<ProcessIdentity> = LazyLock::new(|| {
    let others = getgroups().unwrap_or_default();
    let groups = std::iter::once(getegid()).chain(others).map(|group| group.as_raw()).collect();
    let sets_capabilities = capabilities(None).map_or(true, |sets| sets.effective.contains(CapabilitySet::SETFCAP));
    ProcessIdentity { is_root: geteuid().is_root(), sets_capabilities, groups }
});

/// The entry kind of this file type.
pub(crate) fn entry_kind(kind: FileType) -> EntryKind {
    match kind {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => EntryKind::Symlink,
        _ => EntryKind::Special,
    }
}

/// Whether this process may give capabilities to files.
pub(crate) fn sets_capabilities() -> bool {
    OWN.sets_capabilities
}

/// Whether this process is a member of a group.
pub(crate) fn is_own_group(group: u32) -> bool {
    OWN.groups.contains(&group)
}

#[cfg(test)]
mod tests {
    use haul_proto::entry::{EntryLocation, EntryMetadata};
    use haul_proto::ids::EntryId;

    use super::*;
    use crate::fs::testing::{name, write_file};

    fn entry(kind: EntryContent, meta: EntryMetadata) -> Entry {
        Entry { place: EntryLocation::Operand(0), kind, meta, version: None, more: None }
    }

    #[test]
    fn differences_are_named() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open_root(temp.path()).unwrap();
        write_file(&dir, "a", b"xyz");
        let there = ExistingStat::at(&dir, &name("a")).unwrap();
        let same = there.stat.unwrap().meta;
        let later =
            EntryMetadata { modified: Timestamp { seconds: same.modified.seconds + 1, ..same.modified }, ..same };
        let reasons = |kind, meta| there.reasons(&entry(kind, meta));
        let all =
            |reasons: &[ChangeReasons]| reasons.iter().fold(ChangeReasons::default(), |all, one| all.and(*one, true));
        let (file, link) = (|size| EntryContent::File { size }, |size| EntryContent::HardLink { to: EntryId(0), size });
        for (kind, meta, expected) in [
            (file(3), same, &[ChangeReasons::CONTENT][..]),
            (file(4), same, &[ChangeReasons::SIZE]),
            (file(4), later, &[ChangeReasons::SIZE, ChangeReasons::TIME]),
            (link(3), later, &[ChangeReasons::LINK, ChangeReasons::TIME]),
            (EntryContent::Directory, same, &[ChangeReasons::KIND]),
        ] {
            assert_eq!(reasons(kind.clone(), meta), all(expected), "{kind:?}");
        }
        assert_eq!(ExistingStat::at(&dir, &name("b")).unwrap().existing, ExistingEntry::Absent);
    }
}
