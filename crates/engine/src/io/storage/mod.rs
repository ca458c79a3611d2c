//! Reads and writes of files through the page cache or with O_DIRECT, by one interface with several engines.
//!
//! [`Storage`] is the interface: a request takes its buffer along, and returns it when complete. [`calls`] makes plain
//! system calls, [`crate::io::storage::ring`] has several requests in flight with io_uring; a stream has one of each
//! ([`StreamStorage`]). [`read`] reads the frames of a chunk, and [`readahead`] keeps the disk busy meanwhile.
//! [`io_method_probe`] measures which method a file uses; [`cache`] advises the page cache. The meaning of a request
//! (frames, verification, names) is unknown here.

pub mod cache;
pub mod calls;
pub mod cold;
#[cfg(test)]
mod conformance_tests;
pub mod extents;
pub mod file;
pub mod holes;
pub mod io_method_probe;
pub mod meter;
pub mod policy;
pub mod read;
pub mod readahead;
pub mod ring;

use rustix::io::Errno;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use self::calls::BlockingIo;
use crate::io::frame_buffer::FrameBuffer;
use crate::io::storage::ring::Ring;

/// What direct I/O is aligned to: offsets, lengths and memory. Every device of today takes it; one that wants more
/// refuses, and is read and written through the page cache.
pub const ALIGNMENT: usize = 4096;
/// What an unprivileged user may give a pipe, unless the administrator says otherwise (pipe(7)).
pub const PIPE_BYTES: usize = 1 << 20;
/// Most bytes that a stream has under way past the page cache, where that is two frames or more.
const UNDER_WAY_BYTES: usize = 3 << 20;
/// Most requests that a stream has under way.
const UNDER_WAY_MAX: usize = 8;

/// The way that bytes take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoMethod {
    /// Through the page cache.
    Buffered,
    /// Past it (O_DIRECT, open(2)).
    Direct,
}

/// What is done to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileAccess {
    /// Its bytes come into the buffer.
    Read,
    /// The buffer's bytes go into it.
    Write,
}

/// Something to be done to a file.
pub struct IoRequest<T> {
    /// What.
    pub access: FileAccess,
    /// To which file; it stays open until the request is finished.
    pub file: Arc<OwnedFd>,
    /// The buffer; its whole room may be used, from the beginning.
    pub buffer: FrameBuffer,
    /// Bytes.
    pub len: usize,
    /// Where in the file.
    pub offset: u64,
    /// What the one who asked knows it by.
    pub tag: T,
}

/// A request that is done with, its buffer free again.
pub struct FinishedIo<T> {
    /// The request.
    pub request: IoRequest<T>,
    /// Bytes read or written, as the system call has it: they may be fewer than were asked for.
    pub result: io::Result<usize>,
}

/// An engine. What was submitted finishes in any order.
pub trait Storage<T> {
    /// Begins a request. No more than the engine's depth may be under way.
    fn submit(&mut self, request: IoRequest<T>);

    /// One that is finished; with `wait`, waits for one. `None` when none is under way, or, without `wait`, none is
    /// finished yet.
    fn finished(&mut self, wait: bool) -> Option<FinishedIo<T>>;

    /// Submitted, and not returned by [`Self::finished`].
    fn under_way(&self) -> usize;

    /// Can be read (poll(2)) when something may be finished; `None` where nothing is ever waited for.
    fn readiness(&self) -> Option<BorrowedFd<'_>>;
}

/// Default number of direct-I/O frames of `frame_bytes` that a stream has in flight.
pub fn depth(frame_bytes: usize) -> usize {
    (UNDER_WAY_BYTES / frame_bytes.max(1)).clamp(2, UNDER_WAY_MAX)
}

/// A stream's engines. It makes its ring on the stream's own thread, when direct I/O is first asked for.
pub struct StreamStorage<T> {
    calls: BlockingIo<T>,
    ring: Option<io::Result<Ring<T>>>,
    depth: usize,
}

impl<T> StreamStorage<T> {
    /// With up to `depth` requests under way.
    pub fn new(depth: usize) -> Self {
        Self { calls: BlockingIo::new(), ring: None, depth }
    }

    /// How many requests are worth having under way by this method.
    pub fn depth(&mut self, method: IoMethod) -> usize {
        match method {
            IoMethod::Direct if self.ring().is_some() => self.depth,
            _ => 1,
        }
    }

    /// Begins a request.
    pub fn submit(&mut self, method: IoMethod, request: IoRequest<T>) {
        match (method, self.ring()) {
            (IoMethod::Direct, Some(ring)) => ring.submit(request),
            _ => self.calls.submit(request),
        }
    }

    /// One that is finished: see [`Storage::finished`].
    pub fn finished(&mut self, wait: bool) -> Option<FinishedIo<T>> {
        self.calls.finished(wait).or_else(|| self.made_ring()?.finished(wait))
    }

    /// How many are under way.
    pub fn under_way(&self) -> usize {
        let ring = self.ring.as_ref().and_then(|ring| ring.as_ref().ok());
        self.calls.under_way() + ring.map_or(0, Ring::under_way)
    }

    /// See [`Storage::readiness`].
    pub fn readiness(&self) -> Option<BorrowedFd<'_>> {
        self.ring.as_ref()?.as_ref().ok()?.readiness()
    }

    /// The ring; made when it is first asked for. Where there is none to be had, plain calls do.
    fn ring(&mut self) -> Option<&mut Ring<T>> {
        let depth = self.depth;
        self.ring.get_or_insert_with(|| Ring::new(depth)).as_mut().ok()
    }

    fn made_ring(&mut self) -> Option<&mut Ring<T>> {
        self.ring.as_mut()?.as_mut().ok()
    }
}

/// Whether an error of direct I/O says that this file, or this kernel, does not have it: then the page cache has to do.
pub fn is_refusal(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOTBLK | Errno::CANCELED | Errno::PERM)
    )
}
