//! One stream's thread at the source: reads, hashes and sends from one buffer, without copies.

use std::sync::Arc;
use std::time::Instant;

use haul_proto::error::ProtocolError;
use haul_proto::ids::StreamId;
use haul_proto::integrity::{Digest, NO_VALUE, frame_check};
use haul_proto::journal::check_value;
use haul_proto::path::escape;
use haul_proto::ranges::RangeSet;
use haul_proto::scheduler::{Chunk, ChunkSizer, DeltaBase, FlowFrame, SmallFile, WorkItem};
use haul_proto::wire::frame::{DataFrame, DeltaFrame, RecordTrailer};
use haul_proto::wire::preserve::HolePolicy;
use haul_proto::wire::report::WorkerMessage;
use haul_proto::wire::resource_metrics::Stage;

use super::delta::ChunkBase;
use super::session::Source;
use super::stream_work::ReadFrames;
use crate::io::frame_buffer::FrameBuffer;
use crate::io::storage::IoMethod;
use crate::io::storage::file::OpenedFile;
use crate::io::storage::holes::map_of_zeros;
use crate::io::storage::read::FrameReader;
use crate::metrics::counter::add;
use crate::metrics::stage_timer::during;
use crate::net::rate_limiter::RateLimiter;
use crate::net::stream::StreamError;
use crate::source::entry::SourceEntry;
use crate::source::frame_sink::FrameSink;
use crate::source::path::SourceFileError;
use crate::source::state::FileChange;
use crate::source::{flow_frames, small_files};

/// Discards all data, for a copy that only compares.
struct NoSink;

impl FrameSink for NoSink {
    fn send_frame(&mut self, _: FrameBuffer, _: &RecordTrailer, _: &RateLimiter) -> Result<FrameBuffer, StreamError> {
        Err(ProtocolError::Unasked("a frame of an entry without frames").into())
    }

    fn flush(&mut self) -> Result<(), StreamError> {
        Ok(())
    }

    fn end(&mut self, _: FrameBuffer) -> Result<(), StreamError> {
        Ok(())
    }
}

impl Source {
    /// Reads and compares the data that the target also has, until all entries are complete. `id` belongs to this
    /// thread alone.
    pub fn run_comparison(&self, id: StreamId) -> Result<(), StreamError> {
        run(self, id, &mut NoSink)
    }

    /// Runs one stream: reads wanted data and writes it to `sink`, until all entries are complete.
    pub fn run_stream(&self, id: StreamId, sink: &mut impl FrameSink) -> Result<(), StreamError> {
        run(self, id, sink)
    }
}

/// Runs one stream until all entries are complete. A broken stream leaves its work to others.
fn run(source: &Source, id: StreamId, sink: &mut impl FrameSink) -> Result<(), StreamError> {
    let frame_bytes = source.request.settings.frame.bytes();
    let fills_holes = source.request.preserve.holes == HolePolicy::Fill;
    let reader = FrameReader::new(frame_bytes, source.policy.depth(frame_bytes)).filling_holes(fills_holes);
    let (chunk_sizer, ahead, compared) = (ChunkSizer::default(), None, Vec::new());
    let mut sender = StreamSender { source, id, sink, reader, chunk_sizer, ahead, compared };
    let mut now = None;
    let carried = send_work(&mut sender, &mut now);
    if carried.is_err() {
        let in_hand = now.into_iter().chain(sender.ahead).map(StartedWork::back);
        source.lose_stream(id, in_hand);
    }
    carried
}

/// Sends work until none is left; `now` holds the current work.
fn send_work(sender: &mut StreamSender<'_, impl FrameSink>, now: &mut Option<StartedWork>) -> Result<(), StreamError> {
    while let Some(work) = sender.next_work()? {
        match &*now.insert(work) {
            StartedWork::Frames(chunk, file, known) => sender.send_chunk(chunk, file, known)?,
            StartedWork::Pack(files) => small_files::send(sender.source, files, &mut sender.reader, sender.sink)?,
            StartedWork::Next(next) => flow_frames::send_next(sender.source, next, &mut sender.reader, sender.sink)?,
            StartedWork::Kept(kept) => flow_frames::send_kept(sender.source, kept, &mut sender.reader, sender.sink)?,
        }
        *now = None;
    }
    sender.sink.end(sender.reader.buffer())
}

