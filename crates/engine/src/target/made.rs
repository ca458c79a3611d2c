//! Frames that come as instructions: made of an old file, proven by their value, then written as any other.

use haul_proto::delta::instructions::{Step, decode};
use haul_proto::integrity::frame_crc;
use haul_proto::wire::fault::ProtocolFault;
use haul_proto::wire::frame::{DataFrame, DeltaFrame};
use haul_proto::wire::load::Stage;

use super::writer::Writer;
use super::{Item, Target};
use crate::report::add;
use crate::stages::during;
use crate::stream::record::Record;

impl Target {
    /// Makes a frame, proves it, and has it written. Returns a record that is free.
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
        let spare = writer.spare.take().filter(|spare| spare.capacity() >= frame.plain);
        let mut made = spare.unwrap_or_else(|| Record::with_capacity(frame.plain.max(record.capacity())));
        made.set_payload_len(frame.plain);
        made.set_map(None);
        let is_made = during(Stage::Read, || basis.make(&steps, made.payload_mut()));
        let len = self.request.settings.frame;
        let index = frame.offset / u64::from(len.get());
        // What cannot be read of the old file any more is sent.
        if is_made.is_err() || len.hash(incoming.size(), index, made.payload()) != frame.value {
            self.ask_for_whole(frame);
            writer.spare = Some(made);
            return Ok(record);
        }
        let (job, entry, offset, value) = (frame.job, frame.entry, frame.offset, frame.value);
        let data = DataFrame { job, entry, offset, crc: frame_crc(made.payload()), value };
        self.pass(incoming, &data, made.payload());
        let free = writer.write(self, &item, &data, made);
        writer.spare = Some(free);
        Ok(record)
    }

    /// A frame did not become what it is to be: it comes as it is.
    fn ask_for_whole(&self, frame: &DeltaFrame) {
        add(&self.reporter.tally.frames_resent, 1);
        self.lock().machine.resend_frame(frame.entry, frame.offset);
        self.outbox.notify_all();
    }
}
