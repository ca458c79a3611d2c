//! Waits of lookups for a disk or a server, as opposed to a CPU.

use std::time::{Duration, Instant};

use crate::sys::usage;

/// Shortest lookup that counts as a wait for a disk or a server. A cached lookup takes 1 to 2 µs.
const SLOW: Duration = Duration::from_micros(20);

/// Most time counted per lookup: one long wait is less significant than many short ones.
const COUNTED_MAX: Duration = Duration::from_millis(1);

/// Waits of one thread's lookups.
pub(super) struct LookupWaits {
    /// Number of lookups.
    pub lookups: u32,
    /// Their total waits.
    pub waited: Duration,
    /// Involuntary context switches of this thread at the last check.
    preemptions: u64,
}

impl LookupWaits {
    /// Starts to measure the calling thread.
    pub fn new() -> Self {
        Self { lookups: 0, waited: Duration::ZERO, preemptions: usage::thread_use().preemptions }
    }

    /// Makes and measures one lookup.
    pub fn time<T>(&mut self, lookup: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let found = lookup();
        self.count(began.elapsed());
        found
    }

    fn count(&mut self, took: Duration) {
        self.lookups += 1;
        if took < SLOW {
            return;
        }
        // If other threads used the CPU meanwhile, the time is meaningless.
        let preemptions = usage::thread_use().preemptions;
        if preemptions == self.preemptions {
            self.waited += took.min(COUNTED_MAX);
        }
        self.preemptions = preemptions;
    }

    /// Returns the counts, and resets them.
    pub fn drain(&mut self) -> (u32, Duration) {
        (std::mem::take(&mut self.lookups), std::mem::take(&mut self.waited))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_waits_but_not_quick_lookups() {
        let mut waits = LookupWaits::new();
        assert_eq!(waits.time(|| 5), 5);
        waits.count(SLOW - Duration::from_nanos(1));
        assert_eq!(waits.drain(), (2, Duration::ZERO));
        waits.preemptions = usage::thread_use().preemptions;
        while waits.waited.is_zero() {
            // Rounds with an involuntary context switch between them do not count.
            waits.count(SLOW);
        }
        assert_eq!(waits.drain().1, SLOW);
        while waits.waited.is_zero() {
            waits.count(Duration::from_secs(5));
        }
        assert_eq!(waits.drain().1, COUNTED_MAX);
        waits.preemptions = u64::MAX;
        waits.count(Duration::from_millis(3));
        assert_eq!(waits.drain(), (1, Duration::ZERO), "it was preempted meanwhile");
    }
}
