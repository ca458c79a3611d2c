//! Base files: their signatures, and frames rebuilt from them.

pub mod block_signatures;
pub mod delta_apply;
pub mod find_base;
pub mod in_place_update;

use std::sync::Arc;

use crate::receiver::bounded_queue::BoundedQueue;
use crate::receiver::copy::ReceiverCopy;
use crate::receiver::delete::Removals;
use crate::receiver::delta::block_signatures::SignatureTask;
use crate::receiver::delta::delta_apply::DeltaFrameBuild;
use crate::receiver::metadata::MetadataWriter;
use crate::receiver::session::ReceiverSession;
use crate::receiver::tree::TargetTree;

/// Finds base files, signs their blocks, and queues the frames to be rebuilt from them.
pub struct DeltaStage {
    pub(super) copy: Arc<ReceiverCopy>,
    pub(super) session: Arc<ReceiverSession>,
    pub(super) metadata: Arc<MetadataWriter>,
    pub(super) removals: Arc<Removals>,
    pub(super) tree: Arc<TargetTree>,
    /// Base files to sign.
    pub(super) signature_tasks: BoundedQueue<SignatureTask>,
    /// Frames to rebuild from base files.
    pub(super) frame_builds: BoundedQueue<DeltaFrameBuild>,
}

impl DeltaStage {
    pub(super) fn new(session: &Arc<ReceiverSession>, tree: &Arc<TargetTree>) -> Self {
        Self {
            copy: Arc::clone(&tree.copy),
            session: Arc::clone(session),
            metadata: Arc::clone(&tree.metadata),
            removals: Arc::clone(&tree.removals),
            tree: Arc::clone(tree),
            signature_tasks: BoundedQueue::default(),
            frame_builds: BoundedQueue::default(),
        }
    }
}
