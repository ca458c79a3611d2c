//! The source without a target: opened files, walked directories, and woken threads.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use haul_base::control_channel::ControlWriter;
use haul_proto::entry::{Entry, EntryContent, EntryLocation, EntryMetadata};
use haul_proto::error::ProtocolError;
use haul_proto::filter::definition::FilterOptions;
use haul_proto::filter::{ListSyntax, PatternList};
use haul_proto::ids::{CopyNumber, EntryId, StreamId};
use haul_proto::integrity::FrameLen;
use haul_proto::limits::ENTRY_WINDOW;
use haul_proto::path::Name;
use haul_proto::scheduler::{ChunkSizer, WorkItem};
use haul_proto::wire::frame::RecordTrailer;
use haul_proto::wire::list_batch::SourceBatch;
use haul_proto::wire::message::{Exclusion, ListingEnd, SourceMessage, TargetMessage, TransferNeed};
use haul_proto::wire::request::{SourceRequest, Symlinks};
use haul_proto::wire::write_options::SkipOptions;

use super::offers;
use super::session::Source;
use crate::fs::testing::{in_time, without_capabilities};
use crate::fs::{FileIdentity, FileStat, MAX_OPEN_DIRECTORIES};
use crate::io::frame_buffer::FrameBuffer;
use crate::io::storage::FileAccess;
use crate::io::storage::file::OpenedFile;
use crate::metrics::reporter::Reporter;
use crate::net::rate_limiter::RateLimiter;
use crate::net::stream::StreamError;
use crate::policy::HostPolicy;
use crate::source::entry::SourceEntry;
use crate::source::frame_sink::FrameSink;
use crate::sys::confine::tests::{confined, is_denied};
use crate::sys::confine::{ConfineBounds, ConfineNetwork};
use crate::testing::source_request;

pub(super) const NUMBER: CopyNumber = CopyNumber(1);
const OPERANDS: usize = 1500;

fn source(operands: &[PathBuf], links: Symlinks) -> Source {
    source_of(request(operands, links))
}

pub(super) fn bytes(paths: &[PathBuf]) -> Vec<Vec<u8>> {
    paths.iter().map(|path| path.as_os_str().as_bytes().to_vec()).collect()
}

fn source_of(request: SourceRequest) -> Source {
    Source::prepare(request, Reporter::new(ControlWriter::new(io::sink()), false), None, &HostPolicy::default())
}

pub(super) fn request(operands: &[PathBuf], links: Symlinks) -> SourceRequest {
    SourceRequest { links, ..source_request(bytes(operands)) }
}

/// Walks and delivers the offers.
pub(super) fn offers(source: &Source) -> Vec<Entry> {
    source.walk();
    let mut state = source.lock();
    let messages = std::iter::from_fn(|| state.machine.poll_message());
    let entries = messages.map(|message| match message {
        SourceMessage::Offer { entries, .. } => entries,
        _ => Vec::new(),
    });
    entries.flatten().collect()
}

/// A source's messages about exclusions, in order: excluded names by directory, and `complete` by directory.
fn exclusion_reports(tree: &Path, skip: SkipOptions) -> Vec<String> {
    let list = PatternList { text: b"*.o".to_vec(), syntax: ListSyntax::Pattern, includes: false };
    let filters =
        FilterOptions { lists: vec![list], files: vec![Name::new(b".f").unwrap()], ..FilterOptions::default() };
    let request = request(&[tree.to_owned()], Symlinks::Ignore);
    let request = SourceRequest { skip, filters, tell_left_out: true, ..request };
    let source =
        Source::prepare(request, Reporter::new(ControlWriter::new(io::sink()), false), None, &HostPolicy::default());
    source.walk();
    let mut state = source.lock();
    let messages = std::iter::from_fn(|| state.machine.poll_message());
    let text = |message| match message {
        SourceMessage::Excluded { entry, what: Exclusion::Names(mut names) } => {
            names.sort();
            Some(format!("{} without {names:?}", entry.0))
        }
        SourceMessage::Excluded { entry, what: Exclusion::Vanished(names) } => {
            Some(format!("{} vanished {}", entry.0, names.len()))
        }
        SourceMessage::Excluded { entry, what: Exclusion::Patterns { .. } } => {
            Some(format!("{} has patterns", entry.0))
        }
        SourceMessage::DirectoryEnd { entry, listing } => {
            Some(format!("{} complete {}", entry.0, listing == ListingEnd::Complete))
        }
        _ => None,
    };
    messages.filter_map(text).collect()
}

