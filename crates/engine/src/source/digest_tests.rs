//! Digests in Offers: which files have one, and which not.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_base::control_channel::ControlWriter;
use haul_proto::entry::{Entry, EntryContent, EntryLocation};
use haul_proto::wire::request::{SourceRequest, Symlinks};

use super::super::tests::{make_file, offers, request};
use super::*;
use crate::fs::testing::{in_time, without_capabilities};
use crate::metrics::reporter::Reporter;
use crate::policy::HostPolicy;

fn telling(operands: &[PathBuf], change: impl FnOnce(&mut SourceRequest)) -> Source {
    let mut request = SourceRequest { tell_digests: true, ..request(operands, Symlinks::Keep) };
    change(&mut request);
    Source::prepare(request, Reporter::new(ControlWriter::new(io::sink()), false), None, &HostPolicy::default())
}

/// The offered files: names and digests.
fn digests(source: &Source) -> Vec<(String, Option<Digest>)> {
    let name = |place: &EntryLocation| match place {
        EntryLocation::Child { name, .. } => String::from_utf8_lossy(name.as_bytes()).into_owned(),
        other => format!("{other:?}"),
    };
    let file = |entry: Entry| match entry.kind {
        EntryContent::File { .. } => Some((name(&entry.place), entry.more.and_then(|more| more.digest))),
        _ => None,
    };
    let mut files: Vec<_> = offers(source).into_iter().filter_map(file).collect();
    files.sort();
    files
}

fn blake3_of(path: &Path) -> Digest {
    *blake3::hash(&std::fs::read(path).unwrap()).as_bytes()
}

#[test]
fn every_readable_file_with_bytes_is_offered_with_its_digest() {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    let [small, large, holes] = ["small", "large", "with holes"].map(|name| make_file(tree.join(name)));
    let noise: Vec<u8> = (0..3_000_001u32).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    std::fs::write(&large, noise).unwrap();
    let mut file = File::options().write(true).open(&holes).unwrap();
    file.seek(SeekFrom::Start(5 << 20)).unwrap();
    file.write_all(b"data").unwrap();
    file.set_len(9 << 20).unwrap();
    File::create(tree.join("empty")).unwrap();
    std::os::unix::fs::symlink("small", tree.join("link")).unwrap();
    let source = telling(&[tree, small.clone()], |_| ());
    let expected = [
        ("Operand(1)".to_owned(), Some(blake3_of(&small))),
        ("empty".to_owned(), None),
        ("large".to_owned(), Some(blake3_of(&large))),
        ("small".to_owned(), Some(blake3_of(&small))),
        ("with holes".to_owned(), Some(blake3_of(&holes))),
    ];
    assert_eq!(digests(&source), expected);
    assert_eq!(source.reporter.tally.counters().failed, 0);
}

#[test]
fn digests_are_neither_unrequested_nor_for_comparisons() {
    let temp = tempfile::tempdir().unwrap();
    let file = make_file(temp.path().join("tree/file"));
    let tree = [file.parent().unwrap().to_owned()];
    for source in
        [telling(&tree, |request| request.tell_digests = false), telling(&tree, |request| request.compare = true)]
    {
        assert_eq!(digests(&source), [("file".to_owned(), None)]);
    }
}

#[test]
fn unreadable_files_are_offered_without_and_reported_on_copying() {
    use std::os::unix::fs::PermissionsExt;
    let temp = tempfile::tempdir().unwrap();
    let file = make_file(temp.path().join("tree/file"));
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o000)).unwrap();
    let source = telling(&[file.parent().unwrap().to_owned()], |_| ());
    let (told, failed) = without_capabilities(move || (digests(&source), source.reporter.tally.counters().failed));
    if rustix::process::geteuid().is_root() || told[0].1.is_none() {
        assert_eq!((told, failed), (vec![("file".to_owned(), None)], 0));
    }
}

#[test]
fn a_changed_file_has_no_digest() {
    let temp = tempfile::tempdir().unwrap();
    let path = make_file(temp.path().join("tree/file"));
    let source = telling(&[path.parent().unwrap().to_owned()], |_| ());
    let dir = crate::fs::Dir::open_root(path.parent().unwrap()).unwrap();
    let name = haul_proto::path::Name::new(b"file").unwrap();
    let (_, stat) = dir.open_file(&name, crate::fs::FollowLinks::Itself).unwrap();
    let place =
        crate::source::path::SourcePath { parent: dir, name, links: crate::fs::FollowLinks::Itself, is_operand: false };
    let item = SourceEntry::file(Arc::from(&b"tree"[..]), place, &stat);
    let mut digester = WalkDigester::default();
    assert_eq!(digester.digest(&source, &item), Some(blake3_of(&path)));
    for text in ["longer than before", ""] {
        std::fs::write(&path, text).unwrap();
        assert_eq!(digester.digest(&source, &item), None);
    }
    // Truncated, or given another time, while being read.
    let reader = &mut FrameReader::new(1 << 16, 1);
    for change in [|file: &File| file.set_len(1 << 18), |file: &File| file.set_modified(std::time::SystemTime::now())] {
        std::fs::write(&path, vec![7; 1 << 20]).unwrap();
        let item = found(&item);
        let opened = item.open_as_offered().unwrap();
        change(&File::options().write(true).open(&path).unwrap()).unwrap();
        assert!(matches!(read(&source, &item, opened, reader), Err(SourceFileError::Changed)));
    }
    // The reader is reusable afterwards.
    let item = found(&item);
    let opened = item.open_as_offered().unwrap();
    assert_eq!(read(&source, &item, opened, reader).ok(), Some(blake3_of(&path)));
}

/// An entry of the same file in its present state.
fn found(item: &SourceEntry) -> SourceEntry {
    let place = item.place().cloned().unwrap();
    let (_, stat) = place.parent.open_file(&place.name, place.links).unwrap();
    SourceEntry::file(Arc::clone(&item.operand), place, &stat)
}

#[test]
fn a_stopped_copy_does_not_wait_for_the_end_of_a_huge_file() {
    in_time(|| {
        let temp = tempfile::tempdir().unwrap();
        let path = make_file(temp.path().join("tree/huge"));
        File::options().write(true).open(&path).unwrap().set_len(1 << 42).unwrap();
        let source = Arc::new(telling(&[path.parent().unwrap().to_owned()], |_| ()));
        let walk = Arc::clone(&source);
        let walking = std::thread::spawn(move || walk.walk());
        while source.reporter.tally.counters().files_found == 0 {
            std::thread::yield_now();
        }
        source.stop();
        walking.join().unwrap();
    });
}
