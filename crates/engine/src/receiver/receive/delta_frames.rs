//! Frames that are rebuilt from a base file.

use std::sync::Arc;

use haul_proto::delta::base::FramePosition;
use haul_proto::delta::instructions::{DeltaInstruction, decode};
use haul_proto::error::ProtocolError;
use haul_proto::integrity::frame_check;
use haul_proto::session::target::Rebuilt;
use haul_proto::wire::frame::{DataFrame, DeltaFrame};
use haul_proto::wire::resource_metrics::Stage;

use crate::io::frame_buffer::FrameBuffer;
use crate::io::storage::holes::map_of_zeros;
use crate::metrics::stage_timer::during;
use crate::receiver::delta::delta_apply::{DeltaFrameBuild, WAITING_MAX};
use crate::receiver::entry::ReceiverEntry;
use crate::receiver::file::ReceivingFile;
use crate::receiver::file::base::BaseSource;
use crate::receiver::file::frame_parts::parts;
use crate::receiver::receive::FrameReceiver;
use crate::receiver::receive::frame_writer::FrameWriter;

impl FrameReceiver {
    /// Rebuilds a queued frame, and writes it. Fails once the source has sent too many wrong ones.
    pub(crate) fn build_frame(&self, writer: &mut FrameWriter, build: &DeltaFrameBuild) -> Result<(), ProtocolError> {
        let DeltaFrameBuild { item, frame, instructions } = build;
        let ReceiverEntry::File(file) = &**item else { return Ok(()) };
        // The stream that received them has decoded them before.
        let (Ok(steps), Some(base)) = (decode(instructions, frame.offset, frame.plain), file.base()) else {
            return Ok(());
        };
        self.rebuild_frame(writer, item, file, base, &steps, frame)
    }

    /// Receives delta instructions, and queues the frame. Returns a free buffer.
    pub(crate) fn deliver_delta(
        &self,
        writer: &mut FrameWriter,
        frame: &DeltaFrame,
        buffer: FrameBuffer,
    ) -> Result<FrameBuffer, ProtocolError> {
        self.parts.copy.check_copy(frame.copy)?;
        let steps = decode(buffer.payload(), frame.offset, frame.plain)?;
        let admitted =
            self.parts.session.apply(|machine| machine.admit_delta(frame.entry, frame.offset, frame.plain))?;
        let Some(item) = admitted else { return Ok(buffer) };
        let ReceiverEntry::File(file) = &*item else {
            return Err(ProtocolError::Unasked("a frame of a directory"));
        };
        let base = file.base().ok_or(ProtocolError::Unasked("a delta frame without a base file"))?;
        let place = FramePosition { offset: frame.offset, len: frame.plain, file_size: file.size() };
        base.check(&steps, place)?;
        if !self.parts.deltas.may_use(base) {
            self.parts.deltas.request_full_frame(frame);
            return Ok(buffer);
        }
        let old = steps.iter().map(|step| if let DeltaInstruction::Old { len, .. } = step { *len } else { 0 }).sum();
        self.parts.copy.reporter.delta.carried(buffer.received_len(), old);
        if let Some(in_place) = &base.in_place {
            let written = self.parts.deltas.deliver_in_place(&item, base, in_place, &steps, frame)?;
            written.into_iter().for_each(|written| writer.add_written(written));
            return Ok(buffer);
        }
        let making = DeltaFrameBuild { item, frame: frame.clone(), instructions: buffer.payload().to_vec() };
        if let Err(DeltaFrameBuild { item, .. }) = self.parts.deltas.frame_builds.add_below(WAITING_MAX, making)
            && let ReceiverEntry::File(file) = &*item
            && let Some(base) = file.base()
        {
            self.rebuild_frame(writer, &item, file, base, &steps, frame)?;
        }
        Ok(buffer)
    }

    /// Rebuilds a frame, verifies it, and writes it.
    fn rebuild_frame(
        &self,
        writer: &mut FrameWriter,
        item: &Arc<ReceiverEntry>,
        file: &ReceivingFile,
        base: &BaseSource,
        steps: &[DeltaInstruction<'_>],
        frame: &DeltaFrame,
    ) -> Result<(), ProtocolError> {
        let spare = writer.spare.take().filter(|spare| spare.capacity() >= frame.plain);
        let capacity = self.parts.copy.request.settings.frame.bytes().max(frame.plain);
        let mut made = spare.unwrap_or_else(|| FrameBuffer::with_capacity(capacity));
        made.set_payload_len(frame.plain);
        let mut frame_parts = parts(steps);
        // A file that cannot be opened is reported when the frame is written.
        let opened = file.open_once(&self.parts.tree.temp_files, &self.parts.tree.copy_locks);
        let is_made = opened.and_then(|opened| {
            frame_parts = self.share_base(item, base, std::mem::take(&mut frame_parts), frame.offset);
            during(Stage::Read, || base.rebuild_frame(&frame_parts, &opened, frame.offset, made.payload_mut()))
        });
        let len = self.parts.copy.request.settings.frame;
        let index = frame.offset / u64::from(len.get());
        let rebuilt = match is_made {
            Ok(()) if len.hash(file.size(), index, made.payload()) == frame.value => Rebuilt::Right,
            Ok(()) if !base.has_changed() => Rebuilt::Wrong,
            // The source resends data that the base file no longer provides.
            Ok(()) | Err(_) => Rebuilt::BaseChanged,
        };
        if !self.parts.deltas.conclude_delta(base, frame, rebuilt)? {
            writer.spare = Some(made);
            return Ok(());
        }
        let (copy, entry, offset, value) = (frame.copy, frame.entry, frame.offset, frame.value);
        let data = DataFrame { copy, entry, offset, check: frame_check(made.payload()), value };
        self.parts.digests.update(file, &data, made.payload());
        if frame_parts.iter().any(|part| part.is_cloned) {
            let written = frame_parts.into_iter().filter(|part| !part.is_cloned).map(|part| part.bytes);
            writer.write_parts(item, &data, made.payload(), &written.collect::<Vec<_>>());
            writer.spare = Some(made);
            return Ok(());
        }
        // Instructions do not distinguish holes from zeros.
        made.set_map(if file.with_holes().is_some() { map_of_zeros(made.payload()) } else { None });
        let free = writer.write(item, &data, made);
        writer.spare = Some(free);
        Ok(())
    }
}
