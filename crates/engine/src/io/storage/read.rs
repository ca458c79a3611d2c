//! A stream's reads: the frames of a chunk in order, each in its own buffer. [`crate::io::storage::readahead`] reads
//! ahead of them.

use std::io;
use std::sync::Arc;

use haul_base::sys::sync::lock;
use haul_proto::wire::resource_metrics::Stage;

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
    /// Cost of the first chunk, if requested.
    meter: IoMeter,
    /// Bytes read with direct I/O.
    direct_bytes: u64,
}

impl FrameReader {
    /// A reader for frames of up to `frame_bytes`, a multiple of [`super::ALIGNMENT`], with up to `depth` direct reads
    /// in flight.
    pub fn new(frame_bytes: usize, depth: usize) -> Self {
        Self { frame_bytes, ahead: Readahead::new(frame_bytes, depth), meter: IoMeter::default(), direct_bytes: 0 }
    }

    /// Sets whether holes are read as data.
    pub fn filling_holes(mut self, fills_holes: bool) -> Self {
        self.ahead.fills_holes = fills_holes;
        self
    }

    /// Adds a chunk of a file, from `start` to `end` after its first byte, to be read after those before it.
    pub fn add(&mut self, file: Arc<OpenedFile>, plan: IoPlan, start: u64, end: u64) {
        let Self { ahead, meter, .. } = self;
        let (start, end) = (file.begins().saturating_add(start), file.begins().saturating_add(end));
        if ahead.first().is_none() {
            meter.reset(plan.trial.is_some());
        }
        during(Stage::Read, || meter.time(|| ahead.add(ReadRange::new(file, plan, start, end))));
    }

    /// Whether to add the next chunk, so that the disk stays busy.
    pub fn wants_another(&self) -> bool {
        self.ahead.wants_another()
    }

    /// The next frame of the first chunk; its payload is short if the file ends early. `None` after the last one.
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

    /// Returns the bytes read with direct I/O since the last call.
    pub fn take_direct_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.direct_bytes)
    }

    /// Takes a buffer back.
    pub fn give_back(&mut self, buffer: FrameBuffer) {
        self.ahead.give_back(buffer);
    }

    /// A buffer for other data than frames, to be returned.
    pub fn buffer(&mut self) -> FrameBuffer {
        self.ahead.buffer()
    }

    /// Ends the first chunk.
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

    /// Starts the measurement of the new first chunk, if requested.
    fn take_turn(&mut self) {
        self.meter.reset(self.ahead.first().is_some_and(|range| range.plan.trial.is_some()));
    }
}

/// Completes a short read with buffered I/O: the kernel may read less than requested, and a file system may refuse
/// direct I/O after the open.
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
