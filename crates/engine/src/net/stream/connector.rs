//! Creates data connections over the known paths, each in a thread.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haul_base::sys::random::jitter;
use haul_base::sys::sync::lock;
use haul_proto::ids::{PathId, StreamId};
use haul_proto::wire::request::SocketOptions;
use haul_proto::wire::route::Route;
use socket2::{Domain, SockAddr, Socket, Type};

use super::handshake::{StreamCredentials, as_connector};
use super::socket::{adapt_to_path, configure_connection, limit_segments, prepare_socket};
use super::{AcceptedStreams, DataStream, StreamError, StreamIds};

/// Most connections in progress: fewer than an acceptor admits before authentication.
const AT_A_TIME: u16 = 32;

/// Pauses before retries of a closed connection: the first, and the longest. Each is twice the one before.
const RETRY_AFTER: Duration = Duration::from_millis(50);
const RETRY_AFTER_MAX: Duration = Duration::from_millis(800);

/// The terms of connections.
#[derive(Clone)]
pub struct ConnectTerms {
    /// Their credentials.
    pub credentials: StreamCredentials,
    /// Their socket options.
    pub socket: SocketOptions,
    /// Initial number.
    pub streams: u16,
    /// Most streams on a path.
    pub streams_max: u16,
    /// Whether all paths stay in use.
    pub all_paths: bool,
    /// The source of their ids.
    pub ids: StreamIds,
    /// Time limit of a connection.
    pub timeout: Duration,
}

/// Makes connections.
pub struct Connector {
    routes: Vec<Route>,
    terms: ConnectTerms,
    proven: Mutex<Sender<(StreamId, DataStream)>>,
    making: Mutex<PendingConnects>,
    unwanted: Arc<AtomicBool>,
}

/// Pending connections, and their threads.
#[derive(Default)]
struct PendingConnects {
    left: BTreeMap<u16, u16>,
    /// Paths that lose large packets.
    small_segments: BTreeSet<PathId>,
    threads: u16,
}

impl Connector {
    /// A connector for these routes, and the queue of its streams.
    pub fn new(routes: &[Route], terms: &ConnectTerms) -> (Arc<Self>, AcceptedStreams) {
        let (sender, proven) = channel();
        let unwanted = Arc::new(AtomicBool::new(false));
        let arrivals = AcceptedStreams { proven, unwanted: Arc::clone(&unwanted) };
        let (routes, terms, making) = (routes.to_vec(), terms.clone(), Mutex::default());
        (Arc::new(Self { routes, terms, proven: Mutex::new(sender), making, unwanted }), arrivals)
    }

    /// The possible paths, and their state.
    pub fn routes(&self) -> &[Route] {
        &self.routes
    }

    /// The terms of connections.
    pub fn terms(&self) -> &ConnectTerms {
        &self.terms
    }

    /// Creates this many further streams over a path, each in a thread. Failed ones are skipped.
    pub fn make(self: &Arc<Self>, count: u16, path: PathId) {
        if self.routes.get(usize::from(path.0)).is_none() {
            return;
        }
        let mut making = lock(&self.making);
        let left = making.left.entry(path.0).or_default();
        *left = left.saturating_add(count).min(self.terms.streams_max);
        for _ in 0..making.left.values().sum::<u16>().min(AT_A_TIME.saturating_sub(making.threads)) {
            let connector = Arc::clone(self);
            // Without a thread, the other streams do its work.
            let spawned = std::thread::Builder::new().name("haul-connect".into()).spawn(move || {
                while let Some(path) = connector.next_path() {
                    // Without it, the other streams do its work.
                    let _ = connector.open(path);
                }
            });
            making.threads += u16::from(spawned.is_ok());
        }
    }

    /// Opens later streams over a path with small segments.
    pub fn use_small_segments(&self, path: PathId) {
        if self.routes.get(usize::from(path.0)).is_some() {
            lock(&self.making).small_segments.insert(path);
        }
    }

    /// The path of the next stream; `None` ends a thread.
    fn next_path(&self) -> Option<PathId> {
        let mut making = lock(&self.making);
        let is_wanted = !self.unwanted.load(Ordering::Relaxed);
        let next = making.left.iter_mut().find(|(_, left)| is_wanted && **left > 0).map(|(path, left)| {
            *left -= 1;
            PathId(*path)
        });
        making.threads -= u16::from(next.is_none());
        next
    }

    /// Creates a stream over a path. Retries a connection that the acceptor closed before authentication: it may have
    /// lost its place to others ([`super::preauth`]).
    pub fn open(&self, path: PathId) -> Result<(), StreamError> {
        let mut pause = RETRY_AFTER;
        loop {
            let made = self.dial(path).map_err(StreamError::from).and_then(|socket| self.prove(socket, path));
            match made {
                Err(error)
                    if is_hang_up(&error) && pause <= RETRY_AFTER_MAX && !self.unwanted.load(Ordering::Relaxed) =>
                {
                    std::thread::sleep(pause.mul_f64(0.5 + jitter()));
                    pause *= 2;
                }
                made => return made,
            }
        }
    }

    /// Connects over a path.
    pub fn dial(&self, path: PathId) -> io::Result<OwnedFd> {
        let route = self.routes.get(usize::from(path.0)).ok_or(io::ErrorKind::NotFound)?;
        let to = route.to.to_socket_addrs()?.next().ok_or(io::ErrorKind::NotFound)?;
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
        prepare_socket(&socket, &self.terms.socket)?;
        if lock(&self.making).small_segments.contains(&path) {
            limit_segments(&socket, to.is_ipv6())?;
        }
        if !route.interface.is_empty() {
            // Kernels before 5.7 permit that only to root. There, the interface's address suffices.
            let _ = socket.bind_device(Some(route.interface.as_bytes()));
        }
        if let Some(from) = route.from {
            socket.bind(&SocketAddr::new(from, 0).into())?;
        }
        socket.connect_timeout(&SockAddr::from(to), self.terms.timeout)?;
        configure_connection(&socket, &self.terms.socket)?;
        adapt_to_path(&socket, &self.terms.socket);
        Ok(socket.into())
    }

    /// Authenticates a connection, and passes it on. A copy on another path, or an ended one, ignores it.
    pub fn prove(&self, socket: OwnedFd, path: PathId) -> Result<(), StreamError> {
        let id = self.terms.ids.next().ok_or_else(|| io::Error::from(io::ErrorKind::AddrNotAvailable))?;
        let stream = as_connector(socket, &self.terms.credentials, id, path)?;
        let _ = lock(&self.proven).send((id, stream));
        Ok(())
    }
}

/// Whether the other end closed the connection, without a protocol error.
pub fn is_hang_up(error: &StreamError) -> bool {
    let StreamError::Io(error) = error else { return false };
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}
