//! A dry run of a sync at the target, without a source: its reports, and that it changes nothing.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use haul_base::control_channel::{ControlReader, ControlWriter};
use haul_base::sys::sync::lock;
use haul_proto::entry::{Entry, EntryContent, EntryLocation, EntryMetadata, Timestamp};
use haul_proto::entry_extras::EntryExtras;
use haul_proto::ids::EntryId;
use haul_proto::limits::PATH_MAX;
use haul_proto::overwrite_policy::OverwritePolicy;
use haul_proto::path::Name;
use haul_proto::sync::{ChangeKind, ChangeReasons, EarlierCopyUse, EqualityTest, SyncOptions};
use haul_proto::wire::control_channel::ControlChannel;
use haul_proto::wire::message::{SourceMessage, TargetMessage, TransferNeed};
use haul_proto::wire::preserve::{MetadataOptions, PreserveOptions};
use haul_proto::wire::report::{ItemReport, WorkerMessage};
use haul_proto::wire::request::{TargetOperand, TargetRequest};
use haul_proto::wire::write_options::WriteOptions;

use crate::metrics::reporter::Reporter;
use crate::receiver::TargetReceiver;
use crate::receiver::copy::WorkerContext;
use crate::testing::{SentReport, target_request};

/// Options for a dry run with reports.
fn dry() -> SyncOptions {
    SyncOptions { into: true, replaces_trees: true, is_dry: true, tells_items: true, ..SyncOptions::default() }
}

const NOW: Timestamp = Timestamp { seconds: 1_700_000_000, nanoseconds: 5 };

/// A target for the contents of one directory.
struct Site {
    target: TargetReceiver,
    said: SentReport,
    next: u64,
}

impl Site {
    fn new(path: &Path, sync: SyncOptions) -> Self {
        let operand = TargetOperand { name: None, directory: true, device: 0, inode: 0 };
        let write = WriteOptions { overwrite: OverwritePolicy::Follow, ..WriteOptions::default() };
        let preserve = PreserveOptions { hard_links: true, specials: true, ..Default::default() };
        let metadata = MetadataOptions { preserve, ..MetadataOptions::default() };
        let request = TargetRequest { sync, write, metadata, ..target_request(path, vec![operand]) };
        let said = SentReport::default();
        let reporter = Reporter::new(ControlWriter::new(said.clone()), false);
        let context = WorkerContext { umask: 0o022, ..WorkerContext::default() };
        let target = TargetReceiver::prepare(request, reporter, &context, None).map_err(|refused| refused.text);
        let mut site = Self { target: target.unwrap(), said, next: 0 };
        site.offer(EntryLocation::Operand(0), EntryContent::Directory, None);
        site
    }

    /// Offers an entry; returns the target's need.
    fn offer(&mut self, place: EntryLocation, kind: EntryContent, more: Option<EntryExtras>) -> TransferNeed {
        let meta = EntryMetadata { mode: 0o644, modified: NOW, ..EntryMetadata::default() };
        let entry = Entry { place, kind, meta, version: None, more: more.map(Box::new) };
        let offer = SourceMessage::Offer { first: EntryId(self.next), entries: vec![entry] };
        self.next += 1;
        self.target.handle_peer(&offer.encode(self.target.parts.copy.request.settings.number)).unwrap();
        let messages = self.target.parts.session.take_messages().into_iter();
        let mut needs = messages.filter_map(|message| match message {
            TargetMessage::Want { needs, .. } => needs.first().copied(),
            _ => None,
        });
        needs.next_back().unwrap()
    }

    fn child(&mut self, parent: u64, name: &str, kind: EntryContent) -> TransferNeed {
        let name = Name::new(name.as_bytes()).unwrap();
        self.offer(EntryLocation::Child { parent: EntryId(parent), name }, kind, None)
    }

