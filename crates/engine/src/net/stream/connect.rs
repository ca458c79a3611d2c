//! The search for a path: the connecting end tries all known addresses, and the first authenticated stream wins.

use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use haul_proto::ids::PathId;
use haul_proto::wire::route::Route;

pub use super::connector::ConnectTerms;
use super::connector::{Connector, is_hang_up};
use super::socket::{bears_loss, names, round_trip_time};
use super::{AcceptedStreams, StreamError};

/// Delay of a path after a better one, unless that has failed before.
const HEAD_START: Duration = Duration::from_millis(100);
/// Upper limit of an attempt.
const ATTEMPT_MAX: Duration = Duration::from_secs(60);
/// Delay of other links after the first: short copies do not need them.
const OTHERS_AFTER: Duration = Duration::from_millis(250);
/// Smallest round-trip time of a long path.
const LONG_PATH: Duration = Duration::from_millis(5);
/// Initial streams on a long path, if not fixed; more on longer paths, where a stream carries less. Tuning from fewer
/// streams would take many round trips.
const STREAMS_ON_LONG_PATHS: u16 = 8;
/// The round-trip time for that number of streams.
const LONG_PATH_MS: u128 = 50;
/// Most initial streams, unless requested.
const STREAMS_AT_FIRST_MAX: u16 = 32;
/// Most initial streams with loss-tolerant congestion control.
const STREAMS_THAT_BEAR_LOSS_MAX: u16 = 16;

/// The streams after the first one is connected.
pub struct ConnectedStreams {
    /// Creates further streams.
    pub connector: Arc<Connector>,
    /// Delivers all streams.
    pub arrivals: AcceptedStreams,
    /// Initial number of streams on each link.
    pub streams: u16,
    /// Address and port of this end's first connection.
    pub from: String,
    /// Address and port of the other end.
    pub to: String,
}

/// The first stream of a path, authenticated.
struct FirstStream {
    path: PathId,
    streams: u16,
    from: String,
    to: String,
}

/// The errors of all routes to the other end.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// There is no route, or no result in time.
    #[error("no address is known")]
    NoAddress,
    /// All tried routes failed.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Routes(Vec<RouteError>),
}

/// The error of a route to the other end.
#[derive(Debug, thiserror::Error)]
#[error("{to}: {}", reason(.cause))]
pub struct RouteError {
    to: String,
    #[source]
    cause: StreamError,
}

/// Connects over the first of `routes` with an authenticated stream. Other streams follow in their own threads, some on
/// each other path; failed ones are skipped.
pub fn connect(routes: &[Route], terms: &ConnectTerms) -> Result<ConnectedStreams, ConnectError> {
    let (connector, arrivals) = Connector::new(routes, terms);
    let FirstStream { path, streams, from, to } = race(&connector)?;
    if path != FIRST {
        connector.make(streams.saturating_sub(1), path);
    }
    try_others(&connector, path, streams);
    Ok(ConnectedStreams { connector, arrivals, streams, from, to })
}

/// The presumably best path.
const FIRST: PathId = PathId(0);

/// Tries all routes, each a little later than the one before. Slower ones continue, and their streams are used like any
/// other.
fn race(connector: &Arc<Connector>) -> Result<FirstStream, ConnectError> {
    let (sender, results) = channel();
    let mut failures = Vec::new();
    let mut under_way = 0;
    let mut paths = (0..connector.routes().len()).filter_map(|at| u16::try_from(at).ok()).map(PathId);
    let mut next = paths.next();
    while under_way > 0 || next.is_some() {
        if let Some(path) = next {
            under_way += usize::from(start(connector, path, &sender));
            next = paths.next();
        }
        match results.recv_timeout(if next.is_some() { HEAD_START } else { ATTEMPT_MAX }) {
            Ok(Ok(up)) => return Ok(up),
            Ok(Err(failure)) => {
                failures.push(failure);
                under_way -= 1;
            }
            Err(_) if next.is_none() => break,
            Err(_) => {}
        }
    }
    Err(if failures.is_empty() { ConnectError::NoAddress } else { ConnectError::Routes(failures) })
}

/// Tries a route in a thread. Returns whether it exists.
fn start(connector: &Arc<Connector>, path: PathId, sender: &Sender<Result<FirstStream, RouteError>>) -> bool {
    let (connector, sender) = (Arc::clone(connector), sender.clone());
    let spawned = std::thread::Builder::new().name("haul-connect".into()).spawn(move || {
        let to = connector.routes().get(usize::from(path.0)).map(|route| route.to.clone()).unwrap_or_default();
        let tried = first_stream(&connector, path);
        // Nobody waits if another one has won.
        let _ = sender.send(tried.map_err(|cause| RouteError { to, cause }));
    });
    spawned.is_ok()
}

fn first_stream(connector: &Arc<Connector>, path: PathId) -> Result<FirstStream, StreamError> {
    let socket = connector.dial(path)?;
    let (from, to) = names(&socket);
    let streams = streams_at_first(&socket, connector.terms());
    if path == FIRST {
        // The others do not wait for the first one's authentication, which takes round trips.
        connector.make(streams.saturating_sub(1), path);
    }
    match connector.prove(socket, path) {
        Err(error) if is_hang_up(&error) => connector.open(path)?,
        proven => proven?,
    }
    Ok(FirstStream { path, streams, from, to })
}

/// Creates as many streams on each other known path: at once if all are to be used, else once the copy takes longer
/// than a moment.
fn try_others(connector: &Arc<Connector>, first: PathId, streams: u16) {
    let routes = connector.routes();
    let mut links = HashSet::from([0]);
    links.extend(routes.get(usize::from(first.0)).map(|route| route.link));
    let others: Vec<_> =
        (0..).zip(routes).filter(|(_, route)| links.insert(route.link)).map(|(at, _)| PathId(at)).collect();
    if others.is_empty() {
        return;
    }
    let pause = if connector.terms().all_paths { Duration::ZERO } else { OTHERS_AFTER };
    let connector = Arc::clone(connector);
    // Without a thread, the first path is the only one.
    let _ = std::thread::Builder::new().name("haul-connect".into()).spawn(move || {
        std::thread::sleep(pause);
        others.into_iter().for_each(|path| connector.make(streams, path));
    });
}

fn streams_at_first(socket: &OwnedFd, terms: &ConnectTerms) -> u16 {
    let streams = match round_trip_time(socket) {
        Some(time) if terms.streams_max > terms.streams => terms.streams.max(streams_for(time, bears_loss(socket))),
        _ => terms.streams,
    };
    streams.min(terms.streams_max)
}

/// Initial number of streams for this round-trip time; fewer with loss-tolerant congestion control.
fn streams_for(round_trip: Duration, bears_loss: bool) -> u16 {
    if round_trip < LONG_PATH {
        return 1;
    }
    let times = u16::try_from(round_trip.as_millis() / LONG_PATH_MS).unwrap_or(u16::MAX);
    let most = if bears_loss { STREAMS_THAT_BEAR_LOSS_MAX } else { STREAMS_AT_FIRST_MAX };
    STREAMS_ON_LONG_PATHS.saturating_mul(times.max(1)).min(most)
}

fn reason(error: &StreamError) -> String {
    match error {
        StreamError::Io(error) if error.kind() == io::ErrorKind::TimedOut => "no answer in time".into(),
        StreamError::Io(error) if error.kind() == io::ErrorKind::WouldBlock => "no answer in time".into(),
        StreamError::Io(error) => {
            haul_base::sys::describe::describe(error).lines().next().unwrap_or_default().to_owned()
        }
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
