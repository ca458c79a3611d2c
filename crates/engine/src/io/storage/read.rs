//! A stream's reads: the frames of a chunk in order, each in its own buffer. [`crate::io::storage::readahead`] reads
//! ahead of them.

use haul_base::sys::sync::lock;
use haul_proto::wire::resource_metrics::Stage;
use std::io;
use std::sync::Arc;

use super::cache::drop_pages;
use super::calls::read_at;
use super::file::OpenedFile;
use super::meter::IoMeter;
use super::policy::IoPlan;
use super::{FinishedIo, IoMethod, is_refusal};
use crate::io::frame_buffer::FrameBuffer;
use crate::io::storage::readahead::{ReadRange, Readahead};
use crate::metrics::stage_timer::during;

/// Reads for one stream.
pub struct FrameReader {
    frame_bytes: usize,
    ahead: Readahead,
    /// Cost of the first chunk, where it is to be reported.
    meter: IoMeter,
    /// Bytes that came past the page cache.
    direct_bytes: u64,
}

impl FrameReader {
    /// A reader for frames of up to `frame_bytes`, a multiple of [`super::ALIGNMENT`], with up to `depth` direct reads
    /// in flight.
    pub fn new(frame_bytes: usize, depth: usize) -> Self {
        Self { frame_bytes, ahead: Readahead::new(frame_bytes, depth), meter: IoMeter::default(), direct_bytes: 0 }
    }

    /// The same; with `fills_holes` it reports no holes.
    pub fn filling_holes(mut self, fills_holes: bool) -> Self {
        self.ahead.fills_holes = fills_holes;
        self
    }

    /// Adds a piece of a file, from `start` to `end`. It is read when those before it were.
    pub fn add(&mut self, file: Arc<OpenedFile>, plan: IoPlan, start: u64, end: u64) {
        let Self { ahead, meter, .. } = self;
        if ahead.first().is_none() {
            meter.reset(plan.trial.is_some());
        }
        during(Stage::Read, || meter.time(|| ahead.add(ReadRange::new(file, plan, start, end))));
    }

    /// Whether to add the next chunk already, so that the disk stays busy.
    pub fn wants_another(&self) -> bool {
        self.ahead.wants_another()
    }

    /// The next frame of the first piece; its payload is shorter than the frame where the file ends too early. `None`
    /// behind the last one.
    pub fn next(&mut self) -> Option<io::Result<FrameBuffer>> {
        during(Stage::Read, || self.read_next())
    }

    fn read_next(&mut self) -> Option<io::Result<FrameBuffer>> {
        let Self { frame_bytes, ahead, meter, direct_bytes } = self;
        let finished = meter.time(|| ahead.next())?;
        let range = ahead.first()?;
        let len = range.frame_len(finished.request.offset, *frame_bytes);
        if let (IoMethod::Direct, Ok(read)) = (range.plan.method, &finished.result) {
            *direct_bytes += (*read).min(len) as u64;
        }
        let read = meter.time(|| whole(range, finished, len));
        meter.count(len as u64);
        Some(read)
    }

    /// Bytes that came past the page cache since this was last asked.
    pub fn take_direct_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.direct_bytes)
    }

    /// Takes a buffer back.
    pub fn give_back(&mut self, buffer: FrameBuffer) {
        self.ahead.give_back(buffer);
    }

    /// A buffer for something else than frames; to be given back.
    pub fn buffer(&mut self) -> FrameBuffer {
        self.ahead.buffer()
    }

    /// The first piece was read to its end.
    pub fn end(&mut self) {
        let Some(ReadRange { file, plan, start, end, .. }) = self.ahead.finish() else { return };
        if plan.drop {
            during(Stage::Read, || self.meter.time(|| drop_pages(&**file.fd(), start, end - start)));
        }
        if let Some(trial) = plan.trial {
            lock(&trial).cost(plan.method, self.meter.cost());
        }
        self.take_turn();
    }

    /// Skips the rest of the first chunk.
    pub fn give_up(&mut self) {
        self.ahead.finish();
        self.take_turn();
    }

    /// The piece that is first now is measured if that is wanted.
    fn take_turn(&mut self) {
        self.meter.reset(self.ahead.first().is_some_and(|range| range.plan.trial.is_some()));
    }
}

/// Reads through the page cache what a request did not bring: the kernel may read less than it was asked for, and a
/// file system that opens a file for direct I/O may yet refuse it.
fn whole(range: &ReadRange, finished: FinishedIo<u64>, len: usize) -> io::Result<FrameBuffer> {
    let FinishedIo { request, result } = finished;
    let mut buffer = request.buffer;
    let read = match result {
        Ok(read) => read.min(len),
        Err(error) if range.plan.method == IoMethod::Direct && is_refusal(&error) => {
            range.plan.trial.iter().for_each(|trial| lock(trial).refuse());
            0
        }
        Err(error) => return Err(error),
    };
    let rest = read_at(&**range.file.fd(), &mut buffer.room_mut()[read..len], request.offset + read as u64)?;
    buffer.set_payload_len(read + rest);
    Ok(buffer)
}
