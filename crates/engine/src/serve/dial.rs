//! The client's process in the place of ssh: reaches a server, proves itself, and carries what its controller says
//! over its standard input and output.

use haul_proto::limits::GREETING_DEADLINE_MS;
use rustls::{ClientConnection, Connection};
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use super::relay::relay;
use super::tls;
use crate::job::credentials::ClientCredentials;
use crate::serve::auth::as_client;
use crate::serve::preauth_socket::PreauthSocket;
use crate::sys::random::jitter;

/// How long one address may take to be connected to.
const CONNECT: Duration = Duration::from_secs(10);
/// Far more than a server says before its worker does.
const ANSWER_MAX: usize = 64 << 10;

/// How long a client tries to get in where a server is busy.
const BUSY_LIMIT: Duration = Duration::from_secs(12);
/// The first pause between two tries, and the longest.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(1)];

/// Carries `input` to the server at `host` and `port`, and what comes from there to `output`. A server that is busy is
/// tried again for a while. An error is a text for people.
pub fn dial(
    (host, port): (&str, u16),
    directory: &str,
    pass: &ClientCredentials,
    input: OwnedFd,
    output: OwnedFd,
) -> Result<(), String> {
    let (began, mut pause) = (Instant::now(), PAUSES[0]);
    let (mut connection, socket) = loop {
        match enter((host, port), directory, pass) {
            Ok(entered) => break entered,
            Err(DialRefusal::Final(text)) => return Err(text),
            Err(DialRefusal::Busy) if began.elapsed() + pause < BUSY_LIMIT => {}
            Err(DialRefusal::Busy) => return Err(BUSY.into()),
        }
        // Clients that were turned away together do not come back together.
        std::thread::sleep(pause.mul_f64(0.5 + jitter()));
        pause = (2 * pause).min(PAUSES[1]);
    };
    relay(&mut connection, &socket, input, output, || false).map_err(|error| error.to_string())
}

/// Said where a server closes connections before it has heard what they prove.
const BUSY: &str = "the server is busy, or what answers there is no haul serve: it closed the connection before it heard a proof\ntry later";

/// Why a client did not get in.
enum DialRefusal {
    /// The connection was closed as if there were no room for it.
    Busy,
    /// There is no use in another try.
    Final(String),
}

/// Connects to the server and proves itself.
fn enter(
    (host, port): (&str, u16),
    directory: &str,
    pass: &ClientCredentials,
) -> Result<(Connection, TcpStream), DialRefusal> {
    let socket = reach(host, port)
        .map_err(|error| DialRefusal::Final(format!("no connection to port {port} of {host}: {error}")))?;
    // What is said on a link waits for nothing.
    let _ = socket.set_nodelay(true);
    let mut connection = tls::connect().map_err(|error| DialRefusal::Final(error.to_string()))?;
    let mut bounded = PreauthSocket::new(&socket, Duration::from_millis(GREETING_DEADLINE_MS), ANSWER_MAX);
    match as_client(&mut connection, &mut bounded, pass, directory) {
        Ok(Ok(())) => Ok((connection.into(), socket)),
        Ok(Err(refusal)) => Err(DialRefusal::Final(refusal)),
        Err(error) if is_hang_up(&error) && !has_ended(&mut connection) => Err(DialRefusal::Busy),
        Err(error) => Err(DialRefusal::Final(unproven(&error, pass))),
    }
}

fn is_hang_up(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

/// Whether the server has said that it says no more: it has heard the proof, and does not take it.
pub(super) fn has_ended(connection: &mut ClientConnection) -> bool {
    connection.process_new_packets().is_ok_and(|state| state.peer_has_closed())
}

fn reach(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut failed = io::Error::other("the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(socket) => return Ok(socket),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// A server that hears a wrong proof says nothing, and ends the connection.
fn unproven(error: &io::Error, pass: &ClientCredentials) -> String {
    match (error.kind(), pass) {
        (_, ClientCredentials::Keys { .. }) if is_hang_up(error) => {
            "the server hung up: it does not know this key, or the key has expired or was revoked".into()
        }
        (_, _) if is_hang_up(error) => "the server hung up: the secret is not the right one".into(),
        (io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock, _) => "no haul serve answers there".into(),
        _ => error.to_string(),
    }
}
