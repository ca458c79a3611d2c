//! A server: listens, and gives each client a thread ([`super::session`]) until it is to end.

use haul_proto::wire::limits::PENDING_CONNECTIONS_MAX;
use rustls::ServerConfig;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::session::{Held, serve};
use super::{Access, Did, Secret, tls};
use crate::spec::Program;
use crate::stream::accept::{Place, bind, pause_after};
use crate::stream::socket::SocketSettings;

/// How often it is looked whether the clients have ended.
const POLL: Duration = Duration::from_millis(20);
/// How long workers that are ended may take.
const END: Duration = Duration::from_secs(12);

/// A directory that is served.
#[derive(Debug, Clone)]
pub struct Directory {
    /// Its name; empty where it is the only one.
    pub name: String,
    /// Where it is: an absolute path.
    pub path: PathBuf,
    /// What may be done with it.
    pub access: Access,
    /// Each of these opens it.
    pub secrets: Vec<Secret>,
}

/// What a server offers, and to how many.
#[derive(Debug, Clone)]
pub struct Offer {
    /// Where files are.
    pub directories: Vec<Directory>,
    /// Most clients at a time.
    pub clients_max: usize,
    /// At most so many bytes a second to each of them; `None` for no limit.
    pub rate: Option<u64>,
    /// The ports for data, the first and the last; `None`: any that the system chooses.
    pub data_ports: Option<(u16, u16)>,
    /// What workers are started from.
    pub program: Program,
}

/// When a server ends.
#[derive(Debug, Clone, Copy)]
pub struct Until {
    /// After the first copy that came to its end.
    pub once: bool,
    /// Taking no more clients from then on.
    pub deadline: Option<Instant>,
    /// How long copies that run may still take when it is told to stop.
    pub grace: Duration,
}

/// What a server tells of itself.
#[derive(Debug, Clone)]
pub enum Served {
    /// A client has proven itself.
    Began {
        /// Where it is.
        peer: SocketAddr,
        /// The directory that it wants.
        directory: String,
    },
    /// It proved itself, and was turned away.
    Refused {
        /// Where it is.
        peer: SocketAddr,
        /// The directory that it wanted.
        directory: String,
        /// What it was told.
        why: String,
    },
    /// It is gone.
    Ended {
        /// Where it was.
        peer: SocketAddr,
        /// The directory that it had.
        directory: String,
        /// What its worker has done, if that could still say so.
        did: Option<Did>,
        /// The copy came to its end.
        whole: bool,
        /// How long it was there.
        took: Duration,
    },
}

/// Who hears of it.
pub type Log = dyn Fn(&Served) + Send + Sync;

/// What all clients' threads share.
pub(super) struct Shared {
    pub offer: Offer,
    pub config: Arc<ServerConfig>,
    pending: AtomicUsize,
    /// Those that have proven themselves.
    pub clients: AtomicUsize,
    /// A copy came to its end.
    pub copied: AtomicBool,
    /// All workers are to end now.
    pub hang_up: AtomicBool,
    log: Box<Log>,
}

impl Shared {
    pub fn log(&self, served: &Served) {
        (self.log)(served);
    }
}

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    shared: Arc<Shared>,
}

impl Server {
    /// Begins to listen: at `address` only, if there is one, on the first free one of `ports`, or on one that the system
    /// chooses.
    pub fn bind(address: Option<IpAddr>, ports: Option<(u16, u16)>, offer: Offer, log: Box<Log>) -> io::Result<Self> {
        let listener = bind(Place { address, ports }, &SocketSettings::default())?;
        listener.set_nonblocking(true)?;
        let shared = Shared {
            offer,
            config: tls::server()?,
            pending: AtomicUsize::default(),
            clients: AtomicUsize::default(),
            copied: AtomicBool::default(),
            hang_up: AtomicBool::default(),
            log,
        };
        Ok(Self { listener, shared: Arc::new(shared) })
    }

    /// Where it listens.
    pub fn port(&self) -> io::Result<u16> {
        Ok(self.listener.local_addr()?.port())
    }

    /// Serves until it is to end, or `stop` is set: then copies that run have [`Until::grace`]. Whether a copy came to its
    /// end.
    pub fn run(self, until: Until, stop: &AtomicBool) -> bool {
        let Self { listener, shared } = self;
        let is_over = || {
            let (once, late) = (until.once && shared.copied.load(Ordering::SeqCst), until.deadline);
            stop.load(Ordering::SeqCst) || once || late.is_some_and(|deadline| Instant::now() >= deadline)
        };
        while !is_over() {
            match listener.accept() {
                Ok((socket, _)) => take(&shared, socket),
                Err(error) => pause_after(&error, &listener),
            }
        }
        drop(listener);
        let none_left = || shared.clients.load(Ordering::SeqCst) == 0;
        wait_until(|| none_left() || stop.load(Ordering::SeqCst), None);
        wait_until(none_left, Some(until.grace));
        shared.hang_up.store(true, Ordering::SeqCst);
        wait_until(none_left, Some(END));
        shared.copied.load(Ordering::SeqCst)
    }
}

/// Gives a connection a thread, unless too many have not proven themselves.
fn take(shared: &Arc<Shared>, socket: TcpStream) {
    let shared = Arc::clone(shared);
    // Where no thread can be had, whoever has connected tries again.
    let _ = thread::Builder::new().name("haul-client".into()).spawn(move || {
        let Some(pending) = Held::take(&shared.pending, PENDING_CONNECTIONS_MAX) else { return };
        // One who goes away, or proves nothing, is nobody's loss.
        let _ = socket.set_nonblocking(false).and_then(|()| serve(&shared, &socket, pending));
    });
}

fn wait_until(holds: impl Fn() -> bool, limit: Option<Duration>) {
    let began = Instant::now();
    while !holds() && limit.is_none_or(|limit| began.elapsed() < limit) {
        thread::sleep(POLL);
    }
}
