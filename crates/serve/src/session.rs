//! One client of a server: authenticates it, admits or refuses it, and connects it with its own worker.

use std::ffi::OsStr;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant, SystemTime};

use haul_base::copy::account::WorkAccount;
use haul_base::copy::allowance::{Allowance, Allowances};
use haul_base::copy::credentials::KnownClient;
use haul_base::copy::work_progress::WorkProgress;
use haul_base::sys::child::{SpawnedChild, spawn};
use haul_base::sys::inherited_fds::hand_over;
use haul_base::sys::sync::lock;
use haul_engine::preauth::{AddressPrefix, PendingConnections, PendingPlace};
use haul_engine::worker::client_limits::{ClientLimits, ServedPipe};
use haul_proto::limits::GREETING_DEADLINE_MS;
use haul_proto::wire::serve::UNPROVEN_MAX;
use rustls::{Connection, ServerConfig};

use super::relay::relay;
use super::tls;
use crate::ServeObserver;
use crate::auth::{answer, as_server};
use crate::offer::{OpenPlaces, ServeEvent, ServeOffer, ServedContent, ServedDirectory};
use crate::preauth_socket::PreauthSocket;
use crate::unauthenticated::UnauthenticatedClients;

/// How long the worker of a lost client may take to clean up.
const TIDY: Duration = Duration::from_secs(10);

/// State shared by all clients' threads.
pub(super) struct ServeShared {
    pub(super) offer: Mutex<Arc<ServeOffer>>,
    /// Sessions of authenticated clients with a worker.
    pub sessions: ServeSessions,
    pub config: Arc<ServerConfig>,
    pub(super) pending: Arc<PendingConnections>,
    /// Counts of authenticated clients.
    pub clients: ClientCounts,
    /// Remaining quotas of the clients.
    pub allowances: Allowances,
    /// Peers that have not authenticated.
    pub strangers: UnauthenticatedClients,
    /// Whether a copy completed.
    pub copied: AtomicBool,
    /// Whether a session used the server's standard input or output.
    pub is_pipe_used: AtomicBool,
    /// Whether all workers must end now.
    pub hang_up: AtomicBool,
    pub(super) log: Box<ServeObserver>,
}

/// The admitted clients.
#[derive(Default)]
pub(super) struct ClientCounts(Mutex<AdmittedPlaces>);

#[derive(Default)]
struct AdmittedPlaces {
    next: u64,
    taken: Vec<AdmittedPlace>,
}

struct AdmittedPlace {
    number: u64,
    directory: String,
    /// The network of a client without credentials.
    open_from: Option<AddressPrefix>,
}

/// One counted client, until this is dropped.
pub(super) struct AdmittedClient<'a> {
    limits: &'a ClientCounts,
    number: u64,
}

impl ClientCounts {
    pub(super) fn are_none(&self) -> bool {
        lock(&self.0).taken.is_empty()
    }

    /// Counts one more client in this directory, if the limits permit it.
    fn enter(
        &self,
        offer: &ServeOffer,
        directory: &ServedDirectory,
        known: &KnownClient,
        peer: IpAddr,
    ) -> Result<AdmittedClient<'_>, AdmissionRefusal> {
        let mut places = lock(&self.0);
        let is_here = |place: &&AdmittedPlace| place.directory == directory.name;
        let inside_max = directory.clients_max.unwrap_or(offer.clients_max);
        if places.taken.len() >= offer.clients_max {
            return Err(AdmissionRefusal::FullServer(offer.clients_max));
        }
        if places.taken.iter().filter(is_here).count() >= inside_max {
            return Err(AdmissionRefusal::FullDirectory(inside_max));
        }
        let open_from = (*known == KnownClient::Anyone).then(|| AddressPrefix::of(peer));
        if open_from.is_some() {
            let open = || places.taken.iter().filter(|place| place.open_from.is_some());
            let OpenPlaces { all, in_directory, from_network } = offer.open_places();
            let is_full = open().count() >= all || open().filter(is_here).count() >= in_directory;
            if is_full || open().filter(|place| place.open_from == open_from).count() >= from_network {
                return Err(AdmissionRefusal::FullOpen);
            }
        }
        let number = places.next;
        places.next += 1;
        places.taken.push(AdmittedPlace { number, directory: directory.name.clone(), open_from });
        Ok(AdmittedClient { limits: self, number })
    }
}

impl Drop for AdmittedClient<'_> {
    fn drop(&mut self) {
        lock(&self.limits.0).taken.retain(|place| place.number != self.number);
    }
}

