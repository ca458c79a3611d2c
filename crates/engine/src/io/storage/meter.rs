//! Time of a stream's thread in storage calls: elapsed time and CPU time.

use std::time::{Duration, Instant};

use crate::sys::usage::thread_cpu;

/// The cost of a number of bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IoCost {
    /// Bytes.
    pub bytes: u64,
    /// Elapsed time.
    pub elapsed: Duration,
    /// CPU time of this thread.
    pub cpu: Duration,
}

/// Sums the cost of calls, while enabled.
#[derive(Debug, Default)]
pub struct IoMeter {
    cost: IoCost,
    on: bool,
}

impl IoMeter {
    /// Resets it; with `on` unset, it measures nothing.
    pub fn reset(&mut self, on: bool) {
        *self = Self { cost: IoCost::default(), on };
    }

    /// Runs `calls`, and measures it.
    pub fn time<T>(&mut self, calls: impl FnOnce() -> T) -> T {
        if !self.on {
            return calls();
        }
        let (begun, cpu) = (Instant::now(), thread_cpu());
        let result = calls();
        self.cost.elapsed += begun.elapsed();
        self.cost.cpu += thread_cpu().saturating_sub(cpu);
        result
    }

    /// Counts bytes.
    pub fn count(&mut self, bytes: u64) {
        self.cost.bytes += bytes;
    }

    /// Returns the cost so far.
    pub fn cost(&self) -> IoCost {
        self.cost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_takes_time_without_cpu_and_only_requested_measurements_are_made() {
        let mut meter = IoMeter::default();
        meter.time(|| std::thread::sleep(Duration::from_millis(5)));
        assert_eq!(meter.cost(), IoCost::default());
        meter.reset(true);
        meter.time(|| std::thread::sleep(Duration::from_millis(5)));
        meter.count(3);
        let cost = meter.cost();
        assert!(cost.bytes == 3 && cost.elapsed >= Duration::from_millis(5) && cost.cpu < cost.elapsed);
    }
}
