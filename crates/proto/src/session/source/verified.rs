//! Files verified at the target: those sent in this copy and done, and existing ones known to be equal. A source that
//! removes its files passes each to the engine. A file counts in the window until the engine has handled it, so that
//! verified files do not pile up.

use std::sync::Arc;

use super::{OfferState, OfferedEntry, SourceSession};
use crate::ids::EntryId;
use crate::wire::message::TransferNeed;

/// Verified files.
#[derive(Debug)]
pub(super) struct VerifiedFiles<H> {
    /// Whether the source removes files.
    wanted: bool,
    /// Files that the engine has not taken yet.
    files: Vec<Arc<H>>,
    /// Number of files taken by the engine and not handled.
    taken: usize,
    /// Number of existing files not known to be equal, since the last query.
    unproven: u64,
}

impl<H> Default for VerifiedFiles<H> {
    fn default() -> Self {
        Self { wanted: false, files: Vec::new(), taken: 0, unproven: 0 }
    }
}

impl<H> VerifiedFiles<H> {
    /// Returns the number of files not handled.
    pub(super) fn under_way(&self) -> usize {
        self.files.len() + self.taken
    }

    /// Whether the source removes files, so that a target may report an existing entry as equal.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// Records a decision without transfer.
    pub(super) fn answered(&mut self, need: TransferNeed, handle: &Arc<H>) {
        match need {
            TransferNeed::Same => self.files.push(Arc::clone(handle)),
            TransferNeed::Nothing if self.wanted => self.unproven += 1,
            _ => {}
        }
    }
}

impl<H> SourceSession<H> {
    /// Enables the collection; [`Self::take_verified`] has to be called after each message of the target.
    pub fn await_proof(&mut self) {
        self.proven.wanted = true;
    }

    /// Returns the number of existing files and links not known to be equal, since the last call.
    pub fn take_unproven(&mut self) -> u64 {
        std::mem::take(&mut self.proven.unproven)
    }

    /// Returns the verified files since the last call: sent files in order of completion, with their hard links, and
    /// existing ones known to be equal. Each needs a later [`Self::release_verified`].
    pub fn take_verified(&mut self) -> Vec<Arc<H>> {
        self.proven.taken += self.proven.files.len();
        std::mem::take(&mut self.proven.files)
    }

    /// Records that this number of files was handled.
    pub fn release_verified(&mut self, count: usize) {
        self.proven.taken = self.proven.taken.saturating_sub(count);
    }

    /// Collects an entry that was sent and is done; call it before the entry is completed.
    pub(super) fn remember_verified(&mut self, entry: EntryId) {
        let Some(OfferedEntry { handle, state, .. }) = self.entries.get(&entry) else { return };
        if self.proven.wanted && !matches!(state, OfferState::Directory { .. }) {
            self.proven.files.push(Arc::clone(handle));
        }
    }
}

#[cfg(test)]
#[path = "verified_tests.rs"]
mod tests;
