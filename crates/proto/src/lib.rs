//! The protocol of haul: everything that can be decided without a system call.
//!
//! No I/O, no clock, no threads, no unsafe code: what two ends say to each other, what may follow what,
//! which bytes prove what, and who sends which piece next. `haul-engine` carries it out.
//! The normative text is `docs/PROTOCOL.md`.
#![forbid(unsafe_code)]

pub mod advice;
pub mod candidates;
pub mod checksum;
pub mod codec;
pub mod compression;
pub mod cpus;
pub mod delta;
pub mod diagnose;
pub mod expected;
pub mod filter;
pub mod forecast;
pub mod group;
pub mod ids;
pub mod integrity;
pub mod journal;
pub mod linked;
pub mod manifest;
pub mod mend;
pub mod more;
pub mod need;
pub mod pacing;
pub mod path;
pub mod paths;
pub mod plan;
pub mod ranges;
pub mod session;
pub mod timestamps;
pub mod tune;
pub mod wire;
