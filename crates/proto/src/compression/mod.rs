//! Compression policy of a session, and the source's choice for each stream ([`chooser`]). The codecs themselves are in
//! the engine.

pub mod chooser;
mod pipe;
pub mod sample;

use std::fmt;

use crate::codec::Wire;
use crate::encoding::{Decoded, Reader, Writer};
use crate::error::ProtocolError;

/// Highest level of zstd. Higher ones need too much memory for a stream.
pub const LEVEL_MAX: u8 = 19;
/// Level of zstd without an explicit one: its own default.
pub const LEVEL_DEFAULT: u8 = 3;

/// Compression format of a payload. The set is open; an unknown codec is a protocol error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Codec {
    /// An LZ4 block, without frame and length (lz4_Block_format.md).
    Lz4,
    /// A Zstandard frame (RFC 8878), without a dictionary.
    Zstd,
}

impl Codec {
    /// Returns the number on the wire.
    pub fn number(self) -> u8 {
        match self {
            Codec::Lz4 => 1,
            Codec::Zstd => 2,
        }
    }

    /// Reverses [`Codec::number`].
    pub fn from_number(number: u8) -> Decoded<Self> {
        match number {
            1 => Ok(Codec::Lz4),
            2 => Ok(Codec::Zstd),
            value => Err(ProtocolError::Unknown { what: "codec", value: value.into() }),
        }
    }

    /// Returns the name for users and programs.
    pub fn name(self) -> &'static str {
        match self {
            Codec::Lz4 => "lz4",
            Codec::Zstd => "zstd",
        }
    }
}

/// A codec and its level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum CompressionMethod {
    /// LZ4 with its fast method.
    Lz4,
    /// Zstandard at this level: 1 to [`LEVEL_MAX`].
    Zstd(u8),
}

impl CompressionMethod {
    /// Number of different values of [`CompressionMethod::index`].
    pub const COUNT: usize = LEVEL_MAX as usize + 1;

    /// Returns a small unique number for tables: 0 for LZ4, else the level.
    pub fn index(self) -> usize {
        match self {
            CompressionMethod::Lz4 => 0,
            CompressionMethod::Zstd(level) => usize::from(level.clamp(1, LEVEL_MAX)),
        }
    }

    /// Reverses [`CompressionMethod::index`].
    pub fn from_index(index: usize) -> Self {
        match u8::try_from(index) {
            Ok(0) => CompressionMethod::Lz4,
            Ok(level) => CompressionMethod::Zstd(level.min(LEVEL_MAX)),
            Err(_) => CompressionMethod::Zstd(LEVEL_MAX),
        }
    }

    /// Returns the format of its output.
    pub fn codec(self) -> Codec {
        match self {
            CompressionMethod::Lz4 => Codec::Lz4,
            CompressionMethod::Zstd(_) => Codec::Zstd,
        }
    }

    /// Returns the level, for a codec with levels.
    pub fn level(self) -> Option<u8> {
        match self {
            CompressionMethod::Lz4 => None,
            CompressionMethod::Zstd(level) => Some(level),
        }
    }
}

/// Displays `zstd 3`, or `lz4`.
impl fmt::Display for CompressionMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompressionMethod::Lz4 => f.write_str("lz4"),
            CompressionMethod::Zstd(level) => write!(f, "zstd {level}"),
        }
    }
}

/// Permitted compression of payloads before encryption.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub enum CompressionPolicy {
    /// No compression.
    Off,
    /// The best method for each stream and frame.
    #[default]
    Auto,
    /// This method, wherever it makes a payload shorter.
    Always(CompressionMethod),
}

/// A kind and a level, one byte each.
impl Wire for CompressionPolicy {
    fn encode(&self, out: &mut Writer) {
        let (kind, level) = match *self {
            CompressionPolicy::Off => (0, 0),
            CompressionPolicy::Auto => (1, 0),
            CompressionPolicy::Always(CompressionMethod::Lz4) => (2, 0),
            CompressionPolicy::Always(CompressionMethod::Zstd(level)) => (3, level),
        };
        out.u8(kind).u8(level);
    }

    fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        match (reader.u8()?, reader.u8()?) {
            (0, 0) => Ok(CompressionPolicy::Off),
            (1, 0) => Ok(CompressionPolicy::Auto),
            (2, 0) => Ok(CompressionPolicy::Always(CompressionMethod::Lz4)),
            (3, level) if (1..=LEVEL_MAX).contains(&level) => {
                Ok(CompressionPolicy::Always(CompressionMethod::Zstd(level)))
            }
            (0..=3, _) => Err(ProtocolError::OverLimit("a level of compression")),
            (value, _) => Err(ProtocolError::Unknown { what: "kind of compression", value: value.into() }),
        }
    }
}

/// Times of a frame in nanoseconds, and its lengths in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct FrameTimes {
    /// From the end of the previous frame to the start of this one's compression: read and hash.
    pub prepare_ns: f64,
    /// Sampling and compression, with or without benefit.
    pub compress_ns: f64,
    /// Encryption.
    pub seal_ns: f64,
    /// The send call.
    pub send_ns: f64,
    /// Payload before compression.
    pub plain_bytes: f64,
    /// Payload on the wire.
    pub wire_bytes: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_round_trip_and_unknown_ones_are_faults() {
        let zstd = (1..=LEVEL_MAX).map(|level| CompressionPolicy::Always(CompressionMethod::Zstd(level)));
        for policy in zstd.chain([
            CompressionPolicy::Off,
            CompressionPolicy::Auto,
            CompressionPolicy::Always(CompressionMethod::Lz4),
        ]) {
            let mut out = Writer::new();
            policy.encode(&mut out);
            assert_eq!(CompressionPolicy::decode(&mut Reader::new(&out.into_bytes())), Ok(policy));
        }
        for bytes in [[0, 1], [1, 3], [2, 1], [3, 0], [3, LEVEL_MAX + 1], [4, 0], [255, 255]] {
            assert!(CompressionPolicy::decode(&mut Reader::new(&bytes)).is_err(), "{bytes:?}");
        }
        assert!(CompressionPolicy::decode(&mut Reader::new(&[1])).is_err());
    }

    #[test]
    fn every_method_has_its_own_number() {
        for index in 0..CompressionMethod::COUNT {
            assert_eq!(CompressionMethod::from_index(index).index(), index);
        }
        assert_eq!(CompressionMethod::from_index(usize::MAX), CompressionMethod::Zstd(LEVEL_MAX));
        assert_eq!(
            [CompressionMethod::Lz4, CompressionMethod::Zstd(19)].map(|method| method.to_string()),
            ["lz4", "zstd 19"]
        );
    }
}
