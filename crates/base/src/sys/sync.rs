//! Locks that a panicking thread leaves usable.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex` and ignores poisoning: guarded state is validated elsewhere.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
