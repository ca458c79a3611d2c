//! A data connection made from the words of `docs/PROTOCOL.md`, apart from haul's own: for what no source of haul's would
//! send.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use haul_proto::ids::{PathId, StreamId};
use haul_proto::wire::frame::{TAG_LEN, lengths_check};
use haul_proto::wire::handshake::{ANSWER_LEN, Direction, Greeting, Suite, key_info, transcript};
use haul_proto::wire::request::SessionSettings;

/// The suite that it speaks.
pub const SUITE: Suite = Suite::Aes256Gcm;
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
        let greeting = Greeting { session: settings.session, stream, path: PathId(0), random: [5; 32] }.encode();
        socket.write_all(&greeting)?;
        let mut answer = [0; ANSWER_LEN];
        socket.read_exact(&mut answer)?;
        let salt = digest(&SHA256, &transcript(&greeting, &answer, SUITE));
        let root = Salt::new(HKDF_SHA256, salt.as_ref()).extract(&settings.secret);
        let info = key_info(Direction::FromConnector, 0);
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
