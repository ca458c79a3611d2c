//! Metadata: what is compared, and how changes of both sides are merged, field by field.

use super::entry::{ReplicaContent, ReplicaEntry, ReplicaMetadata};
use crate::codec::wire_struct;
use crate::entry::Timestamp;
use crate::entry_extras::is_acl;

/// Owner's rights without which nothing can be made in a directory: a new one has them at first.
pub const DIRECTORY_WORK_MODE: u16 = 0o700;

wire_struct! {
    /// The metadata that both ends can hold, and how exactly.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct MetadataRules {
        /// Compares modes (of links, never).
        pub mode: bool,
        /// Compares owners and groups.
        pub owner: bool,
        /// Compares times of modification (of directories, never).
        pub modified: bool,
        /// Compares extended attributes; those that only root may set, where owners are compared.
        pub attributes: bool,
        /// Compares access control lists.
        pub acls: bool,
        /// Times that differ by at most this are equal, in nanoseconds.
        pub window_ns: u32,
        /// Hashes every file, whatever its stamp.
        pub digest_all: bool,
    }
}

impl MetadataRules {
    /// Compares everything.
    pub const ALL: Self =
        Self { mode: true, owner: true, modified: true, attributes: true, acls: true, window_ns: 0, digest_all: false };

    /// Whether any attributes are compared.
    pub fn any_attributes(&self) -> bool {
        self.attributes || self.acls
    }

    /// Whether an attribute of this name is compared.
    pub fn has_attribute(&self, name: &[u8]) -> bool {
        if is_acl(name) { self.acls } else { self.attributes && (self.owner || name.starts_with(b"user.")) }
    }

    /// Whether two entries of the same contents have the same metadata.
    pub fn is_same(&self, content: &ReplicaContent, one: &ReplicaMetadata, two: &ReplicaMetadata) -> bool {
        self.is_same_mode(content, one, two)
            && self.is_same_owner(one, two)
            && self.is_same_time(content, one, two)
            && self.is_same_attributes(one, two)
    }

    fn is_same_mode(&self, content: &ReplicaContent, one: &ReplicaMetadata, two: &ReplicaMetadata) -> bool {
        let is_link = matches!(content, ReplicaContent::Symlink { .. });
        !self.mode || is_link || one.basic.mode == two.basic.mode
    }

    fn is_same_owner(&self, one: &ReplicaMetadata, two: &ReplicaMetadata) -> bool {
        !self.owner || (one.basic.uid, one.basic.gid) == (two.basic.uid, two.basic.gid)
    }

    fn is_same_time(&self, content: &ReplicaContent, one: &ReplicaMetadata, two: &ReplicaMetadata) -> bool {
        let distance = nanoseconds(one.basic.modified).abs_diff(nanoseconds(two.basic.modified));
        !self.modified || content.is_directory() || distance <= self.window_ns.into()
    }

    fn is_same_attributes(&self, one: &ReplicaMetadata, two: &ReplicaMetadata) -> bool {
        !self.any_attributes() || one.attributes == two.attributes
    }

    /// Merges the metadata of two entries with the same contents; `None` where both sides changed a field, differently.
    /// Times never conflict: the newer one wins.
    pub fn merge(
        &self,
        content: &ReplicaContent,
        base: Option<&ReplicaMetadata>,
        [a, b]: [&ReplicaMetadata; 2],
    ) -> Option<ReplicaMetadata> {
        let mode = |one: &_, two: &_| self.is_same_mode(content, one, two);
        let time = |one: &_, two: &_| self.is_same_time(content, one, two);
        let newer = || if nanoseconds(a.basic.modified) >= nanoseconds(b.basic.modified) { a } else { b };
        let with_mode = merge_field(base, a, b, mode).or_else(|| narrower_directory(content, a, b))?;
        let with_owner = merge_field(base, a, b, |one, two| self.is_same_owner(one, two))?;
        let with_time = merge_field(base, a, b, time).unwrap_or_else(newer);
        let mut merged = *with_owner;
        merged.basic.mode = with_mode.basic.mode;
        merged.basic.modified = with_time.basic.modified;
        merged.attributes = merge_field(base, a, b, |one, two| self.is_same_attributes(one, two))?.attributes;
        Some(merged)
    }

