//! The ciphers of records (RFC 5116), from the faster library on this CPU.
//!
//! AWS-LC has code for AVX-512 and for AES-NI, ring has code for VAES with AVX2 as well: on a CPU with VAES and without
//! AVX-512 (Zen 3, Alder Lake), ring encrypts at twice the rate. Elsewhere, AWS-LC is at least as fast (`cargo xtask
//! bench --primitives`; docs/PERFORMANCE.md). Both make the same bytes.

use std::fmt;
use std::sync::OnceLock;

use haul_proto::wire::handshake::CipherSuite;

/// Bytes of a nonce of every suite.
pub const NONCE_LEN: usize = 12;
/// Bytes of a tag of every suite.
pub const TAG_LEN: usize = 16;

/// A library with the suites' ciphers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CipherLibrary {
    /// aws-lc-rs.
    AwsLc,
    /// ring.
    Ring,
}

impl CipherLibrary {
    /// The faster library for this suite on this CPU. Payloads in the clear always use AWS-LC: ring authenticates them
    /// at less than half its encryption rate.
    pub fn of_this_cpu(suite: CipherSuite) -> Self {
        static FASTER: OnceLock<CipherLibrary> = OnceLock::new();
        if suite == CipherSuite::AuthenticateOnly { Self::AwsLc } else { *FASTER.get_or_init(faster) }
    }
}

impl fmt::Display for CipherLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AwsLc => "AWS-LC",
            Self::Ring => "ring",
        })
    }
}

#[cfg(target_arch = "x86_64")]
fn faster() -> CipherLibrary {
    let has_avx512 = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    let has_vaes =
        is_x86_feature_detected!("avx2") && is_x86_feature_detected!("vaes") && is_x86_feature_detected!("vpclmulqdq");
    if has_vaes && !has_avx512 { CipherLibrary::Ring } else { CipherLibrary::AwsLc }
}

#[cfg(not(target_arch = "x86_64"))]
fn faster() -> CipherLibrary {
    CipherLibrary::AwsLc
}

/// The cipher failed: a key of the wrong length, or a tag of another record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CipherError;

/// A key of one suite.
pub struct CipherKey(CipherKeyInner);

enum CipherKeyInner {
    AwsLc(aws_lc_rs::aead::LessSafeKey),
    Ring(Box<ring::aead::LessSafeKey>),
}

impl CipherKey {
    /// Makes a key from [`key_len`] bytes.
    pub fn new(library: CipherLibrary, suite: CipherSuite, bytes: &[u8]) -> Result<Self, CipherError> {
        Ok(Self(match library {
            CipherLibrary::AwsLc => {
                use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, CHACHA20_POLY1305, LessSafeKey, UnboundKey};
                let algorithm = match suite {
                    CipherSuite::Aes256Gcm | CipherSuite::AuthenticateOnly => &AES_256_GCM,
                    CipherSuite::Aes128Gcm => &AES_128_GCM,
                    CipherSuite::ChaCha20Poly1305 => &CHACHA20_POLY1305,
                };
                CipherKeyInner::AwsLc(LessSafeKey::new(UnboundKey::new(algorithm, bytes).map_err(|_| CipherError)?))
            }
            CipherLibrary::Ring => {
                use ring::aead::{AES_128_GCM, AES_256_GCM, CHACHA20_POLY1305, LessSafeKey, UnboundKey};
                let algorithm = match suite {
                    CipherSuite::Aes256Gcm | CipherSuite::AuthenticateOnly => &AES_256_GCM,
                    CipherSuite::Aes128Gcm => &AES_128_GCM,
                    CipherSuite::ChaCha20Poly1305 => &CHACHA20_POLY1305,
                };
                CipherKeyInner::Ring(Box::new(LessSafeKey::new(
                    UnboundKey::new(algorithm, bytes).map_err(|_| CipherError)?,
                )))
            }
        }))
    }

    /// Encrypts `text` in place, and writes the tag of `clear` and `text` to `tag`, of [`TAG_LEN`] bytes. A nonce must
    /// not repeat under a key.
    pub fn seal(
        &self,
        nonce: [u8; NONCE_LEN],
        clear: &[u8],
        text: &mut [u8],
        tag: &mut [u8],
    ) -> Result<(), CipherError> {
        match &self.0 {
            CipherKeyInner::AwsLc(key) => {
                use aws_lc_rs::aead::{Aad, Nonce};
                let nonce = Nonce::assume_unique_for_key(nonce);
                let made = key.seal_in_place_separate_tag(nonce, Aad::from(clear), text).map_err(|_| CipherError)?;
                tag.copy_from_slice(made.as_ref());
            }
            CipherKeyInner::Ring(key) => {
                use ring::aead::{Aad, Nonce};
                let nonce = Nonce::assume_unique_for_key(nonce);
                let made = key.seal_in_place_separate_tag(nonce, Aad::from(clear), text).map_err(|_| CipherError)?;
                tag.copy_from_slice(made.as_ref());
            }
        }
        Ok(())
    }

    /// Decrypts `text` in place. After an error, `text` is undefined.
    pub fn open(&self, nonce: [u8; NONCE_LEN], clear: &[u8], text: &mut [u8], tag: &[u8]) -> Result<(), CipherError> {
        match &self.0 {
            CipherKeyInner::AwsLc(key) => {
                use aws_lc_rs::aead::{Aad, Nonce};
                let nonce = Nonce::assume_unique_for_key(nonce);
                key.open_in_place_separate_tag(nonce, Aad::from(clear), tag, text).map_err(|_| CipherError)?;
            }
            CipherKeyInner::Ring(key) => {
                use ring::aead::{Aad, Nonce};
                let nonce = Nonce::assume_unique_for_key(nonce);
                let tag = tag.try_into().map_err(|_| CipherError)?;
                key.open_in_place_separate_tag(nonce, Aad::from(clear), tag, text, 0..).map_err(|_| CipherError)?;
            }
        }
        Ok(())
    }
}

