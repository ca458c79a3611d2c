//! Decoders of the wire. What they accept must come back the same after it was encoded again.
//!
//! Bytes need not come back the same: a number may be written longer than need be, and a text that is no UTF-8 is
//! replaced and cut. So what is compared is what was written after the first reading with what was after the second.

use std::fmt::Debug;

use haul_engine::codec::PayloadDecompressor;
use haul_proto::compression::Codec;
use haul_proto::encoding::Writer;
use haul_proto::error::ProtocolError;
use haul_proto::filter::source_pattern::{PatternComponent, SourcePattern};
use haul_proto::ids::CopyNumber;
use haul_proto::integrity::frame_check;
use haul_proto::journal::{HEADER_BYTES, JournalHeader, PartialMatch, RangeEnd, decode_slot, encode_slot, slot_offset};
use haul_proto::limits::FRAME_MAX;
use haul_proto::twoway::archive::{ARCHIVE_ENDS_BYTES, ArchiveHeader, ArchiveReader, ArchiveWriter, claim};
use haul_proto::wire::compressed_message::CompressedMessage;
use haul_proto::wire::control_channel::{HEADER_LEN, decode_header, encode_header};
use haul_proto::wire::frame::{PREFIX_LEN, RecordPrefix, lengths_check};
use haul_proto::wire::handshake::{ANSWER_LEN, CipherSuite, GREETING_LEN, GreetingAnswer, StreamGreeting, transcript};
use haul_proto::wire::message::{SourceMessage, TargetMessage};
use haul_proto::wire::report::WorkerMessage;
use haul_proto::wire::request::ControllerMessage;
use haul_proto::wire::serve::{ClientProof, DIRECTORY_MAX, decode_directory};
use haul_proto::wire::sparse::{decode_trailer, encode_trailer};

/// The copy in messages of the corpus.
pub const COPY: CopyNumber = CopyNumber(1);
/// Bytes of the CRC at the end of a journal's header.
pub const CHECK_BYTES: usize = 8;

/// Messages from a source.
pub fn source_message(data: &[u8]) {
    check_round_trip(data, |bytes| SourceMessage::decode(bytes, COPY), |message| message.encode(COPY));
    if let Ok(Some(packed)) = CompressedMessage::decode(data, COPY) {
        assert_eq!(CompressedMessage::decode(&packed.encode(COPY), COPY), Ok(Some(packed)));
    }
}

/// Messages from a target.
pub fn target_message(data: &[u8]) {
    check_round_trip(data, |bytes| TargetMessage::decode(bytes, COPY), |message| message.encode(COPY));
}

/// Messages from a controller: Requests among them.
pub fn controller_message(data: &[u8]) {
    check_round_trip(data, ControllerMessage::decode, ControllerMessage::encode);
    if let Ok(ControllerMessage::Expand(request)) = ControllerMessage::decode(data) {
        check_patterns(&request.patterns);
    }
}

/// No wildcard matches what is no name.
fn check_patterns(patterns: &[Vec<u8>]) {
    let Ok(parsed) = SourcePattern::parse_all(patterns.iter().map(Vec::as_slice)) else { return };
    for pattern in parsed.iter().flat_map(|pattern| &pattern.alternatives) {
        for component in pattern.components() {
            let is_name = |name: &&[u8]| *component == PatternComponent::Name(name.to_vec());
            let mut strange = [&b"."[..], b"..", b"", b"a/b", b"a\0"].into_iter().filter(|name| !is_name(name));
            assert!(!strange.any(|name| component.matches(name)), "{component:?}");
        }
    }
}

/// Messages from a worker: its Hello among them.
pub fn worker_message(data: &[u8]) {
    check_round_trip(data, WorkerMessage::decode, WorkerMessage::encode);
}

/// What a server reads from one who has not proven itself: a proof as it comes off the connection, and the name of a
/// directory. The first byte says which of the two.
pub fn serve(data: &[u8]) {
    let Some((which, bytes)) = data.split_first() else { return };
    if *which == 0 {
        let rest = bytes.first().map(|kind| ClientProof::rest_len(*kind));
        let is_whole = matches!(rest, Some(Ok(rest)) if rest + 1 == bytes.len());
        assert_eq!(ClientProof::decode(bytes).is_ok(), is_whole);
        check_round_trip(bytes, ClientProof::decode, ClientProof::encode);
    } else if let Ok(name) = decode_directory(bytes) {
        assert!(name.as_bytes() == bytes && bytes.len() <= DIRECTORY_MAX);
        assert!(!name.contains('/') && !name.starts_with('.'));
    }
}

/// A record's prefix and, behind it, its trailer.
pub fn trailer(data: &[u8]) {
    let Some((head, rest)) = data.split_first_chunk::<PREFIX_LEN>() else { return };
    // No input has the right check by chance.
    let [lengths @ .., _, _] = *head;
    let [a, b, c, d, e, f] = lengths;
    let [g, h] = lengths_check(lengths);
    let head = [a, b, c, d, e, f, g, h];
    let Ok(prefix) = RecordPrefix::decode(head) else { return };
    assert_eq!(prefix.encode(), head);
    assert!(prefix.rest_len() < 2 << 20);
    check_round_trip(
        rest,
        |bytes| decode_trailer(bytes, prefix.payload),
        |(shape, trailer)| {
            let mut out = Writer::new();
            encode_trailer(shape, trailer, &mut out);
            out.into_bytes()
        },
    );
}

