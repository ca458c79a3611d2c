//! The slowest files, up to a limit.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use haul_base::sys::sync::lock;
use haul_proto::limits::SLOWEST_MAX;
use haul_proto::wire::report::SlowFile;

use crate::sys::usage::micros;

/// The slowest files so far.
#[derive(Debug, Default)]
pub struct SlowestFiles {
    /// Duration of the fastest file included, checked without the lock.
    least_us: AtomicU64,
    files: Mutex<Vec<SlowFile>>,
    /// Whether they changed since the last report.
    is_new: AtomicBool,
}

impl SlowestFiles {
    /// Records a file's duration.
    pub fn record(&self, took: Duration, size: u64, path: impl FnOnce() -> Vec<u8>) {
        let took_us = micros(took);
        if took_us <= self.least_us.load(Ordering::Relaxed) {
            return;
        }
        let mut files = lock(&self.files);
        let place = files.partition_point(|file| file.took_us >= took_us);
        files.insert(place, SlowFile { path: path(), size, took_us });
        files.truncate(SLOWEST_MAX);
        self.is_new.store(true, Ordering::Relaxed);
        if let [.., last] = &files[..]
            && files.len() == SLOWEST_MAX
        {
            self.least_us.store(last.took_us, Ordering::Relaxed);
        }
    }

    /// Returns the files, slowest first, if they changed since the last call.
    pub fn take_if_changed(&self) -> Option<Vec<SlowFile>> {
        self.is_new.swap(false, Ordering::Relaxed).then(|| self.all())
    }

    /// Returns the files, slowest first.
    pub fn all(&self) -> Vec<SlowFile> {
        lock(&self.files).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_files_the_slowest_stay_in_their_order() {
        let slowest = SlowestFiles::default();
        for number in 0..1000u64 {
            let took = Duration::from_micros(1 + number * 7 % 1000);
            slowest.record(took, number, || number.to_string().into_bytes());
        }
        let all = slowest.all();
        let took: Vec<_> = all.iter().map(|file| file.took_us).collect();
        let most = 1000 - SLOWEST_MAX as u64;
        assert_eq!(took, (most + 1..=1000).rev().collect::<Vec<_>>());
        assert!(all.iter().all(|file| file.path == file.size.to_string().as_bytes()));
        assert_eq!(slowest.take_if_changed(), Some(all));
        slowest.record(Duration::from_micros(most), 0, || panic!("it is not among them"));
        assert_eq!(slowest.take_if_changed(), None);
    }
}
