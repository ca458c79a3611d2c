//! Request for a digest of each file besides BLAKE3: where to compute it and its expected value.

use crate::checksum::ChecksumAlgorithm;
use crate::encoding::{Decoded, Reader, Writer};
use crate::error::ProtocolError;
use crate::limits::CHECKSUM_MAX;

/// Digest to compute of each file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChecksumRequest {
    /// The algorithm.
    pub algorithm: ChecksumAlgorithm,
    /// Whether to compute it from the source's reads instead of the target's writes.
    pub at_source: bool,
    /// The expected value.
    pub against: ChecksumSource,
}

/// Expected value of a digest, checked before a file gets its final name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChecksumSource {
    /// None: the digest is only reported.
    Nothing,
    /// This value for any file.
    Value(Vec<u8>),
    /// The line with the file's name, at the target. The lines arrive before Start.
    Lines,
}

impl ChecksumRequest {
    /// Writes an optional request.
    pub(super) fn encode(checksum: Option<&Self>, out: &mut Writer) {
        let Some(Self { algorithm, at_source, against }) = checksum else {
            out.u8(0);
            return;
        };
        out.u8(algorithm.number()).bool(*at_source);
        match against {
            ChecksumSource::Nothing => out.u8(0),
            ChecksumSource::Value(value) => out.u8(1).bytes(value),
            ChecksumSource::Lines => out.u8(2),
        };
    }

    /// Reads an optional request.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Decoded<Option<Self>> {
        let number = reader.u8()?;
        if number == 0 {
            return Ok(None);
        }
        let algorithm = ChecksumAlgorithm::from_number(number)?;
        let at_source = reader.bool()?;
        let against = match reader.u8()? {
            0 => ChecksumSource::Nothing,
            1 => ChecksumSource::Value(reader.bytes(CHECKSUM_MAX, "a checksum")?.to_vec()),
            2 => ChecksumSource::Lines,
            value => return Err(ProtocolError::Unknown { what: "comparison of checksums", value: value.into() }),
        };
        let fits = match &against {
            ChecksumSource::Nothing => true,
            ChecksumSource::Value(value) => value.len() == algorithm.bytes(),
            ChecksumSource::Lines => !at_source,
        };
        if fits { Ok(Some(Self { algorithm, at_source, against })) } else { Err(ProtocolError::Invalid("a checksum")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_come_back_and_what_cannot_be_is_refused() {
        let checksum = |algorithm, at_source, against| Some(ChecksumRequest { algorithm, at_source, against });
        let encoded = |checksum: &Option<ChecksumRequest>| {
            let mut out = Writer::new();
            ChecksumRequest::encode(checksum.as_ref(), &mut out);
            out.into_bytes()
        };
        for good in [
            None,
            checksum(ChecksumAlgorithm::Adler32, true, ChecksumSource::Nothing),
            checksum(ChecksumAlgorithm::Sha512, true, ChecksumSource::Value(vec![7; 64])),
            checksum(ChecksumAlgorithm::Md5, false, ChecksumSource::Lines),
        ] {
            assert_eq!(ChecksumRequest::decode(&mut Reader::new(&encoded(&good))), Ok(good));
        }
        for bad in [
            checksum(ChecksumAlgorithm::Md5, false, ChecksumSource::Value(vec![7; 15])),
            checksum(ChecksumAlgorithm::Md5, true, ChecksumSource::Lines),
        ] {
            assert!(ChecksumRequest::decode(&mut Reader::new(&encoded(&bad))).is_err());
        }
        assert!(ChecksumRequest::decode(&mut Reader::new(&[12, 0, 0])).is_err());
        assert!(ChecksumRequest::decode(&mut Reader::new(&[1, 0, 3])).is_err());
    }
}
