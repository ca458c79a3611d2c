//! Decides about each offered entry.

pub mod check_entry;
pub mod dry_run;
pub mod hard_links;
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
use rustix::fs::fsync;

use crate::fs::FollowLinks;
use crate::receiver::compare::EntryComparer;
use crate::receiver::decide::link_dests::LinkDests;
use crate::receiver::decide::rename_detection::RenameDetector;
use crate::receiver::decide::wrong_digests::WrongDigests;
use crate::receiver::entry::ReceiverEntry;
use crate::receiver::parts::ReceiverParts;
use crate::receiver::place::entry_position::{EntryDecision, EntryPosition};
use crate::receiver::place::error::FileError;

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
    pub(super) parts: Arc<ReceiverParts>,
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
    pub(super) fn new(parts: &Arc<ReceiverParts>, link_dests: LinkDests) -> Self {
        Self {
            parts: Arc::clone(parts),
            comparer: EntryComparer::new(parts),
            renames: RenameDetector::default(),
            link_dests,
            wrong_digests: WrongDigests::default(),
            dry_new: AtomicBool::new(false),
        }
    }
}

impl EntryDecider {
    /// Answers an entry that is known to be equal and needs no change: a file with an equal digest, or a symbolic link.
    /// A source that removes verified files removes it as well, so it is synced before the report.
    pub(crate) fn known_to_be_same(&self, position: &EntryPosition, is_file: bool) -> EntryResult {
        if !self.parts.copy.request.sync.source_removes {
            return Ok(EntryAnswer::Settled);
        }
        if self.parts.commit_queue.is_wanted() {
            if is_file {
                fsync(&position.dir.open_file(&position.name, FollowLinks::Itself)?.0)?;
            }
            fsync(&*position.dir.fd()?)?;
        }
        Ok(EntryAnswer::Same)
    }
}
