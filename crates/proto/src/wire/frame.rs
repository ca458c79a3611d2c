//! Records of a data stream: `prefix, payload, trailer, tag`.
//!
//! The prefix is authenticated plain text. The trailer follows the payload, since its check and BLAKE3 value are only
//! known after the payload was read. A leading payload can also be aligned for direct I/O.
//!
//! Payload and trailer are encrypted. In sessions without encryption, the payload is only authenticated and the trailer
//! still encrypted.

use crate::codec::Wire;
use crate::encoding::{Decoded, Reader, Writer};
use crate::entry::Timestamp;
use crate::error::ProtocolError;
use crate::ids::{CopyNumber, EntryId};
use crate::integrity::Digest;
use crate::limits::{FRAME_MAX, PACK_FILES_MAX, TRAILER_MAX};

/// Length of a record's prefix.
pub const PREFIX_LEN: usize = 8;
/// Length of the authentication tag after every record (all ciphers).
pub const TAG_LEN: usize = 16;

/// Prefix of a record: `payload length u32, trailer length u16, check u16`.
///
/// The tag authenticates the prefix, but it comes last. Without the check, a damaged length could make a receiver wait
/// for bytes that never arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordPrefix {
    /// Payload length in bytes: at most [`FRAME_MAX`].
    pub payload: usize,
    /// Trailer length in bytes: at least 1 and less than [`TRAILER_MAX`].
    pub trailer: usize,
}

impl RecordPrefix {
    /// Encodes the prefix for the wire.
    ///
    /// # Panics
    /// If a length exceeds its limit: a programmer's error.
    pub fn encode(self) -> [u8; PREFIX_LEN] {
        assert!(self.payload <= FRAME_MAX as usize && self.trailer < TRAILER_MAX, "a record beyond its limits");
        let [a, b, c, d] = u32::try_from(self.payload).unwrap_or(u32::MAX).to_le_bytes();
        let [e, f] = u16::try_from(self.trailer).unwrap_or(u16::MAX).to_le_bytes();
        let [g, h] = lengths_check([a, b, c, d, e, f]);
        [a, b, c, d, e, f, g, h]
    }

    /// Decodes a prefix and checks both lengths against their limits.
    pub fn decode(bytes: [u8; PREFIX_LEN]) -> Decoded<Self> {
        let [a, b, c, d, e, f, g, h] = bytes;
        if lengths_check([a, b, c, d, e, f]) != [g, h] {
            return Err(ProtocolError::NotAuthentic);
        }
        let prefix =
            Self { payload: u32::from_le_bytes([a, b, c, d]) as usize, trailer: u16::from_le_bytes([e, f]).into() };
        if prefix.payload > FRAME_MAX as usize || prefix.trailer == 0 {
            return Err(ProtocolError::OverLimit("a record"));
        }
        Ok(prefix)
    }

    /// Returns the length of the record after the prefix, including its tag.
    pub fn rest_len(self) -> usize {
        self.payload + self.trailer + TAG_LEN
    }
}

/// Computes the check of a prefix: CRC-16/X-25 of the lengths (ITU-T X.25, section 2.2.7).
pub fn lengths_check(lengths: [u8; 6]) -> [u8; 2] {
    let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc16IbmSdlc, &lengths);
    u16::try_from(crc).unwrap_or(u16::MAX).to_le_bytes()
}

/// Trailer of a record, by its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordTrailer {
    /// The first record in each direction, as proof of the keys. No payload.
    Finished,
    /// One frame of a file.
    Data(DataFrame),
    /// Many small files, whole and consecutive.
    Pack(PackFrame),
    /// Instructions to build one frame of a file from a base file ([`crate::delta::instructions`]).
    Delta(DeltaFrame),
    /// The last record, as proof against truncation. No payload.
    End {
        /// Number of records on this stream between Finished and this one.
        records: u64,
    },
}

/// One frame of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataFrame {
    /// The copy.
    pub copy: CopyNumber,
    /// The file.
    pub entry: EntryId,
    /// Offset of the frame in the file, in bytes: a multiple of the session's frame length.
    pub offset: u64,
    /// XXH3 of the payload: see [`crate::integrity::frame_check`].
    pub check: u64,
    /// BLAKE3 value of the payload at its offset (of the root, if the file is one frame). In a session without BLAKE3,
    /// [`crate::journal::check_value`].
    pub value: Digest,
}

