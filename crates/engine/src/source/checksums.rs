//! Requested digests at the source (`-E %ALGORITHM`). Every frame is hashed as it is sent. Frames that the target
//! already holds are hashed too, since both ends compare them. A file with a wrong digest is not completed.
//!
//! A file that changed meanwhile is read a second time here, at the same point.

use std::io;

use haul_proto::checksum::ChecksumAlgorithm;
use haul_proto::ids::EntryId;
use haul_proto::integrity::{Digest, FrameTree, frame_check};
use haul_proto::journal::check_value;
use haul_proto::wire::checksum::ChecksumRequest;
use haul_proto::wire::report::WorkerMessage;
use haul_proto::wire::resource_metrics::Stage;

use super::session::Source;
use crate::io::checksum::{FileChecksum, sum_of, verdict};
use crate::metrics::stage_timer::during;
use crate::source::entry::SourceEntry;
use crate::source::path::SourceFileError;
use crate::source::state::FileChange;

impl Source {
    /// The requested checksum, if the source computes it.
    fn checksum(&self) -> Option<&ChecksumRequest> {
        self.request.settings.checksum.as_ref().filter(|checksum| checksum.at_source)
    }

    /// The checksum state of a large file, if the source computes one. BLAKE3 is computed anyway.
    fn sum<'i>(&self, item: &'i SourceEntry) -> Option<&'i FileChecksum> {
        let algorithm = self.checksum()?.algorithm;
        let sum = || FileChecksum::new(algorithm, self.request.settings.frame);
        (algorithm != ChecksumAlgorithm::Blake3).then(|| item.transfer().sum.get_or_init(sum))
    }

    /// Hashes a frame of a seekable file.
    pub(super) fn update(&self, item: &SourceEntry, index: u64, payload: &[u8]) {
        if let Some(sum) = self.sum(item) {
            sum.update(index, payload);
            sum.frame_written(index, item.offered.size, |index, room: &mut [u8]| self.read_again(item, index, room));
        }
    }

    /// Hashes a frame of a flow.
    pub(super) fn update_in_order(&self, item: &SourceEntry, index: u64, payload: &[u8]) {
        if let Some(sum) = self.sum(item).filter(|_| !payload.is_empty()) {
            sum.update_in_order(index, payload);
        }
    }

    /// Completes the requested digest once all frames have been read; `digest` is the file's BLAKE3.
    pub(super) fn sum_up(&self, entry: EntryId, item: &SourceEntry, digest: Digest) {
        match self.finish_sum(item, digest) {
            Ok(()) => self.lock().machine.summed(entry),
            // A stopped copy reports nothing more.
            Err(_) if self.lock().stopped => {}
            Err(error) => self.fail(entry, item, error),
        }
    }

    fn finish_sum(&self, item: &SourceEntry, digest: Digest) -> Result<(), SourceFileError> {
        let sum = self.sum(item);
        // A pipe was hashed in order, and its frames cannot be requested again.
        let is_pipe = item.is_pipe();
        if let Some(sum) = sum {
            let size = if is_pipe { 0 } else { item.offered.size };
            let read = |index, room: &mut [u8]| self.read_again(item, index, room);
            sum.finish(size, read, || !self.lock().stopped)?;
            if !is_pipe {
                item.needs_second_reading(item.open_shared()?.fd())?;
            }
        }
        if item.has_changed(FileChange::Metadata) {
            self.prove_by_second_reading(item, digest)?;
            self.report_growth(item);
        }
        self.report_sum(item, sum.map_or(Some(&digest[..]), FileChecksum::value).unwrap_or_default())
    }

    /// Reads a changed file again, up to its offered length. Fails unless it still has this digest: then every frame
    /// was constant from its first reading to its second.
    fn prove_by_second_reading(&self, item: &SourceEntry, digest: Digest) -> Result<(), SourceFileError> {
        let (settings, size) = (&self.request.settings, item.offered.size);
        let frame = settings.frame;
        let mut tree = FrameTree::new(frame.frames(size));
        let mut room = vec![0; frame.bytes()];
        for index in 0..frame.frames(size) {
            if self.lock().stopped {
                return Err(SourceFileError::Stopped);
            }
            let room = &mut room[..frame.frame_len(size, index).unwrap_or(0)];
            if during(Stage::Read, || self.read_again(item, index, room))? < room.len() {
                return Err(SourceFileError::Changed);
            }
            let value = match settings.blake3 {
                true => frame.hash(size, index, room),
                false => check_value(frame_check(room)),
            };
            tree.insert(index, value);
        }
        if tree.digest() == Some(digest) { Ok(()) } else { Err(SourceFileError::Changed) }
    }

    /// Reports the digest of a small file, read whole. Fails on a mismatch with the expected value.
    pub(super) fn sum_small(&self, item: &SourceEntry, bytes: &[u8]) -> Result<(), SourceFileError> {
        let Some(checksum) = self.checksum() else { return Ok(()) };
        let value = sum_of(checksum.algorithm, bytes);
        // A file may be sent more than once.
        let reported = &item.transfer().reported_sum;
        if reported.get() != Some(&value) {
            self.report_sum(item, &value)?;
            let _ = reported.set(value);
        }
        Ok(())
    }

    fn report_sum(&self, item: &SourceEntry, value: &[u8]) -> Result<(), SourceFileError> {
        let Some(checksum) = self.checksum() else { return Ok(()) };
        verdict(checksum, value, None)?;
        let path = item.path();
        self.reporter.send(&WorkerMessage::Checksum { path, digest: value.to_vec() });
        Ok(())
    }

    fn read_again(&self, item: &SourceEntry, index: u64, room: &mut [u8]) -> io::Result<usize> {
        let file = item.open_shared().map_err(|_| io::Error::from(io::ErrorKind::NotFound))?;
        file.read_at(room, index * u64::from(self.request.settings.frame.get()))
    }
}
