//! What a client and a server (`haul serve`) say to each other inside TLS, before a worker speaks: proofs of the secret,
//! the directory that is wanted, and the answer to that.

use super::fault::ProtocolFault;
use crate::codec::Decoded;

/// The number of this version of the binding, in the labels of all that is proven.
pub const VERSION: u8 = 1;
/// The label under which TLS gives both ends the bytes that they prove the secret over.
pub const EXPORTER_LABEL: &[u8] = b"EXPORTER-haul-serve-1";
/// What a client's proof begins with, before the exported bytes.
pub const CLIENT_LABEL: &[u8] = b"haul-serve-1 client";
/// What a server's proof begins with.
pub const SERVER_LABEL: &[u8] = b"haul-serve-1 server";
/// Bytes of a proof (HMAC-SHA256).
pub const PROOF_LEN: usize = 32;
/// Bytes of a secret.
pub const SECRET_LEN: usize = 16;
/// Most bytes that a server reads from a connection that has not proven itself: TLS's greeting with a key share that
/// withstands quantum computers takes some 1,400 of them.
pub const UNPROVEN_MAX: usize = 2048;
/// Longest name of a directory.
pub const DIRECTORY_MAX: usize = 64;
/// Longest reason for a refusal.
pub const REASON_MAX: usize = 1024;

/// Whether `name` can be one of a directory; the empty one stands for the one directory of a server that has only that.
pub fn is_directory_name(name: &str) -> bool {
    name.len() <= DIRECTORY_MAX
        && !name.starts_with('.')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

/// Reads the name of a directory from the bytes that came for it.
pub fn decode_directory(bytes: &[u8]) -> Decoded<&str> {
    let name = std::str::from_utf8(bytes).ok().filter(|name| is_directory_name(name));
    name.ok_or(ProtocolFault::Invalid("a name of a directory"))
}

/// Reads a secret from its hexadecimal digits.
pub fn parse_secret(text: &str) -> Option<[u8; SECRET_LEN]> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|c| c.to_digit(16).and_then(|digit| digit.try_into().ok())).collect();
    let digits = digits.filter(|digits| digits.len() == 2 * SECRET_LEN)?;
    let mut secret = [0; SECRET_LEN];
    secret.iter_mut().zip(digits.chunks_exact(2)).for_each(|(byte, pair)| *byte = pair[0] << 4 | pair[1]);
    Some(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_thirty_two_digits() {
        assert_eq!(
            parse_secret("000102030405060708090a0B0c0d0eFF").map(|secret| (secret[11], secret[15])),
            Some((11, 255))
        );
        for bad in ["", "00", "000102030405060708090a0b0c0d0e0g", "000102030405060708090a0b0c0d0e0f0", "é"] {
            assert_eq!(parse_secret(bad), None, "{bad}");
        }
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
