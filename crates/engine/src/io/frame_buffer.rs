//! The buffer of a record: prefix, page-aligned payload, trailer and tag.
//!
//! Each stream allocates it once. A payload is read, hashed, encrypted and sent, or received, decrypted and written, in
//! place.

use haul_proto::encoding::Writer;
use haul_proto::integrity::FrameLen;
use haul_proto::limits::TRAILER_MAX;
use haul_proto::wire::frame::{PREFIX_LEN, RecordPrefix, RecordTrailer, TAG_LEN};
use haul_proto::wire::sparse::{DataMap, PayloadShape, SparsePayload, encode_trailer};

/// Alignment of the payload in memory: a page, for direct I/O.
const ALIGNMENT: usize = 4096;

/// A record to send, or a received one.
#[derive(Debug)]
pub struct FrameBuffer {
    bytes: Vec<u8>,
    /// Offset of the payload.
    base: usize,
    payload: usize,
    trailer: usize,
    capacity: usize,
    /// Its data blocks; `None` without holes.
    map: Option<DataMap>,
    /// Length of the payload as it was received, compressed or not.
    received: Option<usize>,
}

impl FrameBuffer {
    /// For payloads of up to one full frame.
    pub fn new(frame: FrameLen) -> Self {
        Self::with_capacity(frame.bytes())
    }

    /// For records without a payload.
    pub fn empty() -> Self {
        Self::with_capacity(0)
    }

    /// For payloads of up to `capacity` bytes.
    pub fn with_capacity(capacity: usize) -> Self {
        let bytes = vec![0; 2 * ALIGNMENT + capacity + TRAILER_MAX + TAG_LEN];
        let base = ALIGNMENT + bytes[ALIGNMENT..].as_ptr().align_offset(ALIGNMENT);
        Self { bytes, base, payload: 0, trailer: 0, capacity, map: None, received: None }
    }

