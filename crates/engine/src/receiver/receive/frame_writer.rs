//! Writes of one stream. A buffered write of a frame is complete when the call returns. With O_DIRECT, writes are in
//! flight while the stream receives into another buffer, and the session learns of a frame once the disk has it.

use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use haul_base::sys::sync::lock;
use haul_proto::wire::frame::DataFrame;
use haul_proto::wire::resource_metrics::Stage;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::io::frame_buffer::FrameBuffer;
use crate::io::storage::calls::write_at;
use crate::io::storage::file::OpenedFile;
use crate::io::storage::io_method_probe::{IoMethodProbe, RUN_BYTES};
use crate::io::storage::meter::IoMeter;
use crate::io::storage::policy::IoPlan;
use crate::io::storage::{ALIGNMENT, FileAccess, FinishedIo, IoMethod, IoRequest, StreamStorage, is_refusal};
use crate::metrics::counter::add;
use crate::metrics::stage_timer::during;
use crate::receiver::entry::{ReceiverEntry, WrittenFrame};
use crate::receiver::file::ReceivingFile;
use crate::receiver::parts::ReceiverParts;
use crate::receiver::place::error::FileError;

/// The writer of one stream.
pub struct FrameWriter {
    pub(super) parts: Arc<ReceiverParts>,
    engines: StreamStorage<PendingWrite>,
    depth: usize,
    free: Vec<FrameBuffer>,
    /// Number of allocated buffers: at most the queue depth.
    made: usize,
    frame_bytes: usize,
    run: Option<WriteRun>,
    meter: IoMeter,
    /// Buffer for rebuilt frames, once needed.
    pub spare: Option<FrameBuffer>,
    taken: StreamBuffers,
    /// Ended writes, not reported yet.
    written: VecDeque<WrittenFrame>,
    /// The file whose queued frames this stream writes in order.
    pub(super) in_order: Option<Arc<ReceiverEntry>>,
}

/// Most bytes of buffers for direct writes, over all streams of a target. A stream without a share waits for each
/// write.
const BUFFERS_BYTES_MAX: usize = 48 << 20;

/// Buffer memory in use by all streams of a target.
#[derive(Clone, Default)]
pub struct WriteBuffers(Arc<AtomicUsize>);

/// One stream's share of it.
#[derive(Default)]
struct StreamBuffers {
    all: WriteBuffers,
    bytes: usize,
}

impl StreamBuffers {
    /// Reserves one more buffer, if there is room.
    fn reserve(&mut self, bytes: usize) -> bool {
        let more = |all: usize| Some(all + bytes).filter(|all| *all <= BUFFERS_BYTES_MAX);
        let taken = self.all.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        self.bytes += if taken { bytes } else { 0 };
        taken
    }
}

