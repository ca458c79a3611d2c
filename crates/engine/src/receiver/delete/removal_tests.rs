//! Removals at the target, backups, and entries that always stay.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use haul_base::control_channel::{ControlReader, ControlWriter};
use haul_proto::entry::{EntryContent, EntryMetadata, Timestamp};
use haul_proto::ids::EntryId;
use haul_proto::sync::{ChangeKind, EqualityTest, SyncOptions};
use haul_proto::wire::message::{SourceMessage, TargetMessage, TransferNeed};
use haul_proto::wire::report::ItemReport;

use super::*;
use crate::fs::testing::name;
use crate::metrics::reporter::Reporter;
use crate::receiver::TargetReceiver;
use crate::receiver::copy::WorkerContext;
use crate::testing::{SentReport, target_request};

/// Modification time of all offered entries.
pub const THEN: Timestamp = Timestamp { seconds: 1_600_000_000, nanoseconds: 5 };

/// A temporary directory with a target.
pub struct Site {
    pub temp: tempfile::TempDir,
    pub target: TargetReceiver,
    said: SentReport,
    next: u64,
}

impl Site {
    /// A target with these paths; those of directories end in a slash.
    pub fn new(paths: &[&str], sync: SyncOptions) -> Self {
        Self::of(paths, |request, _| {
            request.sync = SyncOptions { tells_items: true, equal: EqualityTest::Size, ..sync }
        })
    }

    /// As [`Self::new`], with changes to the request; `set` also gets the temporary directory.
    pub fn of(paths: &[&str], set: impl FnOnce(&mut TargetRequest, &Path)) -> Self {
        let memory = Path::new("/dev/shm");
        let temp = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
        let root = temp.path().join("target");
        fs::create_dir(&root).unwrap();
        paths.iter().for_each(|path| make(&root.join(path)));
        let operand = TargetOperand { name: None, directory: true, device: 0, inode: 0 };
        let mut request = target_request(&root, vec![operand]);
        set(&mut request, temp.path());
        let said = SentReport::default();
        let target = prepare(request, said.clone()).unwrap();
        Self { temp, target, said, next: 0 }
    }

    pub fn root(&self) -> PathBuf {
        self.temp.path().join("target")
    }

    pub fn dir(&self) -> Dir {
        self.target.parts.copy.destination.dir().unwrap().clone()
    }

    pub fn removed(&self) -> u64 {
        self.target.parts.copy.reporter.sync.removed.load(Ordering::Relaxed)
    }

    pub fn tell(&self, message: &SourceMessage) {
        self.target.handle_peer(&message.encode(self.target.parts.copy.request.settings.number)).unwrap();
    }

    /// Offers an entry; returns the target's need.
    pub fn offer(&mut self, place: EntryLocation, kind: EntryContent) -> TransferNeed {
        let meta = EntryMetadata { mode: 0o755, modified: THEN, ..EntryMetadata::default() };
        let entry = Entry { place, kind, meta, version: None, more: None };
        self.tell(&SourceMessage::Offer { first: EntryId(self.next), entries: vec![entry] });
        self.next += 1;
        let messages = self.target.parts.session.take_messages().into_iter();
        let mut needs = messages.filter_map(|message| match message {
            TargetMessage::Want { needs, .. } => needs.first().copied(),
            _ => None,
        });
        needs.next_back().unwrap()
    }

    pub fn operand(&mut self) -> TransferNeed {
        self.offer(EntryLocation::Operand(0), EntryContent::Directory)
    }

    pub fn child(&mut self, parent: u64, text: &str, kind: EntryContent) -> TransferNeed {
        self.offer(EntryLocation::Child { parent: EntryId(parent), name: name(text) }, kind)
    }

    /// A file as [`make`] makes it.
    pub fn file(&mut self, parent: u64, text: &str) -> TransferNeed {
        self.child(parent, text, EntryContent::File { size: text.len() as u64 })
    }

    pub fn end(&self, entry: u64, complete: bool) {
        self.tell(&SourceMessage::DirectoryEnd { entry: EntryId(entry), listing: complete.into() });
    }

