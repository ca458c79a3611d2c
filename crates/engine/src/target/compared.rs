//! What a job that only compares holds against the source besides contents, modes and owners: names of one file, and
//! extended attributes. Nothing is put or made.

use haul_proto::ids::{ByEntry, EntryId};
use haul_proto::manifest::{Entry, Place};
use haul_proto::more::Attribute;
use haul_proto::path::Name;
use haul_proto::wire::limits::{
    DIFFERING_ATTRIBUTES_MAX, LINKED_BYTES_MAX, LINKED_DIRECTORY_OVERHEAD, LINKED_FILE_OVERHEAD,
};
use haul_proto::wire::report::{Difference, End};
use std::collections::HashMap;
use std::io;
use std::sync::Mutex;

use super::Target;
use super::standing::attributes;
use crate::fs::{Dir, Identity, Links, Look};
use crate::worker::lock;

/// Files with several names, at both ends.
#[derive(Default)]
pub struct ComparedNames {
    /// Of the source: by the entry of the first name, where that is at the target.
    offered: Mutex<ByEntry<(Dir, Name)>>,
    /// At the target: the first name that was met of each.
    there: Mutex<FirstNames>,
}

/// The first names of files at the target. They count as those of the source do, and further ones are not remembered.
#[derive(Default)]
struct FirstNames {
    names: HashMap<Identity, (Dir, Name)>,
    bytes: usize,
    /// The directory of the last one: names of one directory come together, and it counts once.
    directory: Option<Identity>,
}

impl FirstNames {
    fn add(&mut self, identity: Identity, dir: &Dir, name: &Name) {
        let is_same = self.directory == Some(dir.identity());
        let directory = if is_same { 0 } else { LINKED_DIRECTORY_OVERHEAD };
        let bytes = self.bytes + directory + LINKED_FILE_OVERHEAD + name.as_bytes().len();
        if bytes <= LINKED_BYTES_MAX {
            self.bytes = bytes;
            self.directory = Some(dir.identity());
            self.names.insert(identity, (dir.clone(), name.clone()));
        }
    }
}

impl ComparedNames {
    /// The first name of a file that has another one.
    fn first(&self, to: EntryId) -> Option<(Dir, Name)> {
        lock(&self.offered).get(&to).cloned()
    }

    /// The last names of these files were offered.
    pub(super) fn fully_named(&self, entries: &[EntryId]) {
        let mut offered = lock(&self.offered);
        entries.iter().for_each(|entry| _ = offered.remove(entry));
    }

    /// Which other name this file was met by, at the target alone.
    fn meet(&self, identity: Identity, dir: &Dir, name: &Name) -> Option<(Dir, Name)> {
        let mut there = lock(&self.there);
        let Some((first_dir, first_name)) = there.names.get(&identity) else {
            there.add(identity, dir, name);
            return None;
        };
        let is_same = first_dir.identity() == dir.identity() && first_name == name;
        (!is_same).then(|| (first_dir.clone(), first_name.clone()))
    }
}

impl Target {
    /// Remembers a file of which more names may come. To be called before it is answered.
    pub(super) fn expect_compared_names(&self, entry: EntryId, offered: &Entry) {
        if offered.further_names().is_none() {
            return;
        }
        let Some(place) = self.compared_place(&offered.place) else { return };
        lock(&self.compared_names.offered).insert(entry, place);
    }

