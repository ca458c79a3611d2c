//! The existing entry in the place of an offered one, and differences in metadata.

use std::io;

use haul_proto::entry::{Entry, EntryContent};
use haul_proto::path::Name;
use haul_proto::sync::ChangeReasons;
use rustix::fs::FileType;

use crate::fs::attributes::read;
use crate::fs::{Dir, FileStat, FollowLinks};
use crate::receiver::entry::ReceiverEntry;
use crate::receiver::place::existing_entry::{ExistingStat, attributes, is_root};
use crate::receiver::session::ReceiverSession;
use crate::receiver::tree::TargetTree;

impl TargetTree {
    /// Requests the lookups of the entries from `at` on that are in one directory, at the first of them, if lookups
    /// wait.
    pub(crate) fn look_ahead(&self, session: &ReceiverSession, entries: &[Entry], at: usize) {
        let Some((directory, _)) = entries[at].place.child().filter(|_| self.lookups.is_of_use()) else { return };
        let in_directory = |entry: &'_ Entry| entry.place.child().is_some_and(|(parent, _)| parent == directory);
        if at > 0 && in_directory(&entries[at - 1]) {
            return;
        }
        let Some(item) = session.read(|machine| machine.directory(directory)) else { return };
        let ReceiverEntry::Directory { dir, fresh: false, .. } = &*item else { return };
        let names = entries[at..].iter().take_while(|entry| in_directory(entry));
        self.lookups.request(dir, names.filter_map(|entry| Some(entry.place.child()?.1)));
    }

    /// The existing entry of a name. Takes its time for the source's if the file system cannot store that more
    /// precisely.
    pub(crate) fn existing_stat(&self, dir: &Dir, name: &Name, entry: &Entry) -> io::Result<ExistingStat> {
        // A file gets its name later, which checks again. Others are made at once, where an entry of this run may have
        // taken the name meanwhile: in another spelling, on a file system that folds case.
        let is_file = matches!(entry.kind, EntryContent::File { .. });
        let there = ExistingStat::of(dir, name, self.lookups.stat(dir, name, |early| is_file || early.is_ok()))?;
        let modified = entry.meta.modified;
        let is_same = there.stat.is_some_and(|stat| self.metadata.is_same_time(dir, modified, &stat));
        Ok(if is_same { there.with_time(modified) } else { there })
    }

    /// Differences in metadata between an existing entry and the source's, for an entry that stays, or a directory.
    pub(crate) fn metadata_reasons(&self, dir: &Dir, name: &Name, entry: &Entry, there: &FileStat) -> ChangeReasons {
        // Only the owner and root can set them. Without an option that asks for them, the difference stays.
        let is_settable = is_root() || there.is_owned_by_this_user() || self.copy.request.metadata.is_required;
        let has_other_time = entry.meta.modified != there.meta.modified;
        let has_other_time = has_other_time && self.copy.request.metadata.times.of(&entry.kind);
        let mut reasons = ChangeReasons::default().and(ChangeReasons::TIME, is_settable && has_other_time);
        if self.copy.request.metadata.rights.any() || self.copy.request.metadata.executability {
            // Other differences would remain for ever.
            let meta = self.metadata.settable(dir, name, &entry.meta, there);
            let has_other_owner = (meta.uid, meta.gid) != (there.meta.uid, there.meta.gid);
            let has_other_mode = is_settable && meta.mode != there.meta.mode && there.kind != FileType::Symlink;
            reasons = reasons.and(ChangeReasons::OWNER, has_other_owner).and(ChangeReasons::MODE, has_other_mode);
        }
        reasons.and(ChangeReasons::ATTRIBUTES, self.have_other_attributes(dir, name, entry, there))
    }

    fn have_other_attributes(&self, dir: &Dir, name: &Name, entry: &Entry, there: &FileStat) -> bool {
        let Some(wanted) = attributes(entry).filter(|_| self.metadata.keeps_attributes()) else { return false };
        let found = match there.kind {
            FileType::RegularFile => dir
                .open_file(name, FollowLinks::Itself)
                .map(|(file, _)| read(file, self.copy.request.metadata.preserve)),
            FileType::Directory => {
                dir.child(name).and_then(|child| Ok(read(&*child.fd()?, self.copy.request.metadata.preserve)))
            }
            _ => return false,
        };
        // Unreadable attributes are set anyway, which reports the error.
        let Ok(Ok(found)) = found else { return true };
        found.len() != wanted.len() || found.iter().any(|attribute| !wanted.contains(attribute))
    }
}
