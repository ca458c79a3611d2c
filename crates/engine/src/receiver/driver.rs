//! What happens to an entry at the target: the messages, frames and files of all threads come here, and each step of
//! the state machine is executed here. An ended entry may end others, so ends are handled in a loop.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use haul_base::sys::sync::lock;
use haul_proto::entry::{Entry, EntryContent};
use haul_proto::error::ProtocolError;
use haul_proto::ids::EntryId;
use haul_proto::journal::JournalRecord;
use haul_proto::path::Name;
use haul_proto::scheduler::Chunk;
use haul_proto::session::differing::Differing;
use haul_proto::session::step::{EntryAnswer, FinishedEntry, TargetStep};
use haul_proto::wire::message::{ListingEnd, SourceMessage};
use haul_proto::wire::report::WorkerMessage;
use haul_proto::wire::resource_metrics::Stage;

use crate::metrics::counter::add;
use crate::metrics::stage_timer::during;
use crate::receiver::TargetReceiver;
use crate::receiver::commit::outcomes::EntryOutcomes;
use crate::receiver::compare::entries::content;
use crate::receiver::compare::reread::compared_file;
use crate::receiver::entry::{Compared, ReceiverEntry, WrittenFrame};
use crate::receiver::links::hard_links::{LinkOutcome, LinkStep, OtherLinkName};
use crate::receiver::place::error::FileError;
use crate::receiver::receive::partial_verification::{VerificationClaim, VerifiedFrames};
use crate::receiver::session::StreamRequest;

/// What follows from ended entries.
#[derive(Default)]
struct Consequences {
    /// Files with all their frames, and directories with all their entries.
    finished: VecDeque<FinishedEntry<ReceiverEntry>>,
    /// Hard links that waited for their file.
    links: VecDeque<LinkStep>,
}

impl TargetReceiver {
    /// Handles a message from the source. This thread also answers offers.
    pub fn handle_peer(&self, bytes: &[u8]) -> Result<(), ProtocolError> {
        let message = SourceMessage::decode_keeping(
            bytes,
            self.parts.copy.request.settings.number,
            self.parts.copy.extras_filter(),
        )?;
        let is_incomplete = matches!(message, SourceMessage::DirectoryEnd { listing: ListingEnd::Incomplete, .. });
        if let SourceMessage::DirectoryEnd { entry, listing } = message {
            self.parts.removals.reserve_removals(&self.parts.session, entry, listing != ListingEnd::Complete);
        }
        let step = self.parts.session.apply(|machine| machine.handle(message))?;
        if is_incomplete {
            self.parts.removals.block_removal();
        }
        match step {
            TargetStep::Passed(before) => {
                self.parts.tree.list_batches.forget_batch(before)?;
                self.parts.copy.reporter.send(&WorkerMessage::ListAck { before });
            }
            TargetStep::Owner { is_group, id, name } => self.parts.metadata.owners.learn(is_group, id, &name)?,
            TargetStep::Patterns(entry, file, text) => self.parts.removals.filter.add(entry, file, text)?,
            step => {
                if let TargetStep::Examine(first, entries) = &step {
                    self.decider.count_links(*first, entries)?;
                }
                self.run_step(self.without_reading(step));
            }
        }
        Ok(())
    }

    /// Moves steps that read files to another thread, so that the thread for messages stays responsive.
    fn without_reading(&self, step: TargetStep<ReceiverEntry>) -> TargetStep<ReceiverEntry> {
        match step {
            TargetStep::Sum(entry, item, size) if !matches!(&*item, ReceiverEntry::File(file) if file.in_order_queue().is_some()) =>
            {
                self.verifier.claims.add(vec![VerificationClaim::Sum(entry, item, size)]);
                TargetStep::None
            }
            step => step,
        }
    }

