use proptest::prelude::*;

use super::*;
use crate::codec::{from_bytes, to_bytes};
use crate::delta::DeltaMethod;
use crate::delta::base::{BaseFile, FramePosition};
use crate::delta::instructions::{decode, encode, make};

const B: usize = ROLLING_BLOCK_MIN as usize;
const F: usize = 64 << 10;

/// Returns pseudo-random bytes, different for each seed.
fn bytes(n: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33).to_le_bytes()[0]
    };
    (0..n).map(|_| next()).collect()
}

fn format(size: usize, block: usize) -> SignatureFormat {
    SignatureFormat::new(size as u64, u32::try_from(block).unwrap(), 0x0102_0304_0506_0708)
}

fn index(old: &[u8], block: usize) -> SignatureIndex {
    let format = format(old.len(), block);
    let mut gathering = SignatureBuilder::new(old.len() as u64, format).unwrap();
    let sums: Vec<_> = old.chunks_exact(block).map(|block| format.sign(block)).collect();
    let half = sums.len() / 2;
    gathering.add(0, &sums[..half]).unwrap();
    assert!(gathering.add(half as u64, &sums[half..]).unwrap());
    SignatureIndex::from(gathering)
}

/// Transfers `new` with the base file `old` as two ends would; returns the number of instruction bytes.
fn delta(old: &[u8], new: &[u8], block: usize) -> usize {
    let index = index(old, block);
    let base = BaseFile { size: old.len() as u64, method: DeltaMethod::Rolling(u32::try_from(block).unwrap()) };
    let (mut made, mut sent) = (Vec::new(), 0);
    let mut shift = None;
    for start in (0..new.len()).step_by(F) {
        let end = (start + F).min(new.len());
        let window = start.saturating_sub(block)..(end + block).min(new.len());
        let frame = start - window.start..end - window.start;
        let spans = index.search(&new[window.clone()], window.start as u64, frame, &mut shift);
        assert_eq!(spans.iter().map(|span| span.bytes.len()).sum::<usize>(), end - start);
        let mut out = vec![0; end - start];
        match encode(&spans, start as u64, &new[start..end]) {
            Some(instructions) => {
                sent += instructions.len();
                let steps = decode(&instructions, start as u64, out.len()).unwrap();
                let place = FramePosition { offset: start as u64, len: out.len(), file_size: new.len() as u64 };
                assert_eq!(base.check(&steps, place), Ok(()), "a source keeps to the rules");
                let read = |offset: u64, into: &mut [u8]| {
                    let offset = usize::try_from(offset).unwrap();
                    into.copy_from_slice(old.get(offset..offset + into.len()).ok_or(())?);
                    Ok::<_, ()>(())
                };
                make(&steps, &mut out, read).unwrap();
            }
            None => {
                sent += out.len();
                out.copy_from_slice(&new[start..end]);
            }
        }
        made.extend(out);
    }
    assert!(made == new, "what is made is not the new file");
    sent
}

#[test]
fn the_rolled_sum_equals_the_sum_at_its_position() {
    let data = bytes(5000, 3);
    for len in [1usize, 63, 64, 65, 2048] {
        let mut weak = RollingSum::of(&data[..len]);
        for at in 0..1000 {
            assert_eq!(weak.sum(), RollingSum::of(&data[at..at + len]).sum(), "{len} at {at}");
            weak.roll(data[at], data[at + len]);
        }
    }
}

#[test]
fn only_inserted_or_moved_data_is_sent() {
    let old = bytes(400_000, 1);
    let most = |changes: usize| 200 + 2 * changes * B;
    assert!(delta(&old, &old, B) <= most(0) + B, "the same");
    let inserted = [&old[..5000], &bytes(1000, 2)[..], &old[5000..]].concat();
    assert!(delta(&old, &inserted, B) <= most(1) + 1000 + B, "inserted");
    assert!(delta(&inserted, &old, B) <= most(1) + B, "removed");
    let moved = [&old[200_000..], &old[..200_000]].concat();
    assert!(delta(&old, &moved, B) <= most(1) + B, "moved");
    let appended = [&old[..], &bytes(70_000, 4)].concat();
    assert!(delta(&old, &appended, B) <= most(0) + 70_000 + 2 * B, "appended");
    assert!(delta(&old, &old[..300_000], B) <= most(0) + B, "cut off");
    let other = bytes(300_000, 5);
    assert!(delta(&old, &other, B) <= 300_000, "nothing in common costs nothing");
}

#[test]
fn a_file_of_many_equal_blocks_is_found_in_itself() {
    let old = [vec![0; 300 * B], bytes(100_000, 1), vec![0; 300 * B]].concat();
    let new = [&bytes(777, 9)[..], &old[..]].concat();
    assert!(delta(&old, &new, B) < 5 * B);
    assert_eq!(delta(&[], &new, B), new.len(), "nothing is found in nothing");
}

/// Returns signatures of `blocks` blocks with the rolling checksum of zeros and strong hashes of nothing.
fn misleading(blocks: u64, block: usize) -> SignatureIndex {
    let format = format(1 << 40, block);
    let weak = format.sign(&vec![0; block]).weak;
    let mut gathering = SignatureBuilder::new(blocks * block as u64, format).unwrap();
    let sums: Vec<_> = (0..blocks).map(|strong| RollingSignature { weak, strong }).collect();
    assert!(gathering.add(0, &sums).unwrap());
    SignatureIndex::from(gathering)
}

