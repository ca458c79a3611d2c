//! io_uring (io_uring(7)): several reads and writes in flight from one thread.
//!
//! Safe for callers: a [`Ring`] owns the buffers and files of requests in flight, and returns a buffer only when the
//! kernel is done with it. [`Ring::new`] fails if io_uring is unavailable.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use io_uring::{IoUring, opcode, types};
use rustix::io::Errno;

use crate::io::storage::{FileAccess, FinishedIo, IoRequest, Storage};

/// An io_uring with its requests in flight. It belongs to the thread that created it.
pub struct Ring<T> {
    ring: IoUring,
    slots: Vec<Option<IoRequest<T>>>,
    /// Requests that failed in [`Self::give_up`].
    given_up: Vec<FinishedIo<T>>,
    /// Whether no further calls are made.
    dead: bool,
}

impl<T> Ring<T> {
    /// For up to `depth` requests at a time.
    ///
    /// # Errors
    /// Where the kernel is too old, a sandbox forbids it, or memory is short.
    pub fn new(depth: usize) -> io::Result<Self> {
        let entries = u32::try_from(depth).unwrap_or(u32::MAX);
        // Without interrupts on completion, if possible (Linux 6.0). Deferred task work (IORING_SETUP_DEFER_TASKRUN)
        // would be cheaper still, but a poll of such a ring may sleep forever: seen on Linux 6.18.
        let tuned = IoUring::builder().setup_single_issuer().setup_coop_taskrun().setup_taskrun_flag().build(entries);
        let ring = tuned.or_else(|_| IoUring::new(entries))?;
        let slots = std::iter::repeat_with(|| None).take(depth).collect();
        Ok(Self { ring, slots, given_up: Vec::new(), dead: false })
    }

    /// Adds a request to the submission queue. `false` if it is full, which does not happen: see `submit`.
    fn push(&mut self, slot: usize) -> bool {
        let Some(request) = self.slots.get_mut(slot).and_then(Option::as_mut) else { return false };
        let file = types::Fd(request.file.as_fd().as_raw_fd());
        let Ok(len) = u32::try_from(request.len) else { return false };
        let room = request.buffer.room_mut();
        // A length beyond the buffer is a bug, and must not reach the kernel.
        assert!(request.len <= room.len(), "a request beyond its buffer");
        let buffer = room.as_mut_ptr();
        let entry = match request.access {
            FileAccess::Read => opcode::Read::new(file, buffer, len).offset(request.offset).build(),
            FileAccess::Write => opcode::Write::new(file, buffer, len).offset(request.offset).build(),
        };
        let entry = entry.user_data(slot as u64);
        // SAFETY: the buffer is heap memory of the record in `slots[slot]`, with at least `len` bytes, and the file is
        // open as long as the request holds it. Nobody touches either before `take` has seen the completion: requests
        // are reached through `slots` alone. When the ring is dropped or given up with requests in flight, their
        // buffers are waited for or leaked, never freed.
        #[allow(unsafe_code)]
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.is_ok()
    }

    /// Takes a completion, if one has arrived.
    fn pop_completion(&mut self) -> Option<FinishedIo<T>> {
        let completion = self.ring.completion().next()?;
        let slot = usize::try_from(completion.user_data()).ok()?;
        let request = self.slots.get_mut(slot)?.take()?;
        let result = match usize::try_from(completion.result()) {
            Ok(bytes) => Ok(bytes),
            Err(_) => Err(io::Error::from_raw_os_error(completion.result().saturating_neg())),
        };
        Some(FinishedIo { request, result })
    }

    /// The ring no longer responds: requests in flight fail, and their memory, which the kernel may still use, is never
    /// reused.
    fn give_up(&mut self) {
        self.dead = true;
        for mut request in self.slots.iter_mut().filter_map(Option::take) {
            let fresh = match request.access {
                FileAccess::Read => request.buffer.fresh(),
                // The kernel only reads the old buffer.
                FileAccess::Write => request.buffer.copy(),
            };
            std::mem::forget(std::mem::replace(&mut request.buffer, fresh));
            self.given_up.push(FinishedIo { request, result: Err(Errno::CANCELED.into()) });
        }
    }

