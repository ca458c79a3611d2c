//! The journal of a partial file: the version of the source file and a record of each frame.
//!
//! Each frame has a slot at a fixed offset. So frames are recorded in any order, none waits for another, and a torn or
//! lost slot costs one frame.
//!
//! A record is a claim that needs verification: the frame is read and hashed before it is trusted. So the order in
//! which bytes reach the disk before a crash does not matter.

use std::ops::Range;

use crate::codec::Wire;
use crate::encoding::{Decoded, Reader, Writer};
use crate::entry::{FileVersion, Timestamp};
use crate::error::ProtocolError;
use crate::file_range::FileRange;
use crate::integrity::{Digest, FrameLen, frame_check};
use crate::path::{MAX_NAME, Name};

/// Magic bytes at the beginning, with the number of this format.
const MAGIC: [u8; 16] = *b"haul journal 2\n\0";
/// Length of the header before the first slot.
pub const HEADER_BYTES: usize = 1024;
/// Length of a slot: value, check of the frame, check of the slot.
pub const SLOT_BYTES: usize = 48;
const CHECK_BYTES: usize = 8;
/// Marker of an unknown value: no input with this BLAKE3 is known.
const UNKNOWN: Digest = [0; 32];

/// Record of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalRecord {
    /// Check of the frame's bytes: see [`frame_check`].
    pub check: u64,
    /// BLAKE3 value of the frame: see [`FrameLen::hash`]. `None` in a session without BLAKE3.
    pub value: Option<Digest>,
}

/// Identity of the file that the partial file belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalHeader {
    /// Final name of the file.
    pub name: Name,
    /// Size of the whole file in bytes.
    pub size: u64,
    /// Time of last modification at the source.
    pub modified: Timestamp,
    /// Version of the file at the source.
    pub version: FileVersion,
    /// Frame length.
    pub frame: FrameLen,
    /// The range that this journal is of, where several runs write one file.
    pub range: Option<FileRange>,
}

/// Relation of a partial file to a file offered now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartialMatch {
    /// It belongs to the same version of the file.
    Same,
    /// It probably does: device or change time differ, as after a reboot or a chmod. The source has to compare.
    Likely,
    /// The file is a different one now.
    Other,
    /// It cannot be resumed: its frame length differs.
    Unusable,
}

/// Returns a frame's check as its value, for a session without BLAKE3.
pub fn check_value(check: u64) -> Digest {
    let mut value = [0; 32];
    value[..CHECK_BYTES].copy_from_slice(&check.to_le_bytes());
    value
}

/// Returns the offset of a frame's slot.
pub fn slot_offset(index: u64) -> u64 {
    (HEADER_BYTES as u64).saturating_add(index.saturating_mul(SLOT_BYTES as u64))
}

impl JournalHeader {
    /// Encodes the header.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = Writer::new();
        out.raw(&MAGIC).bytes(self.name.as_bytes()).u64(self.size);
        self.modified.encode(&mut out);
        out.u64(self.version.device).u64(self.version.inode);
        self.version.changed.encode(&mut out);
        out.u32(self.frame.get());
        self.range.encode(&mut out);
        let mut bytes = [0; HEADER_BYTES];
        let fields = out.into_bytes();
        bytes[..fields.len()].copy_from_slice(&fields);
        let check = frame_check(&bytes[..HEADER_BYTES - CHECK_BYTES]);
        bytes[HEADER_BYTES - CHECK_BYTES..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// Reads what [`Self::encode`] wrote; anything else is an error.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Decoded<Self> {
        let (fields, check) = bytes.split_at(HEADER_BYTES - CHECK_BYTES);
        if frame_check(fields).to_le_bytes() != check {
            return Err(ProtocolError::Invalid("a damaged journal"));
        }
        let mut reader = Reader::new(fields);
        if reader.array()? != MAGIC {
            return Err(ProtocolError::Invalid("no journal, or another version"));
        }
        let name = reader.bytes(MAX_NAME, "a name")?;
        let name = Name::new(name).map_err(|_| ProtocolError::Invalid("an invalid name"))?;
        let (size, modified) = (reader.u64()?, Timestamp::decode(&mut reader)?);
        let version =
            FileVersion { device: reader.u64()?, inode: reader.u64()?, changed: Timestamp::decode(&mut reader)? };
        let frame = FrameLen::new(reader.u32()?)?;
        // Journals of earlier releases end here, and zeros follow.
        let range = Option::decode(&mut reader)?;
        Ok(Self { name, size, modified, version, frame, range })
    }

