//! A server: listens, and gives each client a thread ([`super::session`]) until it is to end.

use haul_proto::limits::PENDING_CLIENTS_FROM_NETWORK_MAX;
use haul_proto::path::escape;
use rustls::ServerConfig;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use super::session::{ClientCounts, ServeSessions, serve};
use super::strangers::UnauthenticatedClients;
use super::tls;
use crate::job::account::WorkAccount;
use crate::job::allowance::Allowances;
use crate::job::credentials::{KnownClient, PrivateKey, PublicKey};
use crate::job::spec::WorkerProgram;
use crate::net::stream::accept::{AcceptAddress, bind, pause_after};
use crate::net::stream::preauth::{CROWDED_OUT, PendingConnections};
use crate::net::stream::socket::SocketSettings;
use crate::policy::audit::AuditDestination;
use crate::sys::sync::lock;
use crate::worker::client_limits::{ServePolicy, ServedAccess};

/// How often it is looked whether the clients have ended.
const POLL: Duration = Duration::from_millis(20);
/// How long workers that are ended may take.
const END: Duration = Duration::from_secs(12);

/// A directory that is served.
#[derive(Debug, Clone)]
pub struct ServedDirectory {
    /// Its name; empty where it is the only one.
    pub name: String,
    /// Where it is: an absolute path.
    pub path: PathBuf,
    /// What may be done with it.
    pub access: ServedAccess,
    /// Each of these opens it.
    pub credentials: Vec<ServedCredential>,
    /// Most clients in it at a time; `None`: as many as the server takes.
    pub clients_max: Option<usize>,
    /// At most so many bytes a second from and to each of its clients; `None`: what the server says.
    pub rate: Option<u64>,
    /// At most so many bytes of files from all clients; `None` for no limit.
    pub size: Option<u64>,
    /// At most so many files, directories and links from all clients; `None`: what follows from the bytes.
    pub files: Option<u64>,
    /// What its clients may ask for.
    pub policy: ServePolicy,
}

/// A secret or key that opens a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedCredential {
    /// What is known of it.
    pub known: KnownClient,
    /// When it stops being valid; `None`: never.
    pub expires: Option<SystemTime>,
}

impl ServedCredential {
    /// One that does not expire.
    pub fn lasting(known: KnownClient) -> Self {
        Self { known, expires: None }
    }

    fn is_valid(&self, now: SystemTime) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }
}

impl ServedDirectory {
    /// What opens it now.
    pub(super) fn valid(&self, now: SystemTime) -> impl Iterator<Item = &KnownClient> {
        self.credentials.iter().filter(move |credential| credential.is_valid(now)).map(|credential| &credential.known)
    }

    /// Whether that opens it now.
    pub(super) fn opens_to(&self, known: &KnownClient, now: SystemTime) -> bool {
        self.valid(now).any(|valid| valid == known)
    }
}

/// What of an offer changes when it is read again.
#[derive(Debug, Clone)]
pub struct ReloadedOffer {
    /// Where files are, and what opens that.
    pub directories: Vec<ServedDirectory>,
    /// The server's own key.
    pub key: Option<PrivateKey>,
}

/// What a server offers, and to how many.
#[derive(Debug, Clone)]
pub struct ServeOffer {
    /// Where files are.
    pub directories: Vec<ServedDirectory>,
    /// What it proves itself with to clients that have keys.
    pub key: Option<PrivateKey>,
    /// Most clients at a time.
    pub clients_max: usize,
    /// At most so many bytes a second from and to each of them; `None` for no limit.
    pub rate: Option<u64>,
    /// Nobody is served where the kernel cannot hold a worker to its directory.
    pub sandboxed: bool,
    /// Clients may be told hashes of blocks of the files that their own replace.
    pub deltas: bool,
    /// An audit log besides those that the host's policy asks for.
    pub audit: Option<AuditDestination>,
    /// Where data is taken; `None`: at any address.
    pub address: Option<IpAddr>,
    /// The ports for data, the first and the last; `None`: any that the system chooses.
    pub data_ports: Option<(u16, u16)>,
    /// What workers are started from.
    pub program: WorkerProgram,
}

/// When a server ends.
#[derive(Debug, Clone, Copy)]
pub struct ServeUntil {
    /// After the first copy that came to its end.
    pub once: bool,
    /// Taking no more clients from then on.
    pub deadline: Option<Instant>,
    /// How long copies that run may still take when it is told to stop.
    pub grace: Duration,
}

/// What a server tells of itself.
#[derive(Debug, Clone)]
pub enum ServeEvent {
    /// A client has proven itself.
    Began {
        /// Where it is.
        peer: SocketAddr,
        /// The directory that it wants.
        directory: String,
        /// The key that it has proven, where it has one.
        key: Option<PublicKey>,
    },
    /// One connected who did not prove itself.
    Stranger {
        /// Where it is.
        peer: SocketAddr,
        /// Why it was not let in.
        why: String,
        /// How many there were before it, since the last that was told of.
        others: u64,
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
        /// What its worker says, if it could still say so.
        account: WorkAccount,
        /// The copy came to its end.
        whole: bool,
        /// How long it was there.
        took: Duration,
    },
}

