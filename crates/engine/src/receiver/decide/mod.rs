//! Decides about each offered entry.

pub mod check_entry;
pub mod dry_run;
pub mod hard_links;
pub mod known_equal;
pub mod link_dests;
pub mod range_decision;
pub mod rename_detection;
pub mod source_order;
pub mod special_files;
pub mod symlinks;
pub mod transfer_decision;
pub mod wrong_digests;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use haul_proto::session::step::EntryAnswer;

use crate::receiver::compare::EntryComparer;
use crate::receiver::copy::ReceiverCopy;
use crate::receiver::decide::link_dests::LinkDests;
use crate::receiver::decide::rename_detection::RenameDetector;
use crate::receiver::decide::wrong_digests::WrongDigests;
use crate::receiver::delete::Removals;
use crate::receiver::delta::DeltaStage;
use crate::receiver::digest_checks::DigestChecks;
use crate::receiver::durability::commit_queue::CommitQueue;
use crate::receiver::entry::ReceiverEntry;
use crate::receiver::links::LinkTracker;
use crate::receiver::metadata::MetadataWriter;
use crate::receiver::place::entry_position::EntryDecision;
use crate::receiver::place::error::FileError;
use crate::receiver::session::ReceiverSession;
use crate::receiver::tree::TargetTree;

/// The answer to an entry, or why it is refused.
pub(crate) type EntryResult = Result<EntryAnswer<ReceiverEntry>, FileError>;

/// What follows from the decision about an entry.
pub(crate) enum NextStep {
    /// It is made or updated.
    Transfer(EntryDecision),
    /// No work is left.
    Answer(EntryAnswer<ReceiverEntry>),
}

/// Decides for each offered entry whether to transfer, update, link, rename or keep it.
pub struct EntryDecider {
    pub(super) copy: Arc<ReceiverCopy>,
    pub(super) metadata: Arc<MetadataWriter>,
    pub(super) session: Arc<ReceiverSession>,
    pub(super) links: Arc<LinkTracker>,
    pub(super) removals: Arc<Removals>,
    pub(super) tree: Arc<TargetTree>,
    pub(super) digests: Arc<DigestChecks>,
    pub(super) deltas: Arc<DeltaStage>,
    pub(super) commit_queue: Arc<CommitQueue>,
    pub(in crate::receiver) comparer: EntryComparer,
    /// Candidates for renames at the source.
    pub(super) renames: RenameDetector,
    /// Earlier copies to link to (`--link-dest`).
    pub(super) link_dests: LinkDests,
    /// Files that differ from an offered digest.
    pub(super) wrong_digests: WrongDigests,
    /// In a dry run: the last answer would create a new entry.
    pub(super) dry_new: AtomicBool,
}

impl EntryDecider {
    pub(super) fn new(
        comparer: EntryComparer,
        digests: &Arc<DigestChecks>,
        deltas: &Arc<DeltaStage>,
        commit_queue: &Arc<CommitQueue>,
        link_dests: LinkDests,
    ) -> Self {
        Self {
            copy: Arc::clone(&comparer.copy),
            metadata: Arc::clone(&comparer.metadata),
            session: Arc::clone(&comparer.session),
            links: Arc::clone(&comparer.links),
            removals: Arc::clone(&comparer.removals),
            tree: Arc::clone(&comparer.tree),
            digests: Arc::clone(digests),
            deltas: Arc::clone(deltas),
            commit_queue: Arc::clone(commit_queue),
            comparer,
            renames: RenameDetector::default(),
            link_dests,
            wrong_digests: WrongDigests::default(),
            dry_new: AtomicBool::new(false),
        }
    }
}
