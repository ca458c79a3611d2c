//! Source arguments from a list, between the control channel and the walk.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};

use haul_base::sys::sync::lock;
use haul_proto::error::ProtocolError;
use haul_proto::limits::LISTED_BATCHES_AHEAD;
use haul_proto::wire::list_batch::SourceBatch;

/// Received batches, not yet walked.
pub struct PendingBatches {
    state: Mutex<PendingBatchState>,
    more: Condvar,
}

struct PendingBatchState {
    batches: VecDeque<SourceBatch>,
    /// First number of the next batch; `None` after the last one.
    next: Option<u32>,
    stopped: bool,
}

impl PendingBatches {
    /// An empty queue.
    pub fn new() -> Self {
        let state = PendingBatchState { batches: VecDeque::new(), next: Some(0), stopped: false };
        Self { state: Mutex::new(state), more: Condvar::new() }
    }

    /// Adds a batch from the controller.
    pub fn add(&self, batch: SourceBatch) -> Result<(), ProtocolError> {
        let mut state = lock(&self.state);
        if state.next != Some(batch.first) || batch.paths.is_empty() && !batch.last {
            return Err(ProtocolError::OutOfTurn("a listed source argument"));
        }
        if state.batches.len() >= LISTED_BATCHES_AHEAD {
            return Err(ProtocolError::OverLimit("listed source arguments"));
        }
        let count = u32::try_from(batch.paths.len()).unwrap_or(u32::MAX);
        state.next = (!batch.last).then(|| batch.first.saturating_add(count));
        state.batches.push_back(batch);
        self.more.notify_all();
        Ok(())
    }

    /// Waits for the next batch; `None` if the copy was stopped.
    pub fn next(&self) -> Option<SourceBatch> {
        let mut state = lock(&self.state);
        loop {
            if state.stopped {
                return None;
            }
            if let Some(batch) = state.batches.pop_front() {
                return Some(batch);
            }
            state = self.more.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Wakes all waiting threads for good.
    pub fn stop(&self) {
        lock(&self.state).stopped = true;
        self.more.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(first: u32, count: usize, last: bool) -> SourceBatch {
        SourceBatch { first, paths: vec![b"x".to_vec(); count], last }
    }

    #[test]
    fn batches_arrive_in_order_until_the_last() {
        let listed = PendingBatches::new();
        let out_of_turn = Err(ProtocolError::OutOfTurn("a listed source argument"));
        assert_eq!(listed.add(batch(1, 1, false)), out_of_turn, "numbers begin at 0");
        assert_eq!(listed.add(batch(0, 0, false)), out_of_turn, "nothing, and not the last");
        assert_eq!((listed.add(batch(0, 2, false)), listed.add(batch(2, 0, true))), (Ok(()), Ok(())));
        assert_eq!(listed.add(batch(2, 1, true)), out_of_turn, "behind the last");
        assert_eq!((listed.next(), listed.next()), (Some(batch(0, 2, false)), Some(batch(2, 0, true))));
        listed.stop();
        assert_eq!(listed.next(), None);
    }

    #[test]
    fn more_than_may_be_ahead_is_a_fault() {
        let listed = PendingBatches::new();
        let most = u32::try_from(LISTED_BATCHES_AHEAD).unwrap();
        (0..most).for_each(|number| listed.add(batch(number, 1, false)).unwrap());
        assert_eq!(listed.add(batch(most, 1, false)), Err(ProtocolError::OverLimit("listed source arguments")));
        listed.next().unwrap();
        assert_eq!(listed.add(batch(most, 1, false)), Ok(()));
    }
}
