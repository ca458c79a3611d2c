//! Sync options of the target, sent by the controller, and the counters that the ends report.

use super::limits::{LINK_DESTS_MAX, PATH_MAX};
use crate::encoding::{Decoded, Reader, Writer};
use crate::encoding::{decode_figure, encode_figure};
use crate::entry::EntryKind;
use crate::error::ProtocolError;

/// Options of a sync. The defaults are those of a copy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SyncOptions {
    /// The target is a directory, created if missing. Each source goes into it by its own name; of `SOURCE/.`, only the
    /// contents do.
    pub into: bool,
    /// The test of equality for files.
    pub equal: EqualityTest,
    /// Largest difference between equal times, in seconds.
    pub modify_window_s: Option<u32>,
    /// Keep files with a later modification time than the source's.
    pub update: bool,
    /// Create no new entries.
    pub existing_only: bool,
    /// Look for a missing file under other names.
    pub detect_renames: bool,
    /// When to delete extraneous entries.
    pub delete: DeleteMode,
    /// Most entries to remove.
    pub delete_max: Option<u64>,
    /// Entries removed in earlier attempts; they count towards `delete_max`.
    pub removed_before: u64,
    /// Entries excluded by filters are extraneous, too.
    pub delete_filtered: bool,
    /// Remove a directory with its contents where the source has another type; otherwise it has to be empty.
    pub replaces_trees: bool,
    /// Delete even where the source could not be listed in full.
    pub delete_despite_errors: bool,
    /// Dry run: create, change and remove nothing, and report each [`ItemChange`].
    pub is_dry: bool,
    /// Report each [`ItemChange`].
    pub tells_items: bool,
    /// The source removes its files once they are verified. The target reports existing entries known to be equal.
    pub source_removes: bool,
    /// Directory for replaced and removed entries; empty: none. A relative path begins at the target.
    pub backup_dir: Vec<u8>,
    /// Earlier copies (`--link-dest`): a file found there becomes a hard link to it. Relative paths begin at the
    /// target.
    pub link_dests: Vec<Vec<u8>>,
}

/// Test of equality for files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EqualityTest {
    /// Equal sizes and modification times, to the precision of the target's file system.
    #[default]
    SizeAndTime,
    /// Equal sizes.
    Size,
    /// Equal sizes and equal BLAKE3 values of the contents.
    Digest,
}

/// When to delete extraneous entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeleteMode {
    /// Never.
    #[default]
    No,
    /// In each directory, once all its entries are complete.
    During,
    /// After all entries are complete.
    After,
    /// As After, without any transfer.
    Only,
}

/// A change of an entry, made or planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemChange {
    /// Type of the entry; the new type where it changes.
    pub what: EntryKind,
    /// The change.
    pub change: ChangeKind,
}

/// Kind of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// Created.
    Made,
    /// Replaced, for these differences in contents or type.
    Replaced(ChangeReasons),
    /// Adjusted in its metadata alone.
    Adjusted(ChangeReasons),
    /// Created as a hard link to an earlier copy's file.
    Linked,
    /// Extraneous and removed.
    Removed,
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

/// Counters of a sync so far. Each end reports them from time to time and before its end, unless all are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SyncCounters {
    /// Entries removed at the target.
    pub removed: u64,
    /// Entries moved to the backup directory instead of being replaced or removed.
    pub backed_up: u64,
    /// Files created as hard links to an earlier copy's.
    pub linked: u64,
    /// Entries with metadata changes alone.
    pub adjusted: u64,
    /// Files and links that the source removed after their verification at the target.
    pub removed_at_source: u64,
    /// Files and links that the source keeps although it was to remove them: they exist at the target unverified.
    pub left_at_source: u64,
}

mod kind {
    pub const MADE: u8 = 1;
    pub const REPLACED: u8 = 2;
    pub const ADJUSTED: u8 = 3;
    pub const LINKED: u8 = 4;
    pub const REMOVED: u8 = 5;
}

impl SyncOptions {
    /// Whether entries may be removed.
    pub fn deletes(&self) -> bool {
        self.delete != DeleteMode::No
    }

