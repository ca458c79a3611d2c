//! What every engine does alike, with every kind of descriptor, on a disk and in memory; and what a stream's reader
//! makes of them. Nothing here depends on which of them is fast.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_proto::wire::storage::{CacheUse, DirectIo, StorageRequest};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

use super::calls::BlockingIo;
use super::file::OpenedFile;
use super::policy::{IoPlan, StoragePolicy};
use super::read::FrameReader;
use super::*;
use crate::fs::testing::in_time;
use crate::io::storage::io_method_probe::TRIAL_FILE_MIN;
use crate::io::storage::ring::Ring;

const FRAME: usize = 256 << 10;
const DEPTH: usize = 4;

/// A directory on a disk, where there is one: beside the test's own executable. And one in memory.
fn places() -> [tempfile::TempDir; 2] {
    let disk = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    [tempfile::tempdir_in(disk).unwrap(), tempfile::tempdir_in("/dev/shm").unwrap()]
}

/// Calls `check` with every engine that there is, every kind of descriptor that it can have, and a new file.
fn with_every_engine(check: impl Fn(&mut dyn Storage<u64>, Arc<OwnedFd>, &Path) + Send + 'static) {
    in_time(move || {
        for place in places() {
            for direct in [false, true] {
                let engines: [Option<Box<dyn Storage<u64>>>; 2] =
                    [Some(Box::new(BlockingIo::new())), Ring::new(DEPTH).ok().map(|ring| Box::new(ring) as _)];
                for mut engine in engines.into_iter().flatten() {
                    let path = place.path().join("file");
                    let _ = fs::remove_file(&path);
                    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
                    let direct = if direct { OFlags::DIRECT } else { OFlags::empty() };
                    match openat(CWD, &path, flags | direct, Mode::from_raw_mode(0o600)) {
                        Ok(file) => check(&mut *engine, Arc::new(file), &path),
                        Err(_) => println!("SKIPPED: no O_DIRECT in {}", place.path().display()),
                    }
                    assert_eq!(engine.under_way(), 0);
                }
            }
        }
    });
}

fn request(access: FileAccess, file: &Arc<OwnedFd>, len: usize, offset: u64, fill: u8) -> IoRequest<u64> {
    let mut buffer = FrameBuffer::with_capacity(FRAME);
    buffer.room_mut().fill(fill);
    buffer.set_payload_len(len);
    IoRequest { access, file: Arc::clone(file), buffer, len, offset, tag: offset }
}

/// What position a byte has, so that a byte in the wrong place is noticed.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from((at / 7 + at / 4096) % 251).unwrap()).collect()
}

#[test]
fn blocks_written_in_any_order_are_read_back() {
    with_every_engine(|engine, file, path| {
        for (offset, fill) in [(3, 13), (0, 10), (2, 12), (1, 11)] {
            engine.submit(request(FileAccess::Write, &file, FRAME, offset * FRAME as u64, fill));
        }
        let mut tags = Vec::new();
        while let Some(FinishedIo { request, result }) = engine.finished(true) {
            assert_eq!(result.unwrap(), FRAME);
            tags.push(request.tag);
        }
        tags.sort_unstable();
        assert_eq!(tags, [0, 1, 2, 3].map(|i| i * FRAME as u64));
        let content = fs::read(path).unwrap();
        let expected: Vec<u8> = (10..14).flat_map(|fill| vec![fill; FRAME]).collect();
        assert!(content == expected);
        for offset in [1, 3, 0, 2] {
            engine.submit(request(FileAccess::Read, &file, FRAME, offset * FRAME as u64, 0));
        }
        while let Some(FinishedIo { mut request, result }) = engine.finished(true) {
            assert_eq!(result.unwrap(), FRAME);
            let fill = 10 + u8::try_from(request.tag / FRAME as u64).unwrap();
            assert!(request.buffer.room_mut().iter().all(|byte| *byte == fill));
        }
    });
}

#[test]
fn reading_ends_at_the_end_of_the_file() {
    with_every_engine(|engine, file, path| {
        fs::write(path, pattern(10_000)).unwrap();
        for (offset, there) in [(0, 10_000), (8192, 1808), (12_288, 0), (1 << 20, 0)] {
            engine.submit(request(FileAccess::Read, &file, 16 << 10, offset, 0));
            let FinishedIo { mut request, result } = engine.finished(true).unwrap();
            assert_eq!(result.unwrap(), there, "from {offset}");
            let from = usize::try_from(offset).unwrap();
            assert!(there == 0 || request.buffer.room_mut()[..there] == pattern(10_000)[from..]);
        }
    });
}

