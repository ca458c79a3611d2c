//! Names of ciphers and transport paths, for people and programs.

use haul_base::copy::event::TransportPath;
use haul_base::copy::spec::Cipher;

/// The name in `--cipher` and events.
pub fn cipher(cipher: Cipher) -> &'static str {
    match cipher {
        Cipher::Auto => "auto",
        Cipher::Aes256Gcm => "aes-256-gcm",
        Cipher::Aes128Gcm => "aes-128-gcm",
        Cipher::ChaCha20Poly1305 => "chacha20-poly1305",
        Cipher::AuthenticateOnly => "authenticate-only",
    }
}

/// The cipher of this transport path; none without a socket.
pub fn sealed(transport: &TransportPath, cipher: Cipher) -> Option<&'static str> {
    matches!(transport, TransportPath::Tcp { .. } | TransportPath::Tunnel { .. }).then(|| self::cipher(cipher))
}
