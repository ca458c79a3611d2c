//! Sync options of the target, sent by the controller, and the counters that the ends report.

use crate::codec::{OfType, wire_enum, wire_newtypes, wire_struct};
use crate::entry::EntryKind;
use crate::error::ProtocolError;
use crate::field_codecs::{BoundedBytes, Optional, PATH, ReportFigure, Varint, Varint32, list};
use crate::limits::{LINK_DESTS_MAX, SUFFIX_MAX};

const BAD_WINDOW: ProtocolError = ProtocolError::Invalid("a window of time");

wire_struct! {
    /// Options of a sync. The defaults are those of a copy.
    #[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
    pub struct SyncOptions {
        /// The target is a directory, created if missing. Each source goes into it by its own name; of `SOURCE/.`, only the
        /// contents do.
        pub into: bool,
        /// The test of equality for files.
        pub equal: EqualityTest,
        /// Keep files with a later modification time than the source's.
        pub update: bool,
        /// Keep files that are not shorter than the source's.
        pub append: bool,
        /// Create no new entries.
        pub existing_only: bool,
        /// Look for a missing file under other names.
        pub detect_renames: bool,
        /// When to delete extraneous entries.
        pub delete: DeleteMode,
        /// Most entries to remove.
        pub delete_max: Option<u64> as Optional(Varint),
        /// Entries removed in earlier attempts; they count towards `delete_max`.
        pub removed_before: u64 as Varint,
        /// Entries excluded by filters are extraneous, too.
        pub delete_filtered: bool,
        /// Remove a directory with its contents where the source has another type; otherwise it has to be empty.
        pub replaces_trees: bool,
        /// Links of all users lead to the directories that these options name.
        pub insecure_links: bool,
        /// A symbolic link to a directory stays where the source has a directory, whose entries go there.
        pub keep_dirlinks: bool,
        /// Delete even where the source could not be listed in full.
        pub delete_despite_errors: bool,
        /// Dry run: create, change and remove nothing, and report each [`ItemChange`].
        pub is_dry: bool,
        /// Report each [`ItemChange`].
        pub tells_items: bool,
        /// Report each unchanged and each kept entry too.
        pub tells_unchanged: bool,
        /// The source removes its files once they are verified. The target reports existing entries known to be equal.
        pub source_removes: bool,
        /// Largest difference between equal times, in seconds.
        pub modify_window_s: Option<u32> as Optional(Varint32(BAD_WINDOW)),
        /// Directory for replaced and removed entries; empty: none. A relative path begins at the target.
        pub backup_dir: Vec<u8> as PATH,
        /// Appended to the names of backups. Without a backup directory, they stay beside the new entries; with neither,
        /// there are none.
        pub backup_suffix: Vec<u8> as BoundedBytes(SUFFIX_MAX, "a suffix"),
        /// Symbolic links that may lead out of the target get no backup.
        pub safe_backups: bool,
        /// Earlier copies, which may have the wanted files. Relative paths begin at the target.
        pub link_dests: Vec<Vec<u8>> as list(PATH, LINK_DESTS_MAX, "earlier copies"),
        /// The use of a file found there.
        pub earlier_use: EarlierCopyUse,
    }
}

wire_enum! {
    /// The use of an earlier copy's file that equals a wanted one.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
    pub enum EarlierCopyUse: "use of earlier copies" {
        /// A hard link to it is created (`--link-dest`).
        #[default]
        Link = 0,
        /// It is copied (`--copy-dest`).
        Copy = 1,
        /// Nothing is created (`--compare-dest`).
        Compare = 2,
    }
}

wire_enum! {
    /// Test of equality for files.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
    pub enum EqualityTest: "kind of equality" {
        /// Equal sizes and modification times, to the precision of the target's file system.
        #[default]
        SizeAndTime = 0,
        /// Equal sizes.
        Size = 1,
        /// Equal sizes and equal BLAKE3 values of the contents.
        Digest = 2,
        /// Never: each file is transferred, with its existing counterpart as the base file.
        Never = 3,
    }
}

wire_enum! {
    /// When to delete extraneous entries.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
    pub enum DeleteMode: "time of deletion" {
        /// Never.
        #[default]
        No = 0,
        /// In each directory, once all its entries are complete.
        During = 1,
        /// After all entries are complete.
        After = 2,
        /// As After, without any transfer.
        Only = 3,
    }
}

wire_struct! {
    /// A change of an entry, made or planned.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ItemChange {
        /// Type of the entry; the new type where it changes.
        pub what: EntryKind,
        /// The change.
        pub change: ChangeKind,
    }
}

wire_enum! {
    /// Kind of change.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ChangeKind: "change" {
        /// Created.
        Made = 1,
        /// Replaced, for these differences in contents or type.
        Replaced(reasons: ChangeReasons) = 2,
        /// Adjusted in its metadata alone.
        Adjusted(reasons: ChangeReasons) = 3,
        /// Created as a hard link to an earlier copy's file.
        Linked = 4,
        /// Extraneous and removed.
        Removed = 5,
        /// None: both are equal.
        Unchanged = 6,
        /// None: the options keep it, whatever the source has.
        Kept = 7,
    }
}

/// Differences between an entry and the source's: a set of the constants below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChangeReasons(u8);

impl ChangeReasons {
    /// Type.
    pub const KIND: Self = Self(1);
    /// Size.
    pub const SIZE: Self = Self(2);
    /// Modification time.
    pub const TIME: Self = Self(4);
    /// Contents; of a link, its target.
    pub const CONTENT: Self = Self(8);
    /// Mode.
    pub const MODE: Self = Self(16);
    /// Owner or group.
    pub const OWNER: Self = Self(32);
    /// Extended attributes or access control lists.
    pub const ATTRIBUTES: Self = Self(64);
    /// A separate file where a hard link is expected.
    pub const LINK: Self = Self(128);