#[test]
fn errors_match_the_call_and_buffers_are_returned() {
    with_every_engine(|engine, _, path| {
        let read_only: Arc<OwnedFd> = Arc::new(File::open(path).unwrap().into());
        let full: Arc<OwnedFd> = Arc::new(File::options().write(true).open("/dev/full").unwrap().into());
        for (file, errno) in [(read_only, Errno::BADF), (full, Errno::NOSPC)] {
            engine.submit(request(FileAccess::Write, &file, 4096, 0, 5));
            let FinishedIo { request, result } = engine.finished(true).unwrap();
            assert_eq!(Errno::from_io_error(&result.unwrap_err()), Some(errno));
            assert!(request.buffer.payload() == [5; 4096]);
        }
    });
}

#[test]
fn a_nonblocking_caller_is_woken() {
    with_every_engine(|engine, file, _| {
        assert!(engine.finished(true).is_none() && engine.finished(false).is_none(), "nothing is under way");
        engine.submit(request(FileAccess::Write, &file, FRAME, 0, 1));
        assert_eq!(engine.under_way(), 1);
        while engine.finished(false).is_none() {
            let ready = engine.readiness().expect("what is not finished when it is submitted can be waited for");
            let mut watched = [rustix::event::PollFd::new(&ready, rustix::event::PollFlags::IN)];
            rustix::event::poll(&mut watched, None).unwrap();
        }
    });
}

#[test]
fn dropping_an_engine_waits_for_requests_in_flight() {
    in_time(|| {
        let [place, _] = places();
        let Ok(mut ring) = Ring::new(DEPTH) else { return };
        let path = place.path().join("file");
        let file: Arc<OwnedFd> = Arc::new(File::create(&path).unwrap().into());
        (0..DEPTH as u64).for_each(|i| ring.submit(request(FileAccess::Write, &file, FRAME, i * FRAME as u64, 9)));
        drop(ring);
        assert!(fs::read(&path).unwrap() == vec![9; DEPTH * FRAME]);
    });
}

fn opened(path: &Path) -> Arc<OpenedFile> {
    Arc::new(OpenedFile::new(File::open(path).unwrap().into(), FileAccess::Read).unwrap())
}

fn plan(method: IoMethod) -> IoPlan {
    IoPlan { drop: method == IoMethod::Buffered, ..IoPlan::by(method) }
}

/// Reads a range as a stream does.
fn read_all(reader: &mut FrameReader, path: &Path, method: IoMethod, start: u64, end: u64) -> Vec<u8> {
    let file = opened(path);
    // Where there is no O_DIRECT, the page cache does it.
    reader.add(file, plan(method), start, end);
    let mut content = Vec::new();
    while let Some(buffer) = reader.next() {
        let buffer = buffer.unwrap();
        content.extend_from_slice(buffer.payload());
        reader.give_back(buffer);
    }
    reader.end();
    content
}

fn file(place: &Path, len: usize) -> PathBuf {
    let path = place.join(len.to_string());
    fs::write(&path, pattern(len)).unwrap();
    path
}

#[test]
fn a_reader_reads_files_of_every_odd_size() {
    in_time(|| {
        let mut reader = FrameReader::new(FRAME, depth(FRAME));
        for place in places() {
            let near = |at: usize| [at - 1, at, at + 1];
            let sizes = [near(512), near(4096), near(FRAME), near(FRAME + 4096), near(12 * FRAME)].concat();
            for len in sizes.into_iter().chain([1]) {
                let path = file(place.path(), len);
                for method in [IoMethod::Buffered, IoMethod::Direct] {
                    let content = read_all(&mut reader, &path, method, 0, len as u64);
                    assert!(content == pattern(len), "{len} bytes, {method:?}");
                }
            }
        }
    });
}

#[test]
fn a_reader_reports_a_shrunken_file() {
    in_time(|| {
        let mut reader = FrameReader::new(FRAME, depth(FRAME));
        for place in places() {
            let path = file(place.path(), 5 * FRAME);
            for (method, left) in [(IoMethod::Buffered, 3 * FRAME + 5000), (IoMethod::Direct, 2 * FRAME + 100)] {
                let handle = opened(&path);
                File::options().write(true).open(&path).unwrap().set_len(left as u64).unwrap();
                reader.add(handle, plan(method), 0, 5 * FRAME as u64);
                let lengths: Vec<_> =
                    std::iter::from_fn(|| reader.next()).map(|buffer| buffer.unwrap().payload().len()).collect();
                let expected: Vec<_> = (0..5).map(|i| left.saturating_sub(i * FRAME).min(FRAME)).collect();
                assert_eq!(lengths, expected, "{method:?}");
                reader.end();
            }
        }
    });
}

#[test]
fn refused_direct_io_falls_back_to_the_page_cache() {
    in_time(|| {
        let mut reader = FrameReader::new(FRAME, depth(FRAME));
        for place in places() {
            let path = file(place.path(), 3 * FRAME);
            // No frame begins there, and no block.
            let content = read_all(&mut reader, &path, IoMethod::Direct, 777, 2 * FRAME as u64);
            assert!(content == pattern(3 * FRAME)[777..2 * FRAME]);
        }
    });
}

