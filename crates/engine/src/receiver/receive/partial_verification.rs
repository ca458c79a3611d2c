//! Partial files of earlier runs: verified frame by frame before they count. The journal lists the frames; a read
//! verifies each.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use haul_proto::ids::EntryId;
use haul_proto::integrity::{Digest, frame_check};
use haul_proto::journal::{self, check_value};
use haul_proto::wire::report::{ResumeReport, WorkerMessage};

use crate::io::storage::IoMethod;
use crate::io::storage::file::OpenedFile;
use crate::io::storage::policy::IoPlan;
use crate::io::storage::read::FrameReader;
use crate::metrics::counter::add;
use crate::receiver::bounded_queue::BoundedQueue;
use crate::receiver::entry::ReceiverEntry;
use crate::receiver::file::ReceivingFile;
use crate::receiver::file::partial::gaps;
use crate::receiver::parts::ReceiverParts;

/// Most frames in one report to the source.
const FRAMES_PER_REPORT: u64 = 64;

/// Data of a file to be read before the file can be complete.
pub enum VerificationClaim {
    /// A partial file to verify, already answered.
    Part(EntryId, Arc<ReceiverEntry>),
    /// The unhashed rest of a file of this many bytes with a requested digest.
    Sum(EntryId, Arc<ReceiverEntry>, u64),
}

/// Verifies partial files.
pub struct PartialVerifier {
    parts: Arc<ReceiverParts>,
    /// Claims to verify.
    pub(crate) claims: BoundedQueue<VerificationClaim>,
}

/// Consecutive frames present in a file, and their digests.
pub struct VerifiedFrames {
    /// The number of the file's entry.
    pub entry: EntryId,
    /// Index of the first frame.
    pub first: u64,
    /// Their digests.
    pub values: Vec<Digest>,
}

/// A partial file under verification.
pub struct PartialVerification<'f> {
    entry: EntryId,
    file: &'f ReceivingFile,
    opened: Arc<OpenedFile>,
    reader: FrameReader,
    /// Recorded frames to verify. The reader has the rest of the first range.
    left: VecDeque<Range<u64>>,
    is_reported: bool,
    /// Whether the source compares the verified frames.
    pub compare: bool,
    held_bytes: u64,
    damaged: u64,
}

impl PartialVerifier {
    pub(crate) fn new(parts: &Arc<ReceiverParts>) -> Self {
        Self { parts: Arc::clone(parts), claims: BoundedQueue::default() }
    }

