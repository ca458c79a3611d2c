//! Each digest against what is published of it, and against itself over frames in any order.

use std::sync::atomic::{AtomicUsize, Ordering};

use haul_proto::integrity::FrameLen;
use proptest::prelude::*;

use super::*;

/// Of nothing, and of the nine digits or `abc`: RFC 1321, FIPS 180-4's examples, the catalogue of CRCs, zlib, xxhsum
/// and b3sum.
const KNOWN: [(&str, &str, &str, &str); 11] = [
    ("a32", "00000001", "123456789", "091e01de"),
    ("c32", "ffffffff", "123456789", "377a6011"),
    ("c32z", "00000000", "123456789", "cbf43926"),
    ("md5", "d41d8cd98f00b204e9800998ecf8427e", "abc", "900150983cd24fb0d6963f7d28e17f72"),
    ("crc32c", "00000000", "123456789", "e3069283"),
    ("crc64nvme", "0000000000000000", "123456789", "ae8b14860a799888"),
    ("sha1", "da39a3ee5e6b4b0d3255bfef95601890afd80709", "abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
    (
        "sha256",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "abc",
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    ),
    (
        "sha512",
        "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e",
        "abc",
        "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
    ),
    ("xxh3", "2d06800538d394c2", "abc", "78af5f94892f3950"),
    (
        "blake3",
        "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
        "abc",
        "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85",
    ),
];

const F: usize = 256 << 10;

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at.wrapping_mul(2_654_435_761) >> 9).to_le_bytes()[0]).collect()
}

fn frames_of(data: &[u8]) -> impl ReadFrame + '_ {
    |index, room: &mut [u8]| {
        let start = usize::try_from(index).unwrap() * F;
        let len = room.len().min(data.len() - start);
        room[..len].copy_from_slice(&data[start..start + len]);
        Ok(len)
    }
}

fn frame(data: &[u8], index: usize) -> &[u8] {
    &data[index * F..data.len().min((index + 1) * F)]
}

#[test]
fn each_digest_matches_its_published_value() {
    assert_eq!(KNOWN.map(|row| row.0), ChecksumAlgorithm::all().map(ChecksumAlgorithm::name).collect::<Vec<_>>()[..]);
    for (name, of_nothing, text, of_text) in KNOWN {
        let algorithm = ChecksumAlgorithm::named(name).unwrap();
        assert_eq!(hex(&sum_of(algorithm, b"")), of_nothing, "{name}");
        assert_eq!(hex(&sum_of(algorithm, text.as_bytes())), of_text, "{name}");
        assert_eq!(of_text.len(), 2 * algorithm.bytes());
        let mut hasher = Hasher::new(algorithm);
        text.bytes().for_each(|byte| hasher.update(&[byte]));
        assert_eq!(hex(&hasher.finish()), of_text, "{name}, byte by byte");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn frames_in_any_order_give_the_digest_of_the_file(
        frames in 0usize..9, tail in 1usize..F, order: [u8; 9], held: [bool; 9], twice: bool,
    ) {
        let data = bytes(frames.saturating_sub(1) * F + if frames > 0 { tail } else { 0 });
        let size = data.len() as u64;
        let mut indices: Vec<usize> = (0..frames).filter(|index| !held[*index]).collect();
        indices.sort_by_key(|index| order[*index]);
        for algorithm in ChecksumAlgorithm::all() {
            let sum = FileChecksum::new(algorithm, FrameLen::new(256 << 10).unwrap());
            for index in &indices {
                for _ in 0..=usize::from(twice) {
                    sum.update(*index as u64, frame(&data, *index));
                    sum.frame_written(*index as u64, size, frames_of(&data));
                }
            }
            prop_assert_eq!(sum.value(), None);
            sum.finish(size, frames_of(&data), || true).unwrap();
            prop_assert_eq!(sum.value().map(hex), Some(hex(&sum_of(algorithm, &data))), "{}", algorithm.name());
        }
    }
}

#[test]
fn in_order_data_is_not_reread_and_combinable_digests_never_reread() {
    let data = bytes(5 * F + 7);
    let reads = AtomicUsize::new(0);
    let read = |index, room: &mut [u8]| {
        reads.fetch_add(1, Ordering::Relaxed);
        frames_of(&data)(index, room)
    };
    for (name, order, expected) in [
        ("md5", [0, 1, 2, 3, 4, 5], 0),
        ("md5", [5, 0, 2, 1, 3, 4], 2),
        ("c32", [5, 0, 2, 1, 4, 3], 0),
        ("c32z", [5, 0, 2, 1, 4, 3], 0),
    ] {
        reads.store(0, Ordering::Relaxed);
        let sum = FileChecksum::new(ChecksumAlgorithm::named(name).unwrap(), FrameLen::new(256 << 10).unwrap());
        for index in order {
            sum.update(index as u64, frame(&data, index));
            sum.frame_written(index as u64, data.len() as u64, read);
        }
        sum.finish(data.len() as u64, read, || true).unwrap();
        assert_eq!(
            (sum.value(), reads.load(Ordering::Relaxed)),
            (Some(&sum_of(ChecksumAlgorithm::named(name).unwrap(), &data)[..]), expected),
            "{name} {order:?}"
        );
    }
}

#[test]
fn an_unreadable_file_has_no_digest() {
    let frame = FrameLen::new(256 << 10).unwrap();
    for algorithm in [ChecksumAlgorithm::Md5, ChecksumAlgorithm::Cksum, ChecksumAlgorithm::Crc32] {
        let sum = FileChecksum::new(algorithm, frame);
        assert!(sum.finish(9, |_, _: &mut [u8]| Ok(8), || true).is_err(), "it became shorter");
        assert!(sum.finish(9, |_, _: &mut [u8]| Err(io::ErrorKind::Other.into()), || true).is_err());
        assert!(sum.finish(9, |_, _: &mut [u8]| Ok(9), || false).is_err(), "nobody wants it");
        assert_eq!(sum.value(), None);
    }
}

#[test]
fn in_turn_data_needs_no_rereading() {
    let data = bytes(3 * F);
    for algorithm in ChecksumAlgorithm::all() {
        let sum = FileChecksum::new(algorithm, FrameLen::new(256 << 10).unwrap());
        (0..3).for_each(|index| sum.update_in_order(index as u64, frame(&data, index)));
        sum.finish(data.len() as u64, |_, _: &mut [u8]| Err(io::ErrorKind::Other.into()), || true).unwrap();
        assert_eq!(sum.value(), Some(&sum_of(algorithm, &data)[..]));
    }
}

#[test]
fn a_verdict_names_both() {
    let against = |against| ChecksumRequest { algorithm: ChecksumAlgorithm::Adler32, at_source: false, against };
    let value = against(ChecksumSource::Value(vec![0, 0, 0, 1]));
    assert_eq!(verdict(&value, &[0, 0, 0, 1], None), Ok(()));
    let mismatch = verdict(&value, &[0, 0, 0, 2], None).unwrap_err();
    assert_eq!(mismatch.to_string(), "a32 mismatch: 00000002 instead of 00000001");
    assert_eq!(verdict(&against(ChecksumSource::Nothing), &[9; 4], Some(&[8; 4])), Ok(()));
    assert_eq!(verdict(&against(ChecksumSource::Lines), &[9; 4], None), Ok(()));
    assert!(verdict(&against(ChecksumSource::Lines), &[9; 4], Some(&[8; 4])).is_err());
}