    /// Executes a step of the state machine.
    pub(super) fn run_step(&self, step: TargetStep<ReceiverEntry>) {
        match step {
            TargetStep::None | TargetStep::Passed(_) | TargetStep::Owner { .. } | TargetStep::Patterns(..) => {}
            TargetStep::LeftOut(item, names) => match &*item {
                ReceiverEntry::Compared(compared) => compared.not_offered(&names),
                item => self.parts.removals.note_excluded(item, &names),
            },
            TargetStep::Vanished(item, names) => match &*item {
                ReceiverEntry::Compared(compared) => compared.not_offered(&names),
                item => self.parts.removals.keep_names(item, &names),
            },
            TargetStep::Examine(first, mut entries) => {
                self.parts.metadata.owners.map_owners(&mut entries);
                self.parts.commit_queue.wait_for_room();
                self.decide_entries(first, &entries);
            }
            TargetStep::Connect(count, path) => self.parts.session.request_streams(StreamRequest::More(count, path)),
            TargetStep::SmallSegments(path) => self.parts.session.request_streams(StreamRequest::SmallSegments(path)),
            TargetStep::StreamsLost(streams) => self.parts.session.request_streams(StreamRequest::Without(streams)),
            TargetStep::Finish(finished) => self.finish(Some(finished)),
            TargetStep::Sum(entry, item, size) => self.sum_up(entry, &item, size),
            TargetStep::Abandon(entry, item, has_vanished) => {
                if !has_vanished {
                    self.parts.copy.note_failed_entry();
                }
                if let ReceiverEntry::File(file) = &*item {
                    file.discard(&self.parts.tree.temp_files);
                }
                self.finish(self.parts.session.apply(|machine| machine.abandoned(entry)));
                self.end_links(entry, LinkOutcome::Failed);
            }
            TargetStep::Mismatch(entry, item) => match &*item {
                ReceiverEntry::Compared(Compared::File(_)) => self.compare_failed(entry, &item, &FileError::Mismatch),
                ReceiverEntry::File(file) => {
                    file.discard(&self.parts.tree.temp_files);
                    // Other runs write the other ranges of the file.
                    file.journal().filter(|_| file.range().is_some()).iter().for_each(|journal| journal.void());
                    self.parts.copy.fail_entry(file.display_path(&self.parts.copy.destination), FileError::Mismatch);
                    self.end_entry(entry, false);
                }
                ReceiverEntry::Directory { .. } | ReceiverEntry::HardLink | ReceiverEntry::Compared(_) => {
                    self.end_entry(entry, false);
                }
            },
            TargetStep::Differs(entry, item, differing) => self.content_differs(entry, &item, &differing),
        }
    }

    /// Answers all entries of an Offer.
    fn decide_entries(&self, first: EntryId, entries: &[Entry]) {
        let (mut claims, mut chunks, mut deltas, mut links) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (at, entry) in entries.iter().enumerate() {
            let id = EntryId(first.0 + at as u64);
            self.parts.tree.look_ahead(&self.parts.session, entries, at);
            self.parts.removals.note_name(&self.parts.session, entry);
            let turn = self.decider.first_of_sources(entry);
            let entry = turn.as_deref().unwrap_or(entry);
            let (answer, link) = match &turn {
                Some(_) => self.decider.answer_offered(id, entry),
                None => (EntryAnswer::Refused, None),
            };
            links.extend(link);
            match (&answer, &entry.kind) {
                (EntryAnswer::Partial(item), _) => claims.push(VerificationClaim::Part(id, Arc::clone(item))),
                (EntryAnswer::Delta(item), EntryContent::File { size }) => {
                    deltas.push((id, Arc::clone(item), 0..self.parts.copy.request.settings.frame.frames(*size)));
                }
                (EntryAnswer::Compare(item), EntryContent::File { size }) => {
                    let frames = 0..self.parts.copy.request.settings.frame.frames(*size);
                    chunks.push(Chunk { entry: id, handle: Arc::clone(item), size: *size, frames, ticket: 0 });
                }
                (EntryAnswer::Needed(item), EntryContent::Directory) => {
                    self.parts.removals.enter_filtered(id, entry, item)
                }
                _ => {}
            }
            let ended = match &answer {
                EntryAnswer::Settled | EntryAnswer::Same => Some(true),
                EntryAnswer::Refused => Some(false),
                _ => None,
            };
            self.finish(self.parts.session.apply(|machine| machine.answer(id, answer)));
            if let Some(is_there) = ended {
                self.end_links(id, self.decider.outcome_for_links(id, entry, is_there));
            }
        }
        links.into_iter().for_each(|other| self.add_hard_link(other));
        self.parts.links.count_answered_links(entries);
        // Existing frames of a file can be reported only after all answers.
        self.verifier.claims.add(claims);
        self.decider.comparer.chunks.add(chunks);
        for (id, item, frames) in deltas {
            self.parts.deltas.sign(id, &item, vec![frames]);
        }
    }

    /// Completes the requested digest of a large file with all frames written.
    pub(super) fn sum_up(&self, entry: EntryId, item: &ReceiverEntry, size: u64) {
        let ReceiverEntry::File(file) = item else { return };
        match self.parts.digests.complete_sum(file, size, || !self.parts.session.is_stopped()) {
            Ok(()) => self.run_step(self.parts.session.apply(|machine| machine.summed(entry))),
            // A stopped copy reports nothing more.
            Err(_) if self.parts.session.is_stopped() => {}
            Err(error) => self.fail_file(entry, item, &FileError::Reread(error.into())),
        }
    }

