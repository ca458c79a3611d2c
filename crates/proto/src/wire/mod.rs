//! The wire format: messages and records of `docs/PROTOCOL.md`.

pub mod address;
pub mod authority;
pub mod checksum;
pub mod compressed_frame;
pub mod compressed_message;
pub mod control_channel;
pub mod counters;
pub mod difference;
pub mod expansion;
pub mod file_session;
pub mod frame;
pub mod handshake;
pub mod list_batch;
pub mod measure;
pub mod message;
pub mod network_settings;
pub mod owners;
pub mod partials;
pub mod pipe;
pub mod preserve;
pub mod ranges;
pub mod replica_session;
pub mod report;
pub mod request;
pub mod resource_metrics;
pub mod route;
#[doc(hidden)]
pub mod samples;
pub mod sandbox;
pub mod serve;
pub mod source_activity;
pub mod sparse;
pub mod storage;
pub mod worker_ends;
pub mod write_options;
