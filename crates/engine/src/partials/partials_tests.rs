//! What is found of what broken copies leave, and what of it is removed.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use haul_proto::delta::patch;
use haul_proto::entry::FileVersion;
use haul_proto::file_range::RangeLen;
use haul_proto::integrity::FrameLen;
use haul_proto::journal::{JournalHeader, JournalRecord};
use rustix::fs::{FlockOperation, flock};

use super::*;
use crate::receiver::file::patch::patch_name;
use crate::receiver::place::range_files::{FoundRange, open_range, partial_name};
use crate::receiver::place::temp_files::TempFiles;
use crate::receiver::place::temp_names::random_name;

const FRAME: u64 = 256 << 10;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A part of `name`, of which frames 0 and 3 (the last, of 5 bytes) are recorded.
    fn part(&self, name: &str, journals: Option<&str>) -> PathBuf {
        let path = self.path(name);
        let directory = path.parent().unwrap();
        fs::create_dir_all(directory).unwrap();
        let name = Name::new(path.file_name().unwrap().as_bytes()).unwrap();
        let part = directory.join(temporary_name(&name, b"file").to_string());
        fs::write(&part, vec![7; 70_000]).unwrap();
        let journals = journals.map(|journals| self.path(journals));
        let spot = TargetPath { dir: Dir::open_root(directory).unwrap(), name: name.clone(), replaces: false };
        let leaf = JournalLocation::new(true, true, journals.as_deref()).unwrap().leaf(&spot);
        let frame = FrameLen::new(u32::try_from(FRAME).unwrap()).unwrap();
        let version = FileVersion { device: 1, inode: 2, changed: Timestamp::default() };
        let header =
            JournalHeader { name, size: 3 * FRAME + 5, modified: Timestamp::default(), version, frame, range: None };
        let journal = OpenJournal::create(&leaf, &header).unwrap();
        [0, 3].iter().for_each(|index| journal.record(*index, &JournalRecord { check: 1, value: None }));
        part
    }

    /// A patch of `name`, for the file with this inode, that would give it two bytes and this time.
    fn patch(&self, name: &str, inode: u64, modified: Timestamp) -> PathBuf {
        let path = self.path(name);
        let patch = patch_name(&Name::new(path.file_name().unwrap().as_bytes()).unwrap());
        let mut bytes =
            patch::PatchHeader { inode, size: 3, modified, end: patch::HEADER_LEN as u64 + 14, applied: 0 }.encode();
        patch::append(&mut bytes, 1, b"yz");
        let patch = path.parent().unwrap().join(patch.to_string());
        fs::write(&patch, bytes).unwrap();
        patch
    }

    fn found_at(&self, name: &str, journals: Option<&str>) -> Vec<(String, PartialState)> {
        let mut found = self.partials(name, journals);
        found.sort_by(|a, b| a.about.path.cmp(&b.about.path));
        let root = self.0.path().to_str().unwrap().to_owned() + "/";
        let shown = |path: Vec<u8>| String::from_utf8(path).unwrap().strip_prefix(&root).unwrap().to_owned();
        found.into_iter().map(|partial| (shown(partial.about.path), partial.about.state)).collect()
    }

    fn partials(&self, name: &str, journals: Option<&str>) -> Vec<Partial> {
        let journals = journals.map(|journals| self.path(journals));
        let found = find(&self.path(name), journals.as_deref()).unwrap();
        found.map(|partial| partial.unwrap_or_else(|unreadable| panic!("{}", unreadable.text))).collect()
    }
}

const SOME: PartialState = PartialState::Part(PartialExtent { recorded: FRAME + 5, size: 3 * FRAME + 5 });

