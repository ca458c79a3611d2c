//! Threads that read base files and send block signatures to the source: see [`crate::receiver::delta::find_base`].
//!
//! As in a comparison, they read files in chunks, so that all threads share a large file, and each chunk opens the file
//! separately.

use std::cell::OnceCell;
use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;

use blake3::hazmat::ChainingValue;
use haul_proto::delta::rolling::{RollingSignature, SignatureFormat};
use haul_proto::delta::{DeltaMethod, blocks};
use haul_proto::ids::EntryId;
use haul_proto::limits::{FRAME_RUNS_MAX, SUMS_MAX};
use haul_proto::scheduler::CHUNK_FRAMES_MAX;
use rustix::fs::{Advice, fadvise};

use crate::fs::FileStat;
use crate::io::storage::IoMethod;
use crate::io::storage::calls::read_at;
use crate::io::storage::file::OpenedFile;
use crate::io::storage::policy::IoPlan;
use crate::io::storage::read::FrameReader;
use crate::metrics::counter::add;
use crate::receiver::delta::DeltaStage;
use crate::receiver::entry::ReceiverEntry;
use crate::receiver::file::base::BaseSource;
use crate::receiver::place::error::FileError;

/// Bytes of a base file whose blocks a thread signs at a time.
const SUMMED_BYTES: u64 = 8 << 20;

/// Block hashes of some frames, and for each frame its blocks' chaining values.
type FrameHashes = (Vec<blocks::BlockHash>, Vec<(u64, Vec<ChainingValue>)>);

/// A base file to sign.
pub struct SignatureTask {
    entry: EntryId,
    item: Arc<ReceiverEntry>,
    /// Remaining ranges: frames of the new file, or blocks of the base file.
    left: VecDeque<Range<u64>>,
    /// Most base files at a time.
    most: u64,
}

/// A range of a signature task.
struct SignatureRange {
    entry: EntryId,
    item: Arc<ReceiverEntry>,
    range: Range<u64>,
}

impl SignatureTask {
    /// Splits off a range. Also returns whether anything is left.
    fn split(&mut self) -> Option<(SignatureRange, bool)> {
        let front = self.left.front_mut()?;
        let range = front.start..front.end.min(front.start + self.most);
        front.start = range.end;
        if front.is_empty() {
            self.left.pop_front();
        }
        Some((SignatureRange { entry: self.entry, item: Arc::clone(&self.item), range }, !self.left.is_empty()))
    }
}

impl DeltaStage {
    /// Number of threads that read base files.
    pub fn base_file_readers(&self) -> u16 {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let cores = u16::try_from(cores).unwrap_or(u16::MAX);
        let is_asked_for = self.copy.request.delta != Default::default() || self.copy.request.sync.detect_renames;
        let is_wanted = is_asked_for && !self.copy.compares() && !self.copy.is_dry();
        if is_wanted { self.copy.request.settings.streams.min(cores) } else { 0 }
    }

    /// Queues these frames of a file for signing.
    pub(crate) fn sign(&self, entry: EntryId, item: &Arc<ReceiverEntry>, frames: Vec<Range<u64>>) {
        let Some(base) = base_of(item) else { return };
        let (left, most) = match base.method {
            DeltaMethod::Blocks => (frames, CHUNK_FRAMES_MAX),
            DeltaMethod::Rolling(block) => {
                let blocks = base.version.size / u64::from(block);
                if blocks == 0 {
                    return self.report_missing_ranges(entry, &frames);
                }
                base.wants(frames);
                (std::iter::once(0..blocks).collect(), (SUMMED_BYTES / u64::from(block)).max(1))
            }
        };
        self.signature_tasks.add(vec![SignatureTask { entry, item: Arc::clone(item), left: left.into(), most }]);
    }

