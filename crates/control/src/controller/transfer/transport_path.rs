//! Finds a transport path for the data. One end tries all addresses of the other one; if none is reachable, the ends
//! swap roles. If that fails too, data goes through ssh, unless the user forbids it.

use std::net::IpAddr;

use haul_base::job::error::Error;
use haul_base::job::event::{NetworkPath, TransportPath};
use haul_base::job::location::Host;
use haul_base::job::spec::NetworkOptions;
use haul_proto::wire::report::WorkerMessage;
use haul_proto::wire::request::ControllerMessage;

use super::TransferController;
use crate::controller::routes::{ConnectDirection, host, shown};
use crate::controller::worker_role::WorkerRole;

/// The connection between both ends, as far as it is made.
#[derive(Default)]
pub struct TransferConnection {
    /// State of an early Listen.
    pub listening: PendingListen,
    /// Directions for data connections still to try.
    pub directions: Vec<ConnectDirection>,
    /// The end that made the data connections.
    pub connector: Option<WorkerRole>,
    /// Transport of the data, once known.
    pub transport: TransportPath,
}

/// Connect timeout of a data connection.
const CONNECT_TIMEOUT_MS: u32 = 3000;

/// Sends Listen to the first accepting end, if it is `role`, without waiting for its answer: that saves a round trip.
pub fn listen_early(controller: &mut TransferController<'_>, role: WorkerRole) -> Result<(), Error> {
    let needs_none = controller.workers.is_one() || controller.job.options.compare;
    match controller.connection.directions.first() {
        Some(first) if first.acceptor == role && !first.is_empty() && !needs_none => {
            let at = first.at;
            listen(controller, role, at)
        }
        _ => Ok(()),
    }
}

fn listen(controller: &mut TransferController<'_>, role: WorkerRole, address: Option<IpAddr>) -> Result<(), Error> {
    controller.connection.listening = PendingListen::Asked(role);
    controller.reports.expect_answer(role);
    controller.workers.send(role, &ControllerMessage::Listen { address })
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
pub fn find(controller: &mut TransferController<'_>) -> Result<(TransportPath, u16), Error> {
    if controller.job.options.compare {
        return Ok((TransportPath::None, 0));
    }
    if controller.workers.is_one() {
        let host = match host(controller.job, WorkerRole::Source) {
            Host::Remote { .. } | Host::Served { .. } => Some(controller.workers.label(WorkerRole::Source)),
            Host::Local => None,
        };
        return Ok((TransportPath::Local { host }, controller.settings.streams));
    }
    match find_between(controller) {
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

fn find_between(controller: &mut TransferController<'_>) -> Result<(TransportPath, u16), PathSearchEnd> {
    let mut failed: Option<String> = None;
    for direction in std::mem::take(&mut controller.connection.directions) {
        match attempt(controller, &direction)? {
            Ok((path, streams)) => {
                controller.connection.connector = Some(direction.connector);
                return Ok((TransportPath::Tcp { path, others: Vec::new(), instead_of: failed }, streams));
            }
            Err(why) => {
                failed = Some(match failed {
                    None => format!("no connection to {} ({why})", controller.workers.label(direction.acceptor)),
                    Some(before) => format!("{before}, nor from it ({why})"),
                });
            }
        }
    }
    let because = failed.unwrap_or_default();
    if let Some(option) = conflicting_option(&controller.job.options.streams.network) {
        let text = format!("{because}\n{option} permits no other path: change or omit it");
        return Err(Error::Connect(text).into());
    }
    tunnel(controller)?;
    Ok((TransportPath::Ssh { because }, controller.settings.streams))
}

/// Returns the user's option that rules out another path.
fn conflicting_option(network: &NetworkOptions) -> Option<String> {
    let named = [network.callback.as_ref().map(|_| "-H"), network.bind.as_ref().map(|_| "--bind")];
    let options: Vec<_> = named.into_iter().flatten().chain(network.family.map(|family| family.option())).collect();
    (!options.is_empty()).then(|| options.join(" and "))
}

/// Connects one end to the other. The inner error is the reason of a failure.
fn attempt(
    controller: &mut TransferController<'_>,
    direction: &ConnectDirection,
) -> Result<Result<(NetworkPath, u16), DirectionError>, PathSearchEnd> {
    let ConnectDirection { connector, acceptor, at, .. } = *direction;
    if direction.is_empty() {
        return Ok(Err(DirectionError::NoAddress));
    }
    let port = match port_of(controller, acceptor, at)? {
        Ok(port) => port,
        Err(error) => return Ok(Err(error)),
    };
    let routes = direction.routes(port);
    controller.reports.expect_answer(connector);
    controller.workers.send(connector, &ControllerMessage::Connect { routes, timeout_ms: CONNECT_TIMEOUT_MS })?;
    let connected = wait_for(controller, |role, message| match message {
        WorkerMessage::Connected { from, to, streams } if role == connector => Ok(Ok((from, to, streams))),
        WorkerMessage::CannotConnect { text } if role == connector => Ok(Err(DirectionError::Reported(text))),
        other => Err(other),
    })?;
    Ok(connected.map(|(from, to, streams)| (shown(&controller.workers, connector, from, to), streams)))
}

/// Returns the port of `acceptor`, after a Listen if none was sent.
fn port_of(
    controller: &mut TransferController<'_>,
    acceptor: WorkerRole,
    at: Option<IpAddr>,
) -> Result<Result<u16, DirectionError>, PathSearchEnd> {
    if !matches!(controller.connection.listening, PendingListen::Asked(role) | PendingListen::Answered(role, _) if role == acceptor)
    {
        listen(controller, acceptor, at)?;
    }
    loop {
        match std::mem::take(&mut controller.connection.listening) {
            PendingListen::Answered(_, answer) => return Ok(answer),
            other => controller.connection.listening = other,
        }
        let (role, message) = next(controller)?;
        controller.observe(role, message, false)?;
    }
}

/// Waits for a message that `take` accepts, and handles all others.
fn wait_for<T>(
    controller: &mut TransferController<'_>,
    take: impl Fn(WorkerRole, WorkerMessage) -> Result<T, WorkerMessage>,
) -> Result<T, PathSearchEnd> {
    loop {
        let (role, message) = next(controller)?;
        match take(role, message) {
            Ok(taken) => return Ok(taken),
            Err(other) => controller.observe(role, other, false)?,
        }
    }
}

fn next(controller: &mut TransferController<'_>) -> Result<(WorkerRole, WorkerMessage), PathSearchEnd> {
    if controller.progress.is_over() { Err(PathSearchEnd::Over) } else { Ok(controller.receive(false)?) }
}

fn tunnel(controller: &mut TransferController<'_>) -> Result<(), PathSearchEnd> {
    for (role, connector) in [(WorkerRole::Target, false), (WorkerRole::Source, true)] {
        controller.reports.expect_answer(role);
        controller.workers.send(role, &ControllerMessage::Tunnel { connector })?;
    }
    for _ in 0..2 {
        wait_for(controller, |_, message| match message {
            WorkerMessage::Connected { .. } => Ok(()),
            other => Err(other),
        })?;
    }
    Ok(())
}
