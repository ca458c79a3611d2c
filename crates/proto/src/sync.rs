//! What a target does besides copying, so that what is there becomes what the source has: as the controller tells it, and
//! what the target tells of it.

use super::limits::{LINK_DESTS_MAX, PATH_MAX};
use crate::encoding::{Decoded, Reader, Writer};
use crate::encoding::{decode_figure, encode_figure};
use crate::entry::EntryKind;
use crate::error::ProtocolError;

/// How what is there is treated. By default, as in a copy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SyncOptions {
    /// The target is a directory, which is made where it is missing, and each source goes into it by its own name, or, of
    /// what was named `SOURCE/.`, what is in it.
    pub into: bool,
    /// What makes a file that is there the same as the source's.
    pub equal: EqualityTest,
    /// Times that differ by up to so many seconds are equal.
    pub modify_window_s: Option<u32>,
    /// A file that was modified later than the source's stays.
    pub update: bool,
    /// What is not there is not made.
    pub existing_only: bool,
    /// A file that is not there is looked for under other names.
    pub detect_renames: bool,
    /// What is there alone.
    pub delete: DeleteMode,
    /// At most so many entries are removed.
    pub delete_max: Option<u64>,
    /// So many entries were removed in earlier attempts, and count as well.
    pub removed_before: u64,
    /// What filters leave out is there alone, too.
    pub delete_filtered: bool,
    /// A directory in whose place the source has something else is removed with all that is in it; else it has to be empty.
    pub replaces_trees: bool,
    /// It is removed also where the source could not be listed to its end.
    pub delete_despite_errors: bool,
    /// Nothing is made, changed or removed: it is only told ([`ItemChange`]).
    pub is_dry: bool,
    /// What is made, changed and removed is told ([`ItemChange`]).
    pub tells_items: bool,
    /// The source removes what it has once that is proven: of what is there, it is said where it is known to be the same.
    pub source_removes: bool,
    /// Where what is replaced or removed goes instead; empty: nowhere. A relative path begins at the target.
    pub backup_dir: Vec<u8>,
    /// Earlier copies: a file that one of them has becomes a name of it. Relative paths begin at the target.
    pub link_dests: Vec<Vec<u8>>,
}

/// What makes two files the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EqualityTest {
    /// Equal sizes, and equal times of modification, as precisely as the target's file system keeps them.
    #[default]
    SizeAndTime,
    /// Equal sizes.
    Size,
    /// Equal sizes, and equal BLAKE3 values of their contents.
    Digest,
}

/// When what is at the target alone is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeleteMode {
    /// Never.
    #[default]
    No,
    /// In each directory as soon as all that belongs in it is there.
    During,
    /// When everything is there.
    After,
    /// As After; and nothing else is done: no entry is needed.
    Only,
}

/// Something that is made, changed or removed, or that would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemChange {
    /// What it is; what it will be, where it becomes something else.
    pub what: EntryKind,
    /// What is done with it.
    pub change: ChangeKind,
}

/// What is done with an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// It was not there.
    Made,
    /// It was there, and its contents, or what it is, differ in this.
    Replaced(ChangeReasons),
    /// Its metadata alone are changed.
    Adjusted(ChangeReasons),
    /// It was not there, and becomes a name of an earlier copy's file.
    Linked,
    /// It is there alone, and is removed.
    Removed,
}

/// In what an entry differs from the source's: some of the constants below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChangeReasons(u8);

impl ChangeReasons {
    /// It is something else.
    pub const KIND: Self = Self(1);
    /// Its size.
    pub const SIZE: Self = Self(2);
    /// Its time of modification.
    pub const TIME: Self = Self(4);
    /// Its contents; of a link, what it points to.
    pub const CONTENT: Self = Self(8);
    /// Its mode.
    pub const MODE: Self = Self(16);
    /// Its owner or its group.
    pub const OWNER: Self = Self(32);
    /// Its extended attributes or access control lists.
    pub const ATTRIBUTES: Self = Self(64);
    /// It is a file of its own, and not another name of the one that it is to be.
    pub const LINK: Self = Self(128);

    /// These, where `applies`, besides.
    #[must_use]
    pub fn and(self, other: Self, applies: bool) -> Self {
        if applies { Self(self.0 | other.0) } else { self }
    }

    /// Whether all of `other` are among them.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// What came of it so far: what each end tells now and then and before it has finished, if there is anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SyncCounters {
    /// Entries that were removed at the target.
    pub removed: u64,
    /// Entries that were put into the directory for backups instead of being replaced or removed.
    pub backed_up: u64,
    /// Files that became names of an earlier copy's.
    pub linked: u64,
    /// Entries whose metadata alone were changed.
    pub adjusted: u64,
    /// Files and links that the source removed, once they were proven at the target.
    pub removed_at_source: u64,
    /// Files and links that it was to remove, and that stay: they were at the target, and are not proven.
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
    /// Whether something may be removed.
    pub fn deletes(&self) -> bool {
        self.delete != DeleteMode::No
    }

    /// Writes them.
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

    /// Reads them.
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
            value => return Err(ProtocolError::Unknown { what: "time of removal", value: value.into() }),
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
    /// Writes it.
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

    /// Reads it.
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
    /// Both ends'.
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

    /// What is known when an end tells these: none of them becomes less, and no end counts what the other does.
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

    /// Writes them.
    pub(crate) fn encode(self, out: &mut Writer) {
        let Self { removed, backed_up, linked, adjusted, removed_at_source, left_at_source } = self;
        for figure in [removed, backed_up, linked, adjusted, removed_at_source, left_at_source] {
            encode_figure(figure, out);
        }
    }

    /// Reads them.
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
