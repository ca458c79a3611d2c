//! Read-ahead of a stream in the present and following chunks, so that the disk is busy while the stream hashes,
//! encrypts and sends.
//!
//! With O_DIRECT, some frames are in flight at a time. Through the page cache, a frame is read when needed, and the
//! kernel is advised of the next ones. A disk with large kernel read-ahead is left to the kernel: its requests are
//! longer than advice makes them.

use std::collections::VecDeque;
use std::sync::Arc;

use haul_proto::wire::sparse::DataMap;

use super::cache::read_ahead;
use super::file::OpenedFile;
use super::policy::IoPlan;
use super::{ALIGNMENT, FileAccess, FinishedIo, IoMethod, IoRequest, StreamStorage};
use crate::io::frame_buffer::FrameBuffer;
use crate::sys::page_cache::cached_bytes;

/// Distance of buffered read-ahead.
pub const READ_AHEAD_BYTES: u64 = 16 << 20;
/// Bytes per advice. The kernel ignores the rest beyond a disk's request size or read-ahead; every disk with default
/// settings accepts this.
const ADVICE_BYTES: u64 = 256 << 10;

/// Bytes of a chunk read without advice, to measure the kernel's own read-ahead.
const LEAD_FOUND_AT: u64 = 2 << 20;
/// Kernel read-ahead that counts as long: most of these bytes are cached. The default is 128 KiB.
const LEAD_BYTES: u64 = 4 << 20;

/// The kernel's own read-ahead on the last device.
#[derive(Debug, Clone, Copy)]
struct KernelReadahead {
    device: u64,
    is_far: bool,
}

/// A range of a file to be read frame by frame.
pub struct ReadRange {
    /// The file.
    pub file: Arc<OpenedFile>,
    /// Its plan.
    pub plan: IoPlan,
    /// Its start.
    pub start: u64,
    /// Its end.
    pub end: u64,
    /// Offset of the next frame to request.
    next: u64,
    /// End of the advised range.
    advised: u64,
    /// Requested frames by the tags of their requests, in order, with their results.
    frames: VecDeque<(u64, Option<FinishedIo<u64>>)>,
    /// Whether holes are read as data.
    fills_holes: bool,
}

/// The chunks of a stream, in order.
pub struct Readahead {
    frame_bytes: usize,
    engines: StreamStorage<u64>,
    free: Vec<FrameBuffer>,
    ranges: VecDeque<ReadRange>,
    tags: u64,
    lead: Option<KernelReadahead>,
    /// Whether holes of added chunks are read as data.
    pub fills_holes: bool,
}

impl ReadRange {
    /// From `start` to `end`.
    pub fn new(file: Arc<OpenedFile>, plan: IoPlan, start: u64, end: u64) -> Self {
        Self { file, plan, start, end, next: start, advised: start, frames: VecDeque::new(), fills_holes: false }
    }

    /// Bytes that have not been requested.
    pub fn left(&self) -> u64 {
        self.end - self.next
    }

    /// Bytes of the frame at `offset`.
    pub fn frame_len(&self, offset: u64, frame_bytes: usize) -> usize {
        usize::try_from(self.end - offset).unwrap_or(usize::MAX).min(frame_bytes)
    }

    /// Whether it may be read ahead: measured reads run alone.
    fn may_be_early(&self) -> bool {
        self.plan.trial.is_none()
    }

    /// Requests its next frame.
    fn ask(
        &mut self,
        engines: &mut StreamStorage<u64>,
        free: &mut Vec<FrameBuffer>,
        frame_bytes: usize,
        tags: &mut u64,
    ) {
        let mut buffer = free.pop().unwrap_or_else(|| FrameBuffer::with_capacity(frame_bytes));
        let offset = self.next;
        let frame_len = self.frame_len(offset, frame_bytes);
        let map = self.file.map_of(offset, frame_len).filter(|_| !self.fills_holes);
        buffer.set_map(map);
        // Opened for direct I/O only if used.
        let direct = if self.plan.method == IoMethod::Direct { self.file.direct() } else { None };
        let (file, len) = match direct {
            // The last block is requested as a whole; the file ends within it.
            Some(direct) => (direct, frame_len.next_multiple_of(ALIGNMENT)),
            None => (self.file.fd(), frame_len),
        };
        let tag = *tags;
        *tags += 1;
        let mut request = IoRequest { access: FileAccess::Read, file: Arc::clone(file), buffer, len, offset, tag };
        if map == Some(DataMap::HOLE) {
            // A hole reads as zeros.
            request.buffer.room_mut()[..frame_len].fill(0);
            self.frames.push_back((tag, Some(FinishedIo { request, result: Ok(frame_len) })));
        } else {
            engines.submit(self.plan.method, request);
            self.frames.push_back((tag, None));
        }
        self.next = offset + frame_len as u64;
    }

    /// Whether [`KernelReadahead`] applies to it.
    fn is_led(&self) -> bool {
        self.is_advised() && self.plan.led
    }

    /// Whether the kernel may receive advice about it.
    fn is_advised(&self) -> bool {
        self.plan.method == IoMethod::Buffered && !self.plan.cached
    }

    /// Whether it is long enough to measure the kernel's readahead.
    fn can_measure_readahead(&self) -> bool {
        self.end - self.start >= LEAD_FOUND_AT + LEAD_BYTES
    }

    fn advise_to(&mut self, end: u64) {
        while self.advised < end {
            let len = ADVICE_BYTES.min(end - self.advised);
            if !self.file.is_hole(self.advised, len) {
                read_ahead(&**self.file.fd(), self.advised, len);
            }
            self.advised += len;
        }
    }
}