    /// Reports verified frames to the source, in any number of files. Frames to be compared wait while the source has
    /// many others to compare.
    pub(super) fn report_verified_frames(&self, held: impl IntoIterator<Item = VerifiedFrames>, compare: bool) {
        for VerifiedFrames { entry, first, values } in held {
            let step = self.parts.session.apply_when(
                |machine| !compare || machine.may_hold(values.len()),
                |machine| machine.holds(entry, first, &values, compare),
            );
            self.run_step(step);
        }
    }

    /// Handles a frame that was written, or could not be.
    pub(super) fn frame_written(&self, WrittenFrame { item, frame, len, result }: WrittenFrame) {
        let stored = match result {
            Ok(stored) => stored,
            Err(error) => return self.fail_file(frame.entry, &item, &error),
        };
        add(&self.parts.copy.reporter.tally.bytes_stored, stored);
        let settings = &self.parts.copy.request.settings;
        if let ReceiverEntry::File(file) = &*item {
            file.count_written(len as u64, &self.parts.copy.reporter.tally.bytes_written);
            let index = frame.offset / u64::from(settings.frame.get());
            let value = settings.blake3.then_some(frame.value);
            if let Some(journal) = file.journal() {
                journal.record(index, &JournalRecord { check: frame.check, value });
            }
            self.parts.digests.frame_written(file, index);
        }
        self.parts.commit_queue.note_unsaved(&item, len as u64);
        let step = self.parts.session.apply(|machine| machine.frame_written(frame.entry, frame.offset, frame.value));
        self.run_step(step);
    }

    /// Fails a file, unless it has ended or was offered again.
    pub(super) fn fail_file(&self, entry: EntryId, item: &ReceiverEntry, error: &FileError) {
        let ReceiverEntry::File(file) = item else { return };
        let next = self.parts.session.apply(|machine| {
            // Data of an entry that was offered again belongs to the new offer.
            if machine.is_known(entry) {
                file.give_up(self.parts.copy.request.partial.keep, &self.parts.tree.temp_files);
                // Under the lock: the copy may end with this entry, and its summary counts the failure.
                self.parts.copy.fail_file(file, error);
            }
            machine.settle_entry(entry, false)
        });
        self.finish(next);
        self.end_links(entry, LinkOutcome::Failed);
    }

    /// Handles a compared file with differing frames.
    fn content_differs(&self, entry: EntryId, item: &ReceiverEntry, differing: &Differing) {
        if let Some(file) = compared_file(item) {
            let content = content(differing, u64::from(self.parts.copy.request.settings.frame.get()), file.size);
            let mut differences = file.differences.clone();
            differences.insert(0, content);
            self.parts.copy.reporter.file_compared(|| file.relative(), file.size, None);
            self.decider.comparer.report_differences(&file.relative(), differences);
        }
        self.end_entry(entry, true);
    }

    /// Handles a failed comparison.
    pub(super) fn compare_failed(&self, entry: EntryId, item: &ReceiverEntry, error: &FileError) {
        let Some(file) = compared_file(item) else { return };
        if !file.failed.swap(true, Ordering::Relaxed) {
            self.parts.copy.fail(self.parts.copy.destination.path(&file.relative()), error);
            self.end_entry(entry, false);
        }
    }

    /// Creates a hard link, now or once its file is complete.
    pub(super) fn add_hard_link(&self, other: OtherLinkName) {
        let EntryContent::HardLink { to, .. } = other.offered.kind else { return };
        let link = lock(&self.parts.links.hard_links.0).add(to, other);
        self.follow(Consequences { links: [link].into(), ..Consequences::default() });
    }

    /// Ends one entry.
    fn end_entry(&self, entry: EntryId, done: bool) {
        self.end_entries(EntryOutcomes { settled: vec![(entry, done)], ..EntryOutcomes::default() });
    }

    /// Ends entries under one lock of the session, and whatever ends with them.
    pub(super) fn end_entries(&self, outcomes: EntryOutcomes) {
        self.follow(self.settle_outcomes(outcomes));
    }

    /// Completes an entry of the session, and whatever ends with it.
    pub(super) fn finish(&self, finished: Option<FinishedEntry<ReceiverEntry>>) {
        let Some(finished) = finished else { return };
        self.follow(Consequences { finished: [finished].into(), ..Consequences::default() });
    }

