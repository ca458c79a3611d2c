//! Read-back of complete files before they get their final names (`--verify=disk`): the data on disk is compared with
//! the sent data. Differing frames are retransmitted once.
//!
//! Reads use O_DIRECT, since the page cache would return the written data. Without O_DIRECT, the pages are dropped
//! first, and the kernel confirms that they are gone. The origin of read data is counted.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use haul_proto::integrity::FrameTree;
use haul_proto::wire::storage::Verify;
use rustix::io::Errno;

use crate::fs::file_system::{is_served, magic_of};
use crate::io::storage::IoMethod;
use crate::io::storage::cache::drop_pages;
use crate::io::storage::file::OpenedFile;
use crate::io::storage::policy::IoPlan;
use crate::io::storage::read::FrameReader;
use crate::metrics::counter::add;
use crate::receiver::commit::Committer;
use crate::receiver::commit::outcomes::{EntryOutcomes, FileLoss};
use crate::receiver::durability::complete_file::{CompleteFile, file};
use crate::receiver::file::partial::gaps;
use crate::receiver::place::error::{DiskDamage, FileError};
use crate::sys::page_cache::cached_bytes;

/// Files read at a time, to keep the disk busy while a small one is compared.
const FILES_AHEAD: usize = 8;
/// For the kernel: up to the end of the file.
const TO_THE_END: u64 = 0;

/// A file being read back.
struct ReadBackFile {
    /// Its frames to read.
    runs: Vec<Range<u64>>,
    in_memory: bool,
    /// None of the file was in the page cache, so buffered reads come from the disk.
    is_uncached: bool,
}

/// The result of a read-back.
enum ReadBackResult {
    /// Equal to the sent data.
    Sound,
    /// Different.
    Damaged(DiskDamage),
    /// Unknown: the copy is over.
    Stopped,
}

impl Committer {
    /// Whether read-back is requested.
    pub(crate) fn reads_back(&self) -> bool {
        self.parts.copy.request.verify == Verify::Disk
    }

    /// Returns the files that passed read-back, or all if none is requested. The others count as lost.
    pub(crate) fn read_back(&self, files: Vec<CompleteFile>, ends: &mut EntryOutcomes) -> Vec<CompleteFile> {
        if !self.reads_back() {
            return files;
        }
        let mut reader = self.parts.copy.reader();
        let (mut waiting, mut under_way) = (files.into_iter(), VecDeque::new());
        let mut sound = Vec::new();
        loop {
            while under_way.len() < FILES_AHEAD
                && let Some(whole) = waiting.next()
            {
                let begun = self.begin(&whole, &mut reader);
                under_way.push_back((whole, begun));
            }
            let Some((mut whole, begun)) = under_way.pop_front() else { return sound };
            match begun.map(|begun| self.compare(&mut whole, &begun, &mut reader)) {
                Ok(ReadBackResult::Sound) => sound.push(whole),
                Ok(ReadBackResult::Damaged(damage)) => ends.lost.push(FileLoss::of_damage(whole, damage)),
                Ok(ReadBackResult::Stopped) => return Vec::new(),
                Err(error) => {
                    self.fail_entry(whole.entry, &whole.item, &FileError::ReadBack(error.into()), ends);
                }
            }
        }
    }

