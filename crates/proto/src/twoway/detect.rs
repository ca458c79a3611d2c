//! Updates: how a scan of one side differs from the archive. The stamps of files decide without reading, as for
//! rsync(1) and Unison, or say that a digest must.

use std::borrow::Borrow;

use super::entry::{PathEntry, ReplicaContent, ReplicaEntry, TreePath};
use super::join::{AtPath, TreeJoin};
use super::merge::MetadataRules;
use crate::codec::wire_struct;
use crate::entry::Timestamp;
use crate::error::ProtocolError;
use crate::integrity::Digest;

wire_struct! {
    /// One side's update of a path since the base.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ReplicaUpdate {
        /// The path.
        pub path: TreePath,
        /// The entry of the base; `None` where there was none.
        pub archived: Option<ReplicaEntry>,
        /// The entry that was found; `None` where there is none any more.
        pub found: Option<ReplicaEntry>,
    }
}

impl AtPath for ReplicaUpdate {
    fn path(&self) -> &TreePath {
        &self.path
    }
}

/// What a scan shows of an entry that is not exactly as the archive has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DetectedChange {
    /// Contents or metadata differ. A new or changed file has no digest yet.
    Updated(ReplicaUpdate),
    /// A file of the same size with another stamp: read it, then call [`resolve`].
    Unsure(ReplicaUpdate),
    /// A file that was read and is unchanged; the next archive takes the new stamp.
    Restamped(PathEntry),
}

/// Joins a side's archive with its scan, both in the order of the tree. Unchanged entries are left out.
#[derive(Debug)]
pub struct DetectUpdates<A, S, T> {
    join: TreeJoin<A, S, PathEntry, T>,
    rules: MetadataRules,
}

impl<A, S, T> DetectUpdates<A, S, T> {
    /// Compares by `rules`.
    pub fn new(archive: A, scan: S, rules: MetadataRules) -> Self {
        Self { join: TreeJoin::new(archive, scan), rules }
    }
}

impl<A, S, T, E> Iterator for DetectUpdates<A, S, T>
where
    A: Iterator<Item = Result<PathEntry, E>>,
    S: Iterator<Item = Result<T, E>>,
    T: AtPath + Borrow<PathEntry>,
    E: From<ProtocolError>,
{
    type Item = Result<DetectedChange, E>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (archived, found) = match self.join.next()? {
                Ok(pair) => pair,
                Err(error) => return Some(Err(error)),
            };
            if let Some(change) = detect(archived, found.as_ref().map(Borrow::borrow), &self.rules) {
                return Some(Ok(change));
            }
        }
    }
}

/// How a scanned entry compares with that of the archive.
enum EntryComparison {
    Same,
    /// Only the metadata differ.
    SameFile,
    Unread,
    Other,
}

/// Copies the entries of changes alone.
fn detect(archived: Option<PathEntry>, found: Option<&PathEntry>, rules: &MetadataRules) -> Option<DetectedChange> {
    let comparison = match (&archived, found) {
        (Some(archived), Some(found)) => compare(&archived.entry, &found.entry, rules),
        _ => EntryComparison::Other,
    };
    let path = match comparison {
        EntryComparison::Same => return None,
        _ => archived.as_ref().or(found)?.path.clone(),
    };
    let (archived, mut found) = (archived.map(|archived| archived.entry), found.map(|found| found.entry.clone()));
    if let (EntryComparison::SameFile, Some(archived), Some(found)) = (&comparison, &archived, &mut found) {
        found.content = archived.content.clone();
    }
    let update = ReplicaUpdate { path, archived, found };
    Some(match comparison {
        EntryComparison::Unread => DetectedChange::Unsure(update),
        _ => DetectedChange::Updated(update),
    })
}

fn compare(archived: &ReplicaEntry, found: &ReplicaEntry, rules: &MetadataRules) -> EntryComparison {
    let has_same_metadata = rules.is_same(&archived.content, &archived.metadata, &found.metadata);
    let size = archived.content.file_size();
    if size.is_some() && size == found.content.file_size() {
        let is_same = !rules.digest_all && archived.stamp.is_some() && archived.stamp == found.stamp;
        return match (is_same, has_same_metadata) {
            (true, true) => EntryComparison::Same,
            (true, false) => EntryComparison::SameFile,
            (false, _) if archived.content.fingerprint().is_some() => EntryComparison::Unread,
            (false, _) => EntryComparison::Other,
        };
    }
    match found.content.is_same(&archived.content) == Some(true) && has_same_metadata {
        true => EntryComparison::Same,
        false => EntryComparison::Other,
    }
}

/// Decides about a [`DetectedChange::Unsure`] update, once the file was read. `None`: it could not be read.
pub fn resolve(mut update: ReplicaUpdate, digest: Option<Digest>, rules: &MetadataRules) -> DetectedChange {
    if let Some(ReplicaEntry { content: ReplicaContent::File { digest: found, .. }, .. }) = &mut update.found {
        *found = digest;
    }
    match (&update.archived, &update.found) {
        (Some(archived), Some(found)) if rules.is_same_entry(archived, found) => {
            let entry = ReplicaEntry { stamp: found.stamp, ..archived.clone() };
            DetectedChange::Restamped(PathEntry { path: update.path, entry })
        }
        _ => DetectedChange::Updated(update),
    }
}

/// What a look just before a change shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathLook {
    /// The path is as it was scanned.
    Untouched,
    /// Something changed: the next run sees it.
    Touched,
    /// A file that was written just before the scan: a further write may have left its stamp as it was. Only a digest, equal
    /// to the expected one, shows that it did not.
    Unsure,
}

