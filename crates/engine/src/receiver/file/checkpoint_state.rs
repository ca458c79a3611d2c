//! Checkpoints of one file.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;

/// Progress of a file's checkpoints.
#[derive(Default)]
pub struct Saving {
    /// It is listed for the next checkpoint.
    pub is_listed: AtomicBool,
    /// The names of the file and its journal are durable.
    pub is_named: AtomicBool,
    /// The file is complete, and needs no more checkpoints.
    pub is_over: AtomicBool,
    /// Error of a failed sync. The kernel reports an error once, so a later sync would succeed.
    pub failed: OnceLock<Errno>,
}

impl Saving {
    /// Ends checkpoints of a complete file.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}
