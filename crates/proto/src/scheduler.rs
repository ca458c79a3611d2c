//! The scheduler turns wanted files into work. Any stream takes the next chunk, so a slow stream delays nothing. All
//! streams share the last large file, in chunks that shrink towards its end. Streams spread over the source's devices.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::delta::blocks::BlockHash;
use crate::delta::rolling::SignatureIndex;
use crate::ids::{EntryId, EntrySet, StreamId};
use crate::integrity::{Digest, FrameLen};
use crate::limits::{LARGE_IN_FLIGHT_MAX, PACK_FILES_MAX};

/// Most frames in one chunk.
pub const CHUNK_FRAMES_MAX: u64 = 16;
/// Frames in a stream's first chunk, while its rate is unknown.
const FIRST_CHUNK_FRAMES: u64 = 4;
/// Intended duration of a chunk.
const CHUNK_TIME: Duration = Duration::from_millis(250);

/// Next work item of a stream.
#[derive(Debug)]
pub enum WorkItem<H> {
    /// Send these frames of one file.
    Frames(Chunk<H>),
    /// Send these small files in one pack.
    Pack(Vec<SmallFile<H>>),
    /// Read and send the next frame of a flow.
    Next(FlowFrame<H>),
    /// Retransmit this frame of a flow from memory.
    Kept(FlowFrame<H>),
    /// Read these frames, compare them with the target's BLAKE3 values and send those that differ.
    Compare(Chunk<H>, Vec<Digest>),
    /// A base file exists for this file: send the parts missing from it.
    Delta(Chunk<H>, DeltaBase),
}

/// Known hashes of a base file.
#[derive(Debug, Clone)]
pub enum DeltaBase {
    /// Block hashes at the offsets of the chunk's frames, one for each block.
    Marks(Vec<BlockHash>),
    /// Rolling signatures of all blocks.
    Sums(Arc<SignatureIndex>),
}

/// A run of frames of one file.
#[derive(Debug)]
pub struct Chunk<H> {
    /// The file.
    pub entry: EntryId,
    /// The engine's handle.
    pub handle: Arc<H>,
    /// Size of the whole file in bytes.
    pub size: u64,
    /// Indices of the frames.
    pub frames: Range<u64>,
    /// Ticket for [`Scheduler::done`]; 0 where no call is necessary.
    pub ticket: u64,
}

impl<H> Clone for Chunk<H> {
    fn clone(&self) -> Self {
        Self { handle: Arc::clone(&self.handle), frames: self.frames.clone(), ..*self }
    }
}

/// A frame of a sequential input that can be read only once.
#[derive(Debug)]
pub struct FlowFrame<H> {
    /// The flow.
    pub entry: EntryId,
    /// The engine's handle.
    pub handle: Arc<H>,
    /// Index of the frame.
    pub index: u64,
}

impl<H> Chunk<H> {
    /// Splits off the first chunk for one of `streams` streams: at most `frames_max` frames, and fewer towards the end.
    pub fn split(&mut self, streams: u64, frames_max: u64) -> Self {
        let left = self.frames.end - self.frames.start;
        let share = (left / (2 * streams)).clamp(1, frames_max.clamp(1, CHUNK_FRAMES_MAX)).min(left);
        let start = self.frames.start;
        self.frames.start += share;
        Self { frames: start..start + share, ..self.clone() }
    }
}

/// A small file.
#[derive(Debug)]
pub struct SmallFile<H> {
    /// The file.
    pub entry: EntryId,
    /// The engine's handle.
    pub handle: Arc<H>,
    /// Size in bytes when it was offered.
    pub size: u64,
}

/// Chunk length of a stream: the data of about a quarter of a second, so that the last chunks finish nearly together.
#[derive(Debug, Clone, Copy)]
pub struct ChunkSizer {
    frames_max: u64,
}

impl Default for ChunkSizer {
    fn default() -> Self {
        Self { frames_max: FIRST_CHUNK_FRAMES }
    }
}

impl ChunkSizer {
    /// Returns the number of frames to take now.
    pub fn frames_max(&self) -> u64 {
        self.frames_max
    }

    /// Records the duration of a chunk.
    pub fn took(&mut self, frames: u64, time: Duration) {
        let per_frame = (time / u32::try_from(frames.max(1)).unwrap_or(u32::MAX)).max(Duration::from_nanos(1));
        let fit = u64::try_from(CHUNK_TIME.as_nanos() / per_frame.as_nanos()).unwrap_or(u64::MAX);
        self.frames_max = fit.clamp(1, CHUNK_FRAMES_MAX);
    }
}

