//! Hosts, and paths on them.

use std::path::PathBuf;

use crate::copy::spec::ClientCredentials;
/// A path on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The host.
    pub host: Host,
    /// The path there: relative ones start in the working directory here, in the login directory on a remote host.
    pub path: PathBuf,
}

/// A host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// This one.
    Local,
    /// A host reached by ssh.
    Remote {
        /// The account, where one was named.
        user: Option<String>,
        /// Name or address as ssh takes it (an IPv6 address without brackets).
        name: String,
    },
    /// A host with `haul serve`.
    Served {
        /// Name or address (an IPv6 address without brackets).
        name: String,
        /// Its port.
        port: u16,
        /// The name of its directory; empty if it has only one.
        directory: String,
        /// The credential.
        pass: ClientCredentials,
    },
}

impl Host {
    /// Its name or address, without the account; `None` for this host.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Local => None,
            Self::Remote { name, .. } | Self::Served { name, .. } => Some(name),
        }
    }
}
