//! What is at the target: names, and what stands under each. Files that have no final name yet are not here: a crash
//! takes them.

use std::collections::BTreeMap;

use haul_proto::entry::{SpecialFile, Timestamp};
use haul_proto::overwrite_policy::ExistingEntry;

use crate::content::Content;
use crate::tree::{Tree, What};
use haul_lab::Rng;

/// What stands under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// A directory.
    Directory,
    /// A file.
    File(Content, Timestamp),
    /// A link.
    Link(Box<[u8]>),
    /// A FIFO.
    Special,
    /// A device that operands may be written to, from beginning to end.
    Device,
}

/// The target's names, by path.
pub type Disk = BTreeMap<Vec<u8>, Standing>;

/// What stands at a path, as the machines' table wants to know it.
pub fn existing(disk: &Disk, path: &[u8]) -> ExistingEntry {
    match disk.get(path) {
        None => ExistingEntry::Absent,
        Some(Standing::Directory) => ExistingEntry::Directory,
        Some(Standing::File(content, stamp)) => ExistingEntry::File { size: content.size(), modified: *stamp },
        Some(Standing::Link(points_to)) => ExistingEntry::Symlink(points_to.clone()),
        Some(Standing::Special | Standing::Device) => ExistingEntry::Special(SpecialFile::Fifo),
    }
}

/// What stands there before the first run. `mixed` makes it anything; otherwise it is nothing.
pub fn before(tree: &Tree, mixed: bool, rng: &mut Rng) -> Disk {
    let mut disk = Disk::new();
    if !mixed {
        return disk;
    }
    for node in &tree.nodes {
        let inside = node.parent.is_none_or(|parent| disk.get(&tree.nodes[parent].path) == Some(&Standing::Directory));
        if !inside || rng.chance(400) {
            continue;
        }
        let standing = match (&node.what, rng.below(12)) {
            (What::File(_), 0) if node.parent.is_none() => Standing::Device,
            (_, 0) => Standing::Special,
            (_, 1) => Standing::Link((*b"elsewhere").into()),
            (What::Directory, 2) | (What::File(_), 3..=5) => Standing::File(Content::random(rng), node.stamp_before()),
            (What::File(_) | What::Link(_), 2) | (What::Directory, _) => Standing::Directory,
            (What::File(file), 6) => Standing::File(Content::of_size(file.content.size(), rng), node.stamp_before()),
            (What::File(file), _) => Standing::File(file.content.clone(), node.stamp),
            (What::Link(points_to), _) => Standing::Link(points_to.clone()),
        };
        disk.insert(node.path.clone(), standing);
    }
    disk
}

impl crate::tree::Node {
    /// A time that this entry never had.
    fn stamp_before(&self) -> Timestamp {
        Timestamp { seconds: self.stamp.seconds - 1, ..self.stamp }
    }
}
