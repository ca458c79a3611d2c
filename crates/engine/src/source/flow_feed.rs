//! The input of a flow, and its frames that the target has not yet acknowledged. Streams take turns to read frames in
//! order; all further work on frames is parallel.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{io, thread};

use haul_base::sys::sync::lock;
use haul_proto::entry::Timestamp;
use haul_proto::integrity::FrameLen;
use rustix::fs::{FileType, fstat, tell};
use rustix::pipe::fcntl_setpipe_size;

use crate::fs::FileStat;
use crate::io::program::PipeProgram;
use crate::io::storage::PIPE_BYTES;
use crate::io::storage::calls::{read_at, read_on};
use crate::source::path::SourceFileError;

/// Poll interval for a growing file.
const CHECK_EVERY: Duration = Duration::from_millis(100);

/// A pipe, and the program started by haul that writes to it, if any.
pub struct FlowPipe {
    fd: OwnedFd,
    program: Option<Arc<PipeProgram>>,
    /// Start offset in a seekable file or block device; `None` for a pipe.
    begins: Option<u64>,
    /// For a growing file: the time without growth after which it has ended.
    quiet: Option<Duration>,
}

impl FlowPipe {
    /// Wraps an open descriptor.
    pub fn new(fd: OwnedFd, program: Option<Arc<PipeProgram>>) -> Self {
        // Fails if it is not a pipe, or at the user's limit of pipe memory.
        let _ = fcntl_setpipe_size(&fd, PIPE_BYTES);
        let kind = fstat(&fd).map(|stat| FileType::from_raw_mode(stat.st_mode));
        let is_seekable = kind.is_ok_and(|kind| matches!(kind, FileType::RegularFile | FileType::BlockDevice));
        let begins = if is_seekable { tell(&fd).ok() } else { None };
        Self { fd, program, begins, quiet: None }
    }

    /// Follows a growing file.
    pub fn following(file: OwnedFd, quiet: Duration) -> Self {
        Self { quiet: Some(quiet), ..Self::new(file, None) }
    }

    /// Whether it follows a growing file.
    pub fn is_followed(&self) -> bool {
        self.quiet.is_some()
    }

    /// Fills `room` until end of file.
    fn read(&self, room: &mut [u8], goes_on: &impl Fn() -> bool) -> Result<usize, SourceFileError> {
        let mut len = read_on(&self.fd, room, goes_on)?;
        let Some(quiet) = self.quiet else { return Ok(len) };
        let mut since = Instant::now();
        while len < room.len() && since.elapsed() < quiet {
            if !goes_on() {
                return Err(SourceFileError::Stopped);
            }
            thread::sleep(CHECK_EVERY.min(quiet));
            let more = read_on(&self.fd, &mut room[len..], goes_on)?;
            len += more;
            if more > 0 {
                since = Instant::now();
            } else if FileStat::at_fd(&self.fd)?.size < tell(&self.fd).map_err(io::Error::from)? {
                return Err(SourceFileError::Truncated);
            }
        }
        Ok(len)
    }
}

/// The input of a flow.
pub struct FlowFeed {
    /// A pipe; `None` for a file, which its reader provides.
    pipe: Option<Arc<FlowPipe>>,
    /// A byte read ahead to detect whether the first frame is the only one.
    peeked: Mutex<Option<u8>>,
    kept: Mutex<ResendBuffer>,
}

/// Frames kept for retransmission.
#[derive(Default)]
struct ResendBuffer {
    frames: BTreeMap<u64, ResendFrame>,
    /// Buffers of dropped frames.
    free: Vec<Vec<u8>>,
}

impl ResendBuffer {
    /// Drops the frames before `written`. Returns the most recently used free buffer, which is still in the CPU's
    /// cache.
    fn room(&mut self, written: u64) -> Vec<u8> {
        let rest = self.frames.split_off(&written);
        let done = std::mem::replace(&mut self.frames, rest);
        self.free.extend(done.into_values().map(|frame| frame.bytes));
        self.free.pop().unwrap_or_default()
    }
}

struct ResendFrame {
    /// Empty if the frame can be reread.
    bytes: Vec<u8>,
    len: usize,
    is_only: bool,
}

