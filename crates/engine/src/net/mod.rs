//! The network between two workers: encrypted streams, their paths, number and rate.

pub mod controller_watchdog;
pub mod message_compression;
pub mod multipath;
pub mod rate_limiter;
pub mod stream;
pub mod stream_pool;
