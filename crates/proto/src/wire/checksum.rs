//! Which digest of each file is asked for beside BLAKE3, where it is computed, and what it is held against.

use crate::checksum::Algorithm;
use crate::encoding::{Decoded, Reader, Writer};
use crate::error::ProtocolError;
use crate::limits::CHECKSUM_MAX;

/// A digest that is computed of each file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checksum {
    /// Which.
    pub algorithm: Algorithm,
    /// From what the source reads, and not from what the target writes.
    pub at_source: bool,
    /// What it has to be.
    pub against: Against,
}

/// What a digest is held against, before a file has its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Against {
    /// Nothing: it is told.
    Nothing,
    /// This, whatever the file.
    Value(Vec<u8>),
    /// The line of the file's name, at the target: lines come before Begin.
    Lines,
}

impl Checksum {
    /// Writes it, or that there is none.
    pub(super) fn encode(checksum: Option<&Self>, out: &mut Writer) {
        let Some(Self { algorithm, at_source, against }) = checksum else {
            out.u8(0);
            return;
        };
        out.u8(algorithm.number()).bool(*at_source);
        match against {
            Against::Nothing => out.u8(0),
            Against::Value(value) => out.u8(1).bytes(value),
            Against::Lines => out.u8(2),
        };
    }

    /// Reads it.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Decoded<Option<Self>> {
        let number = reader.u8()?;
        if number == 0 {
            return Ok(None);
        }
        let algorithm = Algorithm::from_number(number)?;
        let at_source = reader.bool()?;
        let against = match reader.u8()? {
            0 => Against::Nothing,
            1 => Against::Value(reader.bytes(CHECKSUM_MAX, "a checksum")?.to_vec()),
            2 => Against::Lines,
            value => return Err(ProtocolError::Unknown { what: "comparison of checksums", value: value.into() }),
        };
        let fits = match &against {
            Against::Nothing => true,
            Against::Value(value) => value.len() == algorithm.bytes(),
            Against::Lines => !at_source,
        };
        if fits { Ok(Some(Self { algorithm, at_source, against })) } else { Err(ProtocolError::Invalid("a checksum")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_come_back_and_what_cannot_be_is_refused() {
        let checksum = |algorithm, at_source, against| Some(Checksum { algorithm, at_source, against });
        let encoded = |checksum: &Option<Checksum>| {
            let mut out = Writer::new();
            Checksum::encode(checksum.as_ref(), &mut out);
            out.into_bytes()
        };
        for good in [
            None,
            checksum(Algorithm::Adler32, true, Against::Nothing),
            checksum(Algorithm::Sha512, true, Against::Value(vec![7; 64])),
            checksum(Algorithm::Md5, false, Against::Lines),
        ] {
            assert_eq!(Checksum::decode(&mut Reader::new(&encoded(&good))), Ok(good));
        }
        for bad in [
            checksum(Algorithm::Md5, false, Against::Value(vec![7; 15])),
            checksum(Algorithm::Md5, true, Against::Lines),
        ] {
            assert!(Checksum::decode(&mut Reader::new(&encoded(&bad))).is_err());
        }
        assert!(Checksum::decode(&mut Reader::new(&[12, 0, 0])).is_err());
        assert!(Checksum::decode(&mut Reader::new(&[1, 0, 3])).is_err());
    }
}
