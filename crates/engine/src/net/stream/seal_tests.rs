//! What is sealed opens only as it was sealed: unchanged, in order, under its own keys.

use haul_proto::integrity::FrameLen;
use haul_proto::wire::frame::{RecordPrefix, RecordTrailer};
use haul_proto::wire::sparse::PayloadShape;

use super::*;

fn schedule(transcript: &[u8], suite: CipherSuite, rekey_bytes: u64) -> KeySchedule {
    KeySchedule::new(&[7; 32], transcript, suite, rekey_bytes)
}

fn sealed(sealer: &mut RecordSealer, payload: &[u8]) -> Vec<u8> {
    let mut record = FrameBuffer::new(FrameLen::DEFAULT);
    record.room_mut()[..payload.len()].copy_from_slice(payload);
    record.set_payload_len(payload.len());
    record.set_trailer(&PayloadShape::default(), &RecordTrailer::End { records: 9 });
    sealer.seal(&mut record).unwrap();
    record.wire().to_vec()
}

fn opened(opener: &mut RecordOpener, wire: &[u8]) -> Result<Vec<u8>, ProtocolError> {
    let mut record = FrameBuffer::empty();
    let (prefix, rest) = wire.split_first_chunk::<PREFIX_LEN>().unwrap();
    let prefix = RecordPrefix::decode(*prefix)?;
    if prefix.rest_len() != rest.len() {
        return Err(ProtocolError::Truncated);
    }
    record.set_lengths(prefix);
    record.after_prefix_mut().copy_from_slice(rest);
    opener.open(&mut record)?;
    assert_eq!(RecordTrailer::decode(record.trailer(), 0), Ok(RecordTrailer::End { records: 9 }));
    Ok(record.payload().to_vec())
}

#[test]
fn every_suite_opens_its_records_and_notices_every_flipped_bit() {
    for (suite, _) in CipherSuite::ALL {
        let keys = schedule(b"t", suite, 1 << 30);
        let wire = sealed(&mut keys.sealer(KeyDirection::FromConnector).unwrap(), b"some bytes");
        let opener = || keys.opener(KeyDirection::FromConnector).unwrap();
        assert_eq!(opened(&mut opener(), &wire).unwrap(), b"some bytes");
        for bit in 0..wire.len() * 8 {
            let mut changed = wire.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(opened(&mut opener(), &changed).is_err(), "{suite:?}: bit {bit}");
        }
    }
}

#[test]
fn only_without_encryption_is_the_payload_in_the_clear_and_the_trailer_never() {
    for (suite, _) in CipherSuite::ALL {
        let keys = schedule(b"t", suite, 1 << 30);
        let wire = sealed(&mut keys.sealer(KeyDirection::FromAcceptor).unwrap(), b"a payload to look for");
        let clear = wire.windows(21).any(|window| window == b"a payload to look for");
        assert_eq!(clear, suite == CipherSuite::AuthenticateOnly);
        let mut trailer = haul_proto::encoding::Writer::new();
        RecordTrailer::End { records: 9 }.encode(&mut trailer);
        let trailer = trailer.into_bytes();
        assert!(!wire.windows(trailer.len()).any(|window| window == trailer));
    }
}

#[test]
fn records_open_in_order_and_on_their_own_connection_only() {
    let keys = schedule(b"t", CipherSuite::Aes256Gcm, 1 << 30);
    let mut sealer = keys.sealer(KeyDirection::FromConnector).unwrap();
    let (first, second) = (sealed(&mut sealer, b"1"), sealed(&mut sealer, b"2"));
    let mut opener = keys.opener(KeyDirection::FromConnector).unwrap();
    assert!(opened(&mut opener, &second).is_err(), "a record was left out");
    let mut opener = keys.opener(KeyDirection::FromConnector).unwrap();
    assert!(opened(&mut opener, &first).is_ok());
    assert!(opened(&mut opener, &first).is_err(), "a record came twice");
    let other = schedule(b"another connection", CipherSuite::Aes256Gcm, 1 << 30);
    assert!(opened(&mut other.opener(KeyDirection::FromConnector).unwrap(), &first).is_err());
    assert!(opened(&mut keys.opener(KeyDirection::FromAcceptor).unwrap(), &first).is_err(), "sent back to its sender");
    let downgraded = schedule(b"t", CipherSuite::AuthenticateOnly, 1 << 30);
    assert!(opened(&mut downgraded.opener(KeyDirection::FromConnector).unwrap(), &first).is_err());
}

#[test]
fn keys_change_at_the_limit_at_both_ends() {
    let keys = schedule(b"t", CipherSuite::Aes256Gcm, 1000);
    let mut sealer = keys.sealer(KeyDirection::FromConnector).unwrap();
    let mut opener = keys.opener(KeyDirection::FromConnector).unwrap();
    for i in 0..100u8 {
        let wire = sealed(&mut sealer, &[i; 300]);
        assert_eq!(opened(&mut opener, &wire).unwrap(), [i; 300]);
    }
    assert!(sealer.0.generation >= 30, "{}", sealer.0.generation);
    let late = schedule(b"t", CipherSuite::Aes256Gcm, 2000);
    let mut opener = late.opener(KeyDirection::FromConnector).unwrap();
    let mut sealer = keys.sealer(KeyDirection::FromConnector).unwrap();
    let all_open = (0..10).all(|_| opened(&mut opener, &sealed(&mut sealer, &[0; 300])).is_ok());
    assert!(!all_open, "a key lived beyond its limit");
}

#[test]
fn a_record_missing_at_a_key_change_is_noticed() {
    let keys = schedule(b"t", CipherSuite::Aes256Gcm, 1000);
    let mut sealer = keys.sealer(KeyDirection::FromConnector).unwrap();
    let [first, left_out, next] = [500, 100, 600].map(|len| sealed(&mut sealer, &vec![1; len]));
    assert_eq!((sealer.0.generation, sealer.0.records), (1, 1), "the key changes at the third record");
    let mut opener = keys.opener(KeyDirection::FromConnector).unwrap();
    assert!(opened(&mut opener, &first).is_ok());
    assert!(opened(&mut opener, &next).is_err());
    let mut opener = keys.opener(KeyDirection::FromConnector).unwrap();
    assert!([first, left_out, next].iter().all(|wire| opened(&mut opener, wire).is_ok()));
}
