//! What is read before it is needed, and what is not: on a disk, with files that nobody has read.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Mutex;

use rustix::fs::{Advice, fadvise};

use super::*;
use crate::fs::testing::in_time;
use crate::io::storage::cache::{drop_pages, is_cached, write_back};
use crate::io::storage::depth;
use crate::io::storage::io_method_probe::IoMethodProbe;
use crate::io::storage::read::FrameReader;
use crate::sys::page_cache::finish_write_back;

const FRAME: u64 = 256 << 10;
const MIB: u64 = 1 << 20;

/// A file on a disk, of `len` bytes, of which the page cache has none. `None` where that cannot be had.
fn cold_file(place: &Path, len: u64) -> Option<Arc<OpenedFile>> {
    let path = place.join("file");
    fs::write(&path, vec![7; usize::try_from(len).unwrap()]).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    write_back(&file, 0, len);
    finish_write_back(&file, 0, len).unwrap();
    drop_pages(&file, 0, len);
    let opened = OpenedFile::new(File::open(&path).unwrap().into(), FileAccess::Read).unwrap();
    if opened.in_memory() || !is_cached(&file, 0, 0) || is_cached(&file, 0, len) {
        println!("SKIPPED: no disk here, or the kernel does not tell what is cached");
        return None;
    }
    Some(Arc::new(opened))
}

/// Runs `check` with such a file.
fn with_cold_file(len: u64, check: impl Fn(&Arc<OpenedFile>) + Send + 'static) {
    in_time(move || {
        // Beside the test's own executable: there is a disk, unlike in /tmp.
        let beside = std::env::current_exe().unwrap().parent().unwrap().to_owned();
        let place = tempfile::tempdir_in(beside).unwrap();
        cold_file(place.path(), len).iter().for_each(&check);
    });
}

fn plan(method: IoMethod) -> IoPlan {
    IoPlan { drop: true, led: true, ..IoPlan::by(method) }
}

fn measured(method: IoMethod) -> IoPlan {
    IoPlan { trial: Some(Arc::new(Mutex::new(IoMethodProbe::default()))), ..plan(method) }
}

fn range(file: &Arc<OpenedFile>, plan: IoPlan, start: u64, end: u64) -> ReadRange {
    ReadRange::new(Arc::clone(file), plan, start, end)
}

fn ahead() -> Readahead {
    let frame_bytes = usize::try_from(FRAME).unwrap();
    Readahead::new(frame_bytes, depth(frame_bytes))
}

/// The same for a disk of which it is known whether the kernel reads far ahead by itself.
fn ahead_of(file: &OpenedFile, is_far: bool) -> Readahead {
    Readahead { lead: Some(KernelReadahead { device: file.device(), is_far }), ..ahead() }
}

fn is_there(file: &OpenedFile, start: u64, end: u64) -> bool {
    is_cached(&**file.fd(), start, end - start)
}

#[test]
fn the_page_cache_reads_into_the_next_piece_and_not_beyond() {
    with_cold_file(4 * MIB, |file| {
        let mut ahead = ahead();
        ahead.add(range(file, plan(IoMethod::Buffered), 0, MIB));
        assert!(is_there(file, 0, MIB) && !is_there(file, MIB, 2 * MIB));
        assert!(ahead.wants_another());
        ahead.add(range(file, plan(IoMethod::Buffered), MIB, 2 * MIB));
        assert!(is_there(file, MIB, 2 * MIB), "before anything of the first one is read");
        assert!(!is_there(file, 2 * MIB, 4 * MIB), "another stream may have that");
        assert!(!ahead.wants_another(), "one is enough");
    });
}

#[test]
fn advice_reaches_its_distance_and_moves_with_the_stream() {
    let len = READ_AHEAD_BYTES + 8 * MIB;
    with_cold_file(len, move |file| {
        let mut ahead = ahead_of(file, false);
        ahead.add(range(file, plan(IoMethod::Buffered), 0, len));
        assert_eq!(ahead.first().unwrap().advised, READ_AHEAD_BYTES);
        assert!(!ahead.wants_another(), "there is enough to do");
        let mut offset = 0;
        while let Some(finished) = ahead.next() {
            assert_eq!((finished.request.offset, finished.result.unwrap() as u64), (offset, FRAME));
            offset += FRAME;
            assert_eq!(ahead.first().unwrap().advised, len.min(offset - FRAME + READ_AHEAD_BYTES));
            assert_eq!(ahead.wants_another(), len - offset < READ_AHEAD_BYTES);
            ahead.give_back(finished.request.buffer);
        }
        assert_eq!(offset, len);
    });
}

#[test]
fn all_pieces_together_are_read_ahead_so_far() {
    let each = READ_AHEAD_BYTES * 3 / 4;
    with_cold_file(2 * each, move |file| {
        let mut ahead = ahead_of(file, false);
        ahead.add(range(file, plan(IoMethod::Buffered), 0, each));
        ahead.add(range(file, plan(IoMethod::Buffered), each, 2 * each));
        let advised: Vec<_> = ahead.ranges.iter().map(|range| range.advised).collect();
        assert_eq!(advised, [each, READ_AHEAD_BYTES]);
        assert!(!is_there(file, READ_AHEAD_BYTES, 2 * each));
    });
}

/// How far the first piece was advised when it has read as much as it takes to find out how far the kernel reads.
fn advised_once_found(ahead: &mut Readahead) -> u64 {
    for offset in (0..=LEAD_FOUND_AT).step_by(usize::try_from(FRAME).unwrap()) {
        assert_eq!(ahead.first().unwrap().advised, 0, "nothing is known at {offset}");
        let finished = ahead.next().unwrap();
        ahead.give_back(finished.request.buffer);
    }
    ahead.first().unwrap().advised
}