/// Files of one device that no stream has taken in full.
#[derive(Debug)]
struct DeviceQueue<H> {
    small: VecDeque<SmallFile<H>>,
    small_bytes: u64,
    large: VecDeque<Chunk<H>>,
}

impl<H> Default for DeviceQueue<H> {
    fn default() -> Self {
        Self { small: VecDeque::new(), small_bytes: 0, large: VecDeque::new() }
    }
}

impl<H> DeviceQueue<H> {
    fn has_full_pack(&self, frame: FrameLen) -> bool {
        self.small_bytes >= u64::from(frame.get()) || self.small.len() >= PACK_FILES_MAX
    }

    fn take_pack(&mut self, frame: FrameLen) -> Vec<SmallFile<H>> {
        let mut pack = Vec::new();
        let mut bytes = 0;
        while let Some(file) = self.small.front() {
            if pack.len() == PACK_FILES_MAX || bytes + file.size > u64::from(frame.get()) {
                break;
            }
            bytes += file.size;
            pack.extend(self.small.pop_front());
        }
        self.small_bytes -= bytes;
        pack
    }
}

/// The queue of work that no stream has taken yet.
#[derive(Debug)]
pub struct Scheduler<H> {
    frame: FrameLen,
    streams: u64,
    again: VecDeque<Chunk<H>>,
    compare: VecDeque<(Chunk<H>, Vec<Digest>)>,
    /// Number of values in `compare`.
    compare_frames: usize,
    marked: VecDeque<(Chunk<H>, Vec<BlockHash>)>,
    /// New files by device; no queue is empty.
    devices: BTreeMap<u64, DeviceQueue<H>>,
    device_of: fn(&H) -> u64,
    /// The device of each stream's last new work.
    reading: BTreeMap<StreamId, u64>,
    /// Large files with a chunk taken by a stream and not complete.
    in_flight: EntrySet,
    /// Chunks in flight by ticket, oldest first; `None` unless they are tracked.
    out: Option<BTreeMap<u64, Chunk<H>>>,
    tickets: u64,
}

impl<H> Scheduler<H> {
    /// Creates a scheduler for this many streams.
    pub fn new(frame: FrameLen, streams: u16) -> Self {
        Self {
            frame,
            streams: u64::from(streams.max(1)),
            again: VecDeque::new(),
            compare: VecDeque::new(),
            compare_frames: 0,
            marked: VecDeque::new(),
            devices: BTreeMap::new(),
            device_of: |_| 0,
            reading: BTreeMap::new(),
            in_flight: EntrySet::default(),
            out: None,
            tickets: 0,
        }
    }

    /// Spreads streams over devices. `device_of` returns a file's device, from before the first file is added.
    pub fn spread_by(&mut self, device_of: fn(&H) -> u64) {
        self.device_of = device_of;
    }

    fn queue_of(&mut self, handle: &H) -> &mut DeviceQueue<H> {
        self.devices.entry((self.device_of)(handle)).or_default()
    }

    /// Adds a whole file.
    pub fn add(&mut self, entry: EntryId, handle: Arc<H>, size: u64) {
        let is_small = size <= self.frame.pack_file_max();
        let frames = 0..self.frame.frames(size);
        let queue = self.queue_of(&handle);
        if is_small {
            queue.small_bytes += size;
            queue.small.push_back(SmallFile { entry, handle, size });
        } else {
            queue.large.push_back(Chunk { entry, handle, size, frames, ticket: 0 });
        }
    }

    /// Adds frames of a large file, to complete a partial file or to retransmit. They go first if the file is in flight
    /// already.
    pub fn add_frames(&mut self, chunk: Chunk<H>) {
        if self.in_flight.contains(&chunk.entry) {
            self.again.push_back(chunk);
        } else {
            self.queue_of(&chunk.handle).large.push_back(chunk);
        }
    }

    /// Adds frames to compare with the target's copy.
    pub fn add_compare(&mut self, chunk: Chunk<H>, values: Vec<Digest>) {
        self.compare_frames += values.len();
        self.compare.push_back((chunk, values));
    }

