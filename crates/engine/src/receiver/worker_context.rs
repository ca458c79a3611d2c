//! The environment of the worker process.

use std::path::PathBuf;
use std::sync::Arc;

use haul_base::copy::allowance::Allowance;

use crate::policy::HostPolicy;

/// The environment of the worker process.
#[derive(Debug, Default)]
pub struct WorkerContext {
    /// The file mode creation mask.
    pub umask: u16,
    /// The directory of remembered trees; `None` if there is none.
    pub state_dir: Option<PathBuf>,
    /// Restrictions by the host's policy.
    pub policy: HostPolicy,
    /// Rate limit, in bytes per second.
    pub rate: Option<u64>,
    /// A server's limit for all its clients.
    pub allowance: Option<Arc<Allowance>>,
    /// Symbolic links that lead out of the working directory are refused.
    pub links_inside: bool,
    /// Existing entries keep their metadata.
    pub creates_only: bool,
}
