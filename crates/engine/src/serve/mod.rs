//! `haul serve`: directories that are reached by whoever knows a secret, without ssh.
//!
//! A client starts a [`dial`] in the place of ssh; it makes a TLS connection to the server, proves the secret, and from
//! there on carries what the client's controller and the server's worker say to each other. Both ends of a copy, their
//! Requests and their streams are those of every copy.
//!
//! - `tls`: the two ends' TLS. `proof`: who is who, over it. `relay`: between it and two pipes.
//! - `dial`: the client. `server`: the server; `session`: one client of it.
//! - `terms`: what a served worker may be asked for.

mod dial;
mod proof;
mod relay;
mod server;
mod session;
pub mod terms;
mod tls;

pub use dial::dial;
pub use server::{Directory, Log, Offer, Served, Server, Until};
pub use terms::{Access, Did, Terms};

use haul_proto::wire::serve::{SECRET_LEN, parse_secret};
use std::fmt;
use std::io;

/// What a client and a server know, and nobody else. It is never shown, but for the one line that is printed to be
/// handed on.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; SECRET_LEN]);

impl Secret {
    /// A new one.
    pub fn new() -> io::Result<Self> {
        crate::stream::handshake::random().map(Self)
    }

    /// The one with these hexadecimal digits.
    pub fn parse(digits: &str) -> Option<Self> {
        parse_secret(digits).map(Self)
    }

    /// Its digits, for the one who is to have it.
    pub fn reveal(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
