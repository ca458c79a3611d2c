//! One client of a server: proven, told whether it may, and then connected with a worker of its own.

use haul_proto::wire::limits::GREETING_DEADLINE_MS;
use haul_proto::wire::serve::UNPROVEN_MAX;
use rustls::Connection;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::proof::{Bounded, answer, as_server};
use super::relay::relay;
use super::server::{Directory, Served, Shared};
use super::{Did, Secret, tls};
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

/// Serves whoever has connected. Who proves nothing is told nothing. `pending` is given back once it is proven.
pub(super) fn serve(shared: &Shared, socket: &TcpStream, pending: Held<'_>) -> io::Result<()> {
    // What is said on a link waits for nothing.
    let _ = socket.set_nodelay(true);
    let peer = socket.peer_addr()?;
    let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
    let mut connection = tls::accept(&shared.config).map_err(io::Error::other)?;
    let mut bounded = Bounded::new(socket, Duration::from_millis(GREETING_DEADLINE_MS), UNPROVEN_MAX);
    let secrets = shared.offer.directories.iter().flat_map(|directory| &directory.secrets);
    let Some((secret, name)) = as_server(&mut connection, &mut bounded, secrets)? else { return Ok(()) };
    drop(pending);
    let client = Held::take(&shared.clients, shared.offer.clients_max);
    let found = find(&shared.offer.directories, secret, &name);
    let refusal = match (&found, &client) {
        (Err(why), _) => Some(why.clone()),
        (_, None) => Some(format!("the server has {} clients, and takes no more\ntry later", shared.offer.clients_max)),
        _ => None,
    };
    answer(&mut connection, &mut bounded, refusal.as_deref())?;
    let (Ok(directory), Some(_client), None) = (found, client, &refusal) else {
        shared.log(&Served::Refused { peer, directory: name, why: refusal.unwrap_or_default() });
        return Ok(());
    };
    shared.log(&Served::Began { peer, directory: name.clone() });
    let began = Instant::now();
    let worked = work(shared, directory, &mut Connection::from(connection), socket);
    let (status, did) = worked.unwrap_or_default();
    let whole = status.is_some_and(|status| status.success());
    shared.log(&Served::Ended { peer, directory: name, did, whole, took: began.elapsed() });
    if whole {
        shared.copied.store(true, Ordering::SeqCst);
    }
    Ok(())
}

/// The directory of that name among those that the secret opens.
fn find<'d>(directories: &'d [Directory], secret: &Secret, name: &str) -> Result<&'d Directory, String> {
    let open = || directories.iter().filter(|directory| directory.secrets.contains(secret));
    open().find(|directory| directory.name == name).ok_or_else(|| {
        let names: Vec<_> = open().map(|directory| directory.name.as_str()).collect();
        match names[..] {
            [""] => format!("the server has one directory, without a name, and no {name}\nwrite the path behind the secret, after a colon"),
            _ if name.is_empty() => format!("the server's directories have names\nname one after its port; this secret opens {}", names.join(", ")),
            _ => format!("this secret opens no directory {name}\nit opens {}", names.join(", ")),
        }
    })
}

/// Starts a worker, lets it and the client talk, and waits for its end.
fn work(
    shared: &Shared,
    directory: &Directory,
    connection: &mut Connection,
    socket: &TcpStream,
) -> io::Result<(Option<ExitStatus>, Option<Did>)> {
    let (program, offer) = (&shared.offer.program, &shared.offer);
    let (here, there) = (socket.local_addr()?, socket.peer_addr()?);
    let ports = offer.data_ports.unwrap_or_default();
    let numbers =
        [offer.rate.unwrap_or_default(), ports.0.into(), ports.1.into()].map(|number: u64| number.to_string());
    let mut command = Command::new(&program.executable);
    command.args(&program.worker_arguments).args(["--served", directory.access.word()]).args(numbers);
    command.arg(&directory.path);
    let address = |address: SocketAddr| format!("{} {}", address.ip().to_canonical(), address.port());
    command.env("SSH_CONNECTION", format!("{} {}", address(there), address(here)));
    let Spawned { mut guard, stdin, stdout } = spawn(&mut command)?;
    let relayed = relay(connection, socket, stdout, stdin, &shared.hang_up);
    // However the connection ended, the worker has seen its end.
    let status = guard.wait(TIDY)?;
    guard.end();
    let did = guard.stderr_tail().iter().rev().find_map(|line| Did::parse(line));
    relayed.or_else(|error| if status.is_some() { Ok(()) } else { Err(error) })?;
    Ok((status, did))
}
