//! Upper limits of options and of a server's settings.

/// Highest rate, in bytes per second.
pub const RATE_MAX: u64 = 1 << 40;
/// Most clients of a server at a time.
pub const CLIENTS_MAX: u32 = 1024;
