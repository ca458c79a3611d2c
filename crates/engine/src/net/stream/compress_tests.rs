//! Compressed records from one end of a stream to the other.

use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::thread;

use haul_proto::compression::Codec;
use haul_proto::error::ProtocolError;
use haul_proto::ids::{CopyId, CopyNumber, EntryId, PathId, StreamId};
use haul_proto::integrity::FrameLen;
use haul_proto::limits::FRAME_MAX;
use haul_proto::wire::frame::{DataFrame, DeltaFrame};
use haul_proto::wire::handshake::CipherSuite;
use haul_proto::wire::sparse::{BLOCK, DataMap, PayloadShape};

use super::super::StreamError;
use super::super::handshake::{StreamCredentials, as_acceptor, as_connector};
use super::*;

fn credentials(suite: CipherSuite) -> StreamCredentials {
    StreamCredentials { session: CopyId([1; 16]), secret: [2; 32], suite, rekey_bytes: 1 << 20 }
}

/// A source's stream and a target's.
fn pair(suite: CipherSuite) -> (DataStream, DataStream) {
    let (a, b) = UnixStream::pair().unwrap();
    for socket in [&a, &b] {
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    }
    let connecting =
        thread::spawn(move || as_connector(a.into(), &credentials(suite), StreamId(0), PathId(0)).unwrap());
    let (_, target) = as_acceptor(b.into(), &credentials(suite)).unwrap();
    (connecting.join().unwrap(), target)
}

fn trailer(offset: u64) -> RecordTrailer {
    RecordTrailer::Data(DataFrame { copy: CopyNumber(1), entry: EntryId(1), offset, check: 0, value: [0; 32] })
}

fn text(len: usize, seed: usize) -> Vec<u8> {
    (seed..).flat_map(|i| format!("{i} {} a line of text\n", i * 7919 % 1013).into_bytes()).take(len).collect()
}

fn fill(record: &mut FrameBuffer, bytes: &[u8]) {
    record.room_mut()[..bytes.len()].copy_from_slice(bytes);
    record.set_payload_len(bytes.len());
}

#[test]
fn compressed_data_arrives_in_plain_and_aligned() {
    for (suite, policy) in [
        (CipherSuite::Aes256Gcm, CompressionPolicy::Always(CompressionMethod::Zstd(3))),
        (CipherSuite::AuthenticateOnly, CompressionPolicy::Always(CompressionMethod::Lz4)),
        (CipherSuite::Aes256Gcm, CompressionPolicy::Off),
    ] {
        let (mut source, mut target) = pair(suite);
        let mut noise = vec![0; 300_000];
        blake3::Hasher::new().finalize_xof().fill(&mut noise);
        let sent = [text(512 << 10, 1), noise, text(1000, 2), text(1, 3), vec![7; 512 << 10], text(512 << 10, 4)];
        let expected = sent.clone();
        let sending = thread::spawn(move || {
            let tally = CounterTally::default();
            let mut sink = CompressingStream::new(&mut source, policy, &tally);
            let mut record = FrameBuffer::new(FrameLen::DEFAULT);
            for (payload, offset) in sent.iter().zip(0..) {
                fill(&mut record, payload);
                record = sink.send_frame(record, &trailer(offset), &RateLimiter::new(0)).unwrap();
            }
            sink.end(record).unwrap();
            let wire = tally.bytes_on_wire.load(Ordering::Relaxed);
            (tally.bytes_carried.load(Ordering::Relaxed), wire)
        });
        let mut record = FrameBuffer::new(FrameLen::DEFAULT);
        for (payload, offset) in expected.iter().zip(0..) {
            assert_eq!(target.receive(&mut record).unwrap(), trailer(offset));
            assert!(record.payload() == payload, "{policy:?}, record {offset}");
            assert_eq!(record.payload().as_ptr().align_offset(4096), 0);
        }
        assert_eq!(target.receive(&mut record).unwrap(), RecordTrailer::End { records: 6 });
        let (carried, wire) = sending.join().unwrap();
        assert_eq!(carried, expected.iter().map(|payload| payload.len() as u64).sum::<u64>());
        assert_eq!(wire < carried, policy != CompressionPolicy::Off, "{policy:?}: {wire} of {carried}");
    }
}

