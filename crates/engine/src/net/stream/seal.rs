//! Encryption and decryption of records: AEAD with an implicit counter as nonce, one key for each direction and
//! generation.
//!
//! A key is never used for two connections, directions or generations (see [`haul_proto::wire::handshake`]), so a
//! counter never repeats a nonce under a key. The counter continues when the key changes. The moment of change depends
//! on the lengths of records: without the record's number, the first record under a new key would decrypt even if the
//! last ones under the old key were dropped.

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use haul_proto::error::ProtocolError;
use haul_proto::limits::REKEY_RECORDS;
use haul_proto::wire::frame::{PREFIX_LEN, TAG_LEN};
use haul_proto::wire::handshake::{CipherSuite, KeyDirection, key_info};

use super::aead::{self, CipherKey, CipherLibrary, NONCE_LEN};
use crate::io::frame_buffer::FrameBuffer;

/// The keys of one connection.
#[derive(Clone)]
pub struct KeySchedule {
    root: Prk,
    suite: CipherSuite,
    rekey_bytes: u64,
}

impl KeySchedule {
    /// Derives them from the session's secret and the connection's transcript.
    pub fn new(secret: &[u8; 32], transcript: &[u8], suite: CipherSuite, rekey_bytes: u64) -> Self {
        let salt = digest(&SHA256, transcript);
        Self { root: Salt::new(HKDF_SHA256, salt.as_ref()).extract(secret), suite, rekey_bytes }
    }

    /// The sealer for `direction`.
    pub fn sealer(&self, direction: KeyDirection) -> Result<RecordSealer, ProtocolError> {
        Ok(RecordSealer(KeyInUse::new(self.clone(), direction)?))
    }

    /// The opener for `direction`.
    pub fn opener(&self, direction: KeyDirection) -> Result<RecordOpener, ProtocolError> {
        Ok(RecordOpener(KeyInUse::new(self.clone(), direction)?))
    }

    fn key(&self, direction: KeyDirection, generation: u32) -> Result<CipherKey, ProtocolError> {
        let mut bytes = [0; 32];
        let bytes = &mut bytes[..aead::key_len(self.suite)];
        let info = [&key_info(direction, generation)[..]];
        let filled = self.root.expand(&info, KeyLen(bytes.len())).and_then(|key| key.fill(bytes));
        filled.map_err(|_| ProtocolError::NotAuthentic)?;
        CipherKey::new(CipherLibrary::of_this_cpu(self.suite), self.suite, bytes)
            .map_err(|_| ProtocolError::NotAuthentic)
    }
}

struct KeyLen(usize);

impl KeyType for KeyLen {
    fn len(&self) -> usize {
        self.0
    }
}

/// The key in use, and its usage.
struct KeyInUse {
    schedule: KeySchedule,
    direction: KeyDirection,
    generation: u32,
    key: CipherKey,
    /// Records in this direction, under all keys.
    sealed: u64,
    /// Records under this key.
    records: u64,
    /// Their bytes.
    bytes: u64,
}

impl KeyInUse {
    fn new(schedule: KeySchedule, direction: KeyDirection) -> Result<Self, ProtocolError> {
        let key = schedule.key(direction, 0)?;
        Ok(Self { schedule, direction, generation: 0, key, sealed: 0, records: 0, bytes: 0 })
    }

    /// The nonce for a record of this length. Both ends count equally, and change keys at the same record.
    fn next_nonce(&mut self, record_len: usize) -> Result<[u8; NONCE_LEN], ProtocolError> {
        let len = record_len as u64;
        if self.records > 0 && (self.records >= REKEY_RECORDS || self.bytes + len > self.schedule.rekey_bytes) {
            self.generation =
                self.generation.checked_add(1).ok_or(ProtocolError::OverLimit("keys on one connection"))?;
            self.key = self.schedule.key(self.direction, self.generation)?;
            (self.records, self.bytes) = (0, 0);
        }
        let mut nonce = [0; NONCE_LEN];
        nonce[4..].copy_from_slice(&self.sealed.to_le_bytes());
        self.sealed += 1;
        self.records += 1;
        self.bytes += len;
        Ok(nonce)
    }

    fn parts<'r>(&self, record: &'r mut FrameBuffer) -> (&'r [u8], &'r mut [u8], &'r mut [u8]) {
        match self.schedule.suite {
            CipherSuite::AuthenticateOnly => record.authenticated_parts(),
            CipherSuite::Aes256Gcm | CipherSuite::Aes128Gcm | CipherSuite::ChaCha20Poly1305 => record.encrypted_parts(),
        }
    }
}

/// Never displays the key.
impl fmt::Debug for KeyInUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} generation {}, {} records", self.direction, self.generation, self.sealed)
    }
}

/// Encrypts records.
#[derive(Debug)]
pub struct RecordSealer(KeyInUse);

impl RecordSealer {
    /// Encrypts in place, and appends the tag.
    pub fn seal(&mut self, record: &mut FrameBuffer) -> Result<(), ProtocolError> {
        let nonce = self.0.next_nonce(record.wire().len())?;
        let (clear, sealed, tag) = self.0.parts(record);
        self.0.key.seal(nonce, clear, sealed, tag).map_err(|_| ProtocolError::NotAuthentic)
    }
}

/// Decrypts records.
#[derive(Debug)]
pub struct RecordOpener(KeyInUse);

impl RecordOpener {
    /// Decrypts in place. After an error, neither the record nor the connection may be used.
    pub fn open(&mut self, record: &mut FrameBuffer) -> Result<(), ProtocolError> {
        let nonce = self.0.next_nonce(record.wire().len())?;
        let (clear, sealed, tag) = self.0.parts(record);
        self.0.key.open(nonce, clear, sealed, tag).map_err(|_| ProtocolError::NotAuthentic)
    }
}

const _: () = assert!(PREFIX_LEN == 8 && TAG_LEN == aead::TAG_LEN);

#[cfg(test)]
#[path = "seal_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "vector_tests.rs"]
mod vectors;
