//! The library under haul: moves data between machines, sealed and verified.
//!
//! It never prints, reads the environment or exits: [`copy::run`] takes a [`spec::Job`], tells an
//! [`event::Observer`] what happens, and returns a [`event::Summary`] or an [`error::Error`]. [`worker::run`] is
//! what a process at either end does. The map is in `docs/ARCHITECTURE.md`.

#![deny(unsafe_code)]

pub mod audit;
pub mod bootstrap;
pub mod cancel;
pub mod checksum;
pub mod codec;
pub mod copy;
mod crossing;
mod delta_tally;
pub mod error;
pub mod event;
pub mod explain;
pub mod fs;
mod lanes;
mod lifeline;
mod link;
mod list;
mod load;
pub mod measure;
mod mending;
mod network;
pub mod os;
mod pace;
mod packing;
pub mod partials;
pub mod policy;
pub mod probe;
mod program;
pub mod rate;
mod report;
mod run;
pub mod scratch;
pub mod serve;
mod shown;
mod signal;
mod silence;
mod slowest;
mod source;
pub mod spec;
mod stages;
pub mod steering;
mod storage;
mod stream;
pub use stream::aead;
pub mod survey;
mod sync_tally;
mod target;
#[cfg(test)]
mod testing;
mod tuning;
pub mod worker;
