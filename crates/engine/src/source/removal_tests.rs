//! Removals at the source, and above all entries that stay.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_base::control_channel::ControlWriter;
use haul_proto::entry::{EntryContent, EntryLocation};
use haul_proto::ids::{EntryId, StreamId};
use haul_proto::scheduler::CHUNK_FRAMES_MAX;
use haul_proto::wire::list_batch::SourceBatch;
use haul_proto::wire::message::{TargetMessage, TransferNeed};
use haul_proto::wire::preserve::PreserveOptions;
use haul_proto::wire::request::SourceRequest;

use super::super::tests::{NUMBER, bytes, make_file, needs, offers, request};
use super::*;
use crate::fs::testing::{in_time, without_capabilities};
use crate::metrics::reporter::Reporter;
use crate::policy::HostPolicy;
use crate::sys::confine::ConfineNetwork;
use crate::sys::confine::tests::{confined, is_denied};

fn removing(operands: &[PathBuf], change: impl FnOnce(&mut SourceRequest)) -> Source {
    let mut request = SourceRequest { remove_files: true, ..request(operands, Symlinks::Keep) };
    change(&mut request);
    Source::prepare(request, Reporter::new(ControlWriter::new(io::sink()), false), None, &HostPolicy::default())
}

/// Offers everything. The target needs all files except those whose names begin with `has`, which exist, and with
/// `same`, which are known to be equal, like links. Assigns all needed files to a stream.
fn send_all(source: &Source) -> Vec<EntryId> {
    let entries = offers(source);
    let begins = |place: &EntryLocation, with: &[u8]| matches!(place, EntryLocation::Child { name, .. } if name.as_bytes().starts_with(with));
    let answers: Vec<_> = entries
        .iter()
        .map(|entry| match entry.kind {
            EntryContent::File { .. } | EntryContent::Symlink { .. } if begins(&entry.place, b"has") => {
                TransferNeed::Nothing
            }
            EntryContent::File { .. } if begins(&entry.place, b"same") => TransferNeed::Same,
            EntryContent::Symlink { .. } => TransferNeed::Same,
            _ => TransferNeed::All,
        })
        .collect();
    source.handle_peer(&needs(0, answers)).unwrap();
    while source.lock().machine.next_work(StreamId(0), CHUNK_FRAMES_MAX).is_some() {}
    (0..entries.len() as u64).map(EntryId).collect()
}

fn done(source: &Source, entries: &[EntryId]) {
    let runs = entries.iter().map(|entry| (*entry, 1)).collect();
    source.handle_peer(&TargetMessage::Done { runs }.encode(NUMBER)).unwrap();
}

/// Completes all entries. Returns the numbers of removed files and of reported failures.
fn finish(source: &Source, entries: &[EntryId]) -> (u64, u64) {
    done(source, entries);
    while source.lock().machine.poll_message().is_some() {}
    source.remove_verified();
    told(source)
}

fn told(source: &Source) -> (u64, u64) {
    let removed = source.reporter.sync.figures().map_or(0, |figures| figures.removed_at_source);
    (removed, source.reporter.tally.counters().failed)
}

fn names(dir: &Path) -> Vec<String> {
    let name = |found: io::Result<fs::DirEntry>| found.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(name).collect();
    names.sort();
    names
}

#[test]
fn only_sent_files_are_removed() {
    in_time(|| {
        let temp = tempfile::tempdir().unwrap();
        let tree = temp.path().join("tree");
        ["sent", "sub/deep/sent", "has this", "sub/has that"].iter().for_each(|name| drop(make_file(tree.join(name))));
        symlink("sent", tree.join("has link")).unwrap();
        let operand = make_file(temp.path().join("operand"));
        let led_to = make_file(temp.path().join("led to"));
        symlink("led to", temp.path().join("leads")).unwrap();
        let source = removing(&[tree.clone(), operand.clone(), temp.path().join("leads")], |_| ());
        let entries = send_all(&source);
        assert_eq!(names(&tree), ["has link", "has this", "sent", "sub"], "nothing is done");
        assert_eq!(finish(&source, &entries), (3, 0));
        assert_eq!(names(&tree), ["has link", "has this", "sub"]);
        assert_eq!(source.reporter.sync.figures().map(|figures| figures.left_at_source), Some(3));
        assert_eq!(names(&tree.join("sub")), ["deep", "has that"]);
        assert!(names(&tree.join("sub/deep")).is_empty(), "directories stay");
        assert!(!operand.exists() && led_to.exists() && temp.path().join("leads").is_symlink());
    });
}

