//! What a worker learns from the process that it runs in.

use std::path::PathBuf;
use std::sync::Arc;

use haul_base::copy::allowance::Allowance;
use haul_base::copy::work_progress::WorkProgress;

use crate::policy::HostPolicy;
use crate::policy::audit::{AuditError, AuditLog};
use crate::worker::client_limits::ClientLimits;

/// The part of the process environment that a worker uses. The library itself reads no environment variables.
#[derive(Debug, Clone)]
pub struct Environment {
    /// `SSH_CONNECTION`, if ssh started the worker.
    pub ssh_connection: Option<String>,
    /// The directory for persistent state.
    pub state_dir: Option<PathBuf>,
    /// The user's home directory.
    pub home: Option<PathBuf>,
    /// The host's policy.
    pub policy: HostPolicy,
    /// The audit log if the policy requires one, or the reason why it is unavailable.
    pub audit: Result<Option<Arc<AuditLog>>, Arc<AuditError>>,
    /// Whether a controller deployed this executable to the host.
    pub is_deployed: bool,
    /// The file mode creation mask.
    pub umask: u16,
    /// The limits that a server imposes, if one started the worker.
    pub served: Option<ClientLimits>,
    /// The server's byte allowance for all its clients.
    pub allowance: Option<Arc<Allowance>>,
    /// Figures of the copy for a server.
    pub progress: Option<Arc<WorkProgress>>,
}
