//! Both ends prove to each other that they know the secret, over bytes that TLS gives to the two ends of one connection
//! and to nobody else: so a proof is worth nothing in another connection, and nobody stands in between.
//!
//! The client goes first, and hears nothing if it is wrong. It says nothing but its proof before the server has proven
//! itself, too.

use aws_lc_rs::hmac;
use haul_proto::wire::serve::{
    CLIENT_LABEL, DIRECTORY_MAX, EXPORTER_LABEL, PROOF_LEN, REASON_MAX, SERVER_LABEL, decode_directory,
};
use rustls::{ClientConnection, ConnectionCommon, ServerConnection, SideData, Stream};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::Secret;

type Exported = [u8; 32];

/// A socket that has to have done its part by a certain time, and of which no more than so many bytes are read.
pub(super) struct Bounded<'a> {
    socket: &'a TcpStream,
    until: Instant,
    left: usize,
}

impl<'a> Bounded<'a> {
    /// `socket`, for `time` and `bytes`.
    pub(super) fn new(socket: &'a TcpStream, time: Duration, bytes: usize) -> Self {
        Self { socket, until: Instant::now() + time, left: bytes }
    }

    /// So many more bytes may come now.
    pub(super) fn allow(&mut self, bytes: usize) {
        self.left += bytes;
    }

    fn remaining(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Err(io::Error::other("more came than belongs there"));
        }
        self.socket.set_read_timeout(self.remaining()?)?;
        let room = buffer.len().min(self.left);
        let read = self.socket.read(&mut buffer[..room])?;
        self.left -= read;
        Ok(read)
    }
}

impl Write for Bounded<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(self.remaining()?)?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The client's part: proves `secret`, has the server prove it, names `directory`. The inner error is the server's
/// reason to refuse it.
pub(super) fn as_client(
    connection: &mut ClientConnection,
    socket: &mut Bounded<'_>,
    secret: &Secret,
    directory: &str,
) -> io::Result<Result<(), String>> {
    finish_handshake(connection, socket)?;
    let exported = export(connection)?;
    let mut stream = Stream::new(connection, socket);
    stream.write_all(prove(secret, CLIENT_LABEL, &exported).as_ref())?;
    stream.flush()?;
    let mut proof = [0; PROOF_LEN];
    stream.read_exact(&mut proof)?;
    if !is_proven(secret, SERVER_LABEL, &exported, &proof) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "what answers there does not know the secret"));
    }
    let length = u8::try_from(directory.len()).map_err(io::Error::other)?;
    stream.write_all(&[&[length], directory.as_bytes()].concat())?;
    stream.flush()?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut reason = vec![0; usize::from(u16::from_le_bytes(length)).min(REASON_MAX)];
    stream.read_exact(&mut reason)?;
    Ok(if reason.is_empty() { Ok(()) } else { Err(haul_proto::path::escape(&reason)) })
}

/// The server's part, up to the name of the directory: which of `secrets` the client knows, and what it wants. `None`
/// where it has proven nothing, and then it was told nothing.
pub(super) fn as_server<'s>(
    connection: &mut ServerConnection,
    socket: &mut Bounded<'_>,
    secrets: impl Iterator<Item = &'s Secret>,
) -> io::Result<Option<(&'s Secret, String)>> {
    finish_handshake(connection, socket)?;
    let exported = export(connection)?;
    let mut stream = Stream::new(connection, socket);
    let mut proof = [0; PROOF_LEN];
    stream.read_exact(&mut proof)?;
    // All are tried, so that the time tells nothing of which it was.
    let proven = secrets.filter(|secret| is_proven(secret, CLIENT_LABEL, &exported, &proof)).last();
    let Some(secret) = proven else { return Ok(None) };
    stream.write_all(prove(secret, SERVER_LABEL, &exported).as_ref())?;
    stream.flush()?;
    stream.sock.allow(DIRECTORY_MAX + REASON_MAX);
    let mut length = [0];
    stream.read_exact(&mut length)?;
    let mut name = vec![0; usize::from(length[0])];
    stream.read_exact(&mut name)?;
    let name = decode_directory(&name).map_err(io::Error::other)?;
    Ok(Some((secret, name.to_owned())))
}

