//! Files that a target has said are done, and that were sent to it in this job, and what it has said is there and is known
//! to be the same: where those are to be removed, the engine is told of each. Until it says that it has seen to one, that takes its place in the window, so that they do not pile up.

use std::sync::Arc;

use super::{OfferState, OfferedEntry, SourceSession};
use crate::ids::EntryId;
use crate::wire::message::TransferNeed;

/// What is proven at the target.
#[derive(Debug)]
pub(super) struct VerifiedFiles<H> {
    /// Whether anybody wants to know.
    wanted: bool,
    /// Not taken yet.
    files: Vec<Arc<H>>,
    /// Taken, and not seen to.
    taken: usize,
    /// How many were there, and are not known to be the same, since that was asked for.
    unproven: u64,
}

impl<H> Default for VerifiedFiles<H> {
    fn default() -> Self {
        Self { wanted: false, files: Vec::new(), taken: 0, unproven: 0 }
    }
}

impl<H> VerifiedFiles<H> {
    /// How many were not seen to.
    pub(super) fn under_way(&self) -> usize {
        self.files.len() + self.taken
    }

    /// Of something, nothing is needed.
    pub(super) fn answered(&mut self, need: TransferNeed, handle: &Arc<H>) {
        match need {
            TransferNeed::Same if self.wanted => self.files.push(Arc::clone(handle)),
            TransferNeed::Nothing if self.wanted => self.unproven += 1,
            _ => {}
        }
    }
}

impl<H> SourceSession<H> {
    /// From now on, [`Self::take_proven`] is called after each message of the target.
    pub fn await_proof(&mut self) {
        self.proven.wanted = true;
    }

    /// How many files and links were there since this was last called, and are not known to be the same.
    pub fn take_unproven(&mut self) -> u64 {
        std::mem::take(&mut self.proven.unproven)
    }

    /// Files that were sent and have become done since this was last called, in that order, names of such files among
    /// them, and what is there and known to be the same. Each of them is to be [`Self::proven_seen_to`] some time.
    pub fn take_proven(&mut self) -> Vec<Arc<H>> {
        self.proven.taken += self.proven.files.len();
        std::mem::take(&mut self.proven.files)
    }

    /// So many of them need no room any more.
    pub fn proven_seen_to(&mut self, count: usize) {
        self.proven.taken = self.proven.taken.saturating_sub(count);
    }

    /// To be called before what is done is settled. What a target has already is settled by its answer, and never comes
    /// here; nor is a file proven that no stream was given, or a large one of which the target was not told the end.
    pub(super) fn keep_if_proven(&mut self, entry: EntryId) {
        if !self.proven.wanted {
            return;
        }
        let Some(OfferedEntry { handle, state, .. }) = self.entries.get(&entry) else { return };
        let was_sent = match state {
            OfferState::Small { begun, .. } => *begun,
            OfferState::Awaited => true,
            OfferState::Large(large) => large.ended,
            OfferState::Flow(flow) => flow.is_told(),
            OfferState::Offered { .. } | OfferState::Directory { .. } => false,
        };
        if was_sent {
            self.proven.files.push(Arc::clone(handle));
        }
    }
}

#[cfg(test)]
#[path = "verified_tests.rs"]
mod tests;
