//! The client process that replaces ssh: connects to a server, authenticates, and relays the control channel over its
//! standard input and output.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use haul_base::copy::credentials::ClientCredentials;
use haul_base::sys::describe::without_numbers;
use haul_base::sys::random::jitter;
use haul_proto::limits::GREETING_DEADLINE_MS;
use rustls::{ClientConnection, Connection};

use super::relay::relay;
use super::tls;
use crate::auth::{AuthError, as_client};
use crate::preauth_socket::PreauthSocket;

/// Connect timeout of one address.
const CONNECT: Duration = Duration::from_secs(10);
/// Far more bytes than a server sends before its worker does.
const ANSWER_MAX: usize = 64 << 10;

/// How long a client retries a busy server.
const BUSY_LIMIT: Duration = Duration::from_secs(12);
/// The first and the longest pause between two tries.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(1)];

/// Why a client has no connection to a server's worker.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The server cannot be reached.
    #[error("cannot connect to port {port} of {host}: {}{hint}", without_numbers(&.cause.to_string()), hint = hint(.cause))]
    Unreachable {
        /// The server's host.
        host: String,
        /// Its port.
        port: u16,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// TLS has no keys or random bytes.
    #[error("{0}")]
    Tls(#[source] rustls::Error),
    /// The server closed the connection before the proof, as a full one does.
    #[error("connection closed before authentication: the server is busy, or it is not a haul serve\ntry later")]
    Busy,
    /// The server closed the connection after the client's signature.
    #[error("the server refused the key: it is unknown, expired or revoked")]
    RefusedKey,
    /// The server closed the connection after a proof without a secret.
    #[error("the server is not open to this network\nuse an address with a secret")]
    ClosedNetwork,
    /// The server closed the connection after the proof with the secret.
    #[error("the server refused the secret")]
    RefusedSecret,
    /// Nothing came in time.
    #[error("no answer from a haul serve")]
    NoAnswer,
    /// The authentication failed otherwise.
    #[error("{0}")]
    Authentication(#[source] AuthError),
    /// The connection broke after the authentication.
    #[error("{0}")]
    Relay(#[source] io::Error),
}

/// Relays `input` to the server at `host` and `port`, and its answers to `output`. Retries a busy server for a while.
pub fn dial(
    host: &str,
    port: u16,
    directory: &str,
    pass: &ClientCredentials,
    input: OwnedFd,
    output: OwnedFd,
) -> Result<(), DialError> {
    let (began, mut pause) = (Instant::now(), PAUSES[0]);
    let (mut connection, socket) = loop {
        match enter(host, port, directory, pass) {
            Ok(entered) => break entered,
            Err(DialError::Busy) if began.elapsed() + pause < BUSY_LIMIT => {}
            Err(error) => return Err(error),
        }
        // Jitter spreads the retries of clients that were refused together.
        std::thread::sleep(pause.mul_f64(0.5 + jitter()));
        pause = (2 * pause).min(PAUSES[1]);
    };
    relay(&mut connection, &socket, input, output, || false).map_err(DialError::Relay)
}

/// Connects to the server and authenticates.
fn enter(
    host: &str,
    port: u16,
    directory: &str,
    pass: &ClientCredentials,
) -> Result<(Connection, TcpStream), DialError> {
    let socket = reach(host, port).map_err(|cause| DialError::Unreachable { host: host.to_owned(), port, cause })?;
    // The control channel needs low latency.
    let _ = socket.set_nodelay(true);
    let mut connection = tls::connect().map_err(DialError::Tls)?;
    let mut bounded = PreauthSocket::new(&socket, Duration::from_millis(GREETING_DEADLINE_MS), ANSWER_MAX);
    match as_client(&mut connection, &mut bounded, pass, directory) {
        Ok(()) => Ok((connection.into(), socket)),
        Err(AuthError::Connection(error)) if is_hang_up(&error) && !has_ended(&mut connection) => Err(DialError::Busy),
        Err(error) => Err(unproven(error, pass)),
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

/// Returns the hint for a server that cannot be reached.
fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "\nhas haul serve ended (--once, --for)?",
        _ => "",
    }
}

/// Returns the error for a server that ends the connection after the proof.
fn unproven(error: AuthError, pass: &ClientCredentials) -> DialError {
    match (&error, pass) {
        (AuthError::Connection(cause), ClientCredentials::Keys { .. }) if is_hang_up(cause) => DialError::RefusedKey,
        (AuthError::Connection(cause), ClientCredentials::Open) if is_hang_up(cause) => DialError::ClosedNetwork,
        (AuthError::Connection(cause), _) if is_hang_up(cause) => DialError::RefusedSecret,
        (AuthError::Connection(cause), _) if is_timeout(cause) => DialError::NoAnswer,
        _ => DialError::Authentication(error),
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests {
    use haul_base::copy::credentials::Secret;

    use super::*;

    #[test]
    fn a_closed_connection_is_explained_by_the_credential() {
        let secret = ClientCredentials::Secret(Secret::of_bytes([1; 16]));
        let failed = |kind: io::ErrorKind, pass| unproven(AuthError::Connection(kind.into()), pass);
        assert!(matches!(failed(io::ErrorKind::UnexpectedEof, &ClientCredentials::Open), DialError::ClosedNetwork));
        assert!(matches!(failed(io::ErrorKind::ConnectionReset, &secret), DialError::RefusedSecret));
        assert!(matches!(failed(io::ErrorKind::TimedOut, &secret), DialError::NoAnswer));
        let refused = unproven(AuthError::Refusal("too many\ntry later".into()), &secret);
        assert_eq!(refused.to_string(), "too many\ntry later");
        let forged = unproven(AuthError::ServerProof, &secret);
        assert_eq!(forged.to_string(), "the server failed to authenticate itself");
    }

    #[test]
    fn an_ended_server_is_named_with_a_hint() {
        let cause = rustix::io::Errno::CONNREFUSED.into();
        let error = DialError::Unreachable { host: "db1".into(), port: 5031, cause };
        let expected = "cannot connect to port 5031 of db1: Connection refused\nhas haul serve ended (--once, --for)?";
        assert_eq!(error.to_string(), expected);
    }
}
