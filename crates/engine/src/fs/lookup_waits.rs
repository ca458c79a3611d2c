//! Waits of lookups for a disk or a server, as opposed to a CPU.

use std::time::{Duration, Instant};

use crate::sys::usage::thread_use;

/// Shortest lookup that counts as a wait for a disk or a server. A cached lookup takes 1 to 2 µs.
const SLOW: Duration = Duration::from_micros(20);

/// Most time counted per lookup: one long wait is less significant than many short ones.
const COUNTED_MAX: Duration = Duration::from_millis(1);

/// Time of slow lookups after which the next lookup shows whether they have waited.
const UNCHECKED_MAX: Duration = Duration::from_millis(8);

/// One lookup in so many is measured: two readings of the clock cost a tenth of a cached lookup.
const MEASURED_PART: u32 = 4;

/// Waits of one thread's lookups.
#[derive(Default)]
pub(super) struct LookupWaits {
    /// Number of lookups since [`Self::drain`].
    pub lookups: u32,
    /// Number of lookups in all, to find the turn of a measurement.
    turn: u32,
    /// Their total waits, estimated from the measured ones.
    pub waited: Duration,
    /// Time of slow lookups since the last check. They may have been preempted.
    unchecked: Duration,
}

/// The start of a measured lookup.
pub(super) struct LookupTiming {
    since: Instant,
    /// Voluntary context switches of the thread, if this lookup checks the others.
    waits: Option<u64>,
}

impl LookupWaits {
    /// Makes one lookup, and measures it if it is its turn.
    pub fn time<T>(&mut self, lookup: impl FnOnce() -> T) -> T {
        let timing = self.begin();
        let found = lookup();
        self.end(timing);
        found
    }

    /// Begins a lookup of the calling thread.
    pub fn begin(&mut self) -> Option<LookupTiming> {
        self.lookups += 1;
        self.turn = self.turn.wrapping_add(1);
        let checks = self.unchecked >= UNCHECKED_MAX;
        let waits = checks.then(|| thread_use().waits);
        (checks || self.turn.is_multiple_of(MEASURED_PART)).then(|| LookupTiming { since: Instant::now(), waits })
    }

    /// Ends it.
    pub fn end(&mut self, timing: Option<LookupTiming>) {
        let Some(LookupTiming { since, waits }) = timing else { return };
        let took = since.elapsed();
        let Some(waits) = waits else {
            if took >= SLOW {
                self.unchecked += took.min(COUNTED_MAX) * MEASURED_PART;
            }
            return;
        };
        // A thread that waits gives up its CPU. One that takes long otherwise was preempted, or is traced.
        let unchecked = std::mem::take(&mut self.unchecked);
        if took >= SLOW && thread_use().waits > waits {
            self.waited += unchecked;
        }
    }

    /// Returns the counts, and resets them.
    pub fn drain(&mut self) -> (u32, Duration) {
        (std::mem::take(&mut self.lookups), std::mem::take(&mut self.waited))
    }
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;

    use super::*;

    #[test]
    fn lookups_that_wait_count_and_long_ones_that_compute_do_not() {
        let mut waits = LookupWaits::default();
        (0..20 * MEASURED_PART).for_each(|_| waits.time(|| sleep(COUNTED_MAX)));
        let (lookups, waited) = waits.drain();
        assert_eq!(lookups, 20 * MEASURED_PART);
        // Each measured lookup stands for four, and a later one checks it.
        assert!(waited >= COUNTED_MAX * MEASURED_PART * 16, "{waited:?}");
        (0..200).for_each(|_| {
            waits.time(|| {
                let began = Instant::now();
                while began.elapsed() < 2 * SLOW {}
            });
        });
        assert_eq!(waits.waited, Duration::ZERO, "it computed");
        (0..1000).for_each(|_| waits.time(|| ()));
        assert_eq!(waits.waited, Duration::ZERO, "they were quick");
    }

    #[test]
    fn a_drain_after_each_lookup_prevents_no_measurement() {
        let mut waits = LookupWaits::default();
        let mut waited = Duration::ZERO;
        for _ in 0..8 * MEASURED_PART {
            waits.time(|| sleep(COUNTED_MAX));
            waited += waits.drain().1;
        }
        assert!(waited >= COUNTED_MAX * MEASURED_PART * 4, "{waited:?}");
    }

    #[test]
    fn usage_is_read_once_for_many_short_waits() {
        let mut waits = LookupWaits::default();
        let lookups = 1000;
        let checks = (0..lookups).filter(|_| {
            let timing = waits.begin();
            sleep(SLOW);
            let checks = timing.as_ref().is_some_and(|timing| timing.waits.is_some());
            waits.end(timing);
            checks
        });
        let checks = checks.count();
        assert!((1..lookups / 16).contains(&checks), "{checks}");
    }
}
