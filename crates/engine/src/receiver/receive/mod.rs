//! Frames from the streams: verified and written.

pub mod deliver;
pub mod delta_frames;
pub mod frame_writer;
pub mod in_order;
pub mod late_checksums;
pub mod partial_verification;
pub mod reflink;

use crate::receiver::RateLimiter;
use crate::receiver::ReflinkSupport;
use crate::receiver::WriteBuffers;
use crate::receiver::job::ReceiverJob;
use crate::receiver::tree::TargetTree;
use std::sync::Arc;

/// What the streams share to write files: the rate limit, buffers, and what the file system can do.
pub struct WriteResources {
    pub(super) job: Arc<ReceiverJob>,
    pub(super) tree: Arc<TargetTree>,
    /// How fast data may come.
    pub(super) rate_limit: RateLimiter,
    /// Buffers for writes past the page cache.
    pub(super) buffers: WriteBuffers,
    /// File systems that cannot share blocks.
    pub(super) reflinks: ReflinkSupport,
}