    /// Reported items, with their paths below the target.
    fn items(&self, target: &Path) -> Vec<(String, ChangeKind)> {
        let bytes = lock(&self.said.0).clone();
        let mut reader = ControlReader::new(&bytes[..]);
        let mut items = Vec::new();
        while let Some((channel, content)) = reader.next_frame().unwrap() {
            assert_eq!(channel, ControlChannel::Controller);
            if let WorkerMessage::Item(ItemReport { path, item, .. }) = WorkerMessage::decode(content).unwrap() {
                assert!(path.len() <= PATH_MAX);
                let path = String::from_utf8(path).unwrap();
                items.push((path.trim_start_matches(target.to_str().unwrap()).into(), item.change));
            }
        }
        items
    }
}

fn file(size: u64) -> EntryContent {
    EntryContent::File { size }
}

fn touch(path: &Path, content: &str) {
    fs::write(path, content).unwrap();
    let time = std::time::UNIX_EPOCH + std::time::Duration::new(1_700_000_000, 5);
    fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

#[test]
fn a_dry_run_reports_all_changes_and_makes_none() {
    let temp = tempfile::tempdir().unwrap();
    let at = |name: &str| temp.path().join(name);
    touch(&at("same"), "abc");
    touch(&at("other"), "abcd");
    fs::create_dir(at("tree")).unwrap();
    touch(&at("tree/x"), "x");
    touch(&at("becomes"), "a directory");
    symlink("old", at("link")).unwrap();
    let before = fs::metadata(temp.path()).unwrap();

    let mut site = Site::new(temp.path(), dry());
    assert_eq!(site.child(0, "same", file(3)), TransferNeed::Nothing);
    assert_eq!(site.child(0, "other", file(3)), TransferNeed::Nothing);
    assert_eq!(site.child(0, "tree", file(3)), TransferNeed::Nothing);
    assert_eq!(site.child(0, "becomes", EntryContent::Directory), TransferNeed::All);
    assert_eq!(site.child(4, "in it", file(1)), TransferNeed::Nothing);
    assert_eq!(site.child(4, "deep", EntryContent::Directory), TransferNeed::All);
    assert_eq!(site.child(6, "deeper", EntryContent::Symlink { points_to: (*b"x").into() }), TransferNeed::Nothing);
    assert_eq!(site.child(0, "link", EntryContent::Symlink { points_to: (*b"new").into() }), TransferNeed::Nothing);
    assert_eq!(site.child(0, "new", file(9)), TransferNeed::Nothing);

    let items = site.items(temp.path());
    let without_removed: Vec<_> = items.iter().filter(|(_, change)| *change != ChangeKind::Removed).cloned().collect();
    let expected = [
        ("/other", ChangeKind::Replaced(ChangeReasons::SIZE)),
        ("/tree", ChangeKind::Replaced(ChangeReasons::KIND)),
        ("/becomes", ChangeKind::Replaced(ChangeReasons::KIND)),
        ("/becomes/in it", ChangeKind::Made),
        ("/becomes/deep", ChangeKind::Made),
        ("/becomes/deep/deeper", ChangeKind::Made),
        ("/link", ChangeKind::Replaced(ChangeReasons::CONTENT.and(ChangeReasons::TIME, true))),
        ("/new", ChangeKind::Made),
    ];
    let root_is_adjusted = matches!(without_removed.first(), Some((path, ChangeKind::Adjusted(_))) if path.is_empty());
    let told: Vec<_> = without_removed.into_iter().skip(usize::from(root_is_adjusted)).collect();
    assert_eq!(told, expected.map(|(path, change)| (path.to_owned(), change)));
    let after = fs::metadata(temp.path()).unwrap();
    assert_eq!((after.mtime(), after.mtime_nsec()), (before.mtime(), before.mtime_nsec()));
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 5);
    assert_eq!(fs::read_link(at("link")).unwrap(), Path::new("old"));
    assert!(at("tree/x").exists());
}

