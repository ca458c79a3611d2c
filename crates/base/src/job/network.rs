//! What a user may say of how data connections are made. By itself, haul tries everything and keeps what carries most.

/// How data connections are made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkOptions {
    /// `-H`: where the end that accepts is reached; no other way is tried.
    pub callback: Option<CallbackAddress>,
    /// `--bind`: an address or an interface of this machine, or of the source where both ends are elsewhere: connections
    /// are made from there or accepted there.
    pub bind: Option<String>,
    /// `-4`, `-6`: the only kind of addresses that are used.
    pub family: Option<AddressFamily>,
    /// `-z`: the target connects to the source, if that can be.
    pub reverse: bool,
    /// `-Z`: the ports to accept connections on, the first and the last.
    pub ports: Option<(u16, u16)>,
    /// `--paths all`: several links are used at once.
    pub all_paths: bool,
}

/// An address for the data connections, as the user gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallbackAddress {
    /// A name, or an address without brackets.
    pub host: String,
    /// The port to accept on.
    pub port: Option<u16>,
}

/// A kind of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressFamily {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl AddressFamily {
    /// Whether an address is of this kind.
    pub fn has(self, address: &std::net::IpAddr) -> bool {
        (self == Self::V4) == address.is_ipv4()
    }

    /// The option that asks for it, of haul and of ssh alike.
    pub fn option(self) -> &'static str {
        match self {
            Self::V4 => "-4",
            Self::V6 => "-6",
        }
    }
}
