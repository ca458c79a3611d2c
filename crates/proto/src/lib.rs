//! The protocol of haul: all decisions that need no system call.
//!
//! The crate has no I/O, no clock, no threads and no unsafe code. It defines the messages, their valid order, the
//! integrity checks and the assignment of chunks to streams. `haul-engine` performs the transfer, and `haul-control` starts both ends. The normative text is
//! `docs/PROTOCOL.md`.
#![forbid(unsafe_code)]

pub mod advice;
pub mod checksum;
mod codec;
pub mod commit_queue;
pub mod compression;
pub mod cpus;
pub mod crawling_streams;
pub mod delta;
pub mod diagnose;
pub mod encoding;
pub mod entry;
pub mod entry_extras;
mod entry_metadata;
pub mod error;
pub mod expected_digests;
pub mod feature;
mod field_codecs;
pub mod file_range;
pub mod filter;
pub mod forecast;
pub mod hard_links;
pub mod ids;
pub mod integrity;
pub mod journal;
pub mod limits;
pub mod mode_rules;
pub mod overwrite_policy;
pub mod path;
pub mod path_candidates;
pub mod path_selection;
pub mod ranges;
pub mod rate_clock;
pub mod scheduler;
pub mod session;
pub mod stream_autotune;
pub mod stream_recovery;
pub mod stream_sample;
pub mod striping;
pub mod sync;
pub mod timestamps;
pub mod twoway;
pub mod watch;
pub mod wire;
