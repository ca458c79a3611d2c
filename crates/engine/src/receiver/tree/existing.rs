//! The existing entry in the place of an offered one, and differences in metadata.

use std::io;

use haul_proto::entry::Entry;
use haul_proto::path::Name;
use haul_proto::sync::ChangeReasons;
use rustix::fs::FileType;

use crate::fs::attributes::read;
use crate::fs::{Dir, FileStat, FollowLinks};
use crate::receiver::place::existing_entry::{ExistingStat, attributes, is_root};
use crate::receiver::tree::TargetTree;

impl TargetTree {
    /// The existing entry of a name. Takes its time for the source's if the file system cannot store that more
    /// precisely.
    pub(crate) fn existing_stat(&self, dir: &Dir, name: &Name, entry: &Entry) -> io::Result<ExistingStat> {
        let there = ExistingStat::at(dir, name)?;
        let modified = entry.meta.modified;
        let is_same = there.stat.is_some_and(|stat| self.metadata.is_same_time(dir, modified, &stat));
        Ok(if is_same { there.with_time(modified) } else { there })
    }

    /// Differences in metadata between an existing entry and the source's, for an entry that stays, or a directory.
    pub(crate) fn metadata_reasons(&self, dir: &Dir, name: &Name, entry: &Entry, there: &FileStat) -> ChangeReasons {
        // Only the owner and root can set them. Without an option that asks for them, the difference stays.
        let is_settable = is_root() || there.is_owned_by_this_user() || self.job.request.metadata.is_required;
        let has_other_time = entry.meta.modified != there.meta.modified;
        let mut reasons = ChangeReasons::default().and(ChangeReasons::TIME, is_settable && has_other_time);
        if self.job.request.metadata.owner_and_mode {
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
            FileType::RegularFile => {
                dir.open_file(name, FollowLinks::Itself).map(|(file, _)| read(file, self.job.request.metadata.preserve))
            }
            FileType::Directory => {
                dir.child(name).and_then(|child| Ok(read(&*child.fd()?, self.job.request.metadata.preserve)))
            }
            _ => return false,
        };
        // Unreadable attributes are set anyway, which reports the error.
        let Ok(Ok(found)) = found else { return true };
        found.len() != wanted.len() || found.iter().any(|attribute| !wanted.contains(attribute))
    }
}
