//! First names of files with hard links, stored compactly: there may be a million.

use std::collections::BTreeMap;

use haul_proto::ids::EntryId;
use haul_proto::path::Name;

/// Most names in a block, which is searched linearly.
const BLOCK_NAMES_MAX: usize = 64;
/// Fixed bytes before each name: see [`FirstName::append_to`].
const HEADER: usize = 28;
/// Bytes of an entry number: a session has far fewer than 2^48 entries.
const ID_BYTES: usize = 6;

/// Names by ascending entry. Each takes [`HEADER`] bytes and its own length. At least 32 names on average share the
/// overhead of a block.
#[derive(Default)]
pub struct FirstNames(BTreeMap<EntryId, NameBlock>);

/// Consecutive names by ascending entry, keyed by the first one's entry or an earlier one.
#[derive(Default)]
struct NameBlock {
    names: usize,
    bytes: Vec<u8>,
}

/// The first name of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstName {
    pub parent: EntryId,
    /// Names not yet offered.
    pub left: u32,
    /// Names in the current Offer, not yet answered.
    pub due: u16,
    /// A state, opaque to this module.
    pub state: u8,
    /// Inode of the file with this name; 0 if unknown.
    pub inode: u64,
    pub name: Name,
}

impl FirstName {
    fn append_to(&self, entry: EntryId, bytes: &mut Vec<u8>) {
        let name = self.name.as_bytes();
        bytes.reserve_exact(HEADER + name.len());
        bytes.extend(&entry.0.to_le_bytes()[..ID_BYTES]);
        bytes.extend(&self.parent.0.to_le_bytes()[..ID_BYTES]);
        bytes.extend(self.inode.to_le_bytes());
        bytes.extend(self.left.to_le_bytes());
        bytes.extend(self.due.to_le_bytes());
        bytes.push(self.state);
        bytes.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
        bytes.extend(name);
    }
}

fn id_of(bytes: [u8; ID_BYTES]) -> EntryId {
    let mut id = [0; 8];
    id[..ID_BYTES].copy_from_slice(&bytes);
    EntryId(u64::from_le_bytes(id))
}

impl NameBlock {
    /// Position of an entry's name in the block.
    fn find(&self, entry: EntryId) -> Option<std::ops::Range<usize>> {
        let mut at = 0;
        while let Some((id, _)) = self.bytes.get(at..)?.split_first_chunk() {
            let end = at + HEADER + usize::from(self.bytes[at + HEADER - 1]);
            if id_of(*id) == entry {
                return Some(at..end);
            }
            at = end;
        }
        None
    }

    fn read(&self, entry: EntryId) -> Option<FirstName> {
        let bytes = &self.bytes[self.find(entry)?];
        let (parent, rest) = bytes[ID_BYTES..].split_first_chunk()?;
        let (inode, rest) = rest.split_first_chunk()?;
        let (left, rest) = rest.split_first_chunk()?;
        let (due, rest) = rest.split_first_chunk()?;
        Some(FirstName {
            parent: id_of(*parent),
            inode: u64::from_le_bytes(*inode),
            left: u32::from_le_bytes(*left),
            due: u16::from_le_bytes(*due),
            state: rest[0],
            name: Name::new(&rest[2..]).ok()?,
        })
    }
}

impl FirstNames {
    /// Adds a name. Entries must ascend.
    pub fn add(&mut self, entry: EntryId, name: &FirstName) {
        match self.0.last_entry() {
            Some(last) if last.get().names < BLOCK_NAMES_MAX => {
                let block = last.into_mut();
                block.names += 1;
                name.append_to(entry, &mut block.bytes);
            }
            _ => {
                let mut block = NameBlock { names: 1, bytes: Vec::new() };
                name.append_to(entry, &mut block.bytes);
                self.0.insert(entry, block);
            }
        }
    }

    /// An entry's name.
    pub fn get(&self, entry: EntryId) -> Option<FirstName> {
        self.0.range(..=entry).next_back()?.1.read(entry)
    }