#[test]
fn holes_do_not_travel_and_are_restored_as_zeros() {
    for policy in [CompressionPolicy::Off, CompressionPolicy::Always(CompressionMethod::Lz4)] {
        let (mut source, mut target) = pair(CipherSuite::Aes256Gcm);
        let tally = CounterTally::default();
        let mut sink = CompressingStream::new(&mut source, policy, &tally);
        let mut map = DataMap::HOLE;
        map.add(BLOCK..3 * BLOCK);
        map.add(10 * BLOCK..10 * BLOCK + 5);
        let mut frame = vec![0; 10 * BLOCK + 5];
        frame[BLOCK..3 * BLOCK].copy_from_slice(&text(2 * BLOCK, 1));
        frame[10 * BLOCK..].fill(9);
        let hole = vec![0; 20 * BLOCK];
        for (payload, map, offset) in [(&frame, Some(map), 0), (&hole, Some(DataMap::HOLE), 1), (&frame, None, 2)] {
            let mut record = FrameBuffer::new(FrameLen::DEFAULT);
            fill(&mut record, payload);
            record.set_map(map);
            sink.send_frame(record, &trailer(offset), &RateLimiter::new(0)).unwrap();
            let mut received = FrameBuffer::new(FrameLen::DEFAULT);
            received.room_mut().fill(77);
            assert_eq!(target.receive(&mut received).unwrap(), trailer(offset));
            assert!(received.payload() == payload, "{policy:?}, record {offset}");
            assert_eq!(received.map(), map.as_ref());
        }
        let carried = tally.bytes_carried.load(Ordering::Relaxed);
        assert_eq!(carried, (2 * BLOCK + 5 + frame.len()) as u64);
        assert!(tally.bytes_on_wire.load(Ordering::Relaxed) < carried + 1000);
    }
}

#[test]
fn a_payload_that_differs_from_its_claim_is_a_fault() {
    let plain = text(10_000, 1);
    for (codec, method) in [(Codec::Lz4, CompressionMethod::Lz4), (Codec::Zstd, CompressionMethod::Zstd(3))] {
        let mut packed = vec![0; PayloadCompressor::room(plain.len())];
        let len = PayloadCompressor::default().pack(method, &plain, &mut packed).unwrap();
        packed.truncate(len);
        let garbage = vec![0xa5; 500];
        let other = if codec == Codec::Lz4 { Codec::Zstd } else { Codec::Lz4 };
        for (codec, said, payload) in [
            (codec, 9_999, &packed),
            (codec, 10_001, &packed),
            (codec, FRAME_MAX as usize, &packed),
            (other, 10_000, &packed),
            (codec, 10_000, &garbage),
        ] {
            let (mut source, mut target) = pair(CipherSuite::Aes256Gcm);
            let mut record = FrameBuffer::new(FrameLen::DEFAULT);
            fill(&mut record, payload);
            let compressed = Some(CompressedPayload { codec, plain: said });
            source.send_packed(&mut record, &PayloadShape { sparse: None, compressed }, &trailer(0), None).unwrap();
            let received = target.receive(&mut FrameBuffer::new(FrameLen::DEFAULT));
            let is_fault = matches!(received, Err(StreamError::Protocol(ProtocolError::Invalid(_))));
            assert!(is_fault, "{codec:?}, {said} bytes: {received:?}");
        }
    }
}

#[test]
fn instructions_are_compressed_unless_compression_is_off() {
    let value = [0; 32];
    let delta = |plain| DeltaFrame { copy: CopyNumber(1), entry: EntryId(1), offset: 0, plain, value };
    let payload = text(20_000, 1);
    for (policy, trailer, is_compressed) in [
        (CompressionPolicy::Auto, RecordTrailer::Delta(delta(512 << 10)), true),
        (CompressionPolicy::Auto, trailer(0), false),
        (CompressionPolicy::Off, RecordTrailer::Delta(delta(512 << 10)), false),
    ] {
        let (mut source, mut target) = pair(CipherSuite::Aes256Gcm);
        let tally = CounterTally::default();
        let mut sink = CompressingStream::new(&mut source, policy, &tally);
        let mut record = FrameBuffer::new(FrameLen::DEFAULT);
        fill(&mut record, &payload);
        sink.send_frame(record, &trailer, &RateLimiter::new(0)).unwrap();
        let wire = tally.bytes_on_wire.load(Ordering::Relaxed);
        assert_eq!(wire < payload.len() as u64 / 2, is_compressed, "{policy:?} {trailer:?}: {wire}");
        sink.flush();
        let mut record = FrameBuffer::new(FrameLen::DEFAULT);
        assert_eq!(target.receive(&mut record).unwrap(), trailer);
        assert!(record.payload() == payload);
        assert_eq!(record.received_len() < payload.len() / 2, is_compressed);
    }
}