#[test]
fn a_missing_target_would_be_made() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("new");
    let mut site = Site::new(&path, dry());
    assert_eq!(site.child(0, "a", file(3)), TransferNeed::Nothing);
    let expected = [("".to_owned(), ChangeKind::Made), ("/a".to_owned(), ChangeKind::Made)];
    assert_eq!(site.items(&path), expected);
    assert!(!path.exists());
    drop(Site::new(&path, SyncOptions { is_dry: false, ..dry() }));
    assert!(path.is_dir());
}

#[test]
fn hard_links_of_a_kept_file_stay_and_those_of_a_replaced_one_do_not() {
    let temp = tempfile::tempdir().unwrap();
    for (first, second, content) in [("a", "b", "abc"), ("c", "d", "abcd")] {
        touch(&temp.path().join(first), content);
        fs::hard_link(temp.path().join(first), temp.path().join(second)).unwrap();
    }
    let mut site = Site::new(temp.path(), dry());
    let place = |name: &str| EntryLocation::Child { parent: EntryId(0), name: Name::new(name.as_bytes()).unwrap() };
    for (first, second) in [("a", "b"), ("c", "d")] {
        let to = EntryId(site.next);
        site.offer(place(first), file(3), Some(EntryExtras { names: Some(2), ..EntryExtras::default() }));
        // As in a real run, the first name decides the need, and nothing is sent for it.
        assert_eq!(site.offer(place(second), EntryContent::HardLink { to, size: 3 }, None), TransferNeed::All);
    }
    let items = site.items(temp.path());
    let of_link = ChangeReasons::LINK.and(ChangeReasons::SIZE, true);
    let expected = [("/c", ChangeKind::Replaced(ChangeReasons::SIZE)), ("/d", ChangeKind::Replaced(of_link))];
    assert_eq!(items[items.len() - 2..], expected.map(|(path, change)| (path.to_owned(), change)));
    assert!(!items.iter().any(|(path, _)| path == "/a" || path == "/b"));
}

#[test]
fn a_file_of_an_earlier_copy_becomes_a_hard_link() {
    let temp = tempfile::tempdir().unwrap();
    let (earlier, now) = (temp.path().join("1"), temp.path().join("2"));
    fs::create_dir(&earlier).unwrap();
    touch(&earlier.join("same"), "abc");
    touch(&earlier.join("other"), "abcd");
    let sync = SyncOptions { is_dry: false, link_dests: vec![b"../0".to_vec(), b"../1".to_vec()], ..dry() };
    let mut site = Site::new(&now, sync.clone());
    assert_eq!(site.child(0, "same", file(3)), TransferNeed::Nothing);
    assert_eq!(site.child(0, "other", file(3)), TransferNeed::All);
    let inode = |path: &Path| fs::metadata(path).unwrap().ino();
    assert_eq!(inode(&now.join("same")), inode(&earlier.join("same")));
    let expected = [("", ChangeKind::Made), ("/same", ChangeKind::Linked), ("/other", ChangeKind::Made)];
    // Sent files are reported once complete.
    let done = expected[..2].iter().map(|(path, change)| ((*path).to_owned(), *change));
    assert_eq!(site.items(&now), done.collect::<Vec<_>>());

    let third = temp.path().join("3");
    let mut site = Site::new(&third, SyncOptions { is_dry: true, ..sync });
    assert_eq!(site.child(0, "same", file(3)), TransferNeed::Nothing);
    assert_eq!(site.child(0, "other", file(3)), TransferNeed::Nothing);
    assert_eq!(site.items(&third), expected.map(|(path, change)| (path.to_owned(), change)));
    assert!(!third.exists());
}

