//! Data streams: sockets with encrypted records.
//!
//! A stream is one socket and one thread at each end. [`connect`], [`accept`] and [`tunnel`] make the socket; after the
//! [`handshake`], all streams are alike.

pub mod accept;
pub mod aead;
pub mod compress;
pub mod connect;
pub mod connector;
pub mod handshake;
pub mod preauth;
pub mod seal;
pub mod socket;
#[cfg(test)]
pub mod testing;
pub mod tunnel;
pub mod window;

#[cfg(test)]
mod damage_tests;
#[cfg(test)]
mod middle_tests;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use haul_proto::error::ProtocolError;
use haul_proto::ids::{PathId, StreamId};
use haul_proto::wire::compressed_frame::CompressedPayload;
use haul_proto::wire::frame::{PREFIX_LEN, RecordPrefix, RecordTrailer};
use haul_proto::wire::sparse::{PayloadShape, decode_trailer};

use self::seal::{RecordOpener, RecordSealer};
use crate::io::codec::PayloadDecompressor;
use crate::io::frame_buffer::FrameBuffer;
use crate::net::rate_limiter::RateLimiter;

/// Why a stream ended before its End.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The socket failed or was closed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The other end violated the protocol, or data was changed on the way.
    #[error("{0}")]
    Protocol(#[from] ProtocolError),
}

/// One socket, with keys for both directions.
#[derive(Debug)]
pub struct DataStream {
    socket: Arc<OwnedFd>,
    path: PathId,
    sealer: RecordSealer,
    opener: RecordOpener,
    sent: u64,
    received: u64,
    /// Whether sent data may wait in the socket's buffer.
    waits: bool,
    carried: usize,
    /// The decompressor and its buffer, created for the first compressed payload.
    unpacking: Option<(PayloadDecompressor, FrameBuffer)>,
}

/// The cost of sending a record.
#[derive(Debug, Clone, Copy)]
pub struct SendCost {
    /// Bytes of the whole record.
    pub wire_bytes: usize,
    /// Encryption time.
    pub sealing: Duration,
    /// Time in the call that sends.
    pub sending: Duration,
}

impl DataStream {
    fn new(socket: OwnedFd, sealer: RecordSealer, opener: RecordOpener, path: PathId) -> Self {
        Self {
            socket: Arc::new(socket),
            path,
            sealer,
            opener,
            sent: 0,
            received: 0,
            waits: false,
            carried: 0,
            unpacking: None,
        }
    }

    /// Encrypts and sends `record` with this trailer. Its payload is unusable afterwards.
    pub fn send(&mut self, record: &mut FrameBuffer, trailer: &RecordTrailer) -> Result<SendCost, StreamError> {
        self.send_packed(record, &PayloadShape::default(), trailer, None)
    }

    /// Encrypts and sends a payload transformed as described by `shape`, in chunks at the rate limit. Waiting for
    /// permits counts as sending.
    pub fn send_packed(
        &mut self,
        record: &mut FrameBuffer,
        shape: &PayloadShape,
        trailer: &RecordTrailer,
        limiter: Option<&RateLimiter>,
    ) -> Result<SendCost, StreamError> {
        let begun = Instant::now();
        record.set_trailer(shape, trailer);
        self.sealer.seal(record)?;
        let sealed = Instant::now();
        let turn = limiter.map(RateLimiter::permit);
        // Delta instructions are mostly short, and rarely come alone.
        let is_short = matches!(trailer, RecordTrailer::Delta(_));
        let mut rest = record.wire();
        while !rest.is_empty() {
            let most = turn.as_ref().map_or(rest.len(), |turn| turn.acquire(rest.len()));
            let (now, later) = rest.split_at(most.min(rest.len()));
            match is_short {
                true => socket::send_with_more(&self.socket, now)?,
                false => socket::send_all(&self.socket, now)?,
            }
            rest = later;
        }
        self.waits = is_short;
        self.sent += 1;
        let sealing = sealed.duration_since(begun);
        // A pause is no property of the connection.
        let sending = sealed.elapsed().saturating_sub(turn.map(|turn| turn.paused()).unwrap_or_default());
        Ok(SendCost { wire_bytes: record.wire().len(), sealing, sending })
    }

    /// Sends buffered data without a wait for more.
    pub fn push(&mut self) {
        if std::mem::take(&mut self.waits) {
            socket::push(&self.socket);
        }
    }

