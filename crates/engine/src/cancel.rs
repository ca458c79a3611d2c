//! A flag that stops a job.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Stops a job when set. Clones are the same flag.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Not set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets it, for good.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it is set.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
