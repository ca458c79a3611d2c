//! The look at a path just before it is changed, or used as the source of a copy.

use std::collections::BTreeMap;
use std::io;

use haul_proto::integrity::Digest;
use haul_proto::twoway::detect::{PathLook, look};
use haul_proto::twoway::entry::{FileStamp, ReplicaEntry, TreePath};
use haul_proto::twoway::merge::MetadataRules;

use super::attributes::add_attributes;
use super::root::ReplicaRoot;
use super::scan::ScannedReplica;

/// What an end knows of its paths during a run.
pub struct ReplicaView {
    /// The root.
    pub root: ReplicaRoot,
    /// The scan.
    pub scan: ScannedReplica,
    /// What is compared.
    pub rules: MetadataRules,
    /// Stamps that this run's actions left.
    pub made: BTreeMap<TreePath, FileStamp>,
    /// Files with several names that this run's actions changed under one of them, by inode number.
    pub linked: BTreeMap<u64, LinkedFile>,
}

/// A file with several names that an action changed under one of them, or took a name from.
pub struct LinkedFile {
    /// Its stamp before the first such action.
    pub scanned: FileStamp,
    /// What the last one left.
    pub now: ReplicaEntry,
    /// Digest of the attributes that one of them set.
    pub attributes: Option<Digest>,
}

impl ReplicaView {
    /// Whether a path still is as it was scanned, or as an action of this run left it. What is only the source of a copy
    /// is read anyway.
    pub fn is_untouched(&self, path: &TreePath, expected: Option<&ReplicaEntry>, is_source: bool) -> bool {
        let Ok(found) = self.found(path) else { return false };
        let expected = expected.cloned().map(|mut entry| {
            entry.stamp = self.made.get(path).copied().or(entry.stamp).or_else(|| self.scan.stamp(path));
            let linked = entry.stamp.and_then(|stamp| self.linked.get(&stamp.inode));
            if let Some(linked) = linked.filter(|linked| entry.stamp == Some(linked.scanned)) {
                (entry.stamp, entry.metadata.basic) = (linked.now.stamp, linked.now.metadata.basic);
                entry.metadata.attributes = linked.attributes.unwrap_or(entry.metadata.attributes);
            }
            entry
        });
        match look(expected.as_ref(), found.as_ref(), self.scan.started, &self.rules) {
            PathLook::Untouched => true,
            PathLook::Touched => false,
            PathLook::Unsure => is_source || self.has_digest(path, expected.as_ref(), found.as_ref()),
        }
    }

    /// Records what an action left of a file with several names.
    pub fn changed_linked(&mut self, before: FileStamp, now: ReplicaEntry, attributes: Option<Digest>) {
        let first = LinkedFile { scanned: before, now: now.clone(), attributes };
        let linked = self.linked.entry(before.inode).or_insert(first);
        (linked.now, linked.attributes) = (now, attributes.or(linked.attributes));
    }

    fn found(&self, path: &TreePath) -> io::Result<Option<ReplicaEntry>> {
        let mut found = self.root.entry(path)?;
        if let Some(entry) = &mut found {
            let (dir, name) = self.root.parent_of(path)?;
            add_attributes(entry, &dir, &name, &self.rules)?;
        }
        Ok(found)
    }

    fn has_digest(&self, path: &TreePath, expected: Option<&ReplicaEntry>, found: Option<&ReplicaEntry>) -> bool {
        let known = expected.and_then(|entry| entry.content.fingerprint()).map(|(_, digest)| digest);
        let stamp = found.and_then(|entry| entry.stamp);
        known.is_some() && known == stamp.and_then(|stamp| self.root.digest(path, stamp).ok()?)
    }
}
