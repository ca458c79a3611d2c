//! Locks of files under an update in place, by inode: a file may have several names in one job.

use std::collections::HashSet;
use std::sync::Mutex;

use crate::fs::FileIdentity;
use crate::sys::notify::Notify;
use crate::sys::sync::lock;

/// The files that are being updated.
#[derive(Default)]
pub struct UpdateLocks {
    held: Mutex<HashSet<FileIdentity>>,
    released: Notify,
}

impl UpdateLocks {
    /// Waits until no other thread updates this file.
    pub fn acquire(&self, file: FileIdentity) -> UpdateLock<'_> {
        let mut held = lock(&self.held);
        while !held.insert(file) {
            held = self.released.wait(held);
        }
        UpdateLock { locks: self, file }
    }
}

/// The lock of one file, until this is dropped.
pub struct UpdateLock<'l> {
    locks: &'l UpdateLocks,
    file: FileIdentity,
}

impl Drop for UpdateLock<'_> {
    fn drop(&mut self) {
        lock(&self.locks.held).remove(&self.file);
        self.locks.released.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn one_thread_at_a_time_updates_a_file() {
        let (locks, inside, updates) = (UpdateLocks::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        let file = FileIdentity { device: 1, inode: 2 };
        let other = locks.acquire(FileIdentity { device: 1, inode: 3 });
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let _lock = locks.acquire(file);
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        updates.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        drop(other);
        assert_eq!((updates.into_inner(), locks.held.into_inner().unwrap().len()), (800, 0));
    }
}
