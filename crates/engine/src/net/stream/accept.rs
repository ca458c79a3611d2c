//! Acceptance of data connections: the listening end.
//!
//! Any host that reaches the port may connect. Until a connection is authenticated, it has ten seconds, a fixed few
//! bytes are read from it, and it cannot delay others. If there are too many, the oldest is closed
//! ([`super::preauth`]).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use haul_base::sys::describe::describe;
use haul_proto::ids::StreamId;
use haul_proto::limits::PENDING_STREAMS_FROM_NETWORK_MAX;
use haul_proto::wire::request::SocketOptions;
use socket2::{Domain, Socket, Type};

use super::handshake::{StreamCredentials, as_acceptor};
use super::preauth::PendingConnections;
use super::socket::{adapt_to_path, configure_connection, prepare_socket};
use super::{AcceptedStreams, DataStream, StreamError};

/// Most connections in the accept queue.
const BACKLOG: i32 = 256;
/// The port number for "any free port".
const ANY_FREE_PORT: u16 = 0;
/// Interval at which the listening thread checks for its end.
const POLL: Duration = Duration::from_millis(50);
/// Longest wait for a used port.
const PORT_WAIT_MAX: Duration = Duration::from_secs(1);

/// The address for accepting connections.
#[derive(Debug, Clone, Copy, Default)]
pub struct AcceptAddress {
    /// This address only; `None` for any of this host.
    pub address: Option<IpAddr>,
    /// The first free port in this range; `None` for the system's choice.
    pub ports: Option<(u16, u16)>,
}

impl AcceptAddress {
    /// Describes an error of listening there.
    pub fn describe_failure(&self, error: &io::Error) -> String {
        let why = describe(error);
        let why = why.lines().next().unwrap_or_default();
        match (error.kind(), self.ports, self.address) {
            (io::ErrorKind::AddrInUse, Some((first, last)), _) if first == last => format!("port {first} is in use"),
            (io::ErrorKind::AddrInUse, Some((first, last)), _) => format!("no free port from {first} to {last}"),
            (_, _, Some(address)) => format!("cannot listen at {address}: {why}"),
            _ => format!("cannot listen: {why}"),
        }
    }
}

/// Listens until the streams are dropped. Returns the port.
pub fn listen(
    place: AcceptAddress,
    credentials: StreamCredentials,
    options: SocketOptions,
) -> io::Result<(u16, AcceptedStreams)> {
    let listener = bind(place, &options)?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    let unwanted = Arc::new(AtomicBool::new(false));
    let (sender, proven) = channel();
    let stop = Arc::clone(&unwanted);
    let terms = Arc::new((credentials, options));
    std::thread::Builder::new()
        .name("haul-accept".into())
        .spawn(move || accept_until(&stop, &listener, &terms, &sender))?;
    Ok((port, AcceptedStreams { proven, unwanted }))
}

/// Binds the first free port of the requested ones. The worker of a copy that has just ended may hold one for a moment:
/// if all are in use, waits up to 1 s. The error is that of the last port.
pub fn bind(place: AcceptAddress, options: &SocketOptions) -> io::Result<TcpListener> {
    let deadline = Instant::now() + PORT_WAIT_MAX;
    loop {
        match bind_first_free(place, options) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < deadline => {
                std::thread::sleep(POLL);
            }
            bound => return bound,
        }
    }
}

fn bind_first_free(place: AcceptAddress, options: &SocketOptions) -> io::Result<TcpListener> {
    let (first, last) = place.ports.unwrap_or((ANY_FREE_PORT, ANY_FREE_PORT));
    let mut bound = bind_port(place.address, first, options);
    for port in (first..=last).skip(1) {
        match &bound {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => bound = bind_port(place.address, port, options),
            _ => break,
        }
    }
    bound
}

/// IPv6 and IPv4 on one port; IPv4 alone without IPv6 in the kernel.
fn bind_port(address: Option<IpAddr>, port: u16, options: &SocketOptions) -> io::Result<TcpListener> {
    let bind_to = |address: IpAddr| -> io::Result<TcpListener> {
        let address = SocketAddr::new(address, port);
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        if address.ip() == Ipv6Addr::UNSPECIFIED {
            socket.set_only_v6(false)?;
        }
        if port != ANY_FREE_PORT {
            // Without it, connections of an ended copy keep their port for a minute.
            socket.set_reuse_address(true)?;
        }
        prepare_socket(&socket, options)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(socket.into())
    };
    match address {
        Some(address) => bind_to(address),
        None => match bind_to(Ipv6Addr::UNSPECIFIED.into()) {
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => bind_to(Ipv4Addr::UNSPECIFIED.into()),
            bound => bound,
        },
    }
}