impl Drop for StreamBuffers {
    fn drop(&mut self) {
        self.all.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A write in flight.
struct PendingWrite {
    item: Arc<ReceiverEntry>,
    file: Arc<OpenedFile>,
    frame: DataFrame,
}

/// Consecutive frames written by one method, to measure its cost.
struct WriteRun {
    file: Arc<OpenedFile>,
    trial: Arc<Mutex<IoMethodProbe>>,
    method: IoMethod,
    drop: bool,
    left: u64,
    ranges: Vec<(u64, u64)>,
}

impl FrameWriter {
    /// The writer of one more stream.
    pub(super) fn new(parts: &Arc<ReceiverParts>, buffers: &WriteBuffers) -> Self {
        let frame_bytes = parts.copy.request.settings.frame.bytes();
        let depth = parts.copy.policy.depth(frame_bytes);
        Self {
            parts: Arc::clone(parts),
            engines: StreamStorage::new(depth),
            depth,
            free: Vec::new(),
            made: 0,
            frame_bytes,
            run: None,
            meter: IoMeter::default(),
            spare: None,
            taken: StreamBuffers { all: buffers.clone(), bytes: 0 },
            written: VecDeque::new(),
            in_order: None,
        }
    }

    /// Writes a verified frame. Returns a free buffer.
    pub fn write(&mut self, item: &Arc<ReceiverEntry>, frame: &DataFrame, buffer: FrameBuffer) -> FrameBuffer {
        let ReceiverEntry::File(file) = &**item else { return buffer };
        let opened = match file.open_once(&self.parts.tree.temp_files, &self.parts.tree.copy_locks) {
            Ok(opened) => opened,
            Err(error) => {
                self.complete(item, frame, buffer.payload().len(), Err(error));
                return buffer;
            }
        };
        let len = buffer.payload().len();
        if let (Some(map), Some(named)) = (buffer.map(), file.with_holes()) {
            let write = || named.write_sparse(&opened, buffer.payload(), frame.offset, file.size(), map);
            let written = during(Stage::Write, write);
            self.complete_partly(item, frame, len, written.map_err(FileError::from));
            return buffer;
        }
        let plan = self.plan_write(file, &opened, frame.offset, len as u64);
        if plan.method == IoMethod::Direct && len >= ALIGNMENT {
            return self.write_direct(item, &opened, frame, buffer);
        }
        let write = || file.write_frame(&opened, buffer.payload(), frame.offset, &plan);
        let written = during(Stage::Write, || self.meter.time(write));
        self.complete(item, frame, len, written.map_err(FileError::from));
        buffer
    }

    /// Writes these parts of a rebuilt frame: its file shares the others with the base file.
    pub fn write_parts(&mut self, item: &Arc<ReceiverEntry>, frame: &DataFrame, bytes: &[u8], parts: &[Range<usize>]) {
        let ReceiverEntry::File(file) = &**item else { return };
        let write = |opened: Arc<OpenedFile>| match file.named() {
            Some(named) => Ok(named.write_parts(&opened, bytes, frame.offset, file.size(), parts)?),
            None => Err(FileError::IsDirectory),
        };
        let opened = file.open_once(&self.parts.tree.temp_files, &self.parts.tree.copy_locks);
        let written = during(Stage::Write, || opened.and_then(write));
        self.complete_partly(item, frame, bytes.len(), written);
    }

    /// Waits for all writes in flight.
    pub fn drain(&mut self) {
        while self.take_one(true) {}
    }

    /// Waits until `socket` is readable, or a write is complete: the peer may wait for its acknowledgement before it
    /// sends more. Returns whether the socket is to be read now.
    pub fn wait_for(&mut self, socket: BorrowedFd<'_>) -> bool {
        while self.engines.under_way() > 0 {
            if self.take_one(false) {
                return false;
            }
            let Some(ready) = self.engines.readiness() else {
                self.drain();
                return true;
            };
            let mut watched = [PollFd::new(&socket, PollFlags::IN), PollFd::new(&ready, PollFlags::IN)];
            match during(Stage::Receive, || poll(&mut watched, None)) {
                Ok(_) if !watched[0].revents().is_empty() => return true,
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => {
                    self.drain();
                    return true;
                }
            }
        }
        true
    }

    /// The next ended write: one that is complete, or failed.
    pub fn next_written(&mut self) -> Option<WrittenFrame> {
        self.written.pop_front().or_else(|| self.write_in_order())
    }

    /// Adds a write that has ended elsewhere.
    pub(super) fn add_written(&mut self, written: WrittenFrame) {
        self.written.push_back(written);
    }

    /// Ends a frame that cannot be written.
    pub(super) fn fail(&mut self, item: &Arc<ReceiverEntry>, frame: &DataFrame, error: FileError) {
        self.complete(item, frame, 0, Err(error));
    }

    fn complete(&mut self, item: &Arc<ReceiverEntry>, frame: &DataFrame, len: usize, result: Result<(), FileError>) {
        self.complete_partly(item, frame, len, result.map(|()| len as u64));
    }

    /// Ends a frame with the number of its bytes that had to be written.
    fn complete_partly(
        &mut self,
        item: &Arc<ReceiverEntry>,
        frame: &DataFrame,
        len: usize,
        result: Result<u64, FileError>,
    ) {
        self.add_written(WrittenFrame { item: Arc::clone(item), frame: frame.clone(), len, result });
    }

    /// The write method of a frame: that of its run, or by policy.
    fn plan_write(&mut self, file: &ReceivingFile, opened: &Arc<OpenedFile>, offset: u64, len: u64) -> IoPlan {
        if file.is_open_ended() {
            // A file is allocated before direct writes, while no other thread uses it.
            return IoPlan::by(IoMethod::Buffered);
        }
        if let Some(run) = self.run.as_mut().filter(|run| run.left > 0 && Arc::ptr_eq(&run.file, opened)) {
            run.left = run.left.saturating_sub(len);
            run.ranges.push((offset, len));
            self.meter.count(len);
            return IoPlan { drop: run.drop, ..IoPlan::by(run.method) };
        }
        self.end_run();
        let plan = self.parts.copy.policy.writing(opened, file.size(), RUN_BYTES);
        if plan.method == IoMethod::Buffered && file.named().is_some() && self.parts.copy.policy.is_refusal_news() {
            self.parts.copy.report_refusal(file);
        }
        if let Some(trial) = &plan.trial {
            self.meter.reset(true);
            self.meter.count(len);
            let (file, trial) = (Arc::clone(opened), Arc::clone(trial));
            let (left, ranges) = (RUN_BYTES.saturating_sub(len), vec![(offset, len)]);
            self.run = Some(WriteRun { file, trial, method: plan.method, drop: plan.drop, left, ranges });
        }
        plan
    }

    /// Ends a run once the disk has all of its data: only then are both methods comparable.
    fn end_run(&mut self) {
        let Some(run) = self.run.take() else { return };
        match run.method {
            IoMethod::Direct => self.drain(),
            IoMethod::Buffered => {
                let write_back = || run.ranges.iter().for_each(|&(offset, len)| run.file.await_write_back(offset, len));
                during(Stage::Write, || self.meter.time(write_back));
            }
        }
        lock(&run.trial).cost(run.method, self.meter.cost());
        self.meter.reset(false);
    }

    /// Writes a frame's whole blocks with O_DIRECT. The rest of the file's last block goes through the page cache.
    fn write_direct(
        &mut self,
        item: &Arc<ReceiverEntry>,
        opened: &Arc<OpenedFile>,
        frame: &DataFrame,
        buffer: FrameBuffer,
    ) -> FrameBuffer {
        let ReceiverEntry::File(file) = &**item else { return buffer };
        let payload = buffer.payload();
        let blocks = payload.len() / ALIGNMENT * ALIGNMENT;
        let tail_at = frame.offset + blocks as u64;
        let begin = || file.make_room(opened).and_then(|()| write_at(&**opened.fd(), &payload[blocks..], tail_at));
        let begun = during(Stage::Write, begin);
        let direct = match (begun, opened.direct()) {
            (Ok(()), Some(direct)) => Arc::clone(direct),
            (Ok(()), None) => Arc::clone(opened.fd()),
            (Err(error), _) => {
                self.complete(item, frame, payload.len(), Err(error.into()));
                return buffer;
            }
        };
        while self.engines.under_way() >= self.depth {
            self.take_one(true);
        }
        let tag = PendingWrite { item: Arc::clone(item), file: Arc::clone(opened), frame: frame.clone() };
        let offset = frame.offset;
        let request = IoRequest { access: FileAccess::Write, file: direct, buffer, len: blocks, offset, tag };
        during(Stage::Write, || self.meter.time(|| self.engines.submit(IoMethod::Direct, request)));
        self.free_buffer()
    }

    fn free_buffer(&mut self) -> FrameBuffer {
        while self.take_one(false) {}
        loop {
            if let Some(buffer) = self.free.pop() {
                return buffer;
            }
            let is_first = self.engines.under_way() == 0;
            if is_first || self.made < self.depth && self.taken.reserve(self.frame_bytes) {
                self.made += 1;
                return FrameBuffer::with_capacity(self.frame_bytes);
            }
            self.take_one(true);
        }
    }

    /// Reports one completed write. `false` if there is none.
    fn take_one(&mut self, wait: bool) -> bool {
        let finished = during(Stage::Write, || self.meter.time(|| self.engines.finished(wait)));
        let Some(FinishedIo { request, result }) = finished else { return false };
        let IoRequest { mut buffer, len, offset, tag, .. } = request;
        let PendingWrite { item, file, frame } = tag;
        let blocks = &buffer.room_mut()[..len];
        let written = match result {
            Ok(written) => {
                add(&self.parts.copy.reporter.tally.bytes_direct, written as u64);
                write_at(&**file.fd(), &blocks[written.min(len)..], offset + written as u64)
            }
            Err(error) if is_refusal(&error) => {
                lock(&self.parts.copy.policy.trial(&file)).refuse();
                write_at(&**file.fd(), blocks, offset)
            }
            Err(error) => Err(error),
        };
        let payload_len = buffer.payload().len();
        self.free.push(buffer);
        self.complete(&item, &frame, payload_len, written.map_err(FileError::from));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_streams_share_the_room_for_buffers() {
        let all = WriteBuffers::default();
        let stream = || StreamBuffers { all: all.clone(), bytes: 0 };
        let (mut first, mut second) = (stream(), stream());
        assert!(first.reserve(BUFFERS_BYTES_MAX / 2) && second.reserve(BUFFERS_BYTES_MAX / 2));
        assert!(!first.reserve(1) && !second.reserve(1));
        drop(first);
        assert!(second.reserve(BUFFERS_BYTES_MAX / 2) && !second.reserve(1));
    }
}
