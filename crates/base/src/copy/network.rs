//! Options of data connections. By default, haul tries all ways and keeps the fastest.

/// Options of data connections.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct NetworkOptions {
    /// `--callback`: the address of the accepting end; no other way is tried.
    pub callback: Option<CallbackAddress>,
    /// `--bind`: an address or an interface of this machine (of the source, if both ends are remote) for connections.
    pub bind: Option<String>,
    /// `-4`, `-6`: the only address family.
    pub family: Option<AddressFamily>,
    /// `--reverse`: the target connects to the source, if possible.
    pub reverse: bool,
    /// `--data-ports`: the ports to accept connections on, the first and the last.
    pub ports: Option<(u16, u16)>,
    /// `--paths all`: several links are used at once.
    pub all_paths: bool,
    /// `--transport`: the permitted transport.
    pub transport: Transport,
    /// A direct connection failed lately, so data begins to go through ssh at once. Direct ones are tried all the same.
    pub is_direct_unlikely: bool,
}

/// The permitted transport of data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Transport {
    /// Direct connections where possible, else ssh.
    #[default]
    Auto,
    /// The ssh connection only.
    Ssh,
    /// Direct connections only.
    Tcp,
}

/// An address for the data connections, as typed.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CallbackAddress {
    /// A name, or an address without brackets.
    pub host: String,
    /// The port to accept on.
    pub port: Option<u16>,
}

/// An address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum AddressFamily {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl AddressFamily {
    /// Whether an address belongs to this family.
    pub fn has(self, address: &std::net::IpAddr) -> bool {
        (self == Self::V4) == address.is_ipv4()
    }

    /// The option for it, the same in haul and ssh.
    pub fn option(self) -> &'static str {
        match self {
            Self::V4 => "-4",
            Self::V6 => "-6",
        }
    }
}
