//! Where a source's frames go.

use haul_proto::ids::EntryId;
use haul_proto::wire::frame::RecordTrailer;
use std::ops::Range;

use crate::io::frame_buffer::FrameBuffer;
use crate::io::storage::file::OpenedFile;
use crate::net::rate_limiter::RateLimiter;
use crate::net::stream::StreamError;

/// Where frames go: into a socket, or straight to a target in the same process.
pub trait FrameSink {
    /// Hands over a record with its trailer, at the set pace. Returns a record that is free: this one or another.
    fn send_frame(
        &mut self,
        buffer: FrameBuffer,
        trailer: &RecordTrailer,
        limiter: &RateLimiter,
    ) -> Result<FrameBuffer, StreamError>;
    /// The stream is about to wait for work: everything put so far has to go out before.
    fn flush(&mut self) -> Result<(), StreamError>;
    /// Whether delivered data may still be lost, so that data that cannot be read again has to be kept.
    fn may_lose(&self) -> bool {
        true
    }
    /// Has the target clone these frames of a file of `size` bytes. `false` where that is impossible: then they are to
    /// be read and put.
    fn share(
        &mut self,
        _file: &OpenedFile,
        _entry: EntryId,
        _size: u64,
        _frames: Range<u64>,
    ) -> Result<bool, StreamError> {
        Ok(false)
    }
    /// Nothing more will come.
    fn end(&mut self, buffer: FrameBuffer) -> Result<(), StreamError>;
}