    /// Writes the options.
    pub(crate) fn encode(&self, out: &mut Writer) {
        out.bool(self.into);
        out.u8(match self.equal {
            EqualityTest::SizeAndTime => 0,
            EqualityTest::Size => 1,
            EqualityTest::Digest => 2,
        });
        out.bool(self.update).bool(self.existing_only).bool(self.detect_renames);
        out.u8(match self.delete {
            DeleteMode::No => 0,
            DeleteMode::During => 1,
            DeleteMode::After => 2,
            DeleteMode::Only => 3,
        });
        out.bool(self.delete_max.is_some());
        self.delete_max.iter().for_each(|most| {
            out.varint(*most);
        });
        out.varint(self.removed_before);
        out.bool(self.delete_filtered)
            .bool(self.replaces_trees)
            .bool(self.delete_despite_errors)
            .bool(self.is_dry)
            .bool(self.tells_items)
            .bool(self.source_removes);
        out.bool(self.modify_window_s.is_some());
        self.modify_window_s.iter().for_each(|window_s| {
            out.varint((*window_s).into());
        });
        out.bytes(&self.backup_dir).count(self.link_dests.len());
        self.link_dests.iter().for_each(|path| {
            out.bytes(path);
        });
    }

    /// Reads the options.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        let into = reader.bool()?;
        let equal = match reader.u8()? {
            0 => EqualityTest::SizeAndTime,
            1 => EqualityTest::Size,
            2 => EqualityTest::Digest,
            value => return Err(ProtocolError::Unknown { what: "kind of equality", value: value.into() }),
        };
        let (update, existing_only, detect_renames) = (reader.bool()?, reader.bool()?, reader.bool()?);
        let delete = match reader.u8()? {
            0 => DeleteMode::No,
            1 => DeleteMode::During,
            2 => DeleteMode::After,
            3 => DeleteMode::Only,
            value => return Err(ProtocolError::Unknown { what: "time of deletion", value: value.into() }),
        };
        let delete_max = if reader.bool()? { Some(reader.varint()?) } else { None };
        let removed_before = reader.varint()?;
        Ok(Self {
            into,
            equal,
            update,
            existing_only,
            detect_renames,
            delete,
            delete_max,
            removed_before,
            delete_filtered: reader.bool()?,
            replaces_trees: reader.bool()?,
            delete_despite_errors: reader.bool()?,
            is_dry: reader.bool()?,
            tells_items: reader.bool()?,
            source_removes: reader.bool()?,
            modify_window_s: if reader.bool()? { Some(window(reader)?) } else { None },
            backup_dir: reader.bytes(PATH_MAX, "a path")?.to_vec(),
            link_dests: {
                let count = reader.count(LINK_DESTS_MAX, "earlier copies")?;
                (0..count).map(|_| Ok(reader.bytes(PATH_MAX, "a path")?.to_vec())).collect::<Decoded<_>>()?
            },
        })
    }
}

fn window(reader: &mut Reader<'_>) -> Decoded<u32> {
    u32::try_from(reader.varint()?).map_err(|_| ProtocolError::Invalid("a window of time"))
}

impl ItemChange {
    /// Writes the change.
    pub(crate) fn encode(self, out: &mut Writer) {
        out.u8(self.what.number());
        match self.change {
            ChangeKind::Made => out.u8(kind::MADE),
            ChangeKind::Replaced(reasons) => out.u8(kind::REPLACED).u8(reasons.0),
            ChangeKind::Adjusted(reasons) => out.u8(kind::ADJUSTED).u8(reasons.0),
            ChangeKind::Linked => out.u8(kind::LINKED),
            ChangeKind::Removed => out.u8(kind::REMOVED),
        };
    }

    /// Reads the change.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        let what = EntryKind::decode(reader)?;
        let change = match reader.u8()? {
            kind::MADE => ChangeKind::Made,
            kind::REPLACED => ChangeKind::Replaced(ChangeReasons::decode(reader)?),
            kind::ADJUSTED => ChangeKind::Adjusted(ChangeReasons::decode(reader)?),
            kind::LINKED => ChangeKind::Linked,
            kind::REMOVED => ChangeKind::Removed,
            value => return Err(ProtocolError::Unknown { what: "change", value: value.into() }),
        };
        Ok(Self { what, change })
    }
}

