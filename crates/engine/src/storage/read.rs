//! A stream's reading: the frames of a piece in their order, each in a buffer of its own. Past the page cache the next
//! ones are read while the stream hashes, seals and sends this one; through it, one buffer is read into again and again.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use super::cache::{drop_pages, read_ahead};
use super::calls::read_at;
use super::file::Opened;
use super::meter::Meter;
use super::policy::Way;
use super::{ALIGNMENT, Access, Engines, Finished, Method, Request, depth, is_refusal};
use crate::stream::record::Record;
use crate::worker::lock;

/// Reads for one stream.
pub struct Reader {
    frame_bytes: usize,
    engines: Engines<u64>,
    free: Vec<Record>,
    meter: Meter,
    /// Bytes that came past the page cache.
    direct_bytes: u64,
    piece: Option<Piece>,
}

/// What is being read.
struct Piece {
    file: Arc<Opened>,
    way: Way,
    start: u64,
    end: u64,
    /// Where the next frame that is asked for begins.
    next: u64,
    /// Frames that were asked for, by their offsets, in order; with what came of them.
    frames: VecDeque<(u64, Option<Finished<u64>>)>,
}

impl Reader {
    /// For frames of up to `frame_bytes`, a multiple of [`ALIGNMENT`].
    pub fn new(frame_bytes: usize) -> Self {
        let engines = Engines::new(depth(frame_bytes));
        Self { frame_bytes, engines, free: Vec::new(), meter: Meter::default(), direct_bytes: 0, piece: None }
    }

    /// Begins with a piece of a file, from `start` to `end`; what was left of another one is forgotten.
    pub fn begin(&mut self, file: Arc<Opened>, way: Way, start: u64, end: u64) {
        self.forget();
        self.meter.reset(way.trial.is_some());
        if way.method == Method::Buffered && !way.cached {
            self.meter.time(|| read_ahead(&**file.fd(), start, end - start));
        }
        self.piece = Some(Piece { file, way, start, end, next: start, frames: VecDeque::new() });
    }

    /// The next frame; its payload is shorter than the frame where the file ends too early. `None` behind the last one.
    pub fn next(&mut self) -> Option<io::Result<Record>> {
        let Self { meter, engines, free, frame_bytes, piece, .. } = self;
        let piece = piece.as_mut()?;
        let finished = meter.time(|| {
            let depth = engines.depth(piece.way.method);
            piece.ask(engines, free, *frame_bytes, depth);
            let finished = piece.await_first(engines)?;
            // One more is under way while this one is worked on.
            if depth > 1 {
                piece.ask(engines, free, *frame_bytes, depth);
            }
            Some(finished)
        })?;
        let len = piece.frame_len(finished.request.offset, *frame_bytes);
        if let (Method::Direct, Ok(read)) = (piece.way.method, &finished.result) {
            self.direct_bytes += (*read).min(len) as u64;
        }
        let read = meter.time(|| piece.whole(finished, len));
        meter.count(len as u64);
        Some(read)
    }

    /// Bytes that came past the page cache since this was last asked.
    pub fn take_direct_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.direct_bytes)
    }

    /// Takes a buffer back.
    pub fn give_back(&mut self, record: Record) {
        self.free.push(record);
    }

    /// A buffer for something else than frames; to be given back.
    pub fn buffer(&mut self) -> Record {
        self.free.pop().unwrap_or_else(|| Record::with_capacity(self.frame_bytes))
    }

    /// The piece was read to its end.
    pub fn end(&mut self) {
        let Some(Piece { file, way, start, end, .. }) = self.piece.take() else { return };
        if way.drop {
            self.meter.time(|| drop_pages(&**file.fd(), start, end - start));
        }
        if let Some(trial) = way.trial {
            lock(&trial).cost(way.method, self.meter.cost());
        }
    }

    /// Waits for what is under way, and takes its buffers back.
    fn forget(&mut self) {
        let asked = self.piece.take().into_iter().flat_map(|piece| piece.frames);
        self.free.extend(asked.filter_map(|(_, finished)| Some(finished?.request.record)));
        while let Some(finished) = self.engines.finished(true) {
            self.free.push(finished.request.record);
        }
    }
}

impl Piece {
    /// Asks for frames until `depth` are under way.
    fn ask(&mut self, engines: &mut Engines<u64>, free: &mut Vec<Record>, frame_bytes: usize, depth: usize) {
        while self.next < self.end && self.frames.len() < depth {
            let record = free.pop().unwrap_or_else(|| Record::with_capacity(frame_bytes));
            let offset = self.next;
            let len = self.frame_len(offset, frame_bytes);
            let (file, len) = match (self.way.method, self.file.direct()) {
                // The last block is asked for as a whole; the file ends within it.
                (Method::Direct, Some(direct)) => (direct, len.next_multiple_of(ALIGNMENT)),
                _ => (self.file.fd(), len),
            };
            let request = Request { access: Access::Read, file: Arc::clone(file), record, len, offset, tag: offset };
            engines.submit(self.way.method, request);
            self.frames.push_back((offset, None));
            self.next = offset + (frame_bytes as u64).min(self.end - offset);
        }
    }

    /// Waits for the first frame that was asked for.
    fn await_first(&mut self, engines: &mut Engines<u64>) -> Option<Finished<u64>> {
        loop {
            if let Some((_, finished)) = self.frames.front_mut()
                && finished.is_some()
            {
                return self.frames.pop_front()?.1;
            }
            let finished = engines.finished(true)?;
            let tag = finished.request.tag;
            if let Some((_, waits)) = self.frames.iter_mut().find(|(offset, _)| *offset == tag) {
                *waits = Some(finished);
            }
        }
    }

    /// Reads through the page cache what a request did not bring: the kernel may read less than it was asked for, and a
    /// file system that opens a file for direct I/O may yet refuse it.
    fn whole(&self, finished: Finished<u64>, len: usize) -> io::Result<Record> {
        let Finished { request, result } = finished;
        let mut record = request.record;
        let read = match result {
            Ok(read) => read.min(len),
            Err(error) if self.way.method == Method::Direct && is_refusal(&error) => {
                self.way.trial.iter().for_each(|trial| lock(trial).refuse());
                0
            }
            Err(error) => return Err(error),
        };
        let rest = read_at(&**self.file.fd(), &mut record.room_mut()[read..len], request.offset + read as u64)?;
        record.set_payload_len(read + rest);
        Ok(record)
    }

    fn frame_len(&self, offset: u64, frame_bytes: usize) -> usize {
        usize::try_from(self.end - offset).unwrap_or(usize::MAX).min(frame_bytes)
    }
}