    /// Starts reading for the comparison: the whole file, or the retransmitted frames.
    fn begin(&self, whole: &CompleteFile, reader: &mut FrameReader) -> io::Result<ReadBackFile> {
        let Some(named) = whole.file().named() else {
            return Ok(ReadBackFile { runs: Vec::new(), in_memory: false, is_uncached: false });
        };
        let opened = Arc::new(OpenedFile::to_read(whole.fd())?);
        let frame = self.parts.copy.request.settings.frame;
        let frames = whole.end.as_ref().map_or_else(|| 0..frame.frames(whole.size), |end| end.tree.range());
        let runs = match named.sent_again.get() {
            Some(runs) => runs.clone(),
            None if frames.is_empty() => Vec::new(),
            None => vec![frames],
        };
        drop_pages(&**opened.fd(), 0, TO_THE_END);
        let is_uncached =
            cached_bytes(&**opened.fd(), 0, TO_THE_END) == Some(0) && !is_served(magic_of(&**opened.fd()));
        let may_be_direct =
            !opened.in_memory() && !self.parts.copy.policy.is_never_direct() && opened.direct().is_some();
        let method = if may_be_direct { IoMethod::Direct } else { IoMethod::Buffered };
        for run in &runs {
            let plan = IoPlan { drop: !opened.in_memory(), cached: opened.in_memory(), ..IoPlan::by(method) };
            let frame_bytes = u64::from(frame.get());
            reader.add(Arc::clone(&opened), plan, run.start * frame_bytes, (run.end * frame_bytes).min(whole.size));
        }
        Ok(ReadBackFile { runs, in_memory: opened.in_memory(), is_uncached })
    }

    /// Compares read data with sent data.
    fn compare(&self, whole: &mut CompleteFile, begun: &ReadBackFile, reader: &mut FrameReader) -> ReadBackResult {
        let (frame, size) = (self.parts.copy.request.settings.frame, whole.size);
        let mut sent = whole.end.as_ref().map_or_else(|| tree_of_one(whole), |end| end.tree.clone());
        let mut found = sent.clone();
        begun.runs.iter().for_each(|run| found.forget(run));
        let (mut bytes, mut trouble) = (0, None);
        for run in &begun.runs {
            for index in run.clone() {
                if self.parts.commit_queue.is_stopped() {
                    return ReadBackResult::Stopped;
                }
                match reader.next().unwrap_or_else(|| Err(Errno::NODATA.into())) {
                    Ok(buffer) => {
                        let payload = buffer.payload();
                        bytes += payload.len() as u64;
                        if frame.frame_len(size, index) == Some(payload.len()) {
                            found.insert(index, frame.hash(size, index, payload));
                        }
                        reader.give_back(buffer);
                    }
                    Err(error) => trouble = Some(error),
                }
            }
            reader.end();
        }
        self.count_read_back(begun, bytes, reader.take_direct_bytes());
        let differing = sent.differing(&found);
        let Some(first) = differing.first() else { return ReadBackResult::Sound };
        let frame_bytes = u64::from(frame.get());
        let start = first.start * frame_bytes;
        let len = (first.end * frame_bytes).min(size) - start;
        let damage = DiskDamage { start, len, others: differing.len() - 1, cause: trouble.map(Arc::new) };
        differing.iter().for_each(|run| sent.forget(run));
        let lacking = gaps(sent.seen(), sent.range());
        lacking.iter().for_each(|run| sent.forget(run));
        if let (Some(end), Some(named)) = (&mut whole.end, file(&whole.item).named()) {
            add(&self.parts.copy.reporter.tally.frames_resent, lacking.iter().map(|run| run.end - run.start).sum());
            end.tree = sent;
            let _ = named.sent_again.set(lacking);
        }
        ReadBackResult::Damaged(damage)
    }

    fn count_read_back(&self, begun: &ReadBackFile, bytes: u64, direct_bytes: u64) {
        let tally = &self.parts.copy.reporter.tally;
        let elsewhere: &AtomicU64 = match (begun.in_memory, begun.is_uncached) {
            (true, _) => &tally.read_back_memory,
            (false, true) => &tally.read_back_disk,
            (false, false) => &tally.read_back_cache,
        };
        add(&tally.read_back_disk, direct_bytes);
        add(elsewhere, bytes.saturating_sub(direct_bytes));
    }
}

/// The hash tree of a file from a pack: one frame, or empty.
fn tree_of_one(whole: &CompleteFile) -> FrameTree {
    let mut tree = FrameTree::new(u64::from(whole.size > 0));
    tree.insert(0, whole.digest);
    tree
}
