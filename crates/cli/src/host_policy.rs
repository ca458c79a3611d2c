//! The policy of this host: what its administrator and its user allow haul.

use std::path::PathBuf;

use haul_engine::policy::{self, HostPolicy};

use crate::user_dirs::config_dir;

/// What all users of this host must not do, and what this one must not.
pub fn read() -> HostPolicy {
    let own = config_dir().map(|config| config.join("haul/policy"));
    let files: Vec<_> = std::iter::once(PathBuf::from(policy::HOST_FILE)).chain(own).collect();
    HostPolicy::read(&files)
}