/// A compressed payload behind its codec and its plain length. Both codecs' bytes are another crate's to read: what must
/// hold is that they end, and that nothing lies behind the plain payload.
pub fn compressed_payload(data: &[u8]) {
    let Some(([codec, lengths @ ..], packed)) = data.split_first_chunk::<4>() else { return };
    let [a, b, c] = *lengths;
    let plain = (u32::from_le_bytes([a, b, c, 0]) % (FRAME_MAX + 1)) as usize;
    let Ok(codec) = Codec::from_number(*codec) else { return };
    let mut out = vec![0xa5; plain + 64];
    let (payload, behind) = out.split_at_mut(plain);
    let unpacked = PayloadDecompressor::default().unpack(codec, packed, payload);
    assert!(behind.iter().all(|byte| *byte == 0xa5), "written beyond the payload");
    if unpacked.is_ok() {
        let mut again = vec![0x5a; plain];
        assert_eq!(PayloadDecompressor::default().unpack(codec, packed, &mut again), Ok(()));
        equal(&payload.to_vec(), &again);
    }
}

/// The journal of a partial file: its header, and behind that a slot. What lies on a disk is believed as little as what
/// comes from a peer.
pub fn journal(data: &[u8]) {
    let (header, slot) = data.split_at(data.len().min(HEADER_BYTES - CHECK_BYTES));
    let mut bytes = [0; HEADER_BYTES];
    let (fields, check) = bytes.split_at_mut(HEADER_BYTES - CHECK_BYTES);
    fields[..header.len()].copy_from_slice(header);
    // No input has the right CRC by chance.
    check.copy_from_slice(&frame_check(fields).to_le_bytes());
    if let Ok(decoded) = JournalHeader::decode(&bytes) {
        equal(&JournalHeader::decode(&decoded.encode()), &Ok(decoded.clone()));
        let frames = decoded.frames();
        assert!(frames.is_empty() || slot_offset(frames.end - frames.start - 1) >= HEADER_BYTES as u64);
        equal(&decoded.kinship(&decoded), &PartialMatch::Same);
    }
    if let Some(end) = slot.first_chunk().and_then(RangeEnd::decode) {
        equal(&RangeEnd::decode(&end.encode()), &Some(end));
    }
    if let Some(record) = slot.first_chunk().and_then(|slot| decode_slot(7, slot)) {
        equal(&decode_slot(7, &encode_slot(7, &record)), &Some(record));
    }
}

/// An archive of two-way synchronisation, or a block of one. Entries are read before the digest behind them is, so each
/// must be valid: written again, they make an archive that holds the same.
pub fn archive(data: &[u8]) {
    let header = ArchiveHeader { pair: [1; 32], generation: 1 };
    let mut whole = Vec::new();
    ArchiveWriter::new(&header, &mut whole);
    whole.extend(u32::try_from(data.len()).unwrap_or(u32::MAX).to_le_bytes());
    whole.extend(data);
    for bytes in [data, &whole] {
        let Ok(reader) = ArchiveReader::new(bytes) else { continue };
        let entries: Vec<_> = reader.map_while(Result::ok).collect();
        let mut again = Vec::new();
        let mut writer = ArchiveWriter::new(&header, &mut again);
        entries.iter().for_each(|entry| writer.add(entry, &mut again));
        let summary = writer.finish(&mut again);
        let mut reader = ArchiveReader::new(&again[..]).expect("an archive");
        equal(&reader.by_ref().collect::<Result<Vec<_>, _>>().expect("entries"), &entries);
        equal(&reader.summary(), &Some(summary));
        let [start, end] = ARCHIVE_ENDS_BYTES;
        let claimed = claim(&again[..start], &again[again.len() - end..]).expect("a claim");
        equal(&claimed, &(header, summary));
    }
    let _ = claim(data, data);
}

/// A greeting and, behind it, an answer.
pub fn handshake(data: &[u8]) {
    let Some((greeting, rest)) = data.split_first_chunk::<GREETING_LEN>() else { return };
    if let Ok(decoded) = StreamGreeting::decode(greeting) {
        assert_eq!(decoded.encode(), *greeting);
    }
    let Some(answer) = rest.first_chunk::<ANSWER_LEN>() else { return };
    if let Ok(decoded) = GreetingAnswer::decode(answer) {
        assert_eq!(decoded.encode(), *answer);
    }
    let suites = rest.get(ANSWER_LEN).and_then(|number| CipherSuite::from_number(*number).ok());
    if let Some(suite) = suites {
        assert_eq!(transcript(greeting, answer, suite).len(), GREETING_LEN + ANSWER_LEN + 1);
    }
}

/// The header of a link's frame.
pub fn link_header(data: &[u8]) {
    let Some(header) = data.first_chunk::<HEADER_LEN>() else { return };
    if let Ok((channel, length)) = decode_header(*header) {
        assert!(length <= channel.limit());
        let length = u32::try_from(length).expect("limits are below 4 GiB");
        assert_eq!(encode_header(channel, length), *header);
    }
}

fn check_round_trip<T>(
    data: &[u8],
    decode: impl Fn(&[u8]) -> Result<T, ProtocolError>,
    encode: impl Fn(&T) -> Vec<u8>,
) {
    let Ok(first) = decode(data) else { return };
    let bytes = encode(&first);
    let second = decode(&bytes).unwrap_or_else(|fault| panic!("what was accepted is refused: {fault}"));
    equal(&bytes, &encode(&second));
}

fn equal<T: PartialEq + Debug>(first: &T, second: &T) {
    assert_eq!(first, second, "it came back differently");
}
