//! Where a stream's frames go: into a socket, or to a target in the same process.

use std::ops::Range;

use haul_proto::ids::EntryId;
use haul_proto::wire::frame::RecordTrailer;

use crate::io::frame_buffer::FrameBuffer;
use crate::io::storage::file::OpenedFile;
use crate::net::rate_limiter::RateLimiter;
use crate::net::stream::StreamError;
use crate::net::stream::compress::CompressingStream;

/// Accepts the frames of one stream.
pub trait FrameSink {
    /// Sends a record with its trailer, within the rate limit. Returns a free buffer, this one or another.
    fn send_frame(
        &mut self,
        buffer: FrameBuffer,
        trailer: &RecordTrailer,
        limiter: &RateLimiter,
    ) -> Result<FrameBuffer, StreamError>;
    /// Sends everything that is buffered, before the stream waits for work.
    fn flush(&mut self) -> Result<(), StreamError>;
    /// Ends the stream.
    fn end(&mut self, buffer: FrameBuffer) -> Result<(), StreamError>;
    /// The target in this process, which loses no frame. Frames for other targets may be requested again.
    fn target_here(&mut self) -> Option<&mut dyn BlockSharing> {
        None
    }
}

/// A target in the same process, which can share blocks with source files.
pub trait BlockSharing {
    /// Clones frames of a file of `size` bytes. `false` if that is impossible: then they must be sent.
    fn share(&mut self, file: &OpenedFile, entry: EntryId, size: u64, frames: Range<u64>) -> Result<bool, StreamError>;
}

impl FrameSink for CompressingStream<'_> {
    fn send_frame(
        &mut self,
        buffer: FrameBuffer,
        trailer: &RecordTrailer,
        limiter: &RateLimiter,
    ) -> Result<FrameBuffer, StreamError> {
        Self::send_frame(self, buffer, trailer, limiter)
    }

    fn flush(&mut self) -> Result<(), StreamError> {
        Self::flush(self);
        Ok(())
    }

    fn end(&mut self, buffer: FrameBuffer) -> Result<(), StreamError> {
        Self::end(self, buffer)
    }
}