    fn waiting(&self) -> usize {
        self.slots.iter().flatten().count()
    }
}

impl<T> Storage<T> for Ring<T> {
    fn submit(&mut self, request: IoRequest<T>) {
        let free = self.slots.iter().position(Option::is_none);
        let (false, Some(slot)) = (self.dead, free) else {
            self.given_up.push(FinishedIo { request, result: Err(Errno::CANCELED.into()) });
            return;
        };
        self.slots[slot] = Some(request);
        // The queue has an entry per slot, and each submission empties it.
        if !self.push(slot) || self.ring.submit().is_err_and(|error| !is_passing(&error)) {
            self.give_up();
        }
    }

    fn finished(&mut self, wait: bool) -> Option<FinishedIo<T>> {
        loop {
            if let Some(finished) = self.given_up.pop().or_else(|| self.pop_completion()) {
                return Some(finished);
            }
            if self.waiting() == 0 {
                return None;
            }
            // The kernel may have completions outside of the queue.
            let queue = self.ring.submission();
            let nothing_to_ask = !wait && queue.is_empty() && !queue.taskrun();
            drop(queue);
            if nothing_to_ask {
                return None;
            }
            match self.ring.submit_and_wait(usize::from(wait)) {
                Ok(_) => {}
                Err(error) if is_passing(&error) => {}
                Err(_) => self.give_up(),
            }
            if !wait {
                return self.given_up.pop().or_else(|| self.pop_completion());
            }
        }
    }

    fn under_way(&self) -> usize {
        self.waiting() + self.given_up.len()
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: the descriptor is the ring's own, and stays open as long as the ring is borrowed.
        #[allow(unsafe_code)]
        let fd = unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) };
        (!self.dead).then_some(fd)
    }
}

/// Errors after which the same call may succeed: requests stay queued.
fn is_passing(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::INTR | Errno::AGAIN | Errno::BUSY))
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // The kernel may still write into the buffers.
        while self.finished(true).is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::sync::Arc;

    use haul_proto::integrity::FrameLen;
    use rustix::pipe::pipe;

    use super::*;
    use crate::io::frame_buffer::FrameBuffer;

    fn request(file: OwnedFd, access: FileAccess) -> IoRequest<u32> {
        let mut buffer = FrameBuffer::new(FrameLen::DEFAULT);
        buffer.room_mut()[..3].copy_from_slice(b"abc");
        buffer.set_payload_len(3);
        IoRequest { access, file: Arc::new(file), buffer, len: 3, offset: 0, tag: 7 }
    }

    #[test]
    fn an_abandoned_ring_returns_every_request_and_no_buffer_in_use() {
        let Ok(mut ring) = Ring::new(2) else {
            println!("SKIPPED: io_uring is not to be had here");
            return;
        };
        // Nothing ever comes out of the pipe: this read is under way for ever.
        let (reader, _writer) = pipe().unwrap();
        let read = request(reader, FileAccess::Read);
        let in_use = read.buffer.payload().as_ptr();
        ring.submit(read);
        assert!(ring.finished(false).is_none());
        assert_eq!(ring.under_way(), 1);
        ring.give_up();
        let finished = ring.finished(true).unwrap();
        assert_eq!(finished.request.tag, 7);
        assert_ne!(finished.request.buffer.payload().as_ptr(), in_use);
        assert_eq!(Errno::from_io_error(&finished.result.unwrap_err()), Some(Errno::CANCELED));
        let write = request(tempfile::tempfile().unwrap().into(), FileAccess::Write);
        ring.submit(write);
        let finished = ring.finished(true).unwrap();
        assert!(finished.result.is_err());
        assert_eq!(finished.request.buffer.payload(), b"abc");
        assert_eq!(ring.under_way(), 0);
    }
}