    /// Compares a partial file with this header to a file with the header `offered`.
    pub fn kinship(&self, offered: &Self) -> PartialMatch {
        let same_file = (&self.name, self.size, self.modified, self.version.inode, self.range)
            == (&offered.name, offered.size, offered.modified, offered.version.inode, offered.range);
        match (same_file, self.version == offered.version) {
            (false, _) => PartialMatch::Other,
            (true, _) if self.frame != offered.frame => PartialMatch::Unusable,
            (true, true) => PartialMatch::Same,
            (true, false) => PartialMatch::Likely,
        }
    }

    /// Whether both are of one version of a file. Device numbers differ between hosts.
    pub fn is_same_version(&self, other: &Self) -> bool {
        let of = |it: &Self| (it.name.clone(), it.size, it.modified, it.version.inode, it.version.changed);
        of(self) == of(other)
    }

    /// Returns the frames that have slots: those of the file, or of its range.
    pub fn frames(&self) -> Range<u64> {
        match self.range {
            Some(range) => range.frames(self.frame, self.size),
            None => 0..self.frame.frames(self.size),
        }
    }
}

/// Encodes the slot of frame `index`.
pub fn encode_slot(index: u64, record: &JournalRecord) -> [u8; SLOT_BYTES] {
    let mut slot = [0; SLOT_BYTES];
    let (fields, check) = slot.split_at_mut(SLOT_BYTES - CHECK_BYTES);
    fields[..32].copy_from_slice(&record.value.unwrap_or(UNKNOWN));
    fields[32..].copy_from_slice(&record.check.to_le_bytes());
    check.copy_from_slice(&slot_check(index, fields));
    slot
}

/// End of a range that is on the disk and was compared with the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeEnd {
    /// BLAKE3 value of the range; `None` in a session without BLAKE3.
    pub value: Option<Digest>,
    /// Inode number of the file that holds it.
    pub inode: u64,
}

impl RangeEnd {
    /// Encodes the slot after those of the range's frames.
    pub fn encode(&self) -> [u8; SLOT_BYTES] {
        encode_slot(END_INDEX, &JournalRecord { check: self.inode, value: self.value })
    }

    /// Decodes that slot; `None` while the range has no end.
    pub fn decode(slot: &[u8; SLOT_BYTES]) -> Option<Self> {
        decode_slot(END_INDEX, slot).map(|JournalRecord { check, value }| Self { value, inode: check })
    }
}

/// The index of a range's end in the check of its slot: no frame has it.
const END_INDEX: u64 = u64::MAX;

/// Decodes the record of frame `index`; `None` where the slot is empty or torn.
pub fn decode_slot(index: u64, slot: &[u8; SLOT_BYTES]) -> Option<JournalRecord> {
    let (fields, check) = slot.split_at(SLOT_BYTES - CHECK_BYTES);
    if check != slot_check(index, fields) {
        return None;
    }
    let mut reader = Reader::new(fields);
    let value: Digest = reader.array().ok()?;
    Some(JournalRecord { value: (value != UNKNOWN).then_some(value), check: reader.u64().ok()? })
}

