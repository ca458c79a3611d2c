//! Frames from the streams: verified and written.

pub mod deliver;
pub mod delta_frames;
pub mod frame_writer;
pub mod in_order;
pub mod late_checksums;
pub mod partial_verification;
pub mod reflink;
pub mod reflink_support;
pub mod verification_queue;

use crate::net::rate_limiter::RateLimiter;
use crate::receiver::job::ReceiverJob;
use crate::receiver::receive::frame_writer::WriteBuffers;
use crate::receiver::receive::reflink_support::ReflinkSupport;
use crate::receiver::tree::TargetTree;
use std::sync::Arc;

/// Resources shared by all streams for writes: the rate limit, buffers, and known capabilities of file systems.
pub struct WriteResources {
    pub(super) job: Arc<ReceiverJob>,
    pub(super) tree: Arc<TargetTree>,
    /// The rate limit for received data.
    pub(super) rate_limit: RateLimiter,
    /// Buffers for direct writes.
    pub(super) buffers: WriteBuffers,
    /// File systems without reflinks.
    pub(super) reflinks: ReflinkSupport,
}

impl WriteResources {
    /// `rate` is in bytes per second.
    pub(super) fn new(tree: &Arc<TargetTree>, rate: Option<u64>) -> Self {
        Self {
            job: Arc::clone(&tree.job),
            tree: Arc::clone(tree),
            rate_limit: RateLimiter::new(rate.unwrap_or(0)),
            buffers: WriteBuffers::default(),
            reflinks: ReflinkSupport::default(),
        }
    }
}
