//! One stream's thread at the target: verifies every frame in its buffer, and writes it from there.

use crate::receiver::digest_checks::DigestChecks;
use crate::receiver::job::ReceiverJob;
use haul_proto::error::ProtocolError;
use haul_proto::integrity::frame_check;
use haul_proto::path::escape;
use haul_proto::wire::frame::{DataFrame, PackFrame, PackedFile, RecordTrailer};
use haul_proto::wire::report::WorkerMessage;
use haul_proto::wire::resource_metrics::Stage;
use haul_proto::wire::storage::Verify;
use std::sync::Arc;

use crate::io::frame_buffer::FrameBuffer;
use crate::metrics::counter::add;
use crate::metrics::stage_timer::during;
use crate::net::stream::{DataStream, StreamError};
use crate::receiver::TargetReceiver;
use crate::receiver::commit::outcomes::EntryOutcomes;
use crate::receiver::durability::complete_file::CompleteFile;
use crate::receiver::entry::ReceiverEntry;
use crate::receiver::file::ReceivingFile;
use crate::receiver::place::error::FileError;
use crate::receiver::receive::frame_writer::FrameWriter;

impl TargetReceiver {
    /// Runs one stream until its End, or until it breaks.
    pub fn run_stream(&self, stream: &mut DataStream) -> Result<(), StreamError> {
        let mut writer = self.storage.writer();
        let carried = self.receive(stream, &mut writer);
        // Completed writes count: their frames are not sent again.
        self.drain(&mut writer);
        carried
    }

    fn receive(&self, stream: &mut DataStream, writer: &mut FrameWriter) -> Result<(), StreamError> {
        let mut buffer = FrameBuffer::new(self.job.request.settings.frame);
        loop {
            while !writer.wait_for(&self.storage, stream.socket()) {
                self.report_written(writer);
            }
            self.report_written(writer);
            let trailer = stream.receive(&mut buffer)?;
            self.storage.rate_limit.permit().take_all(stream.carried());
            match trailer {
                // Finished and End are not counted.
                RecordTrailer::End { records } if records == stream.received() - 2 => return Ok(()),
                RecordTrailer::End { .. } => return Err(ProtocolError::OutOfTurn("the end of a stream").into()),
                trailer => buffer = self.deliver(writer, &trailer, buffer)?,
            }
        }
    }

    /// Returns a writer for a source in this process.
    pub(crate) fn writer(&self) -> FrameWriter {
        self.storage.writer()
    }

    /// Verifies and writes a frame's data, or starts the write. Returns a free buffer.
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
            RecordTrailer::Pack(pack) => self.deliver_pack(pack, buffer.payload()).map(|()| buffer),
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
            self.fail_file(frame.entry, &item, &error);
            return Ok(buffer);
        }
        if file.base().is_some() {
            self.job.reporter.delta.carried(buffer.received_len(), 0);
        }
        if let Some((_, in_place)) = file.in_place() {
            self.whole_in_place(&item, in_place, frame, &buffer);
            return Ok(buffer);
        }
        self.digests.update(file, frame, payload);
        if let Some(queue) = file.in_order_queue() {
            return Ok(self.write_in_order(queue, &item, frame, buffer));
        }
        Ok(self.write(writer, &item, frame, buffer))
    }

    /// Writes a verified frame, and reports completed writes. Returns a free buffer.
    pub(crate) fn write(
        &self,
        writer: &mut FrameWriter,
        item: &Arc<ReceiverEntry>,
        frame: &DataFrame,
        buffer: FrameBuffer,
    ) -> FrameBuffer {
        let free = writer.write(&self.storage, item, frame, buffer);
        self.report_written(writer);
        free
    }

    /// Waits for all writes in flight.
    pub(crate) fn drain(&self, writer: &mut FrameWriter) {
        writer.drain(&self.storage);
        self.report_written(writer);
    }

    fn report_written(&self, writer: &mut FrameWriter) {
        writer.take_written().into_iter().for_each(|written| self.frame_written(written));
    }

    fn deliver_pack(&self, pack: &PackFrame, payload: &[u8]) -> Result<(), ProtocolError> {
        self.job.check_job(pack.job)?;
        if frame_check(payload) != pack.check || !self.digests.pack_hashes_agree(pack, payload) {
            add(&self.job.reporter.tally.frames_resent, 1);
            return self.session.apply(|machine| machine.resend_pack(&pack.files));
        }
        let admitted = self.session.apply(|machine| machine.admit_pack(&pack.files))?;
        let mut rest = payload;
        let (mut ends, mut gathered) = (EntryOutcomes::default(), Vec::new());
        for (file, item) in pack.files.iter().zip(admitted) {
            let (bytes, behind) = rest.split_at_checked(file.len as usize).ok_or(ProtocolError::Truncated)?;
            rest = behind;
            let Some(item) = item else { continue };
            match during(Stage::Create, || self.write_packed(file, &item, bytes)) {
                Ok(whole) if whole.disk.is_some() => gathered.push(whole),
                Ok(whole) => during(Stage::Create, || self.committer.name_at_once(whole, &mut ends)),
                Err(error) => self.committer.fail_entry(file.entry, &item, &error, &mut ends),
            }
            if gathered.len() >= self.committer.commit_queue.at_once() {
                self.committer.commit_queue.add(std::mem::take(&mut gathered));
                self.committer.commit_queue.wait_for_room();
            }
        }
        self.committer.commit_queue.add(gathered);
        self.end_entries(ends);
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

impl ReceiverJob {
    /// Reports a file that does not support the requested direct I/O.
    pub(crate) fn report_refusal(&self, file: &ReceivingFile) {
        let path = escape(&file.display_path(&self.destination));
        let text = format!("{path}: no O_DIRECT writes, so the page cache is used");
        self.reporter.send(&WorkerMessage::Warning { text });
    }

    /// Whether the target computes BLAKE3 too: with `--verify=memory`, and for an audit log, for which a hostile source
    /// could claim another file's digest.
    fn rehashes(&self) -> bool {
        self.request.verify == Verify::Memory || self.reporter.is_audited() && !self.is_within_process()
    }

    pub(crate) fn check_job(&self, job: haul_proto::ids::JobNumber) -> Result<(), ProtocolError> {
        if job == self.request.settings.number { Ok(()) } else { Err(ProtocolError::Unasked("another job")) }
    }
}

impl DigestChecks {
    /// Whether the payload has the source's BLAKE3 digest, if the target computes it.
    fn hashes_agree(&self, frame: &DataFrame, file: &ReceivingFile, payload: &[u8]) -> bool {
        let len = self.job.request.settings.frame;
        let index = frame.offset / u64::from(len.get());
        let hash = |is_only| len.hash_in(index, payload, is_only) == frame.value;
        !self.job.rehashes()
            || match file.is_open_ended() {
                // Whether the first frame is the only one is unknown yet.
                true => hash(false) || index == 0 && hash(true),
                false => hash(len.frames(file.size()) == 1),
            }
    }

    fn pack_hashes_agree(&self, pack: &PackFrame, payload: &[u8]) -> bool {
        let mut rest = payload;
        !self.job.rehashes()
            || pack.files.iter().all(|file| {
                let (bytes, behind) = rest.split_at(rest.len().min(file.len as usize));
                rest = behind;
                *blake3::hash(bytes).as_bytes() == file.digest
            })
    }
}

#[cfg(test)]
#[path = "damage_tests.rs"]
mod tests;
