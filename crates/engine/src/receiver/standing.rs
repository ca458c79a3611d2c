//! What stands in an entry's place, and in what it differs from what the source has.

use haul_proto::entry::{Entry, Kind, Meta, Stamp};
use haul_proto::entry_extras::Attribute;
use haul_proto::overwrite_policy::Existing;
use haul_proto::path::Name;
use haul_proto::sync::Reasons;
use rustix::fs::{FileType, readlinkat};
use rustix::process::{getegid, geteuid, getgroups};
use std::io;
use std::sync::LazyLock;

use super::Target;
use crate::fs::attributes::read;
use crate::fs::meta::{SETGID, SETUID};
use crate::fs::{Dir, Links, Look};

/// What has a name, with what one look at it found, if it is there.
pub(super) struct Standing {
    pub existing: Existing,
    pub look: Option<Look>,
}

impl Standing {
    /// Nothing.
    pub const NOTHING: Self = Self { existing: Existing::Absent, look: None };

    /// Looks.
    pub fn at(dir: &Dir, name: &Name) -> io::Result<Self> {
        let dir = dir.fd()?;
        let look = match Look::at_name(&*dir, name, Links::Itself) {
            Ok(look) => look,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::NOTHING),
            Err(error) => return Err(error),
        };
        let existing = match look.kind {
            FileType::RegularFile => Existing::File { size: look.size, modified: look.meta.modified },
            FileType::Directory => Existing::Directory,
            FileType::Symlink => {
                let text = readlinkat(&*dir, name.as_bytes(), Vec::new())?;
                Existing::Symlink(text.into_bytes().into())
            }
            _ => look.node().map_or(Existing::Absent, Existing::Special),
        };
        Ok(Self { existing, look: Some(look) })
    }

    /// The same, where the time is taken for the source's.
    fn with_time(mut self, modified: Stamp) -> Self {
        if let Existing::File { modified: found, .. } = &mut self.existing {
            *found = modified;
        }
        self.look.iter_mut().for_each(|look| look.meta.modified = modified);
        self
    }

    /// In what something that is to be replaced differs.
    pub fn reasons(&self, entry: &Entry) -> Reasons {
        let none = Reasons::default();
        match (&entry.kind, &self.existing) {
            (Kind::File { size } | Kind::HardLink { size, .. }, Existing::File { size: there, modified }) => {
                let is_link = matches!(entry.kind, Kind::HardLink { .. });
                let differs = none
                    .and(Reasons::LINK, is_link)
                    .and(Reasons::SIZE, size != there)
                    .and(Reasons::TIME, entry.meta.modified != *modified);
                differs.and(Reasons::CONTENT, differs.is_empty())
            }
            (Kind::Symlink { .. }, Existing::Symlink(_)) => none.and(Reasons::CONTENT, true),
            _ => none.and(Reasons::KIND, true),
        }
    }
}

impl Target {
    /// What has a name. Its time is the source's where the file system cannot keep that more precisely.
    pub(super) fn standing(&self, dir: &Dir, name: &Name, entry: &Entry) -> io::Result<Standing> {
        let there = Standing::at(dir, name)?;
        let modified = entry.meta.modified;
        let is_same = there.look.is_some_and(|look| self.is_same_time(dir, modified, &look));
        Ok(if is_same { there.with_time(modified) } else { there })
    }

    /// In what the metadata of something that stays, or of a directory, differ from those that it gets.
    pub(super) fn metadata_reasons(&self, dir: &Dir, name: &Name, entry: &Entry, there: &Look) -> Reasons {
        let times = Reasons::default().and(Reasons::TIME, entry.meta.modified != there.meta.modified);
        let reasons = if self.request.preserve { times.and(owner_and_mode(&entry.meta, there), true) } else { times };
        reasons.and(Reasons::ATTRIBUTES, self.have_other_attributes(dir, name, entry, there))
    }

