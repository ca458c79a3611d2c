//! Detects a full file system, so that further new files are refused without an attempt.

use std::sync::Mutex;

use haul_base::sys::sync::lock;

use crate::receiver::place::error::FileError;

/// Consecutive failures that show a full file system.
const FAILURES_MIN: u32 = 16;

/// Consecutive failures for lack of space on one file system.
#[derive(Default)]
pub struct FullDisk(Mutex<ConsecutiveFailures>);

#[derive(Default)]
struct ConsecutiveFailures {
    /// `st_dev` of the file system of the last failure.
    device: u64,
    count: u32,
    /// The last error.
    last: Option<FileError>,
}

impl FullDisk {
    /// Counts a failed file on this device, if the error was lack of space or quota.
    pub fn record_failure(&self, device: u64, error: &FileError) {
        if !error.is_no_space() {
            return;
        }
        let mut failures = lock(&self.0);
        let before = if failures.device == device { failures.count } else { 0 };
        *failures = ConsecutiveFailures { device, count: before.saturating_add(1), last: Some(error.clone()) };
    }

    /// Records a successful write.
    pub fn record_success(&self) {
        lock(&self.0).count = 0;
    }

    /// Why a new file on this device is refused without an attempt, if it is.
    pub fn refusal(&self, device: u64) -> Option<FileError> {
        let failures = lock(&self.0);
        failures.last.clone().filter(|_| failures.count >= FAILURES_MIN && failures.device == device)
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn a_device_is_full_after_failures_without_a_success() {
        let full = Errno::NOSPC.into();
        let disk = FullDisk::default();
        let fail = |count: u32| (0..count).for_each(|_| disk.record_failure(1, &full));
        fail(FAILURES_MIN - 1);
        disk.record_success();
        fail(FAILURES_MIN - 1);
        disk.record_failure(1, &Errno::ACCESS.into());
        assert!(disk.refusal(1).is_none());
        fail(1);
        assert!(disk.refusal(1).is_some_and(|error| error.is_no_space()));
        assert!(disk.refusal(2).is_none(), "another file system has space");
        disk.record_failure(2, &full);
        assert!(disk.refusal(1).is_none());
    }
}
