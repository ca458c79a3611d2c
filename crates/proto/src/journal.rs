//! The journal of a partial file: of which version of which file it is a part, and what each frame in it is.
//!
//! Each frame has a slot at a fixed place, so that frames are recorded in whatever order they are written, none
//! waits for another, and a slot that is torn or lost costs one frame. A record is a claim, not a proof: before it is
//! believed, the frame is read and hashed again. So the order in which a crash let bytes reach the disk does not matter.

use crate::encoding::{Decoded, Reader, Writer};
use crate::entry::{FileVersion, Timestamp};
use crate::entry::{decode_stamp, encode_stamp};
use crate::error::ProtocolError;
use crate::integrity::{Digest, FrameLen, frame_check};
use crate::path::{MAX_NAME, Name};

/// What stands at the beginning, with the number of this format.
const MAGIC: [u8; 16] = *b"haul journal 2\n\0";
/// Length of what stands before the first slot.
pub const HEADER_BYTES: usize = 1024;
/// Length of a slot: value, check of the frame, check of the slot.
pub const SLOT_BYTES: usize = 48;
const CHECK_BYTES: usize = 8;
/// Stands for a value that is not known: no bytes are known whose BLAKE3 this is.
const UNKNOWN: Digest = [0; 32];

/// What is recorded of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalRecord {
    /// Check of its bytes: see [`frame_check`].
    pub check: u64,
    /// Its BLAKE3 value: see [`FrameLen::hash`]. Unknown where nobody asked for it.
    pub value: Option<Digest>,
}

/// Of what the file beside the journal is a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalHeader {
    /// The name that it gets when it is whole.
    pub name: Name,
    /// Bytes of the whole file.
    pub size: u64,
    /// Its time of last modification at the source.
    pub modified: Timestamp,
    /// Which file it is at the source.
    pub version: FileVersion,
    /// How it is cut into frames.
    pub frame: FrameLen,
}

/// What a part is worth to a file that is offered now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartialMatch {
    /// It is a part of that very file.
    Same,
    /// It may be: device or change time are others, as after a reboot or a chmod. The source is to compare.
    Likely,
    /// The file is another one now.
    Other,
    /// It cannot be gone on with: it is cut into other frames.
    Unusable,
}

/// A frame's check as its value, in a session without BLAKE3.
pub fn check_value(check: u64) -> Digest {
    let mut value = [0; 32];
    value[..CHECK_BYTES].copy_from_slice(&check.to_le_bytes());
    value
}

/// Where the slot of a frame begins.
pub fn slot_offset(index: u64) -> u64 {
    (HEADER_BYTES as u64).saturating_add(index.saturating_mul(SLOT_BYTES as u64))
}

impl JournalHeader {
    /// The bytes in front of the slots.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = Writer::new();
        out.raw(&MAGIC).bytes(self.name.as_bytes()).u64(self.size);
        encode_stamp(&mut out, self.modified);
        out.u64(self.version.device).u64(self.version.inode);
        encode_stamp(&mut out, self.version.changed);
        out.u32(self.frame.get());
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
            return Err(ProtocolError::Invalid("a journal that is damaged"));
        }
        let mut reader = Reader::new(fields);
        if reader.array()? != MAGIC {
            return Err(ProtocolError::Invalid("no journal, or one of another version"));
        }
        let name = reader.bytes(MAX_NAME, "a name")?;
        let name = Name::new(name).map_err(|_| ProtocolError::Invalid("a name that cannot be one"))?;
        let (size, modified) = (reader.u64()?, decode_stamp(&mut reader)?);
        let version = FileVersion { device: reader.u64()?, inode: reader.u64()?, changed: decode_stamp(&mut reader)? };
        let frame = FrameLen::new(reader.u32()?)?;
        Ok(Self { name, size, modified, version, frame })
    }

    /// What a part with this header is worth to a file with the header `offered`.
    pub fn kinship(&self, offered: &Self) -> PartialMatch {
        let same_file = (&self.name, self.size, self.modified, self.version.inode)
            == (&offered.name, offered.size, offered.modified, offered.version.inode);
        match (same_file, self.version == offered.version) {
            (false, _) => PartialMatch::Other,
            (true, _) if self.frame != offered.frame => PartialMatch::Unusable,
            (true, true) => PartialMatch::Same,
            (true, false) => PartialMatch::Likely,
        }
    }

    /// Frames of the whole file.
    pub fn frames(&self) -> u64 {
        self.frame.frames(self.size)
    }
}

/// The slot of frame `index`.
pub fn encode_slot(index: u64, record: &JournalRecord) -> [u8; SLOT_BYTES] {
    let mut slot = [0; SLOT_BYTES];
    let (fields, check) = slot.split_at_mut(SLOT_BYTES - CHECK_BYTES);
    fields[..32].copy_from_slice(&record.value.unwrap_or(UNKNOWN));
    fields[32..].copy_from_slice(&record.check.to_le_bytes());
    check.copy_from_slice(&slot_check(index, fields));
    slot
}

/// What was recorded of frame `index`; `None` where nothing was, or not wholly.
pub fn decode_slot(index: u64, slot: &[u8; SLOT_BYTES]) -> Option<JournalRecord> {
    let (fields, check) = slot.split_at(SLOT_BYTES - CHECK_BYTES);
    if check != slot_check(index, fields) {
        return None;
    }
    let mut reader = Reader::new(fields);
    let value: Digest = reader.array().ok()?;
    Some(JournalRecord { value: (value != UNKNOWN).then_some(value), check: reader.u64().ok()? })
}

/// Of the fields and their place, so that a slot says nothing elsewhere. One of zeros is none.
fn slot_check(index: u64, fields: &[u8]) -> [u8; CHECK_BYTES] {
    let mut bytes = [0; SLOT_BYTES];
    bytes[..CHECK_BYTES].copy_from_slice(&index.to_le_bytes());
    bytes[CHECK_BYTES..].copy_from_slice(fields);
    (frame_check(&bytes) | 1).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
        }
    }

    #[test]
    fn a_header_comes_back_and_a_damaged_one_does_not() {
        assert_eq!(JournalHeader::decode(&header().encode()), Ok(header()));
        for byte in 0..HEADER_BYTES {
            let mut bytes = header().encode();
            bytes[byte] ^= 1;
            assert!(JournalHeader::decode(&bytes).is_err(), "byte {byte}");
        }
        assert!(JournalHeader::decode(&[0; HEADER_BYTES]).is_err());
    }

    #[test]
    fn what_a_part_is_worth() {
        let (part, other) = (header(), Timestamp::default());
        let of = |offered: JournalHeader| part.kinship(&offered);
        assert_eq!(of(header()), PartialMatch::Same);
        let version = |version| JournalHeader { version, ..header() };
        assert_eq!(of(version(FileVersion { device: 9, ..part.version })), PartialMatch::Likely);
        assert_eq!(of(version(FileVersion { changed: other, ..part.version })), PartialMatch::Likely);
        assert_eq!(of(version(FileVersion { inode: 9, ..part.version })), PartialMatch::Other);
        assert_eq!(of(JournalHeader { size: 1, ..header() }), PartialMatch::Other);
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
        fn a_slot_comes_back_only_whole_and_in_its_place(
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