/// Who hears of it.
pub type ServeObserver = dyn Fn(&ServeEvent) + Send + Sync;

/// What all clients' threads share.
pub(super) struct ServeShared {
    offer: Mutex<Arc<ServeOffer>>,
    /// Those that have proven themselves and have a worker.
    pub sessions: ServeSessions,
    pub config: Arc<ServerConfig>,
    pending: Arc<PendingConnections>,
    /// Those that have proven themselves.
    pub clients: ClientCounts,
    /// What they may still bring.
    pub allowances: Allowances,
    /// Those that have not.
    pub strangers: UnauthenticatedClients,
    /// A copy came to its end.
    pub copied: AtomicBool,
    /// All workers are to end now.
    pub hang_up: AtomicBool,
    log: Box<ServeObserver>,
}

impl ServeShared {
    pub fn log(&self, served: &ServeEvent) {
        (self.log)(served);
    }

    /// What is offered now.
    pub fn offer(&self) -> Arc<ServeOffer> {
        Arc::clone(&lock(&self.offer))
    }

    /// Offers something else to new clients, and ends the sessions of those that are not let in any more.
    fn reload(&self, ReloadedOffer { directories, key }: ReloadedOffer) {
        let mut offer = lock(&self.offer);
        *offer = Arc::new(ServeOffer { directories, key, ..ServeOffer::clone(&offer) });
    }

    /// Ends the sessions whose key or secret is not valid any more.
    fn end_invalid(&self) {
        self.sessions.end_invalid(&self.offer(), SystemTime::now());
    }

    /// One who goes away, or proves nothing, is nobody's loss.
    fn stranger(&self, peer: SocketAddr, error: &io::Error) {
        if let Some(others) = self.strangers.one_more(Instant::now()) {
            let why = match error.kind() {
                io::ErrorKind::UnexpectedEof => "it hung up".into(),
                io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => "it took too long".into(),
                _ => escape(error.to_string().as_bytes()),
            };
            self.log(&ServeEvent::Stranger { peer, why, others });
        }
    }
}

/// A server that listens.
pub struct ServeListener {
    listener: TcpListener,
    shared: Arc<ServeShared>,
}

impl ServeListener {
    /// Begins to listen on the first free one of `ports`, or on one that the system chooses.
    pub fn bind(ports: Option<(u16, u16)>, offer: ServeOffer, log: Box<ServeObserver>) -> io::Result<Self> {
        let listener = bind(AcceptAddress { address: offer.address, ports }, &SocketSettings::default())?;
        listener.set_nonblocking(true)?;
        let shared = ServeShared {
            offer: Mutex::new(Arc::new(offer)),
            sessions: ServeSessions::default(),
            config: tls::server()?,
            pending: PendingConnections::new(PENDING_CLIENTS_FROM_NETWORK_MAX),
            clients: ClientCounts::default(),
            allowances: Allowances::default(),
            strangers: UnauthenticatedClients::default(),
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

    /// Serves until it is to end, or `stop` is set: then copies that run have [`ServeUntil::grace`]. Whether a copy came to its
    /// end. `reload` is asked all the time whether there is something else to be offered from now on.
    pub fn run(self, until: ServeUntil, stop: &AtomicBool, mut reload: impl FnMut() -> Option<ReloadedOffer>) -> bool {
        let Self { listener, shared } = self;
        let is_over = || {
            let (once, late) = (until.once && shared.copied.load(Ordering::SeqCst), until.deadline);
            stop.load(Ordering::SeqCst) || once || late.is_some_and(|deadline| Instant::now() >= deadline)
        };
        while !is_over() {
            if let Some(reloaded) = reload() {
                shared.reload(reloaded);
            }
            shared.end_invalid();
            match listener.accept() {
                Ok((socket, peer)) => take(&shared, socket, peer),
                Err(error) => pause_after(&error, &listener),
            }
        }
        drop(listener);
        let none_left = || {
            shared.end_invalid();
            shared.clients.are_none()
        };
        wait_until(|| none_left() || stop.load(Ordering::SeqCst), None);
        wait_until(none_left, Some(until.grace));
        shared.hang_up.store(true, Ordering::SeqCst);
        wait_until(none_left, Some(END));
        shared.copied.load(Ordering::SeqCst)
    }
}

/// Gives a connection a thread and a place among those that have not proven themselves.
fn take(shared: &Arc<ServeShared>, socket: TcpStream, peer: SocketAddr) {
    let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
    let place = socket.set_nonblocking(false).ok().and_then(|()| shared.pending.admit(&socket, peer.ip()));
    let Some(place) = place else { return };
    let shared = Arc::clone(shared);
    // Where no thread can be had, whoever has connected tries again.
    let _ = thread::Builder::new().name("haul-client".into()).spawn(move || {
        if let Err(error) = serve(&shared, &socket, peer, &place) {
            let is_lost = place.is_lost();
            shared.stranger(peer, &if is_lost { io::Error::other(CROWDED_OUT) } else { error });
        }
    });
}

fn wait_until(holds: impl Fn() -> bool, limit: Option<Duration>) {
    let began = Instant::now();
    while !holds() && limit.is_none_or(|limit| began.elapsed() < limit) {
        thread::sleep(POLL);
    }
}
