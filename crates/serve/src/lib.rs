//! `haul serve`: directories that clients reach with a secret or a key, without ssh.
//!
//! A client starts `dial` instead of ssh. It makes a TLS connection to the server, authenticates, and then relays the
//! control channel between its controller and the server's worker. Requests and data streams are those of every copy.
//!
//! - `tls`, `auth`: TLS of both ends, and authentication over it.
//! - `preauth_socket`, `unauthenticated`: limits on clients that have not authenticated.
//! - `server`, `session`: the listener, and one client of it. `relay`: between TLS and the worker's pipes. `dial`: the
//!   client.

#![deny(unsafe_code)]

mod auth;
mod dial;
mod offer;
mod preauth_socket;
mod relay;
mod server;
mod session;
mod tls;
mod unauthenticated;

pub use dial::{DialError, dial};
pub use offer::{
    ReloadedOffer, ServeEvent, ServeObserver, ServeOffer, ServedContent, ServedCredential, ServedDirectory,
};
pub use server::{ServeListener, ServeUntil};
