//! Finds a transport path for the data. One end tries all addresses of the other one; if none is reachable, the ends
//! swap roles. Unless the user forbids it, data goes through ssh if both fail. Between this host and another one, data
//! begins to go through ssh as soon as a direct connection is late: a firewall that drops packets costs no time. Once a
//! direct path is up, it gets the data.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use haul_base::copy::error::Error;
use haul_base::copy::event::{Event, TransportPath};
use haul_base::copy::location::Host;
use haul_base::copy::spec::{CopySpec, NetworkOptions, Transport};
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
    pub directions: VecDeque<ConnectDirection>,
    attempt: Option<ConnectAttempt>,
    tunnel: TunnelState,
    /// Why no direct connection was made so far.
    failed: Option<String>,
    /// The end that made the data connections.
    pub connector: Option<WorkerRole>,
    /// Transport of the data, once known.
    pub transport: TransportPath,
    /// Initial number of streams of the direct path.
    streams: u16,
}

impl TransferConnection {
    /// Permits no direct connection (`--transport ssh`).
    pub fn forbid_direct(&mut self) {
        self.failed = Some("--transport ssh".to_owned());
    }
}

/// An attempt to connect one end to the other.
struct ConnectAttempt {
    direction: ConnectDirection,
    /// Connect was sent; before that, the port is awaited.
    is_connecting: bool,
}

/// The way through the control channels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum TunnelState {
    /// Not requested.
    #[default]
    Closed,
    /// This number of ends has not answered.
    Opening(u8),
    /// Open.
    Open,
}

/// Connect timeout of a data connection.
const CONNECT_TIMEOUT_MS: u32 = 3000;
/// Time after which data begins to go through ssh, while a direct connection is still being made.
const LATE: Duration = Duration::from_millis(300);
/// Time without data after which the way through ssh is opened as a reserve.
const STALLED: Duration = Duration::from_secs(5);
/// Age of the last message of an end that is alive.
const HEARD: Duration = Duration::from_secs(2);

