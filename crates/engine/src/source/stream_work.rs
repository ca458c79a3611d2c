//! The work of each stream: what it reads next, and what it has read.

use std::io;
use std::time::Instant;

use haul_proto::ids::{EntryId, StreamId};
use haul_proto::integrity::Digest;
use haul_proto::ranges::RangeSet;
use haul_proto::scheduler::WorkItem;
use haul_proto::wire::resource_metrics::Stage;

use super::session::{Source, State};
use crate::metrics::stage_timer::during;
use crate::net::stream::StreamError;
use crate::source::entry::SourceEntry;

/// Frames read from a file: their digests, and which of them equal the target's.
pub struct ReadFrames {
    /// The file.
    pub entry: EntryId,
    /// Index and digest of each frame.
    pub values: Vec<(u64, Digest)>,
    /// Frames equal to the target's.
    pub same: RangeSet,
}

impl Source {
    /// Records that a chunk was read and sent.
    pub(super) fn chunk_done(&self, ticket: u64) {
        if ticket > 0 {
            self.lock().machine.chunk_done(ticket);
        }
    }

    /// Handles the end of a lost stream's thread. The target is asked which frames in flight have arrived.
    pub(super) fn lose_stream(&self, id: StreamId, in_hand: impl Iterator<Item = WorkItem<SourceEntry>>) {
        let mut state = self.lock();
        state.given_up.remove(&id);
        state.machine.lose_stream(id, in_hand);
        drop(state);
        self.notify();
    }

    /// The next work for a stream, at most `frames_max` frames; `None` if all entries are complete or the copy was
    /// stopped. Fails if the stream was abandoned.
    pub(super) fn wait_for_work(
        &self,
        id: StreamId,
        frames_max: u64,
    ) -> Result<Option<WorkItem<SourceEntry>>, StreamError> {
        let since = Instant::now();
        let mut state = self.lock();
        loop {
            if state.is_over() {
                drop(state);
                self.notify();
                return Ok(None);
            }
            if state.given_up.contains(&id) {
                return Err(io::Error::from(io::ErrorKind::ConnectionAborted).into());
            }
            let work = self.take_work(&mut state, id, frames_max);
            if work.is_some() {
                return Ok(work);
            }
            let stage = if state.is_in_use(id) { Stage::Idle } else { Stage::Rest };
            state = match state.double_after {
                Some(rest) if state.is_in_use(id) => {
                    let left = rest.saturating_sub(since.elapsed());
                    if left.is_zero()
                        && !self.limiter.is_limited()
                        && let Some(double) = state.machine.next_double()
                    {
                        return Ok(Some(double));
                    }
                    // Work ages until it can be duplicated; new work wakes this thread.
                    let pause = if left.is_zero() { rest } else { left };
                    during(stage, || self.signals.work.wait_timeout(state, pause))
                }
                _ => during(stage, || self.signals.work.wait(state)),
            };
        }
    }

    /// The next work for a stream, without waiting.
    pub(super) fn work_at_hand(&self, id: StreamId, frames_max: u64) -> Option<WorkItem<SourceEntry>> {
        let mut state = self.lock();
        let is_over = state.stopped || state.given_up.contains(&id);
        if is_over { None } else { self.take_work(&mut state, id, frames_max) }
    }

    fn take_work(&self, state: &mut State, id: StreamId, frames_max: u64) -> Option<WorkItem<SourceEntry>> {
        let was_closed = state.machine.window() == 0;
        let gets_work = state.is_in_use(id) && !self.limiter.is_paused();
        let work = if gets_work {
            state.machine.next_work(id, frames_max)
        } else {
            state.machine.rest(id);
            None
        };
        // Dropping obsolete work may reopen the window.
        if was_closed && state.machine.window() > 0 {
            self.signals.window.notify_all();
        }
        work
    }

    /// Records frames as read; those in `same` are equal at both ends.
    pub(super) fn frames_read(&self, entry: EntryId, item: &SourceEntry, values: &[(u64, [u8; 32])], same: &RangeSet) {
        let last = self.lock().machine.frames_read(entry, values, same);
        if let Some(digest) = last {
            self.sum_up(entry, item, digest);
        }
        self.signals.outbox.notify_all();
    }

    /// Records the frames of several files at once.
    pub(super) fn all_read(&self, compared: &mut Vec<ReadFrames>) {
        if compared.is_empty() {
            return;
        }
        let mut state = self.lock();
        for ReadFrames { entry, values, same } in compared.drain(..) {
            state.machine.frames_read(entry, &values, &same);
        }
        drop(state);
        self.signals.outbox.notify_all();
    }

    /// Returns a small file that did not fit into its pack to the queue.
    pub(super) fn requeue_small_file(&self, entry: EntryId, size: u64) {
        self.lock().machine.put_back(entry, size);
        self.signals.work.notify_all();
    }
}
