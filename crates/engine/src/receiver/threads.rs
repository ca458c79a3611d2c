//! The loops of the target's threads. Components produce results; [`super::driver`] says what follows from them.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use haul_proto::error::ProtocolError;
use haul_proto::ids::EntryId;
use haul_proto::wire::frame::{PackFrame, RecordTrailer};
use haul_proto::wire::resource_metrics::Stage;

use crate::io::frame_buffer::FrameBuffer;
use crate::io::storage::file::OpenedFile;
use crate::metrics::stage_timer::during;
use crate::net::stream::{DataStream, StreamError};
use crate::receiver::TargetReceiver;
use crate::receiver::commit::outcomes::EntryOutcomes;
use crate::receiver::compare::reread::{ComparisonReader, HashedChunk};
use crate::receiver::delta::block_signatures::FailedUpdate;
use crate::receiver::durability::commit_queue::CommitTask;
use crate::receiver::entry::ReceiverEntry;
use crate::receiver::place::error::FileError;
use crate::receiver::receive::frame_writer::FrameWriter;
use crate::receiver::receive::partial_verification::VerificationClaim;

/// Most small files in one report of a comparison.
const FILES_PER_REPORT: usize = 64;

impl TargetReceiver {
    /// Runs one stream until its End, or until it breaks.
    pub fn run_stream(&self, stream: &mut DataStream) -> Result<(), StreamError> {
        let mut writer = self.frames.writer();
        let carried = self.receive(stream, &mut writer);
        // Completed writes count: their frames are not sent again.
        self.drain(&mut writer);
        carried
    }

    fn receive(&self, stream: &mut DataStream, writer: &mut FrameWriter) -> Result<(), StreamError> {
        let mut buffer = FrameBuffer::new(self.parts.copy.request.settings.frame);
        loop {
            while !writer.wait_for(stream.socket()) {
                self.report_written(writer);
            }
            self.report_written(writer);
            let trailer = stream.receive(&mut buffer)?;
            self.frames.rate_limit.permit().take_all(stream.carried());
            match trailer {
                // Finished and End are not counted.
                RecordTrailer::End { records } if records == stream.received() - 2 => return Ok(()),
                RecordTrailer::End { .. } => return Err(ProtocolError::OutOfTurn("the end of a stream").into()),
                trailer => buffer = self.deliver(writer, &trailer, buffer)?,
            }
        }
    }

    /// Verifies and writes a record's data, or starts the write. Returns a free buffer.
    pub(crate) fn deliver(
        &self,
        writer: &mut FrameWriter,
        trailer: &RecordTrailer,
        buffer: FrameBuffer,
    ) -> Result<FrameBuffer, ProtocolError> {
        self.parts.commit_queue.wait_for_room();
        let free = match trailer {
            RecordTrailer::Data(frame) => self.frames.deliver_frame(writer, frame, buffer)?,
            RecordTrailer::Delta(frame) => self.frames.deliver_delta(writer, frame, buffer)?,
            RecordTrailer::Pack(pack) => {
                self.complete_pack(pack, buffer.payload())?;
                buffer
            }
            RecordTrailer::Finished | RecordTrailer::End { .. } => return Err(ProtocolError::OutOfTurn("a record")),
        };
        self.report_written(writer);
        Ok(free)
    }

    /// Writes and completes the files of a pack.
    fn complete_pack(&self, pack: &PackFrame, payload: &[u8]) -> Result<(), ProtocolError> {
        let (mut outcomes, mut complete) = (EntryOutcomes::default(), Vec::new());
        for file in self.frames.admit_pack(pack, payload)? {
            complete.extend(during(Stage::Create, || {
                let written = self.committer.write_packed(&file);
                self.committer.name_unless_synced(file.packed.entry, &file.item, written, &mut outcomes)
            }));
            if complete.len() >= self.parts.commit_queue.at_once() {
                self.parts.commit_queue.add(std::mem::take(&mut complete));
                self.parts.commit_queue.wait_for_room();
            }
        }
        self.parts.commit_queue.add(complete);
        self.end_entries(outcomes);
        Ok(())
    }

