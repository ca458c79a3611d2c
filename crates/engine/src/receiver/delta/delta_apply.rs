//! Frames that come as instructions: made of an old file, proven by their value, then written as any other.
//!
//! Instructions are short, and so the streams' sockets may hold hundreds of frames, one of them more than another. What a
//! stream has received is therefore made by whoever is free: by threads beside the streams, and by the stream itself
//! while these have enough to do.

use crate::receiver::delta::DeltaStage;
use haul_proto::delta::base::FramePosition;
use haul_proto::delta::instructions::{DeltaInstruction, decode};
use haul_proto::error::ProtocolError;
use haul_proto::integrity::frame_check;
use haul_proto::path::escape;
use haul_proto::session::target::Rebuilt;
use haul_proto::wire::frame::{DataFrame, DeltaFrame};
use haul_proto::wire::report::WorkerMessage;
use haul_proto::wire::resource_metrics::Stage;
use std::collections::VecDeque;
use std::sync::Arc;

use crate::io::frame_buffer::FrameBuffer;
use crate::metrics::counter::add;
use crate::metrics::stage_timer::during;
use crate::receiver::file::ReceivingFile;
use crate::receiver::file::base::BaseSource;
use crate::receiver::receive::frame_writer::FrameWriter;
use crate::receiver::{ReceiverEntry, TargetReceiver};

/// Most frames that wait for whoever is free, each of them with no more bytes than a frame: one for each of the threads on
/// a large machine, so that none of them waits for the streams.
const WAITING_MAX: usize = 16;

/// Said of the old file of which a delta has another value than the source said.
const WRONG_DELTA: &str =
    "the source sent a wrong delta of this file: it is sent whole, and one more wrong delta ends the job";

/// A frame that was admitted, and is to be made.
pub struct DeltaFrameBuild {
    item: Arc<ReceiverEntry>,
    frame: DeltaFrame,
    instructions: Vec<u8>,
}

impl TargetReceiver {
    /// Makes frames until the job is over, or the source has sent too many that are wrong.
    pub fn make_frames(&self) -> Result<(), ProtocolError> {
        let mut writer = None;
        while let Some(DeltaFrameBuild { item, frame, instructions }) = self.next_making(&mut writer) {
            let writer = writer.get_or_insert_with(|| self.storage.writer());
            let ReceiverEntry::File(incoming) = &*item else { continue };
            // They were read before, by the stream that received them.
            let Ok(steps) = decode(&instructions, frame.offset, frame.plain) else { continue };
            if let Some(basis) = incoming.basis() {
                self.make(writer, &item, (incoming, basis), &steps, &frame)?;
            }
        }
        Ok(())
    }

    /// Nothing is waited for while something that was begun is not told of.
    fn next_making(&self, writer: &mut Option<FrameWriter>) -> Option<DeltaFrameBuild> {
        self.deltas.makings.take(false, VecDeque::pop_front).or_else(|| {
            writer.iter_mut().for_each(|writer| writer.drain(self));
            self.deltas.makings.next()
        })
    }

    /// Takes instructions, and has a frame made. Returns a record that is free.
    pub(crate) fn deliver_delta(
        &self,
        writer: &mut FrameWriter,
        frame: &DeltaFrame,
        record: FrameBuffer,
    ) -> Result<FrameBuffer, ProtocolError> {
        self.job.check_job(frame.job)?;
        let steps = decode(record.payload(), frame.offset, frame.plain)?;
        let admitted = self.session.lock().machine.admit_delta(frame.entry, frame.offset, frame.plain)?;
        let Some(item) = admitted else { return Ok(record) };
        let ReceiverEntry::File(incoming) = &*item else {
            return Err(ProtocolError::Unasked("a frame of a directory"));
        };
        let basis = incoming.basis().ok_or(ProtocolError::Unasked("a frame to be made of no old file"))?;
        let place = FramePosition { offset: frame.offset, len: frame.plain, file_size: incoming.size() };
        basis.check(&steps, place)?;
        if !self.deltas.may_use(basis) {
            self.deltas.ask_for_whole(frame);
            return Ok(record);
        }
        let old = steps.iter().map(|step| if let DeltaInstruction::Old { len, .. } = step { *len } else { 0 }).sum();
        self.job.reporter.delta.carried(record.payload().len(), old);
        if let Some(in_place) = &basis.in_place {
            self.deliver_in_place(&item, (basis, in_place), &steps, frame)?;
            return Ok(record);
        }
        let making = DeltaFrameBuild { item, frame: frame.clone(), instructions: record.payload().to_vec() };
        if let Err(DeltaFrameBuild { item, .. }) = self.deltas.makings.add_below(WAITING_MAX, making)
            && let ReceiverEntry::File(incoming) = &*item
            && let Some(basis) = incoming.basis()
        {
            self.make(writer, &item, (incoming, basis), &steps, frame)?;
        }
        Ok(record)
    }

