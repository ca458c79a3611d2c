//! Accepting the data connections: the end that listens.
//!
//! Whoever can reach the port may connect; until a connection has proven itself it gets ten seconds, a fixed few
//! bytes are read from it, and it cannot delay the others.

use haul_proto::ids::StreamId;
use haul_proto::wire::limits::PENDING_CONNECTIONS_MAX;
use rustix::net::sockopt;
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use super::Stream;
use super::connect::set_window;
use super::handshake::{Credentials, as_acceptor};
use super::socket::{expect_short_path, notice_loss, suit_host};

/// Connections that wait for accept(2).
const BACKLOG: i32 = 256;
/// How often the listening thread looks whether it is still wanted.
const POLL: Duration = Duration::from_millis(20);

/// A port on which streams are accepted, until it is dropped.
pub struct Acceptor {
    port: u16,
    streams: u16,
    proven: Receiver<(StreamId, Stream)>,
    unwanted: Arc<AtomicBool>,
}

impl Acceptor {
    /// Listens on any address of this host, on a port that the system chooses.
    pub fn listen(credentials: Credentials, window_bytes: u32) -> io::Result<Self> {
        let listener = bind(window_bytes)?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let streams = credentials.streams;
        let unwanted = Arc::new(AtomicBool::new(false));
        let (sender, proven) = channel();
        let stop = Arc::clone(&unwanted);
        std::thread::Builder::new()
            .name("haul-accept".into())
            .spawn(move || accept_until(&stop, &listener, &Arc::new(credentials), window_bytes, &sender))?;
        Ok(Self { port, streams, proven, unwanted })
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// All streams, in order, once they are up. A second connection for the same stream is dropped.
    pub fn wait(self, timeout: Duration) -> io::Result<Vec<Stream>> {
        let deadline = Instant::now() + timeout;
        let mut streams: Vec<Option<Stream>> = Vec::new();
        streams.resize_with(usize::from(self.streams), || None);
        while streams.iter().any(Option::is_none) {
            let left = deadline.saturating_duration_since(Instant::now());
            let (StreamId(id), stream) = self.proven.recv_timeout(left).map_err(|error| match error {
                RecvTimeoutError::Timeout => io::Error::from(io::ErrorKind::TimedOut),
                RecvTimeoutError::Disconnected => io::Error::other("the listening thread ended early"),
            })?;
            if let Some(slot @ None) = streams.get_mut(usize::from(id)) {
                *slot = Some(stream);
            }
        }
        Ok(streams.into_iter().flatten().collect())
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.unwanted.store(true, Ordering::Relaxed);
    }
}

/// IPv6 and IPv4 on one port; IPv4 alone where the kernel has no IPv6.
fn bind(window_bytes: u32) -> io::Result<TcpListener> {
    let bind_to = |domain, address: SocketAddr| -> io::Result<TcpListener> {
        let socket = Socket::new(domain, Type::STREAM, None)?;
        if domain == Domain::IPV6 {
            socket.set_only_v6(false)?;
        }
        set_window(&socket, window_bytes)?;
        expect_short_path(&socket);
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(socket.into())
    };
    bind_to(Domain::IPV6, (Ipv6Addr::UNSPECIFIED, 0).into())
        .or_else(|_| bind_to(Domain::IPV4, (Ipv4Addr::UNSPECIFIED, 0).into()))
}

fn accept_until(
    stop: &AtomicBool,
    listener: &TcpListener,
    credentials: &Arc<Credentials>,
    window_bytes: u32,
    proven: &Sender<(StreamId, Stream)>,
) {
    let pending = Arc::new(AtomicUsize::new(0));
    while !stop.load(Ordering::Relaxed) {
        let socket = match listener.accept() {
            Ok((socket, _)) => socket,
            Err(error) => {
                pause_after(&error, listener);
                continue;
            }
        };
        if pending.fetch_add(1, Ordering::Relaxed) >= PENDING_CONNECTIONS_MAX || socket.set_nonblocking(false).is_err()
        {
            pending.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (credentials, proven, held) = (Arc::clone(credentials), proven.clone(), Arc::clone(&pending));
        let spawned = std::thread::Builder::new().name("haul-greet".into()).spawn(move || {
            let socket = OwnedFd::from(socket);
            if window_bytes == 0 {
                suit_host(&socket);
            }
            if sockopt::set_tcp_nodelay(&socket, true).is_ok()
                && notice_loss(&socket).is_ok()
                && let Ok(stream) = as_acceptor(socket, &credentials)
            {
                // Nobody waits any more when the job took another way.
                let _ = proven.send(stream);
            }
            held.fetch_sub(1, Ordering::Relaxed);
        });
        if spawned.is_err() {
            pending.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Waits for the next connection, or where that cannot be taken for now (no descriptor is left), for a moment: it is
/// still there, and asking for it at once would burn a core.
fn pause_after(error: &io::Error, listener: &TcpListener) {
    match error.kind() {
        io::ErrorKind::WouldBlock => wait_for_connection(listener),
        _ => std::thread::sleep(POLL),
    }
}

fn wait_for_connection(listener: &TcpListener) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(POLL.subsec_nanos()) };
    // Whatever the outcome, the caller tries again.
    let _ = poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&timeout));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::connect::connect;
    use haul_proto::ids::JobId;
    use haul_proto::wire::handshake::Suite;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    fn credentials(streams: u16) -> Credentials {
        Credentials { session: JobId([1; 16]), secret: [2; 32], suite: Suite::Aes128Gcm, rekey_bytes: 1 << 30, streams }
    }

    #[test]
    fn many_streams_come_up_in_order() {
        let acceptor = Acceptor::listen(credentials(100), 0).unwrap();
        let address = format!("127.0.0.1:{}", acceptor.port());
        let connected = connect(std::slice::from_ref(&address), &credentials(100), 0, Duration::from_secs(3)).unwrap();
        assert_eq!((connected.streams.len(), connected.to), (100, address));
        assert_eq!(acceptor.wait(Duration::from_secs(5)).unwrap().len(), 100);
    }

    #[test]
    fn strangers_neither_get_in_nor_in_the_way() {
        let acceptor = Acceptor::listen(credentials(2), 0).unwrap();
        let address = format!("127.0.0.1:{}", acceptor.port());
        let silent: Vec<_> = (0..40).map(|_| TcpStream::connect(&address).unwrap()).collect();
        let mut loud = TcpStream::connect(&address).unwrap();
        loud.write_all(&[b'x'; 4096]).unwrap();
        let wrong = Credentials { secret: [9; 32], ..credentials(2) };
        assert!(connect(std::slice::from_ref(&address), &wrong, 0, Duration::from_secs(3)).is_err());
        let connected = connect(&[address], &credentials(2), 0, Duration::from_secs(3)).unwrap();
        assert_eq!(connected.streams.len(), 2);
        assert_eq!(acceptor.wait(Duration::from_secs(5)).unwrap().len(), 2);
        let mut nothing = Vec::new();
        assert!(loud.read_to_end(&mut nothing).map_or(true, |n| n == 0), "a stranger was answered");
        drop(silent);
    }

    #[test]
    fn a_connection_that_cannot_be_taken_burns_no_core() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _waiting = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let began = Instant::now();
        pause_after(&rustix::io::Errno::MFILE.into(), &listener);
        assert!(began.elapsed() >= POLL, "{:?}", began.elapsed());
    }

    #[test]
    fn nobody_there_is_an_error_that_names_the_address() {
        let error = connect(&["127.0.0.1:1".into()], &credentials(1), 0, Duration::from_secs(3)).err().unwrap();
        assert!(error.starts_with("127.0.0.1:1: "), "{error}");
    }
}
