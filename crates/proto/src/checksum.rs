//! Digests besides BLAKE3 that the user can select (`--checksum`): their names and lengths. The engine computes them.

use crate::codec::Wire;
use crate::encoding::{Decoded, Reader, Writer};
use crate::error::ProtocolError;
use crate::limits::CHECKSUM_MAX;

/// A digest of a whole file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChecksumAlgorithm {
    /// Adler-32 (RFC 1950).
    Adler32,
    /// CRC-32 of cksum(1) (POSIX.1, IEEE 1003.1), over the contents and their length; bbcp's `c32`.
    Cksum,
    /// CRC-32 of zlib, gzip and PNG (ISO 3309, RFC 1952).
    Crc32,
    /// MD5 (RFC 1321).
    Md5,
    /// CRC-32C (Castagnoli; RFC 3720).
    Crc32c,
    /// CRC-64/NVME.
    Crc64Nvme,
    /// SHA-1 (FIPS 180-4).
    Sha1,
    /// SHA-256 (FIPS 180-4).
    Sha256,
    /// SHA-512 (FIPS 180-4).
    Sha512,
    /// XXH3 with 64 bits, without a seed.
    Xxh3,
    /// BLAKE3 with 256 bits.
    Blake3,
}

use ChecksumAlgorithm::{Adler32, Blake3, Cksum, Crc32, Crc32c, Crc64Nvme, Md5, Sha1, Sha256, Sha512, Xxh3};

/// Each algorithm with its wire number, its name (the first four are bbcp's) and its length in bytes.
const TABLE: [(ChecksumAlgorithm, u8, &str, usize); 11] = [
    (Adler32, 1, "a32", 4),
    (Cksum, 11, "c32", 4),
    (Crc32, 2, "c32z", 4),
    (Md5, 3, "md5", 16),
    (Crc32c, 4, "crc32c", 4),
    (Crc64Nvme, 5, "crc64nvme", 8),
    (Sha1, 6, "sha1", 20),
    (Sha256, 7, "sha256", 32),
    (Sha512, 8, "sha512", 64),
    (Xxh3, 9, "xxh3", 8),
    (Blake3, 10, "blake3", 32),
];
const _: () = assert!(TABLE[8].3 == CHECKSUM_MAX);

impl ChecksumAlgorithm {
    /// Returns all algorithms.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.0)
    }

    /// Returns the algorithm of a lower-case name. bbcp 17.12 writes `c32c` for CRC-32C.
    pub fn named(name: &str) -> Option<Self> {
        let name = if name == "c32c" { "crc32c" } else { name };
        TABLE.iter().find(|row| row.2 == name).map(|row| row.0)
    }

    /// Returns the name of the algorithm.
    pub fn name(self) -> &'static str {
        self.row().2
    }

    /// Returns the length of a digest in bytes. Numeric digests are big-endian.
    pub fn bytes(self) -> usize {
        self.row().3
    }

    /// Returns the number on the wire.
    pub(crate) fn number(self) -> u8 {
        self.row().1
    }

    /// Returns the algorithm of a wire number.
    pub(crate) fn from_number(number: u8) -> Result<Self, ProtocolError> {
        let row = TABLE.iter().find(|row| row.1 == number);
        row.map(|row| row.0).ok_or(ProtocolError::Unknown { what: "checksum", value: number.into() })
    }

    fn row(self) -> &'static (Self, u8, &'static str, usize) {
        TABLE.iter().find(|row| row.0 == self).unwrap_or_else(|| unreachable!("the table has all"))
    }
}

impl Wire for ChecksumAlgorithm {
    fn encode(&self, out: &mut Writer) {
        out.u8(self.number());
    }

    fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        Self::from_number(reader.u8()?)
    }
}

/// Formats a digest in lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Parses a hexadecimal digest; `None` where the text is not one.
pub fn from_hex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = text.chunks(2).map(|pair| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    });
    pairs.collect::<Option<Vec<_>>>().filter(|bytes| !bytes.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_own_row() {
        for algorithm in ChecksumAlgorithm::all() {
            assert_eq!(ChecksumAlgorithm::named(algorithm.name()), Some(algorithm));
            assert_eq!(ChecksumAlgorithm::from_number(algorithm.number()), Ok(algorithm));
            assert!((4..=CHECKSUM_MAX).contains(&algorithm.bytes()));
        }
        assert!(ChecksumAlgorithm::named("MD5").is_none() && ChecksumAlgorithm::from_number(0).is_err());
    }

    #[test]
    fn hexadecimal_round_trips_and_other_text_is_rejected() {
        assert_eq!(from_hex(hex(&[0, 0x9f, 0xff]).as_bytes()), Some(vec![0, 0x9f, 0xff]));
        assert_eq!(from_hex(b"00FF"), Some(vec![0, 255]));
        for text in ["", "0", "000", "0g", "+1", "./"] {
            assert_eq!(from_hex(text.as_bytes()), None, "{text}");
        }
    }
}
