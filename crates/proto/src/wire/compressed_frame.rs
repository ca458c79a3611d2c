//! Records with a compressed payload: the prefix of their trailer.
//!
//! A compressed Data or Pack record keeps its meaning. Its trailer begins with a kind of its own, the codec and the
//! plain length; the ordinary trailer follows. The engine compresses and decompresses.

use super::frame::RecordTrailer;
use crate::compression::Codec;
use crate::encoding::{Decoded, Reader, Writer};
use crate::error::ProtocolError;
use crate::limits::FRAME_MAX;

/// Codec and plain length of a compressed payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompressedPayload {
    /// The codec.
    pub codec: Codec,
    /// Plain length in bytes: at most [`FRAME_MAX`], and more than on the wire.
    pub plain: usize,
}

/// Kind of a trailer with a leading [`CompressedPayload`]; the other kinds are those of [`RecordTrailer`].
const COMPRESSED: u8 = 4;

/// Appends a trailer in its wire form.
pub fn encode_trailer(compressed: Option<CompressedPayload>, trailer: &RecordTrailer, out: &mut Writer) {
    if let Some(CompressedPayload { codec, plain }) = compressed {
        out.u8(COMPRESSED).u8(codec.number()).count(plain);
    }
    trailer.encode(out);
}

/// Reads a trailer; `payload` is the length of the payload on the wire.
pub fn decode_trailer(bytes: &[u8], payload: usize) -> Decoded<(Option<CompressedPayload>, RecordTrailer)> {
    if bytes.first() != Some(&COMPRESSED) {
        return Ok((None, RecordTrailer::decode(bytes, payload)?));
    }
    let mut reader = Reader::new(bytes);
    reader.u8()?;
    let codec = Codec::from_number(reader.u8()?)?;
    let plain = reader.count(FRAME_MAX as usize, "a payload before it was compressed")?;
    if payload == 0 || payload >= plain {
        return Err(ProtocolError::Invalid("a compressed payload that is not shorter"));
    }
    // The ordinary trailer checks the plain length. A record without a payload fails this check.
    let trailer = RecordTrailer::decode(reader.take_bytes(reader.remaining())?, plain)?;
    Ok((Some(CompressedPayload { codec, plain }), trailer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Timestamp;
    use crate::ids::{CopyNumber, EntryId};
    use crate::limits::{PACK_FILES_MAX, TRAILER_MAX};
    use crate::wire::frame::{DataFrame, PackFrame, PackedFile};

    fn data() -> RecordTrailer {
        RecordTrailer::Data(DataFrame { copy: CopyNumber(1), entry: EntryId(7), offset: 0, check: 5, value: [9; 32] })
    }

    fn pack(files: u64, len: u32) -> RecordTrailer {
        let file = |entry| PackedFile { entry: EntryId(entry), len, modified: Timestamp::default(), digest: [3; 32] };
        let files = (0..files).map(|i| file(u64::MAX - i)).collect();
        RecordTrailer::Pack(PackFrame { copy: CopyNumber(u32::MAX), check: u64::MAX, files })
    }

    fn encoded(compressed: Option<CompressedPayload>, trailer: &RecordTrailer) -> Vec<u8> {
        let mut out = Writer::new();
        encode_trailer(compressed, trailer, &mut out);
        out.into_bytes()
    }

    #[test]
    fn trailers_round_trip_with_and_without_compression() {
        for codec in [Codec::Lz4, Codec::Zstd] {
            for (trailer, plain) in [(data(), 512 << 10), (pack(3, 1000), 3000), (data(), FRAME_MAX as usize)] {
                let compressed = Some(CompressedPayload { codec, plain });
                let bytes = encoded(compressed, &trailer);
                assert_eq!(decode_trailer(&bytes, plain - 1), Ok((compressed, trailer.clone())));
                assert!((0..bytes.len()).all(|cut| decode_trailer(&bytes[..cut], 1).is_err()));
                assert_eq!(decode_trailer(&encoded(None, &trailer), plain), Ok((None, trailer)));
            }
        }
    }

    #[test]
    fn hostile_lengths_and_codecs_are_faults() {
        let with =
            |plain, trailer: &RecordTrailer| encoded(Some(CompressedPayload { codec: Codec::Zstd, plain }), trailer);
        for payload in [0, 1000, 1001, FRAME_MAX as usize] {
            assert!(decode_trailer(&with(1000, &data()), payload).is_err(), "{payload} bytes are not shorter");
        }
        let over = decode_trailer(&with(FRAME_MAX as usize + 1, &data()), 9);
        assert_eq!(over, Err(ProtocolError::OverLimit("a payload before it was compressed")));
        assert!(decode_trailer(&with(1001, &pack(1, 1000)), 9).is_err(), "a pack fills its plain payload");
        for empty in [RecordTrailer::Finished, RecordTrailer::End { records: 1 }] {
            assert!(decode_trailer(&with(1000, &empty), 9).is_err(), "{empty:?} has no payload");
        }
        let nested = [&with(1000, &data())[..4], &with(1000, &data())].concat();
        assert_eq!(decode_trailer(&nested, 9), Err(ProtocolError::Unknown { what: "kind of record", value: 4 }));
        let mut unknown = with(1000, &data());
        unknown[1] = 3;
        assert_eq!(decode_trailer(&unknown, 9), Err(ProtocolError::Unknown { what: "codec", value: 3 }));
    }

    #[test]
    fn the_largest_pack_fits_a_compressed_trailer() {
        let compressed = CompressedPayload { codec: Codec::Zstd, plain: FRAME_MAX as usize };
        assert!(encoded(Some(compressed), &pack(PACK_FILES_MAX as u64, FRAME_MAX)).len() < TRAILER_MAX);
    }
}
