//! Frames queued for writing in order.

use std::collections::BTreeMap;
use std::sync::Mutex;

use haul_base::sys::sync::lock;
use haul_proto::wire::frame::DataFrame;

use crate::io::frame_buffer::FrameBuffer;

/// Queued frames of one file. The session bounds how far frames may be ahead of the written length.
#[derive(Default)]
pub struct InOrderQueue(Mutex<QueueState>);

#[derive(Default)]
struct QueueState {
    next: u64,
    waiting: BTreeMap<u64, (DataFrame, FrameBuffer)>,
    /// A stream is writing.
    is_busy: bool,
    free: Vec<FrameBuffer>,
    /// A write failed: later frames are dropped.
    has_failed: bool,
}

impl InOrderQueue {
    /// Adds the frame with this index. Returns whether the caller must write now.
    pub fn add(&self, index: u64, frame: &DataFrame, buffer: FrameBuffer) -> bool {
        let mut state = lock(&self.0);
        if !state.has_failed {
            state.waiting.insert(index, (frame.clone(), buffer));
        }
        let next = state.next;
        let is_writer = !state.is_busy && state.waiting.contains_key(&next);
        state.is_busy |= is_writer;
        is_writer
    }

    /// Takes the next frame and its index. `None` ends the caller's turn.
    pub fn take_next(&self) -> Option<(u64, DataFrame, FrameBuffer)> {
        let mut state = lock(&self.0);
        let next = state.next;
        let Some((frame, buffer)) = state.waiting.remove(&next) else {
            state.is_busy = false;
            return None;
        };
        Some((next, frame, buffer))
    }

    /// Records the write of the taken frame. After a failure, no more frames are returned.
    pub fn record_write(&self, has_failed: bool) {
        let mut state = lock(&self.0);
        state.next += 1;
        if has_failed {
            state.has_failed = true;
            state.waiting.clear();
        }
    }

    /// Returns a buffer for reuse.
    pub fn recycle(&self, buffer: FrameBuffer) {
        lock(&self.0).free.push(buffer);
    }

    /// A buffer of this capacity.
    pub fn free_buffer(&self, capacity: usize) -> FrameBuffer {
        lock(&self.0).free.pop().unwrap_or_else(|| FrameBuffer::with_capacity(capacity))
    }
}