#[test]
fn equal_files_and_unchanged_links_are_removed() {
    in_time(|| {
        let temp = tempfile::tempdir().unwrap();
        let tree = temp.path().join("tree");
        let first = make_file(tree.join("same"));
        fs::hard_link(first, tree.join("same too")).unwrap();
        make_file(tree.join("same, then changed"));
        for name in ["link", "turned", "made a file"] {
            symlink("same", tree.join(name)).unwrap();
        }
        let source = removing(std::slice::from_ref(&tree), |request| {
            request.preserve = PreserveOptions { hard_links: true, ..PreserveOptions::default() };
            request.tell_digests = true;
        });
        let entries = send_all(&source);
        fs::write(tree.join("same, then changed"), "something else").unwrap();
        for name in ["turned", "made a file"] {
            fs::remove_file(tree.join(name)).unwrap();
        }
        symlink("elsewhere", tree.join("turned")).unwrap();
        make_file(tree.join("made a file"));
        let all: Vec<_> = entries[1..].iter().chain(&entries[..1]).copied().collect();
        assert_eq!(finish(&source, &all), (3, 3));
        assert_eq!(names(&tree), ["made a file", "same, then changed", "turned"]);
        assert_eq!(source.reporter.sync.figures().map(|figures| figures.left_at_source), Some(0));
    });
}

#[test]
fn no_file_is_removed_before_completion_or_after_a_failure_or_unasked() {
    in_time(|| {
        let temp = tempfile::tempdir().unwrap();
        let tree = temp.path().join("tree");
        let files: Vec<_> = (0..3).map(|i| make_file(tree.join(format!("{i}")))).collect();
        let source = removing(std::slice::from_ref(&tree), |_| ());
        let entries = send_all(&source);
        // The walk follows the file system's order.
        let failed = entries[2];
        source.handle_peer(&TargetMessage::TargetFailed { entry: failed }.encode(NUMBER)).unwrap();
        done(&source, &entries[1..2]);
        assert_eq!(source.lock().removals.len(), 1);
        assert_eq!(finish(&source, &[entries[0], entries[3]]), (2, 0));
        assert_eq!(files.iter().filter(|file| file.exists()).count(), 1);
        for change in [
            |request: &mut SourceRequest| request.remove_files = false,
            |request: &mut SourceRequest| request.compare = true,
        ] {
            let source = removing(std::slice::from_ref(&tree), change);
            assert!(!source.removes_files());
            assert_eq!(offers(&source).len(), 2);
            assert!(source.lock().removals.is_empty());
        }
    });
}

#[test]
fn files_that_differ_from_the_sent_data_stay_and_are_reported() {
    in_time(|| {
        let temp = tempfile::tempdir().unwrap();
        let tree = temp.path().join("tree");
        let path = |name: &str| tree.join(name);
        for name in ["grown", "touched", "overwritten", "exchanged", "linked", "made a directory", "gone", "same"] {
            make_file(path(name));
        }
        let source = removing(std::slice::from_ref(&tree), |request| request.tell_digests = true);
        let entries = send_all(&source);
        fs::write(path("grown"), "12").unwrap();
        let other_time = std::time::SystemTime::UNIX_EPOCH;
        File::options().write(true).open(path("touched")).unwrap().set_modified(other_time).unwrap();
        overwrite(&path("overwritten"));
        // A different file of the same size and time.
        let time = fs::metadata(path("exchanged")).unwrap().modified().unwrap();
        let other = make_file(temp.path().join("other"));
        File::options().write(true).open(&other).unwrap().set_modified(time).unwrap();
        fs::rename(other, path("exchanged")).unwrap();
        fs::rename(path("linked"), temp.path().join("moved")).unwrap();
        symlink(temp.path().join("moved"), path("linked")).unwrap();
        fs::remove_file(path("made a directory")).unwrap();
        fs::create_dir(path("made a directory")).unwrap();
        fs::remove_file(path("gone")).unwrap();
        assert_eq!(finish(&source, &entries), (1, 6));
        assert_eq!(names(&tree), ["exchanged", "grown", "linked", "made a directory", "overwritten", "touched"]);
        assert!(temp.path().join("moved").exists());
    });
}