    /// Ends the only source argument, and with it the copy.
    pub fn finish(&self) {
        self.end(0, true);
        self.tell(&SourceMessage::OffersEnd);
        self.target.parts.session.take_messages();
        assert!(self.target.parts.session.is_finished());
        assert!(self.target.wait_for_messages().is_none());
    }

    /// All reports.
    pub fn told(&self) -> Vec<WorkerMessage> {
        let bytes = lock(&self.said.0).clone();
        let mut reader = ControlReader::new(&bytes[..]);
        let mut told = Vec::new();
        while let Some((_, content)) = reader.next_frame().unwrap() {
            told.push(WorkerMessage::decode(content).unwrap());
        }
        told
    }

    /// Reported removals, with paths below the target.
    pub fn items(&self) -> Vec<String> {
        let root = self.root().to_str().unwrap().to_owned() + "/";
        let removed = |message| match message {
            WorkerMessage::Item(ItemReport { path, item, .. }) if item.change == ChangeKind::Removed => {
                Some(String::from_utf8(path).unwrap().strip_prefix(&root).unwrap().to_owned())
            }
            _ => None,
        };
        self.told().into_iter().filter_map(removed).collect()
    }

    /// Reported failures.
    pub fn failures(&self) -> Vec<String> {
        let failed = |message| if let WorkerMessage::FileFailed { text, .. } = message { Some(text) } else { None };
        self.told().into_iter().filter_map(failed).collect()
    }

    pub fn notices(&self) -> usize {
        self.told().iter().filter(|message| matches!(message, WorkerMessage::Warning { .. })).count()
    }
}

fn prepare(request: TargetRequest, said: SentReport) -> Result<TargetReceiver, String> {
    let reporter = Reporter::new(ControlWriter::new(said), false);
    let context = WorkerContext { umask: 0o022, ..WorkerContext::default() };
    TargetReceiver::prepare(request, reporter, &context, None).map_err(|refused| refused.text)
}

pub fn make(path: &Path) {
    if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        fs::create_dir_all(path).unwrap();
    } else {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, path.file_name().unwrap().as_encoded_bytes()).unwrap();
    }
}

