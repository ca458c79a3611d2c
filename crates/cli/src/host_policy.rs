//! The policy of this host, set by its administrator and its user.

use std::path::PathBuf;

use haul_engine::policy::{self, HostPolicy};

use crate::user_dirs::config_dir;

/// Reads the policy for all users of this host, and the user's own.
pub fn read() -> HostPolicy {
    let own = config_dir().map(|config| config.join("haul/policy"));
    let files: Vec<_> = std::iter::once(PathBuf::from(policy::HOST_FILE)).chain(own).collect();
    HostPolicy::read(&files)
}