    /// Adds `other` where `applies`.
    #[must_use]
    pub fn and(self, other: Self, applies: bool) -> Self {
        if applies { Self(self.0 | other.0) } else { self }
    }

    /// Whether the set contains all of `other`.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

wire_struct! {
    /// Counters of a sync so far. Each end reports them from time to time and before its end, unless all are zero.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct SyncCounters {
        /// Entries removed at the target.
        pub removed: u64 as ReportFigure,
        /// Entries kept as backups instead of being replaced or removed.
        pub backed_up: u64 as ReportFigure,
        /// Files created as hard links to an earlier copy's.
        pub linked: u64 as ReportFigure,
        /// Entries with metadata changes alone.
        pub adjusted: u64 as ReportFigure,
        /// Files and links that the source removed after their verification at the target.
        pub removed_at_source: u64 as ReportFigure,
        /// Files and links that the source keeps although it was to remove them: they exist at the target unverified.
        pub left_at_source: u64 as ReportFigure,
    }
}

impl SyncOptions {
    /// Whether entries may be removed.
    pub fn deletes(&self) -> bool {
        self.delete != DeleteMode::No
    }

    /// Whether replaced and removed entries are kept.
    pub fn backs_up(&self) -> bool {
        !self.backup_dir.is_empty() || !self.backup_suffix.is_empty()
    }
}

wire_newtypes! {
    ChangeReasons as OfType;
}

impl SyncCounters {
    /// Returns the sum of both ends' counters.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            removed: self.removed.saturating_add(other.removed),
            backed_up: self.backed_up.saturating_add(other.backed_up),
            linked: self.linked.saturating_add(other.linked),
            adjusted: self.adjusted.saturating_add(other.adjusted),
            removed_at_source: self.removed_at_source.saturating_add(other.removed_at_source),
            left_at_source: self.left_at_source.saturating_add(other.left_at_source),
        }
    }

    /// Merges a later report: no counter decreases, and no end counts what the other does.
    #[must_use]
    pub fn later(self, reported: Self) -> Self {
        Self {
            removed: self.removed.max(reported.removed),
            backed_up: self.backed_up.max(reported.backed_up),
            linked: self.linked.max(reported.linked),
            adjusted: self.adjusted.max(reported.adjusted),
            removed_at_source: self.removed_at_source.max(reported.removed_at_source),
            left_at_source: self.left_at_source.max(reported.left_at_source),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::tests::{check_round_trip, refuses};
    use crate::limits::FIGURE_MAX;

    #[test]
    fn rules_round_trip() {
        let path = b"/b".to_vec();
        let some = SyncOptions {
            into: true,
            delete_max: Some(1 << 40),
            removed_before: 300,
            is_dry: true,
            ..SyncOptions::default()
        };
        for rules in [
            SyncOptions::default(),
            some.clone(),
            SyncOptions {
                equal: EqualityTest::Size,
                delete: DeleteMode::During,
                update: true,
                append: true,
                detect_renames: true,
                ..some.clone()
            },
            SyncOptions { equal: EqualityTest::Digest, delete: DeleteMode::Only, existing_only: true, ..some.clone() },
            SyncOptions {
                delete: DeleteMode::After,
                delete_filtered: true,
                replaces_trees: true,
                backup_dir: path.clone(),
                backup_suffix: b"~".to_vec(),
                ..some.clone()
            },
            SyncOptions {
                delete_despite_errors: true,
                insecure_links: true,
                keep_dirlinks: true,
                tells_items: true,
                tells_unchanged: true,
                safe_backups: true,
                source_removes: true,
                link_dests: vec![path, Vec::new()],
                earlier_use: EarlierCopyUse::Compare,
                ..some
            },
        ] {
            check_round_trip(&rules);
        }
    }

    #[test]
    fn items_and_counts_round_trip() {
        let all = ChangeReasons(u8::MAX);
        for change in [
            ChangeKind::Made,
            ChangeKind::Replaced(all),
            ChangeKind::Adjusted(all),
            ChangeKind::Linked,
            ChangeKind::Removed,
            ChangeKind::Unchanged,
            ChangeKind::Kept,
        ] {
            check_round_trip(&ItemChange { what: EntryKind::File, change });
        }
        let figures = SyncCounters {
            removed: 1,
            backed_up: 2,
            linked: 3,
            adjusted: 4,
            removed_at_source: FIGURE_MAX,
            left_at_source: 5,
        };
        check_round_trip(&figures);
        assert_eq!(figures.plus(figures).linked, 6);
    }

    #[test]
    fn unknown_values_are_faults() {
        let rules = check_round_trip(&SyncOptions::default());
        assert!(refuses::<SyncOptions>(&rules, &[(1, 4), (5, 4)]));
        let change = ChangeKind::Replaced(ChangeReasons::KIND);
        let item = check_round_trip(&ItemChange { what: EntryKind::File, change });
        assert!(refuses::<ItemChange>(&item, &[(0, 9), (1, 9)]));
    }

    #[test]
    fn reasons_add_up() {
        let reasons = ChangeReasons::default()
            .and(ChangeReasons::SIZE, true)
            .and(ChangeReasons::TIME, false)
            .and(ChangeReasons::MODE, true);
        assert!(
            reasons.has(ChangeReasons::SIZE) && reasons.has(ChangeReasons::MODE) && !reasons.has(ChangeReasons::TIME)
        );
        assert!(ChangeReasons::default().is_empty() && !reasons.is_empty());
    }
}
