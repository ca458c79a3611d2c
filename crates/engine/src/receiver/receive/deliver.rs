//! Records of the streams: each frame is verified in its buffer, and written from there.

use haul_proto::error::ProtocolError;
use haul_proto::integrity::frame_check;
use haul_proto::wire::frame::{DataFrame, PackFrame, PackedFile, RecordTrailer};
use haul_proto::wire::resource_metrics::Stage;
use std::sync::Arc;

use crate::io::frame_buffer::FrameBuffer;
use crate::metrics::counter::add;
use crate::metrics::stage_timer::during;
use crate::receiver::durability::complete_file::CompleteFile;
use crate::receiver::entry::ReceiverEntry;
use crate::receiver::place::error::FileError;
use crate::receiver::receive::FrameReceiver;
use crate::receiver::receive::frame_writer::FrameWriter;

impl FrameReceiver {
    /// Verifies and writes a record's data, or starts the write. Returns a free buffer. The writer has the results.
    pub(crate) fn deliver(
        &self,
        writer: &mut FrameWriter,
        trailer: &RecordTrailer,
        buffer: FrameBuffer,
    ) -> Result<FrameBuffer, ProtocolError> {
        self.committer.commit_queue.wait_for_room();
        match trailer {
            RecordTrailer::Data(frame) => self.deliver_frame(writer, frame, buffer),
            RecordTrailer::Delta(frame) => self.deliver_delta(writer, frame, buffer),
            RecordTrailer::Pack(pack) => self.deliver_pack(writer, pack, buffer.payload()).map(|()| buffer),
            RecordTrailer::Finished | RecordTrailer::End { .. } => Err(ProtocolError::OutOfTurn("a record")),
        }
    }

    fn deliver_frame(
        &self,
        writer: &mut FrameWriter,
        frame: &DataFrame,
        buffer: FrameBuffer,
    ) -> Result<FrameBuffer, ProtocolError> {
        self.job.check_job(frame.job)?;
        let payload = buffer.payload();
        let admitted = self.session.apply(|machine| machine.admit_frame(frame.entry, frame.offset, payload.len()))?;
        let Some(item) = admitted else { return Ok(buffer) };
        let ReceiverEntry::File(file) = &*item else {
            return Err(ProtocolError::Unasked("a frame of a directory"));
        };
        if frame_check(payload) != frame.check || !self.digests.hashes_agree(frame, file, payload) {
            add(&self.job.reporter.tally.frames_resent, 1);
            self.session.apply(|machine| machine.resend_frame(frame.entry, frame.offset));
            return Ok(buffer);
        }
        // A file of known size was counted when it was offered.
        if file.is_open_ended()
            && let Err(error) = self.tree.quota.reserve(payload.len() as u64)
        {
            writer.fail(&item, frame, error);
            return Ok(buffer);
        }
        if file.base().is_some() {
            self.job.reporter.delta.carried(buffer.received_len(), 0);
        }
        if let Some((_, in_place)) = file.in_place() {
            let pieces = &[(frame.offset, payload)];
            writer.add_written(self.deltas.write_patch(&item, (file, in_place), frame, payload.len(), pieces));
            return Ok(buffer);
        }
        self.digests.update(file, frame, payload);
        match file.in_order_queue() {
            Some(queue) => Ok(writer.queue_in_order(queue, &item, frame, buffer)),
            None => Ok(writer.write(&item, frame, buffer)),
        }
    }

    fn deliver_pack(&self, writer: &mut FrameWriter, pack: &PackFrame, payload: &[u8]) -> Result<(), ProtocolError> {
        self.job.check_job(pack.job)?;
        if frame_check(payload) != pack.check || !self.digests.pack_hashes_agree(pack, payload) {
            add(&self.job.reporter.tally.frames_resent, 1);
            return self.session.apply(|machine| machine.resend_pack(&pack.files));
        }
        let admitted = self.session.apply(|machine| machine.admit_pack(&pack.files))?;
        let mut rest = payload;
        let (ended, mut gathered) = (&mut writer.ended, Vec::new());
        for (file, item) in pack.files.iter().zip(admitted) {
            let (bytes, behind) = rest.split_at_checked(file.len as usize).ok_or(ProtocolError::Truncated)?;
            rest = behind;
            let Some(item) = item else { continue };
            match during(Stage::Create, || self.write_packed(file, &item, bytes)) {
                Ok(whole) if whole.disk.is_some() => gathered.push(whole),
                Ok(whole) => during(Stage::Create, || self.committer.name_at_once(whole, ended)),
                Err(error) => self.committer.fail_entry(file.entry, &item, &error, ended),
            }
            if gathered.len() >= self.committer.commit_queue.at_once() {
                self.committer.commit_queue.add(std::mem::take(&mut gathered));
                self.committer.commit_queue.wait_for_room();
            }
        }
        self.committer.commit_queue.add(gathered);
        Ok(())
    }

    fn write_packed(
        &self,
        packed: &PackedFile,
        item: &Arc<ReceiverEntry>,
        bytes: &[u8],
    ) -> Result<CompleteFile, FileError> {
        let ReceiverEntry::File(file) = &**item else { return Err(FileError::IsDirectory) };
        self.digests.check_small(file, bytes, &packed.digest)?;
        if let Some(named) = file.named().filter(|named| !named.path.replaces) {
            self.job.check_full_disk(&named.path.dir, bytes.len() as u64)?;
        }
        let disk = self.committer.commit_queue.disk_of(file.dir())?;
        let written = file.write_whole(&self.committer, disk.as_deref(), bytes, packed.modified)?;
        let size = bytes.len() as u64;
        add(&self.job.reporter.tally.bytes_written, size);
        if file.base().is_some() {
            self.job.reporter.delta.carried(bytes.len(), 0);
        }
        let (entry, item, digest, modified) = (packed.entry, Arc::clone(item), packed.digest, packed.modified);
        Ok(CompleteFile { entry, item, size, digest, bytes: written, disk, modified, end: None })
    }
}

#[cfg(test)]
#[path = "damage_tests.rs"]
mod tests;
