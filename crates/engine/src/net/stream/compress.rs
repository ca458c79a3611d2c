//! The source's side of a stream with compression: a payload before encryption, and the cost of compressing it.
//!
//! A compressed payload goes from its read buffer to a second one, which is then encrypted and sent. The other end
//! decompresses it in [`super::DataStream::receive`].

use std::time::{Duration, Instant};

use haul_proto::compression::chooser::{CompressionAttempt, CompressionChooser};
use haul_proto::compression::sample::is_promising;
use haul_proto::compression::{CompressionMethod, CompressionPolicy, FrameTimes};
use haul_proto::wire::compressed_frame::CompressedPayload;
use haul_proto::wire::frame::RecordTrailer;
use haul_proto::wire::sparse::{PayloadShape, SparsePayload};

use super::{DataStream, SendCost};
use crate::io::codec::PayloadCompressor;
use crate::io::frame_buffer::FrameBuffer;
use crate::metrics::counter::add;
use crate::metrics::reporter::CounterTally;
use crate::net::rate_limiter::RateLimiter;
use crate::net::stream::StreamError;

/// The compression of delta instructions, unless another method is requested.
const DELTA_METHOD: CompressionMethod = CompressionMethod::Zstd(3);

/// A stream that compresses on request, or if it pays.
pub struct CompressingStream<'s> {
    stream: &'s mut DataStream,
    tally: &'s CounterTally,
    chooser: CompressionChooser,
    packer: PayloadCompressor,
    /// The compressed payload's buffer; allocated on first use.
    packed: Option<FrameBuffer>,
    /// The time of the previous frame.
    idle_since: Instant,
}

impl<'s> CompressingStream<'s> {
    /// Sends through `stream`, and counts in `tally`.
    pub fn new(stream: &'s mut DataStream, policy: CompressionPolicy, tally: &'s CounterTally) -> Self {
        // Within a host, compression never pays: only on request.
        let pointless = policy == CompressionPolicy::Auto && stream.is_within_host();
        let chooser = CompressionChooser::new(if pointless { CompressionPolicy::Off } else { policy });
        Self { stream, tally, chooser, packer: PayloadCompressor::default(), packed: None, idle_since: Instant::now() }
    }

    /// The method for a record. A delta saves bytes at any connection speed.
    fn method(&self, trailer: &RecordTrailer) -> Option<CompressionMethod> {
        match trailer {
            RecordTrailer::Delta(_) if self.chooser.is_auto() => Some(DELTA_METHOD),
            _ => self.chooser.next(),
        }
    }

    /// Compresses the payload of `record` into the second buffer, if requested and useful.
    fn pack(&mut self, record: &FrameBuffer, trailer: &RecordTrailer) -> CompressionAttempt {
        let plain = record.payload();
        let Some(method) = self.method(trailer).filter(|_| is_promising(plain)) else {
            return CompressionAttempt::None;
        };
        let room = PayloadCompressor::room(plain.len());
        let packed = self.packed.get_or_insert_with(|| FrameBuffer::with_capacity(room));
        if packed.room_mut().len() < room {
            *packed = FrameBuffer::with_capacity(room);
        }
        match self.packer.pack(method, plain, packed.room_mut()) {
            Some(len) => {
                packed.set_payload_len(len);
                CompressionAttempt::Done(method)
            }
            None => CompressionAttempt::InVain(method),
        }
    }

    /// Sends the buffer that `attempt` left the payload in, possibly without its holes. Also returns its length.
    fn send(
        &mut self,
        sparse: Option<SparsePayload>,
        attempt: CompressionAttempt,
        record: &mut FrameBuffer,
        trailer: &RecordTrailer,
        limiter: &RateLimiter,
    ) -> Result<(usize, SendCost), StreamError> {
        let plain = record.payload().len();
        let (record, compressed) = match (attempt, &mut self.packed) {
            (CompressionAttempt::Done(method), Some(packed)) => {
                (packed, Some(CompressedPayload { codec: method.codec(), plain }))
            }
            _ => (record, None),
        };
        let sent = self.stream.send_packed(record, &PayloadShape { sparse, compressed }, trailer, Some(limiter))?;
        Ok((record.payload().len(), sent))
    }

    fn count(&self, attempt: CompressionAttempt, plain: usize, sent: &SendCost) {
        add(&self.tally.bytes_carried, plain as u64);
        add(&self.tally.bytes_on_wire, sent.wire_bytes as u64);
        if let CompressionAttempt::Done(method) = attempt {
            self.count_method(method, plain);
        }
    }

    fn count_method(&self, method: CompressionMethod, plain: usize) {
        if let Some(counter) = self.tally.compressed.get(method.index()) {
            add(counter, plain as u64);
        }
    }

    /// Sends a record with its trailer, within the rate limit. Returns its buffer.
    pub fn send_frame(
        &mut self,
        mut record: FrameBuffer,
        trailer: &RecordTrailer,
        limiter: &RateLimiter,
    ) -> Result<FrameBuffer, StreamError> {
        let begun = Instant::now();
        let prepare = begun.duration_since(self.idle_since);
        let sparse = record.squeeze();
        let plain = record.payload().len();
        if plain == 0 {
            // Neither measured nor compressed.
            let (_, sent) = self.send(sparse, CompressionAttempt::None, &mut record, trailer, limiter)?;
            self.count(CompressionAttempt::None, 0, &sent);
            self.idle_since = Instant::now();
            return Ok(record);
        }
        let attempt = self.pack(&record, trailer);
        let compress = begun.elapsed();
        let (wire, sent) = self.send(sparse, attempt, &mut record, trailer, limiter)?;
        self.count(attempt, plain, &sent);
        self.idle_since = Instant::now();
        if matches!(trailer, RecordTrailer::Delta(_)) {
            // Not a measurement of frames.
            return Ok(record);
        }
        self.chooser.sent(
            attempt,
            &FrameTimes {
                prepare_ns: ns(prepare),
                compress_ns: ns(compress),
                seal_ns: ns(sent.sealing),
                send_ns: ns(sent.sending),
                plain_bytes: plain as f64,
                wire_bytes: wire as f64,
            },
        );
        Ok(record)
    }

    /// Sends everything that is buffered.
    pub fn flush(&mut self) {
        self.stream.push();
    }

    /// Sends the last record.
    pub fn end(&mut self, mut record: FrameBuffer) -> Result<(), StreamError> {
        record.set_payload_len(0);
        let records = self.stream.sent() - 1;
        let sent =
            self.stream.send_packed(&mut record, &PayloadShape::default(), &RecordTrailer::End { records }, None)?;
        self.count(CompressionAttempt::None, 0, &sent);
        Ok(())
    }
}

fn ns(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}

#[cfg(test)]
#[path = "compress_tests.rs"]
mod tests;
