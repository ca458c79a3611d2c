//! Does things at their time, in a thread of its own: answers that are to come late.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use std::{io, thread};

type Work = Box<dyn FnOnce() + Send>;

/// On drop, ends its thread and does the remaining work at once. No caller waits for ever.
pub struct Later {
    shared: Arc<LaterShared>,
}

#[derive(Default)]
struct LaterShared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    /// By time, and those of the same time in their order.
    waiting: BTreeMap<(Instant, u64), Work>,
    next: u64,
    closed: bool,
}

impl Later {
    /// Starts the thread.
    pub fn start() -> io::Result<Self> {
        let shared = Arc::new(LaterShared::default());
        let of_thread = shared.clone();
        thread::Builder::new().name("slow-fs-later".to_owned()).spawn(move || of_thread.run())?;
        Ok(Self { shared })
    }

    /// Does `work` at `time`.
    pub fn at(&self, time: Instant, work: impl FnOnce() + Send + 'static) {
        let mut queue = self.shared.lock();
        queue.next += 1;
        let key = (time, queue.next);
        queue.waiting.insert(key, Box::new(work));
        drop(queue);
        self.shared.changed.notify_one();
    }
}

impl Drop for Later {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_one();
    }
}

impl LaterShared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut queue = self.lock();
        loop {
            let now = Instant::now();
            let first = queue.waiting.first_key_value().map(|((time, _), _)| *time);
            match first {
                Some(time) if time <= now || queue.closed => {
                    let work = queue.waiting.pop_first();
                    drop(queue);
                    work.into_iter().for_each(|(_, work)| work());
                    queue = self.lock();
                }
                Some(time) => {
                    let waited = self.changed.wait_timeout(queue, time - now);
                    queue = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                None if queue.closed => return,
                None => queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}
