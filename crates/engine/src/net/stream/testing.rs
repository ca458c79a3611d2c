//! For tests: what a seed says over a stream, its records as someone on the way sees them, and what comes of them at
//! the other end.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use haul_lab::Rng;
use haul_proto::compression::{Codec, CompressionMethod};
use haul_proto::entry::Timestamp;
use haul_proto::ids::{CopyNumber, EntryId, PathId};
use haul_proto::integrity::frame_check;
use haul_proto::wire::compressed_frame::CompressedPayload;
use haul_proto::wire::frame::{DataFrame, PREFIX_LEN, PackFrame, PackedFile, RecordPrefix, RecordTrailer, TAG_LEN};
use haul_proto::wire::handshake::{CipherSuite, KeyDirection};
use haul_proto::wire::sparse::PayloadShape;

use super::seal::KeySchedule;
use super::socket::send_all;
use super::{DataStream, StreamError};
use crate::io::codec::PayloadCompressor;
use crate::io::frame_buffer::FrameBuffer;

/// Most bytes of a payload that [`conversation`] makes.
const PAYLOAD_MAX: usize = 4096;
/// No test waits longer for a socket.
const LIMIT: Duration = Duration::from_secs(10);

/// A record as both ends see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestRecord {
    /// In plain.
    pub payload: Vec<u8>,
    /// What it is.
    pub trailer: RecordTrailer,
}

/// What a whole stream of up to `most` frames and packs says, Finished and End included. No two of its records are
/// alike.
pub fn conversation(rng: &mut Rng, most: u64) -> Vec<TestRecord> {
    let frames = rng.between(1, most);
    let mut said = vec![TestRecord { payload: Vec::new(), trailer: RecordTrailer::Finished }];
    said.extend((0..frames).map(|number| if rng.chance(300) { pack(rng, number) } else { data(rng, number) }));
    said.push(TestRecord { payload: Vec::new(), trailer: RecordTrailer::End { records: frames } });
    said
}

fn data(rng: &mut Rng, number: u64) -> TestRecord {
    let payload = payload(rng);
    let (copy, entry, offset) = (CopyNumber(1), EntryId(rng.number()), number << 18);
    let mut value = [0; 32];
    rng.fill(&mut value);
    let trailer = RecordTrailer::Data(DataFrame { copy, entry, offset, check: frame_check(&payload), value });
    TestRecord { payload, trailer }
}

fn pack(rng: &mut Rng, number: u64) -> TestRecord {
    let payload = payload(rng);
    let first = rng.index(payload.len() + 1);
    let modified = Timestamp { seconds: rng.number().cast_signed(), nanoseconds: 5 };
    let file = |entry: u64, len: usize| {
        let len = u32::try_from(len).unwrap();
        PackedFile { entry: EntryId(entry), len, modified, digest: [7; 32] }
    };
    let files = vec![file(2 * number, first), file(2 * number + 1, payload.len() - first)];
    let trailer = RecordTrailer::Pack(PackFrame { copy: CopyNumber(1), check: frame_check(&payload), files });
    TestRecord { payload, trailer }
}

/// Half of them are compressible.
fn payload(rng: &mut Rng) -> Vec<u8> {
    let len = rng.index(PAYLOAD_MAX) + 1;
    if rng.chance(500) { rng.bytes(len) } else { rng.bytes(16).into_iter().cycle().take(len).collect() }
}

/// The keys of one of a session's connections.
pub fn keys(connection: u64, suite: CipherSuite, rekey_bytes: u64) -> KeySchedule {
    KeySchedule::new(&[7; 32], &connection.to_le_bytes(), suite, rekey_bytes)
}

