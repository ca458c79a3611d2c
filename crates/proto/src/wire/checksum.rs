//! Request for a digest of each file besides BLAKE3: where to compute it and its expected value.

use crate::checksum::ChecksumAlgorithm;
use crate::codec::{FieldCodec, Wire, wire_enum, wire_struct};
use crate::encoding::{Decoded, Reader, Writer};
use crate::error::ProtocolError;
use crate::field_codecs::BoundedBytes;
use crate::limits::CHECKSUM_MAX;

wire_struct! {
    /// Digest to compute of each file.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ChecksumRequest {
        /// The algorithm.
        pub algorithm: ChecksumAlgorithm,
        /// Whether to compute it from the source's reads instead of the target's writes.
        pub at_source: bool,
        /// The expected value.
        pub against: ChecksumSource,
    } checked by check_fit
}

wire_enum! {
    /// Expected value of a digest, checked before a file gets its final name.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub enum ChecksumSource: "comparison of checksums" {
        /// None: the digest is only reported.
        Nothing = 0,
        /// This value for any file.
        Value(value: Vec<u8> as BoundedBytes(CHECKSUM_MAX, "a checksum")) = 1,
        /// The line with the file's name, at the target. The lines arrive before Start.
        Lines = 2,
    }
}

fn check_fit(ChecksumRequest { algorithm, at_source, against }: &ChecksumRequest) -> Decoded<()> {
    let fits = match against {
        ChecksumSource::Nothing => true,
        ChecksumSource::Value(value) => value.len() == algorithm.bytes(),
        ChecksumSource::Lines => !at_source,
    };
    if fits { Ok(()) } else { Err(ProtocolError::Invalid("a checksum")) }
}

/// An optional request: 0 in the place of its algorithm stands for `None`.
pub(super) struct OptionalChecksum;

impl FieldCodec<Option<ChecksumRequest>> for OptionalChecksum {
    fn encode(&self, checksum: &Option<ChecksumRequest>, out: &mut Writer) {
        match checksum {
            Some(checksum) => checksum.encode(out),
            None => 0u8.encode(out),
        }
    }

    fn decode(&self, reader: &mut Reader<'_>) -> Decoded<Option<ChecksumRequest>> {
        match reader.clone().u8()? {
            0 => reader.u8().map(|_| None),
            _ => ChecksumRequest::decode(reader).map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_round_trip_and_impossible_ones_are_refused() {
        let checksum = |algorithm, at_source, against| Some(ChecksumRequest { algorithm, at_source, against });
        let encoded = |checksum: &Option<ChecksumRequest>| {
            let mut out = Writer::new();
            OptionalChecksum.encode(checksum, &mut out);
            out.into_bytes()
        };
        for good in [
            None,
            checksum(ChecksumAlgorithm::Adler32, true, ChecksumSource::Nothing),
            checksum(ChecksumAlgorithm::Sha512, true, ChecksumSource::Value(vec![7; 64])),
            checksum(ChecksumAlgorithm::Md5, false, ChecksumSource::Lines),
        ] {
            assert_eq!(OptionalChecksum.decode(&mut Reader::new(&encoded(&good))), Ok(good));
        }
        for bad in [
            checksum(ChecksumAlgorithm::Md5, false, ChecksumSource::Value(vec![7; 15])),
            checksum(ChecksumAlgorithm::Md5, true, ChecksumSource::Lines),
        ] {
            assert!(OptionalChecksum.decode(&mut Reader::new(&encoded(&bad))).is_err());
        }
        assert!(OptionalChecksum.decode(&mut Reader::new(&[12, 0, 0])).is_err());
        assert!(OptionalChecksum.decode(&mut Reader::new(&[1, 0, 3])).is_err());
    }
}
