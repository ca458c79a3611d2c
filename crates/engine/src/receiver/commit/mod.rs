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

use crate::receiver::parts::ReceiverParts;

/// Makes complete files durable, reads them back if requested, and gives them their final names and metadata.
pub struct Committer {
    pub(super) parts: Arc<ReceiverParts>,
    /// Whether files may be nameless: not in a temporary directory, nor once the file system refuses them.
    pub(super) nameless_files: AtomicBool,
}

impl Committer {
    pub(super) fn new(parts: &Arc<ReceiverParts>) -> Self {
        let are_beside = parts.tree.temp_files.elsewhere().is_none();
        Self { parts: Arc::clone(parts), nameless_files: AtomicBool::new(are_beside) }
    }

    /// Whether files ever wait for fsync before they get their final names. If so,
    /// [`crate::receiver::TargetReceiver::run_commits`] needs a thread.
    pub fn has_groups(&self) -> bool {
        self.parts.commit_queue.is_wanted()
    }
}

/// Whether a file system lacks nameless files, or links to them.
fn is_unsupported(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT | Errno::NOSYS | Errno::PERM | Errno::XDEV)
    )
}
