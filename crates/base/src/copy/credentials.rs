//! Credentials of clients and servers: a shared secret, or a key of each. A server that is open to a network has a
//! public secret.

use std::{fmt, io};

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use haul_proto::checksum::hex;
use haul_proto::wire::serve::{KEY_LEN, SECRET_LEN, SIGNATURE_LEN, from_hex};

use crate::sys::random::random;

/// The prefix of a private key.
const PRIVATE: &str = "haul-private-";
/// The word for [`ClientCredentials::Open`].
pub const OPEN: &str = "open";
/// The prefix of a public key.
const PUBLIC: &str = "haul-public-";

/// A secret shared by client and server. It is displayed only in the line printed for the client.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; SECRET_LEN]);

/// A private key (Ed25519, RFC 8032). It is never displayed.
#[derive(Clone, PartialEq, Eq)]
pub struct PrivateKey([u8; KEY_LEN]);

/// A public key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey([u8; KEY_LEN]);

/// A client's credential, and the server's identity for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientCredentials {
    /// Nothing yet.
    Missing,
    /// A secret, for both.
    Secret(Secret),
    /// None: the server is open to the client's network, and is not authenticated.
    Open,
    /// The server's key, without the client's, which is still to be read.
    Server(PublicKey),
    /// A key of each.
    Keys {
        /// The client's.
        own: PrivateKey,
        /// The server's.
        server: PublicKey,
    },
}

/// A server's condition for a client's access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KnownClient {
    /// The client knows this secret.
    Secret(Secret),
    /// The client has the private key for this public key.
    Key(PublicKey),
    /// The client is in a network that the directory is open to.
    Anyone,
}

impl Secret {
    /// The public secret of servers without authentication.
    pub const OPEN: Self = Self([0; SECRET_LEN]);

    /// Generates a new one.
    pub fn new() -> io::Result<Self> {
        random().map(Self)
    }

    /// Parses its hexadecimal digits.
    pub fn parse(digits: &str) -> Option<Self> {
        from_hex(digits).map(Self)
    }

    /// Makes one from bytes.
    pub fn of_bytes(bytes: [u8; SECRET_LEN]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes, to make and to verify proofs.
    pub fn bytes(&self) -> &[u8; SECRET_LEN] {
        &self.0
    }

    /// Returns the secret as text, for its holder.
    pub fn reveal(&self) -> String {
        hex(&self.0)
    }
}

impl PrivateKey {
    /// Generates a new one.
    pub fn new() -> io::Result<Self> {
        random().map(Self)
    }

    /// Parses its text.
    pub fn parse(text: &str) -> Option<Self> {
        from_hex(text.strip_prefix(PRIVATE)?).map(Self)
    }

    /// Returns the key as text, for its owner.
    pub fn reveal(&self) -> String {
        format!("{PRIVATE}{}", hex(&self.0))
    }

    /// The public key.
    pub fn public(&self) -> io::Result<PublicKey> {
        let public = self.pair()?.public_key().as_ref().try_into();
        public.map(PublicKey).map_err(io::Error::other)
    }

    /// Returns the Ed25519 signature of `message` (RFC 8032).
    pub fn sign(&self, message: &[u8]) -> io::Result<[u8; SIGNATURE_LEN]> {
        self.pair()?.sign(message).as_ref().try_into().map_err(io::Error::other)
    }

    /// Any 32 bytes are a valid key.
    fn pair(&self) -> io::Result<Ed25519KeyPair> {
        Ed25519KeyPair::from_seed_unchecked(&self.0).map_err(|_| io::Error::other("invalid private key"))
    }
}

impl PublicKey {
    /// Parses its text.
    pub fn parse(text: &str) -> Option<Self> {
        from_hex(text.strip_prefix(PUBLIC)?).map(Self)
    }

    /// Returns the bytes, as in a proof.
    pub fn bytes(&self) -> &[u8; KEY_LEN] {
        &self.0
    }

    /// Whether `signature` is its signature of `message`.
    pub fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.0).verify(message, signature).is_ok()
    }
}

impl ClientCredentials {
    /// The form for the dialling process; `None` for an incomplete credential.
    pub fn line(&self) -> Option<String> {
        match self {
            Self::Missing | Self::Server(_) => None,
            Self::Secret(secret) => Some(secret.reveal()),
            Self::Open => Some(OPEN.into()),
            Self::Keys { own, server } => Some(format!("{} {server}", own.reveal())),
        }
    }

    /// Parses the form for the dialling process.
    pub fn from_line(line: &str) -> Option<Self> {
        match line.split_once(' ') {
            None if line == OPEN => Some(Self::Open),
            None => Secret::parse(line).map(Self::Secret),
            Some((own, server)) => Some(Self::Keys { own: PrivateKey::parse(own)?, server: PublicKey::parse(server)? }),
        }
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PUBLIC}{}", hex(&self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_round_trip_and_no_secret_is_shown() {
        let (secret, own) = (Secret([7; SECRET_LEN]), PrivateKey([8; KEY_LEN]));
        let server = PrivateKey([9; KEY_LEN]).public().unwrap();
        assert_eq!(ClientCredentials::from_line("open"), Some(ClientCredentials::Open));
        for pass in [ClientCredentials::Secret(secret.clone()), ClientCredentials::Keys { own: own.clone(), server }] {
            assert_eq!(ClientCredentials::from_line(&pass.line().unwrap()), Some(pass.clone()));
            let shown = format!("{pass:?}");
            assert!(!shown.contains("0707") && !shown.contains("0808"), "{shown}");
        }
        assert_eq!((ClientCredentials::Missing.line(), ClientCredentials::Server(server).line()), (None, None));
        assert_eq!(PublicKey::parse(&server.to_string()), Some(server));
        let (private, public) = (own.reveal(), server.to_string());
        for bad in ["", "haul-private-", &private[..private.len() - 1], &private.to_uppercase(), &public] {
            assert_eq!(PrivateKey::parse(bad), None, "{bad}");
        }
        assert_eq!(PublicKey::parse(&private), None);
    }

    #[test]
    fn a_signature_is_good_for_its_message_and_its_key() {
        let (one, other) = (PrivateKey([1; KEY_LEN]), PrivateKey([2; KEY_LEN]));
        let signature = one.sign(b"message").unwrap();
        let public = one.public().unwrap();
        assert!(public.has_signed(b"message", &signature));
        assert!(!public.has_signed(b"another", &signature));
        assert!(!other.public().unwrap().has_signed(b"message", &signature));
    }
}
