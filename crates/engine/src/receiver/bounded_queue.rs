//! Queues whose waiting threads end with the copy.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};

use haul_base::sys::sync::lock;

/// A queue of work items. The source's window bounds incomplete entries, and thereby the items.
pub struct BoundedQueue<T> {
    state: Mutex<BoundedQueueState<T>>,
    wake: Condvar,
}

struct BoundedQueueState<T> {
    things: VecDeque<T>,
    closed: bool,
}

impl<T> Default for BoundedQueue<T> {
    fn default() -> Self {
        Self { state: Mutex::new(BoundedQueueState { things: VecDeque::new(), closed: false }), wake: Condvar::new() }
    }
}

impl<T> BoundedQueue<T> {
    /// Adds items.
    pub fn add(&self, things: Vec<T>) {
        if !things.is_empty() {
            lock(&self.state).things.extend(things);
            self.wake.notify_one();
        }
    }

    /// Adds an item. Returns it if `most` items wait or the queue is closed.
    pub fn add_below(&self, most: usize, thing: T) -> Result<(), T> {
        let mut state = lock(&self.state);
        if state.closed || state.things.len() >= most {
            return Err(thing);
        }
        state.things.push_back(thing);
        drop(state);
        self.wake.notify_one();
        Ok(())
    }

    /// Closes the queue and drops its items.
    pub fn close(&self) {
        lock(&self.state).closed = true;
        self.wake.notify_all();
    }

    /// Waits for the next item; `None` after the close.
    pub fn next(&self) -> Option<T> {
        self.pop(true, VecDeque::pop_front)
    }

    /// Waits until `take` returns a value for the queued items. `None` after the close; without `wait`, also if there
    /// is none now.
    pub fn pop<Part>(&self, wait: bool, take: impl Fn(&mut VecDeque<T>) -> Option<Part>) -> Option<Part> {
        let mut state = lock(&self.state);
        loop {
            if state.closed {
                return None;
            }
            let taken = take(&mut state.things);
            if taken.is_some() {
                // Several threads may share one item.
                if !state.things.is_empty() {
                    self.wake.notify_one();
                }
                return taken;
            }
            if !wait {
                return None;
            }
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn several_threads_can_read_parts_of_a_directory() {
        let waiting = BoundedQueue::default();
        let part = |things: &mut VecDeque<u32>| {
            let first = things.front_mut()?;
            *first -= 1;
            if *first == 0 {
                things.pop_front();
            }
            Some(1)
        };
        assert_eq!(waiting.pop(false, part), None, "there is nothing yet");
        let taken: u32 = thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let mut taken = 0;
                        while let Some(part) = waiting.pop(true, part) {
                            taken += part;
                            if waiting.pop(false, |things| things.front().copied()).is_none() {
                                waiting.close();
                            }
                        }
                        taken
                    })
                })
                .collect();
            waiting.add(vec![400, 600]);
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(taken, 1000);
        waiting.add(vec![1]);
        assert_eq!(waiting.next(), None, "it is closed");
    }

    #[test]
    fn no_more_wait_than_may_and_none_when_it_is_over() {
        let waiting = BoundedQueue::default();
        assert_eq!([1, 2, 3].map(|thing| waiting.add_below(2, thing)), [Ok(()), Ok(()), Err(3)]);
        assert_eq!(waiting.next(), Some(1));
        assert_eq!(waiting.add_below(2, 4), Ok(()));
        waiting.close();
        assert_eq!((waiting.add_below(9, 5), waiting.next()), (Err(5), None));
    }
}