#[test]
fn the_target_learns_excluded_names_before_a_directory_ends() {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    make_file(tree.join("x.o"));
    symlink("x.o", tree.join("link")).unwrap();
    make_file(tree.join("d/y.o"));
    std::fs::write(make_file(tree.join("d/.f")), "z\n").unwrap();
    let said = exclusion_reports(&tree, SkipOptions::default());
    // 0 is the tree, 1 is d, 2 is its .f.
    assert_eq!(
        said,
        [
            r#"0 without ["link", "x.o"]"#,
            "1 has patterns",
            r#"1 without ["y.o"]"#,
            "1 complete true",
            "0 complete true"
        ]
    );
}

#[test]
fn a_possibly_incomplete_listing_is_marked_for_the_target() {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    make_file(tree.join("f"));
    make_file(tree.join("empty/x.o"));
    make_file(tree.join("d/x.o"));
    make_file(tree.join("d/e/f"));
    let skip = SkipOptions { empty_directories: true, ..SkipOptions::default() };
    let mut said = exclusion_reports(&tree, skip);
    said.sort();
    assert_eq!(said.iter().filter(|text| text.contains("without")).collect::<Vec<_>>(), [r#"0 without ["empty"]"#]);
    // d was offered when e was found in it; its x.o was not reported.
    assert_eq!(said.iter().filter(|text| text.contains("complete false")).count(), 1);
    assert!(said.contains(&"0 complete true".to_owned()), "{said:?}");
}

pub(super) fn needs(first: usize, needs: Vec<TransferNeed>) -> Vec<u8> {
    TargetMessage::Want { first: EntryId(first as u64), needs }.encode(NUMBER)
}

/// Number of offered files that can be opened.
fn opened(source: &Source, count: usize) -> usize {
    for first in (0..count).step_by(512) {
        source.handle_peer(&needs(first, vec![TransferNeed::All; 512.min(count - first)])).unwrap();
    }
    let work =
        std::iter::from_fn(|| source.lock().machine.next_work(StreamId(0), haul_proto::scheduler::CHUNK_FRAMES_MAX));
    let files = work.map(|work| match work {
        WorkItem::Pack(files) => files.iter().filter(|file| file.handle.open().is_ok()).count(),
        WorkItem::Frames(_) | WorkItem::Compare(..) | WorkItem::Delta(..) | WorkItem::Next(_) | WorkItem::Kept(_) => 0,
    });
    files.sum()
}

/// Open descriptors of this process below `directory`.
fn descriptors(directory: &Path) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
    open.filter(|path| path.starts_with(directory)).count()
}

pub(super) fn make_file(path: PathBuf) -> PathBuf {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, b"1").unwrap();
    path
}

#[test]
fn a_confined_source_reads_the_requested_files_and_no_later_replacements() {
    let temp = tempfile::tempdir().unwrap();
    let (inner, operand) = (make_file(temp.path().join("tree/f")), make_file(temp.path().join("operand")));
    let secret = make_file(temp.path().join("outside/secret"));
    let exchange = || {
        // Equal size and time: only the sandbox distinguishes them.
        std::fs::File::options()
            .write(true)
            .open(&secret)
            .unwrap()
            .set_modified(operand.metadata().unwrap().modified().unwrap())
            .unwrap();
        std::fs::remove_file(&operand).unwrap();
        symlink(&secret, &operand).unwrap();
    };
    let operands = [inner.parent().unwrap().to_owned(), operand.clone()];
    let source = source(&operands, Symlinks::Keep);
    assert_eq!(source.operands().iter().flatten().count(), 2);
    let read = confined(
        ConfineNetwork::Streams(None),
        |bounds| source.allow(bounds),
        || {
            is_denied(std::fs::read(&secret));
            offers(&source).len()
        },
    );
    exchange();
    let opened_after = confined(ConfineNetwork::Streams(None), |bounds| source.allow(bounds), || opened(&source, 3));
    let (Some(read), Some(opened_after)) = (read, opened_after) else { return };
    assert_eq!((read, opened_after), (3, 1), "what was exchanged is not opened");
}

