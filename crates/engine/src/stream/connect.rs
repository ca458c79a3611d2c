//! Making the data connections: the end that connects.

use haul_proto::ids::StreamId;
use rustix::net::sockopt;
use socket2::{Domain, SockAddr, Socket, Type};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::time::Duration;

use super::handshake::{Credentials, as_connector};
use super::socket::{expect_short_path, notice_loss, suit_host};
use super::{Stream, StreamError};

/// Connections that are made at a time: fewer than an acceptor takes before they are proven.
const AT_A_TIME: u16 = 32;

/// Streams that are up, and between which addresses they run.
pub struct Connected {
    /// One for each stream id, in order.
    pub streams: Vec<Stream>,
    /// Address and port of this end's first connection.
    pub from: String,
    /// Address and port that it connected to.
    pub to: String,
}

/// Connects all streams to the first of `addresses` that accepts the first one and proves itself.
/// The error says what happened at each.
pub fn connect(
    addresses: &[String],
    credentials: &Credentials,
    window_bytes: u32,
    timeout: Duration,
) -> Result<Connected, String> {
    let mut failures = Vec::new();
    for address in addresses {
        match connect_to(address, credentials, window_bytes, timeout) {
            Ok(connected) => return Ok(connected),
            Err(error) => failures.push(format!("{address}: {}", reason(&error))),
        }
    }
    Err(if failures.is_empty() { "no address is known".into() } else { failures.join("; ") })
}

fn connect_to(
    address: &str,
    credentials: &Credentials,
    window_bytes: u32,
    timeout: Duration,
) -> Result<Connected, StreamError> {
    let address = address.to_socket_addrs()?.next().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    let first = socket(address, window_bytes, timeout)?;
    let from = local_name(&first);
    let mut streams = vec![as_connector(first, credentials, StreamId(0))?];
    let ids: Vec<u16> = (1..credentials.streams).collect();
    for wave in ids.chunks(usize::from(AT_A_TIME)) {
        let made: Vec<Result<Stream, StreamError>> = std::thread::scope(|scope| {
            let connecting = wave.iter().map(|&id| {
                scope.spawn(move || as_connector(socket(address, window_bytes, timeout)?, credentials, StreamId(id)))
            });
            let connecting: Vec<_> = connecting.collect();
            connecting.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(lost_thread()))).collect()
        });
        for stream in made {
            streams.push(stream?);
        }
    }
    Ok(Connected { streams, from, to: address.to_string() })
}

fn lost_thread() -> StreamError {
    io::Error::other("a thread that was connecting ended early").into()
}

fn socket(address: SocketAddr, window_bytes: u32, timeout: Duration) -> io::Result<OwnedFd> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    set_window(&socket, window_bytes)?;
    expect_short_path(&socket);
    socket.connect_timeout(&SockAddr::from(address), timeout)?;
    let socket = OwnedFd::from(socket);
    sockopt::set_tcp_nodelay(&socket, true)?;
    notice_loss(&socket)?;
    if window_bytes == 0 {
        suit_host(&socket);
    }
    Ok(socket)
}

/// Sets both socket buffers before the connection exists, so that the window scale fits them. 0 leaves them to the
/// kernel, which tunes them better than a fixed size does.
pub(super) fn set_window(socket: &Socket, window_bytes: u32) -> io::Result<()> {
    if window_bytes > 0 {
        socket.set_send_buffer_size(window_bytes as usize)?;
        socket.set_recv_buffer_size(window_bytes as usize)?;
    }
    Ok(())
}

fn local_name(socket: &OwnedFd) -> String {
    rustix::net::getsockname(socket)
        .ok()
        .and_then(|name| SocketAddr::try_from(name).ok())
        .map_or_else(String::new, |name| name.to_string())
}

fn reason(error: &StreamError) -> String {
    match error {
        StreamError::Io(error) if error.kind() == io::ErrorKind::TimedOut => "no answer in time".into(),
        StreamError::Io(error) if error.kind() == io::ErrorKind::WouldBlock => "no answer in time".into(),
        StreamError::Io(error) => crate::fs::describe(error).lines().next().unwrap_or_default().to_owned(),
        StreamError::Protocol(fault) => fault.to_string(),
    }
}
