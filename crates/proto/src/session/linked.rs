//! Files of which more names may be offered, as both ends count them: a source that keeps to the budget never exceeds it
//! at the target.

use std::collections::hash_map;

use crate::ids::{ByEntry, EntryId};
use crate::manifest::{Entry, Place};
use crate::wire::limits::{LINKED_BYTES_MAX, LINKED_DIRECTORY_OVERHEAD, LINKED_FILE_OVERHEAD};

/// What these files and their directories count: see [`LINKED_BYTES_MAX`].
#[derive(Debug, Default)]
pub struct LinkedFiles {
    files: ByEntry<LinkedFile>,
    /// Directories that have such files, and how many.
    directories: ByEntry<u32>,
    bytes: usize,
}

#[derive(Debug)]
struct LinkedFile {
    parent: EntryId,
    /// Names that were not offered yet.
    left: u32,
    /// Bytes of the first name: at most 255.
    name_len: u8,
}

impl LinkedFiles {
    /// Whether there is room for a file of this name in this directory.
    pub fn has_room(&self, parent: EntryId, name: &[u8]) -> bool {
        let directory = if self.directories.contains_key(&parent) { 0 } else { LINKED_DIRECTORY_OVERHEAD };
        self.bytes + directory + LINKED_FILE_OVERHEAD + name.len() <= LINKED_BYTES_MAX
    }

    /// Counts an entry that is offered, if more names of it may come; `false` where there is no room for it.
    pub fn offered(&mut self, id: EntryId, entry: &Entry) -> bool {
        entry.further_names().is_none_or(|further| self.add(id, &entry.place, further))
    }

    /// Counts a file that is offered in this place, and has so many names besides.
    pub fn add(&mut self, id: EntryId, place: &Place, further: u64) -> bool {
        let Place::Child { parent, name } = place else { return true };
        let name = name.as_bytes();
        if !self.has_room(*parent, name) {
            return false;
        }
        let files = self.directories.entry(*parent).or_insert(0);
        self.bytes += if *files == 0 { LINKED_DIRECTORY_OVERHEAD } else { 0 };
        *files += 1;
        self.bytes += LINKED_FILE_OVERHEAD + name.len();
        let left = u32::try_from(further).unwrap_or(u32::MAX);
        let name_len = u8::try_from(name.len()).unwrap_or(u8::MAX);
        self.files.insert(id, LinkedFile { parent: *parent, left, name_len });
        true
    }

    /// Another name of the file that was offered as `to`; whether it is the last one.
    pub fn named(&mut self, to: EntryId) -> bool {
        let Some(file) = self.files.get_mut(&to) else { return false };
        file.left -= 1;
        if file.left > 0 {
            return false;
        }
        self.bytes -= LINKED_FILE_OVERHEAD + usize::from(file.name_len);
        let parent = file.parent;
        self.files.remove(&to);
        if let hash_map::Entry::Occupied(mut directory) = self.directories.entry(parent) {
            *directory.get_mut() -= 1;
            if *directory.get() == 0 {
                self.bytes -= LINKED_DIRECTORY_OVERHEAD;
                directory.remove();
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{Kind, Meta};
    use crate::more::More;
    use crate::path::Name;

    fn file(parent: u64, name_len: usize, names: u64) -> Entry {
        let place = Place::Child { parent: EntryId(parent), name: Name::new(&vec![b'n'; name_len]).unwrap() };
        let more = Some(Box::new(More { names: Some(names), ..More::default() }));
        Entry { place, kind: Kind::File { size: 1 }, meta: Meta::default(), version: None, more }
    }

    #[test]
    fn files_and_directories_count_until_the_last_name() {
        let mut linked = LinkedFiles::default();
        for (id, entry) in [(1, file(0, 10, 3)), (2, file(0, 255, 2)), (3, file(9, 1, 2)), (4, file(0, 10, 1))] {
            assert!(linked.offered(EntryId(id), &entry));
        }
        let all = 2 * LINKED_DIRECTORY_OVERHEAD + 3 * LINKED_FILE_OVERHEAD + 266;
        assert_eq!(linked.bytes, all);
        assert!(!linked.named(EntryId(4)) && !linked.named(EntryId(1)));
        assert_eq!(linked.bytes, all);
        assert!(linked.named(EntryId(1)) && linked.named(EntryId(3)) && !linked.named(EntryId(3)));
        assert_eq!(linked.bytes, LINKED_DIRECTORY_OVERHEAD + LINKED_FILE_OVERHEAD + 255);
        assert!(linked.named(EntryId(2)));
        assert!(linked.bytes == 0 && linked.files.is_empty() && linked.directories.is_empty());
    }

    #[test]
    fn there_is_room_up_to_the_budget() {
        for (names_of_a_directory, name_len) in [(u64::MAX, 1), (1, 255)] {
            let mut linked = LinkedFiles::default();
            let id = (0..).map(EntryId).find(|id| {
                let parent = id.0 / names_of_a_directory;
                !linked.offered(*id, &file(parent, name_len, 2))
            });
            let each =
                LINKED_FILE_OVERHEAD + name_len + if names_of_a_directory == 1 { LINKED_DIRECTORY_OVERHEAD } else { 0 };
            let most = LINKED_BYTES_MAX / each;
            assert!(id.is_some_and(|id| (most as u64 - 3..=most as u64).contains(&id.0)), "{id:?} of {most}");
            assert!(linked.named(EntryId(0)) && linked.offered(EntryId(u64::MAX), &file(0, name_len, 2)));
        }
    }
}
