//! A data connection built from `docs/PROTOCOL.md`, independent of haul's own: for data that no source of haul's sends.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use haul_proto::ids::{PathId, StreamId};
use haul_proto::wire::frame::{TAG_LEN, lengths_check};
use haul_proto::wire::handshake::{
    ANSWER_LEN, CipherSuite, GREETING_LEN, GreetingAnswer, KeyDirection, StreamGreeting, key_info, transcript,
};
use haul_proto::wire::request::SessionSettings;

use crate::within;

/// The suite that it speaks.
pub const SUITE: CipherSuite = CipherSuite::Aes256Gcm;
/// Prefix, trailer and tag of a Finished.
const FINISHED_LEN: usize = 8 + 1 + TAG_LEN;
/// No answer takes nearly as long.
const LIMIT: Duration = Duration::from_secs(20);

/// The source's end of a connection.
#[derive(Debug)]
pub struct RawStream {
    socket: TcpStream,
    key: LessSafeKey,
    sealed: u64,
}

impl RawStream {
    /// Connects to a target on this machine and proves itself.
    pub fn connect(port: u16, settings: &SessionSettings, stream: StreamId) -> io::Result<Self> {
        let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        socket.set_read_timeout(Some(LIMIT))?;
        socket.set_write_timeout(Some(LIMIT))?;
        socket.set_nodelay(true)?;
        let greeting = StreamGreeting { session: settings.session, stream, path: PathId(0), random: [5; 32] }.encode();
        socket.write_all(&greeting)?;
        let mut answer = [0; ANSWER_LEN];
        socket.read_exact(&mut answer)?;
        let salt = digest(&SHA256, &transcript(&greeting, &answer, SUITE));
        let root = Salt::new(HKDF_SHA256, salt.as_ref()).extract(&settings.secret);
        let info = key_info(KeyDirection::FromConnector, 0);
        let key = root.expand(&[&info], &AES_256_GCM).map(UnboundKey::from).expect("a key");
        let mut connected = Self { socket, key: LessSafeKey::new(key), sealed: 0 };
        connected.send(&[], &[0])?;
        connected.socket.read_exact(&mut [0; FINISHED_LEN])?;
        Ok(connected)
    }

    /// Seals and sends a record, whatever it says.
    pub fn send(&mut self, payload: &[u8], trailer: &[u8]) -> io::Result<()> {
        let lengths = [
            &u32::try_from(payload.len()).expect("a short payload").to_le_bytes()[..],
            &u16::try_from(trailer.len()).expect("a short trailer").to_le_bytes(),
        ];
        let lengths: [u8; 6] = lengths.concat().try_into().expect("six bytes");
        let prefix = [&lengths[..], &lengths_check(lengths)].concat();
        let nonce = [&[0; 4][..], &self.sealed.to_le_bytes()].concat();
        let nonce = Nonce::assume_unique_for_key(nonce.try_into().expect("12 bytes"));
        self.sealed += 1;
        let mut sealed = [payload, trailer].concat();
        self.key.seal_in_place_append_tag(nonce, Aad::from(&prefix), &mut sealed).expect("sealed");
        self.socket.write_all(&[prefix, sealed].concat())
    }
}

/// The target's end of a connection, where the source connects.
#[derive(Debug)]
pub struct RawAcceptor {
    socket: TcpStream,
    opener: LessSafeKey,
    opened: u64,
}

impl RawAcceptor {
    /// Accepts a connection and proves itself, whichever suite the session has.
    pub fn accept(listener: &TcpListener, settings: &SessionSettings) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let mut accepted = None;
        within(LIMIT, || {
            accepted = listener.accept().ok();
            accepted.is_some()
        });
        let (mut socket, _) = accepted.ok_or(io::ErrorKind::TimedOut)?;
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(LIMIT))?;
        socket.set_write_timeout(Some(LIMIT))?;
        socket.set_nodelay(true)?;
        let mut greeting = [0; GREETING_LEN];
        socket.read_exact(&mut greeting)?;
        let answer = GreetingAnswer { random: [6; 32] }.encode();
        socket.write_all(&answer)?;
        let salt = digest(&SHA256, &transcript(&greeting, &answer, settings.suite));
        let root = Salt::new(HKDF_SHA256, salt.as_ref()).extract(&settings.secret);
        let algorithm = match settings.suite {
            CipherSuite::ChaCha20Poly1305 => &CHACHA20_POLY1305,
            CipherSuite::Aes128Gcm => &AES_128_GCM,
            CipherSuite::Aes256Gcm | CipherSuite::AuthenticateOnly => &AES_256_GCM,
        };
        let key = |direction| {
            let info = key_info(direction, 0);
            let key = root.expand(&[&info], algorithm).map(UnboundKey::from).expect("a key");
            LessSafeKey::new(key)
        };
        let mut accepted = Self { socket, opener: key(KeyDirection::FromConnector), opened: 0 };
        accepted.next_record()?;
        let prefix = prefix(0, 1);
        let mut sealed = vec![0];
        key(KeyDirection::FromAcceptor)
            .seal_in_place_append_tag(nonce(0), Aad::from(&prefix), &mut sealed)
            .expect("sealed");
        accepted.socket.write_all(&[prefix.to_vec(), sealed].concat())?;
        Ok(accepted)
    }

    /// The next record: payload and trailer. An error when the stream has ended.
    pub fn next_record(&mut self) -> io::Result<(Vec<u8>, Vec<u8>)> {
        let mut prefix = [0; 8];
        self.socket.read_exact(&mut prefix)?;
        let payload = u32::from_le_bytes([prefix[0], prefix[1], prefix[2], prefix[3]]) as usize;
        let trailer = usize::from(u16::from_le_bytes([prefix[4], prefix[5]]));
        let mut sealed = vec![0; payload + trailer + TAG_LEN];
        self.socket.read_exact(&mut sealed)?;
        let opened = self.opener.open_in_place(nonce(self.opened), Aad::from(&prefix), &mut sealed);
        let opened = opened.map_err(|_| io::Error::other("a record that does not open"))?;
        self.opened += 1;
        Ok((opened[..payload].to_vec(), opened[payload..].to_vec()))
    }
}

fn prefix(payload: u32, trailer: u16) -> [u8; 8] {
    let lengths: [u8; 6] = [&payload.to_le_bytes()[..], &trailer.to_le_bytes()].concat().try_into().expect("six bytes");
    [&lengths[..], &lengths_check(lengths)].concat().try_into().expect("eight bytes")
}

fn nonce(number: u64) -> Nonce {
    Nonce::assume_unique_for_key([&[0; 4][..], &number.to_le_bytes()].concat().try_into().expect("12 bytes"))
}
