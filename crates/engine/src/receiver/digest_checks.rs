//! Requested digests at the target (`--checksum`, `--expect`). Frames are hashed as they arrive; frames out of order
//! are reread. A file with a wrong digest never gets its final name.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::{Arc, PoisonError, RwLock};

use haul_proto::checksum::ChecksumAlgorithm;
use haul_proto::expected_digests::ExpectedDigests;
use haul_proto::integrity::Digest;
use haul_proto::wire::checksum::{ChecksumRequest, ChecksumSource};
use haul_proto::wire::frame::{DataFrame, PackFrame};
use haul_proto::wire::report::WorkerMessage;

use crate::io::checksum::{FileChecksum, Hasher, sum_of, verdict};
use crate::io::storage::calls::read_at;
use crate::receiver::copy::ReceiverCopy;
use crate::receiver::file::ReceivingFile;
use crate::receiver::place::error::FileError;

/// Read size for existing files.
const READ_BYTES: usize = 256 << 10;

/// Expected digests, and the requested checksums.
pub struct DigestChecks {
    pub(crate) copy: Arc<ReceiverCopy>,
    /// Expected digests, by name.
    pub(crate) expected: RwLock<Option<ExpectedDigests>>,
}

impl DigestChecks {
    pub(super) fn new(copy: &Arc<ReceiverCopy>) -> Self {
        let checksum = copy.request.settings.checksum.as_ref();
        let by_name = checksum.filter(|checksum| checksum.against == ChecksumSource::Lines);
        let expected = RwLock::new(by_name.map(|checksum| ExpectedDigests::new(checksum.algorithm)));
        Self { copy: Arc::clone(copy), expected }
    }

