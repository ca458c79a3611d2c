//! Partial files of earlier runs: found, and verified frame by frame before they count. The journal lists the frames; a
//! read verifies each.

use crate::receiver::file::partial::gaps;
use haul_proto::ids::EntryId;
use haul_proto::integrity::{Digest, frame_check};
use haul_proto::journal::{self, check_value};
use haul_proto::wire::report::{ResumeReport, WorkerMessage};
use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::io::storage::IoMethod;
use crate::io::storage::file::OpenedFile;
use crate::io::storage::policy::IoPlan;
use crate::io::storage::read::FrameReader;
use crate::metrics::counter::add;
use crate::receiver::TargetReceiver;
use crate::receiver::entry::ReceiverEntry;
use crate::receiver::file::ReceivingFile;
use crate::receiver::place::journal::OpenJournal;
use crate::receiver::receive::verification_queue::VerificationClaim;

/// Most frames in one report to the source.
const TOLD_EVERY: usize = 64;

/// Consecutive frames present in a file, and their digests.
pub struct VerifiedFrames {
    /// The file.
    pub entry: EntryId,
    /// Index of the first frame.
    pub first: u64,
    /// Their digests.
    pub values: Vec<Digest>,
}

/// The result of verifying one file, not yet reported.
struct VerificationResult {
    entry: EntryId,
    compare: bool,
    first: u64,
    values: Vec<Digest>,
    held_bytes: u64,
    damaged: u64,
}

impl TargetReceiver {
    /// Verifies claims in order until the job is over.
    pub fn run_verification(&self) {
        while let Some(claim) = self.verification_queue.next() {
            let (entry, item) = match claim {
                VerificationClaim::Sum(entry, item, size) => {
                    self.sum_up(entry, &item, size);
                    continue;
                }
                VerificationClaim::Part(entry, item) => (entry, item),
            };
            let ReceiverEntry::File(file) = &*item else { continue };
            if let Err(error) = self.verify_partial(entry, &item, file) {
                self.fail_file(entry, &item, &error.into());
            }
        }
    }

    fn verify_partial(&self, entry: EntryId, item: &Arc<ReceiverEntry>, file: &ReceivingFile) -> io::Result<()> {
        let Some(journal) = file.journal() else { return Err(io::Error::other("its journal is gone")) };
        let recorded = journal.recorded()?;
        // Unrecorded frames can be requested during verification.
        let gaps = gaps(&recorded, file.frames(self.job.request.settings.frame));
        match file.base() {
            Some(_) => self.deltas.sign(entry, item, gaps.clone()),
            None => self.deltas.report_missing_ranges(entry, &gaps),
        }
        let mut finding = VerificationResult {
            entry,
            // If the source computes a digest, it reads the whole file.
            compare: file.is_to_be_compared() || self.digests.has_sums_elsewhere(),
            first: 0,
            values: Vec::new(),
            held_bytes: 0,
            damaged: 0,
        };
        let Some(Ok(opened)) = file.opened() else { return Err(io::Error::other("its partial file is gone")) };
        let opened = Arc::new(OpenedFile::to_read(opened.fd())?);
        let mut reader = self.job.reader();
        // Requested frames need no verification.
        let is_asked_for = |run: &Range<u64>| gaps.last().is_some_and(|last| last.contains(&run.start));
        for run in recorded.iter().filter(|run| !is_asked_for(run)) {
            if !self.verify_run(&mut finding, &mut reader, (file, &opened), journal, run)? {
                return Ok(());
            }
        }
        let path = file.display_path(&self.job.destination);
        let (size, held, damaged) = (file.size(), finding.held_bytes, finding.damaged);
        self.job.reporter.send(&WorkerMessage::Resumed(ResumeReport {
            path,
            size,
            held,
            damaged,
            compared: finding.compare,
        }));
        // These may be the last frames of the whole job, after which no report is received.
        self.report_held(finding.take_held(), finding.compare);
        Ok(())
    }

    /// Verifies consecutive recorded frames. `false` when the job is over.
    fn verify_run(
        &self,
        finding: &mut VerificationResult,
        reader: &mut FrameReader,
        (file, opened): (&ReceivingFile, &Arc<OpenedFile>),
        journal: &OpenJournal,
        run: Range<u64>,
    ) -> io::Result<bool> {
        let frame = self.job.request.settings.frame;
        let frame_bytes = u64::from(frame.get());
        let plan = IoPlan { cached: opened.in_memory(), ..IoPlan::by(IoMethod::Buffered) };
        reader.add(Arc::clone(opened), plan, run.start * frame_bytes, (run.end * frame_bytes).min(file.size()));
        let mut index = run.start;
        while index < run.end {
            if self.session.is_stopped() {
                return Ok(false);
            }
            self.report_held(finding.take_held(), finding.compare);
            let count = (run.end - index).min(TOLD_EVERY as u64);
            for recorded in journal.records(index, usize::try_from(count).unwrap_or(TOLD_EVERY))? {
                let buffer = reader.next().ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))??;
                let len = frame.frame_len(file.size(), index);
                let value = recorded
                    .filter(|_| len == Some(buffer.payload().len()))
                    .and_then(|recorded| self.verified_value(&recorded, file.size(), index, buffer.payload()));
                if value.is_some() && !finding.compare {
                    self.digests.pass_held(file, index, buffer.payload());
                }
                reader.give_back(buffer);
                match value {
                    Some(value) => {
                        let len = len.unwrap_or(0) as u64;
                        add(&self.job.reporter.tally.bytes_skipped, len);
                        self.report_held(finding.record_held(index, value, len), finding.compare);
                    }
                    None => {
                        finding.damaged += 1;
                        let frames = index..index + 1;
                        self.session.apply(|machine| machine.lacks(finding.entry, std::slice::from_ref(&frames)));
                    }
                }
                index += 1;
            }
        }
        reader.end();
        Ok(true)
    }
}

impl TargetReceiver {
    /// Reports verified frames to the source, in any number of files. Frames to be compared wait while the source has
    /// many others to compare.
    pub(crate) fn report_held(&self, held: impl IntoIterator<Item = VerifiedFrames>, compare: bool) {
        for VerifiedFrames { entry, first, values } in held {
            let step = self.session.apply_when(
                |machine| !compare || machine.may_hold(values.len()),
                |machine| machine.holds(entry, first, &values, compare),
            );
            self.run_step(step);
        }
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
        let has_values = self.job.request.settings.blake3;
        let wanted = has_values || recorded.value.is_some();
        let value = wanted.then(|| self.job.request.settings.frame.hash(size, index, payload));
        let is_same = check == recorded.check && recorded.value.is_none_or(|recorded| Some(recorded) == value);
        is_same.then(|| value.filter(|_| has_values).unwrap_or_else(|| check_value(check)))
    }
}

impl VerificationResult {
    /// Records a verified frame. Returns those before it, if it does not follow them.
    fn record_held(&mut self, index: u64, value: Digest, len: u64) -> Option<VerifiedFrames> {
        let mut earlier = None;
        if self.first + self.values.len() as u64 != index {
            earlier = self.take_held();
            self.first = index;
        }
        self.values.push(value);
        self.held_bytes += len;
        earlier
    }

    /// Takes the frames verified since the last report.
    fn take_held(&mut self) -> Option<VerifiedFrames> {
        let (entry, first, values) = (self.entry, self.first, std::mem::take(&mut self.values));
        self.first += values.len() as u64;
        (!values.is_empty()).then_some(VerifiedFrames { entry, first, values })
    }
}
