//! The words for ciphers and ways, the same for people and for programs.

use haul_base::job::event::TransportPath;
use haul_base::job::spec::Cipher;

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

/// How streams of this way are sealed; nothing is where no socket is used.
pub fn sealed(transport: &TransportPath, cipher: Cipher) -> Option<&'static str> {
    matches!(transport, TransportPath::Tcp { .. } | TransportPath::Ssh { .. }).then(|| self::cipher(cipher))
}