/// One frame of a file as delta instructions. It has no check, since the target computes the value of its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeltaFrame {
    /// The copy.
    pub copy: CopyNumber,
    /// The file.
    pub entry: EntryId,
    /// Offset of the frame in the file, in bytes.
    pub offset: u64,
    /// Length of the frame in bytes: more than that of the instructions.
    pub plain: usize,
    /// BLAKE3 value of the resulting frame, as in [`DataFrame`].
    pub value: Digest,
}

/// Many small files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackFrame {
    /// The copy.
    pub copy: CopyNumber,
    /// XXH3 of the payload: see [`crate::integrity::frame_check`].
    pub check: u64,
    /// The files, in payload order.
    pub files: Vec<PackedFile>,
}

/// A file in a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackedFile {
    /// The file.
    pub entry: EntryId,
    /// Length in bytes.
    pub len: u32,
    /// Time of last modification when it was read.
    pub modified: Timestamp,
    /// BLAKE3 of its content; zeros in a session without BLAKE3.
    pub digest: Digest,
}

const FINISHED: u8 = 0;
const DATA: u8 = 1;
const PACK: u8 = 2;
const END: u8 = 3;
// 4 is `COMPRESSED` in `crate::wire::compressed_frame`.
const DELTA: u8 = 5;

impl RecordTrailer {
    /// Appends the trailer in its wire form.
    pub fn encode(&self, out: &mut Writer) {
        match self {
            RecordTrailer::Finished => {
                out.u8(FINISHED);
            }
            RecordTrailer::Data(frame) => {
                out.u8(DATA)
                    .u32(frame.copy.0)
                    .varint(frame.entry.0)
                    .u64(frame.offset)
                    .u64(frame.check)
                    .raw(&frame.value);
            }
            RecordTrailer::Pack(pack) => {
                out.u8(PACK).u32(pack.copy.0).u64(pack.check).count(pack.files.len());
                for file in &pack.files {
                    out.varint(file.entry.0).varint(file.len.into());
                    file.modified.encode(out);
                    out.raw(&file.digest);
                }
            }
            RecordTrailer::Delta(frame) => {
                out.u8(DELTA).u32(frame.copy.0).varint(frame.entry.0).u64(frame.offset);
                out.count(frame.plain).raw(&frame.value);
            }
            RecordTrailer::End { records } => {
                out.u8(END).u64(*records);
            }
        }
    }

    /// Reads a trailer; `payload` is the length of the payload before it.
    pub fn decode(bytes: &[u8], payload: usize) -> Decoded<Self> {
        let mut reader = Reader::new(bytes);
        let trailer = match reader.u8()? {
            FINISHED => RecordTrailer::Finished,
            DATA => RecordTrailer::Data(DataFrame {
                copy: CopyNumber(reader.u32()?),
                entry: EntryId(reader.varint()?),
                offset: reader.u64()?,
                check: reader.u64()?,
                value: reader.array()?,
            }),
            PACK => RecordTrailer::Pack(decode_pack(&mut reader, payload)?),
            DELTA => RecordTrailer::Delta(decode_delta(&mut reader, payload)?),
            END => RecordTrailer::End { records: reader.u64()? },
            kind => return Err(ProtocolError::Unknown { what: "kind of record", value: kind.into() }),
        };
        if matches!(trailer, RecordTrailer::Finished | RecordTrailer::End { .. }) && payload != 0 {
            return Err(ProtocolError::Invalid("an unexpected payload"));
        }
        reader.finish()?;
        Ok(trailer)
    }
}

fn decode_delta(reader: &mut Reader<'_>, payload: usize) -> Decoded<DeltaFrame> {
    let (copy, entry, offset) = (CopyNumber(reader.u32()?), EntryId(reader.varint()?), reader.u64()?);
    let plain = reader.count(FRAME_MAX as usize, "a delta frame")?;
    if payload == 0 || payload >= plain {
        return Err(ProtocolError::Invalid("instructions that are not shorter than their frame"));
    }
    Ok(DeltaFrame { copy, entry, offset, plain, value: reader.array()? })
}

