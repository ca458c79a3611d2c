//! Frames for what takes them in order only: a pipe, a FIFO, a program. Whichever stream brings the next one writes it,
//! and those behind it that came earlier; the others leave theirs here and go on receiving. So no stream waits for
//! another, and what is lost on one can come on any.

use haul_proto::wire::frame::DataFrame;
use haul_proto::wire::resource_metrics::Stage;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::file::ReceivingFile;
use super::{ReceiverEntry, TargetReceiver};
use crate::io::frame_buffer::FrameBuffer;
use crate::io::storage::calls::write_on;
use crate::metrics::stage_timer::during;
use crate::sys::describe::describe;
use crate::sys::sync::lock;

/// What waits for its turn: no more than the machine admits ahead of what is written.
#[derive(Default)]
pub struct InOrderWriter(Mutex<InOrderQueue>);

#[derive(Default)]
struct InOrderQueue {
    next: u64,
    waiting: BTreeMap<u64, (DataFrame, FrameBuffer)>,
    /// A stream is writing.
    is_busy: bool,
    free: Vec<FrameBuffer>,
    /// It cannot be written to any more.
    has_failed: bool,
}

impl InOrderWriter {
    /// Leaves a frame here, and writes what can be written if nobody else does. Returns a buffer that is free.
    pub fn write(
        &self,
        target: &TargetReceiver,
        item: &Arc<ReceiverEntry>,
        frame: &DataFrame,
        record: FrameBuffer,
    ) -> FrameBuffer {
        let frame_len = u64::from(target.request.settings.frame.get());
        let capacity = record.capacity();
        let mut queue = lock(&self.0);
        if !queue.has_failed {
            queue.waiting.insert(frame.offset / frame_len, (frame.clone(), record));
        }
        let next = queue.next;
        let mine = !queue.is_busy && queue.waiting.contains_key(&next);
        queue.is_busy |= mine;
        drop(queue);
        if mine {
            self.write_on(target, item);
        }
        lock(&self.0).free.pop().unwrap_or_else(|| FrameBuffer::with_capacity(capacity))
    }

    fn write_on(&self, target: &TargetReceiver, item: &Arc<ReceiverEntry>) {
        let is_pipe = matches!(&**item, ReceiverEntry::File(incoming) if incoming.is_special());
        let stage = if is_pipe { Stage::WritePipe } else { Stage::Write };
        loop {
            let mut queue = lock(&self.0);
            let next = queue.next;
            let Some((frame, record)) = queue.waiting.remove(&next) else {
                queue.is_busy = false;
                return;
            };
            drop(queue);
            if let ReceiverEntry::File(incoming) = &**item {
                target.pass_in_turn(incoming, next, record.payload());
            }
            let written = during(stage, || write(target, item, record.payload()));
            let has_failed = written.is_err();
            let mut queue = lock(&self.0);
            queue.next += 1;
            if has_failed {
                queue.has_failed = true;
                queue.waiting.clear();
            }
            drop(queue);
            target.frame_done(item, &frame, record.payload().len(), written);
            lock(&self.0).free.push(record);
        }
    }
}

fn write(target: &TargetReceiver, item: &ReceiverEntry, bytes: &[u8]) -> Result<(), String> {
    let ReceiverEntry::File(incoming) = item else { return Err("it is a directory".into()) };
    match incoming.sink() {
        Some(sink) => sink.write(bytes).map_err(|error| sink.why(&error)),
        None => write_on(&**incoming.open_once(target)?.fd(), bytes).map_err(|error| describe(&error)),
    }
}

impl ReceivingFile {
    /// Where its frames wait for their turn, if it takes them in order only.
    pub fn order(&self) -> Option<&InOrderWriter> {
        self.order.as_deref()
    }
}