/// The running sessions.
#[derive(Default)]
pub(super) struct ServeSessions(Mutex<Vec<Weak<ServeSession>>>);

/// An admitted client.
struct ServeSession {
    directory: String,
    known: KnownClient,
    peer: IpAddr,
    is_revoked: AtomicBool,
}

impl ServeSessions {
    fn add(&self, directory: &str, known: &KnownClient, peer: IpAddr) -> Arc<ServeSession> {
        let (directory, known) = (directory.to_owned(), known.clone());
        let session = Arc::new(ServeSession { directory, known, peer, is_revoked: AtomicBool::new(false) });
        let mut all = lock(&self.0);
        all.retain(|session| session.strong_count() > 0);
        all.push(Arc::downgrade(&session));
        session
    }

    /// Ends the sessions whose key or secret no longer opens their directory.
    pub(super) fn end_invalid(&self, offer: &ServeOffer, now: SystemTime) {
        for session in lock(&self.0).iter().filter_map(Weak::upgrade) {
            let mut directories = offer.directories.iter().filter(|directory| directory.name == session.directory);
            if !directories.any(|directory| directory.opens_to(&session.known, session.peer, now)) {
                session.is_revoked.store(true, Ordering::SeqCst);
            }
        }
    }
}

/// Why an authenticated client gets no worker.
#[derive(Debug, thiserror::Error)]
enum AdmissionRefusal {
    /// The server has this many clients already.
    #[error("the server has reached its limit of clients ({0})\ntry later")]
    FullServer(usize),
    /// The directory has this many clients already.
    #[error("the directory has reached its limit of clients ({0})\ntry later")]
    FullDirectory(usize),
    /// The client's share of the places without credentials is taken.
    #[error("all places for clients without a secret are taken, or those of your network\ntry later, or use a secret")]
    FullOpen,
    /// An earlier client used the server's standard input or output.
    #[error("another client has used this server's pipe")]
    UsedPipe,
    /// The requested name, where the only directory has none.
    #[error("the server has one directory, without a name, and no {0}\nappend the path to the secret, after a colon")]
    UnnamedDirectory(String),
    /// No name, where the directories have names.
    #[error("the server's directories have names\nappend one to its port; {credential} gives access to {}", .available.join(", "))]
    MissingName { credential: &'static str, available: Vec<String> },
    /// A name that does not exist, or is closed to the client.
    #[error("{credential} gives no access to a directory {name}\navailable: {}", .available.join(", "))]
    ClosedDirectory { credential: &'static str, name: String, available: Vec<String> },
}

/// Log text of a session ended for its credential.
const REVOKED: &str = "key or secret expired or revoked";

/// Serves a connected peer. A peer without a proof receives no data, and is the error. Releases `pending` after
/// authentication.
pub(super) fn serve(
    shared: &ServeShared,
    socket: &TcpStream,
    peer: SocketAddr,
    pending: &PendingPlace,
) -> io::Result<()> {
    // The control channel needs low latency.
    let _ = socket.set_nodelay(true);
    let offer = &*shared.offer();
    let mut connection = tls::accept(&shared.config).map_err(io::Error::other)?;
    let mut bounded = PreauthSocket::new(socket, Duration::from_millis(GREETING_DEADLINE_MS), UNPROVEN_MAX);
    let now = SystemTime::now();
    let all_known = offer.directories.iter().flat_map(|directory| directory.valid(peer.ip(), now));
    let proven = as_server(&mut connection, &mut bounded, offer.key.as_ref(), all_known)?;
    let (known, name) = proven.ok_or_else(|| io::Error::other("wrong secret or key"))?;
    pending.prove()?;
    let entered = admit(shared, offer, known, peer.ip(), &name);
    let refusal = entered.as_ref().err().map(ToString::to_string);
    let answered = answer(&mut connection, &mut bounded, refusal.as_deref());
    let (directory, _entered) = match (entered, answered) {
        (Ok(entered), Ok(())) => entered,
        (Ok(_), Err(_)) => return Ok(()),
        (Err(refusal), _) => {
            shared.log(&ServeEvent::Refused { peer, directory: name, why: refusal.to_string() });
            return Ok(());
        }
    };
    let key = if let KnownClient::Key(key) = known { Some(*key) } else { None };
    let session = shared.sessions.add(&name, known, peer.ip());
    // Without it, the figures of the copy are known at its end alone.
    let progress = WorkProgress::new().ok().map(Arc::new);
    shared.log(&ServeEvent::Began { peer, directory: name.clone(), key, progress: progress.clone() });
    let began = Instant::now();
    let is_over = || shared.hang_up.load(Ordering::Relaxed) || session.is_revoked.load(Ordering::Relaxed);
    let client = client_name(known, peer);
    let worked = shared.allowances.of(&directory.name, directory.size, directory.files).and_then(|allowance| {
        let files = SharedFiles { allowance: allowance.as_deref(), progress: progress.as_deref() };
        work(offer, directory, files, client, &mut Connection::from(connection), socket, is_over)
    });
    let (status, mut account) = match worked {
        Ok(worked) => worked,
        Err(error) => (None, WorkAccount { why: Some(error.to_string()), ..WorkAccount::default() }),
    };
    let is_without_failures = account.did.as_ref().is_none_or(|did| did.failed == 0);
    let whole = is_without_failures && status.is_some_and(|status| status.success());
    if session.is_revoked.load(Ordering::Relaxed) && !whole {
        account.why = Some(REVOKED.into());
    }
    // Before the next client is admitted. A worker that was killed may have used the pipe.
    if !account.is_idle && matches!(directory.content, ServedContent::Standard(_)) {
        shared.is_pipe_used.store(true, Ordering::SeqCst);
    }
    shared.log(&ServeEvent::Ended { peer, directory: name, account, whole, took: began.elapsed() });
    if whole {
        shared.copied.store(true, Ordering::SeqCst);
    }
    Ok(())
}

/// Returns the directory of that name, with the client counted in it.
fn admit<'s>(
    shared: &'s ServeShared,
    offer: &'s ServeOffer,
    known: &KnownClient,
    peer: IpAddr,
    name: &str,
) -> Result<(&'s ServedDirectory, AdmittedClient<'s>), AdmissionRefusal> {
    let directory = find(&offer.directories, known, peer, name)?;
    let admitted = shared.clients.enter(offer, directory, known, peer)?;
    if shared.is_pipe_used.load(Ordering::SeqCst) {
        return Err(AdmissionRefusal::UsedPipe);
    }
    Ok((directory, admitted))
}

/// Returns the directory of that name among those open to the client.
fn find<'d>(
    directories: &'d [ServedDirectory],
    known: &KnownClient,
    peer: IpAddr,
    name: &str,
) -> Result<&'d ServedDirectory, AdmissionRefusal> {
    let now = SystemTime::now();
    let open = || directories.iter().filter(|directory| directory.opens_to(known, peer, now));
    let credential = match known {
        KnownClient::Key(_) => "this key",
        KnownClient::Secret(_) => "this secret",
        KnownClient::Anyone => "your network",
    };
    open().find(|directory| directory.name == name).ok_or_else(|| {
        let available: Vec<_> = open().map(|directory| directory.name.clone()).collect();
        match &available[..] {
            [only] if only.is_empty() => AdmissionRefusal::UnnamedDirectory(name.to_owned()),
            _ if name.is_empty() => AdmissionRefusal::MissingName { credential, available },
            _ => AdmissionRefusal::ClosedDirectory { credential, name: name.to_owned(), available },
        }
    })
}