#[test]
fn a_directory_replaced_by_a_link_is_not_entered() {
    in_time(|| {
        let temp = tempfile::tempdir().unwrap();
        let tree = temp.path().join("tree");
        let file = make_file(tree.join("dir/file"));
        let source = removing(std::slice::from_ref(&tree), |_| ());
        let entries = send_all(&source);
        // The same directory, reached through a link. If its descriptor is still open, it contains the sent file.
        let elsewhere = temp.path().join("elsewhere");
        make_file(elsewhere.join("file"));
        fs::rename(tree.join("dir"), temp.path().join("away")).unwrap();
        symlink(&elsewhere, tree.join("dir")).unwrap();
        assert_eq!(finish(&source, &entries).0, 1);
        assert!(elsewhere.join("file").exists() && !file.parent().unwrap().join("x").exists());
        assert!(names(&temp.path().join("away")).is_empty());
    });
}

#[test]
fn each_of_a_files_names_is_removed_by_itself() {
    in_time(|| {
        let temp = tempfile::tempdir().unwrap();
        let tree = temp.path().join("tree");
        fs::create_dir(&tree).unwrap();
        let linked = |name: &str| {
            let first = make_file(temp.path().join(format!("first of {name}")));
            (0..3).for_each(|i| fs::hard_link(&first, tree.join(format!("{name}{i}"))).unwrap());
        };
        linked("sent");
        linked("has");
        let source = removing(std::slice::from_ref(&tree), |request| {
            request.preserve = PreserveOptions { hard_links: true, ..PreserveOptions::default() };
        });
        let entries = send_all(&source);
        assert_eq!(entries.len(), 7);
        let mut parts = entries[1..].to_vec();
        parts.push(entries[0]);
        // Hard links to existing files are created, and stay at the source.
        assert_eq!(finish(&source, &parts), (3, 0));
        assert_eq!(names(&tree), ["has0", "has1", "has2"]);
        assert_eq!(names(temp.path()), ["first of has", "first of sent", "tree"], "names elsewhere stay");
    });
}

/// Overwrites a file with as many bytes and restores its modification time, until its change time differs: some kernels
/// have coarse clocks.
fn overwrite(path: &Path) {
    let changed = |path: &Path| {
        let meta = fs::metadata(path).unwrap();
        (meta.ctime(), meta.ctime_nsec())
    };
    let (before, len) = (changed(path), fs::read(path).unwrap().len());
    let modified = fs::metadata(path).unwrap().modified().unwrap();
    while changed(path) == before {
        fs::write(path, vec![b'?'; len]).unwrap();
        File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
    }
}

#[test]
fn removed_hard_links_do_not_make_the_remaining_names_look_changed() {
    in_time(|| {
        let temp = tempfile::tempdir().unwrap();
        let tree = temp.path().join("tree");
        let first = make_file(tree.join("0"));
        (1..9).for_each(|i| fs::hard_link(&first, tree.join(format!("{i}"))).unwrap());
        let source = removing(std::slice::from_ref(&tree), |_| ());
        let entries = send_all(&source);
        let handle = |entry| Arc::clone(source.lock().machine.handle_of(entry).unwrap());
        let (last, further) = (handle(entries[9]), handle(entries[8]));
        let opened = last.open_as_offered().unwrap();
        done(&source, &entries[1..8]);
        let batch = source.wait_for_removals().unwrap();
        batch.iter().for_each(|removal| source.remove(removal));
        source.lock().machine.release_verified(batch.len());
        assert_eq!(told(&source), (7, 0));
        // The files are read and opened meanwhile.
        assert!(last.is_as_offered(opened.fd()).unwrap());
        assert!(further.open_as_offered().is_ok());
        // A later write is a change.
        overwrite(&tree.join(names(&tree).pop().unwrap()));
        assert!(!last.is_as_offered(opened.fd()).unwrap());
        assert_eq!(finish(&source, &[entries[8], entries[9], entries[0]]), (7, 2));
        assert_eq!(names(&tree).len(), 2);
    });
}

#[test]
fn a_name_is_removed_after_its_own_completion_not_its_first_names() {
    in_time(|| {
        let temp = tempfile::tempdir().unwrap();
        let tree = temp.path().join("tree");
        let first = make_file(tree.join("0"));
        fs::hard_link(&first, tree.join("1")).unwrap();
        let source = removing(std::slice::from_ref(&tree), |request| {
            request.preserve = PreserveOptions { hard_links: true, ..PreserveOptions::default() };
        });
        let entries = send_all(&source);
        done(&source, &entries[1..2]);
        source.handle_peer(&TargetMessage::TargetFailed { entry: entries[2] }.encode(NUMBER)).unwrap();
        assert_eq!(finish(&source, &entries[..1]), (1, 0));
        assert_eq!(names(&tree).len(), 1);
    });
}

