//! Compression of long messages between the ends. Names, times and owners of neighbouring entries are similar, and a
//! million unchanged files cause nothing but such messages.

use std::borrow::Cow;

use haul_proto::compression::{Codec, CompressionMethod};
use haul_proto::error::ProtocolError;
use haul_proto::ids::CopyNumber;
use haul_proto::wire::compressed_message::CompressedMessage;

use crate::io::codec::{PayloadCompressor, PayloadDecompressor};

/// Shortest message to compress.
const LEN_MIN: usize = 512;
/// Fast, with most of the achievable compression.
const METHOD: CompressionMethod = CompressionMethod::Zstd(1);

/// Compresses the source's messages.
#[derive(Default)]
pub struct MessageCompressor {
    packer: PayloadCompressor,
    room: Vec<u8>,
}

impl MessageCompressor {
    /// Returns the message itself, or a shorter one that contains it.
    pub fn pack(&mut self, message: Vec<u8>, copy: CopyNumber) -> Vec<u8> {
        if message.len() < LEN_MIN {
            return message;
        }
        self.room.resize(self.room.len().max(PayloadCompressor::room(message.len())), 0);
        match self.packer.pack(METHOD, &message, &mut self.room) {
            Some(len) => CompressedMessage { plain: message.len(), bytes: &self.room[..len] }.encode(copy),
            None => message,
        }
    }
}

/// Decompresses messages.
#[derive(Default)]
pub struct MessageDecompressor {
    unpacker: PayloadDecompressor,
    plain: Vec<u8>,
}

impl MessageDecompressor {
    /// Returns the message itself or the one inside. Nested compressed messages are an error.
    pub fn unpack<'m>(&'m mut self, message: &'m [u8], copy: CopyNumber) -> Result<Cow<'m, [u8]>, ProtocolError> {
        let Some(packed) = CompressedMessage::decode(message, copy)? else { return Ok(message.into()) };
        self.plain.clear();
        self.plain.resize(packed.plain, 0);
        self.unpacker.unpack(Codec::Zstd, packed.bytes, &mut self.plain)?;
        match CompressedMessage::decode(&self.plain, copy) {
            Ok(None) => Ok(self.plain.as_slice().into()),
            _ => Err(ProtocolError::Invalid("a compressed message inside another")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COPY: CopyNumber = CopyNumber(1);

    #[test]
    fn long_messages_shrink_and_round_trip() {
        let names: Vec<u8> = (0..500).flat_map(|i| format!("run-7/file-{i:06}.dat").into_bytes()).collect();
        let message = [&[1, 1, 0, 0, 0][..], &names].concat();
        let packed = MessageCompressor::default().pack(message.clone(), COPY);
        assert!(packed.len() * 4 < message.len(), "{} of {}", packed.len(), message.len());
        let mut unpacking = MessageDecompressor::default();
        assert_eq!(*unpacking.unpack(&packed, COPY).unwrap(), message[..]);
        assert_eq!(*unpacking.unpack(&message, COPY).unwrap(), message[..], "as it is");
        assert!((1..packed.len()).all(|cut| unpacking.unpack(&packed[..cut], COPY).is_err()));
    }

    #[test]
    fn short_messages_and_noise_stay_as_they_are() {
        let mut packing = MessageCompressor::default();
        let short = vec![7; LEN_MIN - 1];
        assert_eq!(packing.pack(short.clone(), COPY), short);
        let noise = haul_lab::Rng::new(5).bytes(10_000);
        assert_eq!(packing.pack(noise.clone(), COPY), noise);
    }

    #[test]
    fn one_in_another_is_a_fault() {
        let inner = MessageCompressor::default().pack(vec![1; 100_000], COPY);
        let twice = CompressedMessage { plain: 100_000, bytes: &[] }.encode(COPY);
        assert!(MessageDecompressor::default().unpack(&twice, COPY).is_err());
        // A message of sufficient length with the start of a compressed message.
        let padded = [inner, vec![0; 100_000]].concat();
        let outer = MessageCompressor::default().pack(padded, COPY);
        assert!(MessageDecompressor::default().unpack(&outer, COPY).is_err());
    }
}