/// Returns the name of a client for the audit log.
fn client_name(known: &KnownClient, peer: SocketAddr) -> String {
    match known {
        KnownClient::Key(key) => format!("{peer} {key}"),
        KnownClient::Secret(_) => format!("{peer} secret"),
        KnownClient::Anyone => format!("{peer} open"),
    }
}

/// Files that a worker shares with its server.
#[derive(Clone, Copy)]
struct SharedFiles<'s> {
    allowance: Option<&'s Allowance>,
    progress: Option<&'s WorkProgress>,
}

/// Starts a worker, relays between it and the client, and waits for its exit.
fn work(
    offer: &ServeOffer,
    directory: &ServedDirectory,
    files: SharedFiles<'_>,
    client: String,
    connection: &mut Connection,
    socket: &TcpStream,
    is_over: impl Fn() -> bool,
) -> io::Result<(Option<ExitStatus>, WorkAccount)> {
    let program = &offer.program;
    let (here, there) = (socket.local_addr()?, socket.peer_addr()?);
    let mut command = Command::new(&program.executable);
    let allowance = files.allowance.map(|allowance| hand_over(&mut command, allowance.counters())).transpose()?;
    let progress = files.progress.map(|progress| hand_over(&mut command, progress.descriptor())).transpose()?;
    let (pipe, place) = match &directory.content {
        ServedContent::Directory(path) => (None, path.as_os_str()),
        ServedContent::Standard(fd) => (Some(ServedPipe::Inherited(hand_over(&mut command, fd)?)), OsStr::new("-")),
        ServedContent::Program(line) => (Some(ServedPipe::Program), line.as_os_str()),
    };
    let terms = ClientLimits {
        pipe,
        access: directory.access,
        rate: directory.rate.or(offer.rate),
        allowance,
        progress,
        ports: offer.data_ports,
        address: offer.address,
        sandboxed: offer.sandboxed,
        deltas: offer.deltas,
        audit: offer.audit.clone(),
        policy: directory.policy,
    };
    command.args(&program.worker_arguments).arg("--served").args(terms.words()).arg(place);
    let address = |address: SocketAddr| format!("{} {}", address.ip().to_canonical(), address.port());
    command.env("HAUL_CLIENT", client);
    command.env("SSH_CONNECTION", format!("{} {}", address(there), address(here)));
    let SpawnedChild { mut guard, stdin, stdout } = spawn(&mut command)?;
    let relayed = relay(connection, socket, stdout, stdin, is_over);
    // However the connection ended, the worker's input is now closed.
    let status = guard.wait(TIDY)?;
    guard.end();
    let mut account = WorkAccount::parse(guard.stderr_tail().iter().map(String::as_str));
    let lost = relayed.err().filter(|_| status.is_none()).map(|error| error.to_string());
    account.why = account.why.or(lost);
    Ok((status, account))
}

