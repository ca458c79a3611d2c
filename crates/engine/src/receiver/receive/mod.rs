//! Frames from the streams: verified and written. Partial files of earlier runs: verified, so that their frames are not
//! sent again.

pub mod deliver;
pub mod delta_frames;
pub mod frame_writer;
pub mod in_order;
pub mod partial_verification;
pub mod reflink;

use std::sync::Arc;

use crate::net::rate_limiter::RateLimiter;
use crate::receiver::parts::ReceiverParts;
use crate::receiver::receive::frame_writer::{FrameWriter, WriteBuffers};
use crate::receiver::receive::reflink::ReflinkSupport;

/// Verifies the records of all streams, and writes their data.
pub struct FrameReceiver {
    pub(super) parts: Arc<ReceiverParts>,
    /// The rate limit for received data.
    pub(super) rate_limit: RateLimiter,
    /// Buffers for direct writes.
    buffers: WriteBuffers,
    /// File systems without reflinks.
    reflinks: ReflinkSupport,
}

impl FrameReceiver {
    /// `rate` is in bytes per second.
    pub(super) fn new(parts: &Arc<ReceiverParts>, rate: Option<u64>) -> Self {
        Self {
            parts: Arc::clone(parts),
            rate_limit: RateLimiter::new(rate.unwrap_or(0)),
            buffers: WriteBuffers::default(),
            reflinks: ReflinkSupport::default(),
        }
    }

    /// The writer of one more stream.
    pub(crate) fn writer(&self) -> FrameWriter {
        FrameWriter::new(&self.parts, &self.buffers)
    }
}
