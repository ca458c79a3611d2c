//! Authentication between a client and a server (`haul serve`) inside TLS, before a worker starts. It consists of
//! proofs by secret or key, the requested directory and the server's reply.

use crate::codec::{from_bytes, to_bytes, wire_enum};
use crate::encoding::Decoded;
use crate::error::ProtocolError;

/// Version number of the channel binding, part of all labels.
pub const VERSION: u8 = 1;
/// TLS exporter label of the bytes that both ends sign or authenticate.
pub const EXPORTER_LABEL: &[u8] = b"EXPORTER-haul-serve-1";
/// First bytes of a client's proof, before the exported bytes.
pub const CLIENT_LABEL: &[u8] = b"haul-serve-1 client";
/// First bytes of a server's proof.
pub const SERVER_LABEL: &[u8] = b"haul-serve-1 server";
/// Number of bytes that both ends export from TLS.
pub const EXPORTED_LEN: usize = 32;
/// Length of a proof by secret (HMAC-SHA256).
pub const TAG_LEN: usize = 32;
/// Length of a secret.
pub const SECRET_LEN: usize = 16;
/// Length of a private and of a public key (Ed25519).
pub const KEY_LEN: usize = 32;
/// Length of a signature (Ed25519).
pub const SIGNATURE_LEN: usize = 64;
/// Most bytes that a server reads from an unauthenticated connection. A TLS ClientHello with a post-quantum key share
/// takes some 1,400 bytes.
pub const UNPROVEN_MAX: usize = 2048;
/// Longest name of a directory, in bytes.
pub const DIRECTORY_MAX: usize = 64;
/// Longest reason for a refusal, in bytes.
pub const REASON_MAX: usize = 1024;

wire_enum! {
    /// First message of a client: its proof of identity.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ClientProof: "kind of proof" {
        /// Knowledge of a secret.
        Secret(tag: [u8; TAG_LEN]) = 1,
        /// Possession of a key.
        Key {
            /// The public key.
            key: [u8; KEY_LEN],
            /// Signature by the private key.
            signature: [u8; SIGNATURE_LEN],
        } = 2,
    }
}

impl ClientProof {
    /// Returns the number of bytes after the first one, which is the kind of proof.
    pub fn rest_len(kind: u8) -> Decoded<usize> {
        match kind {
            1 => Ok(TAG_LEN),
            2 => Ok(KEY_LEN + SIGNATURE_LEN),
            value => Err(ProtocolError::Unknown { what: "kind of proof", value: value.into() }),
        }
    }

    /// Writes the proof.
    pub fn encode(&self) -> Vec<u8> {
        to_bytes(self)
    }

    /// Reads a proof from all of `bytes`.
    pub fn decode(bytes: &[u8]) -> Decoded<Self> {
        from_bytes(bytes)
    }
}

/// Returns the bytes to authenticate, for a client and then for its server.
pub fn authenticated_bytes(label: &[u8], exported: &[u8; EXPORTED_LEN]) -> Vec<u8> {
    [label, exported].concat()
}

/// Whether `name` can be that of a directory. The empty name selects the only directory of a server.
pub fn is_directory_name(name: &str) -> bool {
    name.len() <= DIRECTORY_MAX
        && !name.starts_with('.')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

/// Reads the name of a directory.
pub fn decode_directory(bytes: &[u8]) -> Decoded<&str> {
    let name = std::str::from_utf8(bytes).ok().filter(|name| is_directory_name(name));
    name.ok_or(ProtocolError::Invalid("a name of a directory"))
}

/// Parses exactly `LEN` bytes from hexadecimal digits.
pub fn from_hex<const LEN: usize>(text: &str) -> Option<[u8; LEN]> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|c| c.to_digit(16).and_then(|digit| digit.try_into().ok())).collect();
    let digits = digits.filter(|digits| digits.len() == 2 * LEN)?;
    let mut bytes = [0; LEN];
    bytes.iter_mut().zip(digits.chunks_exact(2)).for_each(|(byte, pair)| *byte = pair[0] << 4 | pair[1]);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_thirty_two_digits() {
        let parse_secret = from_hex::<SECRET_LEN>;
        assert_eq!(
            parse_secret("000102030405060708090a0B0c0d0eFF").map(|secret| (secret[11], secret[15])),
            Some((11, 255))
        );
        for bad in ["", "00", "000102030405060708090a0b0c0d0e0g", "000102030405060708090a0b0c0d0e0f0", "é"] {
            assert_eq!(parse_secret(bad), None, "{bad}");
        }
    }

    #[test]
    fn proofs_round_trip_and_unknown_ones_are_faults() {
        for proof in [ClientProof::Secret([1; TAG_LEN]), ClientProof::Key { key: [2; 32], signature: [3; 64] }] {
            let bytes = proof.encode();
            assert_eq!(ClientProof::rest_len(bytes[0]), Ok(bytes.len() - 1));
            assert_eq!(ClientProof::decode(&bytes), Ok(proof));
            for cut in 0..bytes.len() {
                assert!(ClientProof::decode(&bytes[..cut]).is_err());
            }
            assert!(ClientProof::decode(&[&bytes[..], &[0]].concat()).is_err());
        }
        assert!(ClientProof::decode(&[0; 33]).is_err() && ClientProof::rest_len(3).is_err());
    }

    #[test]
    fn names_of_directories_are_plain_words() {
        for good in ["", "incoming", "a.b_c-9"] {
            assert_eq!(decode_directory(good.as_bytes()), Ok(good));
        }
        let long = "x".repeat(DIRECTORY_MAX + 1);
        for bad in ["..", ".", ".hidden", "a/b", "a b", "é", "a\n", &long] {
            assert!(decode_directory(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
