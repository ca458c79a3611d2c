//! A condition variable without a system call for notifications while no thread waits: a call for each of a million
//! small files would be too expensive.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, MutexGuard, PoisonError};
use std::time::Duration;

/// A condition on data under one lock. A waiter holds that lock, and a notifier changes the data under it first: so a
/// waiter that is not counted yet sees the change.
#[derive(Default)]
pub struct Notify {
    condition: Condvar,
    waiting: AtomicUsize,
}

impl Notify {
    /// Releases the lock, waits for a notification, and locks again.
    pub fn wait<'guard, T>(&self, guard: MutexGuard<'guard, T>) -> MutexGuard<'guard, T> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let guard = self.condition.wait(guard).unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        guard
    }

    /// Waits with a time limit.
    pub fn wait_timeout<'guard, T>(&self, guard: MutexGuard<'guard, T>, most: Duration) -> MutexGuard<'guard, T> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let (guard, _) = self.condition.wait_timeout(guard, most).unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        guard
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.condition.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::channel;
    use std::thread;

    use haul_base::sys::sync::lock;

    use super::*;

    #[test]
    fn no_signal_is_missed_however_it_falls() {
        const TURNS: u32 = 20_000;
        let (signals, turn) = ([Notify::default(), Notify::default()], Mutex::new(0));
        let (done, all_done) = channel();
        thread::scope(|scope| {
            for own in 0..2usize {
                let (signals, turn, done) = (&signals, &turn, done.clone());
                scope.spawn(move || {
                    for _ in 0..TURNS {
                        let mut state = lock(turn);
                        while *state % 2 != own {
                            state = signals[own].wait(state);
                        }
                        *state += 1;
                        drop(state);
                        signals[1 - own].notify_all();
                    }
                    let _ = done.send(());
                });
            }
            for _ in 0..2 {
                all_done.recv_timeout(Duration::from_secs(60)).expect("a thread waits for ever");
            }
        });
        assert_eq!(*lock(&turn), 2 * TURNS as usize);
    }

    #[test]
    fn no_wait_exceeds_its_limit() {
        let (signal, state) = (Notify::default(), Mutex::new(7));
        assert_eq!(*signal.wait_timeout(lock(&state), Duration::from_millis(1)), 7);
        assert_eq!(signal.waiting.load(Ordering::SeqCst), 0);
        signal.notify_all();
    }
}
