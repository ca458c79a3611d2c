//! From the last frame to the final name: contents and metadata, fsync, read-back, and the rename.

pub mod contents;
pub mod finalize;
pub mod group_commit;
pub mod outcomes;
pub mod read_back;
pub mod retransmit;

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::io::Errno;

use crate::receiver::copy::ReceiverCopy;
use crate::receiver::delete::Removals;
use crate::receiver::delta::DeltaStage;
use crate::receiver::digest_checks::DigestChecks;
use crate::receiver::durability::commit_queue::CommitQueue;
use crate::receiver::links::LinkTracker;
use crate::receiver::metadata::MetadataWriter;
use crate::receiver::session::ReceiverSession;
use crate::receiver::tree::TargetTree;

/// Makes complete files durable, reads them back if requested, and gives them their final names and metadata.
pub struct Committer {
    pub(super) copy: Arc<ReceiverCopy>,
    pub(super) digests: Arc<DigestChecks>,
    pub(super) metadata: Arc<MetadataWriter>,
    pub(super) session: Arc<ReceiverSession>,
    pub(super) links: Arc<LinkTracker>,
    pub(super) removals: Arc<Removals>,
    pub(super) tree: Arc<TargetTree>,
    /// Base files and signatures.
    pub(super) deltas: Arc<DeltaStage>,
    pub(super) commit_queue: Arc<CommitQueue>,
    /// Cleared once the file system refuses nameless files.
    pub(super) nameless_files: AtomicBool,
}

impl Committer {
    pub(super) fn new(
        digests: &Arc<DigestChecks>,
        links: &Arc<LinkTracker>,
        deltas: &Arc<DeltaStage>,
        commit_queue: Arc<CommitQueue>,
    ) -> Self {
        Self {
            copy: Arc::clone(&deltas.copy),
            digests: Arc::clone(digests),
            metadata: Arc::clone(&deltas.metadata),
            session: Arc::clone(&deltas.session),
            links: Arc::clone(links),
            removals: Arc::clone(&deltas.removals),
            tree: Arc::clone(&deltas.tree),
            deltas: Arc::clone(deltas),
            commit_queue,
            nameless_files: AtomicBool::new(true),
        }
    }

    /// Whether files ever wait for fsync before they get their final names. If so, [`crate::receiver::TargetReceiver::run_commits`] needs a
    /// thread.
    pub fn has_groups(&self) -> bool {
        self.commit_queue.is_wanted()
    }
}

/// Whether a file system lacks nameless files, or links to them.
fn is_unsupported(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT | Errno::NOSYS | Errno::PERM | Errno::XDEV)
    )
}