#[test]
fn files_of_one_directory_take_one_descriptor() {
    let temp = tempfile::tempdir().unwrap();
    let operands: Vec<_> = (0..OPERANDS).map(|i| make_file(temp.path().join(format!("f{i}")))).collect();
    let source = source(&operands, Symlinks::Keep);
    assert_eq!(source.operands().iter().flatten().count(), OPERANDS);
    assert_eq!(descriptors(temp.path()), 1);
    assert_eq!(offers(&source).len(), OPERANDS);
    assert_eq!(opened(&source, OPERANDS), OPERANDS);
}

#[test]
fn operands_in_many_directories_take_few_descriptors() {
    in_time(|| {
        let temp = tempfile::tempdir().unwrap();
        let files: Vec<_> = (0..OPERANDS).map(|i| make_file(temp.path().join(format!("d{i}/f")))).collect();
        let directories: Vec<_> = files.iter().map(|file| file.parent().unwrap().to_owned()).collect();
        for (operands, entries) in [(files, OPERANDS), (directories, 2 * OPERANDS)] {
            let source = source(&operands, Symlinks::Keep);
            assert_eq!(source.operands().iter().flatten().count(), OPERANDS);
            assert!(descriptors(temp.path()) <= MAX_OPEN_DIRECTORIES);
            assert_eq!(offers(&source).len(), entries);
            assert_eq!(opened(&source, entries), OPERANDS);
            assert!(descriptors(temp.path()) <= MAX_OPEN_DIRECTORIES);
        }
    });
}

#[test]
fn a_file_in_a_search_only_directory_can_be_an_argument() {
    let temp = tempfile::tempdir().unwrap();
    let file = make_file(temp.path().join("search/file"));
    std::fs::set_permissions(file.parent().unwrap(), PermissionsExt::from_mode(0o100)).unwrap();
    let read = without_capabilities(move || {
        let source = source(&[file], Symlinks::Keep);
        (offers(&source).len(), opened(&source, 1))
    });
    assert_eq!(read, (1, 1));
}

#[test]
fn followed_links_do_not_lead_into_the_landing() {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    make_file(tree.join("file"));
    make_file(temp.path().join("outside/landing/old"));
    make_file(temp.path().join("outside/other"));
    symlink("../outside/landing", tree.join("straight")).unwrap();
    symlink("../outside", tree.join("above")).unwrap();
    let target_directory = FileStat::from(&rustix::fs::stat(temp.path().join("outside/landing")).unwrap()).identity;
    let walked = |target_directory: Option<FileIdentity>| {
        let source = source(std::slice::from_ref(&tree), Symlinks::Follow);
        target_directory.into_iter().for_each(|target_directory| source.skip_directory(target_directory));
        let left_out = || source.reporter.tally.counters().left_out;
        (offers(&source).len(), left_out())
    };
    // Tree, file, straight, and its old; above, its other, its landing, and its old.
    assert_eq!(walked(None), (8, 0));
    assert_eq!(walked(Some(target_directory)), (4, 2));
}

