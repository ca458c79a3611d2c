//! How data travels between the ends of a copy.

/// Transport of the data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum TransportPath {
    /// No data was sent.
    #[default]
    None,
    /// Within one process, without a socket.
    Local {
        /// The host, as typed; `None` for this one.
        host: Option<String>,
    },
    /// TCP.
    Tcp {
        /// The path of the data; the first path with `--paths all`.
        path: NetworkPath,
        /// Further paths, if several are used.
        others: Vec<NetworkPath>,
        /// Why the first choice was not used, if so.
        instead_of: Option<String>,
    },
    /// Through the control connections.
    Tunnel {
        /// Whether an end was reached by ssh; otherwise through the connections of this machine to servers.
        is_ssh: bool,
        /// Why there is no TCP connection.
        because: String,
    },
}

/// A path between two hosts; `from` connected to `to`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkPath {
    /// Address and port of the end that connected.
    pub from: String,
    /// Address and port of the end that accepted.
    pub to: String,
    /// The interface with this address at the end that connected, if reported.
    pub interface: Option<String>,
    /// The speed of the slower one of both ends' interfaces.
    pub mbit_per_s: Option<u32>,
}

impl TransportPath {
    /// Whether data travels over TCP without leaving its host.
    pub fn is_within_host(&self) -> bool {
        matches!(self, Self::Tcp { path, .. } if path.is_within_host())
    }
}

impl NetworkPath {
    /// Whether both ends have one address.
    pub fn is_within_host(&self) -> bool {
        let [from, to] = [&self.from, &self.to].map(|end| end.rsplit_once(':').map(|(address, _)| address));
        from.is_some() && from == to
    }
}