#[test]
fn an_abandoned_chunk_disturbs_no_other() {
    in_time(|| {
        let [place, _] = places();
        let (first, second) = (file(place.path(), 12 * FRAME), file(place.path(), 3 * FRAME));
        fs::write(&second, vec![1; 3 * FRAME]).unwrap();
        let mut reader = FrameReader::new(FRAME, depth(FRAME));
        for _ in 0..20 {
            reader.add(opened(&first), plan(IoMethod::Direct), 0, 12 * FRAME as u64);
            let buffer = reader.next().unwrap().unwrap();
            assert!(buffer.payload() == &pattern(FRAME)[..]);
            reader.give_back(buffer);
            reader.give_up();
            assert!(read_all(&mut reader, &second, IoMethod::Direct, 0, 3 * FRAME as u64) == vec![1; 3 * FRAME]);
        }
    });
}

fn policy(direct: DirectIo, cache: CacheUse) -> StoragePolicy {
    StoragePolicy::new(StorageRequest { direct, cache, under_way: 0 })
}

#[test]
fn the_requested_number_of_frames_is_in_flight() {
    let under_way = |under_way| {
        let request = StorageRequest { direct: DirectIo::Always, cache: CacheUse::Auto, under_way };
        StoragePolicy::new(request).depth(FRAME)
    };
    assert_eq!([under_way(0), under_way(1), under_way(64)], [depth(FRAME), 1, 64]);
}

#[test]
fn an_explicit_method_is_used_if_possible() {
    let [disk, memory] = places();
    let path = file(disk.path(), 10_000);
    let (on_disk, in_memory) = (opened(&path), opened(&file(memory.path(), 10_000)));
    let zeros = opened(Path::new("/dev/zero"));
    let method = |direct, file: &OpenedFile| policy(direct, CacheUse::Auto).reading(file, 10_000, 0, 10_000).method;
    assert_eq!(method(DirectIo::Auto, &on_disk), IoMethod::Buffered, "a small file");
    assert_eq!(method(DirectIo::Never, &on_disk), IoMethod::Buffered);
    let possible = if on_disk.direct().is_some() { IoMethod::Direct } else { IoMethod::Buffered };
    assert_eq!(method(DirectIo::Always, &on_disk), possible);
    assert_eq!(method(DirectIo::Auto, &in_memory), IoMethod::Buffered);
    assert_eq!(method(DirectIo::Always, &zeros), IoMethod::Buffered, "a device without O_DIRECT");
    let (_reader, writer) = rustix::pipe::pipe().unwrap();
    assert!(OpenedFile::new(writer, FileAccess::Write).unwrap().direct().is_none(), "O_DIRECT makes packets of a pipe");
    let always = policy(DirectIo::Always, CacheUse::Auto);
    assert!(always.is_refusal_news() && !always.is_refusal_news());
    assert!(!policy(DirectIo::Auto, CacheUse::Auto).is_refusal_news());
}

#[test]
fn large_files_are_probed_and_cached_ones_are_not() {
    let [disk, _] = places();
    let path = disk.path().join("large");
    let large = File::create(&path).unwrap();
    large.set_len(TRIAL_FILE_MIN).unwrap();
    let file = opened(&path);
    if file.in_memory() {
        println!("SKIPPED: no disk here");
        return;
    }
    let (policy, range) = (policy(DirectIo::Auto, CacheUse::Drop), 8 << 20);
    let plan = policy.reading(&file, TRIAL_FILE_MIN, 0, range);
    assert!(!plan.cached);
    if file.direct().is_some() {
        assert!(plan.trial.is_some() && plan.method == IoMethod::Direct);
        assert!(policy.reading(&file, TRIAL_FILE_MIN, 0, range).method == IoMethod::Buffered, "its turn");
    }
    let mut bytes = vec![0; 8 << 20];
    File::open(&path).unwrap().read_exact_at(&mut bytes, 0).unwrap();
    if !cache::is_cached(&**file.fd(), 0, range) {
        println!("SKIPPED: this kernel does not tell what is cached");
        return;
    }
    let plan = policy.reading(&file, TRIAL_FILE_MIN, 0, range);
    assert!(plan.cached && plan.trial.is_none() && plan.method == IoMethod::Buffered);
    assert!(!plan.drop, "what others had read stays");
}

#[test]
fn pages_of_large_files_are_dropped_unless_asked_otherwise() {
    let [disk, memory] = places();
    let (on_disk, in_memory) = (opened(&file(disk.path(), 1)), opened(&file(memory.path(), 1)));
    let large = cache::large_file_bytes();
    let drop = |cache, file: &OpenedFile, size| policy(DirectIo::Never, cache).writing(file, size, 1).drop;
    assert!(!on_disk.in_memory() && in_memory.in_memory());
    assert!(drop(CacheUse::Auto, &on_disk, large) && !drop(CacheUse::Auto, &on_disk, large - 1));
    assert!(!drop(CacheUse::Keep, &on_disk, large) && drop(CacheUse::Drop, &on_disk, 1));
    assert!(!drop(CacheUse::Drop, &in_memory, large));
}