#[test]
fn a_part_under_a_random_name_is_known_by_its_journal() {
    let place = Place::new();
    let part = place.part("file", None);
    let expected = temporary_name(&Name::new(b"file").unwrap(), b"file");
    let random = part.with_file_name(random_name(&expected).unwrap().to_string());
    fs::rename(&part, &random).unwrap();
    fs::create_dir(&part).unwrap();
    assert_eq!(place.found_at("", None), [("file".to_owned(), SOME)]);
    place
        .partials("", None)
        .iter_mut()
        .for_each(|partial| assert!(matches!(partial.remove(), Ok(PartialRemoval::Removed))));
    assert_eq!(fs::read_dir(place.path("")).unwrap().count(), 1, "what haul did not make stays");
}

#[test]
fn lock_files_are_no_partial_files() {
    let place = Place::new();
    let locks = place.path("haul/locks");
    fs::create_dir_all(&locks).unwrap();
    let name = |what| Name::reserved("0123456789abcdef01234567", what).to_string();
    [name("lock"), name("part")].iter().for_each(|name| fs::write(locks.join(name), "").unwrap());
    assert_eq!(place.found_at("", None), []);
    fs::write(locks.join(name("part")), "data").unwrap();
    assert_eq!(place.found_at("", None).len(), 1);
}

#[test]
fn parts_are_found_below_a_directory_and_by_their_final_names() {
    let place = Place::new();
    let part = place.part("a/deep/big", None);
    place.part("a/other", None);
    fs::write(place.path("a/whole"), "").unwrap();
    std::os::unix::fs::symlink("deep", place.path("a/link")).unwrap();
    let all = [("a/deep/big".to_owned(), SOME), ("a/other".to_owned(), SOME)];
    assert_eq!(place.found_at("a", None), all);
    assert_eq!(place.found_at("a/deep/big", None), all[..1]);
    let hidden = part.strip_prefix(place.0.path()).unwrap().to_str().unwrap();
    assert_eq!(place.found_at(hidden, None), all[..1]);
    assert_eq!(place.found_at("a/whole", None), []);
    for missing in ["a/none", "none/big"] {
        assert!(find(&place.path(missing), None).is_err(), "{missing}");
    }
}

#[test]
fn orphaned_files_are_distinguished() {
    let place = Place::new();
    let unrecorded = place.part("a/unrecorded", None);
    fs::remove_file(unrecorded.with_extension("journal")).unwrap();
    let torn = place.part("a/torn", None);
    fs::write(torn.with_extension("journal"), vec![1; 4000]).unwrap();
    let misled = place.part("a/misled", None);
    fs::copy(place.part("b/big", None).with_extension("journal"), misled.with_extension("journal")).unwrap();
    let orphan = place.part("a/orphan", None);
    fs::remove_file(&orphan).unwrap();
    let own = |path: &Path| path.strip_prefix(place.0.path()).unwrap().to_str().unwrap().to_owned();
    let mut expected = vec![
        (own(&unrecorded), PartialState::Unrecorded),
        (own(&torn), PartialState::Unrecorded),
        (own(&misled), PartialState::Unrecorded),
        (own(&orphan.with_extension("journal")), PartialState::Journal),
    ];
    expected.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(place.found_at("a", None), expected);
}

#[test]
fn journals_of_a_directory_of_their_own_are_found_only_with_it_and_never_lost() {
    let place = Place::new();
    fs::create_dir(place.path("j")).unwrap();
    place.part("a/big", Some("j"));
    assert!(matches!(place.found_at("a", None)[..], [(_, PartialState::Unrecorded)]));
    assert_eq!(place.found_at("a", Some("j")), [("a/big".to_owned(), SOME)]);
    assert!(matches!(place.found_at("j", None)[..], [(_, PartialState::Elsewhere)]));
    assert!(matches!(place.partials("j", None)[0].remove().unwrap(), PartialRemoval::Kept));
    assert_eq!(fs::read_dir(place.path("j")).unwrap().count(), 1);
    assert!(matches!(place.partials("a", Some("j"))[0].remove().unwrap(), PartialRemoval::Removed));
    assert_eq!(fs::read_dir(place.path("j")).unwrap().count() + fs::read_dir(place.path("a")).unwrap().count(), 0);
}