/// Sorted paths of all entries below.
pub fn tree(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = vec![root.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap()) {
            found.push(entry.path().strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            if entry.file_type().unwrap().is_dir() {
                left.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

fn replacing() -> SyncOptions {
    SyncOptions { replaces_trees: true, ..SyncOptions::default() }
}

fn with_backups() -> SyncOptions {
    SyncOptions { backup_dir: b"../old".to_vec(), ..replacing() }
}

impl Removals {
    /// Decides that an existing entry may be replaced, and removes it.
    fn make_way(&self, dir: &Dir, name: &Name, place: &EntryLocation) -> Result<(), FileError> {
        self.clear_for_replacement(dir, name, &self.may_clear(dir, name, place)?)
    }
}

#[test]
fn an_obstructing_tree_is_removed_completely_on_request() {
    let paths = ["a/b/c", "a/d/", "a/e", "f"];
    let site = Site::new(&paths, replacing());
    site.target.parts.removals.make_way(&site.dir(), &name("a"), &EntryLocation::Operand(0)).unwrap();
    assert_eq!(tree(&site.root()), ["f"]);
    assert_eq!(site.removed(), 4, "a itself is replaced");
    site.target.parts.removals.make_way(&site.dir(), &name("f"), &EntryLocation::Operand(0)).unwrap();
    site.target.parts.removals.make_way(&site.dir(), &name("f"), &EntryLocation::Operand(0)).unwrap();
    assert_eq!((tree(&site.root()).len(), site.removed()), (0, 4));

    let site = Site::new(&paths, SyncOptions::default());
    let refused = site.target.parts.removals.make_way(&site.dir(), &name("a"), &EntryLocation::Operand(0)).unwrap_err();
    assert_eq!(refused.to_string(), OverwriteRefusal::IsDirectory.text());
    fs::remove_file(site.root().join("a/e")).unwrap();
    site.target
        .parts
        .removals
        .make_way(&site.dir().child(&name("a")).unwrap(), &name("d"), &EntryLocation::Operand(0))
        .unwrap();
    assert_eq!(tree(&site.root()), ["a", "a/b", "a/b/c", "f"]);
}

#[test]
fn an_obstructing_tree_is_only_counted_in_a_dry_run() {
    let paths = ["a/b/c", "f"];
    let site = Site::new(&paths, SyncOptions { is_dry: true, ..with_backups() });
    ["a", "f"].iter().for_each(|way| {
        site.target.parts.removals.make_way(&site.dir(), &name(way), &EntryLocation::Operand(0)).unwrap()
    });
    site.target.parts.removals.back_up(&site.dir(), &name("f")).unwrap();
    assert_eq!((tree(&site.root()).len(), site.removed()), (4, 2));
    assert!(!site.temp.path().join("old").exists());
    let site = Site::new(&paths, SyncOptions { is_dry: true, ..SyncOptions::default() });
    assert!(site.target.parts.removals.make_way(&site.dir(), &name("a"), &EntryLocation::Operand(0)).is_err());
}

#[test]
fn an_obstructing_tree_stays_intact_if_part_of_it_is_protected() {
    let paths = ["a/b/c", "a/e", "g/.haul-0123456789abcdef01234567.part", "g/h"];
    let site = Site::new(&paths, SyncOptions { delete_max: Some(2), ..replacing() });
    for way in ["a", "g"] {
        site.target.parts.removals.make_way(&site.dir(), &name(way), &EntryLocation::Operand(0)).unwrap_err();
    }
    assert_eq!((tree(&site.root()).len(), site.removed()), (7, 0));
    fs::remove_file(site.root().join("a/e")).unwrap();
    site.target.parts.removals.make_way(&site.dir(), &name("a"), &EntryLocation::Operand(0)).unwrap();
    assert_eq!((tree(&site.root()).len(), site.removed()), (3, 2));
}

#[test]
fn a_replaced_file_has_its_backup_name_before_it_is_gone() {
    let site = Site::new(&["a/b", "a/c"], with_backups());
    let old = site.temp.path().join("old");
    fs::set_permissions(site.root().join("a"), PermissionsExt::from_mode(0o750)).unwrap();
    let dir = site.dir().child(&name("a")).unwrap();
    symlink("nowhere", site.root().join("a/link")).unwrap();
    let inode = |path: &Path| fs::symlink_metadata(path).unwrap().ino();
    for entry in ["b", "link", "missing"] {
        site.target.parts.removals.back_up(&dir, &name(entry)).unwrap();
    }
    for entry in ["b", "link"] {
        assert_eq!(inode(&old.join("a").join(entry)), inode(&site.root().join("a").join(entry)));
    }
    assert_eq!(fs::metadata(old.join("a")).unwrap().mode() & 0o777, 0o750);
    // An earlier backup is replaced, even if it is the same file.
    for _ in 0..2 {
        fs::remove_file(site.root().join("a/b")).unwrap();
        fs::write(site.root().join("a/b"), "later").unwrap();
        site.target.parts.removals.back_up(&dir, &name("b")).unwrap();
        site.target.parts.removals.back_up(&dir, &name("b")).unwrap();
        assert_eq!(fs::read(old.join("a/b")).unwrap(), b"later");
        assert_eq!(fs::read(site.root().join("a/b")).unwrap(), b"later");
    }
    assert_eq!(tree(&old), ["a", "a/b", "a/link"]);
    site.target.parts.removals.make_way(&site.dir(), &name("a"), &EntryLocation::Operand(0)).unwrap();
    assert_eq!(
        (tree(&site.root()).len(), tree(&old)),
        (0, vec!["a".into(), "a/b".into(), "a/c".into(), "a/link".into()])
    );
    assert_eq!(site.target.parts.copy.reporter.sync.backed_up.load(Ordering::Relaxed), 9);
}

#[test]
fn backups_follow_no_link_and_replace_no_directory_with_contents() {
    let site = Site::new(&["a/b", "c", "d/e", "f"], with_backups());
    let (old, outside) = (site.temp.path().join("old"), site.temp.path().join("outside"));
    fs::create_dir(&outside).unwrap();
    symlink(&outside, old.join("a")).unwrap();
    make(&old.join("c/in it"));
    make(&old.join("f/"));
    make(&old.join("d"));
    let at = |path: &str| site.dir().child(&name(path)).unwrap();
    for (dir, entry) in [(at("a"), "b"), (site.dir(), "c"), (at("d"), "e")] {
        let error = site.target.parts.removals.back_up(&dir, &name(entry)).unwrap_err().to_string();
        assert!(error.starts_with("the backup directory has another entry"), "{error}");
        site.target.parts.removals.remove_or_back_up(&dir, &name(entry)).unwrap_err();
    }
    assert_eq!((tree(&outside).len(), tree(&old).len()), (0, 5));
    site.target.parts.removals.back_up(&site.dir(), &name("f")).unwrap();
    assert!(old.join("f").is_file(), "an empty directory makes way");
    assert_eq!(tree(&site.root()), ["a", "a/b", "c", "d", "d/e", "f"]);
}

#[test]
fn a_backup_beside_a_file_has_the_suffix_and_gets_none_itself() {
    let beside = SyncOptions { backup_suffix: b"~".to_vec(), ..replacing() };
    let site = Site::new(&["a", "a~", "b", "d/x", "d/x~", "e/", "f", "f~/in it"], beside);
    let (removals, dir) = (&site.target.parts.removals, site.dir());
    let inode = |path: &str| fs::symlink_metadata(site.root().join(path)).unwrap().ino();
    removals.back_up(&dir, &name("a")).unwrap();
    assert_eq!(inode("a~"), inode("a"), "it replaces an earlier one");
    for entry in ["a~", "b", "missing"] {
        removals.remove_or_back_up(&dir, &name(entry)).unwrap();
    }
    for error in [removals.back_up(&dir, &name("f")), removals.remove_or_back_up(&dir, &name("f")).map(|_| ())] {
        assert!(error.unwrap_err().to_string().contains("use another --suffix"));
    }
    // The backups in a directory keep it from being replaced.
    removals.make_way(&dir, &name("e"), &EntryLocation::Operand(0)).unwrap();
    assert!(matches!(
        removals.make_way(&dir, &name("d"), &EntryLocation::Operand(0)),
        Err(FileError::UndeletableTree | FileError::ProtectedTree)
    ));
    assert_eq!(tree(&site.root()), ["a", "b~", "d", "d/x", "d/x~", "f", "f~", "f~/in it"]);
}

#[test]
fn backups_beside_the_entries_stay_with_their_directories() {
    for (delete, delete_filtered) in
        [(DeleteMode::During, false), (DeleteMode::After, false), (DeleteMode::After, true)]
    {
        let backup_suffix = b"~".to_vec();
        let sync = SyncOptions {
            backup_suffix,
            delete_filtered,
            delete,
            delete_max: Some(u64::MAX),
            ..SyncOptions::default()
        };
        let mut site = Site::new(&["x", "old~", "d/y", "d/old~", "e/", "s/", "s~"], sync);
        site.operand();
        site.child(0, "s", EntryContent::Directory);
        site.end(1, true);
        site.finish();
        let (kept, removed) = (["d", "d/y~", "s", "s~", "x~"], ["d/old~", "old~"]);
        let mut expected: Vec<_> = kept.iter().chain(removed.iter().filter(|_| !delete_filtered)).collect();
        expected.sort();
        assert_eq!(tree(&site.root()).iter().collect::<Vec<_>>(), expected, "{delete:?} {delete_filtered}");
        assert_eq!(site.failures().len(), 0);
    }
}

#[test]
fn an_impossible_backup_directory_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    let operand = || TargetOperand { name: None, directory: true, device: 0, inode: 0 };
    let refused = |path: &str| {
        let request = target_request(temp.path(), vec![operand()]);
        let sync = SyncOptions { backup_dir: path.as_bytes().to_vec(), ..SyncOptions::default() };
        prepare(TargetRequest { sync, ..request }, SentReport::default()).err().unwrap_or_default()
    };
    assert!(refused(".").contains("is the target itself"));
    fs::write(temp.path().join("file"), "").unwrap();
    assert!(refused("file").contains("file: "), "{}", refused("file"));
    assert_eq!(refused("inside/deep"), "");
    assert!(temp.path().join("inside/deep").is_dir());
}

#[test]
fn backups_on_another_file_system_are_copies() {
    let device = |path: &Path| fs::metadata(path).map(|meta| meta.dev()).ok();
    let paths = ["a/b", "c", "d"];
    let Ok(elsewhere) = tempfile::tempdir_in("/dev/shm") else { return };
    let backup_dir = elsewhere.path().join("old");
    let sync = SyncOptions { backup_dir: backup_dir.clone().into_os_string().into_encoded_bytes(), ..replacing() };
    let site = Site::new(&paths, sync);
    if device(elsewhere.path()) == device(&site.root()) {
        return;
    }
    fs::remove_file(site.root().join("d")).unwrap();
    symlink("to", site.root().join("d")).unwrap();
    fs::write(backup_dir.join("c"), "an earlier backup").unwrap();
    fs::set_permissions(site.root().join("c"), fs::Permissions::from_mode(0o640)).unwrap();
    let expected = ["c", "a/b"].map(|path| fs::metadata(site.root().join(path)).unwrap());
    let (dir, removals) = (site.dir(), &site.target.parts.removals);
    removals.back_up(&dir, &name("c")).unwrap();
    assert!(site.root().join("c").exists());
    assert!(removals.remove_or_back_up(&dir.child(&name("a")).unwrap(), &name("b")).unwrap());
    assert!(removals.remove_or_back_up(&dir, &name("d")).unwrap());
    for (path, expected) in ["c", "a/b"].into_iter().zip(expected) {
        let found = fs::metadata(backup_dir.join(path)).unwrap();
        assert_eq!(
            (found.len(), found.mode(), found.modified().unwrap()),
            (expected.len(), expected.mode(), expected.modified().unwrap())
        );
    }
    assert_eq!(fs::read_link(backup_dir.join("d")).unwrap(), Path::new("to"));
    assert_eq!(tree(&site.root()), ["a", "c"]);
    assert_eq!(tree(&backup_dir), ["a", "a/b", "c", "d"]);
}

#[test]
fn with_several_merged_sources_extraneous_entries_are_unknown() {
    let temp = tempfile::tempdir().unwrap();
    let operand =
        |text: &str| TargetOperand { name: Name::new(text.as_bytes()).ok(), directory: true, device: 0, inode: 0 };
    let refused = |operands: &[&str], delete| {
        let operands = operands.iter().map(|text| operand(text)).collect();
        let sync = SyncOptions { into: true, delete, ..SyncOptions::default() };
        prepare(TargetRequest { sync, ..target_request(temp.path(), operands) }, SentReport::default()).err()
    };
    for delete in [DeleteMode::During, DeleteMode::After, DeleteMode::Only] {
        assert_eq!(refused(&["", ""], delete).as_deref(), Some(MERGED), "{delete:?}");
        assert_eq!(refused(&["", "b"], delete).as_deref(), Some(MERGED), "{delete:?}");
        assert_eq!(refused(&["a", "b"], delete), None);
        assert_eq!(refused(&[""], delete), None);
    }
    assert_eq!(refused(&["", ""], DeleteMode::No), None);
    let refused_below = |names: [&str; 2], is_directory| {
        let mut operands = vec![operand(names[0]), operand("c")];
        operands[1].directory = is_directory;
        let below = vec![Vec::new(), vec![name(names[1])]];
        let sync = SyncOptions { into: true, delete: DeleteMode::During, ..SyncOptions::default() };
        let request = TargetRequest { sync, below, ..target_request(temp.path(), operands) };
        prepare(request, SentReport::default()).err()
    };
    assert_eq!(refused_below(["a", "a"], true).as_deref(), Some(MERGED));
    assert_eq!((refused_below(["a", "b"], true), refused_below(["a", "a"], false)), (None, None));
}
