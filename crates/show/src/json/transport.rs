//! The transport path as JSON.

use haul_base::copy::event::{NetworkPath, TransportPath};
use serde::Serialize;

/// The transport path.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TransportFields<'a> {
    /// No data.
    None,
    /// Within one process.
    Local {
        /// Its host.
        host: Option<&'a str>,
    },
    /// Over TCP.
    Tcp {
        /// The first path.
        #[serde(flatten)]
        path: PathFields<'a>,
        /// Further paths.
        others: Vec<PathFields<'a>>,
        /// Why the first choice was not used.
        instead_of: Option<&'a str>,
    },
    /// Within ssh.
    Ssh {
        /// Why there was no TCP connection.
        because: &'a str,
    },
    /// Within the connections of this machine to servers.
    Control {
        /// Why there was no TCP connection.
        because: &'a str,
    },
}

/// A path between two hosts.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct PathFields<'a> {
    from: &'a str,
    interface: Option<&'a str>,
    mbit_per_s: Option<u32>,
    to: &'a str,
}

impl<'a> From<&'a TransportPath> for TransportFields<'a> {
    fn from(transport: &'a TransportPath) -> Self {
        match transport {
            TransportPath::None => Self::None,
            TransportPath::Local { host } => Self::Local { host: host.as_deref() },
            TransportPath::Tcp { path, others, instead_of } => Self::Tcp {
                path: path.into(),
                others: others.iter().map(PathFields::from).collect(),
                instead_of: instead_of.as_deref(),
            },
            TransportPath::Tunnel { is_ssh, because } => match is_ssh {
                true => Self::Ssh { because },
                false => Self::Control { because },
            },
        }
    }
}

impl<'a> From<&'a NetworkPath> for PathFields<'a> {
    fn from(NetworkPath { from, to, interface, mbit_per_s }: &'a NetworkPath) -> Self {
        Self { from, interface: interface.as_deref(), mbit_per_s: *mbit_per_s, to }
    }
}