/// State of one stream at the source.
struct StreamSender<'s, O> {
    source: &'s Source,
    id: StreamId,
    sink: &'s mut O,
    reader: FrameReader,
    chunk_sizer: ChunkSizer,
    /// The next work, started early to keep the disk busy.
    ahead: Option<StartedWork>,
    /// Compared files, not yet reported.
    compared: Vec<ReadFrames>,
}

/// Most small files in one report of comparisons.
const COMPARED_FILES: usize = 64;

/// How a chunk was sent.
enum SentChunk {
    /// Digests of its frames, and which of them equal the target's.
    Frames(Vec<(u64, Digest)>, RangeSet),
    /// Its file cannot be read.
    Unreadable(SourceFileError),
}

/// Work that a stream has started.
enum StartedWork {
    /// A chunk of an open file, queued in the reader.
    Frames(Chunk<SourceEntry>, Arc<OpenedFile>, PeerChunkState),
    /// A pack of small files.
    Pack(Vec<SmallFile<SourceEntry>>),
    /// The next frame of a flow.
    Next(FlowFrame<SourceEntry>),
    /// A frame of a flow to retransmit.
    Kept(FlowFrame<SourceEntry>),
}

/// What the target has of a chunk.
enum PeerChunkState {
    /// Nothing.
    Nothing,
    /// Verified frames, with these digests.
    Values(Vec<Digest>),
    /// The target's base file.
    Old(DeltaBase),
}

impl StartedWork {
    /// Returns the work as it was assigned.
    fn back(self) -> WorkItem<SourceEntry> {
        match self {
            Self::Frames(chunk, _, PeerChunkState::Nothing) => WorkItem::Frames(chunk),
            Self::Frames(chunk, _, PeerChunkState::Values(held)) => WorkItem::Compare(chunk, held),
            Self::Frames(chunk, _, PeerChunkState::Old(base)) => WorkItem::Delta(chunk, base),
            Self::Pack(files) => WorkItem::Pack(files),
            Self::Next(next) => WorkItem::Next(next),
            Self::Kept(kept) => WorkItem::Kept(kept),
        }
    }
}

