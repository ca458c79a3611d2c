//! A digest over bytes in order: the implementation of each algorithm.

use std::hash::Hasher as _;

use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA512};
use crc_fast::CrcAlgorithm;
use haul_proto::checksum::ChecksumAlgorithm;
use md5::{Digest, Md5};
use twox_hash::XxHash3_64;

/// A digest in computation.
pub enum Hasher {
    /// Adler-32.
    Adler(adler2::Adler32),
    /// A CRC, and its number of bytes.
    Crc(Box<crc_fast::Digest>, usize),
    /// The CRC of cksum(1), and the number of hashed bytes.
    Cksum(Box<crc_fast::Digest>, u64),
    /// MD5.
    Md5(Md5),
    /// SHA-1, SHA-256, SHA-512.
    Sha(Context),
    /// XXH3.
    Xxh3(Box<XxHash3_64>),
    /// BLAKE3.
    Blake3(Box<blake3::Hasher>),
}

impl Hasher {
    /// The digest of no bytes.
    pub fn new(algorithm: ChecksumAlgorithm) -> Self {
        match algorithm {
            ChecksumAlgorithm::Adler32 => Self::Adler(adler2::Adler32::new()),
            ChecksumAlgorithm::Crc32 | ChecksumAlgorithm::Crc32c | ChecksumAlgorithm::Crc64Nvme => {
                let crc = crc_of(algorithm).unwrap_or_else(|| unreachable!("these are CRCs"));
                Self::Crc(Box::new(crc_fast::Digest::new(crc)), algorithm.bytes())
            }
            ChecksumAlgorithm::Cksum => Self::Cksum(Box::new(crc_fast::Digest::new(CrcAlgorithm::Crc32Cksum)), 0),
            ChecksumAlgorithm::Md5 => Self::Md5(Md5::new()),
            ChecksumAlgorithm::Sha1 => Self::Sha(Context::new(&SHA1_FOR_LEGACY_USE_ONLY)),
            ChecksumAlgorithm::Sha256 => Self::Sha(Context::new(&SHA256)),
            ChecksumAlgorithm::Sha512 => Self::Sha(Context::new(&SHA512)),
            ChecksumAlgorithm::Xxh3 => Self::Xxh3(Box::new(XxHash3_64::new())),
            ChecksumAlgorithm::Blake3 => Self::Blake3(Box::new(blake3::Hasher::new())),
        }
    }

    /// More bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Adler(adler) => adler.write_slice(bytes),
            Self::Crc(crc, _) => crc.update(bytes),
            Self::Cksum(crc, len) => {
                crc.update(bytes);
                *len += bytes.len() as u64;
            }
            Self::Md5(md5) => md5.update(bytes),
            Self::Sha(sha) => sha.update(bytes),
            Self::Xxh3(xxh3) => xxh3.write(bytes),
            Self::Blake3(blake3) => {
                blake3.update(bytes);
            }
        }
    }

    /// The digest; numbers in big-endian order.
    pub fn finish(self) -> Vec<u8> {
        match self {
            Self::Adler(adler) => adler.checksum().to_be_bytes().to_vec(),
            Self::Crc(crc, bytes) => crc.finalize().to_be_bytes()[8 - bytes..].to_vec(),
            Self::Cksum(mut crc, len) => {
                crc.update(cksum_suffix(len, &mut [0; 8]));
                crc.finalize().to_be_bytes()[4..].to_vec()
            }
            Self::Md5(md5) => md5.finalize().to_vec(),
            Self::Sha(sha) => sha.finish().as_ref().to_vec(),
            Self::Xxh3(xxh3) => xxh3.finish().to_be_bytes().to_vec(),
            Self::Blake3(blake3) => blake3.finalize().as_bytes().to_vec(),
        }
    }
}

/// The suffix that cksum(1) appends to the contents: their length in little-endian order, without leading zeros.
pub(super) fn cksum_suffix(len: u64, room: &mut [u8; 8]) -> &[u8] {
    *room = len.to_le_bytes();
    &room[..8 - len.leading_zeros() as usize / 8]
}

/// The CRC of an algorithm, if it is one.
pub(super) fn crc_of(algorithm: ChecksumAlgorithm) -> Option<CrcAlgorithm> {
    match algorithm {
        ChecksumAlgorithm::Cksum => Some(CrcAlgorithm::Crc32Cksum),
        ChecksumAlgorithm::Crc32 => Some(CrcAlgorithm::Crc32IsoHdlc),
        ChecksumAlgorithm::Crc32c => Some(CrcAlgorithm::Crc32Iscsi),
        ChecksumAlgorithm::Crc64Nvme => Some(CrcAlgorithm::Crc64Nvme),
        _ => None,
    }
}
