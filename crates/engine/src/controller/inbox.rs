//! The queue of what workers say to their controller: bounded in messages and in bytes, so that a fast worker and a slow
//! observer cost time, not memory.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::sys::sync::lock;

/// Most messages that wait for an observer that is slow; beyond that, the workers wait.
const MESSAGES_MAX: usize = 1024;
/// Most bytes that these messages have on the wire.
const BYTES_MAX: usize = 4 << 20;

/// The end that messages are put into. Clones put into the same queue.
pub struct InboxSender<T> {
    messages: SyncSender<(usize, T)>,
    room: Arc<InboxRoom>,
}

/// The end that they are taken out of. When it is dropped, nobody waits any more.
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

/// An empty queue.
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
    /// Puts in a message that had so many bytes. Waits while there are too many; `false` when nobody listens any more. One
    /// message alone may have more bytes than there is room for.
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
    /// The next message.
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
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    const WAIT: Duration = Duration::from_secs(10);

    /// Sends messages of so many bytes from a thread until nobody listens; how many were taken.
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

    /// Waits until the sender has stopped to wait for room.
    fn settled(sent: &AtomicUsize) -> usize {
        let mut before = usize::MAX;
        while before != sent.load(Ordering::SeqCst) {
            before = sent.load(Ordering::SeqCst);
            thread::sleep(Duration::from_millis(50));
        }
        before
    }

    #[test]
    fn bytes_that_wait_are_bounded_and_so_are_messages() {
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
    fn a_message_that_is_larger_than_the_room_comes_alone() {
        let (inbox, _, thread) = sending(2 * BYTES_MAX);
        assert_eq!([0, 1, 2].map(|_| inbox.recv_timeout(WAIT).unwrap()), [0, 1, 2]);
        drop(inbox);
        thread.join().unwrap();
    }
}