#[test]
fn a_kernel_with_long_readahead_gets_no_advice() {
    let len = LEAD_FOUND_AT + LEAD_BYTES;
    with_cold_file(len, move |file| {
        // As if it read nothing ahead.
        fadvise(&**file.fd(), 0, None, Advice::Random).unwrap();
        let mut first = ahead();
        first.add(range(file, plan(IoMethod::Buffered), 0, len));
        assert_eq!(advised_once_found(&mut first), len);
        first.finish();
        first.add(range(file, plan(IoMethod::Buffered), 0, MIB));
        assert_eq!(first.first().unwrap().advised, MIB, "it is remembered");
        // As if it had read all of it.
        crate::io::storage::calls::read_at(&**file.fd(), &mut vec![0; usize::try_from(len).unwrap()], 0).unwrap();
        let mut second = ahead();
        second.add(range(file, plan(IoMethod::Buffered), 0, len));
        assert_eq!(advised_once_found(&mut second), 0);
        second.finish();
        second.add(range(file, plan(IoMethod::Buffered), 0, MIB));
        assert_eq!(second.first().unwrap().advised, 0, "it is remembered");
    });
}

#[test]
fn direct_io_reads_ahead_into_the_next_chunk() {
    with_cold_file(4 * MIB, |file| {
        let mut ahead = ahead();
        if file.direct().is_none() || ahead.engines.depth(IoMethod::Direct) < 4 {
            println!("SKIPPED: no O_DIRECT or no io_uring here");
            return;
        }
        ahead.add(range(file, plan(IoMethod::Direct), 0, 2 * FRAME));
        ahead.add(range(file, plan(IoMethod::Direct), MIB, 4 * MIB));
        let asked = |ahead: &Readahead| ahead.ranges.iter().map(|range| range.frames.len()).collect::<Vec<_>>();
        let depth = ahead.engines.depth(IoMethod::Direct);
        assert_eq!(asked(&ahead), [2, depth - 2]);
        let mut offsets = Vec::new();
        for _ in 0..2 {
            while let Some(finished) = ahead.next() {
                assert!(asked(&ahead).iter().sum::<usize>() <= depth, "the ring has no room for more");
                offsets.push(finished.request.offset);
                ahead.give_back(finished.request.buffer);
            }
            ahead.finish();
        }
        assert_eq!(offsets, [0, 1].into_iter().chain(4..16).map(|frame| frame * FRAME).collect::<Vec<_>>());
        assert!(!is_there(file, 0, 4 * MIB));
    });
}

#[test]
fn an_abandoned_chunk_leaves_the_next_one_intact() {
    with_cold_file(4 * MIB, |file| {
        let mut ahead = ahead();
        for _ in 0..20 {
            ahead.add(range(file, plan(IoMethod::Direct), 0, 2 * FRAME));
            ahead.add(range(file, plan(IoMethod::Direct), 2 * FRAME, 4 * FRAME));
            ahead.finish();
            let offsets: Vec<_> = std::iter::from_fn(|| Some(ahead.next()?.request.offset)).collect();
            assert_eq!(offsets, [2 * FRAME, 3 * FRAME]);
            ahead.finish();
            ahead.add(range(file, plan(IoMethod::Direct), 0, 4 * MIB));
            ahead.finish();
            assert_eq!(ahead.engines.under_way(), 0, "the next piece has the whole ring");
        }
    });
}

#[test]
fn a_probed_run_is_read_without_readahead() {
    with_cold_file(4 * MIB, |file| {
        for method in [IoMethod::Buffered, IoMethod::Direct] {
            let mut first = ahead();
            first.add(range(file, measured(method), 0, MIB));
            assert!(!first.wants_another(), "{method:?}");
            let mut second = ahead();
            second.add(range(file, plan(IoMethod::Direct), 2 * MIB, 2 * MIB + FRAME));
            second.add(range(file, measured(method), 3 * MIB, 4 * MIB));
            second.next().unwrap();
            let waits = second.ranges.back().unwrap();
            assert!(waits.left() == MIB && waits.advised == waits.start, "{method:?} waits for its turn");
        }
        assert!(!is_there(file, 3 * MIB, 4 * MIB));
    });
}

#[test]
fn cached_data_gets_no_readahead() {
    let place = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = place.path().join("file");
    fs::write(&path, [1; 100]).unwrap();
    let file = Arc::new(OpenedFile::new(File::open(&path).unwrap().into(), FileAccess::Read).unwrap());
    let mut ahead = ahead();
    ahead.add(range(&file, IoPlan { cached: true, ..plan(IoMethod::Buffered) }, 0, 100));
    assert!(!ahead.wants_another());
    assert_eq!(ahead.first().unwrap().advised, 0);
}

#[test]
fn a_chunk_read_ahead_is_dropped_afterwards() {
    with_cold_file(4 * MIB, |file| {
        let mut reader = FrameReader::new(usize::try_from(FRAME).unwrap(), 2);
        reader.add(Arc::clone(file), plan(IoMethod::Buffered), 0, MIB);
        reader.add(Arc::clone(file), plan(IoMethod::Buffered), MIB, 2 * MIB);
        for (start, end) in [(0, MIB), (MIB, 2 * MIB)] {
            while let Some(buffer) = reader.next() {
                reader.give_back(buffer.unwrap());
            }
            assert!(is_there(file, start, end));
            reader.end();
            assert!(!is_there(file, start, end));
        }
    });
}