impl<O: FrameSink> StreamSender<'_, O> {
    /// The next work: started early, else available now, else after a wait. All buffered data is sent before the wait.
    fn next_work(&mut self) -> Result<Option<StartedWork>, StreamError> {
        loop {
            if let Some(begun) = self.ahead.take() {
                return Ok((!self.source.is_over()).then_some(begun));
            }
            let frames_max = self.chunk_sizer.frames_max();
            let work = match self.source.work_at_hand(self.id, frames_max) {
                Some(work) => work,
                None => {
                    self.source.all_read(&mut self.compared);
                    self.sink.flush()?;
                    match self.source.wait_for_work(self.id, frames_max)? {
                        Some(work) => work,
                        None => return Ok(None),
                    }
                }
            };
            self.ahead = self.begin(work)?;
        }
    }

    /// Takes the next work before this chunk is sent, if the disk would otherwise idle.
    fn take_work_early(&mut self) -> Result<(), StreamError> {
        if self.ahead.is_none()
            && self.reader.wants_another()
            && let Some(work) = self.source.work_at_hand(self.id, self.chunk_sizer.frames_max())
        {
            self.ahead = self.begin(work)?;
        }
        Ok(())
    }

    /// Starts an assignment. `None` if no work is left: the file is unreadable, or shares its blocks with the target's.
    fn begin(&mut self, work: WorkItem<SourceEntry>) -> Result<Option<StartedWork>, StreamError> {
        let (chunk, known) = match work {
            WorkItem::Pack(files) => return Ok(Some(StartedWork::Pack(files))),
            WorkItem::Next(next) => return Ok(Some(StartedWork::Next(next))),
            WorkItem::Kept(kept) => return Ok(Some(StartedWork::Kept(kept))),
            WorkItem::Frames(chunk) => (chunk, PeerChunkState::Nothing),
            WorkItem::Compare(chunk, held) => (chunk, PeerChunkState::Values(held)),
            WorkItem::Delta(chunk, base) => (chunk, PeerChunkState::Old(base)),
        };
        let since = Instant::now();
        let source = self.source;
        // Compared files may be numerous, so each is open only for its chunk.
        let open = || if source.compares() { chunk.handle.open_as_offered() } else { chunk.handle.open_shared() };
        let opened = during(Stage::Open, open);
        let file = match opened {
            Ok(file) => file,
            Err(reason) => {
                source.fail(chunk.entry, &chunk.handle, reason);
                source.chunk_done(chunk.ticket);
                return Ok(None);
            }
        };
        source.audit_begin(&chunk.handle)?;
        let may_share =
            matches!(known, PeerChunkState::Nothing) && !chunk.handle.is_null() && !source.policy.is_forced();
        // Blocks are shared at equal offsets, and a second reading proves nothing of them.
        let may_share = may_share
            && file.begins() == 0
            && !chunk.handle.is_again()
            && !chunk.handle.has_changed(FileChange::Metadata);
        if may_share
            && let Some(target) = self.sink.target_here()
            && target.share(&file, chunk.entry, chunk.size, chunk.frames.clone())?
        {
            let values: Vec<_> = chunk.frames.clone().map(|index| (index, NO_VALUE)).collect();
            self.conclude(&chunk, &file, values, RangeSet::new());
            self.done(&chunk, since);
            return Ok(None);
        }
        read(source, &chunk, &file, &known, &mut self.reader);
        Ok(Some(StartedWork::Frames(chunk, file, known)))
    }

    /// Sends the reader's first chunk, without the frames that the target holds.
    fn send_chunk(
        &mut self,
        chunk: &Chunk<SourceEntry>,
        file: &OpenedFile,
        known: &PeerChunkState,
    ) -> Result<(), StreamError> {
        let since = Instant::now();
        match self.send_frames(chunk, file, known)? {
            SentChunk::Frames(values, same) => {
                self.reader.end();
                self.conclude(chunk, file, values, same);
            }
            SentChunk::Unreadable(error) => {
                self.reader.give_up();
                self.source.fail(chunk.entry, &chunk.handle, error);
            }
        }
        add(&self.source.reporter.tally.bytes_direct, self.reader.take_direct_bytes());
        // Comparisons say nothing about the stream's throughput.
        match known {
            PeerChunkState::Nothing => self.done(chunk, since),
            PeerChunkState::Old(_) => self.source.chunk_done(chunk.ticket),
            PeerChunkState::Values(_) => {}
        }
        Ok(())
    }

    /// Sends the frames of a chunk that the target lacks.
    fn send_frames(
        &mut self,
        chunk: &Chunk<SourceEntry>,
        file: &OpenedFile,
        known: &PeerChunkState,
    ) -> Result<SentChunk, StreamError> {
        let source = self.source;
        let settings = &source.request.settings;
        let frame = settings.frame;
        let (mut values, mut same) = (Vec::new(), RangeSet::new());
        let mut held = if let PeerChunkState::Values(held) = known { held.iter() } else { [].iter() };
        let mut old = if let PeerChunkState::Old(base) = known { Some(ChunkBase::from(base)) } else { None };
        for index in chunk.frames.clone() {
            self.take_work_early()?;
            let len = frame_len(source, chunk.size, index);
            let mut buffer = match self.reader.next() {
                Some(Ok(buffer)) if buffer.payload().len() == len => buffer,
                Some(Ok(_)) | None => return Ok(SentChunk::Unreadable(SourceFileError::Changed)),
                Some(Err(error)) => return Ok(SentChunk::Unreadable(error.into())),
            };
            source.update(&chunk.handle, index, buffer.payload());
            let (copy, entry, offset) = (settings.number, chunk.entry, index * u64::from(frame.get()));
            let mut value = None;
            if let Some(old) = &mut old {
                match old.instruct(frame, chunk.size, index, &buffer, file) {
                    Ok((made, Some(instructions))) => {
                        values.push((index, made));
                        let trailer = RecordTrailer::Delta(DeltaFrame { copy, entry, offset, plain: len, value: made });
                        self.reader.give_back(buffer);
                        self.send_bytes(&instructions, &trailer)?;
                        continue;
                    }
                    Ok((made, None)) => value = Some(made),
                    Err(error) => return Ok(SentChunk::Unreadable(error.into())),
                }
            }
            let check = frame_check(buffer.payload());
            let value = value.unwrap_or_else(|| match settings.blake3 {
                true => frame.hash(chunk.size, index, buffer.payload()),
                false => check_value(check),
            });
            values.push((index, value));
            let is_same = held.next() == Some(&value);
            if is_same {
                same.insert(index);
            }
            if is_same || source.compares() {
                self.reader.give_back(buffer);
                continue;
            }
            if source.request.preserve.holes == HolePolicy::Make {
                buffer.set_map(map_of_zeros(buffer.payload()));
            }
            let trailer = RecordTrailer::Data(DataFrame { copy, entry, offset, check, value });
            self.reader.give_back(self.sink.send_frame(buffer, &trailer, &source.limiter)?);
        }
        Ok(SentChunk::Frames(values, same))
    }

    /// Sends bytes from outside the reader's buffers.
    fn send_bytes(&mut self, bytes: &[u8], trailer: &RecordTrailer) -> Result<(), StreamError> {
        let mut buffer = self.reader.buffer();
        buffer.set_payload_len(bytes.len());
        buffer.payload_mut().copy_from_slice(bytes);
        self.reader.give_back(self.sink.send_frame(buffer, trailer, &self.source.limiter)?);
        Ok(())
    }

    /// Records a chunk as sent, except for frames in `same`, which equal the target's. It counts only if the file still
    /// equals its offer, or is read a second time.
    fn conclude(&mut self, chunk: &Chunk<SourceEntry>, file: &OpenedFile, values: Vec<(u64, Digest)>, same: RangeSet) {
        let (source, entry) = (self.source, chunk.entry);
        match during(Stage::Open, || chunk.handle.needs_second_reading(file.fd())) {
            Ok(true) if !source.lock().machine.await_second_reading(entry) => {
                source.fail(entry, &chunk.handle, SourceFileError::Changed);
            }
            Ok(_) if source.compares() => {
                let len = |(index, _): &(u64, Digest)| frame_len(source, chunk.size, *index) as u64;
                add(&source.reporter.tally.bytes_compared, values.iter().map(len).sum());
                let is_small = values.len() == 1;
                self.compared.push(ReadFrames { entry, values, same });
                if !is_small || self.compared.len() == COMPARED_FILES {
                    source.all_read(&mut self.compared);
                }
            }
            Ok(_) => source.frames_read(entry, &chunk.handle, &values, &same),
            Err(error) => source.fail(entry, &chunk.handle, error),
        }
    }

    /// Records a chunk as done, with its duration.
    fn done(&mut self, chunk: &Chunk<SourceEntry>, since: Instant) {
        self.source.chunk_done(chunk.ticket);
        self.chunk_sizer.took(chunk.frames.end - chunk.frames.start, since.elapsed());
    }
}