/// Sends Listen to the first accepting end, if it is `role`, without waiting for its answer: that saves a round trip.
pub fn listen_early(controller: &mut TransferController<'_>, role: WorkerRole) -> Result<(), Error> {
    let needs_none = controller.workers.is_one() || controller.copy.options.compare;
    match controller.connection.directions.front() {
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
    /// Whether Listen was sent to this end.
    fn is_of(&self, role: WorkerRole) -> bool {
        matches!(self, Self::Asked(asked) | Self::Answered(asked, _) if *asked == role)
    }

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
    if controller.copy.options.compare {
        return Ok((TransportPath::None, 0));
    }
    if controller.workers.is_one() {
        let host = match host(controller.copy, WorkerRole::Source) {
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
    /// The copy failed.
    Error(Error),
}

impl From<Error> for PathSearchEnd {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

fn find_between(controller: &mut TransferController<'_>) -> Result<(TransportPath, u16), PathSearchEnd> {
    let begun = Instant::now();
    let may_begin_by_tunnel = may_tunnel_beside(controller);
    let late = if controller.copy.options.streams.network.is_direct_unlikely { Duration::ZERO } else { LATE };
    advance(controller)?;
    loop {
        if let TransportPath::Tcp { .. } = controller.connection.transport {
            let streams = controller.connection.streams;
            return Ok((controller.connection.transport.clone(), streams));
        }
        let is_exhausted = controller.connection.attempt.is_none();
        if is_exhausted && let Some(option) = conflicting_option(&controller.copy.options.streams.network) {
            let because = controller.connection.failed.clone().unwrap_or_default();
            let text = format!("{because}\n{option} permits no other path: change or omit it");
            return Err(Error::Connect(text).into());
        }
        if controller.connection.tunnel == TunnelState::Open {
            let because = because(&controller.connection);
            return Ok((tunnel(controller.copy, because), controller.settings.streams));
        }
        if controller.connection.tunnel == TunnelState::Closed
            && (is_exhausted || may_begin_by_tunnel && begun.elapsed() >= late)
        {
            open_tunnel(controller)?;
        }
        let deadline = may_begin_by_tunnel.then(|| begun + late);
        if controller.progress.is_over() {
            return Err(PathSearchEnd::Over);
        }
        if let Some((role, message)) = controller.receive_until(deadline)? {
            controller.observe(role, message, false)?;
        }
    }
}

/// Why data goes through ssh.
fn because(connection: &TransferConnection) -> String {
    match (&connection.failed, &connection.attempt) {
        (None, Some(_)) => "started before a direct connection was up".to_owned(),
        (Some(failed), Some(_)) => format!("{failed}; started before the other direction was up"),
        (failed, None) => failed.clone().unwrap_or_default(),
    }
}

/// The way through the control connections.
pub fn tunnel(copy: &CopySpec, because: String) -> TransportPath {
    let is_ssh = WorkerRole::BOTH.iter().any(|role| matches!(host(copy, *role), Host::Remote { .. }));
    TransportPath::Tunnel { is_ssh, because }
}

/// Whether data may go through ssh before all direct attempts have failed. Between two remote hosts it would pass
/// through this one.
fn may_tunnel_beside(controller: &TransferController<'_>) -> bool {
    let is_here = WorkerRole::BOTH.iter().any(|role| *host(controller.copy, *role) == Host::Local);
    is_here && conflicting_option(&controller.copy.options.streams.network).is_none()
}

/// Signs of life of a running transfer.
pub struct TransferPulse {
    written_bytes: u64,
    grown: Instant,
    heard: [Instant; 2],
    permitted: Option<Instant>,
}

impl TransferPulse {
    /// Begins now.
    pub fn new() -> Self {
        let now = Instant::now();
        Self { written_bytes: 0, grown: now, heard: [now; 2], permitted: None }
    }

    /// Records a message of this worker, and what the target has written so far.
    pub fn record(&mut self, role: WorkerRole, written_bytes: u64) {
        let now = Instant::now();
        self.heard[role.index()] = now;
        if self.written_bytes != written_bytes {
            (self.written_bytes, self.grown) = (written_bytes, now);
        }
    }

    /// Whether the source may leave the direct path now. It is asked again, since it may not have waited long enough.
    fn permits_detour(&mut self) -> bool {
        let is_due = self.permitted.is_none_or(|last| last.elapsed() >= HEARD);
        if is_due {
            self.permitted = Some(Instant::now());
        }
        is_due
    }

    /// Whether nothing arrives although both ends are heard: the data's own path may be blocked.
    fn has_stalled(&self) -> bool {
        self.grown.elapsed() >= STALLED && self.heard.iter().all(|heard| heard.elapsed() < HEARD)
    }
}

/// Where nothing arrives over a direct path, opens the way through ssh, and lets the source use it.
pub fn keep_moving(controller: &mut TransferController<'_>, pulse: &mut TransferPulse) -> Result<(), Error> {
    let is_direct = matches!(controller.connection.transport, TransportPath::Tcp { .. });
    if !is_direct || !pulse.has_stalled() || !may_tunnel_beside(controller) {
        return Ok(());
    }
    match controller.connection.tunnel {
        TunnelState::Closed => open_tunnel(controller),
        TunnelState::Opening(_) => Ok(()),
        TunnelState::Open if pulse.permits_detour() => {
            controller.workers.send(WorkerRole::Source, &ControllerMessage::Detour)
        }
        TunnelState::Open => Ok(()),
    }
}

/// Takes a worker's answer to Connect or Tunnel. Returns any other message.
pub fn answered(
    controller: &mut TransferController<'_>,
    role: WorkerRole,
    message: WorkerMessage,
) -> Result<Option<WorkerMessage>, Error> {
    let connection = &mut controller.connection;
    let connecting = connection.attempt.as_ref().filter(|attempt| attempt.is_connecting);
    let is_connector = connecting.is_some_and(|attempt| attempt.direction.connector == role);
    match message {
        WorkerMessage::Connected { ref from, .. } if from.is_empty() => {
            connection.tunnel = match connection.tunnel {
                TunnelState::Opening(2) => TunnelState::Opening(1),
                TunnelState::Opening(_) => TunnelState::Open,
                _ => return Ok(Some(message)),
            };
        }
        WorkerMessage::Connected { from, to, streams } if is_connector => {
            let path = shown(&controller.workers, role, from, to);
            let instead_of = connection.failed.take();
            let is_moved = matches!(connection.transport, TransportPath::Tunnel { .. });
            connection.transport = TransportPath::Tcp { path, others: Vec::new(), instead_of };
            (connection.connector, connection.streams, connection.attempt) = (Some(role), streams, None);
            connection.directions.clear();
            if is_moved {
                let transport = connection.transport.clone();
                controller.events.emit(Event::PathChanged { transport, because: None });
            }
        }
        WorkerMessage::CannotConnect { text } if is_connector => {
            fail_attempt(controller, &DirectionError::Reported(text));
            advance(controller)?;
        }
        other => return Ok(Some(other)),
    }
    Ok(None)
}

/// Records the reason of a failed attempt.
fn fail_attempt(controller: &mut TransferController<'_>, why: &DirectionError) {
    let Some(ConnectAttempt { direction, .. }) = controller.connection.attempt.take() else { return };
    let failed = match controller.connection.failed.take() {
        None => format!("no connection to {} ({why})", controller.workers.label(direction.acceptor)),
        Some(before) => format!("{before}, nor from it ({why})"),
    };
    controller.connection.failed = Some(failed);
    if let TransportPath::Tunnel { .. } = controller.connection.transport
        && controller.connection.directions.is_empty()
    {
        let because = because(&controller.connection);
        controller.connection.transport = tunnel(controller.copy, because);
    }
}

/// Begins the next attempt, or continues the present one once the port is known.
pub fn advance(controller: &mut TransferController<'_>) -> Result<(), Error> {
    loop {
        let Some(attempt) = &controller.connection.attempt else {
            let Some(direction) = controller.connection.directions.pop_front() else { return Ok(()) };
            let (acceptor, at, is_empty) = (direction.acceptor, direction.at, direction.is_empty());
            controller.connection.attempt = Some(ConnectAttempt { direction, is_connecting: false });
            if is_empty {
                fail_attempt(controller, &DirectionError::NoAddress);
            } else if !controller.connection.listening.is_of(acceptor) {
                listen(controller, acceptor, at)?;
            }
            continue;
        };
        if attempt.is_connecting || !matches!(controller.connection.listening, PendingListen::Answered(..)) {
            return Ok(());
        }
        match std::mem::take(&mut controller.connection.listening) {
            PendingListen::Answered(_, Ok(port)) => connect(controller, port)?,
            PendingListen::Answered(_, Err(error)) => fail_attempt(controller, &error),
            PendingListen::No | PendingListen::Asked(_) => {}
        }
    }
}

/// Has one end connect to this port of the other one.
fn connect(controller: &mut TransferController<'_>, port: u16) -> Result<(), Error> {
    let Some(attempt) = &mut controller.connection.attempt else { return Ok(()) };
    attempt.is_connecting = true;
    let (connector, routes) = (attempt.direction.connector, attempt.direction.routes(port));
    controller.reports.expect_answer(connector);
    controller.workers.send(connector, &ControllerMessage::Connect { routes, timeout_ms: CONNECT_TIMEOUT_MS })
}

/// Returns the user's option that rules out another path.
fn conflicting_option(network: &NetworkOptions) -> Option<String> {
    let named = [network.callback.as_ref().map(|_| "--callback"), network.bind.as_ref().map(|_| "--bind")];
    let direct = (network.transport == Transport::Tcp).then_some("--transport tcp");
    let family = network.family.map(|family| family.option());
    let options: Vec<_> = named.into_iter().flatten().chain(family).chain(direct).collect();
    (!options.is_empty()).then(|| options.join(" and "))
}

fn open_tunnel(controller: &mut TransferController<'_>) -> Result<(), Error> {
    controller.connection.tunnel = TunnelState::Opening(2);
    for (role, connector) in [(WorkerRole::Target, false), (WorkerRole::Source, true)] {
        controller.reports.expect_answer(role);
        controller.workers.send(role, &ControllerMessage::Tunnel { connector })?;
    }
    Ok(())
}