#[test]
fn files_in_use_are_named_and_stay() {
    let place = Place::new();
    let part = File::options().write(true).open(place.part("a/big", None)).unwrap();
    let early = &mut place.partials("a", None)[0];
    flock(&part, FlockOperation::NonBlockingLockExclusive).unwrap();
    let extent = Some(PartialExtent { recorded: FRAME + 5, size: 3 * FRAME + 5 });
    let busy = PartialState::Busy { extent, process: Some(std::process::id()) };
    assert_eq!(place.found_at("a", None), [("a/big".to_owned(), busy)]);
    // It was begun after it had been looked at.
    assert!(matches!(early.remove().unwrap(), PartialRemoval::Kept));
    assert_eq!(early.about.state, busy);
    assert_eq!(fs::read_dir(place.path("a")).unwrap().count(), 2);
    drop(part);
    assert!(matches!(early.remove().unwrap(), PartialRemoval::Removed));
    assert!(matches!(early.remove().unwrap(), PartialRemoval::Vanished));
    assert_eq!(fs::read_dir(place.path("a")).unwrap().count(), 0);
}

#[test]
fn a_journal_whose_part_reappeared_stays() {
    let place = Place::new();
    let part = place.part("a/big", None);
    fs::remove_file(&part).unwrap();
    let orphan = &mut place.partials("a", None)[0];
    fs::write(&part, "begun").unwrap();
    assert!(matches!(orphan.remove().unwrap(), PartialRemoval::Vanished));
    fs::remove_file(&part).unwrap();
    assert!(matches!(orphan.remove().unwrap(), PartialRemoval::Removed));
    assert_eq!(fs::read_dir(place.path("a")).unwrap().count(), 0);
}

#[test]
fn pending_patches_are_known_by_their_file_and_stay() {
    let place = Place::new();
    fs::create_dir(place.path("a")).unwrap();
    for name in ["a/db", "a/other"] {
        fs::write(place.path(name), "abc").unwrap();
    }
    let later = Timestamp { seconds: 1 << 34, nanoseconds: 1 };
    let patch = place.patch("a/db", fs::metadata(place.path("a/db")).unwrap().ino(), later);
    let waits = [("a/db".to_owned(), PartialState::Patch { bytes: 14, size: 3 })];
    let hidden = patch.strip_prefix(place.0.path()).unwrap().to_str().unwrap().to_owned();
    for name in ["a", "a/db", &hidden] {
        assert_eq!(place.found_at(name, None), waits, "{name}");
        assert!(matches!(place.partials(name, None)[0].remove().unwrap(), PartialRemoval::Kept), "{name}");
    }
    assert_eq!(place.found_at("a/other", None), []);
    let held = File::open(&patch).unwrap();
    flock(&held, FlockOperation::NonBlockingLockExclusive).unwrap();
    let busy = PartialState::Busy { extent: None, process: Some(std::process::id()) };
    assert_eq!(place.found_at("a", None), [("a/db".to_owned(), busy)]);
    assert!(matches!(place.partials("a", None)[0].remove().unwrap(), PartialRemoval::Kept));
    assert!(patch.exists());
}

