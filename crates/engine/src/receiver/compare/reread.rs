//! A job that only compares: threads read and hash the target's files, and report the hashes to the source.
//!
//! They read files in chunks, so that all threads share a large file, and the source reads one chunk while this end
//! hashes the next. Each chunk opens its own descriptor, so the number of threads bounds open files.

use haul_proto::integrity::Digest;
use haul_proto::scheduler::{Chunk, PIECE_FRAMES_MAX};
use std::collections::VecDeque;
use std::sync::Arc;

use crate::fs::{FileStat, FollowLinks};
use crate::io::storage::FileAccess;
use crate::io::storage::file::OpenedFile;
use crate::io::storage::read::FrameReader;
use crate::metrics::counter::add;
use crate::receiver::TargetReceiver;
use crate::receiver::entry::ReceiverEntry;
use crate::receiver::entry::{Compared, ComparedFile};
use crate::receiver::place::error::FileError;
use crate::receiver::receive::partial_verification::VerifiedFrames;

/// Most small files in one report to the source.
const TOLD_FILES: usize = 64;

/// A chunk queued in the reader.
struct ReReadChunk {
    chunk: Chunk<ReceiverEntry>,
    file: Arc<OpenedFile>,
}

impl TargetReceiver {
    /// Reads files for comparison until the job is over.
    pub fn run_comparison(&self) {
        let mut reader = self.job.reader();
        let (mut ahead, mut held) = (None, Vec::new());
        while let Some(begun) = ahead.take().or_else(|| self.next_chunk(&mut reader, &mut held)) {
            let Some(file) = compared_file(&begun.chunk.handle) else { continue };
            match self.hash_chunk(&begun, file, &mut reader, &mut ahead) {
                Ok(values) => {
                    held.push(VerifiedFrames { entry: begun.chunk.entry, first: begun.chunk.frames.start, values });
                    reader.end();
                    if held.len() == TOLD_FILES || begun.chunk.frames.end - begun.chunk.frames.start > 1 {
                        self.report_held(std::mem::take(&mut held), true);
                    }
                }
                Err(error) => {
                    reader.give_up();
                    self.compare_failed(begun.chunk.entry, file, &error);
                }
            }
            add(&self.job.reporter.tally.bytes_direct, reader.take_direct_bytes());
        }
    }

    /// The next chunk; reports results before it waits.
    fn next_chunk(&self, reader: &mut FrameReader, held: &mut Vec<VerifiedFrames>) -> Option<ReReadChunk> {
        self.start_chunk(reader, false).or_else(|| {
            self.report_held(std::mem::take(held), true);
            self.start_chunk(reader, true)
        })
    }
}

impl TargetReceiver {
    /// Takes a chunk and queues it in the reader. `None` if there is none; if it `waits`, after the last.
    fn start_chunk(&self, reader: &mut FrameReader, waits: bool) -> Option<ReReadChunk> {
        let threads = u64::from(self.job.request.settings.streams);
        let part = |files: &mut VecDeque<Chunk<ReceiverEntry>>| {
            let file = files.front_mut()?;
            let part = file.split(threads, PIECE_FRAMES_MAX);
            if file.frames.is_empty() {
                files.pop_front();
            }
            Some(part)
        };
        loop {
            let chunk = self.decider.comparer.chunks.pop(waits, part)?;
            let Some(file) = compared_file(&chunk.handle) else { continue };
            // It may have been abandoned meanwhile, at either end.
            if !self.session.read(|machine| machine.is_known(chunk.entry)) {
                continue;
            }
            match open(file) {
                Ok(opened) => {
                    let frame_bytes = u64::from(self.job.request.settings.frame.get());
                    let start = chunk.frames.start.saturating_mul(frame_bytes);
                    let end = chunk.frames.end.saturating_mul(frame_bytes).min(file.size);
                    let plan = self.job.policy.reading(&opened, file.size, start, end.saturating_sub(start));
                    reader.add(Arc::clone(&opened), plan, start, end);
                    return Some(ReReadChunk { chunk, file: opened });
                }
                Err(error) => self.compare_failed(chunk.entry, file, &error),
            }
        }
    }

    /// Hashes the reader's first chunk. Starts the next one early if the disk would otherwise idle.
    fn hash_chunk(
        &self,
        ReReadChunk { chunk, file: opened }: &ReReadChunk,
        file: &ComparedFile,
        reader: &mut FrameReader,
        ahead: &mut Option<ReReadChunk>,
    ) -> Result<Vec<Digest>, FileError> {
        let frame = self.job.request.settings.frame;
        let mut values = Vec::new();
        for index in chunk.frames.clone() {
            if ahead.is_none() && reader.wants_another() {
                *ahead = self.start_chunk(reader, false);
            }
            let buffer = match reader.next() {
                Some(Ok(buffer)) if frame.frame_len(file.size, index) == Some(buffer.payload().len()) => buffer,
                Some(Ok(_)) | None => return Err(FileError::ChangedWhileRead),
                Some(Err(error)) => return Err(error.into()),
            };
            values.push(frame.hash(file.size, index, buffer.payload()));
            reader.give_back(buffer);
        }
        check_unchanged(file, &FileStat::at_fd(opened.fd())?)?;
        Ok(values)
    }
}

fn compared_file(item: &ReceiverEntry) -> Option<&ComparedFile> {
    match item {
        ReceiverEntry::Compared(Compared::File(file)) => Some(file),
        _ => None,
    }
}

/// Opens the file, and verifies that it is unchanged since the check.
fn open(file: &ComparedFile) -> Result<Arc<OpenedFile>, FileError> {
    let (fd, look) = file.dir.open_file(&file.name, FollowLinks::Itself)?;
    check_unchanged(file, &look)?;
    let opened = OpenedFile::new(fd, FileAccess::Read)?;
    Ok(Arc::new(opened.with_extents(Arc::clone(&file.extents))))
}

fn check_unchanged(file: &ComparedFile, now: &FileStat) -> Result<(), FileError> {
    if (now.size, now.meta.modified) == (file.size, file.modified) { Ok(()) } else { Err(FileError::ChangedWhileRead) }
}
