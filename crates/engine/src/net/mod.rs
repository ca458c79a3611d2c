//! The network between two workers: encrypted streams, the paths that they take, their number and their rate.

pub mod controller_watchdog;
pub mod message_compression;
pub mod multipath;
pub mod rate_limiter;
pub mod stream;
pub mod stream_pool;
