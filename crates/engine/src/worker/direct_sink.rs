//! A target in the same process as its source.

use std::ops::Range;

use haul_proto::ids::EntryId;
use haul_proto::wire::frame::RecordTrailer;

use crate::io::frame_buffer::FrameBuffer;
use crate::io::storage::file::OpenedFile;
use crate::net::rate_limiter::RateLimiter;
use crate::net::stream::StreamError;
use crate::receiver::{FrameWriter, TargetReceiver};
use crate::source::frame_sink::{BlockSharing, FrameSink};

/// A stream within the process: frames are written from the source's buffer directly into the file.
pub struct DirectSink<'t> {
    target: &'t TargetReceiver,
    writer: FrameWriter,
}

impl<'t> DirectSink<'t> {
    /// Creates the sink of one stream.
    pub fn new(target: &'t TargetReceiver) -> Self {
        Self { target, writer: target.frames.writer() }
    }
}

impl FrameSink for DirectSink<'_> {
    fn send_frame(
        &mut self,
        buffer: FrameBuffer,
        trailer: &RecordTrailer,
        limiter: &RateLimiter,
    ) -> Result<FrameBuffer, StreamError> {
        limiter.permit().take_all(buffer.payload().len());
        Ok(self.target.deliver(&mut self.writer, trailer, buffer)?)
    }

    fn flush(&mut self) -> Result<(), StreamError> {
        self.target.drain(&mut self.writer);
        Ok(())
    }

    fn end(&mut self, _: FrameBuffer) -> Result<(), StreamError> {
        self.flush()
    }

    fn target_here(&mut self) -> Option<&mut dyn BlockSharing> {
        Some(self)
    }
}

impl BlockSharing for DirectSink<'_> {
    fn share(&mut self, file: &OpenedFile, entry: EntryId, size: u64, frames: Range<u64>) -> Result<bool, StreamError> {
        Ok(self.target.share(file, entry, size, frames)?)
    }
}
