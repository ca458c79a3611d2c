//! Frames that come as instructions: made of an old file, proven by their value, then written as any other.
//!
//! Instructions are short, and so the streams' sockets may hold hundreds of frames, one of them more than another. What a
//! stream has received is therefore made by whoever is free: by threads beside the streams, and by the stream itself
//! while these have enough to do.

use haul_proto::delta::instructions::{Step, decode};
use haul_proto::integrity::frame_crc;
use haul_proto::wire::fault::ProtocolFault;
use haul_proto::wire::frame::{DataFrame, DeltaFrame};
use haul_proto::wire::load::Stage;
use std::collections::VecDeque;
use std::sync::Arc;

use super::basis::Basis;
use super::file::Incoming;
use super::writer::Writer;
use super::{Item, Target};
use crate::report::add;
use crate::stages::during;
use crate::stream::record::Record;

/// Most frames that wait for whoever is free, each of them with no more bytes than a frame: one for each of the threads on
/// a large machine, so that none of them waits for the streams.
const WAITING_MAX: usize = 16;

/// A frame that was admitted, and is to be made.
pub struct Making {
    item: Arc<Item>,
    frame: DeltaFrame,
    instructions: Vec<u8>,
}

impl Target {
    /// Makes frames until the job is over.
    pub fn make_frames(&self) {
        let mut writer = None;
        while let Some(Making { item, frame, instructions }) = self.next_making(&mut writer) {
            let writer = writer.get_or_insert_with(|| self.writer());
            let Item::File(incoming) = &*item else { continue };
            // They were read before, by the stream that received them.
            let Ok(steps) = decode(&instructions, frame.offset, frame.plain) else { continue };
            if let Some(basis) = incoming.basis() {
                self.make(writer, &item, (incoming, basis), &steps, &frame);
            }
        }
    }

    /// Nothing is waited for while something that was begun is not told of.
    fn next_making(&self, writer: &mut Option<Writer>) -> Option<Making> {
        self.makings.take(false, VecDeque::pop_front).or_else(|| {
            writer.iter_mut().for_each(|writer| writer.drain(self));
            self.makings.next()
        })
    }

    /// Takes instructions, and has a frame made. Returns a record that is free.
    pub(super) fn deliver_delta(
        &self,
        writer: &mut Writer,
        frame: &DeltaFrame,
        record: Record,
    ) -> Result<Record, ProtocolFault> {
        self.check_job(frame.job)?;
        let steps = decode(record.payload(), frame.offset, frame.plain)?;
        let admitted = self.lock().machine.admit_delta(frame.entry, frame.offset, frame.plain)?;
        let Some(item) = admitted else { return Ok(record) };
        let Item::File(incoming) = &*item else { return Err(ProtocolFault::Unasked("a frame of a directory")) };
        let basis = incoming.basis().ok_or(ProtocolFault::Unasked("a frame to be made of no old file"))?;
        basis.check(&steps)?;
        let old = steps.iter().map(|step| if let Step::Old { len, .. } = step { *len } else { 0 }).sum();
        self.reporter.delta.carried(record.payload().len(), old);
        if let Some(in_place) = &basis.in_place {
            if !self.deliver_in_place(&item, in_place, &steps, frame)? {
                self.ask_for_whole(frame);
            }
            return Ok(record);
        }
        let making = Making { item, frame: frame.clone(), instructions: record.payload().to_vec() };
        if let Err(Making { item, .. }) = self.makings.add_below(WAITING_MAX, making)
            && let Item::File(incoming) = &*item
            && let Some(basis) = incoming.basis()
        {
            self.make(writer, &item, (incoming, basis), &steps, frame);
        }
        Ok(record)
    }

    /// Makes a frame, proves it, and has it written.
    fn make(
        &self,
        writer: &mut Writer,
        item: &Arc<Item>,
        (incoming, basis): (&Incoming, &Basis),
        steps: &[Step<'_>],
        frame: &DeltaFrame,
    ) {
        let spare = writer.spare.take().filter(|spare| spare.capacity() >= frame.plain);
        let capacity = self.request.settings.frame.bytes().max(frame.plain);
        let mut made = spare.unwrap_or_else(|| Record::with_capacity(capacity));
        made.set_payload_len(frame.plain);
        made.set_map(None);
        let is_made = during(Stage::Read, || basis.make(steps, made.payload_mut()));
        let len = self.request.settings.frame;
        let index = frame.offset / u64::from(len.get());
        // What cannot be read of the old file any more is sent.
        if is_made.is_err() || len.hash(incoming.size(), index, made.payload()) != frame.value {
            self.ask_for_whole(frame);
            writer.spare = Some(made);
            return;
        }
        let (job, entry, offset, value) = (frame.job, frame.entry, frame.offset, frame.value);
        let data = DataFrame { job, entry, offset, crc: frame_crc(made.payload()), value };
        self.pass(incoming, &data, made.payload());
        let free = writer.write(self, item, &data, made);
        writer.spare = Some(free);
    }

    /// A frame did not become what it is to be: it comes as it is.
    fn ask_for_whole(&self, frame: &DeltaFrame) {
        add(&self.reporter.tally.frames_resent, 1);
        self.lock().machine.resend_frame(frame.entry, frame.offset);
        self.outbox.notify_all();
    }
}
