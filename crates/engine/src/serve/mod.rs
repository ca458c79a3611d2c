//! `haul serve`: directories that are reached by whoever knows a secret or has a key, without ssh.
//!
//! A client starts a [`dial`] in the place of ssh; it makes a TLS connection to the server, proves itself, and from
//! there on carries what the client's controller and the server's worker say to each other. Both ends of a copy, their
//! Requests and their streams are those of every copy.
//!
//! - `pass`: secrets and keys. `tls`: the two ends' TLS. `proof`: who is who, over it. `relay`: between it and two pipes.
//! - `bounded`: a socket before its other end has proven itself. `dial`: the client. `server`: the server; `session`: one client of it; `strangers`: those who prove nothing.
//! - `terms`: what a served worker is held to; `hold`: which Requests follow from it; `account`: what it did; `allowance`: what
//!   all of a directory's clients may still bring.

mod bounded;
mod dial;
mod proof;
mod relay;
mod server;
mod session;
mod strangers;
mod tls;

pub use dial::dial;
pub use server::{Credential, Directory, Log, Offer, Reloaded, Served, Server, Until};