    /// Whether both entries are the same, contents and metadata; `false` where only a missing digest could tell.
    pub fn is_same_entry(&self, one: &ReplicaEntry, two: &ReplicaEntry) -> bool {
        one.content.is_same(&two.content) == Some(true) && self.is_same(&one.content, &one.metadata, &two.metadata)
    }
}

fn merge_field<'m>(
    base: Option<&ReplicaMetadata>,
    a: &'m ReplicaMetadata,
    b: &'m ReplicaMetadata,
    is_same: impl Fn(&ReplicaMetadata, &ReplicaMetadata) -> bool,
) -> Option<&'m ReplicaMetadata> {
    if is_same(a, b) || base.is_some_and(|base| is_same(base, b)) {
        Some(a)
    } else {
        base.is_some_and(|base| is_same(base, a)).then_some(b)
    }
}

/// Of two directories that differ in [`DIRECTORY_WORK_MODE`] alone, one was being made when a run was interrupted.
fn narrower_directory<'m>(
    content: &ReplicaContent,
    a: &'m ReplicaMetadata,
    b: &'m ReplicaMetadata,
) -> Option<&'m ReplicaMetadata> {
    let is_interim = |one: &ReplicaMetadata, other: &ReplicaMetadata| {
        content.is_directory() && one.basic.mode == other.basic.mode | DIRECTORY_WORK_MODE
    };
    if is_interim(a, b) { Some(b) } else { is_interim(b, a).then_some(a) }
}

/// Nanoseconds since 1970.
pub(super) fn nanoseconds(stamp: Timestamp) -> i128 {
    i128::from(stamp.seconds) * 1_000_000_000 + i128::from(stamp.nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::super::samples::{at, directory, file, with_mode};
    use super::*;

    fn changed(mode: u16, uid: u32, seconds: i64) -> ReplicaMetadata {
        let mut metadata = file("f", 1).entry.metadata;
        metadata.basic.mode = mode;
        metadata.basic.uid = uid;
        metadata.basic.modified = at(seconds);
        metadata
    }

    fn merged(base: Option<ReplicaMetadata>, a: ReplicaMetadata, b: ReplicaMetadata) -> Option<ReplicaMetadata> {
        MetadataRules::ALL.merge(&file("f", 1).entry.content, base.as_ref(), [&a, &b])
    }

    #[test]
    fn changes_of_different_fields_are_merged() {
        let base = Some(changed(0o644, 1, 5));
        assert_eq!(merged(base, changed(0o600, 1, 5), changed(0o644, 2, 5)), Some(changed(0o600, 2, 5)));
        assert_eq!(merged(base, changed(0o600, 1, 5), changed(0o600, 1, 5)), Some(changed(0o600, 1, 5)));
    }

    #[test]
    fn different_changes_of_one_field_are_a_conflict_except_of_times() {
        let base = Some(changed(0o644, 1, 5));
        assert_eq!(merged(base, changed(0o600, 1, 5), changed(0o640, 1, 5)), None);
        assert_eq!(merged(None, changed(0o600, 1, 5), changed(0o640, 1, 5)), None);
        assert_eq!(merged(base, changed(0o644, 1, 6), changed(0o644, 1, 9)), Some(changed(0o644, 1, 9)));
    }

    #[test]
    fn times_within_the_window_and_fields_that_one_end_cannot_hold_are_equal() {
        let rules = MetadataRules { window_ns: 2_000_000_000, owner: false, ..MetadataRules::ALL };
        let content = file("f", 1).entry.content;
        assert!(rules.is_same(&content, &changed(0o644, 1, 5), &changed(0o644, 2, 7)));
        assert!(!rules.is_same(&content, &changed(0o644, 1, 5), &changed(0o644, 1, 8)));
    }

    #[test]
    fn a_directory_that_was_being_made_takes_its_final_mode() {
        let (made, making) = (with_mode(directory("d"), 0o555).entry, with_mode(directory("d"), 0o755).entry);
        let merged = MetadataRules::ALL.merge(&made.content, None, [&made.metadata, &making.metadata]);
        assert_eq!(merged.map(|metadata| metadata.basic.mode), Some(0o555));
    }
}
