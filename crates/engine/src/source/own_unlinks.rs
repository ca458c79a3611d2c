//! Removal of a hard link updates the change time of the whole file. Updates by haul itself are recorded while another
//! name is in the copy, so that they do not count as changes.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, Weak};

use haul_base::sys::sync::lock;
use haul_proto::entry::Timestamp;
use haul_proto::path::Name;
use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};

use crate::fs::{FileIdentity, FileStat};
use crate::source::state::SourceState;

/// From this size on, records of files without entries are dropped.
const RECORDS_MIN: usize = 1024;

/// Change times of a file with hard links. Between them, only haul removed its names.
#[derive(Debug)]
pub struct OwnUnlinks(Mutex<UnlinkSpan>);

/// The first and the last of these change times.
#[derive(Debug, Clone, Copy)]
pub struct UnlinkSpan {
    first: Timestamp,
    last: Timestamp,
}

impl UnlinkSpan {
    fn contains(&self, changed: Timestamp) -> bool {
        (self.first..=self.last).contains(&changed)
    }

    /// The present state of the file. Takes the change time from the offer if only haul has updated it since.
    pub fn as_offered(&self, now: SourceState, offered: &SourceState) -> SourceState {
        let is_own = now.changed == self.last && self.contains(offered.changed);
        if is_own { SourceState { changed: offered.changed, ..now } } else { now }
    }

    /// Removes a name of the file; `before` is its present stat.
    pub fn unlink(&mut self, dir: impl AsFd, name: &Name, before: &FileStat) -> io::Result<()> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&dir, name.as_bytes(), flags, Mode::empty())?;
        unlinkat(dir, name.as_bytes(), AtFlags::empty())?;
        // On failure, the file's other names count as changed and are kept.
        if let Ok(after) = FileStat::at_fd(file)
            && (after.identity, after.size, after.meta.modified) == (before.identity, before.size, before.meta.modified)
            && before.changed == self.last
        {
            self.last = after.changed;
        }
        Ok(())
    }
}

impl OwnUnlinks {
    /// Calls `act` while no name of the file can be removed.
    pub fn without_removals<T>(&self, act: impl FnOnce(&mut UnlinkSpan) -> T) -> T {
        act(&mut lock(&self.0))
    }
}

/// Records of all files with hard links in the copy.
#[derive(Debug, Default)]
pub struct OwnUnlinkRecords(Mutex<HashMap<FileIdentity, Weak<OwnUnlinks>>>);

impl OwnUnlinkRecords {
    /// The record of this file; `None` if it has a single name.
    pub fn of(&self, stat: &FileStat) -> Option<Arc<OwnUnlinks>> {
        if stat.names < 2 {
            return None;
        }
        let mut records = lock(&self.0);
        let known = records.get(&stat.identity).and_then(Weak::upgrade);
        if let Some(known) = known.filter(|known| known.without_removals(|span| span.contains(stat.changed))) {
            return Some(known);
        }
        if records.len() >= RECORDS_MIN && records.len() == records.capacity() {
            records.retain(|_, record| record.strong_count() > 0);
            // The next cleanup happens at twice the size.
            let len = records.len();
            records.reserve(len);
        }
        let record = Arc::new(OwnUnlinks(Mutex::new(UnlinkSpan { first: stat.changed, last: stat.changed })));
        records.insert(stat.identity, Arc::downgrade(&record));
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::testing::{name, write_file};
    use crate::fs::{Dir, FollowLinks};

    #[test]
    fn names_share_a_record_until_somebody_else_changes_the_file() {
        let temp = tempfile::tempdir().unwrap();
        let root = Dir::open_root(temp.path()).unwrap();
        write_file(&root, "a", b"x");
        let stat = |text| FileStat::at_name(&*root.fd().unwrap(), &name(text), FollowLinks::Itself).unwrap();
        let records = OwnUnlinkRecords::default();
        assert!(records.of(&stat("a")).is_none(), "it has one name");
        ["b", "c"].iter().for_each(|other| std::fs::hard_link(temp.path().join("a"), temp.path().join(other)).unwrap());
        let found = stat("a");
        let record = records.of(&found).unwrap();
        record.without_removals(|span| span.unlink(&*root.fd().unwrap(), &name("c"), &found)).unwrap();
        // Found before or after the removal.
        let after = stat("a");
        assert!([&found, &after].iter().all(|stat| Arc::ptr_eq(&records.of(stat).unwrap(), &record)));
        let (offered, now) = (SourceState::from(&found), SourceState::from(&after));
        assert_eq!(record.without_removals(|span| span.as_offered(now, &offered)), offered);
        let by_others = SourceState { changed: Timestamp { seconds: now.changed.seconds + 1, nanoseconds: 0 }, ..now };
        assert_eq!(record.without_removals(|span| span.as_offered(by_others, &offered)), by_others);
        let changed = FileStat { changed: by_others.changed, ..after };
        assert!(!Arc::ptr_eq(&records.of(&changed).unwrap(), &record));
    }

    #[test]
    fn records_of_files_without_entries_are_dropped() {
        let temp = tempfile::tempdir().unwrap();
        let root = Dir::open_root(temp.path()).unwrap();
        write_file(&root, "a", b"x");
        let stat = FileStat::at_name(&*root.fd().unwrap(), &name("a"), FollowLinks::Itself).unwrap();
        let file = |inode| FileStat { names: 2, identity: FileIdentity { inode, ..stat.identity }, ..stat };
        let records = OwnUnlinkRecords::default();
        let kept: Vec<_> = (0..1000).map(|inode| records.of(&file(inode)).unwrap()).collect();
        (0..100_000).for_each(|inode| drop(records.of(&file(inode))));
        assert!(lock(&records.0).len() < 8 * RECORDS_MIN);
        assert!((0..1000).all(|inode| Arc::ptr_eq(&records.of(&file(inode as u64)).unwrap(), &kept[inode as usize])));
    }
}