impl Readahead {
    /// For frames of up to `frame_bytes`, with up to `depth` direct reads in flight.
    pub fn new(frame_bytes: usize, depth: usize) -> Self {
        let engines = StreamStorage::new(depth);
        Self {
            frame_bytes,
            engines,
            free: Vec::new(),
            ranges: VecDeque::new(),
            tags: 0,
            lead: None,
            fills_holes: false,
        }
    }

    /// Adds a chunk after the others.
    pub fn add(&mut self, range: ReadRange) {
        self.ranges.push_back(ReadRange { fills_holes: self.fills_holes, ..range });
        self.advise();
        self.fill();
    }

    /// The first chunk.
    pub fn first(&self) -> Option<&ReadRange> {
        self.ranges.front()
    }

    /// Whether to add another chunk: the only one is on a disk, and its rest is short.
    pub fn wants_another(&self) -> bool {
        let only = self.ranges.front().filter(|_| self.ranges.len() == 1);
        only.is_some_and(|range| !range.plan.cached && range.may_be_early() && range.left() < READ_AHEAD_BYTES)
    }

    /// The next frame of the first chunk; `None` after the last one.
    pub fn next(&mut self) -> Option<FinishedIo<u64>> {
        self.advise();
        let Self { frame_bytes, engines, free, ranges, tags, .. } = self;
        let first = ranges.front_mut()?;
        if first.frames.is_empty() && first.left() > 0 {
            first.ask(engines, free, *frame_bytes, tags);
        }
        self.fill();
        while self.ranges.front()?.frames.front()?.1.is_none() {
            self.take_one()?;
        }
        let (_, finished) = self.ranges.front_mut()?.frames.pop_front()?;
        self.fill();
        finished
    }

    /// Removes the first chunk, read to its end or not, after a wait for its requests in flight.
    pub fn finish(&mut self) -> Option<ReadRange> {
        let is_under_way = |range: &ReadRange| range.frames.iter().any(|(_, finished)| finished.is_none());
        while self.first().is_some_and(is_under_way) && self.take_one().is_some() {}
        let mut range = self.ranges.pop_front()?;
        self.free.extend(range.frames.drain(..).filter_map(|(_, finished)| Some(finished?.request.buffer)));
        Some(range)
    }

    /// A free buffer.
    pub fn buffer(&mut self) -> FrameBuffer {
        let mut buffer = self.free.pop().unwrap_or_else(|| FrameBuffer::with_capacity(self.frame_bytes));
        buffer.set_map(None);
        buffer
    }

    /// Takes a buffer back.
    pub fn give_back(&mut self, buffer: FrameBuffer) {
        self.free.push(buffer);
    }

    /// Advises the kernel to read the next bytes.
    fn advise(&mut self) {
        self.find_lead();
        let lead = self.lead;
        let mut room = READ_AHEAD_BYTES;
        for (place, range) in self.ranges.iter_mut().enumerate() {
            if place > 0 && !range.may_be_early() {
                return;
            }
            let lead = lead.filter(|lead| lead.device == range.file.device());
            let needs_none = range.is_led() && lead.map_or(range.can_measure_readahead(), |lead| lead.is_far);
            if range.is_advised() && !needs_none {
                range.advise_to(range.end.min(range.next.saturating_add(room)));
            }
            room = room.saturating_sub(range.left());
        }
    }

    /// Measures the kernel's read-ahead, once per device, after enough of a chunk.
    fn find_lead(&mut self) {
        let Some(range) = self.ranges.front() else { return };
        let device = range.file.device();
        let is_known = self.lead.is_some_and(|lead| lead.device == device);
        if !is_known && range.is_led() && range.can_measure_readahead() && range.next - range.start >= LEAD_FOUND_AT {
            let ahead = cached_bytes(&**range.file.fd(), range.next, LEAD_BYTES);
            let is_far = ahead.is_some_and(|ahead| ahead >= LEAD_BYTES / 4 * 3);
            self.lead = Some(KernelReadahead { device, is_far });
        }
    }

    /// Requests frames with O_DIRECT, up to the useful number in flight.
    fn fill(&mut self) {
        let Self { frame_bytes, engines, free, ranges, tags, .. } = self;
        if ranges.iter().all(|range| range.plan.method == IoMethod::Buffered) {
            return;
        }
        // Without a ring, each request would block.
        let depth = Some(engines.depth(IoMethod::Direct)).filter(|depth| *depth > 1).unwrap_or(0);
        let asked: usize = ranges.iter().map(|range| range.frames.len()).sum();
        let mut room = depth.saturating_sub(asked);
        for (place, range) in ranges.iter_mut().enumerate() {
            if place > 0 && !range.may_be_early() {
                return;
            }
            while range.left() > 0 {
                if range.plan.method == IoMethod::Buffered || room == 0 {
                    return;
                }
                range.ask(engines, free, *frame_bytes, tags);
                room -= 1;
            }
        }
    }

    /// Waits for a frame of any chunk; `None` if none is in flight.
    fn take_one(&mut self) -> Option<()> {
        let finished = self.engines.finished(true)?;
        let tag = finished.request.tag;
        let mut frames = self.ranges.iter_mut().flat_map(|range| &mut range.frames);
        if let Some((_, waits)) = frames.find(|(asked, _)| *asked == tag) {
            *waits = Some(finished);
        }
        Some(())
    }
}

#[cfg(test)]
#[path = "readahead_tests.rs"]
mod tests;