/// Looks whether a path is still as it was scanned, just before a change. `expected` has this side's stamp, which
/// `docs/internals/twoway.md` says how to find. `scanned_at` is this side's clock at the start of its scan.
pub fn look(
    expected: Option<&ReplicaEntry>,
    now: Option<&ReplicaEntry>,
    scanned_at: Timestamp,
    rules: &MetadataRules,
) -> PathLook {
    let (expected, now) = match (expected, now) {
        (None, None) => return PathLook::Untouched,
        (Some(expected), Some(now)) => (expected, now),
        _ => return PathLook::Touched,
    };
    let stamp = expected.quick_identity().filter(|identity| Some(*identity) == now.quick_identity());
    let is_file = expected.content.file_size().is_some();
    let is_same = if is_file { stamp.is_some() } else { expected.content.is_same(&now.content) == Some(true) };
    if !is_same || !rules.is_same(&now.content, &expected.metadata, &now.metadata) {
        return PathLook::Touched;
    }
    let is_certain = stamp.is_none_or(|(_, stamp)| stamp.trusted(scanned_at).is_some());
    if is_certain { PathLook::Untouched } else { PathLook::Unsure }
}

#[cfg(test)]
mod tests {
    use super::super::archive::ArchiveError;
    use super::super::samples::{at, directory, file, path, symlink, with_mode};
    use super::*;

    fn detected(archive: &[PathEntry], scan: &[PathEntry]) -> Vec<DetectedChange> {
        // A walk has no digests.
        let scan = scan.iter().cloned().map(|mut entry| {
            if let ReplicaContent::File { digest, .. } = &mut entry.entry.content {
                *digest = None;
            }
            entry
        });
        let archive = archive.iter().cloned().map(Ok::<_, ArchiveError>);
        DetectUpdates::new(archive, scan.map(Ok), MetadataRules::ALL).map(Result::unwrap).collect()
    }

    #[test]
    fn unchanged_entries_are_left_out_unread() {
        let entries = [directory("d"), file("d/f", 1), symlink("l", "d/f")];
        assert_eq!(detected(&entries, &entries), []);
    }

    #[test]
    fn a_deletion_a_creation_and_another_target_are_updates() {
        let changes = detected(&[file("a", 1), symlink("l", "a")], &[file("b", 1), symlink("l", "b")]);
        let updated = changes.iter().map(|change| match change {
            DetectedChange::Updated(update) => (&update.path, update.archived.is_some(), update.found.is_some()),
            other => panic!("{other:?}"),
        });
        let paths = ["a", "b", "l"].map(path);
        let expected = [(&paths[0], true, false), (&paths[1], false, true), (&paths[2], true, true)];
        assert!(updated.eq(expected));
    }

    fn one_change(archived: &PathEntry, found: &PathEntry) -> DetectedChange {
        let changes = detected(std::slice::from_ref(archived), std::slice::from_ref(found));
        changes.into_iter().next().unwrap()
    }

    #[test]
    fn another_stamp_asks_for_a_digest_which_decides() {
        let archived = file("f", 1);
        let mut found = archived.clone();
        found.entry.stamp = found.entry.stamp.map(|stamp| super::super::entry::FileStamp { inode: 8, ..stamp });
        let DetectedChange::Unsure(update) = one_change(&archived, &found) else { panic!("sure") };
        assert_eq!(resolve(update.clone(), Some([1; 32]), &MetadataRules::ALL), DetectedChange::Restamped(found));
        for other in [Some([2; 32]), None] {
            assert!(matches!(resolve(update.clone(), other, &MetadataRules::ALL), DetectedChange::Updated(_)));
        }
    }

    #[test]
    fn a_file_without_a_trusted_stamp_is_read() {
        let mut archived = file("f", 1);
        archived.entry.stamp = None;
        assert!(matches!(one_change(&archived, &file("f", 1)), DetectedChange::Unsure(_)));
    }

    #[test]
    fn a_new_mode_of_a_file_that_was_not_written_keeps_the_digest() {
        let found = with_mode(file("f", 1), 0o600);
        let DetectedChange::Updated(update) = one_change(&file("f", 1), &found) else { panic!("no update") };
        assert_eq!(update.found, Some(found.entry));
    }

    #[test]
    fn a_look_just_before_sees_every_change() {
        let rules = MetadataRules::ALL;
        let look = |expected, now| look(expected, now, at(100), &rules);
        let expected = file("f", 1).entry;
        assert_eq!([look(Some(&expected), Some(&expected)), look(None, None)], [PathLook::Untouched; 2]);
        let mut touched = expected.clone();
        touched.stamp.as_mut().unwrap().changed = at(99);
        let unknown = ReplicaEntry { stamp: None, ..expected.clone() };
        let others = [touched.clone(), unknown, with_mode(file("f", 1), 0).entry, directory("f").entry];
        for other in others.iter().map(Some).chain([None]) {
            assert_eq!(look(Some(&expected), other), PathLook::Touched, "{other:?}");
            assert_eq!(look(other, Some(&expected)), PathLook::Touched, "{other:?}");
        }
        // The time of a directory changes with what is made in it.
        let directory = directory("d").entry;
        let moved_on = ReplicaEntry { stamp: touched.stamp, ..directory.clone() };
        assert_eq!(look(Some(&directory), Some(&moved_on)), PathLook::Untouched);
    }

    #[test]
    fn a_look_at_a_file_written_just_before_the_scan_shows_nothing() {
        let entry = file("f", 100).entry;
        assert_eq!(look(Some(&entry), Some(&entry), at(102), &MetadataRules::ALL), PathLook::Unsure);
        assert_eq!(look(Some(&entry), Some(&entry), at(103), &MetadataRules::ALL), PathLook::Untouched);
    }
}
