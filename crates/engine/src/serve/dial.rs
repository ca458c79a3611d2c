//! The client's process in the place of ssh: reaches a server, proves itself, and carries what its controller says
//! over its standard input and output.

use haul_proto::wire::limits::GREETING_DEADLINE_MS;
use rustls::Connection;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::bounded::Bounded;
use super::pass::Pass;
use super::proof::as_client;
use super::relay::relay;
use super::tls;

/// How long one address may take to be connected to.
const CONNECT: Duration = Duration::from_secs(10);
/// Far more than a server says before its worker does.
const ANSWER_MAX: usize = 64 << 10;

/// Carries `input` to the server at `host` and `port`, and what comes from there to `output`. An error is a text for
/// people.
pub fn dial(
    (host, port): (&str, u16),
    directory: &str,
    pass: &Pass,
    input: OwnedFd,
    output: OwnedFd,
) -> Result<(), String> {
    let socket = reach(host, port).map_err(|error| format!("no connection to port {port} of {host}: {error}"))?;
    // What is said on a link waits for nothing.
    let _ = socket.set_nodelay(true);
    let mut connection = tls::connect().map_err(|error| error.to_string())?;
    let mut bounded = Bounded::new(&socket, Duration::from_millis(GREETING_DEADLINE_MS), ANSWER_MAX);
    match as_client(&mut connection, &mut bounded, pass, directory) {
        Ok(Ok(())) => {}
        Ok(Err(refusal)) => return Err(refusal),
        Err(error) => return Err(unproven(&error, pass)),
    }
    relay(&mut Connection::from(connection), &socket, input, output, &AtomicBool::new(false))
        .map_err(|error| error.to_string())
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

/// A server that hears a wrong proof says nothing and hangs up.
fn unproven(error: &io::Error, pass: &Pass) -> String {
    match (error.kind(), pass) {
        (
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe,
            Pass::Keys { .. },
        ) => "the server hung up: it does not know this key, or no haul serve answers there".into(),
        (io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe, _) => {
            "the server hung up: the secret is not the right one, or no haul serve answers there".into()
        }
        (io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock, _) => "no haul serve answers there".into(),
        _ => error.to_string(),
    }
}
