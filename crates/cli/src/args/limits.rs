//! Upper limits of options, and of the same settings in the file of a server.

/// Highest rate, in bytes a second.
pub const RATE_MAX: u64 = 1 << 40;
/// Most clients of a server at a time.
pub const CLIENTS_MAX: u32 = 1024;