    /// Reports hashes of the blocks at the offsets of some frames. A frame that is a hole in the base file is reported
    /// as missing: hashes of zeros cost more than resending a hole.
    fn hash_blocks(&self, part: &SignatureRange, base: &BaseSource, reader: &mut FrameReader) -> Result<(), FileError> {
        let frame = self.copy.request.settings.frame;
        let frame_bytes = u64::from(frame.get());
        // Nothing to sign beyond the end of the base file.
        let end = part.range.end.min(frame.frames(base.version.size)).max(part.range.start);
        self.report_missing_ranges(part.entry, &runs(end..part.range.end));
        if part.range.start == end {
            return Ok(());
        }
        let file = base.open()?;
        // In place, a missing frame would be written even without a change.
        let is_hole = |index: u64| {
            let len = frame.frame_len(base.version.size, index).unwrap_or(0);
            base.in_place.is_none() && file.is_hole(index * frame_bytes, len as u64)
        };
        let frames: Vec<_> = (part.range.start..end).map(|index| (index, is_hole(index))).collect();
        let (mut holes, mut hashed) = (Vec::new(), Vec::new());
        for run in frames.chunk_by(|(_, one), (_, other)| one == other) {
            let Some((first, is_hole)) = run.first().copied() else { continue };
            let run = first..first + run.len() as u64;
            if is_hole {
                holes.push(run);
            } else {
                hashed.push((run.clone(), self.hash_frames(part, base, reader, &file, run)?));
            }
        }
        base.check_unchanged(&FileStat::at_fd(file.fd())?)?;
        self.report_missing_ranges(part.entry, &holes);
        for (run, (marks, values)) in hashed {
            if let Some(in_place) = &base.in_place {
                in_place.keep(values);
            }
            self.report_block_hashes(part.entry, run.start, run.end - run.start, marks);
        }
        Ok(())
    }

    /// Reads frames of a base file. Returns the hashes of their blocks, and the chaining values of each frame.
    fn hash_frames(
        &self,
        part: &SignatureRange,
        base: &BaseSource,
        reader: &mut FrameReader,
        opened: &Arc<OpenedFile>,
        frames: Range<u64>,
    ) -> Result<FrameHashes, FileError> {
        let frame = self.copy.request.settings.frame;
        let ReceiverEntry::File(file) = &*part.item else { return Ok(FrameHashes::default()) };
        let frame_bytes = u64::from(frame.get());
        let (from, to) = (frames.start * frame_bytes, (frames.end * frame_bytes).min(base.version.size));
        let plan = match base.in_place {
            Some(_) => self.copy.policy.reading_through_cache(opened, base.version.size, from, to - from),
            // Rebuilding frames rereads the file, preferably from the page cache.
            None => IoPlan { led: true, ..IoPlan::by(IoMethod::Buffered) },
        };
        reader.add(Arc::clone(opened), plan, from, to);
        let mut marks = Vec::new();
        let mut values_of_all = Vec::new();
        for index in frames {
            let buffer = match reader.next() {
                Some(Ok(buffer)) if frame.frame_len(base.version.size, index) == Some(buffer.payload().len()) => buffer,
                read => {
                    reader.give_up();
                    return Err(read.and_then(Result::err).map_or(FileError::BaseChanged, FileError::from));
                }
            };
            let values = blocks::values(frame, index, buffer.payload());
            reader.give_back(buffer);
            let wanted = blocks::count(frame.frame_len(file.size(), index).unwrap_or(0));
            let mut hashes = blocks::marks(&values);
            hashes.resize(wanted, 0);
            marks.extend(hashes);
            values_of_all.push((index, values));
        }
        reader.end();
        add(&self.copy.reporter.tally.bytes_direct, reader.take_direct_bytes());
        Ok((marks, values_of_all))
    }

    /// Reports block hashes. Waits while the source has enough signatures to work on.
    fn report_block_hashes(&self, entry: EntryId, first: u64, frames: u64, marks: Vec<blocks::BlockHash>) {
        self.copy.reporter.delta.add_signatures(8 * marks.len());
        self.session
            .apply_when(|machine| machine.may_mark(frames), |machine| machine.mark(entry, first, frames, marks));
    }

    /// Signs some blocks of a base file. Reports all signatures after the last block.
    fn sign_blocks(&self, part: &SignatureRange, base: &BaseSource, format: SignatureFormat) -> Result<(), FileError> {
        let block = u64::from(format.block);
        let blocks = base.version.size / block;
        let file = base.open()?;
        let (from, to) = (part.range.start * block, part.range.end * block);
        if !file.is_hole(from, to - from) {
            // Only a hint. In a hole, it would fill the page cache with zeros.
            let _ = fadvise(&**file.fd(), from, NonZeroU64::new(to - from), Advice::WillNeed);
        }
        let mut bytes = vec![0; usize::try_from(block).unwrap_or(0)];
        let (of_zeros, mut sums) = (OnceCell::new(), Vec::new());
        for number in part.range.clone() {
            if file.is_hole(number * block, block) {
                sums.push(*of_zeros.get_or_init(|| format.sign(&vec![0; bytes.len()])));
                continue;
            }
            match read_at(&**file.fd(), &mut bytes, number * block) {
                Ok(read) if read == bytes.len() => sums.push(format.sign(&bytes)),
                Ok(_) => return Err(FileError::BaseChanged),
                Err(error) => return Err(error.into()),
            }
        }
        base.check_unchanged(&FileStat::at_fd(file.fd())?)?;
        if let Some(all) = base.gather(part.range.start, sums, blocks) {
            self.report_rolling_signatures(part, base, format, &all);
        }
        Ok(())
    }