#[test]
fn a_file_of_an_earlier_copy_is_copied_or_not_created() {
    let temp = tempfile::tempdir().unwrap();
    let earlier = temp.path().join("1");
    fs::create_dir(&earlier).unwrap();
    touch(&earlier.join("same"), "abc");
    touch(&earlier.join("other"), "abcd");
    for earlier_use in [EarlierCopyUse::Copy, EarlierCopyUse::Compare] {
        for is_dry in [true, false] {
            let now = temp.path().join(format!("{earlier_use:?} {is_dry}"));
            let sync = SyncOptions { is_dry, earlier_use, link_dests: vec![b"../1".to_vec()], ..dry() };
            let mut site = Site::new(&now, sync.clone());
            assert_eq!(site.child(0, "same", file(3)), TransferNeed::Nothing);
            let need = if is_dry { TransferNeed::Nothing } else { TransferNeed::All };
            assert_eq!(site.child(0, "other", file(3)), need);
            let same = now.join("same");
            assert_eq!(same.exists(), earlier_use == EarlierCopyUse::Copy && !is_dry);
            if same.exists() {
                let meta = |path: &Path| fs::metadata(path).map(|meta| (meta.ino(), meta.mtime())).unwrap();
                let (copy, original) = (meta(&same), meta(&earlier.join("same")));
                assert!(copy.0 != original.0 && copy.1 == original.1 && fs::read(&same).unwrap() == b"abc");
            }
            // rsync removes a file that an earlier copy makes superfluous.
            if earlier_use == EarlierCopyUse::Compare && !is_dry {
                touch(&same, "old");
                drop(site);
                assert_eq!(Site::new(&now, sync).child(0, "same", file(3)), TransferNeed::Nothing);
                assert!(!same.exists());
            }
        }
    }
}

#[test]
fn an_offered_digest_decides() {
    let temp = tempfile::tempdir().unwrap();
    touch(&temp.path().join("a"), "abc");
    let mut site = Site::new(temp.path(), SyncOptions { is_dry: false, equal: EqualityTest::Digest, ..dry() });
    let place = || EntryLocation::Child { parent: EntryId(0), name: Name::new(b"a").unwrap() };
    let digest = |text: &str| {
        Some(EntryExtras { digest: Some(*blake3::hash(text.as_bytes()).as_bytes()), ..EntryExtras::default() })
    };
    assert_eq!(site.offer(place(), file(3), digest("abc")), TransferNeed::Nothing);
    assert_eq!(site.offer(place(), file(3), digest("abd")), TransferNeed::All);
    assert_eq!(site.offer(place(), file(3), None), TransferNeed::All, "nothing was told");
}

#[test]
fn two_files_of_the_source_do_not_stay_names_of_one() {
    let temp = tempfile::tempdir().unwrap();
    touch(&temp.path().join("a"), "abc");
    fs::hard_link(temp.path().join("a"), temp.path().join("b")).unwrap();
    let mut site = Site::new(temp.path(), SyncOptions { is_dry: false, ..dry() });
    assert_eq!(site.child(0, "a", file(3)), TransferNeed::Nothing);
    assert_eq!(site.child(0, "b", file(3)), TransferNeed::All);
    // Two runs do not copy into one directory.
    drop(site);
    let mut site = Site::new(temp.path(), dry());
    assert_eq!(site.child(0, "a", file(3)), TransferNeed::Nothing);
    assert_eq!(site.child(0, "b", file(3)), TransferNeed::Nothing);
    let items = site.items(temp.path());
    assert_eq!(items.last(), Some(&("/b".to_owned(), ChangeKind::Replaced(ChangeReasons::LINK))));
}

#[test]
fn with_existing_nothing_would_be_made_below_a_new_directory() {
    let temp = tempfile::tempdir().unwrap();
    touch(&temp.path().join("becomes"), "a directory");
    let mut changes = Vec::new();
    for is_dry in [true, false] {
        let mut site = Site::new(temp.path(), SyncOptions { existing_only: true, is_dry, ..dry() });
        assert_eq!(site.child(0, "becomes", EntryContent::Directory), TransferNeed::All);
        assert_eq!(site.child(1, "file", file(1)), TransferNeed::Refused);
        assert_eq!(site.child(1, "link", EntryContent::Symlink { points_to: (*b"x").into() }), TransferNeed::Refused);
        changes
            .push(site.items(temp.path()).into_iter().filter(|(path, _)| path.contains("becomes")).collect::<Vec<_>>());
    }
    assert_eq!(changes[0], [("/becomes".to_owned(), ChangeKind::Replaced(ChangeReasons::KIND))]);
    assert_eq!(changes[0], changes[1]);
}

