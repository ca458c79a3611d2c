//! Requested digests at the source (`-E %ALGORITHM`). Every frame is hashed as it is sent. Frames that the target
//! already holds are hashed too, since both ends compare them. A file with a wrong digest is not completed.

use std::io;

use haul_proto::checksum::ChecksumAlgorithm;
use haul_proto::ids::EntryId;
use haul_proto::integrity::Digest;
use haul_proto::wire::checksum::ChecksumRequest;
use haul_proto::wire::report::WorkerMessage;

use super::session::Source;
use crate::io::checksum::{FileChecksum, sum_of, verdict};
use crate::io::storage::calls::read_at;
use crate::source::entry::SourceEntry;
use crate::source::path::SourceFileError;

impl Source {
    /// The requested checksum, if the source computes it.
    fn checksum(&self) -> Option<&ChecksumRequest> {
        self.request.settings.checksum.as_ref().filter(|checksum| checksum.at_source)
    }

    /// The checksum state of a large file, if the source computes one. BLAKE3 is computed anyway.
    fn sum<'i>(&self, item: &'i SourceEntry) -> Option<&'i FileChecksum> {
        let algorithm = self.checksum()?.algorithm;
        let sum = || Box::new(FileChecksum::new(algorithm, self.request.settings.frame));
        (algorithm != ChecksumAlgorithm::Blake3).then(|| &**item.sum.get_or_init(sum))
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
            // A stopped job reports nothing more.
            Err(_) if self.lock().stopped => {}
            Err(error) => self.fail(entry, item, error),
        }
    }

    fn finish_sum(&self, item: &SourceEntry, digest: Digest) -> Result<(), SourceFileError> {
        let Some(sum) = self.sum(item) else { return self.report_sum(item, &digest) };
        // A pipe was hashed in order, and its frames cannot be requested again.
        let is_pipe = item.is_pipe();
        let size = if is_pipe { 0 } else { item.offered.size };
        let read = |index, room: &mut [u8]| self.read_again(item, index, room);
        sum.finish(size, read, || !self.lock().stopped)?;
        if !is_pipe && !item.is_as_offered(item.open_shared()?.fd())? {
            return Err(SourceFileError::Changed);
        }
        self.report_sum(item, sum.value().unwrap_or_default())
    }

    /// Reports the digest of a small file, read whole. Fails on a mismatch with the expected value.
    pub(super) fn sum_small(&self, item: &SourceEntry, bytes: &[u8]) -> Result<(), SourceFileError> {
        let Some(checksum) = self.checksum() else { return Ok(()) };
        let value = sum_of(checksum.algorithm, bytes);
        // A file may be sent more than once.
        if item.reported_sum.get() != Some(&value) {
            self.report_sum(item, &value)?;
            let _ = item.reported_sum.set(value);
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
        read_at(&**file.fd(), room, index * u64::from(self.request.settings.frame.get()))
    }
}
