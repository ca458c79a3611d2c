//! The target's end of a copy: answers offers, verifies frames, writes files, and renames them to their final names.
//!
//! [`TargetReceiver`] joins components, each with its own state. [`session`] holds the protocol's state machine behind
//! a lock. One thread answers offers ([`decide`]), one sends the session's messages, one for each stream delivers
//! frames ([`receive`]), and one commits complete files ([`commit`]). [`threads`] has their loops, and [`driver`] says
//! what happens next to an entry. [`place`] and [`tree`] know the destination. Copies that only compare ([`compare`])
//! read files instead.

mod bounded_queue;
mod commit;
mod compare;
mod copy;
mod decide;
mod delete;
pub(crate) mod delta;
mod digest_checks;
mod driver;
mod durability;
mod entry;
pub(crate) mod file;
mod links;
mod metadata;
mod parts;
pub(crate) mod place;
#[cfg(test)]
mod race_tests;
mod receive;
mod session;
mod source_names;
mod threads;
mod tree;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use haul_base::sys::describe::describe;
use haul_proto::entry::EntryKind;
use haul_proto::path::escape;
use haul_proto::sync::ChangeKind;
use haul_proto::wire::counters::Counters;
use haul_proto::wire::pipe::PipeKind;
use haul_proto::wire::request::TargetRequest;
use haul_proto::wire::write_options::PartialOptions;

pub use self::copy::WorkerContext;
pub use self::place::tree_memory::made_by;
pub use self::receive::frame_writer::FrameWriter;
use crate::io::program::InheritedPipe;
use crate::metrics::reporter::Reporter;
use crate::receiver::commit::Committer;
use crate::receiver::copy::{ReceiverCopy, ReportedEntry};
use crate::receiver::decide::EntryDecider;
use crate::receiver::decide::link_dests::LinkDests;
use crate::receiver::delete::Removals;
use crate::receiver::delete::backup::Backups;
use crate::receiver::delete::removal::ExtraneousRemoval;
use crate::receiver::delta::DeltaStage;
use crate::receiver::digest_checks::DigestChecks;
use crate::receiver::durability::commit_queue::CommitQueue;
use crate::receiver::links::LinkTracker;
use crate::receiver::metadata::MetadataWriter;
use crate::receiver::metadata::owners::TargetOwners;
use crate::receiver::parts::ReceiverParts;
use crate::receiver::place::copy_quota::CopyQuota;
use crate::receiver::place::destination::{self, RefusedRequest};
use crate::receiver::place::directory_locks::DirectoryLocks;
use crate::receiver::place::journal::JournalLocation;
use crate::receiver::place::temp_dir;
use crate::receiver::receive::FrameReceiver;
use crate::receiver::receive::partial_verification::PartialVerifier;
pub use crate::receiver::session::StreamRequest;
use crate::receiver::session::{ReceiverSession, SessionOutput};
use crate::receiver::tree::TargetTree;
use crate::sys::confine::{ConfineBounds, ConfineRights};

/// The target's end of a copy: passes messages and frames from the source to the components.
pub struct TargetReceiver {
    /// The components that several others use.
    pub parts: Arc<ReceiverParts>,
    decider: EntryDecider,
    verifier: PartialVerifier,
    pub(crate) frames: FrameReceiver,
    pub(crate) committer: Committer,
}

fn journals(request: &TargetRequest) -> Result<JournalLocation, RefusedRequest> {
    let PartialOptions { resume, small_journals, journal_dir, .. } = &request.partial;
    let directory = journal_dir.as_deref().map(|directory| Path::new(OsStr::from_bytes(directory)));
    JournalLocation::new(*resume, *small_journals, directory).map_err(|error| {
        let shown = escape(journal_dir.as_deref().unwrap_or_default());
        let text = format!("cannot use {shown} for the journals (--journal-dir): {}", describe(&error));
        RefusedRequest { usage: true, text }
    })
}