fn accept_until(
    stop: &AtomicBool,
    listener: &TcpListener,
    terms: &Arc<(StreamCredentials, SocketOptions)>,
    proven: &Sender<(StreamId, DataStream)>,
) {
    let pending = PendingConnections::new(PENDING_STREAMS_FROM_NETWORK_MAX);
    while !stop.load(Ordering::Relaxed) {
        let (socket, peer) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) => {
                pause_after(&error, listener);
                continue;
            }
        };
        if socket.set_nonblocking(false).is_err() {
            continue;
        }
        let Some(place) = pending.admit(&socket, peer.ip()) else { continue };
        let (terms, proven) = (Arc::clone(terms), proven.clone());
        // Without a thread, the peer has to connect again.
        let _ = std::thread::Builder::new().name("haul-greet".into()).spawn(move || {
            // Nobody waits if the copy took another path, or is over.
            if let Ok(stream) = prove(socket.into(), &terms.0, &terms.1)
                && place.prove().is_ok()
            {
                let _ = proven.send(stream);
            }
        });
    }
}

fn prove(
    socket: OwnedFd,
    credentials: &StreamCredentials,
    options: &SocketOptions,
) -> Result<(StreamId, DataStream), StreamError> {
    configure_connection(&socket, options)?;
    let (id, stream) = as_acceptor(socket, credentials)?;
    adapt_to_path(&*stream.socket, options);
    Ok((id, stream))
}

