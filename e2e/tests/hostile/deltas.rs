//! A source that reads files of the target by deltas: it guesses bytes of an old file, and watches whether the target asks
//! for the frame itself.

use haul_e2e::Rng;
use haul_proto::delta::instructions::DeltaInstruction;
use haul_proto::delta::options::{DeltaMode, DeltaOptions};
use haul_proto::encoding::Writer;
use haul_proto::ids::{CopyNumber, EntryId};
use haul_proto::integrity::FrameLen;
use haul_proto::limits::FRAME_MIN;
use haul_proto::overwrite_policy::OverwritePolicy;
use haul_proto::sync::EqualityTest;
use haul_proto::wire::frame::{DeltaFrame, RecordTrailer};
use haul_proto::wire::message::{TargetMessage, TransferNeed};

use super::raw;
use super::scene::{FRAME, Scene};

/// Bytes of the old file and of the one that is offered: three frames, the last one short.
const SIZE: u64 = 2 * FRAME + 50_000;
/// Block size of the signatures for a file of this size.
const BLOCK: u64 = 1024;
const PAGE: u64 = 4096;
/// Bytes of a block that is cut.
const CUT: u64 = 16;

fn usize_of(number: u64) -> usize {
    usize::try_from(number).expect("a short length")
}

/// Content known only to the target.
fn secret(seed: u64) -> Vec<u8> {
    Rng::new(seed).bytes(usize_of(SIZE))
}

/// A target that replaces files, with two old ones.
fn scene(delta: DeltaMode, in_place: bool, wrong_before: u32) -> Scene {
    let scene = Scene::with(&mut Rng::new(1), |request| {
        request.delta = DeltaOptions { delta, in_place, wrong_before };
        request.write.overwrite = OverwritePolicy::Replace;
        request.digest_existing = false;
    });
    for (name, seed) in [("secret", 7), ("other", 8)] {
        std::fs::write(scene.landing().join("tree").join(name), secret(seed)).expect("an old file");
    }
    scene
}

/// Offers files of a directory; gives the id of the first one, after the target's signatures of all.
fn offer(scene: &mut Scene, tree: u64, names: &[&[u8]]) -> u64 {
    let first = scene.next;
    let entries: Vec<_> = names.iter().map(|name| raw::file(tree, name, SIZE)).collect();
    assert_eq!(scene.needs(&entries), vec![TransferNeed::Delta; names.len()]);
    for _ in names {
        let told = |message| {
            matches!(message, TargetMessage::BlockHashes { .. } | TargetMessage::RollingSignatures { .. }).then_some(())
        };
        scene.wait_for(told).expect("it is told what the old file has");
    }
    first
}

/// Sends a delta of a frame.
fn send(scene: &mut Scene, entry: u64, index: u64, steps: &[DeltaInstruction<'_>], value: [u8; 32]) {
    let (offset, mut expected) = (index * FRAME, index * FRAME);
    let (mut out, mut plain) = (Writer::new(), 0);
    for step in steps {
        let len = match *step {
            DeltaInstruction::New(bytes) => {
                out.varint((bytes.len() as u64) << 1).raw(bytes);
                bytes.len()
            }
            DeltaInstruction::Old { offset, len } => {
                let (difference, negative) = (offset.wrapping_sub(expected), offset < expected);
                let difference = if negative { !(difference << 1) } else { difference << 1 };
                out.varint((len as u64) << 1 | 1).varint(difference);
                expected = offset;
                len
            }
        };
        (expected, plain) = (expected.wrapping_add(len as u64), plain + len);
    }
    let frame = DeltaFrame { copy: CopyNumber(raw::COPY), entry: EntryId(entry), offset, plain, value };
    let mut trailer = Writer::new();
    RecordTrailer::Delta(frame).encode(&mut trailer);
    scene.record(&out.into_bytes(), &trailer.into_bytes());
}

fn old(offset: u64, len: u64) -> DeltaInstruction<'static> {
    DeltaInstruction::Old { offset, len: usize_of(len) }
}

