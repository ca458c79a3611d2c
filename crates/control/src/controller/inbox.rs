//! Queue of messages from workers to their controller. It is bounded in messages and bytes, so a slow observer slows
//! the workers and memory stays bounded.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use haul_base::sys::sync::lock;

/// Most messages queued for a slow observer; the workers block beyond that.
const MESSAGES_MAX: usize = 1024;
/// Most bytes of these messages on the wire.
const BYTES_MAX: usize = 4 << 20;

/// Sending end of the queue. Clones share the queue.
pub struct InboxSender<T> {
    messages: SyncSender<(usize, T)>,
    room: Arc<InboxRoom>,
}

/// Receiving end of the queue. Dropping it unblocks all senders.
pub struct Inbox<T> {
    messages: Receiver<(usize, T)>,
    room: Arc<InboxRoom>,
}

#[derive(Default)]
struct InboxRoom {
    state: Mutex<InboxState>,
    freed: Condvar,
}

#[derive(Default)]
struct InboxState {
    bytes: usize,
    is_closed: bool,
}

/// Creates an empty queue.
pub fn queue<T>() -> (InboxSender<T>, Inbox<T>) {
    let (sender, receiver) = sync_channel(MESSAGES_MAX);
    let room = Arc::new(InboxRoom::default());
    (InboxSender { messages: sender, room: Arc::clone(&room) }, Inbox { messages: receiver, room })
}

impl<T> Clone for InboxSender<T> {
    fn clone(&self) -> Self {
        Self { messages: self.messages.clone(), room: Arc::clone(&self.room) }
    }
}

impl<T> InboxSender<T> {
    /// Queues a message of `bytes` bytes and blocks while the queue is full. Returns `false` once the receiver is gone.
    /// A single message may exceed the byte limit.
    pub fn send(&self, bytes: usize, message: T) -> bool {
        let mut state = lock(&self.room.state);
        while !state.is_closed && state.bytes > 0 && state.bytes + bytes > BYTES_MAX {
            state = self.room.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.bytes += bytes;
        drop(state);
        self.messages.send((bytes, message)).is_ok()
    }
}

impl<T> Inbox<T> {
    /// Returns the next message.
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        let (bytes, message) = self.messages.recv_timeout(timeout)?;
        lock(&self.room.state).bytes -= bytes;
        self.room.freed.notify_all();
        Ok(message)
    }
}

impl<T> Drop for Inbox<T> {
    fn drop(&mut self) {
        lock(&self.room.state).is_closed = true;
        self.room.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    const WAIT: Duration = Duration::from_secs(10);

    /// Sends messages of `bytes` bytes from a thread until the receiver is gone; returns the number sent.
    fn sending(bytes: usize) -> (Inbox<usize>, Arc<AtomicUsize>, thread::JoinHandle<()>) {
        let (sender, inbox) = queue();
        let sent = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&sent);
        let thread = thread::spawn(move || {
            while sender.send(bytes, count.load(Ordering::SeqCst)) {
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        (inbox, sent, thread)
    }

    /// Waits until the sender blocks for room.
    fn settled(sent: &AtomicUsize) -> usize {
        let mut before = usize::MAX;
        while before != sent.load(Ordering::SeqCst) {
            before = sent.load(Ordering::SeqCst);
            thread::sleep(Duration::from_millis(50));
        }
        before
    }

    #[test]
    fn waiting_bytes_and_messages_are_bounded() {
        for (bytes, most) in [(BYTES_MAX / 8, 8), (1, MESSAGES_MAX)] {
            let (inbox, sent, thread) = sending(bytes);
            while sent.load(Ordering::SeqCst) < most {
                thread::yield_now();
            }
            assert_eq!(settled(&sent), most);
            assert_eq!(inbox.recv_timeout(WAIT), Ok(0));
            while sent.load(Ordering::SeqCst) == most {
                thread::yield_now();
            }
            drop(inbox);
            thread.join().unwrap();
        }
    }

    #[test]
    fn an_oversized_message_comes_alone() {
        let (inbox, _, thread) = sending(2 * BYTES_MAX);
        assert_eq!([0, 1, 2].map(|_| inbox.recv_timeout(WAIT).unwrap()), [0, 1, 2]);
        drop(inbox);
        thread.join().unwrap();
    }
}
