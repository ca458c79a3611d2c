//! The target's names and their entries. Files without a final name are absent: a crash deletes them.

use std::collections::BTreeMap;

use haul_lab::Rng;
use haul_proto::entry::{SpecialFile, Timestamp};
use haul_proto::overwrite_policy::ExistingEntry;

use crate::content::FileContent;
use crate::tree::{SimTree, TreeEntryKind};

/// The entry of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskEntry {
    /// A directory.
    Directory,
    /// A file.
    File(FileContent, Timestamp),
    /// A link.
    Link(Box<[u8]>),
    /// A FIFO.
    Special,
    /// A device that operands may be written to, from beginning to end.
    Device,
}

/// The target's names, by path.
pub type SimDisk = BTreeMap<Vec<u8>, DiskEntry>;

/// The entry of a path, in the terms of the session's table.
pub fn existing(disk: &SimDisk, path: &[u8]) -> ExistingEntry {
    match disk.get(path) {
        None => ExistingEntry::Absent,
        Some(DiskEntry::Directory) => ExistingEntry::Directory,
        Some(DiskEntry::File(content, stamp)) => ExistingEntry::File { size: content.size(), modified: *stamp },
        Some(DiskEntry::Link(points_to)) => ExistingEntry::Symlink(points_to.clone()),
        Some(DiskEntry::Special | DiskEntry::Device) => ExistingEntry::Special(SpecialFile::Fifo),
    }
}

/// The target before the first run: with `mixed`, any entries; otherwise empty.
pub fn before(tree: &SimTree, mixed: bool, rng: &mut Rng) -> SimDisk {
    let mut disk = SimDisk::new();
    if !mixed {
        return disk;
    }
    for node in &tree.nodes {
        let inside = node.parent.is_none_or(|parent| disk.get(&tree.nodes[parent].path) == Some(&DiskEntry::Directory));
        if !inside || rng.chance(400) {
            continue;
        }
        let standing = match (&node.what, rng.below(12)) {
            (TreeEntryKind::File(_), 0) if node.parent.is_none() => DiskEntry::Device,
            (_, 0) => DiskEntry::Special,
            (_, 1) => DiskEntry::Link((*b"elsewhere").into()),
            (TreeEntryKind::Directory, 2) | (TreeEntryKind::File(_), 3..=5) => {
                DiskEntry::File(FileContent::random(rng), node.stamp_before())
            }
            (TreeEntryKind::File(_) | TreeEntryKind::Link(_), 2) | (TreeEntryKind::Directory, _) => {
                DiskEntry::Directory
            }
            (TreeEntryKind::File(file), 6) => {
                DiskEntry::File(FileContent::of_size(file.content.size(), rng), node.stamp_before())
            }
            (TreeEntryKind::File(file), _) => DiskEntry::File(file.content.clone(), node.stamp),
            (TreeEntryKind::Link(points_to), _) => DiskEntry::Link(points_to.clone()),
        };
        disk.insert(node.path.clone(), standing);
    }
    disk
}

impl crate::tree::TreeEntry {
    /// A time that this entry never had.
    fn stamp_before(&self) -> Timestamp {
        Timestamp { seconds: self.stamp.seconds - 1, ..self.stamp }
    }
}