    /// Adds frames of a large file with the base file's block hashes at their offsets.
    pub fn add_marked(&mut self, chunk: Chunk<H>, marks: Vec<BlockHash>) {
        self.marked.push_back((chunk, marks));
    }

    /// Returns the number of waiting frames with block hashes.
    pub fn waiting_marked(&self) -> u64 {
        self.marked.iter().map(|(chunk, _)| chunk.frames.end - chunk.frames.start).sum()
    }

    /// Returns the number of files not taken in full by streams, including those that a target gave up meanwhile.
    pub fn waiting(&self) -> usize {
        self.devices.values().map(|queue| queue.small.len() + queue.large.len()).sum()
    }

    /// Whether the queue is empty, including files that may not start yet.
    pub fn is_empty(&self) -> bool {
        self.devices.is_empty() && self.again.is_empty() && self.compare.is_empty() && self.marked.is_empty()
    }

    /// Returns the number of large files that were started and are not complete.
    pub fn begun(&self) -> usize {
        self.in_flight.len()
    }

    /// Returns the number of requested runs of frames that no stream has taken.
    pub fn waiting_runs(&self) -> usize {
        self.again.len() + self.devices.values().map(|queue| queue.large.len()).sum::<usize>()
    }

    /// Returns the number of waiting frames to compare.
    pub fn waiting_compares(&self) -> usize {
        self.compare_frames
    }

    /// Removes the target's hashes of a complete file: frames to compare, and frames with block hashes.
    pub fn forget_target_hashes(&mut self, entry: EntryId) {
        self.marked.retain(|(chunk, _)| chunk.entry != entry);
        self.compare.retain(|(chunk, _)| chunk.entry != entry);
        self.compare_frames = self.compare.iter().map(|(_, values)| values.len()).sum();
    }

    /// Completes a file, so that one more large file may start.
    pub fn complete_file(&mut self, entry: EntryId) {
        self.in_flight.remove(&entry);
    }

    /// Removes all remaining work of a complete large file.
    pub fn forget(&mut self, entry: EntryId) {
        self.complete_file(entry);
        self.again.retain(|chunk| chunk.entry != entry);
        self.forget_target_hashes(entry);
        self.devices.values_mut().for_each(|queue| queue.large.retain(|chunk| chunk.entry != entry));
        self.drop_empty_queues();
    }

    /// Sets the number of streams.
    pub fn set_streams(&mut self, streams: u16) {
        self.streams = u64::from(streams.max(1));
    }

    /// Returns the next work item of a stream, with at most `frames_max` frames.
    ///
    /// New files come from the device that the fewest other streams read. On a device the order is: full packs, large
    /// files. Packs that are not full come last, so that they fill up, and small files do not wait for the end of the
    /// large ones. While [`LARGE_IN_FLIGHT_MAX`] large files are in flight, no other is started; retransmits are not
    /// held up.
    pub fn take_work(&mut self, stream: StreamId, frames_max: u64) -> Option<WorkItem<H>> {
        if let Some(chunk) = self.take_again(frames_max) {
            return Some(WorkItem::Frames(chunk));
        }
        if let Some((chunk, values)) = self.compare.pop_front() {
            self.compare_frames -= values.len();
            return Some(WorkItem::Compare(chunk, values));
        }
        if let Some((chunk, marks)) = self.take_marked() {
            return Some(WorkItem::Delta(chunk, DeltaBase::Marks(marks)));
        }
        let devices = self.devices_for(stream);
        let ready = devices.iter().find_map(|&device| Some((device, self.take_ready(device, frames_max)?)));
        let (device, work) = ready
            .or_else(|| devices.iter().find_map(|&device| Some((device, WorkItem::Pack(self.take_pack(device)?)))))?;
        self.reading.insert(stream, device);
        self.drop_empty_queues();
        Some(work)
    }

    /// Records that a stream reads no device, since it was lost or rests.
    pub fn release(&mut self, stream: StreamId) {
        self.reading.remove(&stream);
    }

    /// Returns the devices with waiting files: those that the fewest other streams read first. Among equals, a stream
    /// keeps its device, so that no work waits behind another device's. A lone stream alternates.
    fn devices_for(&self, stream: StreamId) -> Vec<u64> {
        let mut devices: Vec<u64> = self.devices.keys().copied().collect();
        if devices.len() > 1 {
            devices.sort_by_cached_key(|device| {
                let others = self.reading.iter().filter(|(reader, read)| **reader != stream && *read == device).count();
                let is_own = self.reading.get(&stream) == Some(device);
                (others, is_own == (self.streams == 1))
            });
        }
        devices
    }