    /// The whole room for a payload.
    pub fn room_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.base..self.base + self.capacity]
    }

    /// Sets the length of the payload.
    ///
    /// # Panics
    /// If it is more than there is room for: a programmer's error.
    pub fn set_payload_len(&mut self, len: usize) {
        assert!(len <= self.capacity, "a payload beyond its buffer");
        self.payload = len;
        self.received = None;
    }

    /// Length of a received payload on the wire; otherwise its length.
    pub fn received_len(&self) -> usize {
        self.received.unwrap_or(self.payload)
    }

    /// Records the length of the payload on the wire.
    pub fn set_received_len(&mut self, len: usize) {
        self.received = Some(len);
    }

    /// An empty buffer of the same size.
    pub fn fresh(&self) -> Self {
        Self::with_capacity(self.capacity())
    }

    /// A buffer with a copy of the payload.
    pub fn copy(&self) -> Self {
        let mut copy = self.fresh();
        let payload = self.payload();
        copy.room_mut()[..payload.len()].copy_from_slice(payload);
        copy.set_payload_len(payload.len());
        copy
    }

    /// The payload.
    pub fn payload(&self) -> &[u8] {
        &self.bytes[self.base..self.base + self.payload]
    }

    /// The payload, writable.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.base..self.base + self.payload]
    }

    /// Largest payload, in bytes.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The decrypted trailer.
    pub fn trailer(&self) -> &[u8] {
        &self.bytes[self.base + self.payload..][..self.trailer]
    }

    /// Data blocks of the payload; `None`: all blocks.
    pub fn map(&self) -> Option<&DataMap> {
        self.map.as_ref()
    }

    /// Sets the data blocks of the payload. All others are zeros.
    pub fn set_map(&mut self, map: Option<DataMap>) {
        self.map = map;
    }

    /// Removes the holes from the payload; `None` without holes.
    pub fn squeeze(&mut self) -> Option<SparsePayload> {
        let map = self.map.take()?;
        let plain = self.payload;
        self.payload = map.squeeze(self.payload_mut());
        Some(SparsePayload { map, plain })
    }

    /// Restores the holes, at the other end.
    pub fn spread(&mut self, SparsePayload { map, plain }: SparsePayload) {
        if plain > self.capacity {
            let squeezed = std::mem::replace(self, Self::with_capacity(plain));
            self.room_mut()[..squeezed.payload].copy_from_slice(squeezed.payload());
        }
        self.payload = plain;
        map.spread(self.payload_mut());
        self.map = Some(map);
    }

    /// Appends a trailer to the payload, and sets the prefix. `shape` describes a transformed payload.
    pub fn set_trailer(&mut self, shape: &PayloadShape, trailer: &RecordTrailer) {
        let mut out = Writer::new();
        encode_trailer(shape, trailer, &mut out);
        let encoded = out.into_bytes();
        self.trailer = encoded.len();
        let prefix = RecordPrefix { payload: self.payload, trailer: self.trailer }.encode();
        self.bytes[self.base - PREFIX_LEN..self.base].copy_from_slice(&prefix);
        self.bytes[self.base + self.payload..][..encoded.len()].copy_from_slice(&encoded);
    }

    /// Sets the lengths of a record to receive. Grows for a peer's longer frames.
    pub fn set_lengths(&mut self, prefix: RecordPrefix) {
        if prefix.payload > self.capacity {
            *self = Self::with_capacity(prefix.payload);
        }
        self.payload = prefix.payload;
        self.trailer = prefix.trailer;
        self.map = None;
        self.bytes[self.base - PREFIX_LEN..self.base].copy_from_slice(&prefix.encode());
    }

    /// The buffer for payload, trailer and tag.
    pub fn after_prefix_mut(&mut self) -> &mut [u8] {
        let len = self.payload + self.trailer + TAG_LEN;
        &mut self.bytes[self.base..self.base + len]
    }

    /// The whole record in wire format.
    pub fn wire(&self) -> &[u8] {
        &self.bytes[self.base - PREFIX_LEN..self.base + self.payload + self.trailer + TAG_LEN]
    }

    /// Associated data, sealed part, tag: with the payload in the sealed part.
    pub(crate) fn encrypted_parts(&mut self) -> (&[u8], &mut [u8], &mut [u8]) {
        self.parts(0)
    }

    /// Associated data, sealed part, tag: with the payload in the associated data.
    pub(crate) fn authenticated_parts(&mut self) -> (&[u8], &mut [u8], &mut [u8]) {
        self.parts(self.payload)
    }

    fn parts(&mut self, clear: usize) -> (&[u8], &mut [u8], &mut [u8]) {
        let sealed = self.payload - clear + self.trailer;
        let record = &mut self.bytes[self.base - PREFIX_LEN..];
        let (clear, rest) = record.split_at_mut(PREFIX_LEN + clear);
        let (sealed, rest) = rest.split_at_mut(sealed);
        (clear, sealed, &mut rest[..TAG_LEN])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_aligned_and_parts_are_adjacent() {
        let mut record = FrameBuffer::new(FrameLen::DEFAULT);
        assert_eq!(record.room_mut().as_ptr().align_offset(ALIGNMENT), 0);
        record.room_mut()[..3].copy_from_slice(b"abc");
        record.set_payload_len(3);
        record.set_trailer(&PayloadShape::default(), &RecordTrailer::Finished);
        assert_eq!((record.payload(), record.trailer()), (&b"abc"[..], &[0u8][..]));
        assert_eq!(record.wire().len(), PREFIX_LEN + 3 + 1 + TAG_LEN);
        assert_eq!(record.wire()[PREFIX_LEN..PREFIX_LEN + 3], *b"abc");
        let (clear, sealed, tag) = record.encrypted_parts();
        assert_eq!((clear.len(), sealed.len(), tag.len()), (PREFIX_LEN, 4, TAG_LEN));
        let (clear, sealed, tag) = record.authenticated_parts();
        assert_eq!((clear.len(), sealed.len(), tag.len()), (PREFIX_LEN + 3, 1, TAG_LEN));
    }
}