fn frame_len(source: &Source, size: u64, index: u64) -> usize {
    source.request.settings.frame.frame_len(size, index).unwrap_or(0)
}

/// Chooses the I/O method for a chunk, and queues it in the reader.
fn read(
    source: &Source,
    chunk: &Chunk<SourceEntry>,
    file: &Arc<OpenedFile>,
    known: &PeerChunkState,
    reader: &mut FrameReader,
) {
    let frame_bytes = u64::from(source.request.settings.frame.get());
    let start = chunk.frames.start.saturating_mul(frame_bytes);
    let end = chunk.frames.end.saturating_mul(frame_bytes).min(chunk.size);
    let len = end.saturating_sub(start);
    let plan = match known {
        PeerChunkState::Old(_) => source.policy.reading_through_cache(file, chunk.size, start, len),
        PeerChunkState::Nothing | PeerChunkState::Values(_) => source.policy.reading(file, chunk.size, start, len),
    };
    if plan.method == IoMethod::Buffered && !chunk.handle.is_null() && source.policy.is_refusal_news() {
        let path = escape(&chunk.handle.path());
        let text = format!("{path}: no O_DIRECT reads, so the page cache is used");
        source.reporter.send(&WorkerMessage::Warning { text });
    }
    reader.add(Arc::clone(file), plan, start, end);
}