    /// Takes a full pack or a chunk of a large file from this device.
    fn take_ready(&mut self, device: u64, frames_max: u64) -> Option<WorkItem<H>> {
        let queue = self.devices.get_mut(&device)?;
        if queue.has_full_pack(self.frame) {
            return Some(WorkItem::Pack(queue.take_pack(self.frame)));
        }
        let chunk = self.take_chunk(device, frames_max)?;
        Some(WorkItem::Frames(self.keep(chunk)))
    }

    fn take_pack(&mut self, device: u64) -> Option<Vec<SmallFile<H>>> {
        let queue = self.devices.get_mut(&device)?;
        (!queue.small.is_empty()).then(|| queue.take_pack(self.frame))
    }

    fn drop_empty_queues(&mut self) {
        self.devices.retain(|_, queue| !(queue.small.is_empty() && queue.large.is_empty()));
    }

    /// Tracks chunks in flight from now on, so that they can be sent twice.
    pub fn track_chunks(&mut self) {
        self.out.get_or_insert_default();
    }

    /// Ends the tracking of a chunk.
    pub fn done(&mut self, ticket: u64) {
        if let Some(out) = &mut self.out {
            out.remove(&ticket);
        }
    }

    /// Returns the oldest chunk in flight for another stream, when there is no other work. Each chunk is sent at most
    /// twice.
    pub fn take_double(&mut self) -> Option<Chunk<H>> {
        let (_, chunk) = self.out.as_mut()?.pop_first()?;
        Some(Chunk { ticket: 0, ..chunk })
    }

    fn keep(&mut self, chunk: Chunk<H>) -> Chunk<H> {
        let Some(out) = &mut self.out else { return chunk };
        self.tickets += 1;
        let chunk = Chunk { ticket: self.tickets, ..chunk };
        out.insert(self.tickets, chunk.clone());
        chunk
    }

    /// Puts this file in flight, if it may be; returns whether it is.
    fn admit_in_flight(&mut self, entry: EntryId) -> bool {
        let may = self.in_flight.contains(&entry) || self.in_flight.len() < LARGE_IN_FLIGHT_MAX;
        if may {
            self.in_flight.insert(entry);
        }
        may
    }

    fn take_marked(&mut self) -> Option<(Chunk<H>, Vec<BlockHash>)> {
        let entry = self.marked.front()?.0.entry;
        if self.admit_in_flight(entry) { self.marked.pop_front() } else { None }
    }

    fn take_chunk(&mut self, device: u64, frames_max: u64) -> Option<Chunk<H>> {
        let entry = self.devices.get(&device)?.large.front()?.entry;
        if !self.admit_in_flight(entry) {
            return None;
        }
        let queue = &mut self.devices.get_mut(&device)?.large;
        let large = queue.front_mut()?;
        let chunk = large.split(self.streams, frames_max);
        if large.frames.is_empty() {
            queue.pop_front();
        }
        Some(chunk)
    }

