//! Checkpoints of one file.

use rustix::io::Errno;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// How far a file's checkpoints are.
#[derive(Default)]
pub struct Saving {
    /// It is listed for the next checkpoint.
    pub is_listed: AtomicBool,
    /// Its name and its journal's were put on the disk.
    pub is_named: AtomicBool,
    /// It is whole: it goes to the disk in any case.
    pub is_over: AtomicBool,
    /// Error of a failed sync. The kernel reports it once, so a later sync would not return it again.
    pub failed: OnceLock<Errno>,
}

impl Saving {
    /// The file is whole: there are no more checkpoints of it.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}