/// Bytes of a suite's key.
pub fn key_len(suite: CipherSuite) -> usize {
    match suite {
        CipherSuite::Aes256Gcm | CipherSuite::AuthenticateOnly | CipherSuite::ChaCha20Poly1305 => 32,
        CipherSuite::Aes128Gcm => 16,
    }
}

/// Never displays the key.
impl fmt::Debug for CipherKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            CipherKeyInner::AwsLc(_) => "AWS-LC key",
            CipherKeyInner::Ring(_) => "ring key",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIBRARIES: [CipherLibrary; 2] = [CipherLibrary::AwsLc, CipherLibrary::Ring];
    const NONCE: [u8; NONCE_LEN] = [3; NONCE_LEN];
    /// Around the blocks in which assembly code works.
    const LENGTHS: [usize; 15] = [0, 1, 15, 16, 17, 95, 96, 255, 256, 257, 511, 768, 4096, 4097, 65_537];

    fn key(library: CipherLibrary, suite: CipherSuite) -> CipherKey {
        CipherKey::new(library, suite, &[9; 32][..key_len(suite)]).expect("a key of the right length")
    }

    #[test]
    fn both_libraries_make_the_same_bytes_and_open_each_others() {
        for (suite, _) in CipherSuite::ALL {
            for (clear_len, len) in LENGTHS.into_iter().flat_map(|a| LENGTHS.map(|b| (a, b))) {
                let clear = vec![5; clear_len];
                let sealed = LIBRARIES.map(|library| {
                    let mut text: Vec<u8> = (0..len).map(|i| u8::try_from(i % 251).expect("below 251")).collect();
                    let mut tag = [0; TAG_LEN];
                    key(library, suite).seal(NONCE, &clear, &mut text, &mut tag).expect("sealed");
                    (text, tag)
                });
                assert!(sealed[0] == sealed[1], "{suite:?}: {clear_len} and {len} bytes");
                let (text, tag) = &sealed[0];
                for library in LIBRARIES {
                    let mut text = text.clone();
                    key(library, suite).open(NONCE, &clear, &mut text, tag).expect("authentic");
                    assert!(text.iter().enumerate().all(|(i, byte)| usize::from(*byte) == i % 251));
                }
            }
        }
    }

    #[test]
    fn each_library_refuses_a_wrong_tag_and_a_key_of_the_wrong_length() {
        for (library, (suite, _)) in
            LIBRARIES.into_iter().flat_map(|library| CipherSuite::ALL.map(|suite| (library, suite)))
        {
            let mut text = [1; 40];
            let mut tag = [0; TAG_LEN];
            key(library, suite).seal(NONCE, b"clear", &mut text, &mut tag).expect("sealed");
            tag[7] ^= 1;
            assert_eq!(key(library, suite).open(NONCE, b"clear", &mut text, &tag), Err(CipherError));
            assert!(CipherKey::new(library, suite, &[9; 24]).is_err());
        }
    }
}
