//! A compressed message from the source: its envelope. The engine compresses and decompresses.

use crate::encoding::{Decoded, Reader, Writer};
use crate::error::ProtocolError;
use crate::ids::CopyNumber;
use crate::limits::PEER_MESSAGE_MAX;

/// Kind of a compressed message, among those from the source.
pub const PACKED: u8 = 15;

/// A compressed message as received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompressedMessage<'a> {
    /// Plain length in bytes, more than on the wire.
    pub plain: usize,
    /// A Zstandard frame (RFC 8878).
    pub bytes: &'a [u8],
}

impl<'a> CompressedMessage<'a> {
    /// Encodes the message for the wire.
    pub fn encode(self, copy: CopyNumber) -> Vec<u8> {
        let mut out = Writer::new();
        out.u8(PACKED).u32(copy.0).count(self.plain).bytes(self.bytes);
        out.into_bytes()
    }

    /// Reads a compressed message; `None` for a message of another kind.
    pub fn decode(message: &'a [u8], copy: CopyNumber) -> Decoded<Option<Self>> {
        if message.first() != Some(&PACKED) {
            return Ok(None);
        }
        let mut reader = Reader::new(&message[1..]);
        if reader.u32()? != copy.0 {
            return Err(ProtocolError::Unasked("another copy"));
        }
        let plain = reader.count(PEER_MESSAGE_MAX, "bytes of a message")?;
        let bytes = reader.bytes(PEER_MESSAGE_MAX, "a compressed message")?;
        reader.finish()?;
        match bytes.len() < plain {
            true => Ok(Some(Self { plain, bytes })),
            false => Err(ProtocolError::Invalid("a compressed message that is no shorter")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COPY: CopyNumber = CopyNumber(1);

    #[test]
    fn packed_messages_round_trip_and_others_stay_unpacked() {
        let packed = CompressedMessage { plain: 700, bytes: b"abc" };
        let message = packed.encode(COPY);
        assert_eq!(CompressedMessage::decode(&message, COPY), Ok(Some(packed)));
        assert!((1..message.len()).all(|cut| CompressedMessage::decode(&message[..cut], COPY).is_err()));
        assert_eq!(CompressedMessage::decode(&[1, 2, 3], COPY), Ok(None));
        assert_eq!(CompressedMessage::decode(&[], COPY), Ok(None));
    }

    #[test]
    fn messages_of_another_copy_and_of_wrong_length_are_faults() {
        let packed = CompressedMessage { plain: 700, bytes: b"abc" };
        assert!(CompressedMessage::decode(&packed.encode(CopyNumber(2)), COPY).is_err());
        assert!(CompressedMessage::decode(&CompressedMessage { plain: 3, ..packed }.encode(COPY), COPY).is_err());
        assert!(
            CompressedMessage::decode(&CompressedMessage { plain: PEER_MESSAGE_MAX + 1, ..packed }.encode(COPY), COPY)
                .is_err()
        );
    }
}