/// The records on the wire, one for each of `said`, as [`DataStream::send_packed`] makes them. What can be compressed
/// is, in turn by either method or by none.
pub fn sealed(keys: &KeySchedule, sends: KeyDirection, said: &[TestRecord]) -> Vec<Vec<u8>> {
    let mut sealer = keys.sealer(sends).unwrap();
    let seal = |(TestRecord { payload, trailer }, method): (&TestRecord, _)| {
        let mut record = FrameBuffer::with_capacity(payload.len());
        let compressed = fill(&mut record, payload, method);
        record.set_trailer(&PayloadShape { sparse: None, compressed }, trailer);
        sealer.seal(&mut record).unwrap();
        record.wire().to_vec()
    };
    said.iter()
        .zip([None, Some(CompressionMethod::Lz4), Some(CompressionMethod::Zstd(3))].into_iter().cycle())
        .map(seal)
        .collect()
}

fn fill(record: &mut FrameBuffer, payload: &[u8], method: Option<CompressionMethod>) -> Option<CompressedPayload> {
    let mut packed = vec![0; PayloadCompressor::room(payload.len())];
    let packed = method.and_then(|method| {
        let len = PayloadCompressor::default().pack(method, payload, &mut packed)?;
        let codec = if method == CompressionMethod::Lz4 { Codec::Lz4 } else { Codec::Zstd };
        Some((&packed[..len], CompressedPayload { codec, plain: payload.len() }))
    });
    let (bytes, compressed) = packed.map_or((payload, None), |(bytes, compressed)| (bytes, Some(compressed)));
    record.room_mut()[..bytes.len()].copy_from_slice(bytes);
    record.set_payload_len(bytes.len());
    compressed
}

/// Flips a bit of one part of a record on the wire, each part as often as the others: else the payload would get nearly
/// all.
pub fn flip(rng: &mut Rng, record: &mut [u8]) {
    let prefix = RecordPrefix::decode(record[..PREFIX_LEN].try_into().unwrap()).unwrap();
    let trailer = PREFIX_LEN + prefix.payload;
    let tag = trailer + prefix.trailer;
    let part = match rng.below(4) {
        0 if prefix.payload > 0 => PREFIX_LEN..trailer,
        1 => trailer..tag,
        2 => tag..tag + TAG_LEN,
        _ => 0..PREFIX_LEN,
    };
    let byte = part.start + rng.index(part.len());
    record[byte] ^= 1 << rng.below(8);
}

/// The acceptor's end of a connection on which `wire` comes, and then nothing more.
pub fn receiving(keys: &KeySchedule, wire: Vec<u8>) -> DataStream {
    let (middle, far) = UnixStream::pair().unwrap();
    for socket in [&middle, &far] {
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        socket.set_write_timeout(Some(LIMIT)).unwrap();
    }
    // More may come than a socket holds; and who has noticed something reads no further.
    std::thread::spawn(move || drop(send_all(&middle, &wire)));
    let (sealer, opener) = (keys.sealer(KeyDirection::FromAcceptor), keys.opener(KeyDirection::FromConnector));
    DataStream::new(far.into(), sealer.unwrap(), opener.unwrap(), PathId(0))
}

/// What a stream took for true.
#[derive(Debug, PartialEq, Eq)]
pub struct ReceivedRecords {
    /// Record by record.
    pub said: Vec<TestRecord>,
    /// Whether it came to its End, with nothing missing.
    pub whole: bool,
}

/// What the other end takes for true when `wire` comes.
pub fn heard(keys: &KeySchedule, wire: Vec<u8>) -> ReceivedRecords {
    let mut stream = receiving(keys, wire);
    let mut record = FrameBuffer::empty();
    let mut said = Vec::new();
    loop {
        let trailer = match stream.receive(&mut record) {
            Ok(trailer) => trailer,
            Err(StreamError::Io(_) | StreamError::Protocol(_)) => return ReceivedRecords { said, whole: false },
        };
        let ends = matches!(trailer, RecordTrailer::End { records } if records == stream.received() - 2);
        said.push(TestRecord { payload: record.payload().to_vec(), trailer });
        if ends {
            return ReceivedRecords { said, whole: true };
        }
    }
}

/// Whether the other end took the first `intact` records as they were said, then noticed, and took nothing more.
pub fn is_noticed(said: &[TestRecord], intact: usize, heard: &ReceivedRecords) -> bool {
    !heard.whole && heard.said == said[..intact]
}