impl ChangeReasons {
    fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        reader.u8().map(Self)
    }
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
    pub fn later(self, told: Self) -> Self {
        Self {
            removed: self.removed.max(told.removed),
            backed_up: self.backed_up.max(told.backed_up),
            linked: self.linked.max(told.linked),
            adjusted: self.adjusted.max(told.adjusted),
            removed_at_source: self.removed_at_source.max(told.removed_at_source),
            left_at_source: self.left_at_source.max(told.left_at_source),
        }
    }

    /// Writes the counters.
    pub(crate) fn encode(self, out: &mut Writer) {
        let Self { removed, backed_up, linked, adjusted, removed_at_source, left_at_source } = self;
        for figure in [removed, backed_up, linked, adjusted, removed_at_source, left_at_source] {
            encode_figure(figure, out);
        }
    }

    /// Reads the counters.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        let mut figure = || decode_figure(reader);
        Ok(Self {
            removed: figure()?,
            backed_up: figure()?,
            linked: figure()?,
            adjusted: figure()?,
            removed_at_source: figure()?,
            left_at_source: figure()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::FIGURE_MAX;

    fn comes_back<T: PartialEq>(
        value: &T,
        encode: impl Fn(&T, &mut Writer),
        decode: impl Fn(&mut Reader<'_>) -> Decoded<T>,
    ) {
        let mut out = Writer::new();
        encode(value, &mut out);
        let bytes = out.into_bytes();
        let mut reader = Reader::new(&bytes);
        assert!(decode(&mut reader).as_ref() == Ok(value) && reader.finish().is_ok());
        assert!((0..bytes.len()).all(|cut| decode(&mut Reader::new(&bytes[..cut])).is_err()));
    }

    #[test]
    fn rules_come_back() {
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
                detect_renames: true,
                ..some.clone()
            },
            SyncOptions { equal: EqualityTest::Digest, delete: DeleteMode::Only, existing_only: true, ..some.clone() },
            SyncOptions {
                delete: DeleteMode::After,
                delete_filtered: true,
                replaces_trees: true,
                backup_dir: path.clone(),
                ..some.clone()
            },
            SyncOptions {
                delete_despite_errors: true,
                tells_items: true,
                source_removes: true,
                link_dests: vec![path, Vec::new()],
                ..some
            },
        ] {
            comes_back(&rules, SyncOptions::encode, SyncOptions::decode);
        }
    }

    #[test]
    fn items_and_figures_come_back() {
        let all = ChangeReasons(u8::MAX);
        for change in [
            ChangeKind::Made,
            ChangeKind::Replaced(all),
            ChangeKind::Adjusted(all),
            ChangeKind::Linked,
            ChangeKind::Removed,
        ] {
            comes_back(&ItemChange { what: EntryKind::File, change }, |item, out| item.encode(out), ItemChange::decode);
        }
        let figures = SyncCounters {
            removed: 1,
            backed_up: 2,
            linked: 3,
            adjusted: 4,
            removed_at_source: FIGURE_MAX,
            left_at_source: 5,
        };
        comes_back(&figures, |figures, out| figures.encode(out), SyncCounters::decode);
        assert_eq!(figures.plus(figures).linked, 6);
    }

    #[test]
    fn what_nobody_knows_is_a_fault() {
        let mut out = Writer::new();
        SyncOptions::default().encode(&mut out);
        let rules = out.into_bytes();
        for (at, value) in [(1, 3), (5, 4)] {
            let mut bad = rules.clone();
            bad[at] = value;
            assert!(SyncOptions::decode(&mut Reader::new(&bad)).is_err());
        }
        let mut out = Writer::new();
        ItemChange { what: EntryKind::File, change: ChangeKind::Replaced(ChangeReasons::KIND) }.encode(&mut out);
        for (at, value) in [(0, 9), (1, 9)] {
            let mut bad = out.clone().into_bytes();
            bad[at] = value;
            assert!(ItemChange::decode(&mut Reader::new(&bad)).is_err());
        }
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
