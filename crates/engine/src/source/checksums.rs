//! The source's part in a requested digest (`-E %ALGORITHM`): it hashes every frame as it passes, including frames that
//! the target already holds, since those are compared. A file with a wrong digest is not sent to its end.

use haul_proto::checksum::ChecksumAlgorithm;
use haul_proto::ids::EntryId;
use haul_proto::integrity::Digest;
use haul_proto::wire::checksum::ChecksumRequest;
use haul_proto::wire::report::WorkerMessage;
use std::io;

use super::Source;
use crate::io::checksum::{FileChecksum, sum_of, verdict};
use crate::io::storage::calls::read_at;
use crate::source::entry::SourceEntry;
use crate::source::path::SourceFileError;

/// What to do about a file that is not what it was to be.
const REMEDY: &str = "not copied: check the file, or the expected digest";

impl Source {
    /// What is asked for, if it is computed here.
    fn checksum(&self) -> Option<&ChecksumRequest> {
        self.request.settings.checksum.as_ref().filter(|checksum| checksum.at_source)
    }

    /// The digest of a large file, if it is computed here. BLAKE3 is computed anyway.
    fn sum<'i>(&self, item: &'i SourceEntry) -> Option<&'i FileChecksum> {
        let algorithm = self.checksum()?.algorithm;
        let sum = || Box::new(FileChecksum::new(algorithm, self.request.settings.frame));
        (algorithm != ChecksumAlgorithm::Blake3).then(|| &**item.sum.get_or_init(sum))
    }

    /// A frame of a file that can be read again passes.
    pub(super) fn pass(&self, item: &SourceEntry, index: u64, payload: &[u8]) {
        if let Some(sum) = self.sum(item) {
            sum.pass(index, payload);
            sum.passed(index, item.size, |index, room: &mut [u8]| self.read_again(item, index, room));
        }
    }

    /// A frame of a flow passes.
    pub(super) fn pass_in_turn(&self, item: &SourceEntry, index: u64, payload: &[u8]) {
        if let Some(sum) = self.sum(item).filter(|_| !payload.is_empty()) {
            sum.pass_in_turn(index, payload);
        }
    }

    /// All frames of a file were read; its BLAKE3 is `digest`.
    pub(super) fn sum_up(&self, entry: EntryId, item: &SourceEntry, digest: Digest) {
        match self.finish_sum(item, digest) {
            Ok(()) => self.lock().machine.summed(entry),
            // A stopped job reports nothing more.
            Err(_) if self.lock().stopped => {}
            Err(trouble) => self.fail(entry, item, trouble),
        }
    }

    fn finish_sum(&self, item: &SourceEntry, digest: Digest) -> Result<(), SourceFileError> {
        let Some(sum) = self.sum(item) else { return self.tell_sum(item, &digest).map_err(SourceFileError::Failed) };
        // A pipe has passed in its turn to its end, and cannot be asked for anything.
        let is_pipe = item.is_pipe();
        let size = if is_pipe { 0 } else { item.size };
        let read = |index, room: &mut [u8]| self.read_again(item, index, room);
        sum.finish(size, read, || !self.lock().stopped)?;
        if !is_pipe && !item.is_as_offered(item.open_shared()?.fd())? {
            return Err(SourceFileError::Changed);
        }
        self.tell_sum(item, sum.value().unwrap_or_default()).map_err(SourceFileError::Failed)
    }

    /// Reports the digest of a small file, read whole. The error is a mismatch with the expected value.
    pub(super) fn sum_small(&self, item: &SourceEntry, bytes: &[u8]) -> Result<(), String> {
        let Some(checksum) = self.checksum() else { return Ok(()) };
        let value = sum_of(checksum.algorithm, bytes);
        // It may be sent more than once.
        if item.told.get() != Some(&value) {
            self.tell_sum(item, &value)?;
            let _ = item.told.set(value);
        }
        Ok(())
    }

    fn tell_sum(&self, item: &SourceEntry, value: &[u8]) -> Result<(), String> {
        let Some(checksum) = self.checksum() else { return Ok(()) };
        verdict(checksum, value, None).map_err(|wrong| format!("{wrong}\n{REMEDY}"))?;
        let path = item.path();
        self.reporter.send(&WorkerMessage::Checksum { path, digest: value.to_vec() });
        Ok(())
    }

    fn read_again(&self, item: &SourceEntry, index: u64, room: &mut [u8]) -> io::Result<usize> {
        let file = item.open_shared().map_err(|_| io::Error::from(io::ErrorKind::NotFound))?;
        read_at(&**file.fd(), room, index * u64::from(self.request.settings.frame.get()))
    }
}
