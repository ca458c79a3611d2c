//! Finds a transport path for the data. One end tries all addresses of the other one; if none is reachable, the ends
//! swap roles. If that fails too, data goes through ssh, unless the user forbids it.

use haul_proto::wire::report::WorkerMessage;
use haul_proto::wire::request::ControllerMessage;
use std::net::IpAddr;

use super::TransferController;
use super::routes::{ConnectDirection, host, shown};
use super::workers::WorkerRole;
use crate::job::error::Error;
use crate::job::event::{NetworkPath, TransportPath};
use crate::job::location::Host;
use crate::job::spec::NetworkOptions;

/// Connect timeout of a data connection.
const CONNECT_TIMEOUT_MS: u32 = 3000;

/// Sends Listen to the first accepting end, if it is `role`, without waiting for its answer: that saves a round trip.
pub fn listen_early(copy: &mut TransferController<'_>, role: WorkerRole) -> Result<(), Error> {
    let needs_none = copy.workers.is_one() || copy.job.options.compare;
    match copy.directions.first() {
        Some(first) if first.acceptor == role && !first.is_empty() && !needs_none => {
            let at = first.at;
            listen(copy, role, at)
        }
        _ => Ok(()),
    }
}

fn listen(copy: &mut TransferController<'_>, role: WorkerRole, address: Option<IpAddr>) -> Result<(), Error> {
    copy.listening = PendingListen::Asked(role);
    copy.reports.expect_answer(role);
    copy.workers.send(role, &ControllerMessage::Listen { address })
}

/// Why one end cannot connect to the other.
#[derive(Debug, thiserror::Error)]
pub enum DirectionError {
    /// No address of the accepting end can be tried.
    #[error("no usable address is known")]
    NoAddress,
    /// What a worker reports in CannotConnect.
    #[error("{0}")]
    Reported(String),
}

/// State of an early Listen whose answer is still pending.
#[derive(Debug, Default)]
pub enum PendingListen {
    /// No Listen was sent.
    #[default]
    No,
    /// Listen was sent and not answered.
    Asked(WorkerRole),
    /// The end listens on this port, or reports why it cannot.
    Answered(WorkerRole, Result<u16, DirectionError>),
}

impl PendingListen {
    /// Consumes a worker's message, if it is the pending answer.
    pub fn answered(&mut self, role: WorkerRole, message: WorkerMessage) -> Result<(), WorkerMessage> {
        let asked = matches!(self, Self::Asked(asked) if *asked == role);
        let answer = match message {
            WorkerMessage::Listening { port } if asked => Ok(port),
            WorkerMessage::CannotConnect { text } if asked => Err(DirectionError::Reported(text)),
            other => return Err(other),
        };
        *self = Self::Answered(role, answer);
        Ok(())
    }
}

/// Makes the first data connection, and returns its path and the initial stream count; the other connections follow by
/// themselves. Returns [`TransportPath::None`] if both ends finish before a connection, since nothing had to move, or
/// if no data will ever move.
pub fn find(copy: &mut TransferController<'_>) -> Result<(TransportPath, u16), Error> {
    if copy.job.options.compare {
        return Ok((TransportPath::None, 0));
    }
    if copy.workers.is_one() {
        let host = match host(copy.job, WorkerRole::Source) {
            Host::Remote { .. } | Host::Served { .. } => Some(copy.workers.label(WorkerRole::Source)),
            Host::Local => None,
        };
        return Ok((TransportPath::Local { host }, copy.streams));
    }
    match find_between(copy) {
        Ok(found) => Ok(found),
        Err(PathSearchEnd::Over) => Ok((TransportPath::None, 0)),
        Err(PathSearchEnd::Error(error)) => Err(error),
    }
}

/// Reason to stop the search for a path.
enum PathSearchEnd {
    /// Both ends have finished.
    Over,
    /// The job failed.
    Error(Error),
}