/// The value of a frame of a file of that size.
fn value(index: u64, bytes: &[u8]) -> [u8; 32] {
    FrameLen::new(FRAME_MIN).expect("a frame's length").hash(SIZE, index, bytes)
}

/// Guesses the first byte of the second block, cut by the end of the first frame. Some bytes after it are known (a
/// delta has to be shorter than its frame).
fn guess(scene: &mut Scene, entry: u64, seed: u64, byte: u8) {
    let (start, known) = (usize_of(FRAME - CUT), secret(seed));
    let mut bytes = vec![0; usize_of(FRAME)];
    bytes[start..].copy_from_slice(&known[usize_of(BLOCK)..usize_of(BLOCK + CUT)]);
    bytes[start] = byte;
    let steps = [DeltaInstruction::New(&bytes[..start]), old(BLOCK, CUT)];
    send(scene, entry, 0, &steps, value(0, &bytes));
}

/// Whether the target asks for the frame itself.
fn is_asked_for(scene: &mut Scene, id: u64) -> Result<(), String> {
    scene.wait_for(|message| match message {
        TargetMessage::MissingRanges { entry, .. } if entry.0 == id => Some(()),
        _ => None,
    })
}

#[test]
fn guesses_after_a_wrong_one_are_all_answered_alike() {
    let mut scene = scene(DeltaMode::Rolling, false, 0);
    let tree = scene.open_tree();
    let id = offer(&mut scene, tree, &[b"secret"]);
    let right = secret(7)[usize_of(BLOCK)];
    guess(&mut scene, id, 7, right.wrapping_add(1));
    assert_eq!(is_asked_for(&mut scene, id), Ok(()));
    for byte in 0..=255 {
        guess(&mut scene, id, 7, byte);
        assert_eq!(is_asked_for(&mut scene, id), Ok(()), "the right one was {right}, this is {byte}");
    }
    // Neither a second entry nor the same file offered anew has an old file.
    let again = [raw::file(tree, b"secret", SIZE), raw::anew(raw::FILE, id, &raw::number(SIZE))];
    for entry in again {
        assert_eq!(scene.needs(&[entry]), [TransferNeed::All]);
    }
    assert_eq!(std::fs::read(scene.landing().join("tree/secret")).expect("it is there"), secret(7));
    assert_eq!(scene.goes_on(), Ok(()));
}

#[test]
fn two_entries_of_one_old_file_are_one_guess_and_a_second_file_is_a_fault() {
    let mut scene = scene(DeltaMode::Rolling, false, 0);
    let tree = scene.open_tree();
    let first = offer(&mut scene, tree, &[b"secret", b"secret", b"other"]);
    let right = secret(7)[usize_of(BLOCK)];
    guess(&mut scene, first, 7, right.wrapping_add(1));
    assert_eq!(is_asked_for(&mut scene, first), Ok(()));
    guess(&mut scene, first + 1, 7, right);
    assert_eq!(is_asked_for(&mut scene, first + 1), Ok(()));
    guess(&mut scene, first + 2, 8, secret(8)[usize_of(BLOCK)].wrapping_add(1));
    let fault = scene.fault().expect("a reason");
    assert!(fault.contains("deltas with a wrong value"), "{fault}");
    assert_eq!(scene.end("two entries of one old file are one guess and a second file is a fault"), Some(1));
}

#[test]
fn a_wrong_guess_of_an_earlier_attempt_counts() {
    let mut scene = scene(DeltaMode::Rolling, false, 1);
    let tree = scene.open_tree();
    let id = offer(&mut scene, tree, &[b"secret"]);
    guess(&mut scene, id, 7, secret(7)[usize_of(BLOCK)].wrapping_add(1));
    let fault = scene.fault().expect("a reason");
    assert!(fault.contains("deltas with a wrong value"), "{fault}");
    scene.end("a wrong guess of an earlier attempt counts");
}

