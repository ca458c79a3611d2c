//! The keys and sealed records in `crates/proto/tests/vectors.txt` are what this code makes, and it opens them. The
//! vectors of everything else are tested in haul-proto.

use haul_lab::check_vectors;
use haul_proto::encoding::Writer;
use haul_proto::ids::{CopyId, CopyNumber, EntryId, PathId, StreamId};
use haul_proto::integrity::{FrameLen, frame_check};
use haul_proto::limits::REKEY_BYTES;
use haul_proto::wire::frame::{DataFrame, RecordPrefix, RecordTrailer};
use haul_proto::wire::handshake::{GreetingAnswer, StreamGreeting, transcript};
use haul_proto::wire::sparse::PayloadShape;

use super::*;

const PAYLOAD: &[u8] = b"eleven byte";

/// What both ends of the document's example said, under one suite.
fn example_transcript(suite: CipherSuite) -> Vec<u8> {
    let counted = |from: u8| std::array::from_fn(|i| from + u8::try_from(i).expect("below 32"));
    let greeting =
        StreamGreeting { session: CopyId([0x11; 16]), stream: StreamId(3), path: PathId(0), random: counted(0x20) };
    transcript(&greeting.encode(), &GreetingAnswer { random: counted(0x40) }.encode(), suite)
}

fn example_schedule(suite: CipherSuite, rekey_bytes: u64) -> KeySchedule {
    let secret = std::array::from_fn(|i| u8::try_from(i).expect("below 32"));
    KeySchedule::new(&secret, &example_transcript(suite), suite, rekey_bytes)
}

/// The bytes of a key, derived as the schedule derives them; the sealed records show that these are the keys in use.
fn key_bytes(keys: &KeySchedule, direction: KeyDirection, generation: u32) -> Vec<u8> {
    let mut bytes = vec![0; aead::key_len(keys.suite)];
    let info = key_info(direction, generation);
    let (info, length) = ([&info[..]], KeyLen(bytes.len()));
    keys.root.expand(&info, length).and_then(|key| key.fill(&mut bytes)).expect("a key");
    bytes
}

fn data_trailer() -> RecordTrailer {
    let value = *blake3::hash(PAYLOAD).as_bytes();
    RecordTrailer::Data(DataFrame {
        copy: CopyNumber(1),
        entry: EntryId(1),
        offset: 0,
        check: frame_check(PAYLOAD),
        value,
    })
}

fn sealed(sealer: &mut RecordSealer, payload: &[u8], trailer: &RecordTrailer) -> Vec<u8> {
    let mut record = FrameBuffer::new(FrameLen::DEFAULT);
    record.room_mut()[..payload.len()].copy_from_slice(payload);
    record.set_payload_len(payload.len());
    record.set_trailer(&PayloadShape::default(), trailer);
    sealer.seal(&mut record).expect("sealed");
    record.wire().to_vec()
}

/// Opens a record with a bare key and nonce, as another implementation of the document would.
fn open_by_the_document(suite: CipherSuite, key: &[u8], counter: u64, wire: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let key = CipherKey::new(CipherLibrary::of_this_cpu(suite), suite, key).expect("a key of the right length");
    let prefix = RecordPrefix::decode(wire[..PREFIX_LEN].try_into().expect("a prefix")).expect("a prefix");
    let clear = if suite == CipherSuite::AuthenticateOnly { PREFIX_LEN + prefix.payload } else { PREFIX_LEN };
    let nonce: Vec<u8> = [&[0; 4][..], &counter.to_le_bytes()].concat();
    let (sealed, tag) = wire[clear..].split_at(wire.len() - clear - TAG_LEN);
    let mut opened = sealed.to_vec();
    key.open(nonce.try_into().expect("12 bytes"), &wire[..clear], &mut opened, tag).expect("authentic");
    let plain = [&wire[PREFIX_LEN..clear], &opened].concat();
    (plain[..prefix.payload].to_vec(), plain[prefix.payload..].to_vec())
}

#[test]
fn keys() {
    let mut vectors = Vec::new();
    for (suite, number) in CipherSuite::ALL {
        let salt = digest(&SHA256, &example_transcript(suite));
        vectors.push((format!("suite {number}, SHA-256 of the transcript"), salt.as_ref().to_vec()));
        let keys = example_schedule(suite, REKEY_BYTES);
        for (from, direction) in [("connector", KeyDirection::FromConnector), ("acceptor", KeyDirection::FromAcceptor)]
        {
            for generation in 0..2 {
                let bytes = key_bytes(&keys, direction, generation);
                vectors.push((format!("suite {number}, from {from}, generation {generation}"), bytes));
            }
        }
    }
    check_vectors("keys", &vectors);
}

#[test]
fn sealed_records() {
    let mut vectors = Vec::new();
    for (suite, number) in CipherSuite::ALL {
        let keys = example_schedule(suite, REKEY_BYTES);
        let mut sealer = keys.sealer(KeyDirection::FromConnector).expect("a sealer");
        let finished = sealed(&mut sealer, b"", &RecordTrailer::Finished);
        let data = sealed(&mut sealer, PAYLOAD, &data_trailer());
        let key = key_bytes(&keys, KeyDirection::FromConnector, 0);
        assert_eq!(open_by_the_document(suite, &key, 0, &finished), (vec![], vec![0]));
        check_data(&open_by_the_document(suite, &key, 1, &data));
        vectors.push((format!("suite {number}, record 0: Finished"), finished));
        vectors.push((format!("suite {number}, record 1: Data"), data));
    }
    let keys = example_schedule(CipherSuite::Aes256Gcm, 100);
    let mut sealer = keys.sealer(KeyDirection::FromConnector).expect("a sealer");
    sealed(&mut sealer, b"", &RecordTrailer::Finished);
    let rekeyed = sealed(&mut sealer, PAYLOAD, &data_trailer());
    let key = key_bytes(&keys, KeyDirection::FromConnector, 1);
    check_data(&open_by_the_document(CipherSuite::Aes256Gcm, &key, 1, &rekeyed));
    vectors.push(("suite 1, record 1 where a key seals 100 bytes".into(), rekeyed));
    check_vectors("records", &vectors);
}

fn check_data((payload, trailer): &(Vec<u8>, Vec<u8>)) {
    let mut expected = Writer::new();
    data_trailer().encode(&mut expected);
    assert_eq!((&payload[..], trailer), (PAYLOAD, &expected.into_bytes()));
}
