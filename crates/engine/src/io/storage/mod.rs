//! Reads and writes of files through the page cache or with O_DIRECT, by one interface with several engines.
//!
//! [`Storage`] is the interface: a request owns its buffer, and returns it when complete. [`calls`] makes plain system
//! calls, [`crate::io::storage::ring`] has several requests in flight with io_uring; a stream has one of each
//! ([`StreamStorage`]). [`read`] reads the frames of a chunk, and [`readahead`] keeps the disk busy meanwhile.
//! [`io_method_probe`] chooses a file's method by measurement; [`cache`] advises the page cache. Requests have no
//! meaning here (frames, verification, names).

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

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;

use self::calls::BlockingIo;
use crate::io::frame_buffer::FrameBuffer;
use crate::io::storage::ring::Ring;

/// Alignment of direct I/O: offsets, lengths and memory. All present devices accept it; a device that needs more
/// refuses, and gets buffered I/O.
pub const ALIGNMENT: usize = 4096;
/// Default limit of an unprivileged user's pipe (pipe(7)).
pub const PIPE_BYTES: usize = 1 << 20;
/// Most bytes of direct I/O that a stream has in flight, if that is at least two frames.
const UNDER_WAY_BYTES: usize = 3 << 20;
/// Most requests that a stream has in flight.
const UNDER_WAY_MAX: usize = 8;

/// The I/O method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoMethod {
    /// Buffered I/O, through the page cache.
    Buffered,
    /// Direct I/O (O_DIRECT, open(2)).
    Direct,
}

/// The access to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileAccess {
    /// Read into the buffer.
    Read,
    /// Write from the buffer.
    Write,
}

/// A request for a file.
pub struct IoRequest<T> {
    /// What.
    pub access: FileAccess,
    /// The file, which stays open until the request is complete.
    pub file: Arc<OwnedFd>,
    /// The buffer, used from the beginning of its room.
    pub buffer: FrameBuffer,
    /// Bytes.
    pub len: usize,
    /// The offset in the file.
    pub offset: u64,
    /// The caller's tag.
    pub tag: T,
}

/// A complete request, with its free buffer.
pub struct FinishedIo<T> {
    /// The request.
    pub request: IoRequest<T>,
    /// Bytes read or written by the system call, possibly fewer than requested.
    pub result: io::Result<usize>,
}

/// A storage engine. Requests complete in any order.
pub trait Storage<T> {
    /// Submits a request. At most the engine's depth may be in flight.
    fn submit(&mut self, request: IoRequest<T>);

    /// Returns a complete request; with `wait`, waits for one. `None` if none is in flight, or, without `wait`, none is
    /// complete.
    fn finished(&mut self, wait: bool) -> Option<FinishedIo<T>>;

    /// Requests that were not returned by [`Self::finished`].
    fn under_way(&self) -> usize;

    /// A descriptor that is readable (poll(2)) when a request may be complete; `None` if the engine never waits.
    fn readiness(&self) -> Option<BorrowedFd<'_>>;
}

/// Default number of direct-I/O frames of `frame_bytes` that a stream has in flight.
pub fn depth(frame_bytes: usize) -> usize {
    (UNDER_WAY_BYTES / frame_bytes.max(1)).clamp(2, UNDER_WAY_MAX)
}

/// A stream's engines. The ring is created on the stream's own thread at the first direct I/O.
pub struct StreamStorage<T> {
    calls: BlockingIo<T>,
    ring: Option<io::Result<Ring<T>>>,
    depth: usize,
}

impl<T> StreamStorage<T> {
    /// Engines with up to `depth` requests in flight.
    pub fn new(depth: usize) -> Self {
        Self { calls: BlockingIo::new(), ring: None, depth }
    }

    /// The useful number of requests in flight by this method.
    pub fn depth(&mut self, method: IoMethod) -> usize {
        match method {
            IoMethod::Direct if self.ring().is_some() => self.depth,
            _ => 1,
        }
    }

    /// Submits a request.
    pub fn submit(&mut self, method: IoMethod, request: IoRequest<T>) {
        match (method, self.ring()) {
            (IoMethod::Direct, Some(ring)) => ring.submit(request),
            _ => self.calls.submit(request),
        }
    }

    /// See [`Storage::finished`].
    pub fn finished(&mut self, wait: bool) -> Option<FinishedIo<T>> {
        self.calls.finished(wait).or_else(|| self.made_ring()?.finished(wait))
    }

    /// Number of requests in flight.
    pub fn under_way(&self) -> usize {
        let ring = self.ring.as_ref().and_then(|ring| ring.as_ref().ok());
        self.calls.under_way() + ring.map_or(0, Ring::under_way)
    }

    /// See [`Storage::readiness`].
    pub fn readiness(&self) -> Option<BorrowedFd<'_>> {
        self.ring.as_ref()?.as_ref().ok()?.readiness()
    }

    /// The ring, created on first use; `None` if unavailable.
    fn ring(&mut self) -> Option<&mut Ring<T>> {
        let depth = self.depth;
        self.ring.get_or_insert_with(|| Ring::new(depth)).as_mut().ok()
    }

    fn made_ring(&mut self) -> Option<&mut Ring<T>> {
        self.ring.as_mut()?.as_mut().ok()
    }
}

/// Whether an error means that this file or kernel does not support direct I/O.
pub fn is_refusal(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOTBLK | Errno::CANCELED | Errno::PERM)
    )
}
