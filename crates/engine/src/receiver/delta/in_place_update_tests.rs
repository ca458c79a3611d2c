use haul_proto::delta::blocks::{self, BLOCK};
use haul_proto::delta::patch::append;
use haul_proto::ids::{CopyNumber, EntryId};
use haul_proto::integrity::FrameLen;
use haul_proto::limits::FRAME_MIN;
use haul_proto::path::Name;

use super::*;
use crate::receiver::file::patch::{InPlaceUpdate, patch_name};

const F: usize = FRAME_MIN as usize;

fn bytes(n: usize, add: usize) -> Vec<u8> {
    (0..n).map(|i| ((i + add).wrapping_mul(2_654_435_761) >> 9).to_le_bytes()[0]).collect()
}

fn update() -> InPlaceUpdate {
    InPlaceUpdate::of(&FileStat::at_fd(tempfile::tempfile().unwrap()).unwrap())
}

/// A frame to become `new`, in an existing file with `old`.
fn in_place(old: &[u8], new: &[u8]) -> (InPlaceUpdate, DeltaFrame) {
    let frame = FrameLen::new(FRAME_MIN).unwrap();
    let in_place = update();
    in_place.keep(vec![(1, blocks::values(frame, 1, old))]);
    let value = frame.hash(3 * F as u64, 1, new);
    let frame = DeltaFrame { copy: CopyNumber(1), entry: EntryId(0), offset: F as u64, plain: new.len(), value };
    (in_place, frame)
}

#[test]
fn unchanged_blocks_are_neither_written_nor_read_again() {
    let old = bytes(F, 0);
    let mut new = old.clone();
    new[3 * BLOCK..4 * BLOCK].copy_from_slice(&bytes(BLOCK, 77));
    let (place, frame) = in_place(&old, &new);
    let start = F as u64;
    let old = |at: usize, len| DeltaInstruction::Old { offset: start + at as u64, len };
    let steps = [old(0, 3 * BLOCK), DeltaInstruction::New(&new[3 * BLOCK..4 * BLOCK]), old(4 * BLOCK, F - 4 * BLOCK)];
    let changes = place.changes(1, &steps, &frame, false).unwrap().unwrap();
    assert_eq!(changes, [(start + 3 * BLOCK as u64, &new[3 * BLOCK..4 * BLOCK])]);
    assert!(place.changes(1, &steps, &frame, false).unwrap().is_none(), "what it was is known once");
}

#[test]
fn foreign_frames_and_data_outside_its_place_change_nothing() {
    let (old, new) = (bytes(F, 0), bytes(F, 5));
    let start = F as u64;
    let whole = |offset| [DeltaInstruction::Old { offset, len: F }];
    let (place, frame) = in_place(&old, &new);
    assert!(place.changes(1, &whole(start), &frame, false).unwrap().is_none(), "another value");
    for steps in [
        &whole(start + BLOCK as u64)[..],
        &[DeltaInstruction::New(&new[..7]), DeltaInstruction::Old { offset: start + 7, len: F - 7 }],
        &[DeltaInstruction::Old { offset: start, len: BLOCK + 1 }, DeltaInstruction::New(&new[BLOCK + 1..])],
    ] {
        let (place, frame) = in_place(&old, &new);
        assert!(place.changes(1, steps, &frame, false).is_err());
    }
}

#[test]
fn a_patch_can_be_put_in_again_and_damage_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let open = |name: &str| {
        let options = std::fs::File::options().read(true).write(true).create(true).truncate(false).clone();
        OwnedFd::from(options.open(dir.path().join(name)).unwrap())
    };
    std::fs::write(dir.path().join("file"), bytes(10_000, 0)).unwrap();
    let (patch, file) = (open("patch"), open("file"));
    let place = update();
    let (first, second) = (bytes(4096, 9), bytes(100, 3));
    place.write(&patch, &[(4096, &first), (9000, &second)], false).unwrap();
    place.write(&patch, &[(0, &second)], false).unwrap();
    place.write(&patch, &[(8192, &[0; 500])], true).unwrap();
    let end = place.end.load(Ordering::Relaxed);
    let header = PatchHeader { inode: 1, size: 9100, modified: Timestamp::default(), end, applied: 0 };
    write_at(&patch, &header.encode(), 0).unwrap();
    assert_eq!(read_header(&patch), Some(header));
    let mut wanted = bytes(10_000, 0);
    wanted[4096..8192].copy_from_slice(&first);
    wanted[8192..8692].fill(0);
    wanted[9000..9100].copy_from_slice(&second);
    wanted[..100].copy_from_slice(&second);
    wanted.truncate(9100);
    for _ in 0..2 {
        apply_changes(&patch, &file, header, false).unwrap();
        assert!(std::fs::read(dir.path().join("file")).unwrap() == wanted);
    }
    let cut = PatchHeader { end: end - 1, ..header };
    assert!(apply_changes(&patch, &file, cut, false).is_err());
    assert!(apply_changes(&patch, &file, PatchHeader { size: 9099, ..header }, false).is_err());
}

#[test]
fn a_half_changed_file_does_not_stay_as_somebody_elses_newer_one_or_for_its_size() {
    use std::os::unix::fs::MetadataExt;

    use haul_proto::sync::SyncOptions;
    use haul_proto::wire::message::TransferNeed;

    use crate::receiver::delete::removal::tests::Site;

    let size_only = SyncOptions { equal: EqualityTest::Size, ..SyncOptions::default() };
    for sync in [SyncOptions { update: true, ..SyncOptions::default() }, size_only] {
        for is_half_changed in [true, false] {
            let mut site = Site::of(&["file"], |request, _| {
                request.write.overwrite = OverwritePolicy::Follow;
                request.sync = sync.clone();
            });
            site.operand();
            let path = site.root().join("file");
            // It has the time of the change.
            std::fs::write(&path, b"neXX").unwrap();
            let name = Name::new(b"file").unwrap();
            let patch = site.root().join(std::str::from_utf8(patch_name(&name).as_bytes()).unwrap());
            let inode = std::fs::metadata(&path).unwrap().ino() + u64::from(!is_half_changed);
            let mut chunks = Vec::new();
            append(&mut chunks, 0, b"new!");
            let end = HEADER_LEN as u64 + chunks.len() as u64;
            let header = PatchHeader { inode, size: 4, modified: Timestamp::default(), end, applied: 0 };
            std::fs::write(&patch, [&header.encode()[..], &chunks].concat()).unwrap();
            let wanted = if is_half_changed { TransferNeed::All } else { TransferNeed::Nothing };
            assert_eq!(site.file(0, "file"), wanted, "{sync:?}");
            // A started update is completed, and still compared with the source.
            let content = if is_half_changed { "new!" } else { "neXX" };
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
        }
    }
}
