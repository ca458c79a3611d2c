//! Files that a target has said are done, and that were sent to it in this job: where those are to be removed, the engine
//! is told of each. Until it says that it has seen to one, that takes its place in the window, so that they do not pile up.

use std::sync::Arc;

use super::{Source, State, Tracked};
use crate::ids::EntryId;

/// What is proven at the target.
#[derive(Debug)]
pub(super) struct Proven<H> {
    /// Whether anybody wants to know.
    wanted: bool,
    /// Not taken yet.
    files: Vec<Arc<H>>,
    /// Taken, and not seen to.
    taken: usize,
}

impl<H> Default for Proven<H> {
    fn default() -> Self {
        Self { wanted: false, files: Vec::new(), taken: 0 }
    }
}

impl<H> Proven<H> {
    /// How many were not seen to.
    pub(super) fn under_way(&self) -> usize {
        self.files.len() + self.taken
    }
}

impl<H> Source<H> {
    /// From now on, [`Self::take_proven`] is called after each message of the target.
    pub fn await_proof(&mut self) {
        self.proven.wanted = true;
    }

    /// Files that were sent, and have become done since this was last called, in that order; names of such files among
    /// them. Each of them is to be [`Self::proven_seen_to`] some time.
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
        let Some(Tracked { handle, state }) = self.entries.get(&entry) else { return };
        let was_sent = match state {
            State::Small { begun, .. } => *begun,
            State::Awaited => true,
            State::Large(large) => large.ended,
            State::Flow(flow) => flow.is_told(),
            State::Offered { .. } | State::Directory { .. } => false,
        };
        if was_sent {
            self.proven.files.push(Arc::clone(handle));
        }
    }
}

#[cfg(test)]
#[path = "proven_tests.rs"]
mod tests;
