//! Waits of lookups for a disk or a server, as opposed to a CPU.

use std::time::{Duration, Instant};

use crate::sys::usage;

/// Shortest lookup that counts as a wait for a disk or a server. A cached lookup takes 1 to 2 µs.
const SLOW: Duration = Duration::from_micros(20);

/// Most time counted per lookup: one long wait is less significant than many short ones.
const COUNTED_MAX: Duration = Duration::from_millis(1);

/// One lookup in so many is measured: two readings of the clock cost a tenth of a cached lookup.
const MEASURED_PART: u32 = 4;

/// Waits of one thread's lookups.
pub(super) struct LookupWaits {
    /// Number of lookups.
    pub lookups: u32,
    /// Their total waits, estimated from the measured ones.
    pub waited: Duration,
    /// Waits since the last check for preemptions.
    unchecked: Duration,
    /// Involuntary context switches of this thread at that check.
    preemptions: u64,
}

impl LookupWaits {
    /// Starts to measure the calling thread.
    pub fn new() -> Self {
        let preemptions = usage::thread_use().preemptions;
        Self { lookups: 0, waited: Duration::ZERO, unchecked: Duration::ZERO, preemptions }
    }

    /// Makes one lookup, and measures it if it is its turn.
    pub fn time<T>(&mut self, lookup: impl FnOnce() -> T) -> T {
        self.lookups += 1;
        if !self.lookups.is_multiple_of(MEASURED_PART) {
            return lookup();
        }
        let began = Instant::now();
        let found = lookup();
        self.count(began.elapsed());
        found
    }

    fn count(&mut self, took: Duration) {
        if took < SLOW {
            return;
        }
        self.unchecked += took.min(COUNTED_MAX) * MEASURED_PART;
        if self.unchecked < COUNTED_MAX {
            return;
        }
        // If other threads used the CPU meanwhile, the time is meaningless.
        let preemptions = usage::thread_use().preemptions;
        let waited = std::mem::take(&mut self.unchecked);
        if preemptions == self.preemptions {
            self.waited += waited;
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

    const MEASURED_MAX: Duration = COUNTED_MAX.saturating_mul(MEASURED_PART);

    #[test]
    fn counts_waits_but_not_quick_lookups() {
        let mut waits = LookupWaits::new();
        assert_eq!((0..MEASURED_PART).map(|i| waits.time(|| i)).sum::<u32>(), 6);
        waits.count(SLOW - Duration::from_nanos(1));
        assert_eq!(waits.drain(), (MEASURED_PART, Duration::ZERO));
        waits.preemptions = usage::thread_use().preemptions;
        while waits.waited.is_zero() {
            // Rounds with an involuntary context switch between them do not count.
            waits.count(COUNTED_MAX / 2);
        }
        assert_eq!(waits.drain().1, MEASURED_MAX / 2);
        while waits.waited.is_zero() {
            waits.count(Duration::from_secs(5));
        }
        assert_eq!(waits.drain().1, MEASURED_MAX);
        waits.preemptions = u64::MAX;
        waits.count(Duration::from_millis(3));
        assert_eq!(waits.drain().1, Duration::ZERO, "it was preempted meanwhile");
    }

    #[test]
    fn preemptions_are_read_once_for_many_short_waits() {
        let mut waits = LookupWaits::new();
        waits.preemptions = u64::MAX;
        let unread = COUNTED_MAX.as_micros() / (SLOW * MEASURED_PART).as_micros() - 1;
        (0..unread).for_each(|_| waits.count(SLOW));
        assert_eq!(waits.preemptions, u64::MAX);
        waits.count(SLOW * 2);
        assert_ne!(waits.preemptions, u64::MAX);
    }
}
