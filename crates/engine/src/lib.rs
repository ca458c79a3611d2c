//! The library under haul: moves data between machines, sealed and verified.
//!
//! It never prints, reads the environment or exits: [`controller::run`] takes a [`job::spec::Job`], tells an
//! [`job::event::Observer`] what happens, and returns a [`job::event::Summary`] or an [`job::error::Error`]. [`worker::run`] is
//! what a process at either end does. The map is in `docs/ARCHITECTURE.md`.

#![deny(unsafe_code)]

// The rooms, the ground first: each imports only from those above it in this list. `cargo xtask imports` holds that.
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