#[test]
fn the_walk_continues_if_streams_find_all_waiting_files_unneeded() {
    in_time(|| {
        let source = Arc::new(source(&[], Symlinks::Keep));
        for at in 0..ENTRY_WINDOW {
            let entry = Entry {
                place: EntryLocation::Operand(0),
                kind: EntryContent::File { size: 0 },
                meta: EntryMetadata::default(),
                version: None,
                more: None,
            };
            source.lock().machine.offer(entry, Arc::new(SourceEntry::directory(Arc::default())));
            assert_eq!(source.lock().machine.window(), ENTRY_WINDOW - 1 - at);
        }
        std::iter::from_fn(|| source.lock().machine.poll_message()).for_each(drop);
        for first in (0..ENTRY_WINDOW).step_by(512) {
            source.handle_peer(&needs(first, vec![TransferNeed::All; 512])).unwrap();
        }
        for entry in (0..ENTRY_WINDOW as u64).map(EntryId) {
            source.handle_peer(&TargetMessage::TargetFailed { entry }.encode(NUMBER)).unwrap();
        }
        assert_eq!(source.lock().machine.window(), 0, "what was given up still waits for a stream");
        let walk = Arc::clone(&source);
        let walking = std::thread::spawn(move || offers::wait_for_window(&walk).is_some());
        // Long enough for the walk to wait: only a stream may wake it.
        std::thread::sleep(Duration::from_millis(300));
        assert!(!walking.is_finished());
        let stream = Arc::clone(&source);
        let streaming = std::thread::spawn(move || stream.wait_for_work(StreamId(0), 1).unwrap().is_none());
        assert!(walking.join().unwrap());
        source.stop();
        assert!(streaming.join().unwrap());
    });
}

/// A sink that stops the copy at one of its frames.
struct StoppingSink<'s> {
    source: &'s Source,
    at: u64,
    frames: Vec<u64>,
}

impl FrameSink for StoppingSink<'_> {
    fn send_frame(
        &mut self,
        buffer: FrameBuffer,
        trailer: &RecordTrailer,
        _: &RateLimiter,
    ) -> Result<FrameBuffer, StreamError> {
        let RecordTrailer::Data(frame) = trailer else { panic!("{trailer:?}") };
        self.frames.push(frame.offset / u64::from(FrameLen::DEFAULT.get()));
        if self.frames.len() as u64 == self.at {
            self.source.stop();
        }
        Ok(buffer)
    }

    fn flush(&mut self) -> Result<(), StreamError> {
        Ok(())
    }

    fn end(&mut self, _: FrameBuffer) -> Result<(), StreamError> {
        Ok(())
    }
}

#[test]
fn a_stream_takes_its_next_piece_early_and_does_not_send_it_once_the_copy_is_stopped() {
    // Beside the test's executable: on a disk, unlike /tmp.
    let beside = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let place = tempfile::tempdir_in(beside).unwrap();
    let path = place.path().join("file");
    let frame = u64::from(FrameLen::DEFAULT.get());
    in_time(move || {
        for at in 1..=5 {
            // Not read yet.
            let _ = std::fs::remove_file(&path);
            let file = std::fs::File::create(&path).unwrap();
            file.set_len(400 * frame).unwrap();
            if OpenedFile::new(file.into(), FileAccess::Write).unwrap().in_memory() {
                println!("SKIPPED: no disk here");
                return;
            }
            let source = source(std::slice::from_ref(&path), Symlinks::Keep);
            assert_eq!(offers(&source).len(), 1);
            source.handle_peer(&needs(0, vec![TransferNeed::All])).unwrap();
            let mut sink = StoppingSink { source: &source, at, frames: Vec::new() };
            source.run_stream(StreamId(0), &mut sink).unwrap();
            let first_piece = ChunkSizer::default().frames_max();
            let sent = sink.frames.len() as u64;
            assert_eq!(sink.frames, (0..sent).collect::<Vec<_>>());
            if at <= first_piece {
                assert_eq!(sent, first_piece, "a piece that is begun is sent");
            }
            let Some(WorkItem::Frames(rest)) = source.lock().machine.next_work(StreamId(0), 1) else {
                panic!("the file is not done")
            };
            assert!(rest.frames.start > sent, "and the next one was taken by then");
        }
    });
}