/// Computes the check over the fields and the frame index, so that a slot is invalid at any other offset. It is never
/// zero, so a slot of zeros is invalid.
fn slot_check(index: u64, fields: &[u8]) -> [u8; CHECK_BYTES] {
    let mut bytes = [0; SLOT_BYTES];
    bytes[..CHECK_BYTES].copy_from_slice(&index.to_le_bytes());
    bytes[CHECK_BYTES..].copy_from_slice(fields);
    (frame_check(&bytes) | 1).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::file_range::RangeLen;

    fn header() -> JournalHeader {
        JournalHeader {
            name: Name::new(&[b'n'; MAX_NAME]).unwrap(),
            size: u64::MAX,
            modified: Timestamp { seconds: -1, nanoseconds: 7 },
            version: FileVersion {
                device: 1,
                inode: 2,
                changed: Timestamp { seconds: i64::MAX, nanoseconds: 999_999_999 },
            },
            frame: FrameLen::DEFAULT,
            range: RangeLen::DEFAULT.range(1),
        }
    }

    #[test]
    fn a_header_of_an_earlier_release_has_no_range() {
        let none = JournalHeader { range: None, ..header() };
        assert_eq!(JournalHeader::decode(&none.encode()), Ok(none.clone()));
        let fields = none.encode().iter().rposition(|byte| *byte != 0 && HEADER_BYTES > 0).unwrap();
        assert!(fields >= HEADER_BYTES - CHECK_BYTES - 1, "zeros stand before the check");
        assert_eq!(none.frames(), 0..FrameLen::DEFAULT.frames(u64::MAX));
        assert_eq!(header().frames(), 1 << 17..1 << 18);
    }

    #[test]
    fn the_end_of_a_range_is_no_frame() {
        let end = RangeEnd { value: Some([7; 32]), inode: 12 };
        assert_eq!(RangeEnd::decode(&end.encode()), Some(end));
        assert_eq!(decode_slot(0, &end.encode()), None);
        assert_eq!(RangeEnd::decode(&encode_slot(0, &JournalRecord { check: 12, value: None })), None);
        assert_eq!(RangeEnd::decode(&[0; SLOT_BYTES]), None);
    }

    #[test]
    fn one_version_may_have_several_devices() {
        let other = |version| JournalHeader { version, ..header() };
        let version = header().version;
        assert!(header().is_same_version(&other(FileVersion { device: 9, ..version })));
        assert!(!header().is_same_version(&other(FileVersion { changed: Timestamp::default(), ..version })));
        assert!(!header().is_same_version(&JournalHeader { size: 1, ..header() }));
    }

    #[test]
    fn headers_round_trip_unless_damaged() {
        assert_eq!(JournalHeader::decode(&header().encode()), Ok(header()));
        for byte in 0..HEADER_BYTES {
            let mut bytes = header().encode();
            bytes[byte] ^= 1;
            assert!(JournalHeader::decode(&bytes).is_err(), "byte {byte}");
        }
        assert!(JournalHeader::decode(&[0; HEADER_BYTES]).is_err());
    }

    #[test]
    fn resumable_bytes_of_a_part() {
        let (part, other) = (header(), Timestamp::default());
        let of = |offered: JournalHeader| part.kinship(&offered);
        assert_eq!(of(header()), PartialMatch::Same);
        let version = |version| JournalHeader { version, ..header() };
        assert_eq!(of(version(FileVersion { device: 9, ..part.version })), PartialMatch::Likely);
        assert_eq!(of(version(FileVersion { changed: other, ..part.version })), PartialMatch::Likely);
        assert_eq!(of(version(FileVersion { inode: 9, ..part.version })), PartialMatch::Other);
        assert_eq!(of(JournalHeader { size: 1, ..header() }), PartialMatch::Other);
        assert_eq!(of(JournalHeader { range: None, ..header() }), PartialMatch::Other);
        assert_eq!(of(JournalHeader { modified: other, ..header() }), PartialMatch::Other);
        assert_eq!(of(JournalHeader { name: Name::new(b"other").unwrap(), ..header() }), PartialMatch::Other);
        assert_eq!(of(JournalHeader { frame: FrameLen::new(1 << 20).unwrap(), ..header() }), PartialMatch::Unusable);
    }

    #[test]
    fn an_empty_slot_records_nothing() {
        assert_eq!(decode_slot(0, &[0; SLOT_BYTES]), None);
        assert_eq!(slot_offset(u64::MAX), u64::MAX);
    }

    proptest! {
        #[test]
        fn a_slot_is_valid_only_if_complete_and_in_place(
            index: u64, check: u64, value in proptest::option::of(any::<[u8; 32]>()), bit in 0..SLOT_BYTES * 8,
        ) {
            let record = JournalRecord { check, value };
            let slot = encode_slot(index, &record);
            prop_assert_eq!(decode_slot(index, &slot), Some(record));
            prop_assert_eq!(decode_slot(index ^ 2, &slot), None);
            let mut damaged = slot;
            damaged[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(decode_slot(index, &damaged), None);
        }
    }
}