    /// Clones frames of a file from `source`. `false` if they must be delivered instead.
    pub(crate) fn share(
        &self,
        source: &OpenedFile,
        entry: EntryId,
        size: u64,
        frames: Range<u64>,
    ) -> Result<bool, ProtocolError> {
        self.parts.commit_queue.wait_for_room();
        let Some(steps) = self.frames.share(source, entry, size, frames)? else { return Ok(false) };
        steps.into_iter().for_each(|step| self.run_step(step));
        Ok(true)
    }

    /// Waits for all writes in flight.
    pub(crate) fn drain(&self, writer: &mut FrameWriter) {
        writer.drain();
        self.report_written(writer);
    }

    fn report_written(&self, writer: &mut FrameWriter) {
        while let Some(written) = writer.next_written() {
            self.frame_written(written);
        }
    }

    /// Rebuilds frames until the copy is over, or until the source has sent too many wrong ones.
    pub fn make_frames(&self) -> Result<(), ProtocolError> {
        let mut writer = self.frames.writer();
        while let Some(build) = self.parts.deltas.frame_builds.pop(false, VecDeque::pop_front).or_else(|| {
            // Results are reported before a wait.
            self.drain(&mut writer);
            self.parts.deltas.frame_builds.next()
        }) {
            self.frames.build_frame(&mut writer, &build)?;
            self.report_written(&mut writer);
        }
        Ok(())
    }

    /// Signs base files until the copy is over.
    pub fn sign_base_files(&self) {
        let mut reader = self.parts.copy.reader();
        while let Some(FailedUpdate { entry, item, error }) = self.parts.deltas.sign_up_to_failure(&mut reader) {
            self.fail_file(entry, &item, &error);
        }
    }

    /// Verifies claims in order until the copy is over.
    pub fn run_verification(&self) {
        while let Some(claim) = self.verifier.claims.next() {
            match claim {
                VerificationClaim::Sum(entry, item, size) => self.sum_up(entry, &item, size),
                VerificationClaim::Part(entry, item) => {
                    if let Err(error) = self.verify_partial(entry, &item) {
                        self.fail_file(entry, &item, &error);
                    }
                }
            }
        }
    }

    fn verify_partial(&self, entry: EntryId, item: &Arc<ReceiverEntry>) -> Result<(), FileError> {
        let ReceiverEntry::File(file) = &**item else { return Ok(()) };
        let mut verification = self.verifier.begin(entry, item, file)?;
        while let Some(held) = self.verifier.next(&mut verification)? {
            self.report_verified_frames(held, verification.compare);
        }
        Ok(())
    }

    /// Reads files for comparison until the copy is over.
    pub fn run_comparison(&self) {
        let (mut reader, mut held) = (ComparisonReader::new(self.parts.copy.reader()), Vec::new());
        let comparer = &self.decider.comparer;
        while let Some(HashedChunk { entry, item, frames }) = comparer.hash_next(&mut reader, false).or_else(|| {
            // Results are reported before a wait.
            self.report_verified_frames(std::mem::take(&mut held), true);
            comparer.hash_next(&mut reader, true)
        }) {
            match frames {
                Ok(frames) => {
                    let is_large = frames.values.len() > 1;
                    held.push(frames);
                    if is_large || held.len() == FILES_PER_REPORT {
                        self.report_verified_frames(std::mem::take(&mut held), true);
                    }
                }
                Err(error) => self.compare_failed(entry, &item, &error),
            }
        }
    }

    /// Commits groups until the copy is over, and runs checkpoints.
    pub fn run_commits(&self) {
        let mut named = Vec::new();
        while let Some(task) = self.parts.commit_queue.next(!named.is_empty()) {
            match task {
                CommitTask::Group(group) => {
                    named = self.committer.commit_group(group, named, |ends| self.end_entries(ends));
                }
                CommitTask::Checkpoint => self.parts.commit_queue.checkpoint(&self.parts.copy),
            }
        }
    }
}
