//! Accepting the data connections: the end that listens.
//!
//! Whoever can reach the port may connect; until a connection has proven itself it gets ten seconds, a fixed few
//! bytes are read from it, and it cannot delay the others.

use haul_proto::ids::StreamId;
use haul_proto::wire::limits::PENDING_CONNECTIONS_MAX;
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use super::handshake::{Credentials, as_acceptor};
use super::socket::SocketSettings;
use super::{Arrivals, Stream, StreamError};

/// Connections that wait for accept(2).
const BACKLOG: i32 = 256;
/// How often the listening thread looks whether it is still wanted.
const POLL: Duration = Duration::from_millis(50);

/// Listens on any address of this host, on a port that the system chooses, for as long as the streams that arrive are
/// wanted. Returns the port.
pub fn listen(credentials: Credentials, sockets: SocketSettings) -> io::Result<(u16, Arrivals)> {
    let listener = bind(&sockets)?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    let unwanted = Arc::new(AtomicBool::new(false));
    let (sender, proven) = channel();
    let stop = Arc::clone(&unwanted);
    let terms = Arc::new((credentials, sockets));
    std::thread::Builder::new()
        .name("haul-accept".into())
        .spawn(move || accept_until(&stop, &listener, &terms, &sender))?;
    Ok((port, Arrivals { proven, unwanted }))
}

/// IPv6 and IPv4 on one port; IPv4 alone where the kernel has no IPv6.
fn bind(sockets: &SocketSettings) -> io::Result<TcpListener> {
    let bind_to = |domain, address: SocketAddr| -> io::Result<TcpListener> {
        let socket = Socket::new(domain, Type::STREAM, None)?;
        if domain == Domain::IPV6 {
            socket.set_only_v6(false)?;
        }
        sockets.prepare(&socket)?;
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
    terms: &Arc<(Credentials, SocketSettings)>,
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
        let (terms, proven, held) = (Arc::clone(terms), proven.clone(), Arc::clone(&pending));
        let spawned = std::thread::Builder::new().name("haul-greet".into()).spawn(move || {
            // Nobody waits any more when the job took another way, or is over.
            if let Ok(stream) = prove(socket.into(), &terms.0, &terms.1) {
                let _ = proven.send(stream);
            }
            held.fetch_sub(1, Ordering::Relaxed);
        });
        if spawned.is_err() {
            pending.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn prove(
    socket: OwnedFd,
    credentials: &Credentials,
    sockets: &SocketSettings,
) -> Result<(StreamId, Stream), StreamError> {
    sockets.suit(&socket)?;
    let (id, stream) = as_acceptor(socket, credentials)?;
    sockets.suit_path(&*stream.socket);
    Ok((id, stream))
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
    use crate::stream::collect;
    use crate::stream::connect::{Terms, connect};
    use haul_proto::ids::JobId;
    use haul_proto::wire::handshake::Suite;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::time::Instant;

    fn terms(streams: u16) -> Terms {
        let (session, secret, suite) = (JobId([1; 16]), [2; 32], Suite::Aes128Gcm);
        let credentials = Credentials { session, secret, suite, rekey_bytes: 1 << 30 };
        let (sockets, timeout) = (SocketSettings::default(), Duration::from_secs(3));
        Terms { credentials, sockets, streams, streams_max: streams, timeout }
    }

    fn listening() -> (String, Arrivals) {
        let (port, arrivals) = listen(terms(1).credentials, SocketSettings::default()).unwrap();
        (format!("127.0.0.1:{port}"), arrivals)
    }

    #[test]
    fn many_streams_come_up_at_both_ends() {
        let (address, accepted) = listening();
        let connected = connect(std::slice::from_ref(&address), &terms(100)).unwrap();
        assert_eq!((connected.streams, &connected.to), (100, &address));
        assert_eq!(collect(&connected.arrivals, 100).len(), 100);
        assert_eq!(collect(&accepted, 100).len(), 100);
    }

    #[test]
    fn more_streams_can_be_had_later_at_most_as_many_at_a_time_as_agreed() {
        let (address, accepted) = listening();
        let connected = connect(&[address], &Terms { streams: 2, ..terms(9) }).unwrap();
        let (near, far) = (collect(&connected.arrivals, 2), collect(&accepted, 2));
        let ids = |arrivals: &Arrivals, count: usize| {
            let next = |_| Some(arrivals.next(Duration::from_secs(10))??.0.0);
            let mut ids: Vec<u16> = (0..count).filter_map(next).collect();
            ids.sort_unstable();
            ids
        };
        connected.connector.make(3);
        assert_eq!((ids(&connected.arrivals, 3), ids(&accepted, 3)), ((2..5).collect(), (2..5).collect()));
        // Of others that are lost, too: no id comes twice.
        drop((near, far));
        connected.connector.make(500);
        assert_eq!((ids(&connected.arrivals, 9), ids(&accepted, 9)), ((5..14).collect(), (5..14).collect()));
        assert!(connected.arrivals.next(Duration::from_millis(100)).unwrap().is_none(), "a stream too many");
    }

    #[test]
    fn nobody_listens_once_streams_are_not_wanted() {
        let (address, accepted) = listening();
        drop(accepted);
        let deadline = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(&address).is_ok() {
            assert!(Instant::now() < deadline, "the port is still open");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn strangers_neither_get_in_nor_in_the_way() {
        let (address, accepted) = listening();
        let silent: Vec<_> = (0..40).map(|_| TcpStream::connect(&address).unwrap()).collect();
        let mut loud = TcpStream::connect(&address).unwrap();
        loud.write_all(&[b'x'; 4096]).unwrap();
        let mut wrong = terms(2);
        wrong.credentials.secret = [9; 32];
        assert!(connect(std::slice::from_ref(&address), &wrong).is_err());
        let connected = connect(&[address], &terms(2)).unwrap();
        assert_eq!(collect(&connected.arrivals, 2).len(), 2);
        assert_eq!(collect(&accepted, 2).len(), 2);
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
        let error = connect(&["127.0.0.1:1".into()], &terms(1)).err().unwrap();
        assert!(error.starts_with("127.0.0.1:1: "), "{error}");
    }
}
