//! Handshake of a data connection: a greeting each way in plain text, then a Finished record each way. Only the holders
//! of the session's secret can derive the keys of Finished.
//!
//! Keys: `HKDF-SHA256(salt = SHA-256(greeting, answer, cipher), secret, info)` (RFC 5869), see [`key_info`]. So a key
//! is bound to both sides' random bytes, session, stream, path, cipher and direction. No two connections share keys.

use crate::codec::Wire;
use crate::encoding::{Decoded, Reader, Writer};
use crate::error::ProtocolError;
use crate::feature::PROTOCOL_VERSION;
use crate::ids::{CopyId, PathId, StreamId};

/// First bytes of every greeting.
pub const MAGIC: [u8; 8] = *b"haul str";
/// Length of a greeting.
pub const GREETING_LEN: usize = 8 + 2 + 16 + 2 + 2 + 32;
/// Length of the answer.
pub const ANSWER_LEN: usize = 8 + 2 + 32;

const _: () = assert!(GREETING_LEN <= crate::limits::GREETING_MAX);

/// Greeting of the connecting end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamGreeting {
    /// Session of the connection.
    pub session: CopyId,
    /// Stream of the connection.
    pub stream: StreamId,
    /// Network path of the connection.
    pub path: PathId,
    /// Fresh random bytes.
    pub random: [u8; 32],
}

/// Answer of the accepting end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GreetingAnswer {
    /// Fresh random bytes.
    pub random: [u8; 32],
}

/// Encryption of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CipherSuite {
    /// AES-256-GCM.
    Aes256Gcm,
    /// AES-128-GCM.
    Aes128Gcm,
    /// ChaCha20-Poly1305.
    ChaCha20Poly1305,
    /// AES-256-GCM with the payload as associated data.
    AuthenticateOnly,
}

impl CipherSuite {
    /// All suites with their wire numbers.
    pub const ALL: [(CipherSuite, u8); 4] = [
        (CipherSuite::Aes256Gcm, 1),
        (CipherSuite::Aes128Gcm, 2),
        (CipherSuite::ChaCha20Poly1305, 3),
        (CipherSuite::AuthenticateOnly, 4),
    ];

    /// Returns the wire number.
    pub fn number(self) -> u8 {
        Self::ALL.iter().find(|(suite, _)| *suite == self).map_or(0, |(_, number)| *number)
    }

    /// Returns the suite of a wire number.
    pub fn from_number(number: u8) -> Decoded<Self> {
        let found = Self::ALL.iter().find(|(_, n)| *n == number);
        found.map(|(suite, _)| *suite).ok_or(ProtocolError::Unknown { what: "cipher", value: number.into() })
    }
}

impl Wire for CipherSuite {
    fn encode(&self, out: &mut Writer) {
        out.u8(self.number());
    }

    fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        Self::from_number(reader.u8()?)
    }
}

/// Direction of records under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyDirection {
    /// From the connecting end.
    FromConnector,
    /// From the accepting end.
    FromAcceptor,
}

/// Returns HKDF's `info` for the key of a direction and generation (0 first; one more after each rekeying).
pub fn key_info(direction: KeyDirection, generation: u32) -> Vec<u8> {
    let label: &[u8] = match direction {
        KeyDirection::FromConnector => b"haul 1 key from connector",
        KeyDirection::FromAcceptor => b"haul 1 key from acceptor",
    };
    let mut info = Writer::new();
    info.raw(label).u32(generation);
    info.into_bytes()
}

/// Returns the input of the SHA-256 that is HKDF's salt.
pub fn transcript(greeting: &[u8; GREETING_LEN], answer: &[u8; ANSWER_LEN], suite: CipherSuite) -> Vec<u8> {
    let mut bytes = Writer::new();
    bytes.raw(greeting).raw(answer).u8(suite.number());
    bytes.into_bytes()
}

impl StreamGreeting {
    /// Encodes the greeting for the wire.
    pub fn encode(&self) -> [u8; GREETING_LEN] {
        let mut out = Writer::new();
        out.raw(&MAGIC)
            .u16(PROTOCOL_VERSION)
            .raw(&self.session.0)
            .u16(self.stream.0)
            .u16(self.path.0)
            .raw(&self.random);
        fixed(out)
    }

    /// Decodes a greeting.
    pub fn decode(bytes: &[u8; GREETING_LEN]) -> Decoded<Self> {
        let mut reader = Reader::new(bytes);
        check_opening(&mut reader)?;
        let greeting = Self {
            session: CopyId(reader.array()?),
            stream: StreamId(reader.u16()?),
            path: PathId(reader.u16()?),
            random: reader.array()?,
        };
        reader.finish()?;
        Ok(greeting)
    }
}

impl GreetingAnswer {
    /// Encodes the answer for the wire.
    pub fn encode(&self) -> [u8; ANSWER_LEN] {
        let mut out = Writer::new();
        out.raw(&MAGIC).u16(PROTOCOL_VERSION).raw(&self.random);
        fixed(out)
    }

    /// Decodes an answer.
    pub fn decode(bytes: &[u8; ANSWER_LEN]) -> Decoded<Self> {
        let mut reader = Reader::new(bytes);
        check_opening(&mut reader)?;
        let answer = Self { random: reader.array()? };
        reader.finish()?;
        Ok(answer)
    }
}

fn check_opening(reader: &mut Reader<'_>) -> Decoded<()> {
    if reader.array::<8>()? != MAGIC {
        return Err(ProtocolError::NotAuthentic);
    }
    match reader.u16()? {
        PROTOCOL_VERSION => Ok(()),
        other => Err(ProtocolError::Version(other)),
    }
}

fn fixed<const N: usize>(out: Writer) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&out.into_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings_round_trip() {
        let greeting =
            StreamGreeting { session: CopyId([1; 16]), stream: StreamId(7), path: PathId(1), random: [2; 32] };
        assert_eq!(StreamGreeting::decode(&greeting.encode()), Ok(greeting));
        let answer = GreetingAnswer { random: [4; 32] };
        assert_eq!(GreetingAnswer::decode(&answer.encode()), Ok(answer));
    }

    #[test]
    fn another_protocol_is_refused() {
        let mut bytes = GreetingAnswer { random: [4; 32] }.encode();
        bytes[8] = 99;
        assert_eq!(GreetingAnswer::decode(&bytes), Err(ProtocolError::Version(99)));
        bytes[0] = b'H';
        assert_eq!(GreetingAnswer::decode(&bytes), Err(ProtocolError::NotAuthentic));
    }

    #[test]
    fn suites_and_directions_have_keys_of_their_own() {
        for (suite, number) in CipherSuite::ALL {
            assert_eq!((CipherSuite::from_number(number), suite.number()), (Ok(suite), number));
        }
        assert!(CipherSuite::from_number(0).is_err());
        assert_ne!(key_info(KeyDirection::FromConnector, 0), key_info(KeyDirection::FromAcceptor, 0));
        assert_ne!(key_info(KeyDirection::FromConnector, 0), key_info(KeyDirection::FromConnector, 1));
    }
}