#[test]
fn orphaned_patches_are_removed() {
    let place = Place::new();
    fs::create_dir(place.path("a")).unwrap();
    let file = place.path("a/db");
    fs::write(&file, "ayz").unwrap();
    let about = fs::metadata(&file).unwrap();
    let inode = about.ino();
    let modified = Timestamp { seconds: about.mtime(), nanoseconds: u32::try_from(about.mtime_nsec()).unwrap() };
    let later = Timestamp { seconds: modified.seconds + 1, ..modified };
    let cut = |patch: &Path, len| File::options().write(true).open(patch).unwrap().set_len(len).unwrap();
    let all_in_it = || place.patch("a/db", inode, modified);
    let of_another = || place.patch("a/db", inode + 1, later);
    let of_none = || place.patch("a/gone", inode, later);
    let shorter = || {
        let patch = place.patch("a/db", inode, later);
        cut(&patch, 109);
        patch
    };
    let without_header = || {
        let patch = place.patch("a/db", inode, later);
        cut(&patch, 95);
        patch
    };
    let cases: [(&dyn Fn() -> PathBuf, PartialState); 5] = [
        (&all_in_it, PartialState::Spent),
        (&of_another, PartialState::Spent),
        (&of_none, PartialState::Spent),
        (&shorter, PartialState::Damaged),
        (&without_header, PartialState::Damaged),
    ];
    for (make, state) in cases {
        let patch = make();
        let own = patch.strip_prefix(place.0.path()).unwrap().to_str().unwrap().to_owned();
        assert_eq!(place.found_at("a", None), [(own, state)]);
        assert!(matches!(place.partials("a", None)[0].remove().unwrap(), PartialRemoval::Removed));
        assert!(!patch.exists() && fs::read(&file).unwrap() == b"ayz");
    }
    // It was of no use when it was looked at, and is one that waits when it is to be removed.
    let patch = of_another();
    let early = &mut place.partials("a", None)[0];
    place.patch("a/db", inode, later);
    assert!(matches!(early.remove().unwrap(), PartialRemoval::Kept) && patch.exists());
}

#[test]
fn a_part_of_ranges_is_one_with_its_journals_and_a_range_at_work_keeps_all() {
    let place = Place::new();
    let dir = Dir::open_root(&place.path("")).unwrap();
    let name = Name::new(b"large").unwrap();
    let path = TargetPath { dir: dir.clone(), name: name.clone(), replaces: false };
    let version = FileVersion { device: 1, inode: 2, changed: Timestamp::default() };
    let (modified, frame) = (Timestamp::default(), FrameLen::new(256 << 10).unwrap());
    let size = 3 * RangeLen::MIN.get();
    let open = |number| {
        let range = RangeLen::MIN.range(number).unwrap();
        let header = JournalHeader { name: name.clone(), size, modified, version, frame, range: Some(range) };
        match open_range(&path, range, &header, None, &TempFiles::default(), &impatient()).unwrap() {
            FoundRange::New(open) => open,
            FoundRange::Partial(_) | FoundRange::Complete => panic!("a new range"),
        }
    };
    let (first, last) = (open(0), open(2));
    first.journal.record(1, &JournalRecord { check: 1, value: None });
    last.journal.record(9, &JournalRecord { check: 1, value: None });
    drop(first);
    let extent = PartialExtent { recorded: 2 * (256 << 10), size };
    for at in ["", "large"] {
        let found = place.found_at(at, None);
        let [(_, PartialState::Busy { extent: Some(busy), .. })] = found[..] else { panic!("{found:?}") };
        assert_eq!(busy, extent);
    }
    let mut busy = place.partials("", None);
    assert!(matches!(busy[0].remove().unwrap(), PartialRemoval::Kept));
    drop(last);
    assert_eq!(place.found_at("large", None)[0].1, PartialState::Part(extent));
    assert!(matches!(place.partials("", None)[0].remove().unwrap(), PartialRemoval::Removed));
    assert_eq!(fs::read_dir(place.path("")).unwrap().count(), 0);
    // A journal without its part.
    drop(open(1));
    let part = partial_name(&name, RangeLen::MIN);
    fs::remove_file(place.path("").join(part.to_string())).unwrap();
    let mut left = place.partials("", None);
    assert_eq!((left.len(), left[0].about.state), (1, PartialState::Journal));
    assert!(matches!(left[0].remove().unwrap(), PartialRemoval::Removed));
    assert_eq!(fs::read_dir(place.path("")).unwrap().count(), 0);
}
