//! Errors of a worker: what ends it, and why it refuses a Request.

use std::io;
use std::sync::Arc;

use haul_base::control_channel::ControlError;
use haul_base::sys::describe::{describe, describe_start};
use haul_proto::error::ProtocolError;
use haul_proto::path::escape;

use crate::net::stream::StreamError;
use crate::policy::audit::AuditError;
use crate::policy::{PolicyFileError, PolicyRefusal};
use crate::replica::ReplicaError;
use crate::source::expansion::ExpansionError;
use crate::worker::client_refusal::ClientRefusal;
use crate::worker::measure::MeasureError;
use crate::worker::predecessor::RunningPredecessor;

/// What ends a worker before its work is complete.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// A message violates the protocol.
    #[error("{0}")]
    Protocol(#[from] ProtocolError),
    /// A message of the other end violates it.
    #[error("{0}")]
    Peer(#[source] ProtocolError),
    /// A message does not fit the state of the worker.
    #[error("{0}")]
    MessageOrder(#[from] MessageOrderError),
    /// Lines of expected digests that the target does not accept.
    #[error("{0}")]
    ExpectedDigests(&'static str),
    /// The control channel is broken.
    #[error("lost the connection to the controller: {0}")]
    ControlChannel(#[source] ControlError),
    /// The host's policy requires a sandbox, and the kernel has none.
    #[error("{0}")]
    Policy(#[from] PolicyRefusal),
    /// The worker of an earlier attempt does not end.
    #[error("{0}")]
    Predecessor(#[from] RunningPredecessor),
    /// There are no sockets for a tunnel.
    #[error("cannot open a tunnel: {}", describe(.0))]
    Tunnel(#[source] io::Error),
    /// There is no thread for connecting.
    #[error("cannot start a thread: {}", describe_start(.0))]
    Thread(#[source] io::Error),
    /// The program of a served pipe did not start.
    #[error("cannot start the program: {0}")]
    Program(#[source] io::Error),
    /// A stream without a socket failed.
    #[error("{0}")]
    Stream(#[from] StreamError),
    /// All data connections broke.
    #[error("lost the data connections, and no new one could be opened")]
    DataConnections,
}

impl WorkerError {
    /// Whether a retry is useless: the other end violated the protocol, or a limit of this host is reached.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Peer(_) | Self::Thread(_))
    }
}

/// A message that does not fit the state of the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MessageOrderError {
    /// A message of the other end before Start.
    #[error("protocol error: message of the other end out of order")]
    PeerMessage,
    /// A Request to a worker in its sandbox.
    #[error("protocol error: request after the start")]
    RequestAfterStart,
    /// A file session in a copy.
    #[error("protocol error: file session during a copy")]
    FileSessionDuringCopy,
    /// A replica session in a copy.
    #[error("protocol error: replica session during a copy")]
    ReplicaDuringCopy,
    /// A step without a replica session, or before the answer to the one before.
    #[error("protocol error: step of a replica session out of order")]
    ReplicaStep,
    /// A file operation without a file session.
    #[error("protocol error: file operation without a file session")]
    FileOperation,
    /// Too many unanswered file operations.
    #[error("protocol error: too many unanswered file operations")]
    FileOperationsAhead,
    /// A measurement by a source or target.
    #[error("protocol error: measurement during a copy")]
    MeasurementDuringCopy,
    /// Expected digests for a worker that is no target.
    #[error("protocol error: digests before a request to the target")]
    DigestsBeforeRequest,
    /// Source arguments for a worker that is no source.
    #[error("protocol error: source arguments before a request to the source")]
    SourceBatchBeforeRequest,
    /// Destinations of source arguments for a worker that is no target.
    #[error("protocol error: source arguments before a request to the target")]
    DestinationBatchBeforeRequest,
    /// A rate limit for a worker that is no source.
    #[error("protocol error: rate limit before a request to the source")]
    RateBeforeRequest,
    /// A pause for a worker that is no source.
    #[error("protocol error: pause before a request to the source")]
    PauseBeforeRequest,
    /// A number of streams before Start.
    #[error("protocol error: stream count before the start")]
    StreamsBeforeStart,
    /// A number of streams for a target.
    #[error("protocol error: stream count for a target")]
    StreamsOfTarget,
    /// A data connection before Start.
    #[error("protocol error: connection before the start")]
    ConnectionBeforeStart,
    /// Start for a worker that is neither source nor target.
    #[error("protocol error: start before a request")]
    StartBeforeRequest,
    /// Start for a running copy.
    #[error("protocol error: second start")]
    SecondStart,
    /// A data connection for a worker that is neither source nor target.
    #[error("protocol error: connection before a request")]
    ConnectionBeforeRequest,
}

/// Why a worker refuses a Request.
#[derive(Debug, thiserror::Error)]
pub enum RequestRefusal {
    /// A policy file of the host forbids every copy.
    #[error("haul runs no copies here: {0}")]
    PolicyFile(#[source] Arc<PolicyFileError>),
    /// The host's policy forbids this copy.
    #[error("{0}")]
    Policy(#[from] PolicyRefusal),
    /// The host's audit log does not work.
    #[error("{0}")]
    AuditLog(#[source] Arc<AuditError>),
    /// The host's audit log records digests, and the session computes none.
    #[error("the audit log of this host needs the BLAKE3 of each file, but the session has none")]
    AuditDigests,
    /// The kernel lacks the congestion control.
    #[error("congestion control '{name}' is not available here\navailable: {available}; others need modprobe tcp_NAME", name = escape(.name.as_bytes()))]
    CongestionControl {
        /// The requested name.
        name: String,
        /// The names that the kernel knows.
        available: String,
    },
    /// The server's limits exclude it.
    #[error("{0}")]
    Client(#[from] ClientRefusal),
    /// The target cannot be used.
    #[error("{text}")]
    Target {
        /// Whether the user's options or arguments are the cause.
        usage: bool,
        /// What the receiver says.
        text: String,
    },
    /// The measurement failed.
    #[error("{0}")]
    Measurement(#[from] MeasureError),
    /// The patterns of the sources cannot be expanded.
    #[error("{0}")]
    Expansion(#[from] ExpansionError),
    /// The replica cannot be synchronised.
    #[error("{0}")]
    Replica(#[from] ReplicaError),
    /// The host's audit log records copies alone.
    #[error("the audit log of this host records no two-way synchronisation")]
    AuditReplica,
}

impl RequestRefusal {
    /// Whether the user's options or arguments are the cause.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Client(_) | Self::CongestionControl { .. } | Self::Expansion(_) => true,
            Self::Target { usage, .. } => *usage,
            Self::PolicyFile(_)
            | Self::Policy(_)
            | Self::AuditLog(_)
            | Self::AuditDigests
            | Self::Measurement(_)
            | Self::Replica(_)
            | Self::AuditReplica => false,
        }
    }
}