impl From<Error> for PathSearchEnd {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

fn find_between(copy: &mut TransferController<'_>) -> Result<(TransportPath, u16), PathSearchEnd> {
    let mut failed: Option<String> = None;
    for direction in std::mem::take(&mut copy.directions) {
        match attempt(copy, &direction)? {
            Ok((path, streams)) => {
                copy.connector = Some(direction.connector);
                return Ok((TransportPath::Tcp { path, others: Vec::new(), instead_of: failed }, streams));
            }
            Err(why) => {
                failed = Some(match failed {
                    None => format!("no connection to {} ({why})", copy.workers.label(direction.acceptor)),
                    Some(before) => format!("{before}, nor from it ({why})"),
                });
            }
        }
    }
    let because = failed.unwrap_or_default();
    if let Some(option) = wanted(&copy.job.options.network) {
        let text = format!("{because}\n{option} permits no other path: change or omit it");
        return Err(Error::Connect(text).into());
    }
    tunnel(copy)?;
    Ok((TransportPath::Ssh { because }, copy.streams))
}

/// Returns the user's option that rules out another path.
fn wanted(network: &NetworkOptions) -> Option<String> {
    let named = [network.callback.as_ref().map(|_| "-H"), network.bind.as_ref().map(|_| "--bind")];
    let options: Vec<_> = named.into_iter().flatten().chain(network.family.map(|family| family.option())).collect();
    (!options.is_empty()).then(|| options.join(" and "))
}

/// Connects one end to the other. The inner error is the reason of a failure.
fn attempt(
    copy: &mut TransferController<'_>,
    direction: &ConnectDirection,
) -> Result<Result<(NetworkPath, u16), DirectionError>, PathSearchEnd> {
    let ConnectDirection { connector, acceptor, at, .. } = *direction;
    if direction.is_empty() {
        return Ok(Err(DirectionError::NoAddress));
    }
    let port = match port_of(copy, acceptor, at)? {
        Ok(port) => port,
        Err(error) => return Ok(Err(error)),
    };
    let routes = direction.routes(port);
    copy.reports.expect_answer(connector);
    copy.workers.send(connector, &ControllerMessage::Connect { routes, timeout_ms: CONNECT_TIMEOUT_MS })?;
    let connected = wait_for(copy, |role, message| match message {
        WorkerMessage::Connected { from, to, streams } if role == connector => Ok(Ok((from, to, streams))),
        WorkerMessage::CannotConnect { text } if role == connector => Ok(Err(DirectionError::Reported(text))),
        other => Err(other),
    })?;
    Ok(connected.map(|(from, to, streams)| (shown(&copy.workers, connector, from, to), streams)))
}

/// Returns the port of `acceptor`, after a Listen if none was sent.
fn port_of(
    copy: &mut TransferController<'_>,
    acceptor: WorkerRole,
    at: Option<IpAddr>,
) -> Result<Result<u16, DirectionError>, PathSearchEnd> {
    if !matches!(copy.listening, PendingListen::Asked(role) | PendingListen::Answered(role, _) if role == acceptor) {
        listen(copy, acceptor, at)?;
    }
    loop {
        match std::mem::take(&mut copy.listening) {
            PendingListen::Answered(_, answer) => return Ok(answer),
            other => copy.listening = other,
        }
        let (role, message) = next(copy)?;
        copy.observe(role, message, false)?;
    }
}

/// Waits for a message that `take` accepts, and handles all others.
fn wait_for<T>(
    copy: &mut TransferController<'_>,
    take: impl Fn(WorkerRole, WorkerMessage) -> Result<T, WorkerMessage>,
) -> Result<T, PathSearchEnd> {
    loop {
        let (role, message) = next(copy)?;
        match take(role, message) {
            Ok(taken) => return Ok(taken),
            Err(other) => copy.observe(role, other, false)?,
        }
    }
}

fn next(copy: &mut TransferController<'_>) -> Result<(WorkerRole, WorkerMessage), PathSearchEnd> {
    if copy.is_over() { Err(PathSearchEnd::Over) } else { Ok(copy.receive(false)?) }
}

fn tunnel(copy: &mut TransferController<'_>) -> Result<(), PathSearchEnd> {
    for (role, connector) in [(WorkerRole::Target, false), (WorkerRole::Source, true)] {
        copy.reports.expect_answer(role);
        copy.workers.send(role, &ControllerMessage::Tunnel { connector })?;
    }
    for _ in 0..2 {
        wait_for(copy, |_, message| match message {
            WorkerMessage::Connected { .. } => Ok(()),
            other => Err(other),
        })?;
    }
    Ok(())
}
