//! A flag that stops a copy.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Interval at which a wait checks the flag.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Stops a copy when set. Clones are the same flag.
#[derive(Debug, Clone, Default)]
pub struct Cancel {
    own: Arc<AtomicBool>,
    /// The flag of the whole, which also cancels this part.
    whole: Option<Arc<AtomicBool>>,
}

impl Cancel {
    /// Not set.
    pub fn new() -> Self {
        Self::default()
    }

    /// A flag for a part of the work: set by itself, or with this one.
    pub fn of_part(&self) -> Self {
        Self { own: Arc::default(), whole: Some(Arc::clone(&self.own)) }
    }

    /// Sets it permanently.
    pub fn cancel(&self) {
        self.own.store(true, Ordering::Relaxed);
    }

    /// Whether it is set.
    pub fn is_cancelled(&self) -> bool {
        self.own.load(Ordering::Relaxed) || self.whole.as_ref().is_some_and(|whole| whole.load(Ordering::Relaxed))
    }

    /// Waits for it to be set, for at most `limit`. Returns whether it is set.
    pub fn wait(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        while !self.is_cancelled() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            thread::sleep(left.min(POLL_INTERVAL));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_stops_with_its_parent_and_not_vice_versa() {
        let whole = Cancel::new();
        let [first, second] = [whole.of_part(), whole.of_part()];
        first.clone().cancel();
        assert!(first.is_cancelled() && !second.is_cancelled() && !whole.is_cancelled());
        whole.cancel();
        assert!(second.is_cancelled());
    }
}
