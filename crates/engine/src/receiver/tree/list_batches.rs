//! Destinations of a list's source arguments, from the controller's announcement until the source has completed their
//! batch.

use std::collections::VecDeque;
use std::sync::Mutex;

use haul_base::sys::sync::lock;
use haul_proto::error::ProtocolError;
use haul_proto::limits::LISTED_BATCHES_AHEAD;
use haul_proto::wire::list_batch::{DestinationBatch, OperandDestination};

/// Batches with source arguments still to be offered.
#[derive(Default)]
pub struct ListedBatches(Mutex<ListedState>);

#[derive(Default)]
struct ListedState {
    batches: VecDeque<ListedBatch>,
    /// First number of the next batch.
    next: u32,
}

struct ListedBatch {
    first: u32,
    /// `None` for those already offered.
    places: Vec<Option<OperandDestination>>,
}

impl ListedBatch {
    fn end(&self) -> u32 {
        self.first.saturating_add(u32::try_from(self.places.len()).unwrap_or(u32::MAX))
    }
}

impl ListedBatches {
    /// Adds a batch from the controller.
    pub fn add(&self, DestinationBatch { first, places }: DestinationBatch) -> Result<(), ProtocolError> {
        let mut state = lock(&self.0);
        if first != state.next {
            return Err(ProtocolError::OutOfTurn("a listed source argument"));
        }
        if state.batches.len() >= LISTED_BATCHES_AHEAD {
            return Err(ProtocolError::OverLimit("listed source arguments"));
        }
        let batch = ListedBatch { first, places: places.into_iter().map(Some).collect() };
        state.next = batch.end();
        state.batches.push_back(batch);
        Ok(())
    }

    /// The destination of the source argument with this number: only once, and only while the source may offer it.
    pub fn take_destination(&self, number: u32) -> Option<OperandDestination> {
        let mut state = lock(&self.0);
        let batch = state.batches.iter_mut().find(|batch| number < batch.end())?;
        batch.places.get_mut(number.checked_sub(batch.first)? as usize)?.take()
    }

    /// Forgets the batches that the source has completed.
    pub fn forget_batch(&self, before: u32) -> Result<(), ProtocolError> {
        let mut state = lock(&self.0);
        match state.batches.pop_front() {
            Some(batch) if batch.end() == before => Ok(()),
            _ => Err(ProtocolError::Unasked("skipped source arguments")),
        }
    }
}

#[cfg(test)]
mod tests {
    use haul_base::control_channel::ControlWriter;
    use haul_proto::entry::{self, Entry, EntryContent, EntryMetadata};
    use haul_proto::ids::EntryId;
    use haul_proto::path::Name;
    use haul_proto::wire::list_batch::ListedKinds;
    use haul_proto::wire::message::{SourceMessage, TargetMessage, TransferNeed};
    use haul_proto::wire::request::TargetRequest;

    use super::*;
    use crate::metrics::reporter::Reporter;
    use crate::receiver::TargetReceiver;
    use crate::receiver::copy::WorkerContext;
    use crate::testing::target_request;

    fn place(number: u32) -> OperandDestination {
        OperandDestination { below: Vec::new(), name: Name::new(number.to_string().as_bytes()).ok() }
    }

    fn batch(first: u32, count: u32) -> DestinationBatch {
        DestinationBatch { first, places: (first..first + count).map(place).collect() }
    }

    #[test]
    fn a_place_is_used_once_and_only_before_its_batch_is_acknowledged() {
        let listed = ListedBatches::default();
        assert_eq!((listed.add(batch(0, 3)), listed.add(batch(3, 2))), (Ok(()), Ok(())));
        assert_eq!(
            (listed.take_destination(4), listed.take_destination(1), listed.take_destination(5)),
            (Some(place(4)), Some(place(1)), None)
        );
        assert_eq!(listed.take_destination(1), None, "once");
        assert_eq!(listed.forget_batch(3), Ok(()));
        assert_eq!((listed.take_destination(2), listed.take_destination(3)), (None, Some(place(3))));
        assert_eq!((listed.forget_batch(5), listed.add(batch(5, 0)), listed.forget_batch(5)), (Ok(()), Ok(()), Ok(())));
    }