/// The result of reading a frame.
pub struct FlowRead {
    /// Bytes read: 0 if the flow ended at the previous frame's end.
    pub len: usize,
    /// At the end of the flow: its size and time.
    pub end: Option<(u64, Timestamp)>,
}

impl FlowFeed {
    /// A flow from a pipe.
    pub fn of_pipe(pipe: Arc<FlowPipe>) -> Self {
        Self { pipe: Some(pipe), ..Self::of_file() }
    }

    /// A file for a target that writes in order.
    pub fn of_file() -> Self {
        Self { pipe: None, peeked: Mutex::new(None), kept: Mutex::default() }
    }

    /// Reads frame `index` from the pipe, or with `read_file`. Waits for a pipe while `goes_on` permits.
    pub fn read(
        &self,
        frame: FrameLen,
        index: u64,
        room: &mut [u8],
        goes_on: impl Fn() -> bool,
        read_file: impl FnOnce(&mut [u8]) -> Result<FlowRead, SourceFileError>,
    ) -> Result<FlowRead, SourceFileError> {
        match &self.pipe {
            Some(pipe) => self.read_pipe(pipe, frame, index, &mut room[..frame.bytes()], &goes_on),
            None => read_file(room),
        }
    }

    fn read_pipe(
        &self,
        pipe: &FlowPipe,
        frame: FrameLen,
        index: u64,
        room: &mut [u8],
        goes_on: &impl Fn() -> bool,
    ) -> Result<FlowRead, SourceFileError> {
        let mut peeked = lock(&self.peeked);
        let mut len = 0;
        if let Some(byte) = peeked.take() {
            room[0] = byte;
            len = 1;
        }
        len += pipe.read(&mut room[len..], goes_on)?;
        let mut has_ended = len < room.len();
        if index == 0 && !has_ended {
            // A frame's digest depends on whether it is the only one.
            let mut byte = [0];
            has_ended = pipe.read(&mut byte, goes_on)? == 0;
            *peeked = (!has_ended).then_some(byte[0]);
        }
        if let Some(program) = pipe.program.as_ref().filter(|_| has_ended) {
            // The output is complete only if the program exits successfully.
            program.finish(goes_on)?;
        }
        let size = index.saturating_mul(frame.get().into()).saturating_add(len as u64);
        Ok(FlowRead { len, end: has_ended.then(|| (size, now())) })
    }

    /// Whether reading consumes the data.
    fn is_read_once(&self) -> bool {
        self.pipe.as_ref().is_some_and(|pipe| pipe.begins.is_none())
    }

    /// Keeps a frame, and drops those before `written`.
    pub fn keep(&self, index: u64, payload: &[u8], is_only: bool, written: u64) {
        let mut bytes = lock(&self.kept).room(written);
        bytes.clear();
        if self.is_read_once() {
            bytes.extend_from_slice(payload);
        }
        lock(&self.kept).frames.insert(index, ResendFrame { bytes, len: payload.len(), is_only });
    }

    /// Copies a kept frame into `room`. Returns its length and whether it is the only one; `None` if it was dropped. A
    /// frame that has changed is detected at the end: the flow's digest covers the first read.
    pub fn kept(
        &self,
        frame: FrameLen,
        index: u64,
        room: &mut [u8],
        read_file: impl FnOnce(&mut [u8], u64) -> Result<usize, SourceFileError>,
    ) -> Result<Option<(usize, bool)>, SourceFileError> {
        let kept = lock(&self.kept);
        let Some(&ResendFrame { ref bytes, len, is_only }) = kept.frames.get(&index) else { return Ok(None) };
        let room = room.get_mut(..len).ok_or(SourceFileError::FrameSize)?;
        if self.is_read_once() {
            room.copy_from_slice(bytes);
        } else {
            drop(kept);
            let offset = index.saturating_mul(frame.get().into());
            let len = match &self.pipe {
                Some(file) => read_at(&file.fd, room, file.begins.unwrap_or(0).saturating_add(offset))?,
                None => read_file(room, offset)?,
            };
            if len < room.len() {
                return Err(SourceFileError::Changed);
            }
        }
        Ok(Some((len, is_only)))
    }
}

/// The present time: that of a flow is the time of its end.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp { seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX), nanoseconds: since.subsec_nanos() }
}

#[cfg(test)]
#[path = "flow_feed_tests.rs"]
mod tests;