    fn take_again(&mut self, frames_max: u64) -> Option<Chunk<H>> {
        let rest = self.again.front_mut()?;
        let chunk = rest.split(self.streams, frames_max);
        if rest.frames.is_empty() {
            self.again.pop_front();
        }
        Some(chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranges::RangeSet;

    const F: u64 = 256 << 10;
    const STREAM: StreamId = StreamId(1);

    fn plan(streams: u16) -> Scheduler<()> {
        Scheduler::new(FrameLen::new(256 << 10).unwrap(), streams)
    }

    #[test]
    fn every_frame_is_handed_out_once() {
        let mut plan = plan(8);
        plan.add(EntryId(1), Arc::new(()), 1000 * F + 1);
        let mut seen = RangeSet::new();
        let mut chunks = 0;
        while let Some(WorkItem::Frames(chunk)) = plan.take_work(STREAM, CHUNK_FRAMES_MAX) {
            assert!(chunk.frames.clone().all(|frame| seen.insert(frame)));
            chunks += 1;
        }
        assert_eq!(seen.len(), 1001);
        assert!(chunks > 1001 / CHUNK_FRAMES_MAX + 8, "pieces must shrink towards the end");
    }

    #[test]
    fn a_chunk_takes_a_quarter_of_a_second() {
        let mut chunk_sizer = ChunkSizer::default();
        for (frames, time_ms, fit) in [(4, 100, 10), (10, 20, 16), (16, 8000, 1), (1, 125, 2), (0, 0, 16)] {
            chunk_sizer.took(frames, Duration::from_millis(time_ms));
            assert_eq!(chunk_sizer.frames_max(), fit, "{frames} frames in {time_ms} ms");
        }
    }

    #[test]
    fn a_slow_stream_takes_less_at_a_time() {
        let mut plan = plan(2);
        plan.add(EntryId(1), Arc::new(()), 1000 * F);
        let mut take = |frames_max| match plan.take_work(STREAM, frames_max) {
            Some(WorkItem::Frames(chunk)) => chunk.frames.end - chunk.frames.start,
            other => panic!("{other:?}"),
        };
        assert_eq!([take(0), take(1), take(3), take(u64::MAX)], [1, 1, 3, CHUNK_FRAMES_MAX]);
        plan.set_streams(500);
        assert!(
            matches!(plan.take_work(STREAM, 16), Some(WorkItem::Frames(chunk)) if chunk.frames == (21..22)),
            "shared by more"
        );
    }

    #[test]
    fn another_streams_unfinished_work_is_handed_out_again() {
        let mut plan = plan(2);
        assert!(plan.take_double().is_none(), "nothing is kept unless asked for");
        plan.track_chunks();
        plan.add(EntryId(1), Arc::new(()), 2 * F);
        let mut take = || match plan.take_work(STREAM, 1) {
            Some(WorkItem::Frames(chunk)) => chunk,
            other => panic!("{other:?}"),
        };
        let (first, second) = (take(), take());
        assert!(plan.take_work(STREAM, 1).is_none());
        plan.done(first.ticket);
        let double = plan.take_double().unwrap();
        assert_eq!((double.frames, double.ticket), (second.frames, 0));
        assert!(plan.take_double().is_none(), "twice is enough");
    }

    #[test]
    fn packs_hold_their_limits_and_everything() {
        let mut plan = plan(2);
        for id in 0..2000 {
            plan.add(EntryId(id), Arc::new(()), if id % 2 == 0 { 0 } else { 3000 });
        }
        let mut ids = Vec::new();
        while let Some(WorkItem::Pack(files)) = plan.take_work(STREAM, CHUNK_FRAMES_MAX) {
            assert!(files.len() <= PACK_FILES_MAX && files.iter().map(|file| file.size).sum::<u64>() <= F);
            ids.extend(files.iter().map(|file| file.entry.0));
        }
        assert_eq!(ids, (0..2000).collect::<Vec<_>>());
        assert!(plan.is_empty());
    }

    #[test]
    fn the_number_of_large_files_in_progress_is_bounded() {
        let mut plan = plan(2);
        let most = LARGE_IN_FLIGHT_MAX as u64;
        let one = |id, size| Chunk { entry: EntryId(id), handle: Arc::new(()), size, frames: 0..1, ticket: 0 };
        for id in 0..most + 2 {
            plan.add(EntryId(id), Arc::new(()), F);
        }
        for id in 0..most {
            assert!(
                matches!(plan.take_work(STREAM, CHUNK_FRAMES_MAX), Some(WorkItem::Frames(chunk)) if chunk.entry == EntryId(id))
            );
        }
        assert!(plan.take_work(STREAM, CHUNK_FRAMES_MAX).is_none());
        plan.add_frames(one(0, F));
        assert!(
            matches!(plan.take_work(STREAM, CHUNK_FRAMES_MAX), Some(WorkItem::Frames(chunk)) if chunk.entry == EntryId(0)),
            "sent again"
        );
        plan.add(EntryId(9999), Arc::new(()), 1);
        assert!(
            matches!(plan.take_work(STREAM, CHUNK_FRAMES_MAX), Some(WorkItem::Pack(files)) if files.len() == 1),
            "small files need not wait"
        );
        plan.complete_file(EntryId(9999));
        assert!(plan.take_work(STREAM, CHUNK_FRAMES_MAX).is_none(), "only a large one makes room");
        plan.complete_file(EntryId(7));
        plan.complete_file(EntryId(7));
        assert!(
            matches!(plan.take_work(STREAM, CHUNK_FRAMES_MAX), Some(WorkItem::Frames(chunk)) if chunk.entry == EntryId(most))
        );
        assert!(plan.take_work(STREAM, CHUNK_FRAMES_MAX).is_none(), "one for one");
        plan.forget(EntryId(most));
        assert!(
            matches!(plan.take_work(STREAM, CHUNK_FRAMES_MAX), Some(WorkItem::Frames(chunk)) if chunk.entry == EntryId(most + 1))
        );
    }

    #[test]
    fn a_started_file_continues_at_the_limit() {
        let mut plan = plan(8);
        for id in 0..LARGE_IN_FLIGHT_MAX as u64 - 1 {
            plan.add(EntryId(id), Arc::new(()), F);
        }
        plan.add(EntryId(1000), Arc::new(()), 500 * F);
        let mut frames = 0;
        while let Some(WorkItem::Frames(chunk)) = plan.take_work(STREAM, CHUNK_FRAMES_MAX) {
            frames += chunk.frames.end - chunk.frames.start;
        }
        assert_eq!(frames, LARGE_IN_FLIGHT_MAX as u64 - 1 + 500, "all streams share the last one");
    }

    #[test]
    fn resends_come_first_and_failed_files_never_return() {
        let mut plan = plan(2);
        let frames = |frames| Chunk { entry: EntryId(2), handle: Arc::new(()), size: 99 * F, frames, ticket: 0 };
        let next = |plan: &mut Scheduler<()>| match plan.take_work(STREAM, CHUNK_FRAMES_MAX) {
            Some(WorkItem::Frames(chunk)) => chunk.frames,
            other => panic!("{other:?}"),
        };
        plan.add(EntryId(1), Arc::new(()), 10);
        plan.add_frames(frames(0..1));
        assert_eq!(next(&mut plan), 0..1, "a part of a file that is not under way is a file like any other");
        plan.add_frames(frames(4..12));
        plan.add(EntryId(3), Arc::new(()), 9 * F);
        assert_eq!([next(&mut plan), next(&mut plan)], [4..6, 6..7], "shared as any other");
        plan.forget(EntryId(2));
        plan.forget(EntryId(3));
        plan.add_compare(frames(0..1), vec![[0; 32]]);
        assert!(matches!(plan.take_work(STREAM, 1), Some(WorkItem::Compare(..))));
        assert!(
            matches!(plan.take_work(STREAM, CHUNK_FRAMES_MAX), Some(WorkItem::Pack(files)) if files[0].entry == EntryId(1))
        );
        assert!(plan.take_work(STREAM, CHUNK_FRAMES_MAX).is_none());
    }

    #[test]
    fn streams_spread_over_devices() {
        let mut plan = Scheduler::new(FrameLen::new(256 << 10).unwrap(), 4);
        plan.spread_by(|device: &u64| *device);
        for (id, device) in [(0, 1), (1, 1), (2, 2)] {
            plan.add(EntryId(id), Arc::new(device), 400 * F);
        }
        let mut device = |stream| match plan.take_work(StreamId(stream), 1) {
            Some(WorkItem::Frames(chunk)) => *chunk.handle,
            other => panic!("{other:?}"),
        };
        assert_eq!([0, 1, 2, 3].map(&mut device), [1, 2, 1, 2], "each device has two streams");
        assert_eq!([1, 3, 1, 3].map(&mut device), [2, 2, 2, 2], "a stream stays where fewer others read");
        assert_eq!([0, 0].map(&mut device), [1, 1]);
    }

    #[test]
    fn one_stream_reads_devices_in_turn_until_one_is_done() {
        let mut plan = Scheduler::new(FrameLen::new(256 << 10).unwrap(), 1);
        plan.spread_by(|device: &u64| *device);
        plan.add(EntryId(0), Arc::new(1), 2 * F);
        plan.add(EntryId(1), Arc::new(2), 3 * F);
        plan.add(EntryId(2), Arc::new(3), 1);
        let mut devices = Vec::new();
        while let Some(work) = plan.take_work(STREAM, 1) {
            devices.push(match work {
                WorkItem::Frames(chunk) => *chunk.handle,
                WorkItem::Pack(files) => *files[0].handle,
                other => panic!("{other:?}"),
            });
        }
        assert_eq!(devices, [1, 2, 1, 2, 2, 3], "a pack that is not full goes last");
        assert!(plan.is_empty());
    }
}
