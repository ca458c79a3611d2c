//! What every part of the receiver knows of its job: the request, the destination, and the reporter.

use crate::fs::FileIdentity;
use crate::receiver::Dir;
use crate::receiver::Reporter;
use crate::receiver::StoragePolicy;
use crate::receiver::file::ReceivingFile;
use crate::receiver::place::destination::Destination;
use crate::receiver::place::destination::DestinationKind;
use crate::receiver::place::full_disk::FullDisk;
use crate::receiver::place::job_locks::LockEvent;
use haul_proto::wire::report::WorkerMessage;
use haul_proto::wire::request::{TargetOperand, TargetRequest};
use std::sync::atomic::{AtomicBool, Ordering};

/// The terms of one job at the target. Constant while the job runs.
pub struct ReceiverJob {
    /// What the controller asked for.
    pub(super) request: TargetRequest,
    /// Where the data goes.
    pub(super) destination: Destination,
    /// The file mode creation mask of the worker.
    pub(super) umask: u16,
    /// Symbolic links that lead out of the working directory are refused.
    pub(super) links_inside: bool,
    /// Existing directories keep their metadata.
    pub(super) creates_only: bool,
    /// Whether the host's policy lets sources have hashes of blocks.
    pub(super) allows_deltas: bool,
    /// An entry failed: a part of the source is not at the target.
    pub(super) has_failed_entries: AtomicBool,
    /// Whether writing still makes sense.
    pub(super) full_disk: FullDisk,
    /// The source is in this process.
    pub(super) is_both_ends: AtomicBool,
    /// How files are written.
    pub(super) policy: StoragePolicy,
    /// Reports to the controller.
    pub(crate) reporter: Reporter,
}

impl ReceiverJob {
    /// Reports an entry that is not at the target as it is to be. To be called before the entry is settled.
    pub(super) fn fail_entry(&self, path: Vec<u8>, text: impl Into<String>) {
        self.note_failed_entry();
        self.fail(path, text);
    }

    /// The same for an entry that is reported elsewhere.
    pub(super) fn note_failed_entry(&self) {
        self.has_failed_entries.store(true, Ordering::Relaxed);
    }

    /// Reports a file that could not be written.
    pub(super) fn fail_file(&self, incoming: &ReceivingFile, text: impl Into<String>) {
        let text = text.into();
        if let Some(dir) = incoming.dir() {
            self.full_disk.record_failure(dir.identity().device, &text);
        }
        self.fail_entry(incoming.path(&self.destination), text);
    }

    /// The reason to refuse a new file in a directory without a try: its file system is full.
    pub(super) fn refusal_of_full_disk(&self, dir: &Dir, size: u64) -> Option<String> {
        // An empty file takes no block.
        let is_checked = self.request.rules.check_space && size > 0;
        is_checked.then(|| self.full_disk.refusal(dir.identity().device)).flatten()
    }

    /// Whether the one operand, a directory, becomes one under another name, which does not exist yet.
    pub fn begins_tree(&self) -> bool {
        let is_directory = matches!(&self.request.operands[..], [TargetOperand { directory: true, .. }]);
        is_directory && matches!(self.destination.kind, DestinationKind::As(..))
    }

    /// Reports another run at work in the same place. Where that ends this attempt, the controller begins the next one.
    pub(super) fn report_lock(&self, event: LockEvent) {
        self.reporter.send(&match event {
            LockEvent::Waits(text) => WorkerMessage::Warning { text },
            LockEvent::Lost(text) => WorkerMessage::Fatal { fault: false, text },
        });
    }

    /// Which directory the data lands in; `None` where it goes into a device, FIFO or socket.
    pub fn landing_identity(&self) -> Option<FileIdentity> {
        self.destination.dir().map(Dir::identity)
    }
}