    /// Begins with a file, and reports its unrecorded frames as missing.
    pub(crate) fn begin<'f>(
        &self,
        entry: EntryId,
        item: &Arc<ReceiverEntry>,
        file: &'f ReceivingFile,
    ) -> io::Result<PartialVerification<'f>> {
        let Some(journal) = file.journal() else { return Err(io::Error::other("its journal is gone")) };
        let recorded = journal.recorded()?;
        // Unrecorded frames can be requested during verification.
        let gaps = gaps(&recorded, file.frames(self.parts.copy.request.settings.frame));
        match file.base() {
            Some(_) => self.parts.deltas.sign(entry, item, gaps.clone()),
            None => self.parts.deltas.report_missing_ranges(entry, &gaps),
        }
        let Some(Ok(opened)) = file.opened() else { return Err(io::Error::other("its partial file is gone")) };
        // Requested frames need no verification.
        let is_asked_for = |run: &Range<u64>| gaps.last().is_some_and(|last| last.contains(&run.start));
        let mut verification = PartialVerification {
            entry,
            file,
            opened: Arc::new(OpenedFile::to_read(opened.fd())?),
            reader: self.parts.copy.reader(),
            left: recorded.iter().filter(|run| !is_asked_for(run)).collect(),
            is_reported: false,
            compare: file.is_to_be_compared() || self.parts.digests.is_read_anyway(),
            held_bytes: 0,
            damaged: 0,
        };
        self.begin_range(&mut verification);
        Ok(verification)
    }

    /// Verifies some more frames. Reports the file with the last of them, before they may end the copy. `None` after
    /// that, and when the copy is over.
    pub(crate) fn next(&self, verification: &mut PartialVerification<'_>) -> io::Result<Option<Vec<VerifiedFrames>>> {
        if verification.is_reported || self.parts.session.is_stopped() {
            return Ok(None);
        }
        let held = self.verify_some(verification)?;
        if verification.left.is_empty() {
            let PartialVerification { file, compare, held_bytes, damaged, .. } = *verification;
            let (path, size) = (file.display_path(&self.parts.copy.destination), file.size());
            let report = ResumeReport { path, size, held: held_bytes, damaged, compared: compare };
            self.parts.copy.reporter.send(&WorkerMessage::Resumed(report));
            verification.is_reported = true;
        }
        Ok(Some(held))
    }

    /// Queues the first range in the reader.
    fn begin_range(&self, PartialVerification { opened, reader, left, file, .. }: &mut PartialVerification<'_>) {
        let Some(range) = left.front() else { return };
        let frame_bytes = u64::from(self.parts.copy.request.settings.frame.get());
        let plan = IoPlan { cached: opened.in_memory(), ..IoPlan::by(IoMethod::Buffered) };
        let end = (range.end * frame_bytes).min(file.size());
        reader.add(Arc::clone(opened), plan, range.start * frame_bytes, end);
    }

    /// Verifies the next frames of the first range, and reports damaged ones as missing.
    fn verify_some(&self, verification: &mut PartialVerification<'_>) -> io::Result<Vec<VerifiedFrames>> {
        let (file, entry) = (verification.file, verification.entry);
        let (Some(range), Some(journal)) = (verification.left.front_mut(), file.journal()) else {
            return Ok(Vec::new());
        };
        let count = (range.end - range.start).min(FRAMES_PER_REPORT);
        let frames = range.start..range.start + count;
        range.start = frames.end;
        let (frame, mut held) = (self.parts.copy.request.settings.frame, Vec::<VerifiedFrames>::new());
        let mut is_consecutive = false;
        for (index, recorded) in frames.clone().zip(journal.records(frames.start, count as usize)?) {
            let buffer = verification.reader.next().ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))??;
            let len = frame.frame_len(file.size(), index);
            let value = recorded
                .filter(|_| len == Some(buffer.payload().len()))
                .and_then(|recorded| self.verified_value(&recorded, file.size(), index, buffer.payload()));
            if value.is_some() && !verification.compare {
                self.parts.digests.update_with_verified(file, index, buffer.payload());
            }
            verification.reader.give_back(buffer);
            match (value, held.last_mut()) {
                (Some(value), Some(last)) if is_consecutive => last.values.push(value),
                (Some(value), _) => held.push(VerifiedFrames { entry, first: index, values: vec![value] }),
                (None, _) => {
                    verification.damaged += 1;
                    self.parts.session.apply(|machine| machine.lacks(entry, &[index..index + 1]));
                }
            }
            is_consecutive = value.is_some();
            if is_consecutive {
                let len = len.unwrap_or(0) as u64;
                add(&self.parts.copy.reporter.tally.bytes_skipped, len);
                verification.held_bytes += len;
            }
        }
        if verification.left.front().is_some_and(Range::is_empty) {
            verification.reader.end();
            verification.left.pop_front();
            self.begin_range(verification);
        }
        Ok(held)
    }

    /// The digest of a frame in this session, if it matches its record.
    fn verified_value(
        &self,
        recorded: &journal::JournalRecord,
        size: u64,
        index: u64,
        payload: &[u8],
    ) -> Option<Digest> {
        let check = frame_check(payload);
        let has_values = self.parts.copy.request.settings.blake3;
        let wanted = has_values || recorded.value.is_some();
        let value = wanted.then(|| self.parts.copy.request.settings.frame.hash(size, index, payload));
        let is_same = check == recorded.check && recorded.value.is_none_or(|recorded| Some(recorded) == value);
        is_same.then(|| value.filter(|_| has_values).unwrap_or_else(|| check_value(check)))
    }
}