/// The server's answer: welcome, or a reason why not.
pub(super) fn answer(
    connection: &mut ServerConnection,
    socket: &mut Bounded<'_>,
    refusal: Option<&str>,
) -> io::Result<()> {
    let reason = refusal.unwrap_or_default().as_bytes();
    let reason = &reason[..reason.len().min(REASON_MAX)];
    let length = u16::try_from(reason.len()).map_err(io::Error::other)?;
    let mut stream = Stream::new(connection, socket);
    stream.write_all(&[&length.to_le_bytes()[..], reason].concat())?;
    if refusal.is_some() {
        stream.conn.send_close_notify();
    }
    stream.flush()
}

fn finish_handshake<S: SideData>(connection: &mut ConnectionCommon<S>, socket: &mut Bounded<'_>) -> io::Result<()> {
    while connection.is_handshaking() {
        connection.complete_io(socket)?;
    }
    Ok(())
}

fn export<S: SideData>(connection: &ConnectionCommon<S>) -> io::Result<Exported> {
    connection.export_keying_material([0; 32], EXPORTER_LABEL, Some(b"")).map_err(io::Error::other)
}

fn prove(secret: &Secret, label: &[u8], exported: &Exported) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &secret.0), &[label, exported].concat())
}

fn is_proven(secret: &Secret, label: &[u8], exported: &Exported, proof: &[u8]) -> bool {
    let key = hmac::Key::new(hmac::HMAC_SHA256, &secret.0);
    hmac::verify(&key, &[label, exported].concat(), proof).is_ok()
}

#[cfg(test)]
mod tests {
    use super::super::tls;
    use super::*;
    use std::net::TcpListener;

    const LIMIT: Duration = Duration::from_secs(10);

    fn secret(byte: u8) -> Secret {
        Secret([byte; 16])
    }

    /// A client with one secret meets a server with several: what each of them made of it.
    fn meet(own: &Secret, known: &[Secret]) -> (io::Result<Result<(), String>>, io::Result<Option<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::scope(|scope| {
            let serving = scope.spawn(|| {
                let (socket, _) = listener.accept().unwrap();
                let mut connection = tls::accept(&tls::server().unwrap()).unwrap();
                let mut bounded = Bounded::new(&socket, LIMIT, haul_proto::wire::serve::UNPROVEN_MAX);
                let proven = as_server(&mut connection, &mut bounded, known.iter())?;
                let Some((_, name)) = proven else { return Ok(None) };
                answer(&mut connection, &mut bounded, (name == "busy").then_some("come later"))?;
                Ok(Some(name))
            });
            let socket = TcpStream::connect(address).unwrap();
            let mut connection = tls::connect().unwrap();
            let name = if own.0[0] == 9 { "busy" } else { "incoming" };
            let client = as_client(&mut connection, &mut Bounded::new(&socket, LIMIT, 1 << 16), own, name);
            (client, serving.join().unwrap())
        })
    }

    #[test]
    fn who_knows_the_secret_gets_in_and_hears_why_not() {
        let (client, server) = meet(&secret(2), &[secret(1), secret(2)]);
        assert_eq!((client.unwrap(), server.unwrap().as_deref()), (Ok(()), Some("incoming")));
        let (client, _) = meet(&secret(9), &[secret(9)]);
        assert_eq!(client.unwrap(), Err("come later".into()));
    }

    #[test]
    fn who_does_not_hears_nothing_at_all() {
        let (client, server) = meet(&secret(3), &[secret(1), secret(2)]);
        assert!(client.is_err() && server.unwrap().is_none());
    }

    #[test]
    fn a_proof_is_worth_nothing_elsewhere() {
        let (here, there) = ([1; 32], [2; 32]);
        let proof = prove(&secret(1), CLIENT_LABEL, &here);
        assert!(is_proven(&secret(1), CLIENT_LABEL, &here, proof.as_ref()));
        assert!(!is_proven(&secret(1), CLIENT_LABEL, &there, proof.as_ref()), "another connection");
        assert!(!is_proven(&secret(1), SERVER_LABEL, &here, proof.as_ref()), "the other direction");
        assert!(!is_proven(&secret(2), CLIENT_LABEL, &here, proof.as_ref()), "another secret");
    }

    #[test]
    fn more_than_a_greeting_is_not_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stranger = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stranger.write_all(&[b'x'; 4096]).unwrap();
        let (socket, _) = listener.accept().unwrap();
        let mut bounded = Bounded::new(&socket, LIMIT, 100);
        let mut all = Vec::new();
        assert!(bounded.read_to_end(&mut all).is_err() && all.len() == 100);
    }
}