#[test]
fn with_followed_links_nothing_below_an_argument_is_removed() {
    in_time(|| {
        let temp = tempfile::tempdir().unwrap();
        let tree = temp.path().join("tree");
        let (file, outside) = (make_file(tree.join("file")), make_file(temp.path().join("outside/file")));
        symlink("../outside", tree.join("dir")).unwrap();
        symlink("file", tree.join("link")).unwrap();
        let operand = make_file(temp.path().join("operand"));
        let source = removing(&[tree, operand.clone()], |request| request.links = Symlinks::Follow);
        let entries = send_all(&source);
        assert_eq!(entries.len(), 6);
        assert_eq!(finish(&source, &entries), (1, 0));
        assert!(file.exists() && outside.exists() && !operand.exists());
    });
}

#[test]
fn a_forbidden_removal_is_a_failure_with_a_message() {
    in_time(|| {
        let temp = tempfile::tempdir().unwrap();
        let tree = temp.path().join("tree");
        let file = make_file(tree.join("file"));
        fs::set_permissions(&tree, fs::Permissions::from_mode(0o555)).unwrap();
        let source = removing(std::slice::from_ref(&tree), |_| ());
        let outcome = without_capabilities(move || {
            let entries = send_all(&source);
            finish(&source, &entries)
        });
        fs::set_permissions(&tree, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!((outcome, file.exists()), ((0, 1), true));
    });
}

#[test]
fn a_stopped_copy_removes_no_more_files() {
    in_time(|| {
        let temp = tempfile::tempdir().unwrap();
        let file = make_file(temp.path().join("tree/file"));
        let source = Arc::new(removing(&[file.parent().unwrap().to_owned()], |_| ()));
        let entries = send_all(&source);
        done(&source, &entries[1..]);
        source.stop();
        source.remove_verified();
        assert!(file.exists());
    });
}

#[test]
fn the_removing_thread_wakes_for_each_file_and_ends_with_the_copy() {
    in_time(|| {
        let temp = tempfile::tempdir().unwrap();
        let tree = temp.path().join("tree");
        (0..500).for_each(|i| drop(make_file(tree.join(format!("{i}")))));
        let source = Arc::new(removing(std::slice::from_ref(&tree), |_| ()));
        let entries = send_all(&source);
        let remover = Arc::clone(&source);
        let removing = std::thread::spawn(move || remover.remove_verified());
        for entry in &entries[1..] {
            done(&source, &[*entry]);
        }
        while told(&source).0 < 500 {
            std::thread::yield_now();
        }
        done(&source, &entries[..1]);
        // Its last messages are sent, which completes it.
        assert!(source.wait_for_messages().is_none());
        removing.join().unwrap();
        assert_eq!(source.lock().machine.window(), haul_proto::limits::ENTRY_WINDOW);
        assert!(source.work_at_hand(StreamId(0), 1).is_none());
    });
}

#[test]
fn a_confined_source_removes_only_permitted_files_of_its_arguments() {
    let temp = tempfile::tempdir().unwrap();
    let inside = make_file(temp.path().join("tree/deep/file"));
    let operand = make_file(temp.path().join("files/operand"));
    let outside = make_file(temp.path().join("outside/file"));
    let operands = [temp.path().join("tree"), operand.clone()];
    let try_all = |source: &Source| {
        let remove = || [&inside, &operand, &outside].map(fs::remove_file);
        confined(ConfineNetwork::None, |bounds| source.allow(bounds), remove)
    };
    let Some(results) = try_all(&removing(&operands, |request| request.remove_files = false)) else { return };
    results.into_iter().for_each(is_denied);
    let follows = removing(&operands, |request| request.links = Symlinks::Follow);
    let [in_tree, as_operand, elsewhere] = try_all(&follows).unwrap();
    is_denied(in_tree);
    is_denied(elsewhere);
    as_operand.unwrap();
    make_file(operand.clone());
    let [in_tree, as_operand, elsewhere] = try_all(&removing(&operands, |_| ())).unwrap();
    in_tree.unwrap();
    as_operand.unwrap();
    is_denied(elsewhere);

    make_file(inside.clone());
    let base = bytes(&[temp.path().join("tree")]).remove(0);
    let of_a_list = removing(&[], |request| (request.listed, request.base) = (true, Some(base)));
    of_a_list.add_listed(SourceBatch { first: 0, paths: Vec::new(), last: true }).unwrap();
    let [in_tree, _, elsewhere] = try_all(&of_a_list).unwrap();
    in_tree.unwrap();
    is_denied(elsewhere);
    let of_any_list = removing(&[], |request| request.listed = true);
    let [_, _, elsewhere] = try_all(&of_any_list).unwrap();
    elsewhere.unwrap();
}
