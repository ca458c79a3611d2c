//! Frames for a pipe, a FIFO or a program, which accept them in order only. The stream with the next frame writes it,
//! and the queued frames that follow. Other streams queue their frames and continue to receive. So no stream waits for
//! another, and a retransmitted frame may use any of them.

use std::sync::Arc;

use haul_proto::wire::frame::DataFrame;
use haul_proto::wire::resource_metrics::Stage;

use crate::io::frame_buffer::FrameBuffer;
use crate::io::storage::calls::write_on;
use crate::metrics::stage_timer::during;
use crate::receiver::entry::{ReceiverEntry, WrittenFrame};
use crate::receiver::file::in_order_queue::InOrderQueue;
use crate::receiver::file::{Receiving, ReceivingFile};
use crate::receiver::place::error::FileError;
use crate::receiver::receive::frame_writer::FrameWriter;

impl FrameWriter {
    /// Queues a frame. [`FrameWriter::next_written`] writes the frames now in order, unless another stream does.
    /// Returns a free buffer.
    pub(super) fn queue_in_order(
        &mut self,
        queue: &InOrderQueue,
        item: &Arc<ReceiverEntry>,
        frame: &DataFrame,
        buffer: FrameBuffer,
    ) -> FrameBuffer {
        let frame_len = u64::from(self.parts.copy.request.settings.frame.get());
        let capacity = buffer.capacity();
        if queue.add(frame.offset / frame_len, frame, buffer) {
            self.in_order = Some(Arc::clone(item));
        }
        queue.free_buffer(capacity)
    }

    /// Writes the next queued frame of the file whose turn this stream has.
    pub(super) fn write_in_order(&mut self) -> Option<WrittenFrame> {
        let item = self.in_order.take()?;
        let ReceiverEntry::File(file) = &*item else { return None };
        let queue = file.in_order_queue()?;
        let (index, frame, buffer) = queue.take_next()?;
        self.parts.digests.update_in_order(file, index, buffer.payload());
        let (result, len) =
            (during(Stage::WritePipe, || self.write_to_sink(file, buffer.payload())), buffer.payload().len());
        queue.record_write(result.is_err());
        queue.recycle(buffer);
        self.in_order = Some(Arc::clone(&item));
        Some(WrittenFrame { item, frame, len, result: result.map(|()| len as u64) })
    }

    fn write_to_sink(&self, file: &ReceivingFile, bytes: &[u8]) -> Result<(), FileError> {
        match &file.kind {
            Receiving::Pipe(sink, _) => sink.write(bytes),
            Receiving::Named(_) | Receiving::Special(_) => {
                Ok(write_on(&**file.open_once(&self.parts.tree.temp_files, &self.parts.tree.copy_locks)?.fd(), bytes)?)
            }
        }
    }
}
