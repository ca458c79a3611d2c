//! The workers of haul: they read, encrypt, move, verify and write files, or measure what that would cost.
//!
//! [`worker::run`] is the main function of a process at either end. Nothing here prints, reads the environment or
//! exits. `docs/ARCHITECTURE.md` describes the components.

#![deny(unsafe_code)]

// The components from the lowest layer up: each imports only from those above it in this list. `cargo xtask imports`
// enforces this.
pub mod sys;

pub mod policy;

pub mod fs;
pub mod metrics;

mod io;
mod net;

mod receiver;
mod source;

mod replica;

pub mod partials;

pub mod worker;

#[cfg(test)]
mod testing;

// For the server (haul-serve) and for surveys (haul-inspect).
pub use io::storage::calls::read_at;
pub use io::storage::extents::FileExtents;
pub use io::{checksum, codec};
pub use net::stream::{accept, aead, preauth};
pub use receiver::made_by;
pub use source::origin;