    /// Receives and decrypts the next record. `record` then has its plain payload.
    pub fn receive(&mut self, record: &mut FrameBuffer) -> Result<RecordTrailer, StreamError> {
        let mut prefix = [0; PREFIX_LEN];
        socket::receive_exact(&self.socket, &mut prefix)?;
        let prefix = RecordPrefix::decode(prefix)?;
        record.set_lengths(prefix);
        self.carried = prefix.payload;
        socket::receive_exact(&self.socket, record.after_prefix_mut())?;
        self.opener.open(record)?;
        self.received += 1;
        let (shape, trailer) = decode_trailer(record.trailer(), record.payload().len())?;
        if let Some(compressed) = shape.compressed {
            self.unpack(record, compressed)?;
        }
        if let Some(sparse) = shape.sparse {
            record.spread(sparse);
        }
        record.set_received_len(prefix.payload);
        Ok(trailer)
    }

    /// Replaces the compressed payload by the plain one, by a swap of buffers. Its length was checked with the trailer.
    fn unpack(
        &mut self,
        record: &mut FrameBuffer,
        CompressedPayload { codec, plain }: CompressedPayload,
    ) -> Result<(), ProtocolError> {
        let fresh = || (PayloadDecompressor::default(), FrameBuffer::with_capacity(record.capacity().max(plain)));
        let (unpacker, room) = self.unpacking.get_or_insert_with(fresh);
        if room.capacity() < plain {
            *room = FrameBuffer::with_capacity(plain);
        }
        room.set_payload_len(plain);
        room.set_map(None);
        unpacker.unpack(codec, record.payload(), room.payload_mut())?;
        std::mem::swap(record, room);
        Ok(())
    }

    /// Whether both of its ends have one address.
    pub fn is_within_host(&self) -> bool {
        socket::is_within_host(&self.socket)
    }

    /// Its path, by the connecting end.
    pub fn path(&self) -> PathId {
        self.path
    }

    /// The socket, to wait for.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Its socket, for the stream's lifetime: for statistics, not for I/O.
    pub fn watch(&self) -> Weak<OwnedFd> {
        Arc::downgrade(&self.socket)
    }

    /// Records sent, Finished included.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Bytes of the last received payload on the wire.
    pub fn carried(&self) -> usize {
        self.carried
    }

    /// Records received, Finished included.
    pub fn received(&self) -> u64 {
        self.received
    }
}

/// Allocates the ids of a session's streams at one end, except ids used here or seen from the other end, also of failed
/// paths. Clones share the state.
#[derive(Clone, Default)]
pub struct StreamIds(Arc<AtomicU32>);

impl StreamIds {
    /// A free id; `None` if all are used.
    pub fn next(&self) -> Option<StreamId> {
        u16::try_from(self.0.fetch_add(1, Ordering::SeqCst)).ok().map(StreamId)
    }

    /// Records an id used by the other end.
    pub fn saw(&self, StreamId(id): StreamId) {
        self.0.fetch_max(u32::from(id) + 1, Ordering::SeqCst);
    }
}

/// Authenticated streams. The listening threads stop when this is dropped.
pub struct AcceptedStreams {
    proven: Receiver<(StreamId, DataStream)>,
    unwanted: Arc<AtomicBool>,
}

impl AcceptedStreams {
    /// Waits for the next stream.
    pub fn next(&self, timeout: Duration) -> Result<(StreamId, DataStream), RecvTimeoutError> {
        self.proven.recv_timeout(timeout)
    }
}

impl Drop for AcceptedStreams {
    fn drop(&mut self) {
        self.unwanted.store(true, Ordering::Relaxed);
    }
}

/// All of a session's streams, in order.
#[cfg(test)]
pub(crate) fn collect(arrivals: &AcceptedStreams, count: usize) -> Vec<DataStream> {
    let deadline = Instant::now() + Duration::from_secs(10);
    let mut streams: Vec<(StreamId, DataStream)> = Vec::new();
    while streams.len() < count && Instant::now() < deadline {
        streams.extend(arrivals.next(Duration::from_millis(50)));
    }
    streams.sort_by_key(|(id, _)| id.0);
    assert!(streams.iter().map(|(id, _)| usize::from(id.0)).eq(0..count), "{} streams came", streams.len());
    streams.into_iter().map(|(_, stream)| stream).collect()
}