#[test]
fn a_file_updated_in_place_cannot_be_guessed_either() {
    let mut scene = scene(DeltaMode::Blocks, true, 0);
    let tree = scene.open_tree();
    let id = offer(&mut scene, tree, &[b"secret"]);
    let mut bytes = secret(7)[..usize_of(FRAME)].to_vec();
    let right = value(0, &bytes);
    bytes[0] ^= 1;
    send(&mut scene, id, 0, &[old(0, FRAME)], value(0, &bytes));
    assert_eq!(is_asked_for(&mut scene, id), Ok(()));
    send(&mut scene, id, 0, &[old(0, FRAME)], right);
    assert_eq!(is_asked_for(&mut scene, id), Ok(()));
    assert_eq!(scene.needs(&[raw::anew(raw::FILE, id, &raw::number(SIZE))]), [TransferNeed::All]);
    assert_eq!(std::fs::read(scene.landing().join("tree/secret")).expect("it is there"), secret(7));
    assert_eq!(scene.goes_on(), Ok(()));
}

/// Of the first frame, by default.
type Form = (&'static str, Vec<DeltaInstruction<'static>>);

fn forms_of_blocks() -> Vec<Form> {
    let zeros: &'static [u8] = Box::leak(vec![0; usize_of(FRAME)].into_boxed_slice());
    let new = |len: u64| DeltaInstruction::New(&zeros[..usize_of(len)]);
    vec![
        ("some bytes", vec![old(0, CUT), new(FRAME - CUT)]),
        ("less than a block", vec![old(0, PAGE - 1), new(FRAME - PAGE + 1)]),
        ("the end of a block", vec![new(1), old(1, PAGE - 1), new(FRAME - PAGE)]),
        ("more than a block", vec![old(0, PAGE + 1), new(FRAME - PAGE - 1)]),
        ("some bytes at the end", vec![new(FRAME - CUT), old(FRAME - CUT, CUT)]),
        ("a block of another place", vec![old(PAGE, PAGE), new(FRAME - PAGE)]),
        ("another frame", vec![old(FRAME, FRAME)]),
        ("what is behind the end", vec![new(FRAME - PAGE), old(SIZE, PAGE)]),
    ]
}

fn forms_of_sums() -> Vec<Form> {
    let zeros: &'static [u8] = Box::leak(vec![0; usize_of(FRAME)].into_boxed_slice());
    let new = |len: u64| DeltaInstruction::New(&zeros[..usize_of(len)]);
    let whole = SIZE / BLOCK * BLOCK;
    vec![
        ("some bytes in the middle", vec![new(1), old(BLOCK, CUT), new(FRAME - CUT - 1)]),
        ("some bytes at the file's beginning", vec![old(BLOCK + 1, CUT), new(FRAME - CUT)]),
        ("the end of a block at the file's beginning", vec![old(BLOCK + 1, BLOCK - 1), new(FRAME - BLOCK + 1)]),
        ("a block that is moved by a byte", vec![new(1), old(1, BLOCK), new(FRAME - BLOCK - 1)]),
        ("less than a block", vec![new(1), old(0, BLOCK - 1), new(FRAME - BLOCK)]),
        ("more than a block", vec![new(1), old(0, BLOCK + 1), new(FRAME - BLOCK - 2)]),
        ("what has no sum", vec![new(FRAME - CUT), old(whole, CUT)]),
        ("a block and what has no sum", vec![new(FRAME - BLOCK - 1), old(whole - BLOCK, BLOCK + 1)]),
        ("what is behind the end", vec![new(FRAME - BLOCK), old(SIZE.next_multiple_of(BLOCK), BLOCK)]),
        ("what is far behind the end", vec![new(FRAME - BLOCK), old(u64::MAX - BLOCK, BLOCK)]),
    ]
}