    fn have_other_attributes(&self, dir: &Dir, name: &Name, entry: &Entry, there: &Look) -> bool {
        let Some(wanted) = attributes(entry).filter(|_| self.keeps_attributes()) else { return false };
        let found = match there.kind {
            FileType::RegularFile => dir.open_file(name, Links::Itself).map(|(file, _)| read(file, self.request.kept)),
            FileType::Directory => dir.child(name).and_then(|child| Ok(read(&*child.fd()?, self.request.kept))),
            _ => return false,
        };
        // What cannot be read is put, and that says why it cannot be.
        let Ok(Ok(found)) = found else { return true };
        found.len() != wanted.len() || found.iter().any(|attribute| !wanted.contains(attribute))
    }
}

/// Extended attributes of what is offered, where they are kept.
pub(super) fn attributes(entry: &Entry) -> Option<&[Attribute]> {
    entry.more.as_ref()?.attributes.as_deref()
}

/// What this process cannot change is no difference: it would be one for ever.
fn owner_and_mode(meta: &Meta, there: &Look) -> Reasons {
    let Own { is_root, groups } = &*OWN;
    let is_own_group = || groups.contains(&meta.gid);
    let owner = meta.uid != there.meta.uid && meta.uid != u32::MAX && *is_root;
    let group = meta.gid != there.meta.gid && meta.gid != u32::MAX && (*is_root || is_own_group());
    let foreign = if *is_root { 0 } else { SETUID | SETGID };
    let mode = (meta.mode ^ there.meta.mode) & !foreign != 0 && there.kind != FileType::Symlink;
    Reasons::default().and(Reasons::OWNER, owner || group).and(Reasons::MODE, mode)
}

/// Whether this process is root.
pub(super) fn is_root() -> bool {
    OWN.is_root
}

/// As whom this process changes files: that does not change, and asking for each file would take as long as looking at it.
struct Own {
    is_root: bool,
    groups: Vec<u32>,
}

static OWN: LazyLock<Own> = LazyLock::new(|| {
    let others = getgroups().unwrap_or_default();
    let groups = std::iter::once(getegid()).chain(others).map(|group| group.as_raw()).collect();
    Own { is_root: geteuid().is_root(), groups }
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::testing::{name, write_file};
    use haul_proto::entry::Place;
    use haul_proto::ids::EntryId;

    fn entry(kind: Kind, meta: Meta) -> Entry {
        Entry { place: Place::Operand(0), kind, meta, version: None, more: None }
    }

    #[test]
    fn what_differs_is_named() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open_root(temp.path()).unwrap();
        write_file(&dir, "a", b"xyz");
        let there = Standing::at(&dir, &name("a")).unwrap();
        let same = there.look.unwrap().meta;
        let later = Meta { modified: Stamp { seconds: same.modified.seconds + 1, ..same.modified }, ..same };
        let reasons = |kind, meta| there.reasons(&entry(kind, meta));
        let all = |reasons: &[Reasons]| reasons.iter().fold(Reasons::default(), |all, one| all.and(*one, true));
        let (file, link) = (|size| Kind::File { size }, |size| Kind::HardLink { to: EntryId(0), size });
        for (kind, meta, expected) in [
            (file(3), same, &[Reasons::CONTENT][..]),
            (file(4), same, &[Reasons::SIZE]),
            (file(4), later, &[Reasons::SIZE, Reasons::TIME]),
            (link(3), later, &[Reasons::LINK, Reasons::TIME]),
            (Kind::Directory, same, &[Reasons::KIND]),
        ] {
            assert_eq!(reasons(kind.clone(), meta), all(expected), "{kind:?}");
        }
        assert_eq!(Standing::at(&dir, &name("b")).unwrap().existing, Existing::Absent);
    }

    #[test]
    fn what_cannot_be_changed_does_not_differ() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open_root(temp.path()).unwrap();
        write_file(&dir, "a", b"x");
        let look = Standing::at(&dir, &name("a")).unwrap().look.unwrap();
        let own = Meta { uid: u32::MAX, gid: u32::MAX, ..look.meta };
        assert!(owner_and_mode(&own, &look).is_empty());
        let other = Meta { mode: look.meta.mode ^ 1, ..own };
        assert_eq!(owner_and_mode(&other, &look), Reasons::MODE);
        let foreign = Meta { uid: look.meta.uid + 1, mode: look.meta.mode | SETUID, ..own };
        assert_eq!(owner_and_mode(&foreign, &look).is_empty(), !geteuid().is_root());
    }
}
