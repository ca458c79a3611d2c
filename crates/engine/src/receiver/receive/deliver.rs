//! Records of the streams: each frame is verified in its buffer, and written from there.

use std::sync::Arc;

use haul_proto::error::ProtocolError;
use haul_proto::integrity::frame_check;
use haul_proto::wire::frame::{DataFrame, PackFrame, PackedFile};

use crate::io::frame_buffer::FrameBuffer;
use crate::metrics::counter::add;
use crate::receiver::entry::ReceiverEntry;
use crate::receiver::receive::FrameReceiver;
use crate::receiver::receive::frame_writer::FrameWriter;

/// A needed file of a pack.
pub struct NeededFile<'p> {
    /// Its line in the pack.
    pub packed: &'p PackedFile,
    /// The receiver's data about the file.
    pub item: Arc<ReceiverEntry>,
    /// Its contents.
    pub bytes: &'p [u8],
}

impl FrameReceiver {
    /// Verifies a frame and writes it, or starts the write. Returns a free buffer. The writer has the result.
    pub(in crate::receiver) fn deliver_frame(
        &self,
        writer: &mut FrameWriter,
        frame: &DataFrame,
        buffer: FrameBuffer,
    ) -> Result<FrameBuffer, ProtocolError> {
        self.parts.copy.check_copy(frame.copy)?;
        let payload = buffer.payload();
        let admitted =
            self.parts.session.apply(|machine| machine.admit_frame(frame.entry, frame.offset, payload.len()))?;
        let Some(item) = admitted else { return Ok(buffer) };
        let ReceiverEntry::File(file) = &*item else {
            return Err(ProtocolError::Unasked("a frame of a directory"));
        };
        if frame_check(payload) != frame.check || !self.parts.digests.hashes_agree(frame, file, payload) {
            add(&self.parts.copy.reporter.tally.frames_resent, 1);
            self.parts.session.apply(|machine| machine.resend_frame(frame.entry, frame.offset));
            return Ok(buffer);
        }
        // A file of known size was counted when it was offered.
        if file.is_open_ended()
            && let Err(error) = self.parts.tree.quota.reserve(payload.len() as u64)
        {
            writer.fail(&item, frame, error);
            return Ok(buffer);
        }
        if file.base().is_some() {
            self.parts.copy.reporter.delta.carried(buffer.received_len(), 0);
        }
        if let Some((_, in_place)) = file.in_place() {
            let pieces = &[(frame.offset, payload)];
            writer.add_written(self.parts.deltas.write_patch(&item, file, in_place, frame, payload.len(), pieces));
            return Ok(buffer);
        }
        self.parts.digests.update(file, frame, payload);
        match file.in_order_queue() {
            Some(queue) => Ok(writer.queue_in_order(queue, &item, frame, buffer)),
            None => Ok(writer.write(&item, frame, buffer)),
        }
    }

    /// Verifies a pack, and gives its needed files with their bytes. A damaged pack is requested again.
    pub(in crate::receiver) fn admit_pack<'p>(
        &self,
        pack: &'p PackFrame,
        payload: &'p [u8],
    ) -> Result<Vec<NeededFile<'p>>, ProtocolError> {
        self.parts.copy.check_copy(pack.copy)?;
        if frame_check(payload) != pack.check || !self.parts.digests.pack_hashes_agree(pack, payload) {
            add(&self.parts.copy.reporter.tally.frames_resent, 1);
            self.parts.session.apply(|machine| machine.resend_pack(&pack.files))?;
            return Ok(Vec::new());
        }
        let admitted = self.parts.session.apply(|machine| machine.admit_pack(&pack.files))?;
        let mut rest = payload;
        let mut needed = Vec::with_capacity(admitted.len());
        for (file, item) in pack.files.iter().zip(admitted) {
            let (bytes, behind) = rest.split_at_checked(file.len as usize).ok_or(ProtocolError::Truncated)?;
            rest = behind;
            needed.extend(item.map(|item| NeededFile { packed: file, item, bytes }));
        }
        Ok(needed)
    }
}

#[cfg(test)]
#[path = "damage_tests.rs"]
mod tests;