#[cfg(test)]
mod tests {
    use haul_base::copy::spec::{Secret, WorkerProgram};
    use haul_engine::worker::client_limits::{ServePolicy, ServedAccess};

    use super::*;
    use crate::offer::ServedCredential;

    const SECRET: &str = "0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f";

    fn directory(name: &str, is_open: bool) -> ServedDirectory {
        let known = KnownClient::Secret(Secret::parse(SECRET).unwrap());
        ServedDirectory {
            name: name.into(),
            content: ServedContent::Directory("/".into()),
            access: ServedAccess::Both,
            credentials: if is_open { Vec::new() } else { vec![ServedCredential::lasting(known)] },
            open_to: if is_open { vec!["0.0.0.0/0".parse().unwrap()] } else { Vec::new() },
            clients_max: None,
            rate: None,
            size: None,
            files: None,
            policy: ServePolicy::default(),
        }
    }

    fn offer(directories: Vec<ServedDirectory>) -> ServeOffer {
        ServeOffer {
            directories,
            key: None,
            clients_max: 16,
            rate: None,
            sandboxed: true,
            deltas: true,
            audit: None,
            address: None,
            data_ports: None,
            program: WorkerProgram { executable: "haul".into(), ..WorkerProgram::default() },
        }
    }

    #[test]
    fn strangers_leave_places_for_clients_with_credentials_and_for_each_other() {
        let open = ["a", "b", "d"].map(|name| directory(name, true));
        let offer = offer(open.into_iter().chain([directory("c", false)]).collect());
        let [a, b, d, c] = &offer.directories[..] else { panic!("four directories") };
        let counts = ClientCounts::default();
        let anyone =
            |directory, last| counts.enter(&offer, directory, &KnownClient::Anyone, [10, 0, 0, last].into()).ok();
        let enter_all = |directory, last| std::iter::from_fn(|| anyone(directory, last)).take(99).collect::<Vec<_>>();
        let first = enter_all(a, 1);
        assert_eq!(first.len(), 4, "half of the open ones");
        assert!(anyone(a, 2).is_none() && anyone(b, 1).is_none(), "of a directory, and of a network");
        let second = enter_all(b, 2);
        assert_eq!(second.len(), 4);
        assert!([a, b, d].iter().all(|directory| anyone(directory, 3).is_none()), "half of all");
        let known = c.credentials[0].known.clone();
        let owners: Vec<_> = (0..8)
            .map(|_| counts.enter(&offer, c, &known, [10, 0, 0, 1].into()).unwrap_or_else(|e| panic!("{e}")))
            .collect();
        assert!(counts.enter(&offer, c, &known, [10, 0, 0, 1].into()).is_err());
        drop((first, second, owners));
        assert!(counts.are_none() && anyone(a, 3).is_some());
    }

    #[test]
    fn without_credentials_strangers_have_all_places() {
        let offer = offer(vec![directory("", true)]);
        let counts = ClientCounts::default();
        let enter = |last| counts.enter(&offer, &offer.directories[0], &KnownClient::Anyone, [10, 0, 0, last].into());
        let entered: Vec<_> = (0..16).map(|n| enter(n % 2).unwrap_or_else(|e| panic!("{n}: {e}"))).collect();
        assert!(enter(3).is_err() && entered.len() == 16);
    }
}
