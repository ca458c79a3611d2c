//! A copy that only compares: threads read and hash the target's files, and report the hashes to the source.
//!
//! They read files in chunks, so that all threads share a large file, and the source reads one chunk while this end
//! hashes the next. Each chunk opens its own descriptor, so the number of threads bounds open files.

use std::collections::VecDeque;
use std::sync::Arc;

use haul_proto::ids::EntryId;
use haul_proto::integrity::Digest;
use haul_proto::scheduler::{CHUNK_FRAMES_MAX, Chunk};

use crate::fs::{FileStat, FollowLinks};
use crate::io::storage::FileAccess;
use crate::io::storage::file::OpenedFile;
use crate::io::storage::read::FrameReader;
use crate::metrics::counter::add;
use crate::receiver::compare::EntryComparer;
use crate::receiver::entry::{Compared, ComparedFile, ReceiverEntry};
use crate::receiver::place::error::FileError;
use crate::receiver::receive::partial_verification::VerifiedFrames;

/// One thread's reads for a comparison.
pub struct ComparisonReader {
    frames: FrameReader,
    /// The chunk after this one, begun early so that the disk stays busy.
    ahead: Option<ReReadChunk>,
}

/// A chunk queued in the reader, or why it is not.
struct ReReadChunk {
    chunk: Chunk<ReceiverEntry>,
    file: Result<Arc<OpenedFile>, FileError>,
}

/// A chunk that was read.
pub struct HashedChunk {
    /// The number of its file's entry.
    pub entry: EntryId,
    /// Its file.
    pub item: Arc<ReceiverEntry>,
    /// Its frames, or why they could not be read.
    pub frames: Result<VerifiedFrames, FileError>,
}

impl ComparisonReader {
    /// Creates a reader.
    pub fn new(frames: FrameReader) -> Self {
        Self { frames, ahead: None }
    }
}

impl EntryComparer {
    /// Reads and hashes the next chunk. `None` if there is none; if it `waits`, after the last.
    pub(crate) fn hash_next(&self, reader: &mut ComparisonReader, waits: bool) -> Option<HashedChunk> {
        let ReReadChunk { chunk, file } =
            reader.ahead.take().or_else(|| self.start_chunk(&mut reader.frames, waits))?;
        let (entry, first) = (chunk.entry, chunk.frames.start);
        let frames = file.and_then(|opened| {
            let values = self.hash_chunk(&chunk, &opened, reader);
            if values.is_ok() {
                reader.frames.end()
            } else {
                reader.frames.give_up()
            }
            Ok(VerifiedFrames { entry, first, values: values? })
        });
        add(&self.parts.copy.reporter.tally.bytes_direct, reader.frames.take_direct_bytes());
        Some(HashedChunk { entry, item: chunk.handle, frames })
    }

    /// Takes a chunk and queues it in the reader.
    fn start_chunk(&self, reader: &mut FrameReader, waits: bool) -> Option<ReReadChunk> {
        let threads = u64::from(self.parts.copy.request.settings.streams);
        let part = |files: &mut VecDeque<Chunk<ReceiverEntry>>| {
            let file = files.front_mut()?;
            let part = file.split(threads, CHUNK_FRAMES_MAX);
            if file.frames.is_empty() {
                files.pop_front();
            }
            Some(part)
        };
        loop {
            let chunk = self.chunks.pop(waits, part)?;
            let Some(file) = compared_file(&chunk.handle) else { continue };
            // It may have been abandoned meanwhile, at either end.
            if !self.parts.session.read(|machine| machine.is_known(chunk.entry)) {
                continue;
            }
            let opened = open(file);
            if let Ok(opened) = &opened {
                let frame_bytes = u64::from(self.parts.copy.request.settings.frame.get());
                let start = chunk.frames.start.saturating_mul(frame_bytes);
                let end = chunk.frames.end.saturating_mul(frame_bytes).min(file.size);
                let plan = self.parts.copy.policy.reading(opened, file.size, start, end.saturating_sub(start));
                reader.add(Arc::clone(opened), plan, start, end);
            }
            return Some(ReReadChunk { chunk, file: opened });
        }
    }

    /// Hashes the reader's first chunk. Starts the next one early if the disk would otherwise idle.
    fn hash_chunk(
        &self,
        chunk: &Chunk<ReceiverEntry>,
        opened: &OpenedFile,
        ComparisonReader { frames, ahead }: &mut ComparisonReader,
    ) -> Result<Vec<Digest>, FileError> {
        let Some(file) = compared_file(&chunk.handle) else { return Ok(Vec::new()) };
        let frame = self.parts.copy.request.settings.frame;
        let mut values = Vec::new();
        for index in chunk.frames.clone() {
            if ahead.is_none() && frames.wants_another() {
                *ahead = self.start_chunk(frames, false);
            }
            let buffer = match frames.next() {
                Some(Ok(buffer)) if frame.frame_len(file.size, index) == Some(buffer.payload().len()) => buffer,
                Some(Ok(_)) | None => return Err(FileError::ChangedWhileRead),
                Some(Err(error)) => return Err(error.into()),
            };
            values.push(frame.hash(file.size, index, buffer.payload()));
            frames.give_back(buffer);
        }
        check_unchanged(file, &FileStat::at_fd(opened.fd())?)?;
        Ok(values)
    }
}

/// The file that a chunk is of.
pub(crate) fn compared_file(item: &ReceiverEntry) -> Option<&ComparedFile> {
    match item {
        ReceiverEntry::Compared(Compared::File(file)) => Some(file),
        _ => None,
    }
}

/// Opens the file, and verifies that it is unchanged since the check.
fn open(file: &ComparedFile) -> Result<Arc<OpenedFile>, FileError> {
    let (fd, stat) = file.dir.open_file(&file.name, FollowLinks::Itself)?;
    check_unchanged(file, &stat)?;
    let opened = OpenedFile::new(fd, FileAccess::Read)?;
    Ok(Arc::new(opened.with_extents(Arc::clone(&file.extents))))
}

fn check_unchanged(file: &ComparedFile, now: &FileStat) -> Result<(), FileError> {
    if (now.size, now.meta.modified) == (file.size, file.modified) { Ok(()) } else { Err(FileError::ChangedWhileRead) }
}