    /// Adds lines of expected digests, before the copy starts.
    pub fn expect_lines(&self, lines: &[u8]) -> Result<(), &'static str> {
        let mut expected = self.expected.write().unwrap_or_else(PoisonError::into_inner);
        let expected = expected.as_mut().ok_or("unrequested lines of digests")?;
        expected.add_records(lines).map_err(|_| "too many or incomplete lines of digests")
    }

    /// Sorts the expected digests, after the last line.
    pub fn seal_expected_digests(&self) {
        if let Some(expected) = &mut *self.expected.write().unwrap_or_else(PoisonError::into_inner) {
            expected.sort();
        }
    }

    /// The requested checksum, if the target computes it.
    fn checksum(&self) -> Option<&ChecksumRequest> {
        self.copy.request.settings.checksum.as_ref().filter(|checksum| !checksum.at_source)
    }

    /// Whether any digest is requested, so that all data must be hashed.
    pub(crate) fn wants_digests(&self) -> bool {
        self.copy.request.settings.checksum.is_some()
    }

    /// Whether the source reads all of each file: for a digest, or to remove it only if it is here.
    pub(crate) fn is_read_anyway(&self) -> bool {
        self.wants_digests() && self.checksum().is_none() || self.copy.request.sync.source_removes
    }

    pub(crate) fn sum<'i>(&self, file: &'i ReceivingFile) -> Option<&'i FileChecksum> {
        let algorithm = self.checksum()?.algorithm;
        let sum = || Box::new(FileChecksum::new(algorithm, self.copy.request.settings.frame));
        (algorithm != ChecksumAlgorithm::Blake3).then(|| &**file.sum.sum.get_or_init(sum))
    }

    /// Hashes a verified frame before its write, unless the frame is queued for writing in order.
    pub(crate) fn update(&self, file: &ReceivingFile, frame: &DataFrame, payload: &[u8]) {
        if let Some(sum) = self.sum(file).filter(|_| file.in_order_queue().is_none()) {
            sum.update(frame.offset / u64::from(self.copy.request.settings.frame.get()), payload);
        }
    }

    /// Hashes a frame before its write in order.
    pub(crate) fn update_in_order(&self, file: &ReceivingFile, index: u64, payload: &[u8]) {
        if let Some(sum) = self.sum(file) {
            sum.update_in_order(index, payload);
        }
    }

    /// Records a written frame.
    pub(crate) fn frame_written(&self, file: &ReceivingFile, index: u64) {
        if let Some(sum) = self.sum(file).filter(|_| file.in_order_queue().is_none()) {
            let read = |index, room: &mut [u8]| self.read_again(file, index, room);
            sum.frame_written(index, file.size(), read);
        }
    }

    /// Hashes a verified frame of an earlier run.
    pub(crate) fn update_with_verified(&self, file: &ReceivingFile, index: u64, payload: &[u8]) {
        if let Some(sum) = self.sum(file) {
            sum.update(index, payload);
            self.frame_written(file, index);
        }
    }

    /// Compares the digest of a small file with the expected one, before it is written.
    pub(crate) fn check_small(&self, file: &ReceivingFile, bytes: &[u8], digest: &Digest) -> Result<(), FileError> {
        let Some(checksum) = self.checksum() else { return Ok(()) };
        if checksum.algorithm != ChecksumAlgorithm::Blake3 {
            let _ = file.sum.value.set(sum_of(checksum.algorithm, bytes));
        }
        self.check(file, digest)
    }

    /// Compares the digest of a complete file with the expected one; `digest` is the file's BLAKE3.
    pub(crate) fn check(&self, file: &ReceivingFile, digest: &Digest) -> Result<(), FileError> {
        let Some(checksum) = self.checksum() else { return Ok(()) };
        let value = file.sum.value.get().map_or(&digest[..], Vec::as_slice);
        verdict(checksum, value, self.expected_of(&file.relative()).as_deref()).map_err(FileError::Digest)
    }

    /// Reports the digest of a file under its final name.
    pub(crate) fn report_checksum(&self, file: &ReceivingFile, digest: &Digest) {
        if self.checksum().is_some() {
            let digest = file.sum.value.get().cloned().unwrap_or_else(|| digest.to_vec());
            let relative = file.relative();
            let path = if relative.is_empty() { file.display_path(&self.copy.destination) } else { relative };
            self.copy.reporter.send(&WorkerMessage::Checksum { path, digest });
        }
    }

    /// Compares an existing file with its expected digest, and reports the digest. Returns its BLAKE3 if computed.
    pub(crate) fn checksum_existing(
        &self,
        path: impl Fn() -> Vec<u8>,
        open: impl FnOnce() -> io::Result<OwnedFd>,
    ) -> Result<Option<Digest>, FileError> {
        let Some(checksum) = self.checksum() else { return Ok(None) };
        let wants_digest = self.copy.request.digest_existing && checksum.algorithm != ChecksumAlgorithm::Blake3;
        let mut blake3 = wants_digest.then(blake3::Hasher::new);
        let mut hasher = Hasher::new(checksum.algorithm);
        let (mut file, mut room) = (File::from(open()?), vec![0; READ_BYTES]);
        loop {
            let len = match file.read(&mut room) {
                Ok(0) => break,
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            hasher.update(&room[..len]);
            blake3.iter_mut().for_each(|blake3| {
                blake3.update(&room[..len]);
            });
        }
        let (path, digest) = (path(), hasher.finish());
        verdict(checksum, &digest, self.expected_of(&path).as_deref()).map_err(FileError::ExistingDigest)?;
        let computed = match blake3 {
            Some(blake3) => Some(*blake3.finalize().as_bytes()),
            None => digest.clone().try_into().ok().filter(|_| checksum.algorithm == ChecksumAlgorithm::Blake3),
        };
        self.copy.reporter.send(&WorkerMessage::Checksum { path, digest });
        Ok(computed)
    }

    fn expected_of(&self, path: &[u8]) -> Option<Vec<u8>> {
        let expected = self.expected.read().unwrap_or_else(PoisonError::into_inner);
        expected.as_ref()?.digest_of(path).map(<[u8]>::to_vec)
    }

    pub(crate) fn read_again(&self, file: &ReceivingFile, index: u64, room: &mut [u8]) -> io::Result<usize> {
        let Some(Ok(opened)) = file.opened() else { return Err(io::ErrorKind::NotFound.into()) };
        read_at(&**opened.fd(), room, index * u64::from(self.copy.request.settings.frame.get()))
    }

    /// Whether the payload has the source's BLAKE3 digest, if the target computes it.
    pub(crate) fn hashes_agree(&self, frame: &DataFrame, file: &ReceivingFile, payload: &[u8]) -> bool {
        let len = self.copy.request.settings.frame;
        let index = frame.offset / u64::from(len.get());
        let hash = |is_only| len.hash_in(index, payload, is_only) == frame.value;
        !self.copy.rehashes()
            || match file.is_open_ended() {
                // Whether the first frame is the only one is unknown yet.
                true => hash(false) || index == 0 && hash(true),
                false => hash(len.frames(file.size()) == 1),
            }
    }

    pub(crate) fn pack_hashes_agree(&self, pack: &PackFrame, payload: &[u8]) -> bool {
        let mut rest = payload;
        !self.copy.rehashes()
            || pack.files.iter().all(|file| {
                let (bytes, behind) = rest.split_at(rest.len().min(file.len as usize));
                rest = behind;
                *blake3::hash(bytes).as_bytes() == file.digest
            })
    }

    /// Completes the requested digest of a large file of `size` bytes with all frames written, as long as `goes_on`:
    /// rereads the frames that it lacks.
    pub(crate) fn complete_sum(&self, file: &ReceivingFile, size: u64, goes_on: impl Fn() -> bool) -> io::Result<()> {
        let Some(sum) = self.sum(file) else { return Ok(()) };
        sum.finish(size, |index, room: &mut [u8]| self.read_again(file, index, room), goes_on)?;
        let _ = file.sum.value.set(sum.value().unwrap_or_default().to_vec());
        Ok(())
    }
}
