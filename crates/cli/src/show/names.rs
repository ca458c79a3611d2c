//! The words for ciphers and ways, the same for people and for programs.

use haul_engine::spec::Cipher;

/// As `--cipher` and the events call it.
pub fn cipher(cipher: Cipher) -> &'static str {
    match cipher {
        Cipher::Auto => "auto",
        Cipher::Aes256Gcm => "aes-256-gcm",
        Cipher::Aes128Gcm => "aes-128-gcm",
        Cipher::ChaCha20Poly1305 => "chacha20-poly1305",
        Cipher::AuthenticateOnly => "authenticate-only",
    }
}
