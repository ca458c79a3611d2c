//! Making the data connections: the end that connects.

use haul_proto::ids::StreamId;
use socket2::{Domain, SockAddr, Socket, Type};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::handshake::{Credentials, as_connector};
use super::socket::{SocketSettings, bears_loss, round_trip_time};
use super::{Arrivals, Stream, StreamError};
use crate::worker::lock;

/// Connections that are made at a time: fewer than an acceptor takes before they are proven.
const AT_A_TIME: u16 = 32;
/// From this round-trip time on, a path is long.
const LONG_PATH: Duration = Duration::from_millis(5);
/// A job that may choose begins with this many streams on a long path, and with more where a stream carries less, since
/// what it has under way is confirmed later: what it would learn from beginning with fewer costs many round trips.
const STREAMS_ON_LONG_PATHS: u16 = 8;
/// The round-trip time for which that many are right.
const LONG_PATH_MS: u128 = 50;
/// Most streams to begin with, unless they were asked for.
const STREAMS_AT_FIRST_MAX: u16 = 32;
/// The same, where each bears losses.
const STREAMS_THAT_BEAR_LOSS_MAX: u16 = 16;

/// What connections are made with.
#[derive(Clone)]
pub struct Terms {
    /// What they prove.
    pub credentials: Credentials,
    /// How their sockets are set up.
    pub sockets: SocketSettings,
    /// How many there are at first.
    pub streams: u16,
    /// How many there may be.
    pub streams_max: u16,
    /// How long one may take to be made.
    pub timeout: Duration,
}

/// Makes connections to the address that accepted the first one.
pub struct Connector {
    address: SocketAddr,
    terms: Terms,
    proven: Mutex<Sender<(StreamId, Stream)>>,
    making: Mutex<Making>,
    unwanted: Arc<AtomicBool>,
}

/// Connections that are still to be made, and the threads that make them.
struct Making {
    left: u16,
    threads: u16,
    /// The next stream's id. None is used twice, also not where no stream came of it: the other end may know it.
    next: u32,
}

/// The first stream is up, and the others come.
pub struct Connected {
    /// Makes more of them.
    pub connector: Arc<Connector>,
    /// Brings all of them.
    pub arrivals: Arrivals,
    /// How many are made at first.
    pub streams: u16,
    /// Address and port of this end's first connection.
    pub from: String,
    /// Address and port that it connected to.
    pub to: String,
}

/// Connects to the first of `addresses` that accepts stream 0 and proves itself. The other streams follow by
/// themselves; one of them that cannot be made is done without. The error says what happened at each address.
pub fn connect(addresses: &[String], terms: &Terms) -> Result<Connected, String> {
    let mut failures = Vec::new();
    for address in addresses {
        match connect_to(address, terms) {
            Ok(connected) => return Ok(connected),
            Err(error) => failures.push(format!("{address}: {}", reason(&error))),
        }
    }
    Err(if failures.is_empty() { "no address is known".into() } else { failures.join("; ") })
}

fn connect_to(address: &str, terms: &Terms) -> Result<Connected, StreamError> {
    let address = address.to_socket_addrs()?.next().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    let first = socket(address, terms)?;
    let from = local_name(&first);
    let streams = match round_trip_time(&first) {
        Some(time) if terms.streams_max > terms.streams => terms.streams.max(streams_for(time, bears_loss(&first))),
        _ => terms.streams,
    };
    let streams = streams.min(terms.streams_max);
    let (sender, proven) = channel();
    let unwanted = Arc::new(AtomicBool::new(false));
    let arrivals = Arrivals { proven, unwanted: Arc::clone(&unwanted) };
    let (terms, proven) = (terms.clone(), Mutex::new(sender));
    let making = Mutex::new(Making { left: 0, threads: 0, next: 1 });
    let connector = Arc::new(Connector { address, terms, proven, making, unwanted });
    // The others do not wait for the first one to be proven: that takes round trips.
    connector.make(streams.saturating_sub(1));
    let stream = as_connector(first, &connector.terms.credentials, StreamId(0))?;
    connector.deliver(StreamId(0), stream);
    Ok(Connected { connector, arrivals, streams, from, to: address.to_string() })
}

/// How many streams a path with this round-trip time begins with, at least; fewer where each bears losses.
fn streams_for(round_trip: Duration, bears_loss: bool) -> u16 {
    if round_trip < LONG_PATH {
        return 1;
    }
    let times = u16::try_from(round_trip.as_millis() / LONG_PATH_MS).unwrap_or(u16::MAX);
    let most = if bears_loss { STREAMS_THAT_BEAR_LOSS_MAX } else { STREAMS_AT_FIRST_MAX };
    STREAMS_ON_LONG_PATHS.saturating_mul(times.max(1)).min(most)
}

impl Connector {
    /// Makes so many more streams, in threads of their own. One that cannot be made is done without.
    pub fn make(self: &Arc<Self>, count: u16) {
        let mut making = lock(&self.making);
        making.left = making.left.saturating_add(count).min(self.terms.streams_max);
        for _ in 0..making.left.min(AT_A_TIME.saturating_sub(making.threads)) {
            let connector = Arc::clone(self);
            // Without a thread there is no stream, and the others carry its work.
            let spawned = std::thread::Builder::new().name("haul-connect".into()).spawn(move || {
                while let Some(id) = connector.next_id() {
                    connector.make_one(id);
                }
            });
            making.threads += u16::from(spawned.is_ok());
        }
    }

    /// The next stream to be made; `None` ends a thread.
    fn next_id(&self) -> Option<StreamId> {
        let mut making = lock(&self.making);
        let id = u16::try_from(making.next).ok().filter(|_| making.left > 0 && !self.unwanted.load(Ordering::Relaxed));
        match id {
            Some(_) => (making.left, making.next) = (making.left - 1, making.next + 1),
            None => making.threads -= 1,
        }
        id.map(StreamId)
    }

    fn make_one(&self, id: StreamId) {
        let made = socket(self.address, &self.terms).map_err(StreamError::from);
        if let Ok(stream) = made.and_then(|socket| as_connector(socket, &self.terms.credentials, id)) {
            self.deliver(id, stream);
        }
    }

    /// A job that has taken another way, or is over, wants no stream any more.
    fn deliver(&self, id: StreamId, stream: Stream) {
        let _ = lock(&self.proven).send((id, stream));
    }
}

fn socket(address: SocketAddr, terms: &Terms) -> io::Result<OwnedFd> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    terms.sockets.prepare(&socket)?;
    socket.connect_timeout(&SockAddr::from(address), terms.timeout)?;
    terms.sockets.suit(&socket)?;
    terms.sockets.suit_path(&socket);
    Ok(socket.into())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_the_path_the_more_streams_it_begins_with() {
        let at_ms = |ms| [false, true].map(|bears_loss| streams_for(Duration::from_millis(ms), bears_loss));
        assert_eq!([0, 4, 5, 99].map(at_ms), [[1; 2], [1; 2], [8; 2], [8; 2]]);
        assert_eq!([100, 200, 10_000].map(at_ms), [[16, 16], [32, 16], [32, 16]]);
    }
}