    #[test]
    fn unannounced_batches_are_not_acknowledged() {
        let fault = Err(ProtocolError::Unasked("skipped source arguments"));
        assert_eq!(ListedBatches::default().forget_batch(0), fault);
        let listed = ListedBatches::default();
        listed.add(batch(0, 3)).unwrap();
        assert_eq!(listed.forget_batch(2), fault);
    }

    #[test]
    fn batches_follow_each_other_and_are_few() {
        let listed = ListedBatches::default();
        assert_eq!(listed.add(batch(1, 1)), Err(ProtocolError::OutOfTurn("a listed source argument")));
        let most = u32::try_from(LISTED_BATCHES_AHEAD).unwrap();
        (0..most).for_each(|number| listed.add(batch(number, 1)).unwrap());
        assert_eq!(listed.add(batch(most, 1)), Err(ProtocolError::OverLimit("listed source arguments")));
    }

    /// A target of a list, and its temporary directory.
    fn target(kinds: ListedKinds) -> (TargetReceiver, tempfile::TempDir) {
        let directory = tempfile::tempdir().unwrap();
        let request = TargetRequest { listed: kinds, ..target_request(directory.path(), Vec::new()) };
        let reporter = Reporter::new(ControlWriter::new(std::io::sink()), false);
        let context = WorkerContext { umask: 0o022, ..WorkerContext::default() };
        let target =
            TargetReceiver::prepare(request, reporter, &context, None).map_err(|refused| refused.text).unwrap();
        (target, directory)
    }

    /// Offers source arguments with these numbers and kinds; returns the target's needs.
    fn offer(target: &TargetReceiver, first: u64, operands: &[(u32, EntryContent)]) -> Vec<TransferNeed> {
        let entries = operands.iter().map(|(number, kind)| Entry {
            place: entry::EntryLocation::Operand(*number),
            kind: kind.clone(),
            meta: EntryMetadata { mode: 0o644, ..EntryMetadata::default() },
            version: None,
            more: None,
        });
        let offer = SourceMessage::Offer { first: EntryId(first), entries: entries.collect() };
        target.handle_peer(&offer.encode(target.parts.copy.request.settings.number)).unwrap();
        match target.parts.session.take_messages().pop() {
            Some(TargetMessage::Want { needs, .. }) => needs,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_source_may_offer_only_the_controllers_batches() {
        let file = || EntryContent::File { size: 3 };
        let link = || EntryContent::Symlink { points_to: (*b"x").into() };
        let (target, directory) = target(ListedKinds::Files);
        let below = OperandDestination { below: vec![Name::new(b"made").unwrap()], ..place(1) };
        let places = vec![place(0), below, place(2), place(3)];
        target.parts.tree.add_listed(DestinationBatch { first: 0, places }).unwrap();
        let needs =
            offer(&target, 0, &[(1, file()), (1, file()), (4, file()), (2, EntryContent::Directory), (3, link())]);
        let refused = TransferNeed::Refused;
        assert_eq!(needs, [TransferNeed::All, refused, refused, refused, refused]);
        assert!(directory.path().join("made").is_dir());
        let passed = |before| {
            target.handle_peer(&SourceMessage::ListAck { before }.encode(target.parts.copy.request.settings.number))
        };
        assert!(passed(3).is_err());
        assert_eq!(passed(4), Err(ProtocolError::Unasked("skipped source arguments")), "it was given up");
    }

    #[test]
    fn directories_need_recursive_copies_and_lists_need_list_copies() {
        let (trees, directory) = target(ListedKinds::Trees);
        trees.parts.tree.add_listed(batch(0, 1)).unwrap();
        assert_eq!(offer(&trees, 0, &[(0, EntryContent::Directory)]), [TransferNeed::All]);
        assert!(directory.path().join("0").is_dir());
        let (none, _directory) = target(ListedKinds::No);
        assert_eq!(none.parts.tree.add_listed(batch(0, 1)), Err(ProtocolError::Unasked("a listed source argument")));
        assert!(
            none.handle_peer(&SourceMessage::ListAck { before: 0 }.encode(none.parts.copy.request.settings.number))
                .is_err()
        );
    }
}