#[test]
fn base_file_bytes_outside_reported_blocks_are_a_fault() {
    for (delta, in_place, forms) in [
        (DeltaMode::Blocks, false, forms_of_blocks()),
        (DeltaMode::Blocks, true, forms_of_blocks()),
        (DeltaMode::Rolling, false, forms_of_sums()),
    ] {
        for (name, steps) in forms {
            let mut scene = scene(delta, in_place, 0);
            let tree = scene.open_tree();
            let id = offer(&mut scene, tree, &[b"secret"]);
            send(&mut scene, id, 0, &steps, [0; 32]);
            let fault = scene.fault().unwrap_or_else(|| panic!("{name}: ended without a word"));
            assert!(fault.contains("base file"), "{delta:?} {name}: {fault}");
            assert_eq!(
                scene.end("bytes of an old file that are no block it was told of are a fault"),
                Some(1),
                "{name}"
            );
        }
    }
}

#[test]
fn an_unreported_frame_is_not_built_from_the_base_file() {
    let mut scene = scene(DeltaMode::Blocks, false, 0);
    std::fs::write(scene.landing().join("tree/secret"), &secret(7)[..usize_of(FRAME)]).expect("a shorter one");
    let tree = scene.open_tree();
    let id = offer(&mut scene, tree, &[b"secret"]);
    let zeros = vec![0; usize_of(FRAME - PAGE)];
    send(&mut scene, id, 1, &[old(FRAME, PAGE), DeltaInstruction::New(&zeros)], [0; 32]);
    assert!(scene.fault().is_some());
    scene.end("a frame of which nothing was told is not made of the old file");
}

#[test]
fn right_deltas_make_the_file() {
    for (delta, in_place) in [(DeltaMode::Blocks, false), (DeltaMode::Blocks, true), (DeltaMode::Rolling, false)] {
        let mut scene = scene(delta, in_place, 0);
        let tree = scene.open_tree();
        let id = offer(&mut scene, tree, &[b"secret"]);
        let bytes = secret(7);
        for (index, frame) in (0..).zip(bytes.chunks(usize_of(FRAME))) {
            let (start, len) = (index * FRAME, frame.len() as u64);
            // Bytes after the last complete block have no sum.
            let known = if delta == DeltaMode::Rolling { len / BLOCK * BLOCK } else { len };
            let mut steps = vec![old(start, known)];
            if known < len {
                steps.push(DeltaInstruction::New(&frame[usize_of(known)..]));
            }
            send(&mut scene, id, index, &steps, value(index, frame));
        }
        scene.say(&raw::file_end(id, SIZE, *blake3::hash(&bytes).as_bytes()));
        let done = scene.wait_for(|message| matches!(message, TargetMessage::Done { .. }).then_some(()));
        assert_eq!(done, Ok(()), "{delta:?} {in_place}");
        assert_eq!(std::fs::read(scene.landing().join("tree/secret")).expect("it is there"), bytes);
        scene.end("right deltas make the file");
    }
}

/// Offers a file with a digest; gives the target's need.
fn offer_digest(scene: &mut Scene, tree: u64, digest: [u8; 32]) -> TransferNeed {
    let mut more = Writer::new();
    more.u8(raw::MORE_DIGEST).raw(&digest);
    let entry = raw::with_more(raw::file(tree, b"secret", SIZE), &more.into_bytes());
    scene.needs(&[entry])[0]
}

#[test]
fn a_file_with_a_wrongly_guessed_digest_is_not_compared_again() {
    let mut scene = Scene::with(&mut Rng::new(1), |request| {
        request.delta = DeltaOptions::default();
        request.sync.equal = EqualityTest::Digest;
        request.write.overwrite = OverwritePolicy::Replace;
        request.digest_existing = false;
    });
    std::fs::write(scene.landing().join("tree/secret"), secret(7)).expect("an old file");
    let tree = scene.open_tree();
    let right = *blake3::hash(&secret(7)).as_bytes();
    assert_eq!(offer_digest(&mut scene, tree, right), TransferNeed::Nothing);
    assert_eq!(offer_digest(&mut scene, tree, [7; 32]), TransferNeed::All);
    for digest in [[8; 32], right] {
        assert_eq!(offer_digest(&mut scene, tree, digest), TransferNeed::All);
    }
    assert_eq!(std::fs::read(scene.landing().join("tree/secret")).expect("it is there"), secret(7));
    scene.end("a file whose digest was guessed wrong is not compared again");
}