    /// Changes the state of a name, not the name itself.
    pub fn change<T>(&mut self, entry: EntryId, change: impl FnOnce(&mut FirstName) -> T) -> Option<T> {
        let block = self.0.range_mut(..=entry).next_back()?.1;
        let mut name = block.read(entry)?;
        let place = block.find(entry)?;
        let changed = change(&mut name);
        let mut bytes = Vec::new();
        name.append_to(entry, &mut bytes);
        block.bytes[place].copy_from_slice(&bytes);
        Some(changed)
    }

    /// Removes a name. Joins sparse blocks.
    pub fn remove(&mut self, entry: EntryId) {
        let Some((&key, block)) = self.0.range_mut(..=entry).next_back() else { return };
        let Some(place) = block.find(entry) else { return };
        block.bytes.drain(place);
        block.bytes.shrink_to_fit();
        block.names -= 1;
        if block.names == 0 {
            self.0.remove(&key);
            return;
        }
        self.join_next(key);
        if let Some((&before, _)) = self.0.range(..key).next_back() {
            self.join_next(before);
        }
    }

    /// Joins a block with the next one if all names fit.
    fn join_next(&mut self, key: EntryId) {
        let mut blocks = self.0.range(key..);
        let (Some((_, block)), Some((&next, behind))) = (blocks.next(), blocks.next()) else { return };
        if block.names + behind.names > BLOCK_NAMES_MAX {
            return;
        }
        let Some(behind) = self.0.remove(&next) else { return };
        if let Some(block) = self.0.get_mut(&key) {
            block.bytes.reserve_exact(behind.bytes.len());
            block.bytes.extend(behind.bytes);
            block.names += behind.names;
        }
    }

    /// Whether it has no names.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use haul_proto::limits::LINKED_FILE_BYTES;

    use super::*;
    use crate::fs::testing::name;

    fn first(entry: u64) -> FirstName {
        let (left, due, state) = (u32::try_from(entry).unwrap(), 3, 1);
        FirstName {
            parent: EntryId(entry / 3),
            left,
            due,
            state,
            inode: entry << 40,
            name: name(format!("name {entry}")),
        }
    }

    #[test]
    fn names_are_found_changed_and_removed() {
        let mut names = FirstNames::default();
        assert!(names.get(EntryId(0)).is_none());
        (0..1000).for_each(|entry| names.add(EntryId(2 * entry), &first(entry)));
        for entry in 0..1000 {
            assert_eq!(names.get(EntryId(2 * entry)), Some(first(entry)));
            assert_eq!(names.get(EntryId(2 * entry + 1)), None);
        }
        assert_eq!(names.change(EntryId(8), |name| std::mem::replace(&mut name.left, 77)), Some(4));
        assert_eq!(names.change(EntryId(9), |_| ()), None);
        assert_eq!(names.get(EntryId(8)), Some(FirstName { left: 77, ..first(4) }));
        // In no particular order, some twice.
        (0..3000u64).for_each(|at| names.remove(EntryId(2 * (at * 389 % 1000))));
        assert!(names.is_empty());
    }

    #[test]
    fn leftover_names_of_many_take_only_their_counted_memory() {
        let mut names = FirstNames::default();
        let all = 1 << 14;
        (0..all).for_each(|entry| names.add(EntryId(entry), &first(entry)));
        (0..all).filter(|entry| entry % 64 != 0).for_each(|entry| names.remove(EntryId(entry)));
        let left = (0..all).filter_map(|entry| names.get(EntryId(entry)));
        let counted: usize = left.map(|name| LINKED_FILE_BYTES + name.name.as_bytes().len()).sum();
        let block = 2 * size_of::<(EntryId, NameBlock)>() + 16;
        let taken: usize = names.0.values().map(|NameBlock { bytes, .. }| bytes.capacity() + block).sum();
        assert!(taken <= counted, "{taken} of {counted} bytes in {} blocks", names.0.len());
    }
}
