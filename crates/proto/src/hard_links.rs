//! Files with further hard links to come, and their share of [`LINKED_FILES_BYTES_MAX`]. Both ends count alike, in the
//! order of the offers. A source that respects the limit never exceeds it at the target.

use crate::ids::{ByEntry, EntryId};
use crate::limits::{LINKED_DIRECTORY_BYTES, LINKED_FILE_BYTES, LINKED_FILES_BYTES_MAX};

/// A directory of an Offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkDirectoryName {
    /// The directory.
    pub id: EntryId,
    /// Length of its name in bytes; 0 for a source argument.
    pub name_len: usize,
}

/// The byte count, and the directories of these files. `D` is the engine's handle of a directory.
#[derive(Debug)]
pub struct LinkedBytes<D> {
    directories: ByEntry<LinkDirectory<D>>,
    bytes: usize,
}

#[derive(Debug)]
struct LinkDirectory<D> {
    parent: Option<EntryId>,
    name_len: usize,
    /// Number of counted files and directories in it.
    children: usize,
    handle: Option<D>,
}

impl<D> Default for LinkedBytes<D> {
    fn default() -> Self {
        Self { directories: ByEntry::default(), bytes: 0 }
    }
}

impl<D> LinkedBytes<D> {
    /// Counts a file with a name of this length. `path` begins with its directory and ends with the source argument.
    /// Returns `false` and counts nothing where the file exceeds the limit.
    pub fn add(&mut self, name_len: usize, path: impl Iterator<Item = LinkDirectoryName>) -> bool {
        let (mut new, mut known) = (Vec::new(), None);
        let mut bytes = self.bytes + LINKED_FILE_BYTES + name_len;
        for directory in path {
            if self.directories.contains_key(&directory.id) {
                known = Some(directory.id);
                break;
            }
            bytes += LINKED_DIRECTORY_BYTES + directory.name_len;
            if bytes > LINKED_FILES_BYTES_MAX {
                return false;
            }
            new.push(directory);
        }
        if bytes > LINKED_FILES_BYTES_MAX {
            return false;
        }
        self.bytes = bytes;
        let mut parent = known;
        if let Some(known) = known.and_then(|known| self.directories.get_mut(&known)) {
            known.children += 1;
        }
        for LinkDirectoryName { id, name_len } in new.into_iter().rev() {
            self.directories.insert(id, LinkDirectory { parent, name_len, children: 1, handle: None });
            parent = Some(id);
        }
        true
    }

    /// Removes a counted file after its last hard link.
    pub fn remove(&mut self, name_len: usize, directory: EntryId) {
        self.bytes = self.bytes.saturating_sub(LINKED_FILE_BYTES + name_len);
        let mut above = Some(directory);
        while let Some(id) = above {
            let Some(directory) = self.directories.get_mut(&id) else { return };
            directory.children -= 1;
            if directory.children > 0 {
                return;
            }
            above = directory.parent;
            self.bytes = self.bytes.saturating_sub(LINKED_DIRECTORY_BYTES + directory.name_len);
            self.directories.remove(&id);
        }
    }

    /// Keeps the directory of a counted file open.
    pub fn keep_open(&mut self, directory: EntryId, handle: D) {
        if let Some(directory) = self.directories.get_mut(&directory) {
            directory.handle.get_or_insert(handle);
        }
    }

    /// Returns the handle of a directory kept open.
    pub fn held(&self, directory: EntryId) -> Option<&D> {
        self.directories.get(&directory)?.handle.as_ref()
    }

    /// Returns the counted bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(ids: &[(u64, usize)]) -> impl Iterator<Item = LinkDirectoryName> {
        ids.iter().map(|(id, name_len)| LinkDirectoryName { id: EntryId(*id), name_len: *name_len })
    }

    #[test]
    fn a_directory_counts_once_and_only_while_files_in_it_count() {
        let mut linked = LinkedBytes::<&str>::default();
        assert!(linked.add(10, path(&[(1, 7), (0, 0)])));
        assert_eq!(linked.bytes(), LINKED_FILE_BYTES + 10 + 2 * LINKED_DIRECTORY_BYTES + 7);
        assert!(linked.add(1, path(&[(1, 7), (0, 0)])));
        assert_eq!(linked.bytes(), 2 * LINKED_FILE_BYTES + 11 + 2 * LINKED_DIRECTORY_BYTES + 7);
        assert!(linked.add(1, path(&[(2, 5), (0, 0)])));
        linked.keep_open(EntryId(2), "handle");
        linked.keep_open(EntryId(3), "unknown");
        assert_eq!((linked.held(EntryId(2)), linked.held(EntryId(3))), (Some(&"handle"), None));
        linked.remove(10, EntryId(1));
        linked.remove(1, EntryId(1));
        assert_eq!(linked.bytes(), LINKED_FILE_BYTES + 1 + 2 * LINKED_DIRECTORY_BYTES + 5);
        linked.remove(1, EntryId(2));
        assert_eq!((linked.bytes(), linked.directories.len()), (0, 0));
    }

    #[test]
    fn the_limit_holds_for_names_files_and_depth() {
        let deep: Vec<_> = (0..LINKED_FILES_BYTES_MAX / LINKED_DIRECTORY_BYTES).map(|id| (id as u64, 1)).collect();
        let mut linked = LinkedBytes::<()>::default();
        assert!(!linked.add(1, path(&deep)));
        assert_eq!((linked.bytes(), linked.directories.len()), (0, 0));
        let mut files = 0;
        while linked.add(255, path(&[(0, 0)])) {
            files += 1;
        }
        assert_eq!(files, (LINKED_FILES_BYTES_MAX - LINKED_DIRECTORY_BYTES) / (LINKED_FILE_BYTES + 255));
        linked.remove(255, EntryId(0));
        assert!(linked.add(255, path(&[(0, 0)])));
    }

    #[test]
    fn a_million_files_with_ordinary_names_fit() {
        let mut linked = LinkedBytes::<()>::default();
        // 64 files in each directory, four directories deep.
        let all = (0..1u64 << 20).all(|file| {
            let (directory, above) = (file / 64, file / (64 * 64));
            linked.add(20, path(&[(1000 + directory, 12), (2 + above, 12), (1, 12), (0, 0)]))
        });
        assert!(all, "{}", linked.bytes());
    }
}
