//! One client of a server: proven, told whether it may, and then connected with a worker of its own.

use haul_proto::wire::limits::GREETING_DEADLINE_MS;
use haul_proto::wire::serve::UNPROVEN_MAX;
use rustls::Connection;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::bounded::Bounded;
use super::proof::{answer, as_server};
use super::relay::relay;
use super::server::{Directory, Offer, Served, Shared};
use super::{Account, Known, Terms, tls};
use crate::bootstrap::{Spawned, spawn};

/// How long a worker whose client is gone may take to tidy up.
const TIDY: Duration = Duration::from_secs(10);

/// One more of something, for as long as this lives.
pub(super) struct Held<'a>(&'a AtomicUsize);

impl<'a> Held<'a> {
    /// One more, unless there are `most`.
    pub(super) fn take(count: &'a AtomicUsize, most: usize) -> Option<Self> {
        let more = |now: usize| (now < most).then_some(now + 1);
        count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).ok().map(|_| Self(count))
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// How many clients there may be, and are.
pub(super) struct Limits {
    most: usize,
    all: AtomicUsize,
    /// In each directory, in the order of the offer.
    inside: Vec<AtomicUsize>,
}

impl Limits {
    pub(super) fn new(offer: &Offer) -> Self {
        let inside = offer.directories.iter().map(|_| AtomicUsize::default()).collect();
        Self { most: offer.clients_max, all: AtomicUsize::default(), inside }
    }

    pub(super) fn are_none(&self) -> bool {
        self.all.load(Ordering::SeqCst) == 0
    }

    /// One more in the directory of this number, or why not.
    fn enter(&self, number: usize, directory: &Directory) -> Result<[Held<'_>; 2], String> {
        let refuse = |who: &str, most| Err(format!("the {who} has {most} clients, and takes no more\ntry later"));
        let Some(all) = Held::take(&self.all, self.most) else { return refuse("server", self.most) };
        let most = directory.clients_max.unwrap_or(self.most);
        match self.inside.get(number).and_then(|inside| Held::take(inside, most)) {
            Some(inside) => Ok([all, inside]),
            None => refuse("directory", most),
        }
    }
}

/// Serves whoever has connected. Who proves nothing is told nothing, which is the error. `pending` is given back once it
/// is proven.
pub(super) fn serve(shared: &Shared, socket: &TcpStream, peer: SocketAddr, pending: Held<'_>) -> io::Result<()> {
    // What is said on a link waits for nothing.
    let _ = socket.set_nodelay(true);
    let offer = &shared.offer;
    let mut connection = tls::accept(&shared.config).map_err(io::Error::other)?;
    let mut bounded = Bounded::new(socket, Duration::from_millis(GREETING_DEADLINE_MS), UNPROVEN_MAX);
    let all_known = offer.directories.iter().flat_map(|directory| &directory.known);
    let proven = as_server(&mut connection, &mut bounded, offer.key.as_ref(), all_known)?;
    let (known, name) = proven.ok_or_else(|| io::Error::other("its secret or its key opens nothing here"))?;
    drop(pending);
    let entered = find(&offer.directories, known, &name)
        .and_then(|(number, directory)| Ok((directory, shared.clients.enter(number, directory)?)));
    let answered = answer(&mut connection, &mut bounded, entered.as_ref().err().map(String::as_str));
    let (directory, _held) = match (entered, answered) {
        (Ok(entered), Ok(())) => entered,
        (Ok(_), Err(_)) => return Ok(()),
        (Err(why), _) => {
            shared.log(&Served::Refused { peer, directory: name, why });
            return Ok(());
        }
    };
    let key = if let Known::Key(key) = known { Some(*key) } else { None };
    shared.log(&Served::Began { peer, directory: name.clone(), key });
    let began = Instant::now();
    let (status, account) =
        match work(shared, directory, client_name(known, peer), &mut Connection::from(connection), socket) {
            Ok(worked) => worked,
            Err(error) => (None, Account { did: None, why: Some(error.to_string()) }),
        };
    let whole = status.is_some_and(|status| status.success());
    shared.log(&Served::Ended { peer, directory: name, account, whole, took: began.elapsed() });
    if whole {
        shared.copied.store(true, Ordering::SeqCst);
    }
    Ok(())
}

/// The directory of that name, and its number, among those that the client may open.
fn find<'d>(directories: &'d [Directory], known: &Known, name: &str) -> Result<(usize, &'d Directory), String> {
    let open = || directories.iter().enumerate().filter(|(_, directory)| directory.known.contains(known));
    let with = if matches!(known, Known::Key(_)) { "this key" } else { "this secret" };
    open().find(|(_, directory)| directory.name == name).ok_or_else(|| {
        let names: Vec<_> = open().map(|(_, directory)| directory.name.as_str()).collect();
        match names[..] {
            [""] => format!("the server has one directory, without a name, and no {name}\nwrite the path behind the secret, after a colon"),
            _ if name.is_empty() => format!("the server's directories have names\nname one after its port; {with} opens {}", names.join(", ")),
            _ => format!("{with} opens no directory {name}\nit opens {}", names.join(", ")),
        }
    })
}

/// Who a client is, for the audit log.
fn client_name(known: &Known, peer: SocketAddr) -> String {
    match known {
        Known::Key(key) => format!("{peer} {key}"),
        Known::Secret(_) => format!("{peer} secret"),
    }
}

/// Starts a worker, lets it and the client talk, and waits for its end.
fn work(
    shared: &Shared,
    directory: &Directory,
    client: String,
    connection: &mut Connection,
    socket: &TcpStream,
) -> io::Result<(Option<ExitStatus>, Account)> {
    let (program, offer) = (&shared.offer.program, &shared.offer);
    let (here, there) = (socket.local_addr()?, socket.peer_addr()?);
    let terms = Terms {
        access: directory.access,
        rate: directory.rate.or(offer.rate),
        size: directory.size,
        ports: offer.data_ports,
        address: offer.address,
        sandboxed: offer.sandboxed,
        deltas: offer.deltas,
    };
    let mut command = Command::new(&program.executable);
    command.args(&program.worker_arguments).arg("--served").args(terms.words()).arg(&directory.path);
    let address = |address: SocketAddr| format!("{} {}", address.ip().to_canonical(), address.port());
    command.env("HAUL_CLIENT", client);
    command.env("SSH_CONNECTION", format!("{} {}", address(there), address(here)));
    let Spawned { mut guard, stdin, stdout } = spawn(&mut command)?;
    let relayed = relay(connection, socket, stdout, stdin, &shared.hang_up);
    // However the connection ended, the worker has seen its end.
    let status = guard.wait(TIDY)?;
    guard.end();
    let mut account = Account::parse(guard.stderr_tail().iter().map(String::as_str));
    let lost = relayed.err().filter(|_| status.is_none()).map(|error| error.to_string());
    account.why = account.why.or(lost);
    Ok((status, account))
}
