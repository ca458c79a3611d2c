//! The library of haul: transfers data between hosts, encrypted and verified.
//!
//! It never prints, reads the environment or exits. [`controller::run`] takes a [`job::spec::Job`], reports events to a
//! [`job::event::Observer`], and returns a [`job::summary::Summary`] or a [`job::error::Error`]. [`worker::run`] is the
//! main function of a process at either end. `docs/ARCHITECTURE.md` describes the components.

#![deny(unsafe_code)]

// The components from the lowest layer up: each imports only from those above it in this list. `cargo xtask imports`
// enforces this.
pub mod sys;

pub mod job;
pub mod policy;

pub mod fs;
pub mod metrics;

mod io;
mod net;

mod receiver;
mod source;

pub mod worker;

pub mod launch;

pub mod controller;

pub mod partials;
pub mod probe;
pub mod serve;
pub mod survey;

pub mod explain;
pub mod scratch;

#[cfg(test)]
mod testing;

pub use io::{checksum, codec};
pub use net::stream::aead;