    /// Creates the hard links that waited for an entry that ended otherwise than by [`Self::end_entries`].
    pub(super) fn end_links(&self, entry: EntryId, outcome: LinkOutcome) {
        if self.parts.copy.request.metadata.preserve.hard_links {
            let links = self.waiting_links([(entry, outcome)]);
            self.follow(Consequences { links, ..Consequences::default() });
        }
    }

    /// Handles consequences until nothing follows any more.
    fn follow(&self, mut next: Consequences) {
        loop {
            let mut outcomes = EntryOutcomes::default();
            if let Some(finished) = next.finished.pop_front() {
                self.complete(finished, &mut outcomes);
            } else if let Some(link) = next.links.pop_front() {
                outcomes.settled.extend(self.make_hard_link(link));
            } else {
                return;
            }
            let Consequences { finished, links } = self.settle_outcomes(outcomes);
            next.finished.extend(finished);
            next.links.extend(links);
        }
    }

    /// Settles ended entries in the session.
    fn settle_outcomes(&self, mut outcomes: EntryOutcomes) -> Consequences {
        self.committer.ask_again(std::mem::take(&mut outcomes.lost), &mut outcomes);
        let EntryOutcomes { settled, lacking, .. } = outcomes;
        if settled.is_empty() {
            return Consequences::default();
        }
        let finished = self
            .parts
            .session
            .apply(|machine| settled.iter().filter_map(|(entry, done)| machine.settle_entry(*entry, *done)).collect());
        let links = self.waiting_links(settled.into_iter().map(|(entry, done)| {
            let is_there = done || lacking.contains(&entry);
            (entry, if is_there { LinkOutcome::There } else { LinkOutcome::Failed })
        }));
        Consequences { finished, links }
    }

    fn waiting_links(&self, ended: impl IntoIterator<Item = (EntryId, LinkOutcome)>) -> VecDeque<LinkStep> {
        if !self.parts.copy.request.metadata.preserve.hard_links {
            return VecDeque::new();
        }
        let mut table = lock(&self.parts.links.hard_links.0);
        ended.into_iter().flat_map(|(entry, outcome)| table.settled(entry, outcome)).collect()
    }

    /// Completes an entry. A directory gets its metadata; a file gets its metadata, and its name immediately or after
    /// fsync.
    fn complete(&self, finished: FinishedEntry<ReceiverEntry>, outcomes: &mut EntryOutcomes) {
        let FinishedEntry { entry, handle, end, complete } = finished;
        let scope = self.parts.removals.filter.leave(entry);
        let done = match (&*handle, end) {
            (ReceiverEntry::Directory { dir, fresh, meta, attributes, names }, _) => {
                if let Some(names) = names {
                    self.parts.removals.sweep(&handle, dir, names, scope.as_ref(), complete);
                }
                self.parts.tree.finish_again(dir, *fresh, meta);
                self.parts.removals.removes_only() && self.parts.metadata.leave_unchanged(dir)
                    || self.parts.metadata.finish_directory(dir, *fresh, meta, attributes.as_deref())
            }
            (ReceiverEntry::File(_), Some(end)) => {
                let completed = during(Stage::Room, || self.committer.complete(entry, &handle, end));
                if let Some(whole) = self.committer.name_unless_synced(entry, &handle, completed, outcomes) {
                    self.parts.commit_queue.add(vec![whole]);
                }
                return;
            }
            (ReceiverEntry::File(_) | ReceiverEntry::HardLink, _) => false,
            (ReceiverEntry::Compared(compared), end) => {
                let is_left_out = |name: &Name, is_directory| {
                    self.parts.removals.filter.leaves_out(scope.as_ref(), name, is_directory)
                };
                self.decider.comparer.finish_compared(compared, end.map(|end| end.digest), complete, &is_left_out)
            }
        };
        outcomes.settled.push((entry, done));
    }

    /// Makes a hard link. Returns its entry, and whether it exists.
    fn make_hard_link(&self, link: LinkStep) -> Option<(EntryId, bool)> {
        let (other, made) = match link {
            LinkStep::Nothing => return None,
            LinkStep::Make(other, first, outcome) => {
                let made = self.decider.make_hard_link(&other, &first, outcome);
                (other, made)
            }
            LinkStep::Fail(other) => (other, Err(FileError::LinkedFileAbsent)),
            LinkStep::LeaveOrFail(other) => {
                let left = self.decider.leave(&other);
                (other, left)
            }
        };
        let done = made.unwrap_or_else(|error| {
            self.parts
                .copy
                .fail_entry(self.parts.copy.destination.path(&other.dir.path_of(other.name.as_bytes())), error);
            false
        });
        Some((other.entry, done))
    }
}
