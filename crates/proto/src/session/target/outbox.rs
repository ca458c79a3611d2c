//! Messages waiting for the source, within limits. A source that reads nothing cannot exhaust the memory.

use std::collections::VecDeque;

use crate::error::ProtocolError;
use crate::ids::EntryId;
use crate::limits::{ENTRY_WINDOW, OPEN_DIRECTORIES_MAX};
use crate::ranges::RangeSet;
use crate::wire::message::TargetMessage;

/// Most messages: more than a source that respects the window can cause.
pub(super) const MESSAGES_MAX: usize = 2 * (ENTRY_WINDOW + OPEN_DIRECTORIES_MAX);
/// Most runs in one Done message.
pub(super) const DONE_RUNS_MAX: usize = 4096;
const _: () = assert!(DONE_RUNS_MAX <= ENTRY_WINDOW);
/// Most bytes of messages.
const BYTES_MAX: usize = 96 << 20;
/// Most requests to resend.
pub(super) const RESENDS_MAX: usize = 4096;

/// Messages for the source, in order.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    messages: VecDeque<TargetMessage>,
    bytes: usize,
    resends: usize,
    /// Completed entries, reported after the messages.
    done: RangeSet,
}

impl Outbox {
    pub(super) fn push(&mut self, message: TargetMessage) {
        self.bytes += message.held_bytes();
        self.resends += usize::from(is_resend(&message));
        self.messages.push_back(message);
    }

    /// Reports that an entry is complete.
    pub(super) fn push_done(&mut self, entry: EntryId) {
        self.done.insert(entry.0);
    }

    pub(super) fn pop(&mut self) -> Option<TargetMessage> {
        let Some(message) = self.messages.pop_front() else { return self.pop_done() };
        self.bytes -= message.held_bytes();
        self.resends -= usize::from(is_resend(&message));
        Some(message)
    }

    fn pop_done(&mut self) -> Option<TargetMessage> {
        if self.done.is_empty() {
            return None;
        }
        let mut runs = self.done.take_ranges().into_iter().map(|run| (EntryId(run.start), run.end - run.start));
        let first: Vec<_> = runs.by_ref().take(DONE_RUNS_MAX).collect();
        for run in runs {
            self.push(TargetMessage::Done { runs: vec![run] });
        }
        Some(TargetMessage::Done { runs: first })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.done.is_empty()
    }

    /// Checks the limits of messages, before an action that adds to them.
    pub(super) fn check(&self) -> Result<(), ProtocolError> {
        match self.messages.len() > MESSAGES_MAX || self.bytes > BYTES_MAX {
            true => Err(ProtocolError::OverLimit("answers that are not read")),
            false => Ok(()),
        }
    }

    /// Checks the limit of requests to resend, before input that may need one.
    pub(super) fn check_resends(&self) -> Result<(), ProtocolError> {
        match self.resends > RESENDS_MAX {
            true => Err(ProtocolError::OverLimit("damaged frames")),
            false => Ok(()),
        }
    }
}

fn is_resend(message: &TargetMessage) -> bool {
    matches!(message, TargetMessage::MissingRanges { .. } | TargetMessage::ResendPacked { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::HELD_VALUES_MAX;

    fn over_limit(what: &'static str) -> Result<(), ProtocolError> {
        Err(ProtocolError::OverLimit(what))
    }

    #[test]
    fn messages_are_limited() {
        let mut outbox = Outbox::default();
        for _ in 0..MESSAGES_MAX {
            outbox.push(TargetMessage::QueryEnd);
        }
        assert_eq!(outbox.check(), Ok(()));
        outbox.push(TargetMessage::QueryEnd);
        assert_eq!(outbox.check(), over_limit("answers that are not read"));
        outbox.pop();
        assert_eq!(outbox.check(), Ok(()));
    }

    #[test]
    fn bytes_are_limited() {
        let values = || TargetMessage::HaveRanges {
            entry: EntryId(0),
            first: 0,
            values: vec![[0; 32]; HELD_VALUES_MAX],
            compare: false,
        };
        let most = BYTES_MAX / values().held_bytes();
        let mut outbox = Outbox::default();
        (0..most).for_each(|_| outbox.push(values()));
        assert_eq!(outbox.check(), Ok(()));
        outbox.push(values());
        assert_eq!(outbox.check(), over_limit("answers that are not read"));
        outbox.pop();
        assert_eq!(outbox.check(), Ok(()));
    }

    #[test]
    fn requests_to_send_again_are_limited() {
        let mut outbox = Outbox::default();
        for _ in 0..=RESENDS_MAX {
            assert_eq!(outbox.check_resends(), Ok(()));
            outbox.push(TargetMessage::ResendPacked { entries: vec![EntryId(0)] });
        }
        assert_eq!(outbox.check_resends(), over_limit("damaged frames"));
        outbox.pop();
        assert_eq!(outbox.check_resends(), Ok(()));
    }
}