    /// How another name of the file that was offered as `to` differs; `None` where it is that, and all is told of the first.
    pub(super) fn differs_as_name(&self, to: EntryId, there: &Look) -> io::Result<Option<Difference>> {
        let Some((dir, name)) = self.compared_names.first(to) else { return Ok(None) };
        match Look::at_name(&*dir.fd()?, &name, Links::Itself) {
            Ok(first) if first.identity == there.identity => return Ok(None),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let of = self.landing.path(&dir.path_of(name.as_bytes()));
        Ok(Some(Difference::Name { at_source: true, of }))
    }

    /// Whether a file of the source's is another name of a file at the target, and a file of its own at the source.
    pub(super) fn differs_as_file(&self, dir: &Dir, name: &Name, entry: &Entry, there: &Look) -> Option<Difference> {
        if !self.request.kept.hard_links || there.names < 2 || matches!(entry.place, Place::Operand(_)) {
            return None;
        }
        let (dir, name) = self.compared_names.meet(there.identity, dir, name)?;
        Some(Difference::Name { at_source: false, of: self.landing.path(&dir.path_of(name.as_bytes())) })
    }

    /// In what the attributes of something differ that `found` reads.
    pub(super) fn attribute_differences(
        &self,
        entry: &Entry,
        found: impl FnOnce() -> io::Result<Vec<Attribute>>,
    ) -> io::Result<Option<Difference>> {
        let Some(wanted) = attributes(entry).filter(|_| self.keeps_attributes()) else { return Ok(None) };
        Ok(differing(wanted, &found()?))
    }
}

fn differing(source: &[Attribute], target: &[Attribute]) -> Option<Difference> {
    let values = |attributes: &[Attribute]| -> HashMap<Box<[u8]>, Box<[u8]>> {
        attributes.iter().map(|Attribute { name, value }| (name.clone(), value.clone())).collect()
    };
    let (source, target) = (values(source), values(target));
    let of_source = source.iter().filter_map(|(name, value)| match target.get(name) {
        Some(other) if other == value => None,
        Some(_) => Some((End::Both, name.clone())),
        None => Some((End::Source, name.clone())),
    });
    let of_target = target.keys().filter(|name| !source.contains_key(*name)).map(|name| (End::Target, name.clone()));
    let mut names: Vec<_> = of_source.chain(of_target).collect();
    let count = names.len() as u64;
    names.sort_unstable_by(|(_, one), (_, other)| one.cmp(other));
    names.truncate(DIFFERING_ATTRIBUTES_MAX);
    (count > 0).then_some(Difference::Attributes { names, count })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::testing::{name, write_file};

    fn attribute(name: &str, value: &str) -> Attribute {
        Attribute { name: name.as_bytes().into(), value: value.as_bytes().into() }
    }

    #[test]
    fn attributes_that_differ_are_named_in_order_and_counted() {
        let source = [attribute("user.same", "1"), attribute("user.c", "1"), attribute("user.a", "")];
        let target = [attribute("user.c", "2"), attribute("user.b", ""), attribute("user.same", "1")];
        let named = [(End::Source, "user.a"), (End::Target, "user.b"), (End::Both, "user.c")];
        let names = named.map(|(end, name)| (end, name.as_bytes().into())).to_vec();
        assert_eq!(differing(&source, &target), Some(Difference::Attributes { names, count: 3 }));
        assert_eq!(differing(&source, &source), None);
        let many: Vec<_> = (0..100).map(|i| attribute(&format!("user.{i}"), "")).collect();
        let Some(Difference::Attributes { names, count: 100 }) = differing(&many, &[]) else { panic!("100 differ") };
        assert_eq!(names.len(), DIFFERING_ATTRIBUTES_MAX);
    }

    #[test]
    fn names_are_remembered_until_the_last_one() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open_root(temp.path()).unwrap();
        write_file(&dir, "a", b"x");
        let look = Look::at_name(&*dir.fd().unwrap(), &name("a"), Links::Itself).unwrap();
        let names = ComparedNames::default();
        assert!(names.meet(look.identity, &dir, &name("a")).is_none());
        assert!(names.meet(look.identity, &dir, &name("a")).is_none(), "it was offered anew");
        assert_eq!(names.meet(look.identity, &dir, &name("b")).unwrap().1, name("a"));
        lock(&names.offered).insert(EntryId(1), (dir, name("a")));
        assert!(names.first(EntryId(1)).is_some() && names.first(EntryId(2)).is_none());
        names.fully_named(&[EntryId(1)]);
        assert!(names.first(EntryId(1)).is_none());
    }
}