#[test]
fn a_paused_source_gives_no_work_until_resumed_or_stopped() {
    in_time(|| {
        let temp = tempfile::tempdir().unwrap();
        let paths = ["a", "b"].map(|name| make_file(temp.path().join(name)));
        let source = Arc::new(source(&paths, Symlinks::Keep));
        assert_eq!(offers(&source).len(), 2);
        source.pause(true);
        source.handle_peer(&needs(0, vec![TransferNeed::All; 2])).unwrap();
        assert!(source.work_at_hand(StreamId(0), 1).is_none());
        let stream = Arc::clone(&source);
        let streaming = std::thread::spawn(move || stream.wait_for_work(StreamId(0), 1).unwrap().is_some());
        assert_eq!((source.pauses(), source.files_in_progress()), (1, 0));
        source.pause(false);
        assert!(streaming.join().unwrap());
        assert_eq!((source.pauses(), source.files_in_progress()), (2, 2), "both are small, and in one pack");
        source.pause(true);
        source.stop();
        assert_eq!(source.limiter.permit().acquire(1000), 1000, "what is half sent is not waited for");
    });
}

#[test]
fn a_list_is_offered_by_its_numbers_and_passed_by_batch_by_batch() {
    in_time(|| {
        let temp = tempfile::tempdir().unwrap();
        let file = make_file(temp.path().join("tree/file"));
        let paths = bytes(&[file.clone(), temp.path().join("gone"), temp.path().join("tree")]);
        let source = source_of(SourceRequest { listed: true, ..request(&[], Symlinks::Keep) });
        assert!(source.add_listed(SourceBatch { first: 0, paths, last: false }).is_ok());
        assert!(source.add_listed(SourceBatch { first: 3, paths: bytes(&[file]), last: true }).is_ok());
        source.walk();
        let mut state = source.lock();
        let told: Vec<_> = std::iter::from_fn(|| state.machine.poll_message())
            .flat_map(|message| match message {
                SourceMessage::Offer { entries, .. } => {
                    entries.iter().map(|entry| format!("{:?}", entry.place)).collect()
                }
                other => vec![format!("{other:?}")],
            })
            .filter(|told| !told.starts_with("Child") && !told.starts_with("DirectoryEnd"))
            .collect();
        let expected =
            ["Operand(0)", "Operand(2)", "ListAck { before: 3 }", "Operand(3)", "ListAck { before: 4 }", "OffersEnd"];
        assert_eq!(told, expected);
        assert_eq!(source.reporter.tally.counters().failed, 1, "what is gone");
    });
}

#[test]
fn a_source_without_a_promised_list_rejects_one_and_a_waiting_walk_can_be_stopped() {
    in_time(|| {
        let batch = || SourceBatch { first: 0, paths: Vec::new(), last: true };
        let none = source(&[], Symlinks::Keep);
        assert_eq!(none.add_listed(batch()), Err(ProtocolError::Unasked("a listed source argument")));
        let waiting = Arc::new(source_of(SourceRequest { listed: true, ..request(&[], Symlinks::Keep) }));
        let walk = Arc::clone(&waiting);
        let walking = std::thread::spawn(move || walk.walk());
        waiting.stop();
        walking.join().unwrap();
    });
}

#[test]
fn a_confined_source_of_a_list_reads_below_its_base_alone() {
    let temp = tempfile::tempdir().unwrap();
    let (inside, outside) =
        (make_file(temp.path().join("base/deep/file")), make_file(temp.path().join("outside/file")));
    symlink("../outside", temp.path().join("base/way")).unwrap();
    let base = temp.path().join("base");
    let known = Some(base.as_os_str().as_bytes().to_vec());
    let source = source_of(SourceRequest { listed: true, base: known, ..request(&[], Symlinks::Keep) });
    let paths = bytes(&[inside.clone(), base.join("way/file")]);
    source.add_listed(SourceBatch { first: 0, paths, last: true }).unwrap();
    let allow = |bounds: &mut ConfineBounds| source.allow(bounds);
    let read = || (std::fs::read(&inside), std::fs::read(&outside), offers(&source).len());
    let Some((inside, outside, offered)) = confined(ConfineNetwork::None, allow, read) else { return };
    assert_eq!((inside.unwrap(), offered), (b"1".to_vec(), 1), "what a link leads to is not offered");
    is_denied(outside);
    assert_eq!(source.reporter.tally.counters().failed, 1);
}
