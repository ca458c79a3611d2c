//! A server: listens, and runs a thread ([`super::session`]) for each client until it is stopped.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};
use std::{io, thread};

use haul_base::copy::allowance::Allowances;
use haul_base::sys::sync::lock;
use haul_engine::accept::{AcceptAddress, bind, pause_after};
use haul_engine::preauth::{CROWDED_OUT, PendingConnections};
use haul_proto::limits::PENDING_CLIENTS_FROM_NETWORK_MAX;
use haul_proto::path::escape;
use haul_proto::wire::request::SocketOptions;

use super::session::{ClientCounts, ServeSessions, serve};
use super::tls;
use crate::session::ServeShared;
use crate::unauthenticated::UnauthenticatedClients;
use crate::{ReloadedOffer, ServeEvent, ServeObserver, ServeOffer};

/// How often the end of the clients is checked.
const POLL: Duration = Duration::from_millis(20);
/// How long workers may take to exit at a stop.
const END: Duration = Duration::from_secs(12);

/// Conditions for the end of a server.
#[derive(Debug, Clone, Copy)]
pub struct ServeUntil {
    /// Stop after the first complete copy.
    pub once: bool,
    /// Time after which no clients are accepted.
    pub deadline: Option<Instant>,
    /// How long running copies may continue after a stop request.
    pub grace: Duration,
}

impl ServeShared {
    pub fn log(&self, served: &ServeEvent) {
        (self.log)(served);
    }

    /// Returns the current offer.
    pub fn offer(&self) -> Arc<ServeOffer> {
        Arc::clone(&lock(&self.offer))
    }

    /// Replaces the offer for new clients, and ends the sessions of clients that it no longer admits.
    fn reload(&self, ReloadedOffer { directories, key }: ReloadedOffer) {
        let mut offer = lock(&self.offer);
        *offer = Arc::new(ServeOffer { directories, key, ..ServeOffer::clone(&offer) });
    }

    /// Ends the sessions whose key or secret is no longer valid.
    fn end_invalid(&self) {
        self.sessions.end_invalid(&self.offer(), SystemTime::now());
    }

    /// Reports an unauthenticated peer; one that just disconnects is ignored.
    fn stranger(&self, peer: SocketAddr, error: &io::Error) {
        if let Some(others) = self.strangers.one_more(Instant::now()) {
            let why = match error.kind() {
                io::ErrorKind::UnexpectedEof => "connection closed".into(),
                io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => "timed out".into(),
                _ => escape(error.to_string().as_bytes()),
            };
            self.log(&ServeEvent::Stranger { peer, why, others });
        }
    }
}

/// A listening server.
pub struct ServeListener {
    listener: TcpListener,
    shared: Arc<ServeShared>,
}

impl ServeListener {
    /// Listens on the first free port of `ports`, or on one that the system chooses. The error says which port cannot be
    /// had, for users.
    pub fn bind(ports: Option<(u16, u16)>, offer: ServeOffer, log: Box<ServeObserver>) -> io::Result<Self> {
        let place = AcceptAddress { address: offer.address, ports };
        let listener = bind(place, &SocketOptions::default())
            .map_err(|error| io::Error::new(error.kind(), place.describe_failure(&error)))?;
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
            is_pipe_used: AtomicBool::default(),
            hang_up: AtomicBool::default(),
            log,
        };
        Ok(Self { listener, shared: Arc::new(shared) })
    }

    /// Returns the port.
    pub fn port(&self) -> io::Result<u16> {
        Ok(self.listener.local_addr()?.port())
    }

    /// Serves until its end, or until `stop` is set: then running copies have [`ServeUntil::grace`]. Returns whether a
    /// copy completed. Polls `reload` for a changed offer.
    pub fn run(self, until: ServeUntil, stop: &AtomicBool, mut reload: impl FnMut() -> Option<ReloadedOffer>) -> bool {
        let Self { listener, shared } = self;
        let is_over = || {
            let once = until.once && shared.copied.load(Ordering::SeqCst) || shared.is_pipe_used.load(Ordering::SeqCst);
            let late = until.deadline;
            stop.load(Ordering::SeqCst) || once || late.is_some_and(|deadline| Instant::now() >= deadline)
        };
        while !is_over() {
            if let Some(reloaded) = reload() {
                shared.reload(reloaded);
            }
            shared.end_invalid();
            match listener.accept() {
                Ok((socket, peer)) => accept_client(&shared, socket, peer),
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

/// Gives a connection a thread and a slot among the unauthenticated peers.
fn accept_client(shared: &Arc<ServeShared>, socket: TcpStream, peer: SocketAddr) {
    let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
    let place = socket.set_nonblocking(false).ok().and_then(|()| shared.pending.admit(&socket, peer.ip()));
    let Some(place) = place else { return };
    let shared = Arc::clone(shared);
    // Without a free thread the connection is dropped, and the client retries.
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