    /// Makes a frame, proves it, and has it written.
    fn make(
        &self,
        writer: &mut FrameWriter,
        item: &Arc<ReceiverEntry>,
        (incoming, basis): (&ReceivingFile, &BaseSource),
        steps: &[DeltaInstruction<'_>],
        frame: &DeltaFrame,
    ) -> Result<(), ProtocolError> {
        let spare = writer.spare.take().filter(|spare| spare.capacity() >= frame.plain);
        let capacity = self.job.request.settings.frame.bytes().max(frame.plain);
        let mut made = spare.unwrap_or_else(|| FrameBuffer::with_capacity(capacity));
        made.set_payload_len(frame.plain);
        made.set_map(None);
        let is_made = during(Stage::Read, || basis.make(steps, made.payload_mut()));
        let len = self.job.request.settings.frame;
        let index = frame.offset / u64::from(len.get());
        let rebuilt = match is_made {
            Ok(()) if len.hash(incoming.size(), index, made.payload()) == frame.value => Rebuilt::Right,
            Ok(()) if !basis.has_changed() => Rebuilt::Wrong,
            // What cannot be read of the old file any more is sent.
            Ok(()) | Err(_) => Rebuilt::BaseChanged,
        };
        if !self.deltas.conclude_delta(basis, frame, rebuilt)? {
            writer.spare = Some(made);
            return Ok(());
        }
        let (job, entry, offset, value) = (frame.job, frame.entry, frame.offset, frame.value);
        let data = DataFrame { job, entry, offset, check: frame_check(made.payload()), value };
        self.digests.pass(incoming, &data, made.payload());
        let free = writer.write(self, item, &data, made);
        writer.spare = Some(free);
        Ok(())
    }
}

impl DeltaStage {
    /// Whether a frame that was built is to be written. The controller hears of a wrong one before the source does, so that
    /// a source that breaks its connection then does not begin anew with none.
    pub(crate) fn conclude_delta(
        &self,
        basis: &BaseSource,
        frame: &DeltaFrame,
        rebuilt: Rebuilt,
    ) -> Result<bool, ProtocolError> {
        let mut state = self.session.lock();
        let before = state.machine.wrong_deltas();
        let concluded = state.machine.conclude_delta(frame.entry, frame.offset, basis.id(), rebuilt);
        let wrong = state.machine.wrong_deltas();
        if wrong > before {
            self.job.reporter.delta.wrong(wrong);
            self.job
                .reporter
                .delta
                .figures()
                .into_iter()
                .for_each(|now| self.job.reporter.send(&WorkerMessage::Delta(now)));
            let text = format!("{}: {WRONG_DELTA}", escape(&basis.path()));
            self.job.reporter.send(&WorkerMessage::Warning { text });
        }
        drop(state);
        if concluded == Ok(false) {
            add(&self.job.reporter.tally.frames_resent, 1);
            self.session.outbox.notify_all();
        }
        concluded
    }

    /// A frame did not become what it is to be: it comes as it is.
    fn ask_for_whole(&self, frame: &DeltaFrame) {
        add(&self.job.reporter.tally.frames_resent, 1);
        self.session.lock().machine.resend_frame(frame.entry, frame.offset);
        self.session.outbox.notify_all();
    }
}
