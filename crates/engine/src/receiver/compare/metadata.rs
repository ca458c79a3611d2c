//! Comparison of hard links and extended attributes, in copies that only compare. It changes nothing.

use std::collections::{HashMap, hash_map};
use std::io;
use std::sync::Mutex;

use haul_base::sys::sync::lock;
use haul_proto::entry::{Entry, EntryLocation};
use haul_proto::entry_extras::ExtendedAttribute;
use haul_proto::ids::EntryId;
use haul_proto::limits::DIFFERING_ATTRIBUTES_MAX;
use haul_proto::path::Name;
use haul_proto::wire::difference::{AttributeEnd, Difference};

use crate::fs::{Dir, FileIdentity, FileStat, FollowLinks};
use crate::receiver::compare::EntryComparer;
use crate::receiver::place::existing_entry::attributes;

/// Memory limit for files with hard links at the target; beyond it, hard links are not compared.
const COMPARED_BYTES_MAX: usize = 64 << 20;
/// Memory of each such file besides its path: a hash table entry, while the table grows.
const COMPARED_FILE_BYTES: usize = 128;

/// Files with hard links at the target, each with the first path found.
#[derive(Default)]
pub struct ComparedNames(Mutex<FirstPaths>);

#[derive(Default)]
struct FirstPaths {
    paths: HashMap<FileIdentity, Box<[u8]>>,
    bytes: usize,
}

/// The memory limit was reached.
#[derive(Debug, PartialEq, Eq)]
struct TooMany;

impl ComparedNames {
    /// The first path found of this file, if it differs from `path`.
    ///
    /// # Errors
    /// No more files are remembered.
    fn meet(&self, identity: FileIdentity, path: Vec<u8>) -> Result<Option<Box<[u8]>>, TooMany> {
        let mut there = lock(&self.0);
        let bytes = there.bytes + COMPARED_FILE_BYTES + path.len();
        match there.paths.entry(identity) {
            hash_map::Entry::Occupied(first) => Ok((**first.get() != *path).then(|| first.get().clone())),
            hash_map::Entry::Vacant(place) => {
                if bytes > COMPARED_BYTES_MAX {
                    return Err(TooMany);
                }
                place.insert(path.into_boxed_slice());
                there.bytes = bytes;
                Ok(None)
            }
        }
    }
}

impl EntryComparer {
    /// The difference of a hard link to the file offered as `to`; `None` if there is none, as the first name covers the
    /// rest.
    pub(crate) fn differs_as_name(&self, to: EntryId, there: &FileStat) -> io::Result<Option<Difference>> {
        let Some(first) = self.parts.links.first_name(to) else { return Ok(None) };
        match FileStat::at_name(&*first.dir.fd()?, &first.name, FollowLinks::Itself) {
            Ok(first) if first.identity == there.identity => return Ok(None),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let of = self.parts.copy.destination.path(&first.dir.path_of(first.name.as_bytes()));
        Ok(Some(Difference::Name { at_source: true, of }))
    }

    /// Whether a separate file of the source is a hard link at the target.
    pub(crate) fn differs_as_file(
        &self,
        dir: &Dir,
        name: &Name,
        entry: &Entry,
        there: &FileStat,
    ) -> Option<Difference> {
        if !self.parts.copy.request.metadata.preserve.hard_links
            || there.names < 2
            || matches!(entry.place, EntryLocation::Operand(_))
        {
            return None;
        }
        let met = self.compared_names.meet(there.identity, dir.path_of(name.as_bytes()));
        let first = met.unwrap_or_else(|TooMany| self.parts.links.warn_of_too_many_names())?;
        Some(Difference::Name { at_source: false, of: self.parts.copy.destination.path(&first) })
    }

    /// Differences in extended attributes, which `found` reads at the target.
    pub(crate) fn attribute_differences(
        &self,
        entry: &Entry,
        found: impl FnOnce() -> io::Result<Vec<ExtendedAttribute>>,
    ) -> io::Result<Option<Difference>> {
        let Some(wanted) = attributes(entry).filter(|_| self.parts.metadata.keeps_attributes()) else {
            return Ok(None);
        };
        Ok(differing(wanted, &found()?))
    }
}

fn differing(source: &[ExtendedAttribute], target: &[ExtendedAttribute]) -> Option<Difference> {
    let values = |attributes: &[ExtendedAttribute]| -> HashMap<Box<[u8]>, Box<[u8]>> {
        attributes.iter().map(|ExtendedAttribute { name, value }| (name.clone(), value.clone())).collect()
    };
    let (source, target) = (values(source), values(target));
    let of_source = source.iter().filter_map(|(name, value)| match target.get(name) {
        Some(other) if other == value => None,
        Some(_) => Some((AttributeEnd::Both, name.clone())),
        None => Some((AttributeEnd::Source, name.clone())),
    });
    let of_target =
        target.keys().filter(|name| !source.contains_key(*name)).map(|name| (AttributeEnd::Target, name.clone()));
    let mut names: Vec<_> = of_source.chain(of_target).collect();
    let count = names.len() as u64;
    names.sort_unstable_by(|(_, one), (_, other)| one.cmp(other));
    names.truncate(DIFFERING_ATTRIBUTES_MAX);
    (count > 0).then_some(Difference::Attributes { names, count })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(name: &str, value: &str) -> ExtendedAttribute {
        ExtendedAttribute { name: name.as_bytes().into(), value: value.as_bytes().into() }
    }

    #[test]
    fn differing_attributes_are_named_in_order_and_counted() {
        let source = [attribute("user.same", "1"), attribute("user.c", "1"), attribute("user.a", "")];
        let target = [attribute("user.c", "2"), attribute("user.b", ""), attribute("user.same", "1")];
        let named =
            [(AttributeEnd::Source, "user.a"), (AttributeEnd::Target, "user.b"), (AttributeEnd::Both, "user.c")];
        let names = named.map(|(end, name)| (end, name.as_bytes().into())).to_vec();
        assert_eq!(differing(&source, &target), Some(Difference::Attributes { names, count: 3 }));
        assert_eq!(differing(&source, &source), None);
        let many: Vec<_> = (0..100).map(|i| attribute(&format!("user.{i}"), "")).collect();
        let Some(Difference::Attributes { names, count: 100 }) = differing(&many, &[]) else { panic!("100 differ") };
        assert_eq!(names.len(), DIFFERING_ATTRIBUTES_MAX);
    }

    #[test]
    fn the_first_name_seen_is_remembered() {
        let names = ComparedNames::default();
        let file = FileIdentity { device: 1, inode: 2 };
        assert_eq!(names.meet(file, b"d/a".to_vec()), Ok(None));
        assert_eq!(names.meet(file, b"d/a".to_vec()), Ok(None), "it was offered anew");
        assert_eq!(names.meet(file, b"d/b".to_vec()), Ok(Some((*b"d/a").into())));
        lock(&names.0).bytes = COMPARED_BYTES_MAX;
        let other = FileIdentity { device: 1, inode: 3 };
        assert_eq!(names.meet(other, b"c".to_vec()), Err(TooMany));
        assert_eq!(names.meet(file, b"d/b".to_vec()), Ok(Some((*b"d/a").into())), "what is known stays known");
    }
}