/// Waits for the next connection; for a moment after an error of accept, such as a lack of descriptors: the connection
/// is still pending, and a retry at once would burn a CPU.
pub fn pause_after(error: &io::Error, listener: &TcpListener) {
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
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::sync::mpsc::RecvTimeoutError;
    use std::time::Instant;

    use haul_proto::ids::{CopyId, PathId};
    use haul_proto::wire::handshake::CipherSuite;
    use haul_proto::wire::route::Route;

    use super::*;
    use crate::net::stream::connect::{ConnectError, ConnectTerms, ConnectedStreams};
    use crate::net::stream::connector::Connector;
    use crate::net::stream::{StreamIds, collect};

    fn terms(streams: u16) -> ConnectTerms {
        let (session, secret, suite) = (CopyId([1; 16]), [2; 32], CipherSuite::Aes128Gcm);
        let credentials = StreamCredentials { session, secret, suite, rekey_bytes: 1 << 30 };
        ConnectTerms {
            credentials,
            socket: SocketOptions::default(),
            streams,
            streams_max: streams,
            all_paths: false,
            ids: StreamIds::default(),
            timeout: Duration::from_secs(3),
        }
    }

    /// Strangers may have taken its place.
    #[test]
    fn a_connection_closed_before_authentication_is_retried() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let routes = [Route::to(listener.local_addr().unwrap().to_string())];
        let acceptor = std::thread::spawn(move || {
            (0..3).for_each(|_| drop(listener.accept().unwrap()));
            let (socket, _) = listener.accept().unwrap();
            as_acceptor(socket.into(), &terms(1).credentials).is_ok()
        });
        let (connector, arrivals) = Connector::new(&routes, &terms(1));
        connector.open(PathId(0)).unwrap();
        assert!(acceptor.join().unwrap() && arrivals.next(Duration::from_secs(5)).is_ok());
    }

    fn listening() -> (String, AcceptedStreams) {
        let (port, arrivals) =
            listen(AcceptAddress::default(), terms(1).credentials, SocketOptions::default()).unwrap();
        (format!("127.0.0.1:{port}"), arrivals)
    }

    fn connect(addresses: &[String], terms: &ConnectTerms) -> Result<ConnectedStreams, ConnectError> {
        let routes: Vec<_> = addresses.iter().map(Route::to).collect();
        crate::net::stream::connect::connect(&routes, terms)
    }

    /// The paths of the next streams.
    fn paths(arrivals: &AcceptedStreams, count: usize) -> Vec<u16> {
        let next = |_| Some(arrivals.next(Duration::from_secs(10)).ok()?.1.path().0);
        let mut paths: Vec<_> = (0..count).filter_map(next).collect();
        paths.sort_unstable();
        paths
    }

    #[test]
    fn many_streams_open_at_both_ends() {
        let (address, accepted) = listening();
        let connected = connect(std::slice::from_ref(&address), &terms(100)).unwrap();
        assert_eq!((connected.streams, &connected.to), (100, &address));
        assert_eq!(collect(&connected.arrivals, 100).len(), 100);
        assert_eq!(collect(&accepted, 100).len(), 100);
    }

    #[test]
    fn more_streams_can_be_had_later_at_most_as_many_at_a_time_as_agreed() {
        let (address, accepted) = listening();
        let connected = connect(&[address], &ConnectTerms { streams: 2, ..terms(9) }).unwrap();
        let (near, far) = (collect(&connected.arrivals, 2), collect(&accepted, 2));
        let ids = |arrivals: &AcceptedStreams, count: usize| {
            let next = |_| Some(arrivals.next(Duration::from_secs(10)).ok()?.0.0);
            let mut ids: Vec<u16> = (0..count).filter_map(next).collect();
            ids.sort_unstable();
            ids
        };
        connected.connector.make(3, PathId(0));
        assert_eq!((ids(&connected.arrivals, 3), ids(&accepted, 3)), ((2..5).collect(), (2..5).collect()));
        // Of others that are lost, too: no id comes twice.
        drop((near, far));
        connected.connector.make(500, PathId(0));
        assert_eq!((ids(&connected.arrivals, 9), ids(&accepted, 9)), ((5..14).collect(), (5..14).collect()));
        assert!(
            matches!(connected.arrivals.next(Duration::from_millis(100)), Err(RecvTimeoutError::Timeout)),
            "a stream too many"
        );
    }

    #[test]
    fn small_segments_limit_both_directions() {
        for (address, expected) in [("127.0.0.1:0", 1240), ("[::1]:0", 1220)] {
            let listener = TcpListener::bind(address).unwrap();
            let routes = [Route::to(listener.local_addr().unwrap().to_string())];
            let (connector, _arrivals) = Connector::new(&routes, &terms(1));
            for is_small in [false, true] {
                let near = connector.dial(PathId(0)).unwrap();
                let (far, _) = listener.accept().unwrap();
                for socket in [socket2::SockRef::from(&near), socket2::SockRef::from(&far)] {
                    // Timestamps take 12 bytes of each segment.
                    let mss = socket.tcp_mss().unwrap();
                    assert_eq!((expected - 12..=expected).contains(&mss), is_small, "{mss}");
                }
                connector.use_small_segments(PathId(0));
                connector.use_small_segments(PathId(7));
            }
        }
    }

    #[test]
    fn the_first_free_port_is_used_and_none_free_is_an_error() {
        let busy = TcpListener::bind("127.0.0.1:0").unwrap();
        let first = busy.local_addr().unwrap().port();
        let at = |last| {
            let place = AcceptAddress { address: Some(Ipv4Addr::LOCALHOST.into()), ports: Some((first, last)) };
            listen(place, terms(1).credentials, SocketOptions::default())
        };
        assert_eq!(at(first).err().unwrap().kind(), io::ErrorKind::AddrInUse);
        let (port, _arrivals) = at(first.saturating_add(20)).unwrap();
        assert!(port > first && TcpStream::connect(("127.0.0.1", port)).is_ok());
        assert!(TcpStream::connect(("127.0.0.2", port)).is_err(), "at one address only");
    }

    #[test]
    fn the_first_working_route_wins_even_after_a_merely_listening_one() {
        let (address, accepted) = listening();
        // It takes connections and says nothing.
        let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
        let nobody = "127.0.0.1:1".to_owned();
        let addresses = [stranger.local_addr().unwrap().to_string(), nobody, address.clone(), address.clone()];
        let began = Instant::now();
        let connected = connect(&addresses, &terms(2)).unwrap();
        assert!(connected.to == address && began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
        assert_eq!(paths(&accepted, 2), [2, 2]);
    }

    #[test]
    fn other_links_get_equally_many_streams_and_unknown_links_none() {
        let (address, accepted) = listening();
        let over = |link| Route { link, ..Route::to(&address) };
        let routes = [over(1), over(1), over(2), over(0), over(2), over(3)];
        let terms = ConnectTerms { all_paths: true, streams_max: 9, ..terms(2) };
        let _connected = crate::net::stream::connect::connect(&routes, &terms).unwrap();
        assert_eq!(paths(&accepted, 6), [0, 0, 2, 2, 5, 5]);
        assert!(
            matches!(accepted.next(Duration::from_millis(100)), Err(RecvTimeoutError::Timeout)),
            "a stream too many"
        );
    }

    #[test]
    fn listening_ends_once_streams_are_unwanted() {
        let (address, accepted) = listening();
        drop(accepted);
        let deadline = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(&address).is_ok() {
            assert!(Instant::now() < deadline, "the port is still open");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn strangers_are_not_accepted_and_delay_nobody() {
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
    fn a_crowd_of_idle_strangers_locks_nobody_out() {
        let (address, accepted) = listening();
        let silent: Vec<_> = (0..70).map(|_| TcpStream::connect(&address).unwrap()).collect();
        let connected = connect(&[address], &terms(4)).unwrap();
        assert_eq!(collect(&connected.arrivals, 4).len(), 4);
        assert_eq!(collect(&accepted, 4).len(), 4);
        drop(silent);
    }

    #[test]
    fn an_unacceptable_connection_burns_no_core() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _waiting = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let began = Instant::now();
        pause_after(&rustix::io::Errno::MFILE.into(), &listener);
        assert!(began.elapsed() >= POLL, "{:?}", began.elapsed());
    }

    #[test]
    fn an_unreachable_address_is_named_in_the_error() {
        let error = connect(&["127.0.0.1:1".into()], &terms(1)).err().unwrap();
        assert!(error.to_string().starts_with("127.0.0.1:1: "), "{error}");
    }
}
