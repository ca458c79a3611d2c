//! What is data, what is a hole, and how many system calls it takes to know.

use std::fs::File;
use std::sync::Arc;

use haul_proto::wire::sparse::BLOCK;

use super::*;
use crate::io::storage::calls::write_at;
use crate::io::storage::file::OpenedFile;
use crate::io::storage::policy::IoPlan;
use crate::io::storage::read::FrameReader;
use crate::io::storage::{FileAccess, IoMethod};

const FRAME: usize = 64 * BLOCK;
const MIB: u64 = 1 << 20;

fn sparse(len: u64, data: &[(u64, usize)]) -> File {
    let file = tempfile::tempfile_in("/dev/shm").unwrap();
    file.set_len(len).unwrap();
    data.iter().for_each(|(at, len)| write_at(&file, &vec![7; *len], *at).unwrap());
    file
}

fn map(data: &[Range<usize>]) -> Option<DataMap> {
    let mut map = DataMap::HOLE;
    data.iter().for_each(|bytes| map.add(bytes.clone()));
    Some(map)
}

#[test]
fn holes_are_found_and_data_is_no_hole() {
    let frame = FRAME as u64;
    let file = sparse(4 * frame + 100, &[(frame + 10, 1), (frame + 20 * 4096, 8192), (2 * frame, FRAME)]);
    let extents = FileExtents::default();
    // The second time, all answers come from memory.
    for _ in 0..2 {
        assert_eq!(extents.map_of(&file, 0, FRAME), Some(DataMap::HOLE));
        assert_eq!(extents.map_of(&file, frame, FRAME), map(&[0..BLOCK, 20 * BLOCK..22 * BLOCK]));
        assert_eq!(extents.map_of(&file, 2 * frame, FRAME), None);
        assert_eq!(extents.map_of(&file, 4 * frame, 100), Some(DataMap::HOLE));
        assert!(extents.is_hole(&file, 0, frame) && extents.is_hole(&file, 3 * frame, frame + 100));
        assert!(!extents.is_hole(&file, 0, frame + 1) && !extents.is_hole(&file, 2 * frame, frame));
    }
}

#[test]
fn bytes_outside_of_holes_are_counted() {
    let frame = FRAME as u64;
    let size = 40 * frame + 100;
    let (file, extents) = (sparse(size, &[(frame, FRAME), (30 * frame, 1)]), FileExtents::default());
    assert_eq!(extents.data_bytes(&file, size), frame + 4096);
    assert_eq!(extents.next_data(&file, 2 * frame, 40 * frame), Some(30 * frame));
    assert_eq!(extents.next_data(&file, 31 * frame, 40 * frame), None);
    assert_eq!(extents.next_hole(&file, frame, size), Some(2 * frame..30 * frame));
    assert_eq!(extents.next_hole(&file, frame, 2 * frame), None);
    assert_eq!(FileExtents::default().data_bytes(sparse(9, &[(0, 9)]), 9), 9);
    assert_eq!(FileExtents::default().data_bytes(sparse(9 * frame, &[]), 9 * frame), 0);
}

#[test]
fn written_zeros_are_data() {
    let file = sparse(FRAME as u64, &[]);
    write_at(&file, &[0; FRAME], 0).unwrap();
    assert_eq!(FileExtents::default().map_of(&file, 0, FRAME), None);
}

#[test]
fn memory_is_bounded_and_readers_in_any_order_agree() {
    let step = 2 * BLOCK as u64;
    let data: Vec<_> = (0..200).map(|at| (at * step, BLOCK)).collect();
    let (file, extents) = (sparse(200 * step, &data), FileExtents::default());
    for at in (0..200).rev().chain(0..200) {
        assert_eq!(extents.map_of(&file, at * step, 2 * BLOCK), map(&[0..BLOCK]));
        assert!(lock(&extents.remembered).len() <= REMEMBERED_MAX);
    }
}

/// Reads all of a file in pieces, as a stream does; returns the look-ups.
fn seeks_of_reading(file: &Arc<OpenedFile>, len: u64, range: u64) -> u64 {
    let before = seeks();
    let frame_bytes = 512 << 10;
    let mut reader = FrameReader::new(frame_bytes, 4);
    for start in (0..len).step_by(usize::try_from(range).unwrap()) {
        reader.add(Arc::clone(file), IoPlan::by(IoMethod::Buffered), start, (start + range).min(len));
        for _ in 0..range.min(len - start).div_ceil(frame_bytes as u64) {
            let buffer = reader.next().unwrap().unwrap();
            reader.give_back(buffer);
        }
        reader.end();
    }
    seeks() - before
}

#[test]
fn reading_a_gigabyte_takes_a_look_up_for_each_extent_and_none_for_each_frame() {
    // As an interrupted copy leaves it: data, and a hole behind it.
    let part = sparse(1024 * MIB, &[(0, 96 << 20)]);
    let part = Arc::new(OpenedFile::new(part.into(), FileAccess::Read).unwrap());
    let seeks = seeks_of_reading(&part, 1024 * MIB, 8 * MIB);
    assert!(seeks <= 4, "{seeks} look-ups for two extents of 1 GiB");
}

#[test]
fn reopening_a_file_for_each_piece_takes_no_further_look_up() {
    let file = sparse(64 * MIB, &[(0, 32 << 20), (48 << 20, 1 << 20)]);
    let extents = Arc::new(FileExtents::default());
    let before = seeks();
    for start in (0..64 * MIB).step_by(4 << 20) {
        let opened = OpenedFile::new(file.try_clone().unwrap().into(), FileAccess::Read).unwrap();
        let opened = Arc::new(opened.with_extents(Arc::clone(&extents)));
        let mut reader = FrameReader::new(1 << 20, 4);
        reader.add(opened, IoPlan::by(IoMethod::Buffered), start, start + 4 * MIB);
        for _ in 0..4 {
            let buffer = reader.next().unwrap().unwrap();
            reader.give_back(buffer);
        }
        reader.end();
    }
    let seeks = seeks() - before;
    assert!(seeks <= 8, "{seeks} look-ups for four extents");
}