#[test]
fn false_sums_do_not_have_a_block_hashed_at_every_byte() {
    for block in [B, ROLLING_BLOCK_MAX as usize] {
        let index = misleading(100, block);
        let window = vec![0; F + 2 * block];
        let mut shift = Some(0);
        let frames = 20;
        for frame in 0..frames {
            let spans = index.search(&window, frame * F as u64, block..block + F, &mut shift);
            assert_eq!(spans, [FrameSpan { old: None, bytes: 0..F }]);
        }
        let hashes = index.effort.hashes.load(Ordering::Relaxed);
        let most = VAIN_HASHES_PER_BYTE * window.len() as u64 / block as u64;
        assert!((1..=most + 2).contains(&hashes), "{hashes} hashes of {block} bytes");
        assert!(index.effort.is_too_much(), "the file is sent without delta");
    }
}

#[test]
fn a_block_with_a_coinciding_rolled_sum_is_not_the_old_block() {
    let old = bytes(20 * B, 3);
    let mut new = old.clone();
    // A change that leaves both sums equal: see the weights.
    let place = 5 * B + new[5 * B..].windows(3).position(|w| w[0] < 255 && w[1] > 1 && w[2] < 255).unwrap();
    (new[place], new[place + 1], new[place + 2]) = (new[place] + 1, new[place + 1] - 2, new[place + 2] + 1);
    let weak = |file: &[u8]| RollingSum::of(&file[5 * B..6 * B]).sum();
    assert_eq!(weak(&old), weak(&new));
    assert!(delta(&old, &new, B) >= B, "the block is sent");
}

#[test]
fn a_hostile_index_is_a_fault() {
    let of = |block| SignatureFormat::new(1 << 20, block, 0);
    for block in [0, ROLLING_BLOCK_MIN - 1, ROLLING_BLOCK_MAX + 1] {
        assert!(SignatureBuilder::new(1 << 20, of(block)).is_err());
    }
    assert!(SignatureBuilder::new(u64::MAX, of(ROLLING_BLOCK_MAX)).is_err());
    let sum = RollingSignature { weak: 0, strong: 0 };
    let mut gathering = SignatureBuilder::new(2 * B as u64 + 1, of(ROLLING_BLOCK_MIN)).unwrap();
    assert!(gathering.add(1, &[sum]).is_err(), "out of order");
    assert!(gathering.add(0, &[sum; 3]).is_err(), "too many");
    assert_eq!(gathering.add(0, &[sum; 2]), Ok(true));
    assert!(gathering.add(2, &[sum]).is_err(), "more than all");
    assert!(gathering.of_format(SignatureFormat { key: 1, ..of(ROLLING_BLOCK_MIN) }).is_err(), "another key");
}

#[test]
fn strong_hashes_are_as_long_as_a_file_needs() {
    for (size, block, bytes) in [
        (1 << 20, 1024, 8),
        (16 << 20, 4096, 9),
        (1 << 30, 32 << 10, 10),
        (1 << 37, 128 << 10, 11),
        (u64::MAX, 1024, 12),
        (0, 1024, 8),
    ] {
        assert_eq!(SignatureFormat::new(size, block, 0).signature_bytes(), bytes, "{size}");
    }
}

#[test]
fn a_signature_depends_on_the_key_and_has_its_formats_length() {
    let block = bytes(B, 1);
    let of = |key, strong_bytes| SignatureFormat { block: ROLLING_BLOCK_MIN, key, strong_bytes };
    let long = of(7, 8).sign(&block);
    assert_ne!(of(8, 8).sign(&block).strong, long.strong);
    for strong_bytes in STRONG_BYTES_MIN..=STRONG_BYTES_MAX {
        let (format, mut out) = (of(7, strong_bytes), Writer::new());
        format.encode(&format.sign(&block), &mut out);
        let out = out.into_bytes();
        assert_eq!(out.len(), format.signature_bytes());
        assert_eq!(out[4..], long.strong.to_le_bytes()[..usize::from(strong_bytes)]);
        assert_eq!(format.decode(&mut Reader::new(&out)), Ok(format.sign(&block)));
    }
    for strong_bytes in [0, STRONG_BYTES_MIN - 1, STRONG_BYTES_MAX + 1, u8::MAX] {
        assert!(from_bytes::<SignatureFormat>(&to_bytes(&of(7, strong_bytes))).is_err(), "{strong_bytes}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_edits_give_the_new_file(
        size in 0usize..200_000, seed: u64, block in 1usize..8,
        edits in prop::collection::vec((0u8..4, any::<prop::sample::Index>(), 0usize..20_000, any::<u64>()), 0..6),
    ) {
        let old = bytes(size, seed);
        let mut new = old.clone();
        for (kind, at, len, seed) in edits {
            let at = at.index(new.len() + 1);
            let end = (at + len).min(new.len());
            match kind {
                0 => drop(new.splice(at..at, bytes(len, seed))),
                1 => drop(new.drain(at..end)),
                2 => drop(new.splice(at..end, bytes(end - at, seed))),
                _ => {
                    let moved: Vec<_> = new.drain(at..end).collect();
                    let to = usize::try_from(seed % (new.len() as u64 + 1)).unwrap();
                    drop(new.splice(to..to, moved));
                }
            }
        }
        delta(&old, &new, block * B);
    }
}

#[test]
fn every_block_is_found_by_its_rolled_sum() {
    // As many blocks as the index holds before it doubles.
    let (block, blocks) = (ROLLING_BLOCK_MIN as usize, 8192);
    let old = bytes(blocks * block, 11);
    let index = index(&old, block);
    let found = |number: &usize| {
        let bytes = &old[number * block..(number + 1) * block];
        index.find(RollingSum::of(bytes).sum(), bytes) == Some(*number)
    };
    assert_eq!((0..blocks).filter(found).count(), blocks);
}