fn decode_pack(reader: &mut Reader<'_>, payload: usize) -> Decoded<PackFrame> {
    let copy = CopyNumber(reader.u32()?);
    let check = reader.u64()?;
    let count = reader.count(PACK_FILES_MAX, "files in a pack")?;
    let mut files = Vec::with_capacity(count);
    let mut total = 0usize;
    for _ in 0..count {
        let entry = EntryId(reader.varint()?);
        let len = reader.count(FRAME_MAX as usize, "a file in a pack")?;
        total += len;
        let modified = Timestamp::decode(reader)?;
        files.push(PackedFile {
            entry,
            len: u32::try_from(len).unwrap_or(u32::MAX),
            modified,
            digest: reader.array()?,
        });
    }
    if total != payload || files.is_empty() {
        return Err(ProtocolError::Invalid("a pack whose files differ from its payload"));
    }
    Ok(PackFrame { copy, check, files })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(trailer: &RecordTrailer) -> Vec<u8> {
        let mut writer = Writer::new();
        trailer.encode(&mut writer);
        writer.into_bytes()
    }

    fn packed(entry: u64, len: u32) -> PackedFile {
        PackedFile {
            entry: EntryId(entry),
            len,
            modified: Timestamp { seconds: -5, nanoseconds: 999_999_999 },
            digest: [3; 32],
        }
    }

    #[test]
    fn trailers_round_trip() {
        let data = DataFrame {
            copy: CopyNumber(1),
            entry: EntryId(1 << 40),
            offset: 7 << 20,
            check: u64::MAX,
            value: [9; 32],
        };
        let pack = PackFrame { copy: CopyNumber(1), check: 5, files: vec![packed(7, 0), packed(9, 1000)] };
        let delta = DeltaFrame { copy: CopyNumber(1), entry: EntryId(3), offset: 7 << 20, plain: 1000, value: [9; 32] };
        let is_decoded =
            |payload| RecordTrailer::decode(&encoded(&RecordTrailer::Delta(delta.clone())), payload).is_ok();
        assert_eq!([0, 1, 999, 1000, 1001].map(is_decoded), [false, true, true, false, false]);
        for (trailer, payload) in [
            (RecordTrailer::Finished, 0),
            (RecordTrailer::Data(data), 512 << 10),
            (RecordTrailer::Pack(pack), 1000),
            (RecordTrailer::Delta(delta), 999),
            (RecordTrailer::End { records: 12 }, 0),
        ] {
            assert_eq!(RecordTrailer::decode(&encoded(&trailer), payload), Ok(trailer));
        }
    }

    #[test]
    fn the_largest_pack_fits_a_trailer() {
        let files = (0..PACK_FILES_MAX as u64).map(|i| packed(u64::MAX - i, FRAME_MAX)).collect();
        let pack = RecordTrailer::Pack(PackFrame { copy: CopyNumber(u32::MAX), check: u64::MAX, files });
        assert!(encoded(&pack).len() < TRAILER_MAX);
    }

    #[test]
    fn a_pack_must_fill_its_payload() {
        let pack = RecordTrailer::Pack(PackFrame { copy: CopyNumber(1), check: 5, files: vec![packed(7, 10)] });
        assert!(RecordTrailer::decode(&encoded(&pack), 11).is_err());
        assert!(RecordTrailer::decode(&encoded(&RecordTrailer::Finished), 1).is_err());
    }

    #[test]
    fn prefixes_round_trip_within_limits() {
        let prefix = RecordPrefix { payload: FRAME_MAX as usize, trailer: 60 };
        assert_eq!(RecordPrefix::decode(prefix.encode()), Ok(prefix));
        let decoded = |lengths: [u8; 6]| {
            let bytes = [&lengths[..], &lengths_check(lengths)].concat();
            RecordPrefix::decode(bytes.try_into().unwrap())
        };
        assert_eq!(decoded([0, 0, 16, 0, 60, 0]), Ok(prefix));
        assert_eq!(decoded([1, 0, 16, 0, 60, 0]), Err(ProtocolError::OverLimit("a record")));
        assert_eq!(decoded([0; 6]), Err(ProtocolError::OverLimit("a record")));
    }

    #[test]
    fn flipped_bits_in_a_prefix_are_noticed_before_its_lengths_are_used() {
        let bytes = RecordPrefix { payload: 300_000, trailer: 55 }.encode();
        for (first, second) in (0..64).flat_map(|first| (first..64).map(move |second| (first, second))) {
            let mut changed = bytes;
            changed[first / 8] ^= 1 << (first % 8);
            if second > first {
                changed[second / 8] ^= 1 << (second % 8);
            }
            assert_eq!(RecordPrefix::decode(changed), Err(ProtocolError::NotAuthentic), "{first}, {second}");
        }
    }
}