#[test]
fn hard_links_of_a_refused_file_fail_in_a_dry_run_too() {
    let temp = tempfile::tempdir().unwrap();
    fs::create_dir(temp.path().join("a")).unwrap();
    touch(&temp.path().join("a/x"), "x");
    for is_dry in [true, false] {
        // The directory in the place of the first name must stay.
        let mut site = Site::new(temp.path(), SyncOptions { is_dry, replaces_trees: false, ..dry() });
        let place = |name: &str| EntryLocation::Child { parent: EntryId(0), name: Name::new(name.as_bytes()).unwrap() };
        let more = Some(EntryExtras { names: Some(2), ..EntryExtras::default() });
        assert_eq!(site.offer(place("a"), file(3), more), TransferNeed::Refused);
        site.offer(place("b"), EntryContent::HardLink { to: EntryId(1), size: 3 }, None);
        assert!(!site.items(temp.path()).iter().any(|(path, _)| path == "/b" || path == "/a"), "dry: {is_dry}");
        assert_eq!(site.target.parts.copy.reporter.tally.counters().failed, 2, "dry: {is_dry}");
    }
}

#[test]
fn links_sharing_an_inode_become_two_in_both_runs() {
    let temp = tempfile::tempdir().unwrap();
    symlink("x", temp.path().join("a")).unwrap();
    fs::hard_link(temp.path().join("a"), temp.path().join("b")).unwrap();
    let mut changes = Vec::new();
    for is_dry in [true, false] {
        let mut site = Site::new(temp.path(), SyncOptions { is_dry, ..dry() });
        for name in ["a", "b"] {
            site.child(0, name, EntryContent::Symlink { points_to: (*b"x").into() });
        }
        changes.push(site.items(temp.path()).into_iter().filter(|(path, _)| path.len() == 2).collect::<Vec<_>>());
    }
    let expected =
        [("/a", ChangeKind::Replaced(ChangeReasons::TIME)), ("/b", ChangeKind::Adjusted(ChangeReasons::TIME))];
    assert_eq!(changes[0], expected.map(|(path, change)| (path.to_owned(), change)));
    assert_eq!(changes[0], changes[1]);
    let inode = |name: &str| fs::symlink_metadata(temp.path().join(name)).unwrap().ino();
    assert_ne!(inode("a"), inode("b"));
}

#[test]
fn parents_of_files_in_a_dry_run_are_not_made() {
    let temp = tempfile::tempdir().unwrap();
    let name = |text: &str| Name::new(text.as_bytes()).unwrap();
    let operand = TargetOperand { name: Some(name("file")), directory: false, device: 0, inode: 0 };
    let below = vec![vec![name("a"), name("b")]];
    let request = TargetRequest { sync: dry(), below, ..target_request(temp.path(), vec![operand]) };
    let said = SentReport::default();
    let reporter = Reporter::new(ControlWriter::new(said.clone()), false);
    let target =
        TargetReceiver::prepare(request, reporter, &WorkerContext::default(), None).map_err(|refused| refused.text);
    let mut site = Site { target: target.unwrap(), said, next: 0 };
    assert_eq!(site.offer(EntryLocation::Operand(0), file(3), None), TransferNeed::Nothing);
    assert_eq!(site.items(temp.path()), [("/a/b/file".to_owned(), ChangeKind::Made)]);
    assert!(!temp.path().join("a").exists());
}