impl TargetReceiver {
    /// Resolves the destination. `inherited` is standard output or the pipe of a server, if this worker received it.
    pub fn prepare(
        request: TargetRequest,
        reporter: Reporter,
        context: &WorkerContext,
        inherited: Option<InheritedPipe>,
    ) -> Result<Self, RefusedRequest> {
        let quota = Arc::new(CopyQuota::new(context.allowance.clone()));
        quota.take_names(destination::missing_directories(&request))?;
        let destination = match request.pipe {
            PipeKind::No => destination::find(&request, context.state_dir.as_deref(), &reporter)?,
            PipeKind::Standard | PipeKind::Named | PipeKind::Growing(_) => {
                destination::pipe(&request, inherited, &context.policy)?
            }
        };
        destination.check_identity(request.directory.identity)?;
        reporter.set_label(&destination.path(b""));
        let link_dests = LinkDests::open(&request.sync, destination.root(&request), &reporter);
        let owners = TargetOwners::new(&request.metadata)?;
        let journals = journals(&request)?;
        let temp_dir = temp_dir::open(&request, &destination, &quota)?;
        let backup = Backups::prepare(&request, &destination, &quota)?;
        let kept = link_dests.roots().chain(backup.as_ref().and_then(Backups::identity));
        let extraneous = ExtraneousRemoval::prepare(&request, kept)?;
        let commit_queue = Arc::new(CommitQueue::new(request.fsync, &request.settings));
        let session = Arc::new(ReceiverSession::new(&request));
        let copy = Arc::new(ReceiverCopy::new(request, destination, context, reporter));
        let digests = DigestChecks::new(&copy);
        let metadata = Arc::new(MetadataWriter::new(&copy, owners, &commit_queue));
        let links = LinkTracker::new(&copy);
        let removals = Arc::new(Removals::new(&metadata, backup, extraneous));
        let state_dir = context.state_dir.as_deref().filter(|_| copy.writes_trees());
        let directory_locks = DirectoryLocks::open(state_dir);
        let tree = Arc::new(TargetTree::new(&removals, journals, temp_dir, quota, directory_locks));
        let deltas = DeltaStage::new(&session, &tree);
        if copy.destination.is_new {
            copy.report_item(Vec::new, ReportedEntry::without_source(EntryKind::Directory), ChangeKind::Made);
        }
        let parts = ReceiverParts { copy, commit_queue, session, digests, metadata, links, removals, tree, deltas };
        let parts = Arc::new(parts);
        Ok(Self {
            decider: EntryDecider::new(&parts, link_dests),
            verifier: PartialVerifier::new(&parts),
            frames: FrameReceiver::new(&parts, context.rate),
            committer: Committer::new(&parts),
            parts,
        })
    }

    /// Permits access to the destination, earlier copies, backups, journals, locks and remembered trees.
    pub fn allow(&self, bounds: &mut ConfineBounds) {
        let kept = self.parts.copy.request.metadata.preserve;
        // Hard links into an earlier copy, backups, and files of a temporary directory cross directories.
        let backs_up = self.parts.removals.backup.is_some();
        let temp_dir = self.parts.tree.temp_files.elsewhere();
        let has_other_directories = !self.parts.copy.request.sync.link_dests.is_empty() || temp_dir.is_some();
        let hard_links = kept.hard_links || has_other_directories || backs_up;
        let (devices, specials) = (kept.devices || backs_up, kept.specials || backs_up);
        let rights = match self.parts.copy.compares() || self.parts.copy.is_dry() {
            true => ConfineRights::ReadTree,
            false => ConfineRights::Land(haul_proto::wire::preserve::PreserveOptions {
                hard_links,
                devices,
                specials,
                ..kept
            }),
        };
        self.parts.copy.destination.allow(bounds, rights);
        self.decider.link_dests.allow(bounds, rights);
        self.parts.removals.backup.iter().for_each(|backup| backup.allow(bounds, rights));
        temp_dir.iter().for_each(|dir| drop(dir.fd().map(|fd| bounds.allow(&*fd, rights))));
        self.parts.tree.journals.allow(bounds);
        self.parts.tree.copy_locks.allow(bounds);
    }

    /// Closes the queues of verification, comparison and deltas: all entries are complete, or the copy is stopped.
    pub fn close_queues(&self) {
        self.verifier.claims.close();
        self.decider.comparer.chunks.close();
        self.parts.deltas.signature_tasks.close();
        self.parts.deltas.frame_builds.close();
    }

    /// Waits for messages to the source; `None` after the last.
    pub fn wait_for_messages(&self) -> Option<Vec<Vec<u8>>> {
        match self.parts.session.wait_for_output() {
            SessionOutput::Messages(messages) => {
                Some(messages.iter().map(|message| message.encode(self.parts.copy.request.settings.number)).collect())
            }
            SessionOutput::Finished => {
                self.parts.removals.remove_missing_operands();
                self.parts.removals.remove_extraneous_after();
                self.parts.tree.finish_parents();
                self.parts.metadata.finish_destination();
                None
            }
            SessionOutput::Stopped => None,
        }
    }

    /// Shows runs that wait for this one that it progresses, unless the counters are those `seen` before.
    pub fn mark_progress(&self, seen: &mut Option<Counters>) {
        let counters = self.parts.copy.reporter.tally.counters();
        if seen.replace(counters) != Some(counters) {
            self.parts.tree.copy_locks.mark_progress();
        }
    }

    /// Unlocks the directories after the end of the copy.
    pub fn release_directories(&self) {
        self.parts.tree.copy_locks.release();
    }

    /// Stops all threads at their next step and removes incomplete files.
    pub fn stop(&self) {
        self.parts.session.stop();
        self.frames.rate_limit.set(0);
        self.parts.commit_queue.stop();
        self.close_queues();
        self.parts.tree.copy_locks.close();
        self.parts.removals.extraneous.stop();
        self.parts.copy.destination.abandon();
        self.parts.metadata.restore_modes();
        self.parts.tree.temp_files.close(self.parts.copy.request.partial.keep);
    }
}