    fn report_rolling_signatures(
        &self,
        part: &SignatureRange,
        base: &BaseSource,
        format: SignatureFormat,
        all: &[RollingSignature],
    ) {
        let ReceiverEntry::File(file) = &*part.item else { return };
        let count = all.len() as u64;
        self.session.apply_when(
            |machine| machine.may_sum(count),
            |machine| {
                machine.begin_sums(part.entry, count);
                for (first, sums) in (0..).step_by(SUMS_MAX).zip(all.chunks(SUMS_MAX)) {
                    machine.send_signatures(part.entry, base.version.size, format, first, sums.to_vec());
                }
            },
        );
        self.copy.reporter.delta.add_signatures(format.signature_bytes() * all.len());
        let frames = self.copy.request.settings.frame.frames(file.size());
        self.report_missing_ranges(part.entry, &base.wanted(frames));
    }

    /// Unsigned frames are sent whole.
    fn report_no_signature(&self, part: &SignatureRange, base: &BaseSource) {
        let ReceiverEntry::File(file) = &*part.item else { return };
        match base.method {
            DeltaMethod::Blocks => self.report_missing_ranges(part.entry, &runs(part.range.clone())),
            // The signatures will never be complete, so only the first failed range reports.
            DeltaMethod::Rolling(_) if base.is_first_failure() => {
                let frames = self.copy.request.settings.frame.frames(file.size());
                self.report_missing_ranges(part.entry, &base.wanted(frames));
            }
            DeltaMethod::Rolling(_) => {}
        }
    }

    pub(crate) fn report_missing_ranges(&self, entry: EntryId, frames: &[Range<u64>]) {
        if !frames.is_empty() {
            debug_assert!(frames.len() <= FRAME_RUNS_MAX);
            self.session.apply(|machine| machine.lacks(entry, frames));
        }
    }
}

/// An update in place whose base file cannot be read.
pub struct FailedUpdate {
    /// The file.
    pub entry: EntryId,
    /// Its data.
    pub item: Arc<ReceiverEntry>,
    /// Why it cannot be read.
    pub error: FileError,
}

impl DeltaStage {
    /// Signs base files, up to an update in place that fails. `None` when the copy is over.
    pub(crate) fn sign_up_to_failure(&self, reader: &mut FrameReader) -> Option<FailedUpdate> {
        while let Some(part) = self.signature_tasks.pop(true, next_range) {
            let Some(base) = base_of(&part.item).filter(|_| self.session.read(|machine| machine.is_known(part.entry)))
            else {
                continue;
            };
            if !self.may_use(base) {
                self.report_no_signature(&part, base);
                continue;
            }
            let signed = match base.method {
                DeltaMethod::Blocks => self.hash_blocks(&part, base, reader),
                DeltaMethod::Rolling(block) => self.sign_blocks(&part, base, base.signature_format(block)),
            };
            match (signed, base.in_place.is_some()) {
                (Ok(()), _) => {}
                (Err(error), true) => return Some(FailedUpdate { entry: part.entry, item: part.item, error }),
                // Unsigned frames are sent whole.
                (Err(_), false) => self.report_no_signature(&part, base),
            }
        }
        None
    }
}

/// Splits a range off the first task.
fn next_range(tasks: &mut VecDeque<SignatureTask>) -> Option<SignatureRange> {
    while let Some(first) = tasks.front_mut() {
        let split = first.split();
        if split.as_ref().is_none_or(|(_, is_more)| !is_more) {
            tasks.pop_front();
        }
        if let Some((range, _)) = split {
            return Some(range);
        }
    }
    None
}

fn runs(frames: Range<u64>) -> Vec<Range<u64>> {
    std::iter::once(frames).filter(|frames| !frames.is_empty()).collect()
}

fn base_of(item: &ReceiverEntry) -> Option<&BaseSource> {
    match item {
        ReceiverEntry::File(file) => file.base(),
        _ => None,
    }
}
