//! Frames from the streams: verified and written. Partial files of earlier runs: verified, so that their frames are not
//! sent again.

pub mod deliver;
pub mod delta_frames;
pub mod frame_writer;
pub mod in_order;
pub mod partial_verification;
pub mod reflink;
pub mod reflink_support;

use std::sync::Arc;

use crate::net::rate_limiter::RateLimiter;
use crate::receiver::copy::ReceiverCopy;
use crate::receiver::delta::DeltaStage;
use crate::receiver::digest_checks::DigestChecks;
use crate::receiver::receive::frame_writer::{FrameWriter, WriteBuffers};
use crate::receiver::receive::reflink_support::ReflinkSupport;
use crate::receiver::session::ReceiverSession;
use crate::receiver::tree::TargetTree;

/// Verifies the records of all streams, and writes their data.
pub struct FrameReceiver {
    pub(super) copy: Arc<ReceiverCopy>,
    pub(super) session: Arc<ReceiverSession>,
    pub(super) digests: Arc<DigestChecks>,
    pub(super) tree: Arc<TargetTree>,
    pub(super) deltas: Arc<DeltaStage>,
    /// The rate limit for received data.
    pub(super) rate_limit: RateLimiter,
    /// Buffers for direct writes.
    buffers: WriteBuffers,
    /// File systems without reflinks.
    reflinks: ReflinkSupport,
}

impl FrameReceiver {
    /// `rate` is in bytes per second.
    pub(super) fn new(digests: &Arc<DigestChecks>, deltas: &Arc<DeltaStage>, rate: Option<u64>) -> Self {
        Self {
            copy: Arc::clone(&deltas.copy),
            session: Arc::clone(&deltas.session),
            digests: Arc::clone(digests),
            tree: Arc::clone(&deltas.tree),
            deltas: Arc::clone(deltas),
            rate_limit: RateLimiter::new(rate.unwrap_or(0)),
            buffers: WriteBuffers::default(),
            reflinks: ReflinkSupport::default(),
        }
    }

    /// The writer of one more stream.
    pub(crate) fn writer(&self) -> FrameWriter {
        FrameWriter::new(&self.digests, &self.tree, &self.buffers)
    }
}
