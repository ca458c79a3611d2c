//! The client process that replaces ssh: connects to a server, authenticates, and relays the control channel over its
//! standard input and output.

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
use crate::sys::describe::without_numbers;
use crate::sys::random::jitter;

/// Connect timeout of one address.
const CONNECT: Duration = Duration::from_secs(10);
/// Far more bytes than a server sends before its worker does.
const ANSWER_MAX: usize = 64 << 10;

/// How long a client retries a busy server.
const BUSY_LIMIT: Duration = Duration::from_secs(12);
/// The first and the longest pause between two tries.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(1)];

/// Relays `input` to the server at `host` and `port`, and its answers to `output`. Retries a busy server for a while.
/// The error is a text for users.
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
        // Jitter spreads the retries of clients that were refused together.
        std::thread::sleep(pause.mul_f64(0.5 + jitter()));
        pause = (2 * pause).min(PAUSES[1]);
    };
    relay(&mut connection, &socket, input, output, || false).map_err(|error| error.to_string())
}

/// Error for a server that closes connections before the proof.
const BUSY: &str = "connection closed before authentication: the server is busy, or it is not a haul serve\ntry later";

/// Reason of a failed connection.
enum DialRefusal {
    /// The server closed the connection as if it were full.
    Busy,
    /// A retry is useless.
    Final(String),
}

/// Connects to the server and authenticates.
fn enter(
    (host, port): (&str, u16),
    directory: &str,
    pass: &ClientCredentials,
) -> Result<(Connection, TcpStream), DialRefusal> {
    let socket = reach(host, port).map_err(|error| DialRefusal::Final(unreached(host, port, &error)))?;
    // The control channel needs low latency.
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

/// Whether the server has sent `close_notify`: it refused the proof.
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

/// Returns the error for a server that cannot be reached.
fn unreached(host: &str, port: u16, error: &io::Error) -> String {
    let hint = match error.kind() {
        io::ErrorKind::ConnectionRefused => "\nhas haul serve ended (--once, --for)?",
        _ => "",
    };
    format!("cannot connect to port {port} of {host}: {}{hint}", without_numbers(&error.to_string()))
}

/// Returns the error for a server that ends the connection after the proof.
fn unproven(error: &io::Error, pass: &ClientCredentials) -> String {
    match (error.kind(), pass) {
        (_, ClientCredentials::Keys { .. }) if is_hang_up(error) => {
            "the server refused the key: it is unknown, expired or revoked".into()
        }
        (_, ClientCredentials::Open) if is_hang_up(error) => {
            "the server is not open to this network\nuse an address with a secret".into()
        }
        (_, _) if is_hang_up(error) => "the server refused the secret".into(),
        (io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock, _) => "no answer from a haul serve".into(),
        _ => error.to_string(),
    }
}
